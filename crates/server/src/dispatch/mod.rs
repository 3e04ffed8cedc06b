//! From records to COMPOUNDs and back: RPC headers, authentication, programs and procedures.
//!
//! A tick takes all the records that have arrived and goes through them in steps, each step for all of them:
//! headers are read, header MICs verified, windows asked in arrival order, bodies verified and decrypted,
//! COMPOUNDs run in arrival order, replies signed and encrypted. Cryptography so meets many messages at once.

mod away;
mod execute;
mod job;
mod lags;
mod metrics;
mod receive;
mod sys;

pub use away::{Away, Back, Outlet, WaitsFor};
pub use lags::Lags;
pub use metrics::Metrics;

pub(crate) use job::{Job, Verdict};

use crate::engine::{BackgroundCopy, Call, CompoundOutcome, Nfs, Patience, Ran, Suspended};
use crate::rpcsec::{Confounders, ContextTable, Outgoing, Rpcsec, open_bodies, verify_headers};
use lags::TickLags;
use metrics::{Reports, Trouble};
use rpc::{AuthStat, ConnectionId, Denied, WindowOutcome};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use sys::SysCache;
use xdr::Encoder;

/// What runs COMPOUNDs: [`Nfs`], or something simpler in tests.
pub trait Engine: Send + Sync {
    /// A COMPOUND that stands before an operation that would wait.
    type Suspended: WaitsFor + Send + 'static;

    /// Runs one COMPOUND and appends COMPOUND4res to `reply`, whatever `reply` already holds; without patience only to
    /// an operation that would wait.
    fn compound(&self, call: &Call<'_>, reply: &mut Encoder, patience: Patience) -> Ran<Self::Suspended>;

    /// Runs the rest of the same call to the same reply, and waits where it has to.
    fn resume(&self, call: &Call<'_>, reply: &mut Encoder, suspended: Self::Suspended) -> CompoundOutcome;

    /// Ends the same call with NFS4ERR_DELAY for the operation that would wait.
    fn give_up(&self, call: &Call<'_>, reply: &mut Encoder, suspended: Self::Suspended) -> CompoundOutcome;

    /// Takes a reply that arrived on a connection; false if it answers no callback.
    fn callback_reply(&self, _connection: ConnectionId, _record: &[u8], _now: Duration) -> bool {
        false
    }

    /// Takes the contexts by which clients call: what they call for by RPCSEC_GSS is called back by these.
    fn connect_contexts(&self, _contexts: &Arc<ContextTable>) {}

    /// Forgets what was bound to a connection.
    fn connection_closed(&self, connection: ConnectionId);

    /// Ends what has timed out; called about once a second.
    fn housekeeping(&self, now: Duration);
}

impl Engine for Nfs {
    type Suspended = Box<Suspended>;

    fn compound(&self, call: &Call<'_>, reply: &mut Encoder, patience: Patience) -> Ran {
        self.begin(call, reply, patience)
    }

    fn resume(&self, call: &Call<'_>, reply: &mut Encoder, suspended: Box<Suspended>) -> CompoundOutcome {
        Nfs::resume(self, call, reply, suspended)
    }

    fn give_up(&self, call: &Call<'_>, reply: &mut Encoder, suspended: Box<Suspended>) -> CompoundOutcome {
        Nfs::give_up(self, call, reply, suspended)
    }

    fn callback_reply(&self, connection: ConnectionId, record: &[u8], now: Duration) -> bool {
        Nfs::callback_reply(self, connection, record, now)
    }

    fn connect_contexts(&self, contexts: &Arc<ContextTable>) {
        self.callbacks.connect_contexts(contexts.clone());
    }

    fn connection_closed(&self, connection: ConnectionId) {
        Nfs::connection_closed(self, connection);
    }

    fn housekeeping(&self, now: Duration) {
        Nfs::housekeeping(self, now);
    }
}

impl Server<Nfs> {
    /// Carries a copy on, on the thread that calls this: see [`Nfs::copy_on`].
    pub fn copy_on(&self, copy: Box<BackgroundCopy>) {
        self.engine.copy_on(copy, &*self.environment.clock);
    }
}

/// Tells the monotonic time since the server's start.
pub type Clock = dyn Fn() -> Duration + Send + Sync;

/// Fills memory with random bytes that nobody can predict.
pub type Random = dyn Fn(&mut [u8]) + Send + Sync;

/// What the server gets from outside: time and chance.
pub struct Environment {
    /// Time.
    pub clock: Box<Clock>,
    /// Chance.
    pub random: Box<Random>,
}

/// What to do with a connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// Sends a record. Its first four bytes are room for the record mark.
    Send(Vec<u8>),
    /// Closes the connection after the replies before it have been sent.
    Close,
}

/// Work between two pauses, in bytes that are read, written, hashed or encrypted: some 50 µs.
pub(crate) const PAUSE_WORK: usize = 256 << 10;

/// What a call counts for besides its bytes.
const JOB_WORK: usize = 16 << 10;

/// The memory that one thread uses from tick to tick.
#[derive(Default)]
pub struct Scratch {
    jobs: Vec<Job>,
    outgoing: Vec<Outgoing>,
    outgoing_bytes: usize,
    /// Those of `outgoing` whose results are to be signed or encrypted.
    outgoing_bodies: usize,
    confounders: Confounders,
    closing: Vec<ConnectionId>,
    sys: SysCache,
}

/// The NFS server as the transport sees it: records in, records out. Shared by all threads.
pub struct Server<E> {
    engine: E,
    rpcsec: Option<Rpcsec>,
    environment: Environment,
    metrics: Arc<Metrics>,
    reports: Reports,
}

impl<E: Engine> Server<E> {
    /// Makes a server; without `rpcsec` it refuses RPCSEC_GSS and speaks AUTH_SYS alone.
    pub fn new(engine: E, rpcsec: Option<Rpcsec>, environment: Environment, metrics: Arc<Metrics>) -> Self {
        if let Some(rpcsec) = &rpcsec {
            engine.connect_contexts(rpcsec.contexts());
        }
        Self { engine, rpcsec, environment, metrics, reports: Reports::default() }
    }

    /// What runs COMPOUNDs.
    pub fn engine(&self) -> &E {
        &self.engine
    }

    /// The server's side of RPCSEC_GSS, if it has one.
    pub fn rpcsec(&self) -> Option<&Rpcsec> {
        self.rpcsec.as_ref()
    }

    /// The counters.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Handles the records of one tick in arrival order, and passes on what is to be done with their
    /// connections: replies of one connection in the order of its calls, then its end if it has come. Calls that would
    /// wait are sent away if `outlet` can; what [`Server::take_back`] has brought back is answered first.
    ///
    /// Bytes from a peer never make this panic. Its memory is bounded by the records given and by the replies
    /// that sessions allow to them.
    pub fn tick(
        &self,
        scratch: &mut Scratch,
        requests: impl IntoIterator<Item = (ConnectionId, SocketAddr, Vec<u8>)>,
        outlet: &mut impl Outlet<E::Suspended>,
    ) {
        let now = (self.environment.clock)();
        let mut jobs = std::mem::take(&mut scratch.jobs);
        let requests = requests.into_iter();
        jobs.extend(
            requests.map(|(connection, peer, record)| {
                self.receive(&mut scratch.sys, connection, peer, record, now)
            }),
        );
        Metrics::add(&self.metrics.calls, jobs.len() as u64);
        self.admit(&mut jobs, &mut scratch.closing, &mut || outlet.pause(), now);

        let mut work = 0;
        for job in jobs.drain(..) {
            let full = scratch.is_batch_full();
            if full {
                self.flush(scratch, outlet);
            }
            if full || work >= PAUSE_WORK {
                outlet.pause();
                work = 0;
            }
            work += JOB_WORK + job.record.len();
            let before = scratch.outgoing_bytes;
            self.execute(job, scratch, outlet, now);
            work += scratch.outgoing_bytes.saturating_sub(before);
        }
        self.flush(scratch, outlet);
        for connection in scratch.closing.drain(..) {
            outlet.reply(connection, Action::Close);
        }
        scratch.jobs = jobs;
    }

    /// Takes note that a connection is gone.
    pub fn closed(&self, connection: ConnectionId) {
        self.engine.connection_closed(connection);
    }

    /// Ends what has timed out; to be called about once a second.
    pub fn housekeeping(&self) {
        let now = (self.environment.clock)();
        self.engine.housekeeping(now);
        if let Some(rpcsec) = &self.rpcsec {
            rpcsec.contexts().sweep(now);
        }
    }

    /// Lets through what is genuine: header MIC, window, body, in this order.
    fn admit(
        &self,
        jobs: &mut [Job],
        closing: &mut Vec<ConnectionId>,
        pause: &mut dyn FnMut(),
        now: Duration,
    ) {
        Metrics::add(&self.metrics.mic_failures, verify_headers(jobs));
        let mut lags = TickLags::default();
        for job in jobs.iter_mut() {
            // What follows on a connection that is about to close will be sent again on another.
            if closing.contains(&job.connection) {
                job.verdict = Verdict::Ignore;
                continue;
            }
            self.check_window(job, &mut lags, now);
            if job.verdict == Verdict::Close {
                closing.push(job.connection);
            }
        }
        self.metrics.lags.add(&lags);
        Metrics::add(&self.metrics.body_failures, open_bodies(jobs, pause));
    }

    /// Asks the context's window. A number that was used or is too old is discarded in silence, as the RFC
    /// wants it; closing the connection lets the client know without a wait that it has to send again
    /// (RFC 2203 section 5.3.3.1, RFC 8881 section 2.9.2).
    fn check_window(&self, job: &mut Job, lags: &mut TickLags, now: Duration) {
        let Some(call) = job.runnable_gss() else { return };
        let (outcome, lag) = call.context.check_sequence(call.sequence, now);
        let verdict = match outcome {
            WindowOutcome::Accepted => return lags.count(lag),
            WindowOutcome::BeyondMaxseq => Verdict::Deny(Denied::Auth(AuthStat::RPCSEC_GSS_CTXPROBLEM)),
            WindowOutcome::Replayed | WindowOutcome::TooOld => {
                Metrics::add(&self.metrics.window_drops, 1);
                if call.context.report_window_once() {
                    let (peer, sequence, principal) = (job.peer, call.sequence, call.context.principal());
                    tracing::warn!(
                        %peer, principal, sequence, ?outcome,
                        "call outside of the sequence window; this context's further ones are only counted"
                    );
                }
                Verdict::Close
            }
        };
        job.verdict = verdict;
    }

    /// Signs and encrypts what is ready and passes it on.
    fn flush(&self, scratch: &mut Scratch, outlet: &mut impl Outlet<E::Suspended>) {
        if scratch.outgoing.iter().any(|reply| reply.protection.is_some()) {
            let (random, confounders) = (&self.environment.random, &mut scratch.confounders);
            crate::rpcsec::seal(&mut scratch.outgoing, random, confounders, &mut || outlet.pause());
        }
        (scratch.outgoing_bytes, scratch.outgoing_bodies) = (0, 0);
        for reply in scratch.outgoing.drain(..) {
            outlet.reply(reply.connection, Action::Send(reply.buffer.into_vec()));
        }
    }
}

impl Scratch {
    /// Makes empty scratch memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether enough is ready to be sent: with bodies to protect, what fills the lanes of the cipher, else what is
    /// worth a system call. More would only leave the processor's caches.
    fn is_batch_full(&self) -> bool {
        const BODIES_MIN: usize = 16;
        const PROTECTED_BYTES_MIN: usize = 1 << 20;
        const PLAIN_BYTES_MIN: usize = 512 << 10;
        match self.outgoing_bodies {
            0 => self.outgoing_bytes >= PLAIN_BYTES_MIN,
            bodies => bodies >= BODIES_MIN && self.outgoing_bytes >= PROTECTED_BYTES_MIN,
        }
    }
}
