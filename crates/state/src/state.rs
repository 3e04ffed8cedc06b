//! The whole state of one server.

pub(crate) mod image;

use crate::clients::ClientTable;
use crate::clients::grace::{self, Grace};
use crate::clients::registry::Registry;
use crate::clients::tenants::Tenants;
use crate::copies::CopyTable;
use crate::delegations::DelegationTable;
use crate::files::{FileView, Files};
use crate::groups::FileGroups;
use crate::locks::LockTable;
use crate::opens::OpenTable;
use crate::order::Held;
use crate::quotas::NoQuotas;
use crate::revocation::RevokedTable;
use crate::scramble::Scramble;
use crate::sessions::SessionTable;
use crate::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use crate::v40::V40Table;
use crate::{Limits, PrincipalHash, Quotas};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

/// The parameters of one start of the server.
#[derive(Clone, Debug)]
pub struct Boot {
    /// Differs between any two starts: the seconds since 1970, say. Client ids, session ids and
    /// stateids contain it, so that identifiers of an earlier start are recognized as stale.
    pub epoch: u32,
    /// A random key of this start: for the hash table that clients fill, and to make client ids and
    /// stateids hard to guess.
    pub hash_key: [u8; 16],
    /// The key of [`crate::PrincipalHash`]es, the same after a restart.
    pub principal_key: [u8; 16],
    /// Each client that was recorded when the server stopped (see [`crate::Effect::RecordClient`]).
    /// When there is none, no grace period is needed.
    pub prior_clients: Vec<PriorClient>,
}

/// A client that may reclaim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PriorClient {
    /// co_ownerid of the client.
    pub owner: Vec<u8>,
    /// The principal that created it. Records of older versions have none: the first caller with
    /// the owner may then reclaim, as in these versions, until that grace period ends.
    pub principal: Option<PrincipalHash>,
}

/// How much there is of everything, for metrics and tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Client records, unconfirmed ones included.
    pub clients: usize,
    /// Number of sessions of all clients.
    pub sessions: usize,
    /// Number of opens of all clients.
    pub opens: usize,
    /// Number of lock stateids.
    pub lock_stateids: usize,
    /// Number of locked ranges.
    pub ranges: usize,
    /// Delegations, revoked ones included.
    pub delegations: usize,
    /// Delegations that are recalled and not returned yet.
    pub recalled: usize,
    /// Delegations granted since the start.
    pub delegations_granted: u64,
    /// Delegations recalled since the start.
    pub delegations_recalled: u64,
    /// Delegations revoked since the start because they were not returned in time.
    pub delegations_revoked: u64,
    /// Copies in progress, or without an answered CB_OFFLOAD.
    pub copies: usize,
    /// Number of files with state.
    pub files: usize,
    /// State-owners of NFSv4.0 clients.
    pub owners: usize,
    /// Bytes of cached replies.
    pub reply_cache: usize,
    /// Bytes that sessions and their cached replies are counted with: see
    /// [`Limits::reply_cache_max`].
    pub session_memory: usize,
}

/// Clients, sessions, opens and locks of one server: `F` names a file (export and handle bytes),
/// `O` is the server's payload of an open (an `Arc` of the backend's open file).
///
/// Every method may be called from several threads at once. The state has many small locks instead
/// of a single one (the crate's documentation lists them); none is held when a method returns.
#[derive(Debug)]
pub struct State<F, O> {
    pub(crate) limits: Limits,
    pub(crate) clients_max: AtomicUsize,
    pub(crate) slots_max: AtomicU32,
    pub(crate) view: fn(&F) -> FileView,
    pub(crate) quotas: Arc<dyn Quotas>,
    pub(crate) is_shared: fn(&F) -> bool,
    pub(crate) epoch: u32,
    pub(crate) scramble: Scramble,
    pub(crate) principal_key: [u8; 16],
    pub(crate) grace: Grace,
    pub(crate) tenants: Tenants,
    pub(crate) groups: FileGroups,
    pub(crate) clients: ClientTable,
    pub(crate) sessions: SessionTable,
    pub(crate) files: Files<F>,
    pub(crate) opens: OpenTable<F, O>,
    pub(crate) locks: LockTable<F>,
    pub(crate) delegations: DelegationTable<F, O>,
    pub(crate) copies: CopyTable<F>,
    pub(crate) revoked: RevokedTable,
    pub(crate) v40: V40Table,
}

impl<F: Clone + Eq + Hash, O> State<F, O> {
    /// Replaces the most clients, and the most slots of a new session. Clients and sessions that
    /// exist stay as they are.
    pub fn set_max(&self, clients_max: usize, slots_max: u32) {
        self.clients_max.store(clients_max, Relaxed);
        self.slots_max.store(slots_max, Relaxed);
    }

    /// Starts with nothing; the grace period begins at `now` if there are prior clients.
    pub fn new(limits: Limits, boot: Boot, now: Duration) -> Self {
        let waiting = grace::waiting(boot.prior_clients);
        let grace = Grace::new(!waiting.is_empty(), now, &limits);
        Self {
            clients_max: AtomicUsize::new(limits.clients_max),
            slots_max: AtomicU32::new(limits.slots_max),
            limits,
            view: |_| 0,
            quotas: Arc::new(NoQuotas),
            is_shared: |_| true,
            epoch: boot.epoch,
            scramble: Scramble::new(&boot.hash_key),
            principal_key: boot.principal_key,
            grace,
            tenants: Tenants::default(),
            groups: FileGroups::default(),
            clients: ClientTable::new(Registry::new(waiting)),
            sessions: SessionTable::new(),
            files: Files::new(boot.hash_key),
            opens: OpenTable::new(),
            locks: LockTable::new(),
            delegations: DelegationTable::new(),
            copies: CopyTable::new(),
            revoked: RevokedTable::default(),
            v40: V40Table::default(),
        }
    }

    /// Returns the limits it was made with.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Counts the entries table by table: while requests run, the numbers need not be of one
    /// moment.
    pub fn counts(&self) -> Counts {
        let held = &mut Held::nothing();
        let clients = self.registry(held).clients.len();
        let lock_stateids = self.locks.len();
        let recalled = self.delegations.recalls().len();
        Counts {
            clients,
            sessions: self.sessions.len(),
            opens: self.opens.len(),
            lock_stateids,
            ranges: self.locks.count().saturating_sub(lock_stateids),
            delegations: self.delegations.len(),
            recalled,
            delegations_granted: self.delegations.totals.granted.load(Relaxed),
            delegations_recalled: self.delegations.totals.recalled.load(Relaxed),
            delegations_revoked: self.delegations.totals.revoked.load(Relaxed),
            copies: self.copies.count(),
            files: self.files.len(held),
            owners: self.v40.owners(),
            reply_cache: self.sessions.cached_len(),
            session_memory: self.sessions.memory(),
        }
    }
}
