//! The tasks of a pool by lane: lanes share the threads by their weights, and a lane that hangs
//! leaves threads and space for the others.
//!
//! Two rules divide the threads. Lanes take turns by stride scheduling: a lane of twice the weight
//! has twice the turns, which divides the time of short tasks. Long tasks hold their threads, so no
//! lane runs more tasks for its weight than another one whose tasks wait. A lane that finishes
//! nothing for [`STALL_TIME`] does not count for the second rule: its weight holds up no other.
//!
//! Strangers can have thousands of lanes wait, each with one task. The second rule concerns only
//! lanes that run tasks, of which there are no more than threads, so a pool keeps them apart from
//! the others, and looks at none of the others but the first.

use super::PoolLimits;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;
use std::time::{Duration, Instant};

/// The weight of a lane without a weight of its own.
pub(crate) const LANE_WEIGHT_DEFAULT: u32 = 100;

/// The time after which a lane that runs tasks and finishes none holds back no other lane.
pub(super) const STALL_TIME: Duration = Duration::from_secs(1);

/// The distance between the turns of a lane with weight 1.
const STRIDE: u64 = 1 << 20;

/// The tasks of a pool, queued by lane.
#[derive(Debug)]
pub(super) struct FairQueues<T, L> {
    limits: PoolLimits,
    /// The lanes that have waiting or running tasks.
    lanes: HashMap<L, LaneTasks<T>>,
    /// The lanes with waiting tasks that run none, by weight.
    idle: BTreeMap<u64, BTreeMap<LaneTurn, L>>,
    /// The lanes with waiting tasks that run others.
    busy: BTreeMap<LaneTurn, L>,
    /// The number of the next place in the order.
    place: u64,
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
    turn: LaneTurn,
    /// When it last finished a task, or began one while it ran no other.
    progressed: Instant,
}

/// The turn of a lane's next task. Of equal turns, the first place is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LaneTurn {
    turn: u64,
    place: u64,
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
        let (lanes, idle, busy) = (HashMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { limits, lanes, idle, busy, place: 0, waiting: 0, bytes: 0, running: 0, turn: 0, now }
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
        let (turn, progressed) = (self.turn, self.now);
        let empty = || {
            let turn = LaneTurn { turn, place: 0 };
            LaneTasks { tasks: VecDeque::new(), bytes: 0, running: 0, weight, turn, progressed }
        };
        self.lanes.entry(lane).or_insert_with(empty);
        self.change(lane, |own, place| {
            if own.tasks.is_empty() {
                own.turn = LaneTurn { turn: own.turn.turn.max(turn), place };
            }
            own.weight = weight;
            own.tasks.push_back((task, bytes));
            own.bytes += bytes;
        });
        self.waiting += 1;
        self.bytes += bytes;
        Ok(())
    }

    /// Takes the next task to run: the first one of the lane that has the next turn, among those
    /// that are below their shares of threads.
    pub(super) fn pop(&mut self, now: Instant) -> Option<(L, T)> {
        self.now = now;
        let number = self.next()?;
        let turn = self.turn.max(self.lanes.get(&number)?.turn.turn);
        let (task, bytes) = self.change(number, |lane, place| {
            let (task, bytes) = lane.tasks.pop_front()?;
            lane.turn = LaneTurn { turn: turn.saturating_add(STRIDE / lane.weight()), place };
            lane.bytes -= bytes;
            if lane.running == 0 {
                lane.progressed = now;
            }
            lane.running += 1;
            Some((task, bytes))
        })??;
        self.turn = turn;
        self.waiting -= 1;
        self.bytes -= bytes;
        self.running += 1;
        Some((number, task))
    }

    /// Counts a finished task of a lane.
    pub(super) fn done(&mut self, number: L, now: Instant) {
        self.now = now;
        let ends = self.change(number, |lane, _| {
            lane.progressed = now;
            lane.running = lane.running.saturating_sub(1);
            lane.running == 0 && lane.tasks.is_empty()
        });
        let Some(ends) = ends else { return };
        self.running = self.running.saturating_sub(1);
        if ends {
            self.lanes.remove(&number);
        }
    }

    /// Changes a lane, which may use a new place in the order, and orders it anew.
    fn change<R>(&mut self, number: L, change: impl FnOnce(&mut LaneTasks<T>, u64) -> R) -> Option<R> {
        let lane = self.lanes.get_mut(&number)?;
        if lane.running > 0 {
            self.busy.remove(&lane.turn);
        } else if let Some(turns) = self.idle.get_mut(&lane.weight()) {
            turns.remove(&lane.turn);
            if turns.is_empty() {
                self.idle.remove(&lane.weight());
            }
        }
        self.place += 1;
        let result = change(lane, self.place);
        if !lane.tasks.is_empty() {
            let turns = match lane.running {
                0 => self.idle.entry(lane.weight()).or_default(),
                _ => &mut self.busy,
            };
            turns.insert(lane.turn, number);
        }
        Some(result)
    }

    /// Returns the lanes with waiting tasks that run others.
    fn busy(&self) -> impl Iterator<Item = &LaneTasks<T>> {
        self.busy.values().filter_map(|number| self.lanes.get(number))
    }

    /// Returns the least level of the lanes whose tasks wait: none may be above it with one more
    /// task. Lanes that hang do not count.
    fn level(&self) -> Option<TaskLevel> {
        let heaviest = self.idle.keys().next_back().map(|weight| TaskLevel { tasks: 1, weight: *weight });
        let busy = self.busy().filter(|lane| !lane.is_stalled(self.now)).map(LaneTasks::level);
        busy.chain(heaviest).reduce(|least, level| if level.is_below(least) { level } else { least })
    }

    /// Returns the lane of the next task, if one may run.
    fn next(&self) -> Option<L> {
        let level = self.level();
        let may_run = |lane: &LaneTasks<T>| {
            self.room(lane.running) > 0 && level.is_none_or(|level| !level.is_below(lane.level()))
        };
        let busy = self.busy.iter().find(|(_, number)| self.lanes.get(number).is_some_and(may_run));
        // A lane may run one task beside any weights.
        let has_room = self.room(0) > 0;
        let idle = self.idle.values().filter(|_| has_room).filter_map(BTreeMap::first_key_value);
        idle.chain(busy).min_by_key(|(turn, _)| **turn).map(|(_, number)| *number)
    }

    /// Returns whether a waiting task may run.
    pub(super) fn has_next(&self) -> bool {
        self.next().is_some()
    }

    /// Returns how many more tasks a lane with so many may run, whatever its weight.
    fn room(&self, running: usize) -> usize {
        self.share(self.limits.threads_max, self.running, running).saturating_sub(running)
    }

    /// Returns whether `threads` more threads would all have waiting tasks to run, if no lane had
    /// to wait for the weight of another one.
    pub(super) fn can_use(&self, threads: usize) -> bool {
        let idle = self.idle.values().flat_map(BTreeMap::values).filter_map(|number| self.lanes.get(number));
        let has_room = self.room(0) > 0;
        let waiting = self.busy().chain(idle.take_while(|_| has_room));
        let mut tasks = waiting.map(|lane| lane.tasks.len().min(self.room(lane.running)));
        let mut used = 0;
        used >= threads
            || tasks.any(|tasks| {
                used += tasks;
                used >= threads
            })
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
    use std::cell::Cell;

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
            if let Some(place) = weights.iter().position(|(lane, _)| *lane == done) {
                ran[place] += 1;
            }
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
            assert!(lanes.can_use(gets) && !lanes.can_use(gets + 1));
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
    fn the_weight_of_a_lane_that_hangs_delays_no_other_lane() {
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

    /// A lane that counts how often a pool looks one up.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct CountedLane(u32);

    thread_local! {
        static LOOKUPS: Cell<usize> = const { Cell::new(0) };
    }

    impl Hash for CountedLane {
        fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
            LOOKUPS.set(LOOKUPS.get() + 1);
            self.0.hash(state);
        }
    }

    #[test]
    fn the_lanes_of_a_flood_cost_no_lookups() {
        let limits = PoolLimits { threads_max: 4, tasks_max: 16_384, lane_part: 2, ..PoolLimits::default() };
        let mut lanes = FairQueues::new(limits, Instant::now());
        let now = lanes.now;
        for lane in 0..16_384 {
            lanes.push(CountedLane(lane), LANE_WEIGHT_DEFAULT, lane, 0).unwrap();
        }
        for expected in 0..1000 {
            LOOKUPS.set(0);
            let (lane, task) = lanes.pop(now).unwrap();
            assert!(lanes.has_next() && lanes.can_use(3));
            lanes.done(lane, now);
            assert_eq!(task, expected);
            assert!(LOOKUPS.get() < 16, "{} lookups", LOOKUPS.get());
        }
    }
}
