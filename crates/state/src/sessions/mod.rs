//! Sessions (RFC 8881 section 2.10): their ids, limits and end.

pub(crate) mod backchannel;
pub(crate) mod callbacks;
pub(crate) mod connections;
pub(crate) mod create_session;
pub(crate) mod destroy;
pub(crate) mod image;
pub(crate) mod memory;
pub(crate) mod sequence;
pub(crate) mod slots;

use crate::Sessions;
use crate::clients::Client;
use crate::clients::registry::RegistryGuard;
use crate::order::{ConnectionLevel, Leaf, Ordered};
use crate::sessions::callbacks::{BackSlots, PathStatus};
use crate::sessions::connections::ConnectionTable;
use crate::sessions::memory::{CountedMemory, Outstanding};
use crate::sessions::slots::Slots;
use crate::slab::SlabKey;
use crate::sync::atomic::AtomicBool;
use crate::sync::atomic::{
    AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use crate::sync::{Mutex, RwLock};
use crate::table::Table;
use crate::{CallbackSecurity, ChannelAttrs, ClientKey, Nfsstat4, Result, Sessionid4};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

/// One session. Its constant parts need no lock; requests change their slot and the activity.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: Sessionid4,
    pub(crate) key: SlabKey,
    pub(crate) client: ClientKey,
    pub(crate) record: Arc<Client>,
    pub(crate) fore: ChannelAttrs,
    pub(crate) back: ChannelAttrs,
    pub(crate) slots: Slots,
    pub(crate) activity: SessionActivity,
    pub(crate) connections: Ordered<RwLock<Vec<SessionConnection>>, ConnectionLevel>,
    pub(crate) callback: Leaf<Mutex<Callback>>,
    pub(crate) minor_version: u32,
    pub(crate) back_slots: BackSlots,
    pub(crate) path: PathStatus,
    pub(crate) created: Duration,
    /// The memory that its client's tenant has for it.
    pub(crate) counted: CountedMemory,
}

/// The sessions, their connections, and the memory that they use together.
#[derive(Debug)]
pub(crate) struct SessionTable {
    table: Table<Arc<Session>>,
    connections: ConnectionTable,
    /// Bytes of sessions and their cached replies, as counted for the tenants.
    memory: AtomicUsize,
    /// Whether the server is overloaded: clients are asked to use fewer slots.
    overloaded: AtomicBool,
}

impl SessionTable {
    pub(crate) fn new() -> Self {
        Self {
            table: Table::new(),
            connections: ConnectionTable::new(),
            memory: AtomicUsize::new(0),
            overloaded: AtomicBool::new(false),
        }
    }

    pub(crate) fn get(&self, key: SlabKey) -> Option<Arc<Session>> {
        self.table.get(key)
    }

    /// Returns all sessions, stripe by stripe.
    pub(crate) fn all(&self) -> Vec<Arc<Session>> {
        let mut all = Vec::new();
        self.table.each(|_, session| all.push(Arc::clone(session)));
        all
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns the bytes that are counted for all sessions.
    pub(crate) fn memory(&self) -> usize {
        self.memory.load(Relaxed)
    }

    /// Returns the bytes of all cached replies.
    pub(crate) fn cached_len(&self) -> usize {
        let mut bytes: usize = 0;
        self.table.each(|_, session| bytes = bytes.wrapping_add(session.activity.cached_len()));
        bytes
    }

    #[cfg(test)]
    pub(crate) fn each(&self, mut run: impl FnMut(&Session)) {
        self.all().iter().for_each(|session| run(session));
    }

    /// Counts connections and their associations.
    #[cfg(test)]
    pub(crate) fn connection_lens(&self) -> (usize, usize) {
        self.connections.lens()
    }
}

/// How to call the client back.
#[derive(Clone, Debug)]
pub(crate) struct Callback {
    pub(crate) program: u32,
    pub(crate) security: Vec<CallbackSecurity>,
}

/// A connection that is associated with a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionConnection {
    pub(crate) id: u64,
    pub(crate) fore: bool,
    pub(crate) back: bool,
    /// By CREATE_SESSION or BIND_CONN_TO_SESSION, not merely by a SEQUENCE that came over it.
    pub(crate) explicit: bool,
    /// A callback over it was not answered.
    pub(crate) silent: bool,
}

/// The bit of [`SessionActivity::gate`] that excludes requests.
const CLOSED: u32 = 1 << 31;

/// The part of a session that each request changes: it has a cache line of its own, which only the
/// shards that serve this session share.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct SessionActivity {
    /// The number of running requests, and [`CLOSED`]. A thread that closes the gate holds the
    /// registry until it has removed the session or opened the gate again.
    gate: AtomicU32,
    /// When the lease was renewed last, in nanoseconds.
    renewed: AtomicU64,
    /// Bytes of cached replies.
    cached: AtomicUsize,
    pub(crate) outstanding: Outstanding,
}

impl SessionActivity {
    /// Counts a request in; false when the gate is closed.
    pub(crate) fn enter(&self) -> bool {
        let entered = self.gate.fetch_add(1, AcqRel) & CLOSED == 0;
        if !entered {
            self.leave();
        }
        entered
    }

    /// Counts a request out.
    pub(crate) fn leave(&self) {
        self.gate.fetch_sub(1, Release);
    }

    pub(crate) fn running(&self) -> u32 {
        self.gate.load(Acquire) & !CLOSED
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.gate.load(Acquire) & CLOSED != 0
    }

    /// Closes the gate if no more than so many requests run.
    pub(crate) fn close(&self, running_max: u32) -> bool {
        let close = |gate: u32| (gate & !CLOSED <= running_max).then_some(gate | CLOSED);
        self.gate.fetch_update(AcqRel, Acquire, close).is_ok()
    }

    /// Opens a gate again that was closed to see whether the session could go.
    pub(crate) fn reopen(&self) {
        self.gate.fetch_and(!CLOSED, AcqRel);
    }

    pub(crate) fn renew(&self, now: Duration) {
        let now = nanoseconds(now);
        if self.renewed.load(Relaxed) < now {
            self.renewed.fetch_max(now, Relaxed);
        }
    }

    pub(crate) fn renewed(&self) -> Duration {
        Duration::from_nanos(self.renewed.load(Relaxed))
    }

    /// Takes note of a reply that took the place of another, given their lengths.
    pub(crate) fn cached(&self, before: usize, after: usize) {
        if before != after {
            self.cached.fetch_add(after.wrapping_sub(before), Relaxed);
        }
    }

    pub(crate) fn cached_len(&self) -> usize {
        self.cached.load(Relaxed)
    }
}

/// Time as an atomic holds it; it lasts for five centuries.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Makes a session id: the start's epoch, the place in the table, and a random part that must match
/// as a whole.
pub(crate) fn sessionid(epoch: u32, index: u32, random: u64) -> Sessionid4 {
    let mut id = [0; 16];
    let bytes = epoch.to_be_bytes().into_iter().chain(index.to_be_bytes()).chain(random.to_be_bytes());
    id.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    id
}

fn index_of(id: &Sessionid4) -> u32 {
    let [_, _, _, _, a, b, c, d, ..] = *id;
    u32::from_be_bytes([a, b, c, d])
}

impl<F: Clone + Eq + Hash, O> Sessions<'_, F, O> {
    pub(crate) fn session(&self, id: &Sessionid4) -> Result<Arc<Session>> {
        let found = self
            .state
            .sessions
            .table
            .read_at(index_of(id), |session| (session.id == *id).then(|| Arc::clone(session)));
        found.flatten().ok_or(Nfsstat4::NFS4ERR_BADSESSION)
    }

    /// Returns the client of a session, for operations that name a session without being in it.
    ///
    /// # Errors
    /// NFS4ERR_BADSESSION.
    pub fn client_of_session(&self, id: &Sessionid4) -> Result<ClientKey> {
        self.session(id).map(|session| session.client)
    }

    /// Removes a session with its reply cache and associations; its client stays. Requests that run
    /// on it end quietly.
    pub(crate) fn remove_session(&self, registry: &mut RegistryGuard<'_>, key: SlabKey) {
        let Some(session) = self.state.sessions.table.remove(key) else { return };
        session.activity.close(u32::MAX);
        self.discount_session(&session);
        self.forget_connections(registry.below(), &session);
        if let Some(enrolled) = registry.clients.get_mut(&session.client) {
            enrolled.sessions.retain(|other| *other != key);
            enrolled.renewed = enrolled.renewed.max(session.activity.renewed());
        }
    }
}
