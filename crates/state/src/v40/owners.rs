//! State-owners of a client, their lifetime, and the order of their requests (RFC 7530 sections
//! 9.1.5 to 9.1.10).
//!
//! An owner outlives its opens and locks, so that a copy of the last CLOSE gets its answer and the
//! next OPEN needs no confirmation. An owner without opens or locks is removed a while after its
//! last request, or when there are too many.

use super::sequence::{OwnerSequence, Turn};
use super::{OwnerKind, V40Client};
use crate::V40;
use crate::clients::tenants::{Tenant, TenantPool};
use crate::clients::{Client, ClientState};
use crate::order::{Held, NothingHeld};
use crate::sessions::nanoseconds;
use crate::slab::SlabKey;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::sync::{Mutex, PoisonError, TryLockError};
use crate::{ClientKey, Effects, Nfsstat4, Principal, Result};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

/// An open-owner or lock-owner of an NFSv4.0 client.
#[derive(Debug)]
pub struct StateOwner {
    pub(super) client: ClientKey,
    pub(super) kind: OwnerKind,
    pub(super) name: Arc<[u8]>,
    /// When it was heard of last, in nanoseconds.
    pub(super) used: AtomicU64,
    pub(super) sequence: Mutex<OwnerSequence>,
}

impl StateOwner {
    /// Waits for the turn of a request, behind others of this owner. A thread that waits holds no
    /// lock of this crate: the turn precedes all of them.
    pub fn turn(&self) -> Turn<'_> {
        let _: Held<NothingHeld> = Held::nothing();
        Turn { owner: self, sequence: self.sequence.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    /// As [`StateOwner::turn`], without waiting: `None` while another request has the turn.
    pub fn try_turn(&self) -> Option<Turn<'_>> {
        let sequence = match self.sequence.try_lock() {
            Ok(sequence) => sequence,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(Turn { owner: self, sequence })
    }

    /// Notes that it was heard of.
    pub(super) fn touch(&self, now: Duration) {
        self.used.store(nanoseconds(now), Relaxed);
    }

    /// Returns the key of the owner's client.
    pub fn client(&self) -> ClientKey {
        self.client
    }
}

/// The owners of a client.
#[derive(Debug, Default)]
pub(crate) struct OwnerLedger {
    pub(super) all: BTreeMap<(OwnerKind, Arc<[u8]>), Arc<StateOwner>>,
    /// When it was last searched for removable owners.
    pub(super) swept: Duration,
}

impl OwnerLedger {
    /// Removes unused owners that `goes` selects.
    fn retain(&mut self, goes: impl Fn(&StateOwner) -> bool) -> Vec<Arc<StateOwner>> {
        let spare = |_: &(OwnerKind, Arc<[u8]>), owner: &mut Arc<StateOwner>| {
            Arc::strong_count(owner) == 1 && goes(owner)
        };
        self.all.extract_if(.., spare).map(|(_, owner)| owner).collect()
    }
}

/// Whether an owner has opens or lock stateids.
fn is_in_use(client_state: &ClientState, owner: &StateOwner) -> bool {
    match owner.kind {
        OwnerKind::Open => client_state.open_owners.contains_key(&owner.name),
        OwnerKind::Lock => client_state.lock_owners.contains_key(&owner.name),
    }
}

/// The names of open-owners.
pub(super) struct Names(Vec<Arc<[u8]>>);

impl Names {
    pub(super) fn any_in(&self, owners: &BTreeMap<Arc<[u8]>, SlabKey>) -> bool {
        self.0.iter().any(|name| owners.contains_key(name))
    }
}

impl V40Client {
    /// The open-owners for which this principal has opened something.
    pub(super) fn owners_of(&self, principal: &Principal) -> Names {
        let ledger = self.ledger.lock();
        let opened = |owner: &StateOwner| {
            owner.try_turn().is_some_and(|turn| turn.sequence.principal.as_ref() == Some(principal))
        };
        let open = ledger.all.iter().filter(|((kind, _), owner)| *kind == OwnerKind::Open && opened(owner));
        Names(open.map(|(_, owner)| Arc::clone(&owner.name)).collect())
    }

    pub(super) fn find_owner(&self, kind: OwnerKind, name: &Arc<[u8]>) -> Option<Arc<StateOwner>> {
        self.ledger.lock().all.get(&(kind, Arc::clone(name))).cloned()
    }
}

impl<F: Clone + Eq + Hash, O> V40<'_, F, O> {
    /// Finds an owner by its name, or takes note of a new one.
    ///
    /// # Errors
    /// NFS4ERR_EXPIRED (the client is gone), NFS4ERR_RESOURCE (too many owners of the client or of
    /// its tenant that all have something open or locked).
    pub fn state_owner(
        &self,
        now: Duration,
        client: ClientKey,
        kind: OwnerKind,
        name: &[u8],
    ) -> Result<Arc<StateOwner>> {
        let record = self.state.client(client).map_err(|_| Nfsstat4::NFS4ERR_EXPIRED)?;
        let v40 = record.v40.as_ref().ok_or(Nfsstat4::NFS4ERR_EXPIRED)?;
        let name: Arc<[u8]> = name.into();
        if let Some(owner) = v40.find_owner(kind, &name) {
            owner.touch(now);
            return Ok(owner);
        }
        let held = &mut Held::nothing();
        let tenant = &record.tenant;
        let is_full = !self.owners_pool().admits(tenant.owners.load(Relaxed));
        let has_room = is_full && self.make_room_for_owner(held, &record);
        let client_state = record.lock(held).map_err(|_| Nfsstat4::NFS4ERR_EXPIRED)?;
        let mut ledger = v40.ledger.lock();
        // Counted before it is there: of several threads at the limit none gets beyond it.
        let pool = self.owners_pool();
        let own = tenant.owners.fetch_add(1, Relaxed);
        let all = self.state.v40.owners.fetch_add(1, Relaxed);
        let mut gone = Vec::new();
        if ledger.all.len() >= self.state.limits.owners_per_client_max
            || !(TenantPool { all, ..pool }).admits(own)
        {
            gone = ledger.retain(|owner| !is_in_use(&client_state, owner));
            if gone.is_empty() && !has_room {
                self.uncount_owners(tenant, 1);
                return Err(Nfsstat4::NFS4ERR_RESOURCE);
            }
        }
        let sequence = Mutex::default();
        let used = AtomicU64::new(nanoseconds(now));
        let owner = Arc::new(StateOwner { client, kind, name: Arc::clone(&name), used, sequence });
        let owner = match ledger.all.entry((kind, name)) {
            Entry::Occupied(there) => {
                // Another thread was faster.
                self.uncount_owners(tenant, 1);
                Arc::clone(there.get())
            }
            Entry::Vacant(place) => Arc::clone(place.insert(owner)),
        };
        drop(ledger);
        self.drop_owners(tenant, &gone);
        Ok(owner)
    }

    fn owners_pool(&self) -> TenantPool {
        let (max, all) = (self.state.limits.owners_max, self.state.v40.owners());
        TenantPool { max, all, holders: self.state.tenants.len() }
    }

    /// Removes the unused owners of the client that has most owners of a client's tenant, so that
    /// one with few of them finds room beside the others. Returns whether they were the client's
    /// own, which a new one may replace.
    fn make_room_for_owner(&self, held: &mut Held<NothingHeld>, client: &Arc<Client>) -> bool {
        let tenant = &client.tenant;
        let keys: Vec<ClientKey> = self.state.v40.ids.read().values().copied().collect();
        let clients = keys.into_iter().filter_map(|key| self.state.client(key).ok());
        let of_tenant = clients.filter(|client| Arc::ptr_eq(&client.tenant, tenant));
        let sized = of_tenant.filter_map(|client| {
            let owners = client.v40.as_ref()?.ledger.lock().all.len();
            Some((owners, client))
        });
        let Some((_, largest)) = sized.max_by_key(|(owners, _)| *owners) else { return false };
        let Some(v40) = &largest.v40 else { return false };
        let client_state = largest.lock_any(held);
        let gone = v40.ledger.lock().retain(|owner| !is_in_use(&client_state, owner));
        self.drop_owners(tenant, &gone);
        Arc::ptr_eq(&largest, client) && !gone.is_empty()
    }

    fn uncount_owners(&self, tenant: &Tenant, count: usize) {
        tenant.owners.fetch_sub(count, Relaxed);
        self.state.v40.owners.fetch_sub(count, Relaxed);
    }

    /// Notes that owners of a tenant are no more.
    fn drop_owners(&self, tenant: &Tenant, gone: &[Arc<StateOwner>]) {
        self.uncount_owners(tenant, gone.len());
        let mut closed = self.state.v40.closed.lock();
        for other in gone.iter().filter_map(|owner| owner.try_turn()?.sequence.closed) {
            closed.remove(&other);
        }
    }

    /// Removes a lock-owner that is released.
    pub(super) fn drop_owner(&self, record: &Client, v40: &V40Client, kind: OwnerKind, name: &[u8]) {
        let gone = v40.ledger.lock().all.remove(&(kind, name.into()));
        self.drop_owners(&record.tenant, gone.as_slice());
    }

    /// Removes all owners of a client that goes.
    pub(super) fn forget_owners(&self, record: &Client, v40: &V40Client) {
        let all = std::mem::take(&mut v40.ledger.lock().all);
        self.drop_owners(&record.tenant, &all.into_values().collect::<Vec<_>>());
    }

    /// Removes owners that were not heard of for long and have nothing, and cancels OPENs that were
    /// not confirmed in time (RFC 7530 section 16.18.5). Looks at each client four times a lease.
    pub(crate) fn sweep_owners(&self, held: &mut Held<NothingHeld>, now: Duration, effects: &mut Effects<O>) {
        let keys: Vec<ClientKey> = {
            let ids = self.state.v40.ids.read();
            ids.values().copied().collect()
        };
        for key in keys {
            let Ok(record) = self.state.client(key) else { continue };
            let Some(v40) = &record.v40 else { continue };
            let mut client_state = record.lock_any(held);
            let mut ledger = v40.ledger.lock();
            if now < ledger.swept.saturating_add(self.state.limits.lease / 4) {
                continue;
            }
            ledger.swept = now;
            let since = |age: Duration| nanoseconds(now.saturating_sub(age));
            let (unheard, unconfirmed) = (
                since(self.state.limits.lease.saturating_add(self.state.limits.grace)),
                since(self.state.limits.lease),
            );
            let late: Vec<_> = ledger
                .all
                .values()
                .filter(|owner| owner.used.load(Relaxed) < unconfirmed)
                .filter_map(|owner| owner.try_turn()?.sequence.unconfirmed.take())
                .collect();
            let gone =
                ledger.retain(|owner| owner.used.load(Relaxed) < unheard && !is_in_use(&client_state, owner));
            drop(ledger);
            self.drop_owners(&record.tenant, &gone);
            for open in late {
                v40.forget_unconfirmed(open);
                self.state.opens().remove_open(&mut client_state, open, effects);
            }
        }
    }
}
