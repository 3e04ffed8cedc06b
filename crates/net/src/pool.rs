//! Threads for what would hold up a shard.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a thread without work stays.
const IDLE_TIME: Duration = Duration::from_secs(10);

/// The part of its limits from which on a pool is crowded: well before it has to refuse anything.
const CROWDED_PART: usize = 8;

/// Bounds on a [`Pool`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolLimits {
    /// Threads of a pool; they are started when there is work for them and end when there is none.
    pub threads_max: usize,
    /// Tasks of a pool that wait for a thread; further ones are refused.
    pub tasks_max: usize,
    /// Bytes that the waiting tasks of a pool hold, with the same consequence.
    pub tasks_bytes_max: usize,
}

impl Default for PoolLimits {
    fn default() -> Self {
        Self { threads_max: 64, tasks_max: 8192, tasks_bytes_max: 256 << 20 }
    }
}

/// Runs tasks in the order in which they come, several at once. Dropping it discards those that wait and does not
/// wait for those that run: a disk that hangs must not keep the server from ending.
pub struct Pool<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    name: &'static str,
    limits: PoolLimits,
    run: Box<dyn Fn(T) + Send + Sync>,
    queue: Mutex<Queue<T>>,
    work: Condvar,
    /// Whether more waits than [`CROWDED_PART`] of what may.
    crowded: AtomicBool,
}

struct Queue<T> {
    /// Each with the bytes that it holds.
    tasks: VecDeque<(T, usize)>,
    bytes: usize,
    threads: usize,
    idle: usize,
    ended: bool,
}

impl<T: Send + 'static> Pool<T> {
    /// Makes a pool without threads. A panic of `run` ends neither the thread nor the pool; whoever waits for the task
    /// has to learn of it by what `run` itself does then.
    pub fn new(name: &'static str, limits: PoolLimits, run: impl Fn(T) + Send + Sync + 'static) -> Self {
        let queue = Queue { tasks: VecDeque::new(), bytes: 0, threads: 0, idle: 0, ended: false };
        let (queue, work) = (Mutex::new(queue), Condvar::new());
        Self {
            shared: Arc::new(Shared {
                name,
                limits,
                run: Box::new(run),
                queue,
                work,
                crowded: AtomicBool::new(false),
            }),
        }
    }

    /// Puts a task that holds `bytes` into the queue.
    ///
    /// # Errors
    /// The task, when the queue is full or the system gives no thread.
    pub fn submit(&self, task: T, bytes: usize) -> Result<(), T> {
        let limits = self.shared.limits;
        let mut queue = self.shared.lock();
        let full = queue.tasks.len() >= limits.tasks_max
            || (queue.bytes.saturating_add(bytes) > limits.tasks_bytes_max && !queue.tasks.is_empty());
        if full {
            return Err(task);
        }
        if queue.idle <= queue.tasks.len() && queue.threads < limits.threads_max {
            match Shared::spawn(&self.shared, queue.threads) {
                Ok(()) => queue.threads += 1,
                Err(error) if queue.threads == 0 => {
                    tracing::error!("no thread for {}: {error}", self.shared.name);
                    return Err(task);
                }
                Err(_) => {}
            }
        }
        queue.tasks.push_back((task, bytes));
        queue.bytes += bytes;
        self.shared.note_crowd(&queue);
        let wake = queue.idle > 0;
        drop(queue);
        if wake {
            self.shared.work.notify_one();
        }
        Ok(())
    }
}

impl<T> Pool<T> {
    /// Whether an eighth of what may wait does: time to ask for less.
    pub fn is_crowded(&self) -> bool {
        self.shared.crowded.load(Relaxed)
    }

    /// Threads at the moment, and tasks that wait for one.
    pub fn counts(&self) -> (usize, usize) {
        let queue = self.shared.lock();
        (queue.threads, queue.tasks.len())
    }
}

impl<T> Drop for Pool<T> {
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.ended = true;
        let waiting = std::mem::take(&mut queue.tasks);
        drop(queue);
        self.shared.work.notify_all();
        drop(waiting);
    }
}

impl<T> fmt::Debug for Pool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (threads, tasks) = self.counts();
        write!(f, "Pool({}: {threads} threads, {tasks} tasks wait)", self.shared.name)
    }
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, Queue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_crowd(&self, queue: &Queue<T>) {
        let PoolLimits { tasks_max, tasks_bytes_max, .. } = self.limits;
        let crowded =
            queue.tasks.len() > tasks_max / CROWDED_PART || queue.bytes > tasks_bytes_max / CROWDED_PART;
        self.crowded.store(crowded, Relaxed);
    }

    /// Waits for a task; `None` when the thread is to end.
    fn next(&self) -> Option<T> {
        let mut queue = self.lock();
        loop {
            if let Some((task, bytes)) = queue.tasks.pop_front() {
                queue.bytes -= bytes;
                self.note_crowd(&queue);
                return Some(task);
            }
            let mut bored = queue.ended;
            if !bored {
                queue.idle += 1;
                let waited = self.work.wait_timeout(queue, IDLE_TIME);
                let (held, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                queue = held;
                queue.idle -= 1;
                bored = timeout.timed_out();
            }
            if bored && queue.tasks.is_empty() {
                queue.threads -= 1;
                return None;
            }
        }
    }
}

impl<T: Send + 'static> Shared<T> {
    fn spawn(shared: &Arc<Self>, index: usize) -> std::io::Result<()> {
        let this = shared.clone();
        let thread = std::thread::Builder::new().name(format!("{}-{index}", shared.name));
        thread.spawn(move || {
            while let Some(task) = this.next() {
                if catch_unwind(AssertUnwindSafe(|| (this.run)(task))).is_err() {
                    tracing::error!("a defect of the server in {}", this.name);
                }
            }
        })?;
        Ok(())
    }
}
