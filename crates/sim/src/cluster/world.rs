//! The world of a cluster: its clock, its queue of events, its processes and their tasks.

use crate::history::Violation;
use crate::rng::Rng;
use crate::trace::{Trace, TraceDetail, line};
use std::cell::{RefCell, RefMut};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Violations after which a run ends.
const VIOLATIONS_ENOUGH: usize = 5;
/// The last events that a violation shows.
const EVENTS_SHOWN: usize = 30;
/// How long the sender of a message waits for its reply.
const MESSAGE_TIME_MAX: Duration = Duration::from_millis(1700);

/// The number of a process: 0 for all that never dies.
pub(super) type Process = u64;

enum ClusterEvent {
    Wake(usize),
    Run(Box<dyn FnOnce()>),
}

struct ProcessTask {
    process: Process,
    future: Pin<Box<dyn Future<Output = ()>>>,
}

/// A message or its reply was lost, or is late. The request may have been executed, or will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoReply;

/// A process without a network.
#[derive(Clone, Copy, Debug)]
struct Cut {
    until: Duration,
    /// Whether the metadata servers cannot be reached either.
    whole: bool,
}

/// Whether a request can overtake earlier ones of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestOrder {
    /// It can: its effect depends on a version.
    Any,
    /// It cannot: requests for one object use one connection.
    Kept,
}

/// The state of a world.
pub(super) struct ClusterInner {
    pub(super) now: Duration,
    order: u64,
    queue: BTreeMap<(Duration, u64), ClusterEvent>,
    ready: VecDeque<usize>,
    spawned: Vec<ProcessTask>,
    current: usize,
    processes: BTreeSet<Process>,
    next_process: Process,
    pub(super) rng: Rng,
    trace: Trace,
    recent: VecDeque<String>,
    violations: Vec<Violation>,
    /// Processes without a network, and the end of that.
    cuts: BTreeMap<Process, Cut>,
    /// When the last request of each process arrives that must not be overtaken.
    in_order: BTreeMap<Process, Duration>,
    /// Whether no more faults happen.
    pub(super) calm: bool,
    /// Processes that have died at a step of theirs.
    pub(super) deaths: usize,
}

/// A shared handle of the world.
#[derive(Clone)]
pub(super) struct ClusterWorld {
    inner: Rc<RefCell<ClusterInner>>,
    /// The time in nanoseconds, for the clocks of servers.
    pub(super) clock: Arc<AtomicU64>,
}

impl ClusterWorld {
    pub(super) fn new(rng: Rng, detail: TraceDetail) -> Self {
        let inner = ClusterInner {
            now: Duration::ZERO,
            order: 0,
            queue: BTreeMap::new(),
            ready: VecDeque::new(),
            spawned: Vec::new(),
            current: 0,
            processes: BTreeSet::from([0]),
            next_process: 1,
            rng,
            trace: Trace::new(detail),
            recent: VecDeque::new(),
            violations: Vec::new(),
            cuts: BTreeMap::new(),
            in_order: BTreeMap::new(),
            calm: false,
            deaths: 0,
        };
        Self { inner: Rc::new(RefCell::new(inner)), clock: Arc::default() }
    }

    /// Borrows the state. Do not hold it over an await.
    pub(super) fn lock(&self) -> RefMut<'_, ClusterInner> {
        self.inner.borrow_mut()
    }

    pub(super) fn now(&self) -> Duration {
        self.inner.borrow().now
    }

    pub(super) fn draw<T>(&self, draw: impl FnOnce(&mut Rng) -> T) -> T {
        draw(&mut self.lock().rng)
    }

    /// Returns true once in `n` draws while faults happen.
    pub(super) fn fault_in(&self, n: usize) -> bool {
        let mut inner = self.lock();
        inner.rng.one_in(n) && !inner.calm
    }

    /// Adds an event to the trace.
    pub(super) fn note(&self, event: fmt::Arguments<'_>) {
        let mut inner = self.lock();
        let now = inner.now;
        inner.trace.note(now, event);
        if inner.recent.len() == EVENTS_SHOWN {
            inner.recent.pop_front();
        }
        inner.recent.push_back(line(now, event));
    }

    /// Adds a violation, with the last events.
    pub(super) fn complain(&self, property: &'static str, detail: String) {
        self.note(format_args!("VIOLATION: {property}: {detail}"));
        let mut inner = self.lock();
        let events = inner.recent.iter().cloned().collect();
        inner.violations.push(Violation { property, detail, events });
    }

    /// Begins a process, which has no tasks yet.
    pub(super) fn begin(&self) -> Process {
        let mut inner = self.lock();
        let process = inner.next_process;
        inner.next_process += 1;
        inner.processes.insert(process);
        process
    }

    /// Ends a process, wherever its tasks are.
    pub(super) fn end(&self, process: Process) {
        self.lock().processes.remove(&process);
    }

    pub(super) fn lives(&self, process: Process) -> bool {
        self.lock().processes.contains(&process)
    }

    /// Takes the network from a process for a time.
    pub(super) fn cut(&self, process: Process, until: Duration, whole: bool) {
        self.lock().cuts.insert(process, Cut { until, whole });
    }

    /// Returns whether a process does not reach the objects of the cluster.
    pub(super) fn is_cut(&self, process: Process) -> bool {
        self.has_cut(process, |_| true)
    }

    /// Returns whether a process does not reach the metadata servers either.
    pub(super) fn is_wholly_cut(&self, process: Process) -> bool {
        self.has_cut(process, |cut| cut.whole)
    }

    fn has_cut(&self, process: Process, counts: impl FnOnce(&Cut) -> bool) -> bool {
        let inner = self.lock();
        !inner.calm && inner.cuts.get(&process).is_some_and(|cut| inner.now < cut.until && counts(cut))
    }

    pub(super) fn spawn(&self, process: Process, future: impl Future<Output = ()> + 'static) {
        self.lock().spawned.push(ProcessTask { process, future: Box::pin(future) });
    }

    /// Runs something after a time, whoever lives then.
    pub(super) fn after(&self, delay: Duration, run: impl FnOnce() + 'static) {
        let mut inner = self.lock();
        let at = inner.now + delay;
        inner.schedule(at, ClusterEvent::Run(Box::new(run)));
    }

    /// Returns the running task, for [`ClusterWorld::wake`].
    pub(super) fn current(&self) -> usize {
        self.lock().current
    }

    pub(super) fn wake(&self, task: usize) {
        self.lock().ready.push_back(task);
    }

    pub(super) async fn sleep(&self, time: Duration) {
        self.wait(time, || false).await;
    }

    pub(super) async fn pause(&self, start: u64, end: u64) {
        let time = self.draw(|rng| rng.millis(start, end));
        self.sleep(time).await;
    }

    /// Waits until a condition holds, for at most a time. The caller's task is woken to check it.
    pub(super) async fn wait(&self, time: Duration, mut holds: impl FnMut() -> bool) {
        let at = {
            let mut inner = self.lock();
            let (at, task) = (inner.now + time, inner.current);
            inner.schedule(at, ClusterEvent::Wake(task));
            at
        };
        poll_fn(|_| if self.now() >= at || holds() { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    /// Sends a request of a process to the storage, and waits for the reply. Requests and replies
    /// overtake each other and get lost, and the process dies before, between and after them.
    ///
    /// # Errors
    /// There is no reply in time.
    pub(super) async fn message<T: 'static>(
        &self,
        process: Process,
        order: RequestOrder,
        run: impl FnOnce() -> T + 'static,
    ) -> Result<T, NoReply> {
        self.die_sometimes(process).await;
        let (there, back) = (self.arrival(process, order), self.delay());
        let [lost, reply_lost] = [120, 120].map(|n| self.fault_in(n));
        let reply = Rc::new(RefCell::new(None));
        let (slot, world, task) = (reply.clone(), self.clone(), self.current());
        if !lost && !self.is_cut(process) {
            self.after(there, move || {
                let value = run();
                if reply_lost || world.is_cut(process) {
                    return;
                }
                let arrived = world.clone();
                world.after(back, move || {
                    *slot.borrow_mut() = Some(value);
                    arrived.wake(task);
                });
            });
        }
        if self.fault_in(300) {
            // Between the request and its reply.
            let time = self.draw(|rng| rng.millis(0, 60));
            self.sleep(time).await;
            self.die(process).await;
        }
        self.wait(MESSAGE_TIME_MAX, || reply.borrow().is_some()).await;
        self.die_sometimes(process).await;
        let value = reply.borrow_mut().take();
        value.ok_or(NoReply)
    }

    /// Draws the delay of a message, which can be later than its sender waits.
    pub(super) fn delay(&self) -> Duration {
        let late = self.fault_in(50);
        self.draw(|rng| if late { rng.millis(30, 4000) } else { rng.millis(1, 30) })
    }

    /// Draws the delay of a request.
    fn arrival(&self, process: Process, order: RequestOrder) -> Duration {
        let delay = self.delay();
        let mut inner = self.lock();
        let now = inner.now;
        if order == RequestOrder::Any {
            return delay;
        }
        let last = inner.in_order.entry(process).or_default();
        *last = (*last).max(now + delay);
        *last - now
    }

    async fn die_sometimes(&self, process: Process) {
        if self.fault_in(600) {
            self.die(process).await;
        }
    }

    async fn die(&self, process: Process) {
        self.note(format_args!("process {process} dies at a step"));
        self.lock().deaths += 1;
        self.end(process);
        pending::<()>().await;
    }
}

impl ClusterInner {
    fn schedule(&mut self, at: Duration, event: ClusterEvent) {
        self.order += 1;
        self.queue.insert((at, self.order), event);
    }
}

/// All tasks of a world.
pub(super) struct ProcessTasks {
    world: ClusterWorld,
    all: BTreeMap<usize, ProcessTask>,
    next: usize,
}

impl ProcessTasks {
    pub(super) fn new(world: &ClusterWorld) -> Self {
        Self { world: world.clone(), all: BTreeMap::new(), next: 0 }
    }

    /// Runs all tasks until a time, or until enough violations are found.
    pub(super) fn run(&mut self, until: Duration) {
        loop {
            self.poll();
            let event = {
                let mut inner = self.world.lock();
                let next = inner.queue.first_key_value().map(|(key, _)| key.0);
                if next.is_none_or(|next| next > until) || inner.violations.len() >= VIOLATIONS_ENOUGH {
                    return;
                }
                let Some(((at, _), event)) = inner.queue.pop_first() else { return };
                inner.now = at.max(inner.now);
                self.world.clock.store(inner.now.as_nanos() as u64, Relaxed);
                event
            };
            match event {
                ClusterEvent::Wake(task) => self.world.wake(task),
                ClusterEvent::Run(run) => run(),
            }
        }
    }

    fn poll(&mut self) {
        loop {
            let spawned = std::mem::take(&mut self.world.lock().spawned);
            for task in spawned {
                self.next += 1;
                self.all.insert(self.next, task);
                self.world.wake(self.next);
            }
            let next = self.world.lock().ready.pop_front();
            let Some(id) = next else { return };
            let Some(task) = self.all.get_mut(&id) else { continue };
            self.world.lock().current = id;
            let process = task.process;
            let ends = !self.world.lives(process)
                || task.future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
                || !self.world.lives(process);
            if ends {
                self.all.remove(&id);
            }
        }
    }

    /// Ends all, and returns the trace and the violations.
    pub(super) fn end(mut self) -> (Trace, Vec<Violation>) {
        self.all.clear();
        let mut inner = self.world.lock();
        // Events own handles of the world.
        inner.queue.clear();
        inner.spawned.clear();
        (std::mem::take(&mut inner.trace), std::mem::take(&mut inner.violations))
    }
}
