//! The tasks of a pool by lane: lanes share the threads by their weights, and a lane that hangs
//! leaves threads and space for the others.
//!
//! Two rules divide the threads. Lanes take turns by stride scheduling: a lane of twice the weight
//! has twice the turns, which divides the time of short tasks. Long tasks hold their threads, so no
//! lane runs more tasks for its weight than another one whose tasks wait. A lane that finishes
//! nothing for [`STALL_TIME`] does not count for the second rule: its weight holds up nobody.

use super::PoolLimits;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::time::{Duration, Instant};

/// The weight of a lane without a weight of its own.
pub(crate) const LANE_WEIGHT_DEFAULT: u32 = 100;

/// The time after which a lane that runs tasks and finishes none holds back no other lane.
const STALL_TIME: Duration = Duration::from_secs(1);

/// The distance between the turns of a lane with weight 1.
const STRIDE: u64 = 1 << 20;

/// The tasks of a pool, queued by lane.
#[derive(Debug)]
pub(super) struct FairQueues<T, L> {
    limits: PoolLimits,
    /// The lanes that have waiting or running tasks.
    lanes: HashMap<L, LaneTasks<T>>,
    /// The lanes that have waiting tasks. Of those with equal turns, the first one is next.
    turns: VecDeque<L>,
    waiting: usize,
    bytes: usize,
    running: usize,
    /// The turn of the task that was taken last.
    turn: u64,
    /// The time of the last event.
    now: Instant,
}

#[derive(Debug)]
struct LaneTasks<T> {
    /// The waiting tasks, each with the bytes that it holds.
    tasks: VecDeque<(T, usize)>,
    bytes: usize,
    running: usize,
    weight: u32,
    /// The turn of its next task.
    turn: u64,
    /// When it last finished a task, or began one while it ran no other.
    progressed: Instant,
}

/// Tasks at once for a weight: a bound on what each lane runs for its own weight.
#[derive(Clone, Copy, Debug)]
struct TaskLevel {
    tasks: u64,
    weight: u64,
}

/// Identifies a lane of a pool.
pub trait QueueKey: Copy + Eq + Hash + Send + 'static {}

impl<L: Copy + Eq + Hash + Send + 'static> QueueKey for L {}

impl<T> LaneTasks<T> {
    fn weight(&self) -> u64 {
        u64::from(self.weight.max(1))
    }

    /// Returns whether the lane runs tasks and has finished none for a while.
    fn is_stalled(&self, now: Instant) -> bool {
        self.running > 0 && now.saturating_duration_since(self.progressed) >= STALL_TIME
    }

    /// Returns the level of the lane with one more task.
    fn level(&self) -> TaskLevel {
        TaskLevel { tasks: self.running as u64 + 1, weight: self.weight() }
    }
}

impl TaskLevel {
    /// Returns whether this level is below another one.
    fn is_below(self, other: Self) -> bool {
        self.tasks * other.weight < other.tasks * self.weight
    }
}

impl<T, L> FairQueues<T, L> {
    pub(super) fn new(limits: PoolLimits, now: Instant) -> Self {
        let (lanes, turns) = (HashMap::new(), VecDeque::new());
        Self { limits, lanes, turns, waiting: 0, bytes: 0, running: 0, turn: 0, now }
    }
}

impl<T, L: QueueKey> FairQueues<T, L> {
    /// Fair share of `max` for a lane that holds `own` while all lanes hold `all`: a part of the
    /// rest.
    fn share(&self, max: usize, all: usize, own: usize) -> usize {
        max.saturating_sub(all - own).div_ceil(self.limits.lane_part.max(1))
    }

    /// Puts a task at the end of its lane, which has this weight from now on.
    ///
    /// # Errors
    /// Returns the task if there is no space for it.
    pub(super) fn push(&mut self, lane: L, weight: u32, task: T, bytes: usize) -> Result<(), T> {
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
        let (turn, now) = (self.turn, self.now);
        let empty =
            || LaneTasks { tasks: VecDeque::new(), bytes: 0, running: 0, weight, turn, progressed: now };
        let own = self.lanes.entry(lane).or_insert_with(empty);
        own.weight = weight;
        own.tasks.push_back((task, bytes));
        own.bytes += bytes;
        self.waiting += 1;
        self.bytes += bytes;
        Ok(())
    }

    /// Takes the next task to run: the first one of the lane that has the next turn, among those
    /// that are below their shares of threads.
    pub(super) fn pop(&mut self, now: Instant) -> Option<(L, T)> {
        self.now = now;
        let number = self.turns.remove(self.next_place()?)?;
        let lane = self.lanes.get_mut(&number)?;
        let (task, bytes) = lane.tasks.pop_front()?;
        self.turn = self.turn.max(lane.turn);
        lane.turn = self.turn.saturating_add(STRIDE / lane.weight());
        lane.bytes -= bytes;
        if lane.running == 0 {
            lane.progressed = now;
        }
        lane.running += 1;
        if !lane.tasks.is_empty() {
            self.turns.push_back(number);
        }
        self.waiting -= 1;
        self.bytes -= bytes;
        self.running += 1;
        Some((number, task))
    }

    /// Counts a finished task of a lane.
    pub(super) fn done(&mut self, number: L, now: Instant) {
        self.now = now;
        let Some(lane) = self.lanes.get_mut(&number) else { return };
        lane.progressed = now;
        lane.running = lane.running.saturating_sub(1);
        self.running = self.running.saturating_sub(1);
        if lane.running == 0 && lane.tasks.is_empty() {
            self.lanes.remove(&number);
        }
    }

    /// Returns the least level of the lanes whose tasks wait: none may be above it with one more
    /// task. Lanes that hang do not count.
    fn level(&self) -> Option<TaskLevel> {
        let waiting = self.turns.iter().filter_map(|number| self.lanes.get(number));
        let levels = waiting.filter(|lane| !lane.is_stalled(self.now)).map(LaneTasks::level);
        levels.reduce(|least, level| if level.is_below(least) { level } else { least })
    }

    /// Returns the place of the lane whose task is next, if one may run.
    fn next_place(&self) -> Option<usize> {
        let level = self.level();
        let may_run = |lane: &LaneTasks<T>| {
            let is_within = level.is_none_or(|level| !level.is_below(lane.level()));
            self.room(lane) > 0 && (lane.running == 0 || is_within)
        };
        let waiting = self.turns.iter().map(|number| self.lanes.get(number)).enumerate();
        let runnable = waiting.filter_map(|(place, lane)| Some((place, lane.filter(|lane| may_run(lane))?)));
        let next = runnable.min_by_key(|(_, lane)| lane.turn.max(self.turn))?;
        Some(next.0)
    }

    /// Returns whether a waiting task may run.
    pub(super) fn has_next(&self) -> bool {
        self.next_place().is_some()
    }

    /// Returns how many more tasks of a lane may run, whatever its weight.
    fn room(&self, lane: &LaneTasks<T>) -> usize {
        self.share(self.limits.threads_max, self.running, lane.running).saturating_sub(lane.running)
    }

    /// Returns how many of the waiting tasks could run if they had a thread, and if no lane had to
    /// wait for the weight of another one.
    pub(super) fn runnable(&self) -> usize {
        self.lanes.values().map(|lane| lane.tasks.len().min(self.room(lane))).sum()
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
        let limits = PoolLimits { threads_max, tasks_max, tasks_bytes_max: 1000, lane_part: 2, niceness: 0 };
        FairQueues::new(limits, Instant::now())
    }

    fn push(lanes: &mut FairQueues<u32, u32>, lane: u32, task: u32) -> Result<(), u32> {
        lanes.push(lane, LANE_WEIGHT_DEFAULT, task, 1)
    }

    /// Starts all tasks that may run.
    fn run_all(lanes: &mut FairQueues<u32, u32>) -> Vec<u32> {
        let now = lanes.now;
        std::iter::from_fn(|| lanes.pop(now)).map(|(lane, _)| lane).collect()
    }

    /// Keeps tasks of lanes with weights waiting, and finishes tasks in the order of their starts.
    /// Returns how many of each lane it has finished.
    fn saturate(
        lanes: &mut FairQueues<u32, u32>,
        started: &mut VecDeque<u32>,
        weights: &[(u32, u32)],
        steps: usize,
    ) -> Vec<usize> {
        let mut ran = vec![0; weights.len()];
        for _ in 0..steps {
            for (lane, weight) in weights {
                while lanes.lanes.get(lane).is_none_or(|lane| lane.tasks.len() < 4) {
                    lanes.push(*lane, *weight, 0, 0).unwrap();
                }
            }
            started.extend(run_all(lanes));
            let done = started.pop_front().unwrap();
            lanes.done(done, lanes.now + Duration::from_millis(1));
            let place = weights.iter().position(|(lane, _)| *lane == done);
            place.into_iter().for_each(|place| ran[place] += 1);
        }
        ran
    }

    fn running(lanes: &FairQueues<u32, u32>) -> [usize; 2] {
        [1, 2].map(|lane| lanes.lanes.get(&lane).map_or(0, |lane| lane.running))
    }

    #[test]
    fn a_lane_that_hangs_takes_half_of_the_threads_and_each_further_one_half_of_the_rest() {
        let mut lanes = lanes(8, 1000);
        for (lane, gets) in [(1, 4), (2, 2), (3, 1), (4, 1)] {
            (0..20).for_each(|task| push(&mut lanes, lane, task).unwrap());
            assert_eq!(lanes.runnable(), gets);
            assert_eq!(run_all(&mut lanes), vec![lane; gets]);
            assert!(!lanes.has_next());
        }
        // A finished task makes space for a lane below its share, not for the lane with the most
        // tasks.
        lanes.done(1, lanes.now);
        lanes.done(1, lanes.now);
        assert_eq!(run_all(&mut lanes), [3]);
    }

    #[test]
    fn lanes_with_waiting_tasks_share_the_threads_by_their_weights() {
        // As many threads stay free as the lane with the most holds.
        for (weights, threads) in [([100, 100], [43, 43]), ([200, 100], [51, 26]), ([100, 1000], [6, 61])] {
            let (mut lanes, mut started) = (lanes(128, 1000), VecDeque::new());
            let of_lanes = [(1, weights[0]), (2, weights[1])];
            let ran = saturate(&mut lanes, &mut started, &of_lanes, 20_000);
            for (running, expected) in running(&lanes).iter().zip(threads) {
                assert!(running.abs_diff(expected) <= 1, "{running} of {expected} threads: {weights:?}");
            }
            let ratio = ran[0] as f64 / ran[1] as f64 * f64::from(weights[1]) / f64::from(weights[0]);
            assert!((0.9..1.1).contains(&ratio), "{ran:?} for {weights:?}");
        }
    }

    #[test]
    fn lanes_take_turns_by_their_weights() {
        let mut lanes = lanes(1, 1000);
        let of_lanes = [(1, 200), (2, 100), (3, 50)];
        let ran = saturate(&mut lanes, &mut VecDeque::new(), &of_lanes, 7000);
        assert!(ran.iter().zip([4000, 2000, 1000]).all(|(ran, by)| ran.abs_diff(by) <= 2), "{ran:?}");
    }

    #[test]
    fn a_lane_without_waiting_tasks_leaves_its_threads_to_the_others() {
        let mut lanes = lanes(128, 1000);
        lanes.push(1, 10_000, 0, 0).unwrap();
        (0..100).for_each(|_| lanes.push(2, 1, 0, 0).unwrap());
        assert_eq!(run_all(&mut lanes).len(), 65);
        assert_eq!(running(&lanes), [1, 64]);
    }

    #[test]
    fn a_new_weight_counts_from_the_next_task_on() {
        let (mut lanes, mut started) = (lanes(128, 1000), VecDeque::new());
        saturate(&mut lanes, &mut started, &[(1, 100), (2, 100)], 5000);
        assert_eq!(running(&lanes)[0].abs_diff(43), 0);
        saturate(&mut lanes, &mut started, &[(1, 100), (2, 300)], 5000);
        let [light, heavy] = running(&lanes);
        assert!(light.abs_diff(18) <= 1 && heavy.abs_diff(55) <= 1, "{light} and {heavy}");
    }

    #[test]
    fn the_weight_of_a_lane_that_hangs_holds_up_nobody() {
        let mut lanes = lanes(128, 1000);
        (0..100).for_each(|task| lanes.push(1, 10_000, task, 0).unwrap());
        assert_eq!(run_all(&mut lanes).len(), 64);
        (0..100).for_each(|task| push(&mut lanes, 2, task).unwrap());
        assert_eq!(run_all(&mut lanes), [2], "one task may run beside any weight");
        lanes.now += STALL_TIME;
        assert_eq!(run_all(&mut lanes), vec![2; 31]);
        // It counts again as soon as it finishes a task.
        lanes.done(1, lanes.now);
        lanes.done(2, lanes.now);
        assert_eq!(run_all(&mut lanes), Vec::<u32>::new());
    }

    #[test]
    fn tasks_of_several_lanes_take_turns_and_keep_their_order_in_each() {
        let mut lanes = lanes(100, 1000);
        for (lane, task) in [(1, 10), (1, 11), (1, 12), (2, 20), (2, 21)] {
            push(&mut lanes, lane, task).unwrap();
        }
        let now = lanes.now;
        let order: Vec<u32> = std::iter::from_fn(|| lanes.pop(now)).map(|(_, task)| task).collect();
        assert_eq!(order, [10, 20, 11, 21, 12]);
        [1, 1, 1, 2, 2].into_iter().for_each(|lane| lanes.done(lane, now));
        assert!(lanes.lanes.is_empty());
        assert_eq!((lanes.waiting, lanes.bytes, lanes.running), (0, 0, 0));
    }

    #[test]
    fn waiting_tasks_of_one_lane_leave_room_for_other_lanes() {
        let mut lanes = lanes(1, 8);
        assert_eq!((0..8).filter(|task| push(&mut lanes, 1, *task).is_ok()).count(), 4);
        assert_eq!((0..8).filter(|task| push(&mut lanes, 2, *task).is_ok()).count(), 2);
        assert!(lanes.push(3, 100, 0, 2000).is_ok(), "too large for any share, but alone in its lane");
        assert!(push(&mut lanes, 3, 0).is_err());
    }
}
