//! From records to COMPOUNDs and back: RPC headers, authentication, programs and procedures.
//!
//! A tick takes all records that have arrived and passes them through stages, each stage for all of
//! them: parse headers, verify header MICs, check windows in arrival order, verify and decrypt
//! bodies, run COMPOUNDs in arrival order, sign and encrypt replies. Cryptography thus works on
//! batches of messages.

mod admit;
mod deferred;
mod engine;
mod execute;
mod ingress;
mod protect;
mod receive;
mod sink;
mod slow;
mod sys;

pub use deferred::{CompletedCall, DeferredCall, DeferredOutcome};
pub use engine::Engine;
pub use sink::{Action, ReplySink};

use crate::call::Job;
use crate::engine::{BackgroundCopy, Nfs};
use crate::metrics::{LentCounters, Metrics, Reports, ServedCall, Stage, TickWatch};
use crate::rpcsec::{Outgoing, PAUSE_WORK, ReplyConfounders, Rpcsec};
use crate::tenants::{ClientTenants, LimitedTenants};
use nfs4::NfsOpnum4;
use rpc::ConnectionId;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;
use sys::{AdmissionCache, SysCache};

/// Returns the monotonic time since the server's start.
pub type Clock = dyn Fn() -> Duration + Send + Sync;

/// Returns the name of the operation whose number [`Scratch::reporting`] has written; empty for
/// none.
pub fn operation_name(number: u32) -> &'static str {
    NfsOpnum4::from_u32(number).map_or("", NfsOpnum4::name)
}

/// Fills memory with cryptographically secure random bytes.
pub type Random = dyn Fn(&mut [u8]) + Send + Sync;

/// The server's sources of time and randomness.
pub struct Environment {
    /// The monotonic time since the server's start.
    pub clock: Box<Clock>,
    /// Cryptographically secure random bytes.
    pub random: Box<Random>,
}

/// Fixed cost of a call in bytes, added to its size when work is counted.
const JOB_WORK: usize = 16 << 10;
/// Further cost of a call that was expensive, in bytes: a pause follows every second one.
const EXPENSIVE_WORK: usize = PAUSE_WORK / 2;

/// Memory that one thread reuses from tick to tick.
#[derive(Default)]
pub struct Scratch {
    jobs: Vec<Job>,
    outgoing: Vec<Outgoing>,
    outgoing_bytes: usize,
    /// The number of replies in `outgoing` whose results are to be signed or encrypted.
    outgoing_bodies: usize,
    confounders: ReplyConfounders,
    closing: Vec<ConnectionId>,
    /// The last connection reported to the sink: see [`ReplySink::vouch`].
    vouched: Option<ConnectionId>,
    /// The tenants of the clients' addresses.
    clients: ClientTenants,
    /// Connections to pause after this tick.
    pauses: Vec<(ConnectionId, Duration)>,
    /// The number of the current operation; 0 for none.
    operation: Arc<AtomicU32>,
    sys: SysCache,
    admissions: AdmissionCache,
    watch: TickWatch,
    /// The counters of the thread, from its first tick on.
    counters: Option<LentCounters>,
}

/// The NFS server as the transport sees it: records in, records out. All threads share it.
pub struct Server<E> {
    engine: E,
    rpcsec: Option<Rpcsec>,
    environment: Environment,
    metrics: Arc<Metrics>,
    tenants: Arc<LimitedTenants>,
    reports: Reports,
}

impl<E: Engine> Server<E> {
    /// Makes a server. Without `rpcsec` it refuses RPCSEC_GSS and serves AUTH_SYS only.
    pub fn new(
        engine: E,
        rpcsec: Option<Rpcsec>,
        environment: Environment,
        metrics: Arc<Metrics>,
        tenants: Arc<LimitedTenants>,
    ) -> Self {
        if let Some(rpcsec) = &rpcsec {
            engine.connect_contexts(rpcsec.contexts());
        }
        Self { engine, rpcsec, environment, metrics, tenants, reports: Reports::default() }
    }

    /// Returns the engine that runs COMPOUNDs.
    pub fn engine(&self) -> &E {
        &self.engine
    }

    /// Returns the server's side of RPCSEC_GSS; `None` if it serves AUTH_SYS only.
    pub fn rpcsec(&self) -> Option<&Rpcsec> {
        self.rpcsec.as_ref()
    }

    /// Returns the principals and clients that share this server.
    pub fn tenants(&self) -> &Arc<LimitedTenants> {
        &self.tenants
    }

    /// Returns the counters of this server.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Handles the records of one tick in arrival order, and passes the results to `sink`: the
    /// replies of one connection in the order of its calls, then its close if it is due. Calls that
    /// would block are deferred if `sink` supports it. Calls that [`Server::take_completed`] has
    /// returned are answered first.
    ///
    /// Bytes from a peer never make this panic. Its memory is bounded by the records given and by
    /// the replies that sessions allow to them.
    pub fn tick(
        &self,
        scratch: &mut Scratch,
        requests: impl IntoIterator<Item = (ConnectionId, SocketAddr, Vec<u8>)>,
        sink: &mut impl ReplySink<E::Suspended>,
    ) {
        let now = self.now();
        let mut jobs = self.receive_all(scratch, requests, now);
        self.admit(&mut jobs, scratch, &mut || sink.pause(), now);
        self.execute_all(&mut jobs, scratch, sink, now);
        scratch.watch.end(&self.metrics.times);
        scratch.vouched = None;
        for (connection, time) in scratch.pauses.drain(..) {
            sink.throttle(connection, time);
        }
        for connection in scratch.closing.drain(..) {
            sink.reply(connection, Action::Close);
        }
        scratch.jobs = jobs;
    }

    /// Parses the headers of records, and begins the measurement of a tick.
    fn receive_all(
        &self,
        scratch: &mut Scratch,
        requests: impl IntoIterator<Item = (ConnectionId, SocketAddr, Vec<u8>)>,
        now: Duration,
    ) -> Vec<Job> {
        let since = scratch.watch.since(now);
        scratch.counters.get_or_insert_with(|| LentCounters::of(&self.metrics));
        let mut jobs = std::mem::take(&mut scratch.jobs);
        jobs.extend(requests.into_iter().map(|(connection, peer, record)| {
            let served = ServedCall::new(since, record.len());
            let mut job = self.receive(&mut scratch.sys, connection, peer, record, now);
            *job.served.get_mut() = served;
            job
        }));
        Metrics::add(&self.metrics.calls, jobs.len() as u64);
        scratch.watch.begin(jobs.iter().map(|job| (job.kind, job.enctype())), now);
        jobs
    }

    /// Runs calls in their order. Pauses for interactive connections between them, and protects and
    /// sends the replies whenever a batch of them is full.
    fn execute_all(
        &self,
        jobs: &mut Vec<Job>,
        scratch: &mut Scratch,
        sink: &mut impl ReplySink<E::Suspended>,
        now: Duration,
    ) {
        let first = jobs.first().map(|job| job.kind).or(scratch.outgoing.first().map(|reply| reply.kind));
        let (mut kind, mut work) = (first.unwrap_or_default(), 0);
        for job in jobs.drain(..) {
            let full = scratch.is_batch_full();
            if full {
                self.flush(scratch, sink, kind);
            }
            if full || work >= PAUSE_WORK {
                scratch.watch.skip(sink.pause());
                work = 0;
            }
            if job.kind != kind {
                scratch.watch.lap(self.now(), Stage::Execute, kind);
                kind = job.kind;
            }
            work += JOB_WORK + job.record.len();
            let before = scratch.outgoing_bytes;
            if self.execute(job, scratch, sink, now) {
                work += EXPENSIVE_WORK;
            }
            work += scratch.outgoing_bytes.saturating_sub(before);
        }
        self.flush(scratch, sink, kind);
    }

    /// Returns the time since the server's start.
    pub fn now(&self) -> Duration {
        (self.environment.clock)()
    }

    /// Removes the state of a connection that has closed.
    pub fn closed(&self, connection: ConnectionId) {
        self.engine.connection_closed(connection);
    }

    /// Ends everything that has timed out; to be called about once a second.
    pub fn housekeeping(&self) {
        let now = self.now();
        self.engine.housekeeping(now);
        self.tenants.sweep(now);
        if let Some(rpcsec) = &self.rpcsec {
            rpcsec.contexts().sweep(now);
            rpcsec.refresh_identities(now);
        }
    }
}

impl Server<Nfs> {
    /// Continues a copy on the calling thread: see [`Nfs::copy_on`].
    pub fn copy_on(&self, copy: Box<BackgroundCopy>) {
        self.engine.copy_on(copy, &*self.environment.clock);
    }
}

impl Scratch {
    /// Makes empty scratch memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes empty scratch memory that writes the number of the current operation to `operation`.
    pub fn reporting(operation: &Arc<AtomicU32>) -> Self {
        Self { operation: operation.clone(), ..Self::default() }
    }

    /// Sets the time at which the records of the coming ticks arrived, by the clock of
    /// [`Environment`]. The time from then until a tick begins counts as queueing.
    pub fn arrived(&mut self, at: Duration) {
        self.watch.arrived(at);
    }

    /// Returns whether enough replies are ready: with bodies to protect, enough to fill the lanes
    /// of the cipher, else enough for one system call. Larger batches would leave the processor's
    /// caches.
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
