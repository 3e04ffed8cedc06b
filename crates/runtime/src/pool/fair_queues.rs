//! The tasks of a pool by lane: a lane that hangs leaves threads and space for the others.

use super::PoolLimits;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// The tasks of a pool, queued by lane.
#[derive(Debug)]
pub(super) struct FairQueues<T, L> {
    limits: PoolLimits,
    /// The lanes that have waiting or running tasks.
    lanes: HashMap<L, LaneTasks<T>>,
    /// The lanes that have waiting tasks, in the order of their turns.
    turns: VecDeque<L>,
    waiting: usize,
    bytes: usize,
    running: usize,
}

#[derive(Debug)]
struct LaneTasks<T> {
    /// The waiting tasks, each with the bytes that it holds.
    tasks: VecDeque<(T, usize)>,
    bytes: usize,
    running: usize,
}

/// Identifies a lane of a pool.
pub trait QueueKey: Copy + Eq + Hash + Send + 'static {}

impl<L: Copy + Eq + Hash + Send + 'static> QueueKey for L {}

impl<T, L> FairQueues<T, L> {
    pub(super) fn new(limits: PoolLimits) -> Self {
        let (lanes, turns) = (HashMap::new(), VecDeque::new());
        Self { limits, lanes, turns, waiting: 0, bytes: 0, running: 0 }
    }
}

impl<T, L: QueueKey> FairQueues<T, L> {
    /// Fair share of `max` for a lane that holds `own` while all lanes hold `all`: a part of the
    /// rest.
    fn share(&self, max: usize, all: usize, own: usize) -> usize {
        max.saturating_sub(all - own).div_ceil(self.limits.lane_part.max(1))
    }

    /// Puts a task at the end of its lane.
    ///
    /// # Errors
    /// Returns the task if there is no space for it.
    pub(super) fn push(&mut self, lane: L, task: T, bytes: usize) -> Result<(), T> {
        let PoolLimits { tasks_max, tasks_bytes_max, .. } = self.limits;
        let (own, own_bytes) = self.lanes.get(&lane).map_or((0, 0), |lane| (lane.tasks.len(), lane.bytes));
        let tasks_full = own >= self.share(tasks_max, self.waiting, own);
        // A task above the share must run at some time, so an empty lane accepts it.
        let bytes_full =
            own > 0 && own_bytes.saturating_add(bytes) > self.share(tasks_bytes_max, self.bytes, own_bytes);
        if tasks_full || bytes_full || self.waiting >= tasks_max {
            return Err(task);
        }
        if own == 0 {
            self.turns.push_back(lane);
        }
        let empty = || LaneTasks { tasks: VecDeque::new(), bytes: 0, running: 0 };
        let own = self.lanes.entry(lane).or_insert_with(empty);
        own.tasks.push_back((task, bytes));
        own.bytes += bytes;
        self.waiting += 1;
        self.bytes += bytes;
        Ok(())
    }

    /// Takes the next task to run: the first one of the next lane that is below its share of
    /// threads.
    pub(super) fn pop(&mut self) -> Option<(L, T)> {
        for _ in 0..self.turns.len() {
            let number = self.turns.pop_front()?;
            let may_run = self.room(number) > 0;
            let Some(lane) = self.lanes.get_mut(&number) else { continue };
            let task = if may_run { lane.tasks.pop_front() } else { None };
            if let Some((_, bytes)) = task {
                lane.bytes -= bytes;
                lane.running += 1;
            }
            if !lane.tasks.is_empty() {
                self.turns.push_back(number);
            }
            if let Some((task, bytes)) = task {
                self.waiting -= 1;
                self.bytes -= bytes;
                self.running += 1;
                return Some((number, task));
            }
        }
        None
    }

    /// Counts a finished task of a lane.
    pub(super) fn done(&mut self, number: L) {
        let Some(lane) = self.lanes.get_mut(&number) else { return };
        lane.running = lane.running.saturating_sub(1);
        self.running = self.running.saturating_sub(1);
        if lane.running == 0 && lane.tasks.is_empty() {
            self.lanes.remove(&number);
        }
    }

    /// Returns how many more tasks of a lane may run.
    fn room(&self, number: L) -> usize {
        let running = self.lanes.get(&number).map_or(0, |lane| lane.running);
        self.share(self.limits.threads_max, self.running, running).saturating_sub(running)
    }

    /// Returns how many of the waiting tasks could run if they had a thread.
    pub(super) fn runnable(&self) -> usize {
        self.lanes.iter().map(|(number, lane)| lane.tasks.len().min(self.room(*number))).sum()
    }

    /// Returns the lanes with tasks that run or wait.
    pub(super) fn lanes(&self) -> Vec<L> {
        self.lanes.keys().copied().collect()
    }

    /// Returns the number of waiting tasks.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns whether more than one part in `part` of the limits is in use.
    pub(super) fn is_crowded(&self, part: usize) -> bool {
        self.waiting > self.limits.tasks_max / part || self.bytes > self.limits.tasks_bytes_max / part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes(threads_max: usize, tasks_max: usize) -> FairQueues<u32, u32> {
        FairQueues::new(PoolLimits {
            threads_max,
            tasks_max,
            tasks_bytes_max: 1000,
            lane_part: 2,
            niceness: 0,
        })
    }

    fn run_all(lanes: &mut FairQueues<u32, u32>) -> Vec<u32> {
        std::iter::from_fn(|| lanes.pop()).map(|(lane, _)| lane).collect()
    }

    #[test]
    fn a_lane_that_hangs_takes_half_of_the_threads_and_each_further_one_half_of_the_rest() {
        let mut lanes = lanes(8, 1000);
        for (lane, gets) in [(1, 4), (2, 2), (3, 1), (4, 1)] {
            (0..20).for_each(|task| lanes.push(lane, task, 1).unwrap());
            assert_eq!(lanes.runnable(), gets);
            assert_eq!(run_all(&mut lanes), vec![lane; gets]);
        }
        // A finished task makes space for a lane below its share, not for the lane with the most
        // tasks.
        lanes.done(1);
        lanes.done(1);
        assert_eq!(run_all(&mut lanes), [3]);
    }

    #[test]
    fn tasks_of_several_lanes_take_turns_and_keep_their_order_in_each() {
        let mut lanes = lanes(100, 1000);
        for (lane, task) in [(1, 10), (1, 11), (1, 12), (2, 20), (2, 21)] {
            lanes.push(lane, task, 1).unwrap();
        }
        let order: Vec<u32> = std::iter::from_fn(|| lanes.pop()).map(|(_, task)| task).collect();
        assert_eq!(order, [10, 20, 11, 21, 12]);
        [1, 1, 1, 2, 2].into_iter().for_each(|lane| lanes.done(lane));
        assert!(lanes.lanes.is_empty());
        assert_eq!((lanes.waiting, lanes.bytes, lanes.running), (0, 0, 0));
    }

    #[test]
    fn what_waits_of_one_lane_leaves_room_for_what_waits_of_others() {
        let mut lanes = lanes(1, 8);
        assert_eq!((0..8).filter(|task| lanes.push(1, *task, 1).is_ok()).count(), 4);
        assert_eq!((0..8).filter(|task| lanes.push(2, *task, 1).is_ok()).count(), 2);
        assert!(lanes.push(3, 0, 2000).is_ok(), "too large for any share, but alone in its lane");
        assert!(lanes.push(3, 0, 1).is_err());
    }
}
