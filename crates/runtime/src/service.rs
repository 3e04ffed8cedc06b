//! Between the network layer and the server.

use crate::parked::Parked;
use crate::settling::{Joined, Settling};
use net::{Action, Late, LateSink, Outgoing, Pool, PoolLimits, Reply, Request, Service};
use rpc::ConnectionId;
use server::callback::CallbackTransport;
use server::dispatch::{self, Away, Back, Carried, Engine, Kind, Outlet, Scratch, Server};
use server::engine::{BackgroundCopy, CopyRunner, FileKey, Nfs};
use state::GetattrWait;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use vfs::{VfsError, VfsResult};

/// Threads that wait for disks at once; an export takes half of what the others leave, so that a file system that
/// hangs does not hold up those of other exports.
const DISK_THREADS_MAX: usize = 128;
/// Calls that wait for such a thread, with the same shares.
const DISK_WAITING_MAX: usize = 16384;

/// Threads that create contexts at once. They have a pool of their own: a flood of new contexts, or a directory of
/// users that hangs, must not hold up what waits for a disk.
const CONTEXT_THREADS_MAX: usize = 4;
/// Contexts to be created that wait for a thread; further ones are answered with SYSTEM_ERR. A connection has one at a
/// time until it is trusted. Addresses take turns, and each has half of what the others leave.
const CONTEXTS_WAITING_MAX: usize = 16384;
/// How much less of the processors those threads get than shards: a flood of tokens must not slow down calls.
const CONTEXTS_NICENESS: i32 = 10;

/// Threads that carry copies on after COPY was answered. They have a pool of their own as well: a call never waits for a
/// copy's piece to end. An export takes half of what the others leave here, too.
const COPY_THREADS_MAX: usize = 8;
/// Copies that wait for such a thread, many times as many as there may be: a line takes no more than its part.
const COPIES_WAITING_MAX: usize = 1024;

/// A COMPOUND of the server's that waits.
type Suspended = <Nfs as Engine>::Suspended;

/// A call that waits, and how its result comes back to its shard.
struct Task {
    away: Away<Suspended>,
    sink: LateSink<Back>,
    /// Bytes that its connection takes it to hold until it is back.
    held: usize,
}

/// Calls whose changes are on their way to stable storage.
type Unsettled = Settling<FileKey, Task>;

/// The server as the network layer sees it.
pub struct NfsService {
    server: Arc<Server<Nfs>>,
    /// When the server's clock began.
    began: Instant,
    /// Carries out what waits for a disk.
    disk: Pool<Task>,
    /// Creates contexts: Kerberos, and the directory of users.
    contexts: Pool<Task, IpAddr>,
    /// Wait for stable storage, when all else is done.
    settling: Arc<Unsettled>,
    /// Wait for a client's answer to a callback.
    parked: Parked<GetattrWait, Task>,
    /// Carries copies on.
    copies: Arc<Pool<Box<BackgroundCopy>>>,
}

impl NfsService {
    /// Makes the service, with threads for what waits; the server's clock counts since `began`.
    pub fn new(server: Server<Nfs>, began: Instant) -> Self {
        let server = Arc::new(server);
        let settling = Arc::new(Unsettled::default());
        let run = || {
            let (server, settling) = (server.clone(), settling.clone());
            move |task: Task| carry_out(&server, &settling, task)
        };
        let limits = PoolLimits {
            threads_max: DISK_THREADS_MAX,
            tasks_max: DISK_WAITING_MAX,
            line_part: 2,
            ..PoolLimits::default()
        };
        let disk = Pool::new("disk", limits, run());
        let limits = PoolLimits {
            threads_max: CONTEXT_THREADS_MAX,
            tasks_max: CONTEXTS_WAITING_MAX,
            line_part: 2,
            niceness: CONTEXTS_NICENESS,
            ..PoolLimits::default()
        };
        let contexts = Pool::new("contexts", limits, run());
        let limits = PoolLimits {
            threads_max: COPY_THREADS_MAX,
            tasks_max: COPIES_WAITING_MAX,
            line_part: 2,
            ..PoolLimits::default()
        };
        let copying = server.clone();
        let copies = Arc::new(Pool::new("copies", limits, move |copy| copying.copy_on(copy)));
        // The pool keeps the server, and so the server must not keep the pool.
        server.engine().connect_copies(Box::new(Copies(Arc::downgrade(&copies))));
        Self { server, began, disk, contexts, settling, parked: Parked::default(), copies }
    }

    /// Has calls go on when the answers are there that they wait for.
    pub fn listen_for_answers(self: &Arc<Self>) {
        let service = Arc::downgrade(self);
        self.server.engine().connect_answers(Box::new(move || {
            if let Some(service) = service.upgrade() {
                service.wake(None);
            }
        }));
    }

    /// Has those calls go on whose answers are there, and by `now` those that have waited for long enough.
    pub fn wake(&self, now: Option<Instant>) {
        for task in self.parked.take(now, |look| self.server.engine().getattr_pending(look)) {
            if let Err(Task { away, sink, held }) = self.submit(task) {
                let connection = away.connection();
                sink.send(Late { connection, held, item: self.server.decline(away) });
            }
        }
    }

    /// Has a call carried out, or keeps it until the answer is there that it waits for.
    #[expect(clippy::result_large_err, reason = "it is moved once, and allocating for it would cost more")]
    fn send_away(&self, task: Task) -> Result<(), Task> {
        match task.away.answer() {
            Some(look) => {
                let parked = self.parked.park(look, task, |look| self.server.engine().getattr_pending(look));
                parked.or_else(|task| self.submit(task))
            }
            None => self.submit(task),
        }
    }

    #[expect(clippy::result_large_err, reason = "it is moved once, and allocating for it would cost more")]
    fn submit(&self, task: Task) -> Result<(), Task> {
        let (lane, held) = (task.away.lane(), task.away.held());
        match task.away.is_init() {
            true => self.contexts.submit(net::address(task.away.peer().ip()), task, held),
            false => self.disk.submit(lane, task, held),
        }
    }

    /// The server.
    pub fn server(&self) -> &Server<Nfs> {
        &self.server
    }

    /// Threads of the pools and the calls that wait for one, by name.
    pub fn snapshot(&self) -> Vec<(&'static str, u64)> {
        let ((disk_threads, disk_tasks), (threads, tasks)) = (self.disk.counts(), self.contexts.counts());
        let (copy_threads, copies) = self.copies.counts();
        let [settling, syncs, settled] = self.settling.counts();
        let counts = [
            ("disk_threads", disk_threads),
            ("disk_waiting", disk_tasks),
            ("context_threads", threads),
            ("contexts_waiting", tasks),
            ("answers_waiting", self.parked.len()),
            ("copy_threads", copy_threads),
            ("copies_waiting", copies),
        ];
        let settling =
            [("changes_settling", settling), ("change_syncs", syncs), ("changes_settled", settled)];
        let counts = counts.into_iter().map(|(name, count)| (name, u64::try_from(count).unwrap_or(u64::MAX)));
        counts.chain(settling).collect()
    }
}

/// Runs on a thread of a pool. A defect closes the connection of its call, as on a shard.
fn carry_out(server: &Server<Nfs>, settling: &Unsettled, task: Task) {
    let Task { away, sink, held } = task;
    let connection = away.connection();
    let outcome = catch_unwind(AssertUnwindSafe(|| server.carry_on(away)));
    match outcome {
        Ok(Carried::Back(item)) => sink.send(Late { connection, held, item }),
        Ok(Carried::Unsettled(away)) => settle_with_others(server, settling, Task { away, sink, held }),
        Err(_) => sink.send(Late { connection, held, item: defect(connection) }),
    }
}

/// Has a call answered when what it has changed is on stable storage. The thread waits for that if no other does; those that have the
/// same to wait for meanwhile hold none.
fn settle_with_others(server: &Server<Nfs>, settling: &Unsettled, task: Task) {
    let answer = |task, outcome| answer_settled(server, task, outcome);
    let Some(key) = task.away.unsettled() else { return answer(task, Ok(())) };
    let bytes = task.away.held();
    match settling.join(&key, task, bytes) {
        Joined::Follows => {}
        Joined::Leads => settling.lead(&key, sync, answer),
        Joined::Alone(task) => {
            let outcome = sync(&task);
            answer(task, outcome);
        }
    }
}

/// Puts what a call has changed on stable storage.
fn sync(task: &Task) -> VfsResult<()> {
    // A defect must not leave others unanswered.
    catch_unwind(AssertUnwindSafe(|| task.away.settle())).unwrap_or(Err(VfsError::Io))
}

fn answer_settled(server: &Server<Nfs>, task: Task, outcome: VfsResult<()>) {
    let Task { away, sink, held } = task;
    let connection = away.connection();
    let settled = catch_unwind(AssertUnwindSafe(|| server.settled(away, outcome)));
    let item = settled.unwrap_or_else(|_| defect(connection));
    sink.send(Late { connection, held, item });
}

fn defect(connection: ConnectionId) -> Back {
    tracing::error!("a defect of the server closes a connection");
    Back::defect(connection)
}

/// Has copies carried on by their pool.
struct Copies(Weak<Pool<Box<BackgroundCopy>>>);

impl CopyRunner for Copies {
    fn submit(&self, export: u32, copy: Box<BackgroundCopy>) -> Result<(), Box<BackgroundCopy>> {
        match self.0.upgrade() {
            Some(pool) => pool.submit(export, copy, 0),
            None => Err(copy),
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

/// What one shard keeps from tick to tick.
pub struct ShardMemory {
    scratch: Scratch,
    sink: LateSink<Back>,
}

impl Service for NfsService {
    type Shard = ShardMemory;
    type Late = Back;

    fn shard(&self, sink: &LateSink<Back>, operation: &Arc<AtomicU32>) -> ShardMemory {
        ShardMemory { scratch: Scratch::reporting(operation), sink: sink.clone() }
    }

    fn operation_name(&self, operation: u32) -> &'static str {
        dispatch::operation_name(operation)
    }

    fn woke(&self, shard: &mut ShardMemory, at: Instant) {
        shard.scratch.arrived(at.saturating_duration_since(self.began));
    }

    fn tick(
        &self,
        shard: &mut ShardMemory,
        requests: &mut Vec<Request>,
        late: &mut Vec<Late<Back>>,
        replies: &mut Vec<Reply>,
        pause: &mut dyn FnMut(&mut Vec<Reply>) -> Duration,
    ) {
        let ShardMemory { scratch, sink } = shard;
        // Overload is answered by fewer slots, not by refusals.
        self.server.engine().set_overloaded(self.disk.is_crowded());
        late.drain(..).for_each(|late| self.server.take_back(scratch, late.item));
        let arrived = requests.drain(..).map(|request| (request.connection, request.peer, request.record));
        self.server.tick(scratch, arrived, &mut TickOutlet { service: self, sink, replies, pause });
    }

    fn closed(&self, connection: ConnectionId) {
        self.server.closed(connection);
    }
}

/// The shard, while it has a tick's work done.
struct TickOutlet<'t> {
    service: &'t NfsService,
    sink: &'t LateSink<Back>,
    replies: &'t mut Vec<Reply>,
    pause: &'t mut dyn FnMut(&mut Vec<Reply>) -> Duration,
}

impl Outlet<Suspended> for TickOutlet<'_> {
    fn reply(&mut self, connection: ConnectionId, action: dispatch::Action) {
        let action = match action {
            dispatch::Action::Send(record) => Action::Send(record),
            dispatch::Action::Close => Action::Close,
        };
        self.replies.push(Reply { connection, action, class: Kind::Other.number() });
    }

    fn send(&mut self, connection: ConnectionId, kind: Kind, record: Vec<u8>) {
        self.replies.push(Reply { connection, action: Action::Send(record), class: kind.number() });
    }

    fn vouch(&mut self, connection: ConnectionId) {
        self.replies.push(Reply { connection, action: Action::Trust, class: Kind::Other.number() });
    }

    fn pause(&mut self) -> Duration {
        (self.pause)(self.replies)
    }

    fn has_elsewhere(&self) -> bool {
        true
    }

    fn send_away(&mut self, away: Away<Suspended>) -> Result<(), Away<Suspended>> {
        let (connection, held) = (away.connection(), away.held());
        self.service.send_away(Task { away, sink: self.sink.clone(), held }).map_err(|task| task.away)?;
        self.replies.push(Reply { connection, action: Action::Away(held), class: Kind::Other.number() });
        Ok(())
    }
}
