//! From records to COMPOUNDs and back: RPC headers, authentication, programs and procedures.
//!
//! A tick takes all records that have arrived and passes them through stages, each stage for all of
//! them: parse headers, verify header MICs, check windows in arrival order, verify and decrypt
//! bodies, run COMPOUNDs in arrival order, sign and encrypt replies. Cryptography thus works on
//! batches of messages.

mod admit;
mod deferred;
mod execute;
mod ingress;
mod protect;
mod receive;
mod slow;
mod sys;

pub use deferred::{CompletedCall, DeferredCall, DeferredOutcome, ReplySink};

use crate::call::Job;
use crate::compound::CompoundStatus;
use crate::engine::{
    BackgroundCopy, Call, CompoundOutcome, CompoundState, Nfs, ObservedRefusal, WaitPolicy, WaitsFor,
};
use crate::metrics::{LentCounters, Metrics, Reports, ServedCall, Stage, TickWatch};
use crate::rpcsec::{ContextTable, Outgoing, PAUSE_WORK, ReplyConfounders, Rpcsec};
use crate::tenants::{ClientTenants, LimitedTenants};
use identity::Mapper;
use nfs4::NfsOpnum4;
use rpc::ConnectionId;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;
use sys::{AdmissionCache, SysCache};
use vfs::{ClientPeer, SecFlavor, Unresolved, VfsResult};
use xdr::Encoder;

/// Runs COMPOUNDs: [`Nfs`], or a simpler implementation in tests.
pub trait Engine: Send + Sync {
    /// A COMPOUND suspended before an operation that would block.
    type Suspended: WaitsFor + Send + 'static;

    /// Runs one COMPOUND and appends COMPOUND4res to `reply`, after its present content. With
    /// [`WaitPolicy::Suspends`] it stops before an operation that would block.
    fn compound(
        &self,
        call: &Call<'_>,
        reply: &mut Encoder,
        policy: WaitPolicy,
    ) -> CompoundStatus<Self::Suspended>;

    /// Runs the rest of the same call to the same reply, and blocks where it has to.
    fn resume(&self, call: &Call<'_>, reply: &mut Encoder, suspended: Self::Suspended) -> CompoundOutcome;

    /// As `resume`, on a thread of the lane of the call. May stop before an operation that waits
    /// for another lane, and at the end, before the changes are on stable storage: see
    /// [`WaitsFor::pending_sync`].
    fn execute(
        &self,
        call: &Call<'_>,
        reply: &mut Encoder,
        suspended: Self::Suspended,
    ) -> CompoundStatus<Self::Suspended> {
        CompoundStatus::Done(self.resume(call, reply, suspended))
    }

    /// Puts the changes of a call on stable storage, after all of its operations have run.
    ///
    /// # Errors
    /// The error of their file system.
    fn sync(&self, _suspended: &Self::Suspended) -> VfsResult<()> {
        Ok(())
    }

    /// Ends such a call after its changes have reached stable storage or failed to.
    fn complete(
        &self,
        call: &Call<'_>,
        reply: &mut Encoder,
        suspended: Self::Suspended,
        _outcome: VfsResult<()>,
    ) -> CompoundOutcome {
        self.resume(call, reply, suspended)
    }

    /// Ends the same call with NFS4ERR_DELAY for the operation that would block. `None`: there is
    /// no such reply, and the connection must close.
    fn decline(
        &self,
        call: &Call<'_>,
        reply: &mut Encoder,
        suspended: Self::Suspended,
    ) -> Option<CompoundOutcome>;

    /// Handles a reply that arrived on a connection; false if it answers no callback.
    fn callback_reply(&self, _connection: ConnectionId, _record: &[u8], _now: Duration) -> bool {
        false
    }

    /// Sets the table of contexts that clients have established: callbacks with RPCSEC_GSS use
    /// these.
    fn connect_contexts(&self, _contexts: &Arc<ContextTable>) {}

    /// Returns the name of a lane of [`WaitsFor::lane`] for the log, if it is that of an export.
    fn lane_name(&self, _lane: u32) -> Option<String> {
        None
    }

    /// Reports a call that was denied before any operation, for the audit log.
    fn observe_denial(&self, _peer: SocketAddr, _principal: Option<&str>, _reason: &str) {}

    /// Returns whether a client at this address and port may use AUTH_SYS.
    ///
    /// # Errors
    /// The name of the client that must be looked up first.
    fn admits_sys(&self, _client: SocketAddr, _now: Duration) -> Result<bool, Unresolved> {
        Ok(true)
    }

    /// Returns the accounts whose groups AUTH_SYS callers have; `None` if they have those of their
    /// credentials.
    fn sys_accounts(&self) -> Option<&Mapper> {
        None
    }

    /// Answers a COMPOUND with NFS4ERR_DELAY for its first operation.
    fn delay(&self, _call: &Call<'_>, _reply: &mut Encoder) {}

    /// Removes all state bound to a connection.
    fn connection_closed(&self, connection: ConnectionId);

    /// Ends everything that has timed out; called about once a second.
    fn housekeeping(&self, now: Duration);
}

impl Engine for Nfs {
    type Suspended = Box<CompoundState>;

    fn compound(&self, call: &Call<'_>, reply: &mut Encoder, policy: WaitPolicy) -> CompoundStatus {
        match policy {
            WaitPolicy::Waits => CompoundStatus::Done(Nfs::compound(self, call, reply)),
            WaitPolicy::Suspends | WaitPolicy::WaitsIn(_) => self.begin(call, reply, policy),
        }
    }

    fn execute(&self, call: &Call<'_>, reply: &mut Encoder, suspended: Box<CompoundState>) -> CompoundStatus {
        Nfs::execute(self, call, reply, suspended)
    }

    fn sync(&self, suspended: &Box<CompoundState>) -> VfsResult<()> {
        Nfs::sync(self, suspended)
    }

    fn complete(
        &self,
        call: &Call<'_>,
        reply: &mut Encoder,
        suspended: Box<CompoundState>,
        outcome: VfsResult<()>,
    ) -> CompoundOutcome {
        Nfs::complete(self, call, reply, suspended, outcome)
    }

    fn resume(&self, call: &Call<'_>, reply: &mut Encoder, suspended: Box<CompoundState>) -> CompoundOutcome {
        Nfs::resume(self, call, reply, suspended)
    }

    fn decline(
        &self,
        call: &Call<'_>,
        reply: &mut Encoder,
        suspended: Box<CompoundState>,
    ) -> Option<CompoundOutcome> {
        Nfs::decline(self, call, reply, suspended)
    }

    fn callback_reply(&self, connection: ConnectionId, record: &[u8], now: Duration) -> bool {
        Nfs::callback_reply(self, connection, record, now)
    }

    fn connect_contexts(&self, contexts: &Arc<ContextTable>) {
        self.callbacks.connect_contexts(contexts.clone());
    }

    fn lane_name(&self, lane: u32) -> Option<String> {
        self.exports.snapshot().by_id(lane).map(|export| export.pseudo_path.clone())
    }

    fn observe_denial(&self, peer: SocketAddr, principal: Option<&str>, reason: &str) {
        self.observe_refusal(&ObservedRefusal { peer, principal, flavor: None, export: None, reason });
    }

    fn admits_sys(&self, client: SocketAddr, now: Duration) -> Result<bool, Unresolved> {
        let exports = self.exports.snapshot();
        let peer = ClientPeer { address: client, now };
        let mut refused = Ok(false);
        for export in exports.iter() {
            match export.rule_for(peer) {
                Ok(Some(rule)) if export.rule(rule).allows(SecFlavor::Sys, peer) => return Ok(true),
                Ok(_) => {}
                Err(unresolved) => refused = Err(unresolved),
            }
        }
        refused
    }

    fn sys_accounts(&self) -> Option<&Mapper> {
        Nfs::sys_accounts(self)
    }

    fn delay(&self, call: &Call<'_>, reply: &mut Encoder) {
        Nfs::delay(self, call, reply);
    }

    fn connection_closed(&self, connection: ConnectionId) {
        Nfs::connection_closed(self, connection);
    }

    fn housekeeping(&self, now: Duration) {
        Nfs::housekeeping(self, now);
    }
}

impl Server<Nfs> {
    /// Continues a copy on the calling thread: see [`Nfs::copy_on`].
    pub fn copy_on(&self, copy: Box<BackgroundCopy>) {
        self.engine.copy_on(copy, &*self.environment.clock);
    }
}

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

/// An action for a connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// Sends a record. Its first four bytes are room for the record mark.
    Send(Vec<u8>),
    /// Closes the connection after the replies before it have been sent.
    Close,
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
        self.admit(&mut jobs, scratch, &mut || sink.pause(), now);

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
