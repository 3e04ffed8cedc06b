//! The service that the network layer calls: a server, and the pools for deferred calls.

use crate::group_commit::{GroupCommit, SyncRole};
use crate::lane_times::{LanePace, LaneTimes};
use crate::parked::{Parked, ParkedCall};
use crate::pool::LANE_WEIGHT_DEFAULT;
use crate::quiet::{CallFlight, CopyGate, Flights, PausedCopies};
use crate::{Executor, PoolLimits, ServiceCounts, TaskPool, Threads};
use net::{Action, CompletionEvent, CompletionSender, Outgoing, Reply, Request, Service, WeightedTenant};
use pipes::Attachment;
use rpc::ConnectionId;
use server::callback::CallbackTransport;
use server::dispatch::{
    self, CompletedCall, DeferredCall, DeferredOutcome, Engine, ReplySink, Scratch, Server,
};
use server::engine::{BackgroundCopy, CommitKey, CopyRunner, Nfs};
use server::metrics::Kind;
use server::tenants::{LimitedTenants, TenantShare};
use state::GetattrWait;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};
use vfs::{VfsError, VfsResult};

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

/// A call that a shard has deferred, with the sink for its completion.
struct Deferred {
    call: DeferredCall<Suspended>,
    sink: CompletionSender<CompletedCall>,
    /// The bytes that its connection counts for it until it completes.
    held: usize,
    /// Dropped after the completion is sent.
    flight: CallFlight,
}

/// The next step of deferred work.
#[expect(
    clippy::large_enum_variant,
    reason = "most tasks are calls, which are moved a few times, and allocating for them would cost more"
)]
enum ServiceTask {
    /// Runs the operations of a call.
    Execute(Deferred),
    /// Leads a group: synchronises for all calls that have joined it.
    Sync(CommitKey),
    /// Answers a group after its synchronisation.
    Answer(CommitKey, Vec<Deferred>, VfsResult<()>),
}

type DiskPool<E> = <E as Executor>::Pool<ServiceTask, u32>;
type ContextPool<E> = <E as Executor>::Pool<ServiceTask, IpAddr>;
type CopyTask = (Box<BackgroundCopy>, CallFlight);
type CopyPool<E> = <E as Executor>::Pool<CopyTask, u32>;

/// The server in the form that the network layer uses.
pub struct NfsService<E: Executor = Threads> {
    runner: Arc<Runner>,
    /// The instant at which the server's clock started, if known.
    began: Option<Instant>,
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
    /// The time of the server's clock, in nanoseconds, from which on nothing is answered.
    silent_from: AtomicU64,
}

/// The part of the service that tasks share.
struct Runner {
    server: Server<Nfs>,
    commit: GroupCommit<CommitKey, Deferred>,
    /// As `commit`, for calls that wait for client records. These may wait for as long as a disk is
    /// full, and must leave the others their places.
    records: GroupCommit<CommitKey, Deferred>,
    defects: AtomicU64,
    flights: Flights,
    /// Whether calls that have not begun to wait for a file system are declined.
    declining: AtomicBool,
    /// Defers a call that waits for another lane.
    again: OnceLock<Box<dyn Fn(Deferred) + Send + Sync>>,
}

impl<E: Executor> NfsService<E> {
    /// Makes the service. `began` is the instant at which the server's clock started.
    pub(crate) fn start(server: Server<Nfs>, executor: &E, began: Option<Instant>) -> Arc<Self> {
        let (commit, records) = (GroupCommit::default(), GroupCommit::default());
        let (flights, declining) = (Flights::default(), AtomicBool::new(false));
        let defects = AtomicU64::new(0);
        let again = OnceLock::new();
        let runner = Arc::new(Runner { server, commit, records, defects, flights, declining, again });
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
            Arc::new(Self { runner, began, disk, contexts, parked, copies, gate, lanes, silent_from });
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

    /// Returns the pace of the steps of a lane.
    fn pace(&self, lane: u32) -> LanePace {
        self.lanes.pace(lane, self.server().now())
    }

    /// Queues a call, or parks it until the client's answer arrives.
    #[expect(clippy::result_large_err, reason = "it is moved once, and allocating for it would cost more")]
    fn defer(&self, deferred: Deferred) -> Result<(), Deferred> {
        let Some(key) = deferred.call.answer() else { return self.submit(deferred) };
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

    /// Waits for the pieces that are being copied. Returns false if one is by then.
    pub fn wait_for_copies(&self, until: Instant) -> bool {
        self.gate.flights.wait_for_none(until, || ())
    }

    /// Waits until no deferred call is left; the shards begin none. Calls that wait for a client's
    /// answer are declined, and from `patience` on calls that no thread has begun to run.
    ///
    /// # Errors
    /// The number of calls that are left at `until`.
    pub fn wait_for_calls(&self, patience: Instant, until: Instant) -> Result<(), usize> {
        let ended = self.runner.flights.wait_for_none(until, || {
            self.parked.take(None, |_| false).into_iter().for_each(|deferred| self.runner.decline(deferred));
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

    /// Answers nothing from a time of the server's clock on, and closes connections on which
    /// requests arrive. `None` answers for ever. A gateway that has lost contact with its cluster
    /// may have been replaced: its clients must find the other one.
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
        self.runner.defects.load(Relaxed)
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

impl Runner {
    /// Returns the groups of these changes.
    fn group(&self, key: &CommitKey) -> &GroupCommit<CommitKey, Deferred> {
        match key {
            CommitKey::Object(_) => &self.commit,
            CommitKey::Removals | CommitKey::Puts => &self.records,
        }
    }

    /// Runs one step of a task and returns the next one. A panic closes the connection of the call,
    /// as on a shard.
    fn step(&self, task: ServiceTask) -> Option<ServiceTask> {
        match task {
            ServiceTask::Execute(deferred) => self.execute(deferred),
            ServiceTask::Sync(key) => {
                let calls = self.group(&key).next(&key)?;
                let outcome = self.sync_group(&key, &calls);
                Some(ServiceTask::Answer(key, calls, outcome))
            }
            ServiceTask::Answer(key, calls, outcome) => {
                calls.into_iter().for_each(|deferred| self.answer(deferred, outcome));
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
            self.answer(Deferred { call, sink, held, flight }, Ok(()));
            return None;
        };
        match self.group(&key).join(&key, Deferred { call, sink, held, flight }, bytes) {
            SyncRole::Follower => None,
            SyncRole::Leader => Some(ServiceTask::Sync(key)),
            SyncRole::Single(deferred) => {
                let outcome = self.sync(&deferred);
                self.answer(deferred, outcome);
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
    fn answer(&self, deferred: Deferred, outcome: VfsResult<()>) {
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
    fn decline(&self, deferred: Deferred) {
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

/// Submits copies to their pool.
struct Copies<E: Executor> {
    pool: Weak<CopyPool<E>>,
    gate: Arc<CopyGate>,
    tenants: Arc<LimitedTenants>,
}

impl<E: Executor> CopyRunner for Copies<E> {
    fn submit(&self, export: u32, copy: Box<BackgroundCopy>) -> Result<(), Box<BackgroundCopy>> {
        let Some(task) = self.gate.admit(copy) else { return Ok(()) };
        let submitted = match self.pool.upgrade() {
            Some(pool) => pool.submit(export, self.tenants.export_weight(export), task, 0),
            None => Err(task),
        };
        submitted.map_err(|(copy, _)| copy)
    }
}

/// Sends callbacks over the connections of the network layer.
pub struct Callbacks(pub Outgoing);

impl CallbackTransport for Callbacks {
    fn send(&self, connection: ConnectionId, record: Vec<u8>) -> bool {
        self.0.send(connection, record)
    }
}

/// A step of a deferred call, for the thread of a shard.
pub struct CallStep(ServiceTask);

impl CallStep {
    /// Returns the lane of the file system that the step waits for.
    fn lane(&self) -> u32 {
        match &self.0 {
            ServiceTask::Execute(deferred) => deferred.call.lane(),
            ServiceTask::Sync(key) | ServiceTask::Answer(key, ..) => key.lane(),
        }
    }
}

/// Memory that one shard keeps from tick to tick.
pub struct ShardMemory {
    scratch: Scratch,
    /// Steps that the tick has left for the shard's own thread.
    steps: Vec<CallStep>,
    sink: CompletionSender<CompletedCall>,
}

impl<E: Executor> Service for NfsService<E> {
    type Shard = ShardMemory;
    type Completed = CompletedCall;
    type Step = CallStep;

    fn shard(&self, sink: &CompletionSender<CompletedCall>, operation: &Arc<AtomicU32>) -> ShardMemory {
        ShardMemory { scratch: Scratch::reporting(operation), steps: Vec::new(), sink: sink.clone() }
    }

    fn operation_name(&self, operation: u32) -> &'static str {
        dispatch::operation_name(operation)
    }

    fn note_wakeup(&self, shard: &mut ShardMemory, at: Instant) {
        if let Some(began) = self.began {
            shard.scratch.arrived(at.saturating_duration_since(began));
        }
    }

    fn tick(
        &self,
        shard: &mut ShardMemory,
        requests: &mut Vec<Request>,
        completions: &mut Vec<CompletionEvent<CompletedCall>>,
        replies: &mut Vec<Reply>,
        pause: &mut dyn FnMut(&mut Vec<Reply>) -> Duration,
    ) {
        if self.is_silent() {
            let arrived = requests.drain(..).map(|request| request.connection);
            let closed = arrived.chain(completions.drain(..).map(|completion| completion.connection));
            return replies.extend(closed.map(|connection| Reply {
                connection,
                action: Action::Close,
                class: Kind::Other.number(),
            }));
        }
        let (ShardMemory { scratch, steps, sink }, server) = (shard, self.server());
        // Overload reduces the slots of sessions instead of refusing calls.
        server.engine().set_overloaded(self.disk.is_crowded());
        completions.drain(..).for_each(|completion| server.take_completed(scratch, completion.item));
        let arrived = requests.drain(..).map(|request| (request.connection, request.peer, request.record));
        let mut sink = TickSink { service: self, completions: sink, steps, replies, pause };
        server.tick(scratch, arrived, &mut sink);
    }

    fn take_steps(&self, shard: &mut ShardMemory, steps: &mut VecDeque<CallStep>) {
        steps.extend(shard.steps.drain(..));
    }

    fn is_brief(&self, step: &CallStep, alone: bool) -> bool {
        if let CallStep(ServiceTask::Sync(CommitKey::Removals | CommitKey::Puts)) = step {
            return false;
        }
        match self.pace(step.lane()) {
            LanePace::Brief => true,
            LanePace::Moderate => alone,
            LanePace::Slow => false,
        }
    }

    fn run_step(&self, step: CallStep) -> Option<CallStep> {
        let (lane, began) = (step.lane(), self.server().now());
        self.lanes.begin(lane, began);
        // Other calls of the tick join the group before it is synchronised.
        let runs_alone = matches!(step.0, ServiceTask::Execute(_));
        let mut next = self.runner.step(step.0);
        while let Some(task) = next.take_if(|_| !runs_alone) {
            next = self.runner.step(task);
        }
        self.lanes.end(lane, began, self.server().now());
        next.map(CallStep)
    }

    fn connection(&self, step: &CallStep) -> Option<ConnectionId> {
        if let CallStep(ServiceTask::Execute(deferred)) = step {
            Some(deferred.call.connection())
        } else {
            None
        }
    }

    fn hand_over(&self, step: CallStep) -> Result<(), CallStep> {
        match step {
            CallStep(ServiceTask::Execute(deferred)) => {
                self.submit_or_decline(deferred);
                Ok(())
            }
            // A group must get its answer, so there is nothing to decline.
            step => {
                let lane = step.lane();
                self.disk.submit(lane, self.weight(lane), step.0, 0).map_err(CallStep)
            }
        }
    }

    fn closed(&self, connection: ConnectionId) {
        self.server().closed(connection);
    }
}

/// The reply sink of one tick of a shard.
struct TickSink<'t, E: Executor> {
    service: &'t NfsService<E>,
    /// The sender of the deferred calls of the tick.
    completions: &'t CompletionSender<CompletedCall>,
    steps: &'t mut Vec<CallStep>,
    replies: &'t mut Vec<Reply>,
    pause: &'t mut dyn FnMut(&mut Vec<Reply>) -> Duration,
}

impl<E: Executor> TickSink<'_, E> {
    fn push(&mut self, connection: ConnectionId, action: Action, kind: Kind) {
        self.replies.push(Reply { connection, action, class: kind.number() });
    }
}

impl<E: Executor> ReplySink<Suspended> for TickSink<'_, E> {
    fn reply(&mut self, connection: ConnectionId, action: dispatch::Action) {
        let action = match action {
            dispatch::Action::Send(record) => Action::Send(record),
            dispatch::Action::Close => Action::Close,
        };
        self.push(connection, action, Kind::Other);
    }

    fn send(&mut self, connection: ConnectionId, kind: Kind, record: Vec<u8>) {
        self.push(connection, Action::Send(record), kind);
    }

    fn send_attached(&mut self, connection: ConnectionId, kind: Kind, record: Vec<u8>, data: Attachment) {
        self.push(connection, Action::SendAttached(record, data), kind);
    }

    fn vouch(&mut self, connection: ConnectionId, TenantShare { id, weight }: TenantShare) {
        self.push(connection, Action::Trust(WeightedTenant { id, weight }), Kind::Other);
    }

    fn throttle(&mut self, connection: ConnectionId, time: Duration) {
        self.push(connection, Action::Pause(time), Kind::Other);
    }

    fn note_expensive(&mut self, connection: ConnectionId) {
        self.push(connection, Action::Yield, Kind::Other);
    }

    fn pause(&mut self) -> Duration {
        (self.pause)(self.replies)
    }

    fn can_defer(&self) -> bool {
        true
    }

    fn defer(&mut self, call: DeferredCall<Suspended>) -> Result<(), DeferredCall<Suspended>> {
        let (connection, held) = (call.connection(), call.held());
        let brief = call.is_brief() && self.service.pace(call.lane()) != LanePace::Slow;
        let flight = self.service.runner.flights.begin();
        let deferred = Deferred { call, sink: self.completions.clone(), held, flight };
        if brief {
            self.steps.push(CallStep(ServiceTask::Execute(deferred)));
        } else {
            self.service.defer(deferred).map_err(|deferred| deferred.call)?;
        }
        self.push(connection, Action::Defer(held), Kind::Other);
        Ok(())
    }
}
