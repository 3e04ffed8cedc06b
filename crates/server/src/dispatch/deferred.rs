//! Deferred calls: they would block, so another thread runs them and a later tick sends their
//! replies.

use super::execute::{CallProgress, CallThread, outgoing};
use super::slow::DeferredTimes;
use super::{Engine, Scratch, Server};
use crate::call::{Auth, Job};
use crate::compound::CompoundStatus;
use crate::engine::{CommitKey, NAMES_LANE, WaitPolicy, WaitsFor};
use crate::metrics::{self, Kind};
use crate::rpcsec::{Outgoing, Protection};
use rpc::{Accepted, ConnectionId, OpaqueAuth, memory};
use state::GetattrWait;
use std::net::SocketAddr;
use std::sync::atomic::AtomicU32;
use std::time::Duration;
use vfs::VfsResult;
use xdr::Encoder;

/// Receives the number of the current operation on threads other than shards; never read.
static OFF_SHARD: AtomicU32 = AtomicU32::new(0);

/// The work of a deferred call that is left, with its progress.
#[derive(Debug)]
pub(super) enum PendingWork<S> {
    /// Its COMPOUND is suspended.
    Compound { protection: Option<Protection>, suspended: S },
    /// It creates a context.
    Init,
    /// The groups of its caller are to be looked up before it begins.
    Groups,
}

/// A call that would block.
#[derive(Debug)]
pub struct DeferredCall<S> {
    pub(super) job: Job,
    /// The part of the reply that exists.
    pub(super) buffer: Encoder,
    pub(super) work: PendingWork<S>,
    /// The time at which it was suspended.
    pub(super) since: Duration,
    pub(super) times: DeferredTimes,
}

/// A deferred call after its last operation.
struct DoneCall {
    job: Job,
    buffer: Encoder,
    protection: Option<Protection>,
    /// The lane in which it waited.
    lane: u32,
    times: DeferredTimes,
}

impl<S: WaitsFor> DeferredCall<S> {
    /// Returns the lane of the call: see [`WaitsFor::lane`].
    pub fn lane(&self) -> u32 {
        match &self.work {
            PendingWork::Compound { suspended, .. } => suspended.lane(),
            PendingWork::Init => 0,
            PendingWork::Groups => NAMES_LANE,
        }
    }

    /// Returns whether the call seldom blocks: see [`WaitsFor::is_brief`].
    pub fn is_brief(&self) -> bool {
        match &self.work {
            PendingWork::Compound { suspended, .. } => suspended.is_brief(),
            PendingWork::Init | PendingWork::Groups => false,
        }
    }

    /// Returns the changes to be put on stable storage: see [`WaitsFor::pending_sync`].
    pub fn pending_sync(&self) -> Option<CommitKey> {
        match &self.work {
            PendingWork::Compound { suspended, .. } => suspended.pending_sync(),
            PendingWork::Init | PendingWork::Groups => None,
        }
    }

    /// Returns the CB_GETATTR that a client has to answer first: see [`WaitsFor::getattr_wait`].
    pub fn getattr_wait(&self) -> Option<GetattrWait> {
        match &self.work {
            PendingWork::Compound { suspended, .. } => suspended.getattr_wait(),
            PendingWork::Init | PendingWork::Groups => None,
        }
    }
}

impl<S> DeferredCall<S> {
    /// Returns the connection on which the call arrived.
    pub fn connection(&self) -> ConnectionId {
        self.job.connection
    }

    /// Returns the peer's address and port.
    pub fn peer(&self) -> SocketAddr {
        self.job.peer
    }

    /// Returns the memory that the call holds, in bytes.
    pub fn held(&self) -> usize {
        size_of::<Self>() + self.job.record.capacity() + self.buffer.capacity()
    }

    /// Returns whether the call creates a context.
    pub fn is_init(&self) -> bool {
        matches!(self.work, PendingWork::Init)
    }
}

/// A deferred call that has run. Its reply lacks only its protection.
#[derive(Debug)]
pub struct CompletedCall {
    connection: ConnectionId,
    /// The reply; `None` after a panic, when the connection closes.
    reply: Option<Outgoing>,
    /// How long the connection must be paused.
    pause: Duration,
    /// When the call finished.
    since: Duration,
    /// The memory of the call's record, for the shard to use again.
    record: Vec<u8>,
}

/// The state of a deferred call after a thread has run it.
#[derive(Debug)]
pub enum DeferredOutcome<S> {
    /// The reply can be sent.
    Completed(CompletedCall),
    /// The next operation waits in another lane: call [`Server::execute_deferred`] there.
    Suspended(DeferredCall<S>),
    /// The changes must be on stable storage before the reply is sent: call
    /// [`Server::sync`], then [`Server::complete`].
    Uncommitted(DeferredCall<S>),
}

impl CompletedCall {
    /// Returns the outcome of a call that panicked: the connection closes.
    pub fn defect(connection: ConnectionId) -> Self {
        Self { connection, reply: None, pause: Duration::ZERO, since: Duration::ZERO, record: Vec::new() }
    }
}

impl<E: Engine> Server<E> {
    /// Runs a deferred call on a thread of its lane, until it ends or waits for something else. A
    /// completed call goes to [`Server::take_completed`] of any tick that owns the connection.
    pub fn execute_deferred(
        &self,
        mut deferred: DeferredCall<E::Suspended>,
    ) -> DeferredOutcome<E::Suspended> {
        let (now, lane) = (self.begin_stage(&deferred), deferred.lane());
        let waited = now.saturating_sub(deferred.since);
        deferred.times = match deferred.getattr_wait() {
            Some(_) => deferred.times.answered(waited),
            None => deferred.times.queued(waited),
        };
        let DeferredCall { mut job, mut buffer, work, times, .. } = deferred;
        let progress = match work {
            PendingWork::Init => CallProgress::Done(self.init(&job, &mut buffer, now)),
            PendingWork::Groups => self.begin_with_groups(&mut job, &mut buffer, now),
            PendingWork::Compound { protection, suspended } => {
                match self.with_call(&job, self.off_shard(), now, |call| {
                    self.engine.execute(call, &mut buffer, suspended)
                }) {
                    Some(CompoundStatus::Deferred(suspended)) => {
                        let work = PendingWork::Compound { protection, suspended };
                        CallProgress::Waits { work, operation: None }
                    }
                    Some(CompoundStatus::Done(outcome)) => {
                        job.note(outcome.subject, outcome.usage());
                        CallProgress::Done(protection)
                    }
                    None => CallProgress::Done(protection),
                }
            }
        };
        match progress {
            CallProgress::Done(protection) => {
                let done = DoneCall { job, buffer, protection, lane, times };
                DeferredOutcome::Completed(self.done(done, now))
            }
            CallProgress::Waits { work, operation } => {
                let since = self.end_stage(job.kind, now);
                let times = times.before(operation).ran(since.saturating_sub(now));
                Self::suspend(DeferredCall { job, buffer, work, since, times })
            }
        }
    }

    /// Returns the state of a call that waits again. Large buffers are not held meanwhile.
    fn suspend(mut deferred: DeferredCall<E::Suspended>) -> DeferredOutcome<E::Suspended> {
        memory::fit(deferred.buffer.as_mut_vec());
        if deferred.pending_sync().is_none() {
            return DeferredOutcome::Suspended(deferred);
        }
        deferred.job.forget_arguments();
        DeferredOutcome::Uncommitted(deferred)
    }

    /// Looks up the groups of a caller and begins its call, which waits for file systems in their
    /// lanes.
    fn begin_with_groups(
        &self,
        job: &mut Job,
        buffer: &mut Encoder,
        now: Duration,
    ) -> CallProgress<E::Suspended> {
        self.find_groups(job, now);
        if let Auth::SysUnknown { .. } = &job.auth {
            return CallProgress::Done(self.run_to_end(job, buffer, now));
        }
        let operation = AtomicU32::new(0);
        let thread = CallThread { operation: &operation, ..self.off_shard() };
        self.run(job, buffer, WaitPolicy::Suspends, thread, now)
    }

    /// Puts the changes of a [`DeferredOutcome::Uncommitted`] call on stable storage, and with them
    /// those of all calls with the same [`DeferredCall::pending_sync`] that were made before.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn sync(&self, deferred: &DeferredCall<E::Suspended>) -> VfsResult<()> {
        match &deferred.work {
            PendingWork::Compound { suspended, .. } => self.engine.sync(suspended),
            PendingWork::Init | PendingWork::Groups => Ok(()),
        }
    }

    /// Runs a call that has not begun, and blocks where it has to. A caller whose groups are still
    /// unknown gets NFS4ERR_DELAY.
    fn run_to_end(&self, job: &Job, buffer: &mut Encoder, now: Duration) -> Option<Protection> {
        match self.run(job, buffer, WaitPolicy::Waits, self.off_shard(), now) {
            CallProgress::Done(protection) => protection,
            CallProgress::Waits { .. } => None,
        }
    }

    /// Ends a call returned as [`DeferredOutcome::Uncommitted`], after its changes have reached
    /// stable storage or failed to.
    pub fn complete(&self, deferred: DeferredCall<E::Suspended>, outcome: VfsResult<()>) -> CompletedCall {
        let (now, lane) = (self.begin_stage(&deferred), deferred.lane());
        let times = deferred.times.synced(now.saturating_sub(deferred.since));
        let DeferredCall { job, mut buffer, work, .. } = deferred;
        let protection = match work {
            PendingWork::Init | PendingWork::Groups => None,
            PendingWork::Compound { protection, suspended } => {
                let ended = self.with_call(&job, self.off_shard(), now, |call| {
                    self.engine.complete(call, &mut buffer, suspended, outcome)
                });
                if let Some(outcome) = ended {
                    job.note(outcome.subject, outcome.usage());
                }
                protection
            }
        };
        self.done(DoneCall { job, buffer, protection, lane, times }, now)
    }

    /// Returns the thread of calls that no shard runs.
    fn off_shard(&self) -> CallThread<'_> {
        CallThread { operation: &OFF_SHARD, counters: self.metrics.served.shared(), pause: None }
    }

    /// Records the time that a call has waited, and returns the current time.
    fn begin_stage(&self, deferred: &DeferredCall<E::Suspended>) -> Duration {
        let now = self.now();
        self.metrics.times.add(deferred.job.kind, metrics::Stage::Queue, now.saturating_sub(deferred.since));
        now
    }

    /// Records the time that a call has run, and returns the current time.
    fn end_stage(&self, kind: Kind, began: Duration) -> Duration {
        let now = self.now();
        self.metrics.times.add(kind, metrics::Stage::Execute, now.saturating_sub(began));
        now
    }

    /// Completes a call whose last part began at `began`.
    fn done(&self, done: DoneCall, began: Duration) -> CompletedCall {
        let DoneCall { job, buffer, protection, lane, times } = done;
        let since = self.end_stage(job.kind, began);
        self.note_if_slow(&job, lane, times.ran(since.saturating_sub(began)), since);
        let (connection, reply) = (job.connection, outgoing(&job, buffer, protection));
        let pause = self.charge(&job, &reply, since);
        CompletedCall { connection, reply: Some(reply), pause, since, record: job.record }
    }

    /// Answers a deferred call that no thread has room for, as a tick does.
    pub fn decline(&self, deferred: DeferredCall<E::Suspended>) -> CompletedCall {
        let connection = deferred.connection();
        let now = self.now();
        match self.answer_declined(deferred, now) {
            Some(reply) => {
                let pause = Duration::ZERO;
                CompletedCall { connection, reply: Some(reply), pause, since: now, record: Vec::new() }
            }
            None => CompletedCall::defect(connection),
        }
    }

    /// Adds a completed call to the replies of the next tick.
    pub fn take_completed(&self, scratch: &mut Scratch, completed: CompletedCall) {
        memory::give(completed.record);
        if !completed.pause.is_zero() {
            scratch.pauses.push((completed.connection, completed.pause));
        }
        match completed.reply {
            Some(reply) => {
                scratch.watch.completed(reply.kind, completed.since);
                scratch.send(reply);
            }
            None => scratch.closing.push(completed.connection),
        }
    }

    /// Answers a deferred call that no thread has room for: a COMPOUND with NFS4ERR_DELAY, the
    /// creation of a context with SYSTEM_ERR, which does not blame the client's credential (RFC
    /// 5531 section 9). After `None` its connection closes.
    pub(super) fn answer_declined(
        &self,
        deferred: DeferredCall<E::Suspended>,
        now: Duration,
    ) -> Option<Outgoing> {
        let DeferredCall { job, mut buffer, work, .. } = deferred;
        let protection = match work {
            PendingWork::Init => {
                Accepted::SystemErr.encode(&mut buffer, job.xid, &OpaqueAuth::NONE);
                None
            }
            PendingWork::Groups => self.run_to_end(&job, &mut buffer, now),
            PendingWork::Compound { protection, suspended } => {
                let outcome = self.with_call(&job, self.off_shard(), now, |call| {
                    self.engine.decline(call, &mut buffer, suspended)
                });
                match outcome {
                    Some(None) => return None,
                    Some(Some(outcome)) => job.note(outcome.subject, outcome.usage()),
                    None => {}
                }
                protection
            }
        };
        let reply = outgoing(&job, buffer, protection);
        memory::give(job.record);
        Some(reply)
    }
}
