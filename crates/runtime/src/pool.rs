//! A thread pool for work that would block a shard.

mod fair_queues;
#[cfg(test)]
mod tests;

use crate::PoolCounts;
pub(crate) use fair_queues::LANE_WEIGHT_DEFAULT;
pub use fair_queues::QueueKey;
use fair_queues::{FairQueues, STALL_TIME};
use server::LogLimit;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long an idle thread stays.
const IDLE_TIME: Duration = Duration::from_secs(10);

/// The fraction of its limits above which a pool is crowded: an eighth, well before it refuses
/// tasks.
const CROWDED_PART: usize = 8;

/// Bounds on a [`Pool`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolLimits {
    /// The most threads of a pool. They start when there is work, and end when idle.
    pub threads_max: usize,
    /// The most tasks of a pool that wait for a thread; further ones are refused.
    pub tasks_max: usize,
    /// The most bytes that the waiting tasks of a pool hold; further tasks are refused.
    pub tasks_bytes_max: usize,
    /// A lane takes at most this fraction (one part in `lane_part`) of the threads, tasks and bytes
    /// that other lanes leave: with 2, a lane that hangs takes half.
    pub lane_part: usize,
    /// The niceness of the threads, as in nice(2): 0 to 19, where 0 is normal priority.
    pub niceness: i32,
}

impl Default for PoolLimits {
    fn default() -> Self {
        Self { threads_max: 64, tasks_max: 8192, tasks_bytes_max: 256 << 20, lane_part: 1, niceness: 0 }
    }
}

/// Runs tasks in order, several at once; lanes share the threads by their weights. Dropping the
/// pool discards the waiting tasks and does not wait for running ones: a disk that hangs must not
/// keep the server from ending.
pub struct Pool<T, L = u32> {
    shared: Arc<PoolState<T, L>>,
}

struct PoolState<T, L> {
    name: &'static str,
    limits: PoolLimits,
    step: Box<dyn Fn(T) -> Option<T> + Send + Sync>,
    queue: Mutex<Queue<T, L>>,
    work: Condvar,
    /// Whether more tasks or bytes wait than one part in [`CROWDED_PART`] of the limits.
    crowded: AtomicBool,
    began: Instant,
    /// The limit of lines about threads that the system does not give.
    shortages: LogLimit,
}

struct Queue<T, L> {
    queues: FairQueues<T, L>,
    threads: usize,
    idle: usize,
    /// Whether a thread became idle while tasks waited, which others held back.
    held_back: bool,
    ended: bool,
}

impl<T: Send + 'static, L: QueueKey> Pool<T, L> {
    /// Makes a pool without threads. If `step` returns a task, the same thread runs it at once. A
    /// panic of `step` ends neither the thread nor the pool; `step` itself must report it to the
    /// waiter of the task.
    pub fn new(
        name: &'static str,
        limits: PoolLimits,
        step: impl Fn(T) -> Option<T> + Send + Sync + 'static,
    ) -> Self {
        let queues = FairQueues::new(limits, Instant::now());
        let queue = Queue { queues, threads: 0, idle: 0, held_back: false, ended: false };
        let (queue, work) = (Mutex::new(queue), Condvar::new());
        Self {
            shared: Arc::new(PoolState {
                name,
                limits,
                step: Box::new(step),
                queue,
                work,
                crowded: AtomicBool::new(false),
                began: Instant::now(),
                shortages: LogLimit::default(),
            }),
        }
    }

    /// Queues a task that holds `bytes` in a lane, which has this weight from now on.
    ///
    /// # Errors
    /// Returns the task if its lane is full or the system cannot start a thread.
    pub fn submit(&self, lane: L, weight: u32, task: T, bytes: usize) -> Result<(), T> {
        let mut queue = self.shared.lock();
        let short = queue.threads < self.shared.limits.threads_max
            && (queue.threads == 0 || queue.queues.can_use(queue.idle));
        match if short { PoolState::spawn(&self.shared, queue.threads) } else { Ok(()) } {
            Ok(()) => queue.threads += usize::from(short),
            Err(error) if queue.threads == 0 => {
                self.shared.note_shortage(&error);
                return Err(task);
            }
            Err(_) => {}
        }
        queue.queues.push(lane, weight, task, bytes)?;
        self.shared.note_crowd(&queue);
        let wake = queue.idle > 0;
        drop(queue);
        if wake {
            self.shared.work.notify_one();
        }
        Ok(())
    }
}

impl<T, L: QueueKey> Pool<T, L> {
    /// Returns whether an eighth of the limits is in use, so that clients should send less.
    pub fn is_crowded(&self) -> bool {
        self.shared.crowded.load(Relaxed)
    }

    /// Returns the number of threads, and of the tasks that wait for one.
    pub fn counts(&self) -> PoolCounts {
        let queue = self.shared.lock();
        PoolCounts { threads: queue.threads, waiting: queue.queues.waiting() }
    }

    /// Returns the lanes with tasks that run or wait.
    pub fn lanes(&self) -> Vec<L> {
        self.shared.lock().queues.lanes()
    }
}

impl<T, L> Drop for Pool<T, L> {
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.ended = true;
        let waiting =
            std::mem::replace(&mut queue.queues, FairQueues::new(self.shared.limits, Instant::now()));
        drop(queue);
        self.shared.work.notify_all();
        drop(waiting);
    }
}

impl<T, L: QueueKey> fmt::Debug for Pool<T, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PoolCounts { threads, waiting: tasks } = self.counts();
        write!(f, "Pool({}: {threads} threads, {tasks} tasks wait)", self.shared.name)
    }
}

impl<T, L> PoolState<T, L> {
    fn lock(&self) -> MutexGuard<'_, Queue<T, L>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T, L: QueueKey> PoolState<T, L> {
    fn note_shortage(&self, error: &std::io::Error) {
        if let Some(suppressed) = self.shortages.permit(self.began.elapsed()) {
            let name = self.name;
            tracing::error!(
                suppressed,
                "no thread for {name}: {error}; calls wait until there is one: see `ulimit -u`, and TasksMax= of \
                 the unit"
            );
        }
    }

    fn note_crowd(&self, queue: &Queue<T, L>) {
        self.crowded.store(queue.queues.is_crowded(CROWDED_PART), Relaxed);
    }

    /// Marks a task of lane `done` as finished and waits for the next task; `None` ends the thread.
    fn next(&self, done: Option<L>) -> Option<(L, T)> {
        let mut queue = self.lock();
        let mut now = Instant::now();
        let idle_since = now;
        if let Some(lane) = done {
            queue.queues.done(lane, now);
        }
        loop {
            if let Some(next) = queue.queues.pop(now) {
                self.note_crowd(&queue);
                if queue.held_back && queue.idle > 0 && queue.queues.has_next() {
                    self.work.notify_one();
                }
                return Some(next);
            }
            queue.held_back = queue.queues.waiting() > 0;
            if !queue.ended {
                queue.idle += 1;
                // Looks again after a while: a lane that stalls meanwhile holds back no task.
                let waited = self.work.wait_timeout(queue, STALL_TIME);
                (queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
                queue.idle -= 1;
                now = Instant::now();
            }
            let is_bored = queue.ended || now.saturating_duration_since(idle_since) >= IDLE_TIME;
            if is_bored && !queue.queues.can_use(1) {
                queue.threads -= 1;
                return None;
            }
        }
    }
}

impl<T: Send + 'static, L: QueueKey> PoolState<T, L> {
    fn spawn(shared: &Arc<Self>, index: usize) -> std::io::Result<()> {
        let this = shared.clone();
        let thread = std::thread::Builder::new().name(format!("{}-{index}", shared.name));
        thread.spawn(move || {
            // On Linux this changes only this thread. An error is harmless.
            let _ = rustix::process::nice(this.limits.niceness);
            let mut done = None;
            while let Some((lane, task)) = this.next(done) {
                done = Some(lane);
                let run = || {
                    let mut next = Some(task);
                    while let Some(task) = next {
                        next = (this.step)(task);
                    }
                };
                if catch_unwind(AssertUnwindSafe(run)).is_err() {
                    tracing::error!("a defect of the server in {}", this.name);
                }
                // The kernel preempts even a nice thread only after milliseconds, so it offers its
                // processor to a shard that waits for one.
                if this.limits.niceness > 0 {
                    std::thread::yield_now();
                }
            }
        })?;
        Ok(())
    }
}
