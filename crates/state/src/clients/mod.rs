//! Client records (RFC 8881 section 2.4): the owner of a client, and the state of its opens and
//! locks.

pub(crate) mod courtesy;
pub(crate) mod creator;
mod drain;
pub(crate) mod exchange_id;
pub(crate) mod grace;
pub(crate) mod image;
pub(crate) mod leases;
pub(crate) mod mach_cred;
pub(crate) mod records;
pub(crate) mod registry;
pub(crate) mod tenants;
pub(crate) mod users;

use crate::clients::creator::Creator;
use crate::clients::records::RecordLog;
use crate::clients::registry::Registry;
use crate::clients::tenants::Tenant;
use crate::clients::users::User;
use crate::order::{Before, ClientLevel, Guard, Held, Ordered, RegistryLevel};
use crate::slab::SlabKey;
use crate::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Acquire};
use crate::sync::{Mutex, MutexGuard};
use crate::table::Table;
use crate::v40::V40Client;
use crate::{Caller, Clientid4, Nfsstat4, Protection, Result, State, StateProtect};
use nfs4::{SEQ4_STATUS_ADMIN_STATE_REVOKED, SEQ4_STATUS_RECALLABLE_STATE_REVOKED};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

/// Names a client record; the operations of a COMPOUND get it from SEQUENCE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientKey(pub(crate) SlabKey);

impl ClientKey {
    /// Returns a key for a connection without a known client; no client has such a key.
    pub fn of_connection(connection: u64) -> Self {
        // Generations of keys begin with one.
        Self(SlabKey { index: connection as u32, generation: 0 })
    }
}

/// One client record: its constant parts, and its state.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) id: Clientid4,
    pub(crate) owner: Arc<[u8]>,
    pub(crate) verifier: [u8; 8],
    pub(crate) creator: Creator,
    pub(crate) protect: StateProtect,
    /// The tenant that it counts for.
    pub(crate) tenant: Arc<Tenant>,
    /// Number of its sessions with a working backchannel; changed under the lock of the session's
    /// connections.
    pub(crate) paths: AtomicUsize,
    /// The sr_status_flags of SEQUENCE for this client's state.
    pub(crate) status: AtomicU32,
    /// The ticket of the last change that put it on stable storage; 0 if it was there at the start.
    pub(crate) put: AtomicU64,
    /// Of an NFSv4.0 client, which has no sessions.
    pub(crate) v40: Option<Box<V40Client>>,
    state: Ordered<Mutex<ClientState>, ClientLevel>,
}

/// The opens and locks of a client. A thread that changes one of its opens or lock stateids holds
/// this lock.
#[derive(Debug, Default)]
pub(crate) struct ClientState {
    /// The record is removed: operations that still hold it get NFS4ERR_DEADSESSION.
    pub(crate) closed: bool,
    pub(crate) open_owners: BTreeMap<Arc<[u8]>, SlabKey>,
    pub(crate) lock_owners: BTreeMap<Arc<[u8]>, SlabKey>,
    pub(crate) opens: BTreeSet<SlabKey>,
    /// The users with opens, by principal.
    pub(crate) users: BTreeMap<Arc<[u8]>, Arc<User>>,
    /// By lock owner and open.
    pub(crate) lock_states: BTreeMap<(SlabKey, SlabKey), SlabKey>,
    /// Lock stateids and locked ranges together.
    pub(crate) locks: usize,
    /// Delegations, including revoked ones.
    pub(crate) delegations: BTreeSet<SlabKey>,
    /// Delegations that were revoked and not freed yet.
    pub(crate) revoked: usize,
    /// Copies in progress, and ended ones without an answered CB_OFFLOAD.
    pub(crate) copies: BTreeSet<SlabKey>,
    /// When the client was last asked to give delegations of its choice back.
    pub(crate) recall_any_at: Option<Duration>,
    pub(crate) reclaim_complete: bool,
    /// A reclaim was refused: the client lost state, and opens its files anew after
    /// RECLAIM_COMPLETE.
    pub(crate) reclaim_refused: bool,
    /// Until when a client with a refused reclaim may still open its files anew.
    pub(crate) reopens_until: Duration,
    /// Spreads the client's new entries over the stripes of the tables.
    turn: u32,
}

/// A client with its locked state, for an operation that may reclaim.
#[derive(Debug)]
pub(crate) struct LockedClient<'a> {
    pub(crate) key: ClientKey,
    pub(crate) record: &'a Client,
    pub(crate) state: &'a mut ClientState,
    /// The locked registry of an operation that reclaims.
    pub(crate) registry: Option<&'a Registry>,
}

/// The locked state of a client.
pub(crate) type ClientGuard<'g> = Guard<MutexGuard<'g, ClientState>, ClientLevel>;

/// The clients: the registry behind one lock, and the records that requests find by key.
#[derive(Debug)]
pub(crate) struct ClientTable {
    registry: Ordered<Mutex<Registry>, RegistryLevel>,
    table: Table<Arc<Client>>,
    records: RecordLog,
}

impl ClientTable {
    pub(crate) fn new(registry: Registry) -> Self {
        let registry = Ordered::new(Mutex::new(registry));
        Self { registry, table: Table::new(), records: RecordLog::default() }
    }

    /// Adds a record. Keys of clients spread over the stripes by client id.
    pub(crate) fn insert(&self, record: Arc<Client>) -> ClientKey {
        ClientKey(self.table.insert(record.id as u32, record))
    }

    #[cfg(test)]
    pub(crate) fn each(&self, mut run: impl FnMut(&Client)) {
        let mut all = Vec::new();
        self.table.each(|_, client| all.push(Arc::clone(client)));
        all.iter().for_each(|client| run(client));
    }
}

impl ClientState {
    pub(crate) fn next_stripe(&mut self) -> u32 {
        self.turn = self.turn.wrapping_add(1);
        self.turn
    }
}

impl Client {
    pub(crate) fn new(
        id: Clientid4,
        owner: &[u8],
        verifier: [u8; 8],
        creator: Creator,
        protect: StateProtect,
        tenant: Arc<Tenant>,
    ) -> Self {
        // Clients begin at different stripes: most have few opens.
        let state = ClientState { turn: id as u32, ..ClientState::default() };
        let (paths, status, put) = (AtomicUsize::new(0), AtomicU32::new(0), AtomicU64::new(0));
        let state = Ordered::new(Mutex::new(state));
        let owner = owner.into();
        Self { id, owner, verifier, creator, protect, tenant, paths, status, put, v40: None, state }
    }

    /// Returns whether state of the client was revoked that it has not freed.
    pub(crate) fn has_revoked(&self) -> bool {
        self.status.load(Acquire) & (SEQ4_STATUS_ADMIN_STATE_REVOKED | SEQ4_STATUS_RECALLABLE_STATE_REVOKED)
            != 0
    }

    /// Returns whether the caller speaks for the client itself: its principal and, with
    /// SP4_MACH_CRED, protected.
    pub(crate) fn is_spoken_for_by(&self, caller: &Caller<'_>) -> bool {
        let protected = match self.protect {
            StateProtect::None => true,
            StateProtect::MachCred { .. } => caller.protection >= Protection::Integrity,
        };
        protected && self.creator.is(caller)
    }

    /// Returns whether the client recovers: it has not completed its reclaims, or one of them was
    /// refused and it may still open its files anew.
    pub(crate) fn recovers(&self, held: &mut Held<impl Before<ClientLevel>>, now: Duration) -> bool {
        let client_state = self.lock_any(held);
        !client_state.reclaim_complete || now < client_state.reopens_until
    }

    /// Locks the state, whether or not the record is still there.
    pub(crate) fn lock_any<'g>(&'g self, held: &'g mut Held<impl Before<ClientLevel>>) -> ClientGuard<'g> {
        self.state.lock(held)
    }

    /// Locks the state of a client that is still there.
    ///
    /// # Errors
    /// NFS4ERR_DEADSESSION.
    pub(crate) fn lock<'g>(
        &'g self,
        held: &'g mut Held<impl Before<ClientLevel>>,
    ) -> Result<ClientGuard<'g>> {
        let client_state = self.lock_any(held);
        if client_state.closed { Err(Nfsstat4::NFS4ERR_DEADSESSION) } else { Ok(client_state) }
    }

    /// Returns whether it holds state that others may be waiting for (RFC 8881 section 18.35.4,
    /// case 3).
    pub(crate) fn holds_state(&self, held: &mut Held<impl Before<ClientLevel>>) -> bool {
        let client_state = self.lock_any(held);
        !client_state.opens.is_empty() || client_state.delegations.len() > client_state.revoked
    }
}

impl<F: Clone + Eq + Hash, O> State<F, O> {
    /// Returns a client that a COMPOUND began with; it can be gone by now, when it restarted or was
    /// replaced.
    pub(crate) fn client(&self, key: ClientKey) -> Result<Arc<Client>> {
        self.clients.table.get(key.0).ok_or(Nfsstat4::NFS4ERR_DEADSESSION)
    }

    /// Locks the state of a client for an operation; for one that reclaims, the registry first.
    /// `run` gets the token for locks under these.
    ///
    /// # Errors
    /// NFS4ERR_DEADSESSION, and the errors of `run`.
    pub(crate) fn with_client<R, E: From<Nfsstat4>>(
        &self,
        key: ClientKey,
        reclaims: bool,
        run: impl FnOnce(&mut LockedClient<'_>, &mut Held<ClientLevel>) -> core::result::Result<R, E>,
    ) -> core::result::Result<R, E> {
        let held = &mut Held::nothing();
        let mut registry = self.clients.registry.lock_if(held, reclaims);
        let (registry, held) = registry.split_if();
        let record = self.client(key)?;
        let mut state = record.lock(held)?;
        let (state, held) = state.split();
        run(&mut LockedClient { key, record: &record, state, registry }, held)
    }
}
