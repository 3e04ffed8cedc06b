//! How long the steps of each export take on the threads of shards.
//!
//! A change and its synchronisation are apart: while the disk writes, further changes cost their
//! system calls alone, and one handoff to another thread serves all calls that wait for the disk.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The longest average of brief changes.
const BRIEF_AVERAGE: Duration = Duration::from_micros(300);
/// The longest average of changes that a shard runs while it has nothing else to do. A handoff to
/// another thread and back costs a fifth of that.
const MODERATE_AVERAGE: Duration = Duration::from_micros(700);
/// How much longer synchronisations may take: each follows a brief change.
const SYNC_FACTOR: u32 = 2;
/// The longest time for which a brief step may have run. A shard whose step takes longer is
/// relieved.
const BRIEF_TIME: Duration = Duration::from_millis(1);
/// The time for which a lane keeps a slower pace.
const SLOW_TIME: Duration = Duration::from_millis(100);
/// The weight of the last step in the average, as one part in so many.
const WEIGHT: u32 = 8;

/// The times of all lanes.
#[derive(Debug, Default)]
pub(crate) struct LaneTimes(Mutex<HashMap<u32, LaneTime>>);

#[derive(Debug, Default)]
struct LaneTime {
    /// When the steps that are running began; one for each shard at most.
    running: Vec<Duration>,
    changes: StepTime,
    syncs: StepTime,
}

/// The time of steps of one kind.
#[derive(Debug, Default)]
struct StepTime {
    average: Duration,
    /// The times until which the steps count as moderate, and as slow.
    moderate_until: Duration,
    slow_until: Duration,
}

/// The kind of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepKind {
    /// It runs the operations of a call.
    Change,
    /// It puts changes on stable storage.
    Sync,
}

impl StepKind {
    /// Returns a limit of averages for steps of this kind.
    fn limit(self, of_changes: Duration) -> Duration {
        match self {
            Self::Change => of_changes,
            Self::Sync => of_changes * SYNC_FACTOR,
        }
    }
}

/// Where the steps of a lane run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LanePace {
    /// On the threads of shards.
    Brief,
    /// On shards that have nothing else to do.
    Moderate,
    /// On the threads of the pools.
    Slow,
}

impl LaneTimes {
    fn lock(&self) -> MutexGuard<'_, HashMap<u32, LaneTime>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the pace of a lane's steps of one kind lately; slow while a step hangs. Changes are
    /// slow where synchronisations are: they may have to wait for these.
    pub(crate) fn pace(&self, lane: u32, kind: StepKind, now: Duration) -> LanePace {
        let lanes = self.lock();
        let Some(time) = lanes.get(&lane) else { return LanePace::Brief };
        let hangs = time.running.iter().any(|began| now.saturating_sub(*began) >= BRIEF_TIME);
        let syncs = time.syncs.pace(now);
        match kind {
            _ if hangs => LanePace::Slow,
            StepKind::Change if syncs != LanePace::Slow => time.changes.pace(now),
            StepKind::Change | StepKind::Sync => syncs,
        }
    }

    /// Records that a step of a lane begins.
    pub(crate) fn begin(&self, lane: u32, kind: StepKind, now: Duration) {
        let mut lanes = self.lock();
        let time = lanes.entry(lane).or_default();
        time.running.push(now);
        let step = time.of(kind);
        // After a slower pace the next step decides.
        if now >= step.moderate_until {
            step.average = step.average.min(kind.limit(BRIEF_AVERAGE));
        }
    }

    /// Records that a step ends that began at `began`.
    pub(crate) fn end(&self, lane: u32, kind: StepKind, began: Duration, now: Duration) {
        let mut lanes = self.lock();
        let Some(time) = lanes.get_mut(&lane) else { return };
        if let Some(at) = time.running.iter().position(|other| *other == began) {
            time.running.swap_remove(at);
        }
        let (step, taken) = (time.of(kind), now.saturating_sub(began));
        step.average = (step.average * (WEIGHT - 1) + taken) / WEIGHT;
        if step.average > kind.limit(BRIEF_AVERAGE) {
            step.moderate_until = now + SLOW_TIME;
        }
        if step.average > kind.limit(MODERATE_AVERAGE) {
            step.slow_until = now + SLOW_TIME;
        }
    }
}

impl LaneTime {
    fn of(&mut self, kind: StepKind) -> &mut StepTime {
        match kind {
            StepKind::Change => &mut self.changes,
            StepKind::Sync => &mut self.syncs,
        }
    }
}

impl StepTime {
    fn pace(&self, now: Duration) -> LanePace {
        match now {
            _ if now < self.slow_until => LanePace::Slow,
            _ if now < self.moderate_until => LanePace::Moderate,
            _ => LanePace::Brief,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(microseconds: u64) -> Duration {
        Duration::from_micros(microseconds)
    }

    /// Runs steps of this length from `start` on, one each millisecond. Returns the time of the
    /// end.
    fn run(lanes: &LaneTimes, start: u64, count: u64, length: u64) -> u64 {
        for at in (start..).step_by(1000).take(usize::try_from(count).unwrap()) {
            lanes.begin(1, StepKind::Change, us(at));
            lanes.end(1, StepKind::Change, us(at), us(at + length));
        }
        start + count * 1000
    }

    #[test]
    fn a_lane_with_long_steps_is_slow_for_a_while() {
        let lanes = LaneTimes::default();
        let now = run(&lanes, 0, 20, 50);
        assert_eq!(lanes.pace(1, StepKind::Change, us(now)), LanePace::Brief);
        lanes.begin(1, StepKind::Change, us(now));
        lanes.end(1, StepKind::Change, us(now), us(now + 10_000));
        assert_eq!(lanes.pace(1, StepKind::Change, us(now + 10_000)), LanePace::Slow);
        assert_eq!(
            lanes.pace(2, StepKind::Change, us(now + 10_000)),
            LanePace::Brief,
            "other lanes stay brief"
        );
        // One brief step later it is as before.
        let later = now + 110_000;
        assert_eq!(lanes.pace(1, StepKind::Change, us(later)), LanePace::Brief);
        let now = run(&lanes, later, 1, 50);
        assert_eq!(lanes.pace(1, StepKind::Change, us(now)), LanePace::Brief);
    }

    #[test]
    fn a_lane_with_longer_steps_is_moderate_for_as_long_as_they_are() {
        let lanes = LaneTimes::default();
        let now = run(&lanes, 0, 500, 500);
        assert_eq!(lanes.pace(1, StepKind::Change, us(now)), LanePace::Moderate);
        // Without steps on shards it is tried again after a while, and one step decides.
        let later = now + 200_000;
        assert_eq!(lanes.pace(1, StepKind::Change, us(later)), LanePace::Brief);
        let now = run(&lanes, later, 1, 500);
        assert_eq!(lanes.pace(1, StepKind::Change, us(now)), LanePace::Moderate);
        let now = run(&lanes, now, 150, 50);
        assert_eq!(lanes.pace(1, StepKind::Change, us(now)), LanePace::Brief);
        let now = run(&lanes, now, 50, 900);
        assert_eq!(lanes.pace(1, StepKind::Change, us(now)), LanePace::Slow);
    }

    #[test]
    fn changes_stay_brief_until_their_synchronisations_are_slow() {
        let lanes = LaneTimes::default();
        let synced = |start: u64, length: u64| {
            for at in (start..).step_by(3000).take(100) {
                lanes.begin(1, StepKind::Change, us(at));
                lanes.end(1, StepKind::Change, us(at), us(at + 20));
                lanes.begin(1, StepKind::Sync, us(at + 20));
                lanes.end(1, StepKind::Sync, us(at + 20), us(at + 20 + length));
            }
            let now = us(start + 300_000);
            [StepKind::Change, StepKind::Sync].map(|kind| lanes.pace(1, kind, now))
        };
        assert_eq!(synced(0, 500), [LanePace::Brief, LanePace::Brief]);
        assert_eq!(synced(300_000, 1000), [LanePace::Brief, LanePace::Moderate]);
        assert_eq!(synced(600_000, 2000), [LanePace::Slow, LanePace::Slow]);
    }

    #[test]
    fn a_lane_with_a_step_that_hangs_is_slow_until_it_ends() {
        let lanes = LaneTimes::default();
        lanes.begin(1, StepKind::Change, us(0));
        assert_eq!(lanes.pace(1, StepKind::Change, us(500)), LanePace::Brief);
        assert_eq!(lanes.pace(1, StepKind::Change, us(1000)), LanePace::Slow);
        assert_eq!(lanes.pace(1, StepKind::Change, us(60_000_000)), LanePace::Slow);
        lanes.end(1, StepKind::Change, us(0), us(60_000_000));
        assert_eq!(lanes.pace(1, StepKind::Change, us(60_000_000)), LanePace::Slow);
        assert_eq!(lanes.pace(1, StepKind::Change, us(60_000_000) + SLOW_TIME), LanePace::Brief);
    }
}
