//! The client of a stateid in requests without a session (RFC 7530 section 9.1.4.4).

use super::{Other, OwnerKind, StateOwner};
use crate::V40;
use crate::clients::{Client, ClientState};
use crate::slab::SlabKey;
use crate::stateids::StateRef;
use crate::{Caller, ClientKey, Nfsstat4, Result, Stateid4, StateidKind};
use std::collections::{BTreeSet, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Opens and lock stateids of clients that are gone, of which it is remembered that they were: to
/// NFS4ERR_EXPIRED clients have an answer. The oldest are forgotten first, and then are
/// NFS4ERR_BAD_STATEID.
pub(super) const GONE_MAX: usize = 65_536;

/// Stateids of removed clients, at most [`GONE_MAX`].
#[derive(Debug, Default)]
pub(crate) struct Gone {
    pub(super) order: VecDeque<StateRef>,
    all: BTreeSet<StateRef>,
}

impl Gone {
    pub(super) fn add(&mut self, state: StateRef) {
        if self.order.len() >= GONE_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.all.remove(&oldest);
        }
        self.order.push_back(state);
        self.all.insert(state);
    }
}

impl<F: Clone + Eq + Hash, O> V40<'_, F, O> {
    /// Returns the client of an open or lock stateid and renews its lease (RFC 7530 section 9.5),
    /// if the caller has the creator's principal or address; otherwise the lease must not have
    /// expired. [`crate::Opens::access`] and the operations check the use of the stateid.
    ///
    /// # Errors
    /// NFS4ERR_BAD_STATEID (also for unconfirmed opens), NFS4ERR_STALE_STATEID, NFS4ERR_EXPIRED,
    /// NFS4ERR_ADMIN_REVOKED, NFS4ERR_OLD_STATEID, NFS4ERR_DELAY.
    pub fn client_of_stateid_40(
        &self,
        now: Duration,
        caller: &Caller<'_>,
        stateid: &Stateid4,
    ) -> Result<ClientKey> {
        let (client, open) = self.holder_40(stateid)?;
        let record = self.visit_40(now, caller, client)?;
        if record.v40.as_ref().is_some_and(|v40| v40.has_unconfirmed(open)) {
            return Err(Nfsstat4::NFS4ERR_BAD_STATEID);
        }
        // Zero stands for the current one only since NFSv4.1.
        if stateid.seqid == 0 { Err(Nfsstat4::NFS4ERR_OLD_STATEID) } else { Ok(client) }
    }

    /// The client and the open of a stateid.
    fn holder_40(&self, stateid: &Stateid4) -> Result<(ClientKey, SlabKey)> {
        let state = self.ref_40(stateid)?;
        let found = match state {
            StateRef::Open(key) => self.state.opens.read(key, |open| (open.client, key)),
            StateRef::Lock(key) => self.state.locks.read(key, |lock| (lock.client, lock.open)),
            StateRef::Delegation(_) | StateRef::Copy(_) => None,
        };
        found.ok_or_else(|| self.missing_40(state))
    }

    fn ref_40(&self, stateid: &Stateid4) -> Result<StateRef> {
        let [a, b, c, d, ..] = stateid.other;
        let epoch = u32::from_be_bytes([a, b, c, d]);
        let earlier =
            epoch > 0 && epoch < self.state.epoch && StateidKind::of(stateid) == StateidKind::Ordinary;
        if earlier { Err(Nfsstat4::NFS4ERR_STALE_STATEID) } else { self.state.state_ref(stateid) }
    }

    fn missing_40(&self, state: StateRef) -> Nfsstat4 {
        if self.state.revoked.contains(state) {
            return Nfsstat4::NFS4ERR_ADMIN_REVOKED;
        }
        let is_gone = self.state.v40.gone.lock().all.contains(&state);
        if is_gone { Nfsstat4::NFS4ERR_EXPIRED } else { Nfsstat4::NFS4ERR_BAD_STATEID }
    }

    /// Remembers the stateids of a client that is removed.
    pub(super) fn remember_gone(&self, client_state: &ClientState) {
        let mut gone = self.state.v40.gone.lock();
        client_state.opens.iter().for_each(|key| gone.add(StateRef::Open(*key)));
        client_state.lock_states.values().for_each(|key| gone.add(StateRef::Lock(*key)));
    }

    /// Forgets that an open waits for OPEN_CONFIRM, if it does: it was revoked.
    pub(crate) fn forget_unconfirmed(&self, record: &Client, open: SlabKey) {
        if let Some(v40) = record.v40.as_ref().filter(|v40| v40.has_unconfirmed(open)) {
            v40.forget_unconfirmed(open);
        }
    }

    /// Returns the open-owner of an open stateid, or of one that its last request has closed, and
    /// renews the lease.
    ///
    /// # Errors
    /// NFS4ERR_BAD_STATEID, NFS4ERR_STALE_STATEID, NFS4ERR_EXPIRED, NFS4ERR_DELAY.
    pub fn owner_of_open(
        &self,
        now: Duration,
        caller: &Caller<'_>,
        stateid: &Stateid4,
    ) -> Result<Arc<StateOwner>> {
        let StateRef::Open(key) = self.ref_40(stateid)? else { return Err(Nfsstat4::NFS4ERR_BAD_STATEID) };
        match self.state.opens.read(key, |open| (open.client, open.owner)) {
            Some((client, owner)) => self.owner_by_key(now, caller, client, OwnerKind::Open, owner),
            None => {
                let owner = self.state.v40.closed.lock().get(&stateid.other).and_then(Weak::upgrade);
                let owner = owner.ok_or_else(|| self.missing_40(StateRef::Open(key)))?;
                self.visit_40(now, caller, owner.client)?;
                owner.touch(now);
                Ok(owner)
            }
        }
    }

    /// Returns the lock-owner of a lock stateid, and renews the lease.
    ///
    /// # Errors
    /// As [`crate::V40::owner_of_open`].
    pub fn owner_of_lock(
        &self,
        now: Duration,
        caller: &Caller<'_>,
        stateid: &Stateid4,
    ) -> Result<Arc<StateOwner>> {
        let StateRef::Lock(key) = self.ref_40(stateid)? else { return Err(Nfsstat4::NFS4ERR_BAD_STATEID) };
        let found = self.state.locks.read(key, |lock| (lock.client, lock.owner));
        let (client, owner) = found.ok_or_else(|| self.missing_40(StateRef::Lock(key)))?;
        self.owner_by_key(now, caller, client, OwnerKind::Lock, owner)
    }

    fn owner_by_key(
        &self,
        now: Duration,
        caller: &Caller<'_>,
        client: ClientKey,
        kind: OwnerKind,
        owner: SlabKey,
    ) -> Result<Arc<StateOwner>> {
        let record: Arc<Client> = self.visit_40(now, caller, client)?;
        let name = self.state.opens.owner(owner, |owner| Arc::clone(&owner.name));
        let found = name.zip(record.v40.as_ref()).and_then(|(name, v40)| v40.find_owner(kind, &name));
        let found = found.ok_or(Nfsstat4::NFS4ERR_BAD_STATEID)?;
        found.touch(now);
        Ok(found)
    }

    /// Records the stateid that the owner's last request has closed, in place of the former one.
    pub(super) fn note_closed(&self, owner: &Arc<StateOwner>, before: Option<Other>, now: Option<Other>) {
        let mut closed = self.state.v40.closed.lock();
        if let Some(before) = before {
            closed.remove(&before);
        }
        if let Some(now) = now {
            // Owners that went in the middle of a request leave theirs behind.
            if closed.len() > 2 * self.state.limits.owners_max {
                closed.retain(|_, owner| owner.strong_count() > 0);
            }
            closed.insert(now, Arc::downgrade(owner));
        }
    }
}
