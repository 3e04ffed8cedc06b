//! The whole state of one server.

use crate::clients::Client;
use crate::clients::grace;
use crate::clients::registry::Registry;
use crate::clients::tenants::Tenants;
use crate::copies::Copy;
use crate::delegations::Delegation;
use crate::delegations::recalls::Contention;
use crate::files::{Files, View};
use crate::locks::LockState;
use crate::locks::ranges::LockRange;
use crate::locks::waits::Notices;
use crate::opens::{Open, Owner};
use crate::scramble::Scramble;
use crate::sessions::Session;
use crate::sessions::connections::ConnectionTable;
use crate::slab::Key;
use crate::table::Table;
use crate::v40::Shared;
use crate::{Limits, PrincipalHash};
use std::collections::BTreeSet;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What one start of the server is given.
#[derive(Clone, Debug)]
pub struct Boot {
    /// Differs between any two starts: the seconds since 1970, say. Goes into client ids, session ids and stateids, so
    /// that those of an earlier start are recognized as stale.
    pub epoch: u32,
    /// A random key of this start: for the hash table that clients fill, and to make client ids and stateids hard to guess.
    pub hash_key: [u8; 16],
    /// The key of [`crate::PrincipalHash`]es, the same after a restart.
    pub principal_key: [u8; 16],
    /// Each client that was recorded when the server stopped (see [`crate::Effect::RecordClient`]). When there is none,
    /// no grace period is needed.
    pub prior_clients: Vec<PriorClient>,
}

/// A client that may reclaim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PriorClient {
    /// co_ownerid.
    pub owner: Vec<u8>,
    /// Who created it. Records of versions that did not keep it have none: whoever comes first with the owner may reclaim
    /// then, as it was with these versions, until that grace period ends.
    pub principal: Option<PrincipalHash>,
}

/// How much there is of everything, for metrics and tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Client records, unconfirmed ones included.
    pub clients: usize,
    /// Sessions.
    pub sessions: usize,
    /// Opens.
    pub opens: usize,
    /// Lock stateids.
    pub lock_stateids: usize,
    /// Locked ranges.
    pub ranges: usize,
    /// Delegations, revoked ones included.
    pub delegations: usize,
    /// Copies that go on, or whose end was not told.
    pub copies: usize,
    /// Files with state.
    pub files: usize,
    /// State-owners of NFSv4.0 clients.
    pub owners: usize,
    /// Bytes of cached replies.
    pub reply_cache: usize,
    /// Bytes that sessions and their cached replies are counted with: see [`Limits::reply_cache_max`].
    pub session_memory: usize,
}

/// Clients, sessions, opens and locks of one server: `F` names a file (export and handle bytes), `O` is what the server
/// attaches to an open (an `Arc` of the backend's open file).
///
/// Every method may be called from several threads at once. It has many small locks instead of one around it (which
/// requests meet at which is said in the crate's documentation); none of them is held when a method returns.
#[derive(Debug)]
pub struct State<F, O> {
    pub(crate) limits: Limits,
    pub(crate) view: fn(&F) -> View,
    pub(crate) epoch: u32,
    pub(crate) scramble: Scramble,
    pub(crate) principal_key: [u8; 16],
    /// When the grace period ends, in nanoseconds; zero when there is none. Changes under the registry only.
    pub(crate) grace_until: AtomicU64,
    /// Beyond which reclaims do not extend it, in nanoseconds.
    pub(crate) grace_latest: u64,
    /// Bytes of sessions and their cached replies, as counted for the tenants.
    pub(crate) session_memory: AtomicUsize,
    pub(crate) tenants: Tenants,
    /// Whether more waits to be carried out than is good: then clients are asked to use fewer slots.
    pub(crate) overloaded: AtomicBool,

    pub(crate) registry: Mutex<Registry>,
    pub(crate) clients: Table<Arc<Client>>,
    pub(crate) sessions: Table<Arc<Session>>,
    pub(crate) connections: ConnectionTable,

    pub(crate) files: Files<F>,
    /// Open owners and lock owners; they live as long as they have opens or lock stateids.
    pub(crate) owners: Table<Owner>,
    pub(crate) opens: Table<Open<F, O>>,
    pub(crate) locks: Table<LockState>,
    pub(crate) delegations: Table<Delegation<F, O>>,
    /// Delegations that are recalled, by the time when they are revoked.
    pub(crate) recalls: Mutex<BTreeSet<(Duration, Key)>>,
    pub(crate) contention: Contention,
    pub(crate) notices: Notices<F>,
    /// Ranges that were unlocked; a leaf of the lock order.
    pub(crate) unlocked: Mutex<Vec<(F, LockRange)>>,
    /// Delegations, for the limit, and those for writing that are not revoked, for whoever looks at attributes.
    pub(crate) delegations_count: AtomicUsize,
    pub(crate) write_delegations: AtomicUsize,
    /// Copies that go on after their answers.
    pub(crate) copies: Table<Copy<F>>,
    /// Those, for the limit.
    pub(crate) copies_count: AtomicUsize,
    /// Opens, for the limit.
    pub(crate) opens_count: AtomicUsize,
    /// Lock stateids and locked ranges together, for the limit.
    pub(crate) locks_count: AtomicUsize,
    pub(crate) v40: Shared,
}

impl<F: Clone + Eq + Hash, O> State<F, O> {
    /// Starts with nothing; the grace period begins at `now` if there are prior clients.
    pub fn new(limits: Limits, boot: Boot, now: Duration) -> Self {
        let waiting = grace::waiting(boot.prior_clients);
        let (grace_until, grace_latest) = match waiting.is_empty() {
            true => (0, 0),
            false => grace::deadlines(now, &limits),
        };
        Self {
            limits,
            view: |_| 0,
            epoch: boot.epoch,
            scramble: Scramble::new(&boot.hash_key),
            principal_key: boot.principal_key,
            grace_until: AtomicU64::new(grace_until),
            grace_latest,
            session_memory: AtomicUsize::new(0),
            tenants: Tenants::default(),
            overloaded: AtomicBool::new(false),
            registry: Mutex::new(Registry::new(waiting)),
            clients: Table::new(),
            sessions: Table::new(),
            connections: ConnectionTable::new(),
            files: Files::new(boot.hash_key),
            owners: Table::new(),
            opens: Table::new(),
            locks: Table::new(),
            delegations: Table::new(),
            recalls: Mutex::default(),
            contention: Contention::new(),
            notices: Notices::default(),
            unlocked: Mutex::default(),
            delegations_count: AtomicUsize::new(0),
            write_delegations: AtomicUsize::new(0),
            copies: Table::new(),
            copies_count: AtomicUsize::new(0),
            opens_count: AtomicUsize::new(0),
            locks_count: AtomicUsize::new(0),
            v40: Shared::default(),
        }
    }

    /// Returns the limits it was made with.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Counts what there is, part by part: while requests run the numbers need not be of one moment.
    pub fn counts(&self) -> Counts {
        let lock_stateids = self.locks.len();
        let mut reply_cache: usize = 0;
        self.sessions
            .each(|_, session| reply_cache = reply_cache.wrapping_add(session.activity.cached_len()));
        Counts {
            clients: self.registry().clients.len(),
            sessions: self.sessions.len(),
            opens: self.opens.len(),
            lock_stateids,
            ranges: self.locks_count.load(Relaxed).saturating_sub(lock_stateids),
            delegations: self.delegations.len(),
            copies: self.copies_count.load(Relaxed),
            files: self.files.len(),
            owners: self.v40.owners.load(Relaxed),
            reply_cache,
            session_memory: self.session_memory.load(Relaxed),
        }
    }
}
