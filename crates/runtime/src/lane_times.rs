//! How long the steps of each export take on the threads of shards.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The longest average of a lane whose steps are brief.
const BRIEF_AVERAGE: Duration = Duration::from_micros(300);
/// The longest average of a lane whose steps a shard runs while it has nothing else to do. A
/// handoff to another thread and back costs a fifth of that.
const MODERATE_AVERAGE: Duration = Duration::from_micros(700);
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
    average: Duration,
    /// The times until which the lane counts as moderate, and as slow.
    moderate_until: Duration,
    slow_until: Duration,
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

    /// Returns the pace of a lane's steps lately; slow while one hangs.
    pub(crate) fn pace(&self, lane: u32, now: Duration) -> LanePace {
        let lanes = self.lock();
        let Some(time) = lanes.get(&lane) else { return LanePace::Brief };
        let hangs = || time.running.iter().any(|began| now.saturating_sub(*began) >= BRIEF_TIME);
        match now {
            _ if now < time.slow_until || hangs() => LanePace::Slow,
            _ if now < time.moderate_until => LanePace::Moderate,
            _ => LanePace::Brief,
        }
    }

    /// Records that a step of a lane begins.
    pub(crate) fn begin(&self, lane: u32, now: Duration) {
        let mut lanes = self.lock();
        let time = lanes.entry(lane).or_default();
        time.running.push(now);
        // After a slower pace the next step decides.
        if now >= time.moderate_until {
            time.average = time.average.min(BRIEF_AVERAGE);
        }
    }

    /// Records that a step ends that began at `began`.
    pub(crate) fn end(&self, lane: u32, began: Duration, now: Duration) {
        let mut lanes = self.lock();
        let Some(time) = lanes.get_mut(&lane) else { return };
        if let Some(at) = time.running.iter().position(|other| *other == began) {
            time.running.swap_remove(at);
        }
        let taken = now.saturating_sub(began);
        time.average = (time.average * (WEIGHT - 1) + taken) / WEIGHT;
        if time.average > BRIEF_AVERAGE {
            time.moderate_until = now + SLOW_TIME;
        }
        if time.average > MODERATE_AVERAGE {
            time.slow_until = now + SLOW_TIME;
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
            lanes.begin(1, us(at));
            lanes.end(1, us(at), us(at + length));
        }
        start + count * 1000
    }

    #[test]
    fn a_lane_with_long_steps_is_slow_for_a_while() {
        let lanes = LaneTimes::default();
        let now = run(&lanes, 0, 20, 50);
        assert_eq!(lanes.pace(1, us(now)), LanePace::Brief);
        lanes.begin(1, us(now));
        lanes.end(1, us(now), us(now + 10_000));
        assert_eq!(lanes.pace(1, us(now + 10_000)), LanePace::Slow);
        assert_eq!(lanes.pace(2, us(now + 10_000)), LanePace::Brief, "other lanes stay brief");
        // One brief step later it is as before.
        let later = now + 110_000;
        assert_eq!(lanes.pace(1, us(later)), LanePace::Brief);
        let now = run(&lanes, later, 1, 50);
        assert_eq!(lanes.pace(1, us(now)), LanePace::Brief);
    }

    #[test]
    fn a_lane_with_longer_steps_is_moderate_for_as_long_as_they_are() {
        let lanes = LaneTimes::default();
        let now = run(&lanes, 0, 500, 500);
        assert_eq!(lanes.pace(1, us(now)), LanePace::Moderate);
        // Without steps on shards it is tried again after a while, and one step decides.
        let later = now + 200_000;
        assert_eq!(lanes.pace(1, us(later)), LanePace::Brief);
        let now = run(&lanes, later, 1, 500);
        assert_eq!(lanes.pace(1, us(now)), LanePace::Moderate);
        let now = run(&lanes, now, 150, 50);
        assert_eq!(lanes.pace(1, us(now)), LanePace::Brief);
        let now = run(&lanes, now, 50, 900);
        assert_eq!(lanes.pace(1, us(now)), LanePace::Slow);
    }

    #[test]
    fn a_lane_with_a_step_that_hangs_is_slow_until_it_ends() {
        let lanes = LaneTimes::default();
        lanes.begin(1, us(0));
        assert_eq!(lanes.pace(1, us(500)), LanePace::Brief);
        assert_eq!(lanes.pace(1, us(1000)), LanePace::Slow);
        assert_eq!(lanes.pace(1, us(60_000_000)), LanePace::Slow);
        lanes.end(1, us(0), us(60_000_000));
        assert_eq!(lanes.pace(1, us(60_000_000)), LanePace::Slow);
        assert_eq!(lanes.pace(1, us(60_000_000) + SLOW_TIME), LanePace::Brief);
    }
}
