//! The steps of deferred calls, and the group commit between them.

use super::Suspended;
use crate::group_commit::{GroupCommit, SyncRole};
use crate::quiet::{CallFlight, Flights};
use net::{CompletionEvent, CompletionSender};
use rpc::ConnectionId;
use server::dispatch::{CompletedCall, DeferredCall, DeferredOutcome, Server};
use server::engine::{CommitKey, Nfs};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed},
};
use vfs::{VfsError, VfsResult};

/// A call that a shard has deferred, with the sink for its completion.
pub(super) struct Deferred {
    pub(super) call: DeferredCall<Suspended>,
    pub(super) sink: CompletionSender<CompletedCall>,
    /// The bytes that its connection counts for it until it completes.
    pub(super) held: usize,
    /// Dropped after the completion is sent.
    pub(super) flight: CallFlight,
}

/// The next step of deferred work.
#[expect(
    clippy::large_enum_variant,
    reason = "most tasks are calls, which are moved a few times, and allocating for them would cost more"
)]
pub(super) enum ServiceTask {
    /// Runs the operations of a call.
    Execute(Deferred),
    /// Leads a group: synchronises for all calls that have joined it.
    Sync(CommitKey),
    /// Answers a group after its synchronisation.
    Answer(CommitKey, Vec<Deferred>, VfsResult<()>),
}

/// The part of the service that tasks share.
pub(super) struct Runner {
    pub(super) server: Server<Nfs>,
    pub(super) commit: GroupCommit<CommitKey, Deferred>,
    /// As `commit`, for calls that wait for client records. Such a call may wait for as long as a
    /// disk is full, and must not take the place of another one.
    records: GroupCommit<CommitKey, Deferred>,
    defects: AtomicU64,
    pub(super) flights: Flights,
    /// Whether calls that have not begun to wait for a file system are declined.
    pub(super) declining: AtomicBool,
    /// Defers a call that waits for another lane.
    pub(super) again: OnceLock<Box<dyn Fn(Deferred) + Send + Sync>>,
}

impl Runner {
    pub(super) fn new(server: Server<Nfs>) -> Self {
        Self {
            server,
            commit: GroupCommit::default(),
            records: GroupCommit::default(),
            defects: AtomicU64::new(0),
            flights: Flights::default(),
            declining: AtomicBool::new(false),
            again: OnceLock::new(),
        }
    }

    /// Returns the number of panics in deferred calls.
    pub(super) fn defects(&self) -> u64 {
        self.defects.load(Relaxed)
    }

    /// Returns the groups of these changes.
    fn group(&self, key: &CommitKey) -> &GroupCommit<CommitKey, Deferred> {
        match key {
            CommitKey::Object(_) => &self.commit,
            CommitKey::Removals | CommitKey::Puts => &self.records,
        }
    }

    /// Runs one step of a task and returns the next one. A panic closes the connection of the call,
    /// as on a shard.
    pub(super) fn step(&self, task: ServiceTask) -> Option<ServiceTask> {
        match task {
            ServiceTask::Execute(deferred) => self.execute(deferred),
            ServiceTask::Sync(key) => {
                let calls = self.group(&key).next(&key)?;
                let outcome = self.sync_group(&key, &calls);
                Some(ServiceTask::Answer(key, calls, outcome))
            }
            ServiceTask::Answer(key, calls, outcome) => {
                calls.into_iter().for_each(|deferred| self.complete(deferred, outcome));
                Some(ServiceTask::Sync(key))
            }
        }
    }

    /// Runs the operations of a call. Answers it, unless its changes must be on stable storage
    /// first.
    fn execute(&self, deferred: Deferred) -> Option<ServiceTask> {
        if self.declining.load(Acquire) && !deferred.call.is_init() {
            self.decline(deferred);
            return None;
        }
        let Deferred { call, sink, held, flight } = deferred;
        let connection = call.connection();
        let call = match catch_unwind(AssertUnwindSafe(|| self.server.execute_deferred(call))) {
            Ok(DeferredOutcome::Uncommitted(call)) => call,
            Ok(DeferredOutcome::Suspended(call)) => {
                self.defer_again(Deferred { call, sink, held, flight });
                return None;
            }
            Ok(DeferredOutcome::Completed(item)) => {
                sink.send(CompletionEvent { connection, held, item });
                return None;
            }
            Err(_) => {
                sink.send(CompletionEvent { connection, held, item: self.defect(connection) });
                return None;
            }
        };
        let bytes = call.held();
        let Some(key) = call.pending_sync() else {
            self.complete(Deferred { call, sink, held, flight }, Ok(()));
            return None;
        };
        match self.group(&key).join(&key, Deferred { call, sink, held, flight }, bytes) {
            SyncRole::Follower => None,
            SyncRole::Leader => Some(ServiceTask::Sync(key)),
            SyncRole::Single(deferred) => {
                let outcome = self.sync(&deferred);
                self.complete(deferred, outcome);
                None
            }
        }
    }

    /// Hands a call over to the threads of the lane that it waits for now.
    fn defer_again(&self, deferred: Deferred) {
        match self.again.get() {
            Some(again) => again(deferred),
            None => self.decline(deferred),
        }
    }

    /// Writes the changes of a group to stable storage. Calls of one object wait for one sync, and
    /// those for client records for their own; most often all of these are done with the first.
    fn sync_group(&self, key: &CommitKey, calls: &[Deferred]) -> VfsResult<()> {
        let own = match key {
            CommitKey::Object(_) => calls.len().min(1),
            CommitKey::Removals | CommitKey::Puts => calls.len(),
        };
        calls.iter().take(own).try_for_each(|deferred| self.sync(deferred))
    }

    /// Writes the changes of a call to stable storage. A panic must not leave the rest of the group
    /// without a reply.
    fn sync(&self, deferred: &Deferred) -> VfsResult<()> {
        catch_unwind(AssertUnwindSafe(|| self.server.sync(&deferred.call))).unwrap_or(Err(VfsError::Io))
    }

    /// Answers a call after its changes were synchronised, or after this failed.
    fn complete(&self, deferred: Deferred, outcome: VfsResult<()>) {
        let key = deferred.call.pending_sync();
        if outcome.is_err() && matches!(key, Some(CommitKey::Removals | CommitKey::Puts)) {
            // A defect of the server: the records may not be there, and nothing is to be undone.
            return self.decline(deferred);
        }
        let Deferred { call, sink, held, flight: _flight } = deferred;
        let connection = call.connection();
        let answered = catch_unwind(AssertUnwindSafe(|| self.server.complete(call, outcome)));
        let item = answered.unwrap_or_else(|_| self.defect(connection));
        sink.send(CompletionEvent { connection, held, item });
    }

    /// Answers a call that no thread runs.
    pub(super) fn decline(&self, deferred: Deferred) {
        let Deferred { call, sink, held, flight: _flight } = deferred;
        let connection = call.connection();
        sink.send(CompletionEvent { connection, held, item: self.server.decline(call) });
    }

    fn defect(&self, connection: ConnectionId) -> CompletedCall {
        self.defects.fetch_add(1, Relaxed);
        tracing::error!("a defect of the server closes a connection");
        CompletedCall::defect(connection)
    }
}
