//! Callbacks that wait for their answers, or for a slot.

use super::CallbackTransport;
use super::security::Proof;
use crate::LogLimit;
use crate::rpcsec::{ContextTable, Handle, SharedContext};
use rpc::ConnectionId;
use state::{BackCall, CallbackTask, ClientKey};
use std::collections::btree_map::{BTreeMap, Entry};
use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// How long a client may take to answer a callback, before the connection counts as one that
/// carries none.
pub(super) const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
/// How often a callback is repeated at once, before it is left to the next round of housekeeping.
pub(super) const TRIES_MAX: u8 = 4;
/// Callbacks of one client that wait for a slot; further ones are left to the next round of
/// housekeeping.
const WAITING_MAX: usize = 256;

/// A callback that was sent.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) task: CallbackTask,
    pub(super) call: BackCall,
    /// Who says that it comes from the server, and what the answer has to prove.
    pub(super) proof: Arc<Proof>,
    pub(super) tries: u8,
    pub(super) since: Duration,
}

#[derive(Debug, Default)]
struct Table {
    xid: u32,
    sent: BTreeMap<u32, Sent>,
    waiting: BTreeMap<ClientKey, VecDeque<CallbackTask>>,
}

/// How often the contexts of callbacks are kept from going for lack of calls.
const KEEP_INTERVAL: Duration = Duration::from_secs(30);

/// What the server has to say to its clients and has not said, or has got no answer to. Its one
/// lock is taken by callbacks only.
#[derive(Default)]
pub(crate) struct Callbacks {
    transport: OnceLock<Box<dyn CallbackTransport>>,
    contexts: OnceLock<Arc<ContextTable>>,
    /// When those that callbacks go by were looked after last, in seconds.
    contexts_kept: AtomicU64,
    answered: OnceLock<Box<dyn Fn() + Send + Sync>>,
    table: Mutex<Table>,
    /// Lines about clients that do not answer.
    pub(super) unanswered: LogLimit,
}

impl Callbacks {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what sends records; it is known once the server listens.
    pub(crate) fn connect(&self, transport: Box<dyn CallbackTransport>) {
        let _ = self.transport.set(transport);
    }

    /// Takes the contexts by which clients call.
    pub(crate) fn connect_contexts(&self, contexts: Arc<ContextTable>) {
        let _ = self.contexts.set(contexts);
    }

    /// Takes what is to be told when somebody may have got an answer that he waits for.
    pub(super) fn connect_answers(&self, answered: Box<dyn Fn() + Send + Sync>) {
        let _ = self.answered.set(answered);
    }

    /// Tells those who wait for answers to see whether theirs is there.
    pub(super) fn wake(&self) {
        if let Some(answered) = self.answered.get() {
            answered();
        }
    }

    /// Finds a context by the name that the server has given it.
    pub(crate) fn context(&self, handle: &[u8], now: Duration) -> Option<SharedContext> {
        self.contexts.get()?.find(Handle::from_wire(handle)?, now)
    }

    /// Keeps the contexts of callbacks from going for lack of calls.
    pub(super) fn keep_contexts(&self, handles: impl FnOnce() -> Vec<Vec<u8>>, now: Duration) {
        let Some(contexts) = self.contexts.get() else { return };
        let seconds = now.as_secs();
        if seconds < self.contexts_kept.load(Relaxed).saturating_add(KEEP_INTERVAL.as_secs()) {
            return;
        }
        self.contexts_kept.store(seconds, Relaxed);
        for handle in handles() {
            if let Some(handle) = Handle::from_wire(&handle) {
                contexts.touch(handle, now);
            }
        }
    }

    /// Sends a record, if it can be sent.
    pub(super) fn send(&self, connection: u64, record: Vec<u8>) -> bool {
        self.transport.get().is_some_and(|transport| transport.send(ConnectionId(connection), record))
    }

    /// Notes a callback that is about to be sent, and returns its XID and its record.
    pub(super) fn insert(&self, sent: Sent, encode: impl FnOnce(u32, &Sent) -> Vec<u8>) -> (u32, Vec<u8>) {
        let mut table = self.table();
        let Table { xid, sent: all, .. } = &mut *table;
        loop {
            *xid = xid.wrapping_add(1);
            if let Entry::Vacant(place) = all.entry(*xid) {
                let record = encode(*xid, &sent);
                place.insert(sent);
                return (*xid, record);
            }
        }
    }

    /// Says what an answer on a connection has to prove.
    pub(super) fn proof(&self, xid: u32, connection: u64) -> Option<Arc<Proof>> {
        let table = self.table();
        let sent = table.sent.get(&xid).filter(|sent| sent.call.channel.connection == connection)?;
        Some(sent.proof.clone())
    }

    /// Takes the callback that an answer on a connection belongs to.
    pub(super) fn take(&self, xid: u32, connection: u64) -> Option<Sent> {
        let mut table = self.table();
        table.sent.get(&xid).filter(|sent| sent.call.channel.connection == connection)?;
        table.sent.remove(&xid)
    }

    /// Takes the callbacks that are to be sent again by now, or elsewhere.
    pub(super) fn take_all(&self, mut which: impl FnMut(&Sent) -> bool) -> Vec<Sent> {
        let mut table = self.table();
        let xids: Vec<u32> = table.sent.iter().filter(|(_, sent)| which(sent)).map(|(xid, _)| *xid).collect();
        xids.into_iter().filter_map(|xid| table.sent.remove(&xid)).collect()
    }

    /// Keeps a callback until the client has a slot free; false when too many wait.
    pub(super) fn wait(&self, client: ClientKey, task: CallbackTask) -> bool {
        let mut table = self.table();
        let waiting = table.waiting.entry(client).or_default();
        let known = waiting.contains(&task);
        if !known && waiting.len() < WAITING_MAX {
            waiting.push_back(task);
            return true;
        }
        known
    }

    /// Takes the callback that has waited longest for a slot of the client's.
    pub(super) fn next_waiting(&self, client: ClientKey) -> Option<CallbackTask> {
        let mut table = self.table();
        let waiting = table.waiting.get_mut(&client)?;
        let next = waiting.pop_front();
        if waiting.is_empty() {
            table.waiting.remove(&client);
        }
        next
    }

    /// Takes all callbacks that wait for a slot, each client's in its order.
    pub(super) fn take_waiting(&self) -> Vec<CallbackTask> {
        std::mem::take(&mut self.table().waiting).into_values().flatten().collect()
    }

    /// The callbacks that are on their way or wait for a slot.
    pub(super) fn under_way(&self) -> BTreeSet<CallbackTask> {
        let table = self.table();
        let sent = table.sent.values().map(|sent| sent.task);
        sent.chain(table.waiting.values().flatten().copied()).collect()
    }
}
