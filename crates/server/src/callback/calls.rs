//! Table of callbacks in flight and of callbacks that wait for a slot.

pub(super) mod image;

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

/// Time that a client may take to answer a callback, or a third of `recall_time` if that is less.
/// After it the connection counts as one without a working backchannel.
pub(crate) const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
/// The least time for that: a healthy client answers within a round trip.
pub(crate) const ANSWER_TIME_MIN: Duration = Duration::from_secs(1);
/// Attempts at one callback in a row. After them the callback is left to the next round of
/// housekeeping.
pub(crate) const TRIES_MAX: u8 = 4;
/// Callbacks of one client that may wait for a slot. Further ones are left to the next round of
/// housekeeping.
const WAITING_MAX: usize = 256;

/// A callback in flight.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) task: CallbackTask,
    pub(crate) call: BackCall,
    /// The credential that was used, and the check that the answer has to pass.
    pub(crate) proof: Arc<Proof>,
    pub(crate) tries: u8,
    pub(crate) since: Duration,
}

#[derive(Debug, Default)]
struct CallbackTable {
    xid: u32,
    sent: BTreeMap<u32, Sent>,
    waiting: BTreeMap<ClientKey, VecDeque<CallbackTask>>,
}

/// The interval at which the contexts used by callbacks are marked as used.
const KEEP_INTERVAL: Duration = Duration::from_secs(30);

/// The callbacks of all clients that are in flight or wait for a slot. Only callbacks take its one
/// lock.
#[derive(Default)]
pub(crate) struct CallbackQueue {
    transport: OnceLock<Box<dyn CallbackTransport>>,
    contexts: OnceLock<Arc<ContextTable>>,
    /// When the contexts of callbacks were last marked as used, in seconds.
    contexts_kept: AtomicU64,
    answered: OnceLock<Box<dyn Fn() + Send + Sync>>,
    table: Mutex<CallbackTable>,
    /// The time of the last housekeeping, in nanoseconds.
    housekept: AtomicU64,
    /// Rate limit of log lines about clients that do not answer.
    pub(crate) unanswered: LogLimit,
}

impl CallbackQueue {
    fn table(&self) -> MutexGuard<'_, CallbackTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the sender of records, which exists only once the server listens.
    pub(crate) fn connect(&self, transport: Box<dyn CallbackTransport>) {
        let _ = self.transport.set(transport);
    }

    /// Sets the table of the RPCSEC_GSS contexts that clients have established.
    pub(crate) fn connect_contexts(&self, contexts: Arc<ContextTable>) {
        let _ = self.contexts.set(contexts);
    }

    /// Sets the hook that runs when an answer for a suspended COMPOUND may have arrived.
    pub(crate) fn connect_answers(&self, answered: Box<dyn Fn() + Send + Sync>) {
        let _ = self.answered.set(answered);
    }

    /// Notes the time of a housekeeping.
    pub(crate) fn note_housekeeping(&self, now: Duration) {
        self.housekept.store(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    /// Returns the time of the last housekeeping, about a second ago.
    pub(crate) fn housekept(&self) -> Duration {
        Duration::from_nanos(self.housekept.load(Relaxed))
    }

    /// Wakes the COMPOUNDs that wait for answers of clients.
    pub(crate) fn wake(&self) {
        if let Some(answered) = self.answered.get() {
            answered();
        }
    }

    /// Finds a context by the handle that the server has given it.
    pub(crate) fn context(&self, handle: &[u8], now: Duration) -> Option<SharedContext> {
        self.contexts.get()?.find(Handle::from_wire(handle)?, now)
    }

    /// Marks the contexts of callbacks as used, so that they do not expire for lack of calls.
    pub(crate) fn keep_contexts(&self, handles: impl FnOnce() -> Vec<Vec<u8>>, now: Duration) {
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

    /// Sends a record; false if it cannot be sent.
    pub(crate) fn send(&self, connection: u64, record: Vec<u8>) -> bool {
        self.transport.get().is_some_and(|transport| transport.send(ConnectionId(connection), record))
    }

    /// Adds a callback that is about to be sent, and returns its XID and its record.
    pub(crate) fn insert(&self, sent: Sent, encode: impl FnOnce(u32, &Sent) -> Vec<u8>) -> (u32, Vec<u8>) {
        let mut table = self.table();
        let CallbackTable { xid, sent: all, .. } = &mut *table;
        loop {
            *xid = xid.wrapping_add(1);
            if let Entry::Vacant(place) = all.entry(*xid) {
                let record = encode(*xid, &sent);
                place.insert(sent);
                return (*xid, record);
            }
        }
    }

    /// Returns the check for the answer with this XID on this connection.
    pub(crate) fn proof(&self, xid: u32, connection: u64) -> Option<Arc<Proof>> {
        let table = self.table();
        let sent = table.sent.get(&xid).filter(|sent| sent.call.channel.connection == connection)?;
        Some(sent.proof.clone())
    }

    /// Removes and returns the callback in flight that this answer belongs to.
    pub(crate) fn take(&self, xid: u32, connection: u64) -> Option<Sent> {
        let mut table = self.table();
        table.sent.get(&xid).filter(|sent| sent.call.channel.connection == connection)?;
        table.sent.remove(&xid)
    }

    /// Removes and returns the callbacks in flight that `which` selects, to be sent again.
    pub(crate) fn take_all(&self, mut which: impl FnMut(&Sent) -> bool) -> Vec<Sent> {
        let mut table = self.table();
        let xids: Vec<u32> = table.sent.iter().filter(|(_, sent)| which(sent)).map(|(xid, _)| *xid).collect();
        xids.into_iter().filter_map(|xid| table.sent.remove(&xid)).collect()
    }

    /// Queues a callback until the client has a free slot. False when the client's queue is full.
    pub(crate) fn wait(&self, client: ClientKey, task: CallbackTask) -> bool {
        let mut table = self.table();
        let waiting = table.waiting.entry(client).or_default();
        let known = waiting.contains(&task);
        if !known && waiting.len() < WAITING_MAX {
            waiting.push_back(task);
            return true;
        }
        known
    }

    /// Removes and returns the callback that has waited longest for a slot of this client.
    pub(crate) fn next_waiting(&self, client: ClientKey) -> Option<CallbackTask> {
        let mut table = self.table();
        let waiting = table.waiting.get_mut(&client)?;
        let next = waiting.pop_front();
        if waiting.is_empty() {
            table.waiting.remove(&client);
        }
        next
    }

    /// Removes and returns all callbacks that wait for a slot, in order for each client.
    pub(crate) fn take_waiting(&self) -> Vec<CallbackTask> {
        std::mem::take(&mut self.table().waiting).into_values().flatten().collect()
    }

    /// Returns the callbacks that are in flight or wait for a slot.
    pub(crate) fn under_way(&self) -> BTreeSet<CallbackTask> {
        let table = self.table();
        let sent = table.sent.values().map(|sent| sent.task);
        sent.chain(table.waiting.values().flatten().copied()).collect()
    }
}
