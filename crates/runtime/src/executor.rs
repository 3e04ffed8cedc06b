//! Executors of deferred work: threads, or single steps for the simulator.

use crate::PoolCounts;
use crate::pool::{Pool, PoolLimits, QueueKey};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Makes the pools of a service.
pub trait Executor: Send + Sync + 'static {
    /// A pool of the executor.
    type Pool<T: Send + 'static, L: QueueKey>: TaskPool<T, L>;

    /// Makes a pool whose tasks run by `step`. If `step` returns a task, that is the next step: a
    /// thread runs it at once, a deterministic executor later.
    fn pool<T: Send + 'static, L: QueueKey>(
        &self,
        name: &'static str,
        limits: PoolLimits,
        step: impl Fn(T) -> Option<T> + Send + Sync + 'static,
    ) -> Self::Pool<T, L>;
}

/// A bounded pool of tasks.
pub trait TaskPool<T, L>: Send + Sync + 'static {
    /// Queues a task that holds `bytes` in a lane, which has this weight from now on.
    ///
    /// # Errors
    /// Returns the task if the pool has no space for it.
    fn submit(&self, lane: L, weight: u32, task: T, bytes: usize) -> Result<(), T>;

    /// Returns whether so many tasks wait that clients should send less.
    fn is_crowded(&self) -> bool;

    /// Returns the number of threads, and of the tasks that wait for one.
    fn counts(&self) -> PoolCounts;

    /// Returns the lanes with tasks that run or wait.
    fn lanes(&self) -> Vec<L>;
}

/// Runs tasks on several threads: the executor of the program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Threads;

impl Executor for Threads {
    type Pool<T: Send + 'static, L: QueueKey> = Pool<T, L>;

    fn pool<T: Send + 'static, L: QueueKey>(
        &self,
        name: &'static str,
        limits: PoolLimits,
        step: impl Fn(T) -> Option<T> + Send + Sync + 'static,
    ) -> Pool<T, L> {
        Pool::new(name, limits, step)
    }
}

impl<T: Send + 'static, L: QueueKey> TaskPool<T, L> for Pool<T, L> {
    fn submit(&self, lane: L, weight: u32, task: T, bytes: usize) -> Result<(), T> {
        Pool::submit(self, lane, weight, task, bytes)
    }

    fn is_crowded(&self) -> bool {
        Pool::is_crowded(self)
    }

    fn counts(&self) -> PoolCounts {
        Pool::counts(self)
    }

    fn lanes(&self) -> Vec<L> {
        Pool::lanes(self)
    }
}

/// Returns a number below its argument.
type Draw = dyn FnMut(usize) -> usize + Send;

/// Runs tasks on the calling thread, one step at a time, in an order that `draw` decides.
///
/// A task with further steps goes back to the waiting ones, so that tasks interleave.
#[derive(Clone)]
pub struct Deterministic {
    queues: Arc<Mutex<Vec<Weak<dyn TaskQueue>>>>,
    draw: Arc<Mutex<Box<Draw>>>,
    refuses_one_in: usize,
}

/// A queue of tasks of any type.
trait TaskQueue: Send + Sync {
    fn len(&self) -> usize;

    /// Runs one step of the task with index `at`.
    fn step(&self, at: usize);
}

impl Deterministic {
    /// Makes an executor. `draw` returns a number below its argument; equal numbers give an equal
    /// order. One submission in `refuses_one_in` is refused; 0 refuses none.
    pub fn new(draw: impl FnMut(usize) -> usize + Send + 'static, refuses_one_in: usize) -> Self {
        Self { queues: Arc::default(), draw: Arc::new(Mutex::new(Box::new(draw))), refuses_one_in }
    }

    fn queues(&self) -> Vec<Arc<dyn TaskQueue>> {
        lock(&self.queues).iter().filter_map(Weak::upgrade).collect()
    }

    /// Returns the number of tasks that have a step to run.
    pub fn waiting(&self) -> usize {
        self.queues().iter().map(|queue| queue.len()).sum()
    }

    /// Runs one step of one task; returns false if none waits. Passes on a panic of the step.
    pub fn step(&self) -> bool {
        let waiting = self.waiting();
        if waiting == 0 {
            return false;
        }
        let mut at = (lock(&self.draw))(waiting);
        for queue in self.queues() {
            if at < queue.len() {
                queue.step(at);
                return true;
            }
            at -= queue.len();
        }
        false
    }

    fn refuses(&self) -> bool {
        self.refuses_one_in > 0 && (lock(&self.draw))(self.refuses_one_in) == 0
    }
}

impl Executor for Deterministic {
    type Pool<T: Send + 'static, L: QueueKey> = StepPool<T>;

    fn pool<T: Send + 'static, L: QueueKey>(
        &self,
        _name: &'static str,
        limits: PoolLimits,
        step: impl Fn(T) -> Option<T> + Send + Sync + 'static,
    ) -> StepPool<T> {
        let queue = Arc::new(StepQueue { tasks: Mutex::new(Vec::new()), step: Box::new(step) });
        let weak: Weak<dyn TaskQueue> = Arc::downgrade(&(queue.clone() as Arc<dyn TaskQueue>));
        lock(&self.queues).push(weak);
        StepPool { queue, limits, executor: self.clone() }
    }
}

/// A pool of a [`Deterministic`] executor.
pub struct StepPool<T> {
    queue: Arc<StepQueue<T>>,
    limits: PoolLimits,
    executor: Deterministic,
}

struct StepQueue<T> {
    tasks: Mutex<Vec<T>>,
    step: Box<dyn Fn(T) -> Option<T> + Send + Sync>,
}

impl<T: Send> TaskQueue for StepQueue<T> {
    fn len(&self) -> usize {
        lock(&self.tasks).len()
    }

    fn step(&self, at: usize) {
        let task = lock(&self.tasks).remove(at);
        if let Some(task) = (self.step)(task) {
            lock(&self.tasks).push(task);
        }
    }
}

impl<T: Send + 'static, L: QueueKey> TaskPool<T, L> for StepPool<T> {
    fn submit(&self, _lane: L, _weight: u32, task: T, _bytes: usize) -> Result<(), T> {
        if self.queue.len() >= self.limits.tasks_max || self.executor.refuses() {
            return Err(task);
        }
        lock(&self.queue.tasks).push(task);
        Ok(())
    }

    fn is_crowded(&self) -> bool {
        false
    }

    fn counts(&self) -> PoolCounts {
        PoolCounts { threads: 0, waiting: self.queue.len() }
    }

    fn lanes(&self) -> Vec<L> {
        Vec::new()
    }
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::LANE_WEIGHT_DEFAULT;
    use rng::SplitMix64;
    use std::sync::mpsc::channel;

    /// Runs tasks of three steps each, and returns the order of their steps.
    fn order(seed: u64) -> Vec<(u32, u32)> {
        let mut random = SplitMix64(seed);
        let executor = Deterministic::new(move |below| random.index(below), 0);
        let (sender, receiver) = channel();
        let step = move |(task, step): (u32, u32)| {
            sender.send((task, step)).expect("the test listens");
            (step < 2).then_some((task, step + 1))
        };
        let pool = executor.pool::<_, u32>("test", PoolLimits::default(), step);
        for task in 0..4 {
            assert!(TaskPool::<_, u32>::submit(&pool, 0, LANE_WEIGHT_DEFAULT, (task, 0), 0).is_ok());
        }
        assert_eq!(executor.waiting(), 4);
        while executor.step() {}
        receiver.try_iter().collect()
    }

    #[test]
    fn the_same_draws_make_the_same_order_and_steps_of_tasks_interleave() {
        let first = order(1);
        assert_eq!(first, order(1));
        assert_ne!(first, order(2));
        assert_eq!(first.len(), 12);
        for task in 0..4 {
            let steps: Vec<u32> = first.iter().filter(|(of, _)| *of == task).map(|(_, step)| *step).collect();
            assert_eq!(steps, [0, 1, 2], "the steps of one task keep their order");
        }
        let adjacent = first.windows(3).filter(|three| three[0].0 == three[2].0).count();
        assert!(adjacent < 4, "no interleaving: {first:?}");
    }

    #[test]
    fn a_deterministic_pool_refuses_tasks_at_the_configured_rate() {
        let executor = Deterministic::new(|_| 0, 10);
        let pool = executor.pool::<u32, u32>("test", PoolLimits::default(), |_| None);
        assert_eq!(TaskPool::<_, u32>::submit(&pool, 0, LANE_WEIGHT_DEFAULT, 7, 0), Err(7));
    }
}
