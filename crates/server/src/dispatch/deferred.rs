//! Calls that would wait: carried out on another thread, answered by a later tick.

use super::execute::Answer;
use super::{Action, Engine, Scratch, Server};
use crate::call::Job;
use crate::compound::CompoundStatus;
use crate::engine::{FileKey, WaitsFor};
use crate::metrics::{self, Kind};
use crate::rpcsec::{Outgoing, Protection};
use rpc::{Accepted, ConnectionId, OpaqueAuth, memory};
use state::GetattrWait;
use std::net::SocketAddr;
use std::sync::atomic::AtomicU32;
use std::time::Duration;
use vfs::VfsResult;
use xdr::Encoder;

/// Takes the operations of calls that run on other threads than shards.
static ELSEWHERE: AtomicU32 = AtomicU32::new(0);

/// Where a tick's results go.
pub trait ReplySink<S> {
    /// Passes on what is to be done with a connection.
    fn reply(&mut self, connection: ConnectionId, action: Action);

    /// Passes on a reply to a call of this kind.
    fn send(&mut self, connection: ConnectionId, _kind: Kind, record: Vec<u8>) {
        self.reply(connection, Action::Send(record));
    }

    /// Notes that a connection has sent a call which proves that its peer may be served.
    fn vouch(&mut self, _connection: ConnectionId) {}

    /// Called between units of work: what was passed on may be sent, and others may have their
    /// turn. Returns how long that took, as far as it is known: it is not this tick's time.
    fn pause(&mut self) -> Duration {
        Duration::ZERO
    }

    /// Whether calls that would wait are carried out elsewhere; else the tick waits for them.
    fn has_elsewhere(&self) -> bool {
        false
    }

    /// Has a call carried out by [`Server::carry_out`] on another thread, once and certainly, or
    /// returns it when there is no room for it.
    ///
    /// # Errors
    /// The call.
    #[expect(clippy::result_large_err, reason = "it is moved once, and allocating for it would cost more")]
    fn send_away(&mut self, away: DeferredCall<S>) -> Result<(), DeferredCall<S>> {
        Err(away)
    }
}

impl<S, F: FnMut(ConnectionId, Action)> ReplySink<S> for F {
    fn reply(&mut self, connection: ConnectionId, action: Action) {
        self(connection, action);
    }
}

/// Why a call would wait, and how far it has come.
#[derive(Debug)]
pub(super) enum Stage<S> {
    /// Its COMPOUND is suspended.
    Compound { protection: Option<Protection>, suspended: S },
    /// It creates a context.
    Init,
}

/// A call that would wait.
#[derive(Debug)]
pub struct DeferredCall<S> {
    pub(super) job: Job,
    /// The reply as far as it has come.
    pub(super) buffer: Encoder,
    pub(super) stage: Stage<S>,
    /// When it was suspended.
    pub(super) since: Duration,
}

impl<S: WaitsFor> DeferredCall<S> {
    /// The lane that it waits in: see [`WaitsFor::lane`].
    pub fn lane(&self) -> u32 {
        match &self.stage {
            Stage::Compound { suspended, .. } => suspended.lane(),
            Stage::Init => 0,
        }
    }

    /// What is to be put on stable storage: see [`WaitsFor::unsettled`].
    pub fn unsettled(&self) -> Option<FileKey> {
        match &self.stage {
            Stage::Compound { suspended, .. } => suspended.unsettled(),
            Stage::Init => None,
        }
    }

    /// Puts it there: see [`WaitsFor::settle`].
    ///
    /// # Errors
    /// Those of its file system.
    pub fn settle(&self) -> VfsResult<()> {
        match &self.stage {
            Stage::Compound { suspended, .. } => suspended.settle(),
            Stage::Init => Ok(()),
        }
    }

    /// What a client has to answer first: see [`WaitsFor::answer`].
    pub fn answer(&self) -> Option<GetattrWait> {
        match &self.stage {
            Stage::Compound { suspended, .. } => suspended.answer(),
            Stage::Init => None,
        }
    }
}

impl<S> DeferredCall<S> {
    /// The connection that it came on.
    pub fn connection(&self) -> ConnectionId {
        self.job.connection
    }

    /// The peer's address.
    pub fn peer(&self) -> SocketAddr {
        self.job.peer
    }

    /// Bytes of memory that it holds.
    pub fn held(&self) -> usize {
        size_of::<Self>() + self.job.record.capacity() + self.buffer.capacity()
    }

    /// Whether it creates a context.
    pub fn is_init(&self) -> bool {
        matches!(self.stage, Stage::Init)
    }
}

/// A call that has been carried out: its reply lacks its protection only.
#[derive(Debug)]
pub struct CompletedCall {
    connection: ConnectionId,
    /// Nothing after a defect: then the connection closes.
    reply: Option<Outgoing>,
    /// When it was carried out.
    since: Duration,
    /// The call's memory, for the shard to use again.
    record: Vec<u8>,
}

/// The state of a deferred call after its operations have run.
#[derive(Debug)]
pub enum DeferredOutcome<S> {
    /// The reply can be sent.
    Completed(CompletedCall),
    /// The changes must be on stable storage before the reply is sent: call
    /// [`DeferredCall::settle`], then [`Server::settled`].
    Uncommitted(DeferredCall<S>),
}

impl CompletedCall {
    /// What is left of a call that met a defect.
    pub fn defect(connection: ConnectionId) -> Self {
        Self { connection, reply: None, since: Duration::ZERO, record: Vec::new() }
    }
}

impl<E: Engine> Server<E> {
    /// Carries out a call that would wait, on the thread that calls this. The result is for
    /// [`Server::take_back`] of any tick that has the connection.
    pub fn carry_out(&self, away: DeferredCall<E::Suspended>) -> CompletedCall {
        match self.carry_on(away) {
            DeferredOutcome::Completed(back) => back,
            DeferredOutcome::Uncommitted(away) => {
                let outcome = away.settle();
                self.settled(away, outcome)
            }
        }
    }

    /// As [`Server::carry_out`], but may leave to others that what was changed gets to stable
    /// storage.
    pub fn carry_on(&self, away: DeferredCall<E::Suspended>) -> DeferredOutcome<E::Suspended> {
        let now = self.begin_stage(&away);
        let DeferredCall { mut job, mut buffer, stage, .. } = away;
        let protection = match stage {
            Stage::Init => self.init(&job, &mut buffer, now),
            Stage::Compound { protection, suspended } => {
                match self
                    .with_call(&job, &ELSEWHERE, now, |call| self.engine.go_on(call, &mut buffer, suspended))
                {
                    Some(CompoundStatus::Deferred(suspended)) => {
                        // All of it has been run: what is long is not to be held while it waits.
                        memory::fit(buffer.as_mut_vec());
                        job.forget_arguments();
                        let stage = Stage::Compound { protection, suspended };
                        let since = self.end_stage(job.kind, now);
                        return DeferredOutcome::Uncommitted(DeferredCall { job, buffer, stage, since });
                    }
                    Some(CompoundStatus::Done(_)) | None => protection,
                }
            }
        };
        DeferredOutcome::Completed(self.done(job, buffer, protection, now))
    }

    /// Ends a call that [`DeferredOutcome::Uncommitted`] has come with, when what it has changed is
    /// on stable storage or cannot be put there.
    pub fn settled(&self, away: DeferredCall<E::Suspended>, outcome: VfsResult<()>) -> CompletedCall {
        let now = self.begin_stage(&away);
        let DeferredCall { job, mut buffer, stage, .. } = away;
        let protection = match stage {
            Stage::Init => None,
            Stage::Compound { protection, suspended } => {
                self.with_call(&job, &ELSEWHERE, now, |call| {
                    self.engine.settled(call, &mut buffer, suspended, outcome)
                });
                protection
            }
        };
        self.done(job, buffer, protection, now)
    }

    /// Takes note of how long a call has waited; returns the time.
    fn begin_stage(&self, away: &DeferredCall<E::Suspended>) -> Duration {
        let now = self.now();
        self.metrics.times.add(away.job.kind, metrics::Stage::Queue, now.saturating_sub(away.since));
        now
    }

    /// Takes note of how long a call has been worked on; returns the time.
    fn end_stage(&self, kind: Kind, began: Duration) -> Duration {
        let now = self.now();
        self.metrics.times.add(kind, metrics::Stage::Execute, now.saturating_sub(began));
        now
    }

    fn done(
        &self,
        job: Job,
        buffer: Encoder,
        protection: Option<Protection>,
        began: Duration,
    ) -> CompletedCall {
        let (connection, kind) = (job.connection, job.kind);
        let reply = Some(Outgoing { connection, kind, buffer, protection });
        CompletedCall { connection, reply, since: self.end_stage(kind, began), record: job.record }
    }

    /// Answers a call that would wait and that nobody has room for after all, as a tick does.
    pub fn decline(&self, away: DeferredCall<E::Suspended>) -> CompletedCall {
        let connection = away.connection();
        let now = self.now();
        match self.give_up(away, now) {
            Answer::Ready(reply) => {
                CompletedCall { connection, reply: Some(reply), since: now, record: Vec::new() }
            }
            Answer::Close(_) | Answer::DeferredCall(_) => CompletedCall::defect(connection),
        }
    }

    /// Puts a call that was away among the replies of the next tick.
    pub fn take_back(&self, scratch: &mut Scratch, back: CompletedCall) {
        memory::give(back.record);
        match back.reply {
            Some(reply) => {
                scratch.watch.came_back(reply.kind, back.since);
                scratch.send(reply);
            }
            None => scratch.closing.push(back.connection),
        }
    }

    /// Answers a call that would wait and that nobody has room for: a COMPOUND with NFS4ERR_DELAY,
    /// the creation of a context with SYSTEM_ERR, which says nothing of the client's credential
    /// (RFC 5531 section 9).
    pub(super) fn give_up(&self, away: DeferredCall<E::Suspended>, now: Duration) -> Answer<E::Suspended> {
        let DeferredCall { job, mut buffer, stage, .. } = away;
        let (connection, kind) = (job.connection, job.kind);
        match stage {
            Stage::Init => {
                Accepted::SystemErr.encode(&mut buffer, job.xid, &OpaqueAuth::NONE);
                memory::give(job.record);
                Answer::Ready(Outgoing { connection, kind, buffer, protection: None })
            }
            Stage::Compound { protection, suspended } => {
                self.with_call(&job, &ELSEWHERE, now, |call| {
                    self.engine.give_up(call, &mut buffer, suspended)
                });
                memory::give(job.record);
                Answer::Ready(Outgoing { connection, kind, buffer, protection })
            }
        }
    }
}
