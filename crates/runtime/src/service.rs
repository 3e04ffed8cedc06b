//! The service that the network layer calls: a server, and the pools for deferred calls.

mod copies;
mod runner;
mod shard;

pub use shard::{CallStep, ShardMemory};

use crate::lane_times::{LanePace, LaneTimes, StepKind};
use crate::parked::{Parked, ParkedCall};
use crate::pool::LANE_WEIGHT_DEFAULT;
use crate::quiet::{CallFlight, CopyGate, PausedCopies};
use crate::{Executor, PoolLimits, ServiceCounts, TaskPool, Threads};
use copies::Copies;
use net::Outgoing;
use rpc::ConnectionId;
use runner::{Deferred, Runner, ServiceTask};
use server::callback::CallbackTransport;
use server::dispatch::{Engine, Server};
use server::engine::{BackgroundCopy, Nfs};
use state::GetattrWait;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, Release},
};
use std::time::{Duration, Instant};

/// The most threads that wait for disks at once. An export takes at most half of the threads that
/// the others leave, so that a file system that hangs does not delay the other exports. While
/// calls of several exports wait for a thread, the exports share the threads by weight.
const DISK_THREADS_MAX: usize = 128;
/// The most calls that wait for such a thread, with the same shares.
const DISK_WAITING_MAX: usize = 16384;

/// The most threads that create contexts at once. They have their own pool: a flood of new
/// contexts, or a user directory that hangs, must not delay calls that wait for a disk.
const CONTEXT_THREADS_MAX: usize = 4;
/// The most context creations that wait for a thread; further ones are answered with SYSTEM_ERR. A
/// connection has one at a time until it is trusted. Addresses take turns, and each takes at most
/// half of the places that the others leave.
const CONTEXTS_WAITING_MAX: usize = 16384;
/// The niceness of these threads relative to the shards: a flood of tokens must not slow down
/// calls.
const CONTEXTS_NICENESS: i32 = 10;

/// The most threads that continue copies after the reply to COPY. They have their own pool, so that
/// a call never waits for a step of a copy. An export takes at most half of the threads that the
/// others leave.
const COPY_THREADS_MAX: usize = 8;
/// The most copies that wait for such a thread. It is far above the limit of copies, since each
/// lane takes only its share.
const COPIES_WAITING_MAX: usize = 1024;

// The network layer, the pools and the server name the same default.
const _: () = assert!(net::WEIGHT_DEFAULT == server::tenants::WEIGHT_DEFAULT);
const _: () = assert!(LANE_WEIGHT_DEFAULT == server::tenants::WEIGHT_DEFAULT);

/// A suspended COMPOUND of the server.
type Suspended = <Nfs as Engine>::Suspended;

type DiskPool<E> = <E as Executor>::Pool<ServiceTask, u32>;
type ContextPool<E> = <E as Executor>::Pool<ServiceTask, IpAddr>;
type CopyTask = (Box<BackgroundCopy>, CallFlight);
type CopyPool<E> = <E as Executor>::Pool<CopyTask, u32>;

/// The server in the form that the network layer uses.
pub struct NfsService<E: Executor = Threads> {
    runner: Arc<Runner>,
    /// Whether the server's clock goes with real time.
    real_time: bool,
    /// Runs calls that wait for a disk.
    disk: DiskPool<E>,
    /// Creates contexts, with Kerberos and the user directory.
    contexts: ContextPool<E>,
    /// Calls that wait for a client's answer to a callback.
    parked: Parked<GetattrWait, Deferred>,
    /// Continues copies after the reply to COPY.
    copies: Arc<CopyPool<E>>,
    gate: Arc<CopyGate>,
    /// The times of steps on the threads of shards.
    lanes: LaneTimes,
    /// The time of the server's clock, in nanoseconds, at which the service stops answering.
    silent_from: AtomicU64,
}

impl<E: Executor> NfsService<E> {
    /// Makes the service of a server, with pools of an executor.
    pub(crate) fn start(server: Server<Nfs>, executor: &E, real_time: bool) -> Arc<Self> {
        let runner = Arc::new(Runner::new(server));
        let step = || {
            let runner = runner.clone();
            move |task| runner.step(task)
        };
        let limits = |threads_max, tasks_max, niceness| PoolLimits {
            threads_max,
            tasks_max,
            lane_part: 2,
            niceness,
            ..PoolLimits::default()
        };
        let disk = executor.pool("disk", limits(DISK_THREADS_MAX, DISK_WAITING_MAX, 0), step());
        let contexts = limits(CONTEXT_THREADS_MAX, CONTEXTS_WAITING_MAX, CONTEXTS_NICENESS);
        let contexts = executor.pool("contexts", contexts, step());
        let gate = Arc::new(CopyGate::default());
        let copy_on = {
            let (runner, gate) = (runner.clone(), gate.clone());
            move |(copy, _flight): CopyTask| {
                if let Some((copy, _flight)) = gate.admit(copy) {
                    runner.server.copy_on(copy);
                }
                None
            }
        };
        let copies = executor.pool("copies", limits(COPY_THREADS_MAX, COPIES_WAITING_MAX, 0), copy_on);
        let copies = Arc::new(copies);
        // The pool owns the server, so the server must not own the pool.
        let (pool, tenants) = (Arc::downgrade(&copies), runner.server.tenants().clone());
        let submitter = Copies::<E> { pool, gate: gate.clone(), tenants };
        runner.server.engine().connect_copies(Box::new(submitter));
        let (parked, lanes) = (Parked::default(), LaneTimes::default());
        let silent_from = AtomicU64::new(u64::MAX);
        let service =
            Arc::new(Self { runner, real_time, disk, contexts, parked, copies, gate, lanes, silent_from });
        service.listen_for_answers();
        service.take_deferred_again();
        service
    }

    /// Resumes parked calls when a client answers.
    fn listen_for_answers(self: &Arc<Self>) {
        let service = Arc::downgrade(self);
        self.server().engine().connect_answers(Box::new(move || {
            if let Some(service) = service.upgrade() {
                service.wake(None);
            }
        }));
    }

    /// Queues or parks calls that wait for another lane than that of the thread that has run them.
    fn take_deferred_again(self: &Arc<Self>) {
        let service = Arc::downgrade(self);
        let _ = self.runner.again.set(Box::new(move |deferred| match service.upgrade() {
            Some(service) => service.defer_or_decline(deferred),
            // The server ends, and with it the connection.
            None => drop(deferred),
        }));
    }

    /// Resumes parked calls whose answers have arrived, and the calls whose wait has ended at
    /// `now`.
    pub(crate) fn wake(&self, now: Option<Duration>) {
        for deferred in self.parked.take(now, |wait| self.server().engine().getattr_pending(wait)) {
            self.submit_or_decline(deferred);
        }
    }

    /// Queues or parks a call, or answers it if there is no room for it.
    fn defer_or_decline(&self, deferred: Deferred) {
        if let Err(deferred) = self.defer(deferred) {
            self.runner.decline(deferred);
        }
    }

    /// Queues a call, or answers it if no thread has room for it.
    fn submit_or_decline(&self, deferred: Deferred) {
        if let Err(deferred) = self.submit(deferred) {
            self.runner.decline(deferred);
        }
    }

    /// Returns the weight of the export of a lane.
    fn weight(&self, lane: u32) -> u32 {
        self.server().tenants().export_weight(lane)
    }

    /// Returns the pace of a lane's steps of one kind.
    fn pace(&self, lane: u32, kind: StepKind) -> LanePace {
        self.lanes.pace(lane, kind, self.server().now())
    }

    /// Queues a call, or parks it until the client's answer arrives.
    #[expect(clippy::result_large_err, reason = "it is moved once, and allocating for it would cost more")]
    fn defer(&self, deferred: Deferred) -> Result<(), Deferred> {
        let Some(key) = deferred.call.getattr_wait() else { return self.submit(deferred) };
        let waits = |wait| self.server().engine().getattr_pending(wait);
        let (address, bytes) = (net::address(deferred.call.peer().ip()), deferred.call.held());
        let call = ParkedCall { key, address, bytes, call: deferred };
        let parked = self.parked.park(call, self.server().now(), waits);
        parked.or_else(|deferred| self.submit(deferred))
    }

    #[expect(clippy::result_large_err, reason = "it is moved once, and allocating for it would cost more")]
    fn submit(&self, deferred: Deferred) -> Result<(), Deferred> {
        let (lane, held) = (deferred.call.lane(), deferred.call.held());
        let address = deferred.call.is_init().then(|| net::address(deferred.call.peer().ip()));
        let task = ServiceTask::Execute(deferred);
        let refused = match address {
            Some(address) => self.contexts.submit(address, LANE_WEIGHT_DEFAULT, task, held),
            None => self.disk.submit(lane, self.weight(lane), task, held),
        };
        match refused {
            Err(ServiceTask::Execute(deferred)) => Err(deferred),
            _ => Ok(()),
        }
    }

    /// Stops background copies before their next pieces.
    pub fn pause_copies(&self) {
        self.gate.close();
    }

    /// Waits until no piece of a copy is in progress. Returns false if one still is at `until`.
    pub fn wait_for_copies(&self, until: Instant) -> bool {
        self.gate.flights.wait_for_none(until, || ())
    }

    /// Waits until no deferred call is left; the shards begin none. Declines calls that wait for a
    /// client's answer, and from `patience` on also calls that no thread has begun to run.
    ///
    /// # Errors
    /// The number of calls that are left at `until`.
    pub fn wait_for_calls(&self, patience: Instant, until: Instant) -> Result<(), usize> {
        let ended = self.runner.flights.wait_for_none(until, || {
            self.decline_parked();
            self.runner.declining.store(Instant::now() >= patience, Release);
        });
        self.runner.declining.store(false, Release);
        if ended { Ok(()) } else { Err(self.runner.flights.count()) }
    }

    /// Declines all calls that wait for a client's answer.
    pub fn decline_parked(&self) {
        self.parked.take(None, |_| false).into_iter().for_each(|deferred| self.runner.decline(deferred));
    }

    /// Runs a closure on the background copies, all of which are paused.
    pub fn with_paused_copies<R>(&self, run: impl FnOnce(&[Box<BackgroundCopy>]) -> R) -> R {
        self.gate.with_paused(run)
    }

    /// Takes background copies of another process, which wait for [`NfsService::resume_copies`].
    pub(crate) fn hold_copies(&self, copies: PausedCopies) {
        self.gate.close();
        copies.into_iter().for_each(|copy| drop(self.gate.admit(copy)));
    }

    /// Continues the background copies.
    pub fn resume_copies(&self) {
        let server = self.server();
        server.engine().resume_copies(self.gate.open(), &|| server.now());
    }

    /// Names the work of deferred calls that run or wait: exports, or accounts.
    pub fn busy_with(&self) -> Vec<String> {
        let export = |lane| self.server().engine().lane_name(lane);
        let mut names: Vec<String> = self.disk.lanes().into_iter().filter_map(export).collect();
        if !self.contexts.lanes().is_empty() {
            names.push("accounts".to_owned());
        }
        names
    }

    /// Stops answering at a time of the server's clock: from then on, a request closes its
    /// connection. `None` is never. A gateway that has lost contact with its cluster may have been
    /// replaced, and its clients must find the other one.
    pub fn answer_until(&self, until: Option<Duration>) {
        let nanoseconds = |until: Duration| u64::try_from(until.as_nanos()).unwrap_or(u64::MAX);
        self.silent_from.store(until.map_or(u64::MAX, nanoseconds), Relaxed);
    }

    /// Returns whether nothing is answered.
    pub fn is_silent(&self) -> bool {
        let from = self.silent_from.load(Relaxed);
        from != u64::MAX && self.server().now() >= Duration::from_nanos(from)
    }

    /// Returns the server behind the service.
    pub fn server(&self) -> &Server<Nfs> {
        &self.runner.server
    }

    /// Returns the number of panics in deferred calls. Each has closed the connection of its call.
    pub fn defects(&self) -> u64 {
        self.runner.defects()
    }

    /// Returns the threads of the pools, and the calls that wait.
    pub fn counts(&self) -> ServiceCounts {
        ServiceCounts {
            disk: self.disk.counts(),
            contexts: self.contexts.counts(),
            copies: self.copies.counts(),
            answers_waiting: self.parked.len(),
            commit: self.runner.commit.counts(),
        }
    }
}

/// Sends callbacks over the connections of the network layer.
pub struct Callbacks(pub Outgoing);

impl CallbackTransport for Callbacks {
    fn send(&self, connection: ConnectionId, record: Vec<u8>) -> bool {
        self.0.send(connection, record)
    }
}
