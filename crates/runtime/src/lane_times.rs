//! How long the steps of each export take on the threads of shards.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The longest average of a lane whose steps are brief.
const BRIEF_AVERAGE: Duration = Duration::from_micros(300);
/// The longest time for which a brief step may have run. A shard whose step takes longer is
/// relieved.
const BRIEF_TIME: Duration = Duration::from_millis(1);
/// The time for which the steps of a slow lane go to the pools.
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
    /// The time until which the lane counts as slow.
    slow_until: Duration,
}

impl LaneTimes {
    fn lock(&self) -> MutexGuard<'_, HashMap<u32, LaneTime>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the steps of a lane have been brief lately, and none hangs.
    pub(crate) fn is_brief(&self, lane: u32, now: Duration) -> bool {
        self.lock().get(&lane).is_none_or(|time| {
            now >= time.slow_until && time.running.iter().all(|began| now.saturating_sub(*began) < BRIEF_TIME)
        })
    }

    /// Records that a step of a lane begins.
    pub(crate) fn begin(&self, lane: u32, now: Duration) {
        self.lock().entry(lane).or_default().running.push(now);
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
            time.slow_until = now + SLOW_TIME;
            time.average = BRIEF_AVERAGE / 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(microseconds: u64) -> Duration {
        Duration::from_micros(microseconds)
    }

    #[test]
    fn a_lane_with_long_steps_is_slow_for_a_while() {
        let lanes = LaneTimes::default();
        for start in (0..20_000).step_by(1000) {
            lanes.begin(1, us(start));
            lanes.end(1, us(start), us(start + 50));
        }
        assert!(lanes.is_brief(1, us(20_000)));
        lanes.begin(1, us(20_000));
        lanes.end(1, us(20_000), us(30_000));
        assert!(!lanes.is_brief(1, us(30_000)));
        assert!(lanes.is_brief(2, us(30_000)), "other lanes stay brief");
        assert!(lanes.is_brief(1, us(30_000) + SLOW_TIME));
    }

    #[test]
    fn a_lane_with_a_step_that_hangs_is_slow_until_it_ends() {
        let lanes = LaneTimes::default();
        lanes.begin(1, us(0));
        assert!(lanes.is_brief(1, us(500)));
        assert!(!lanes.is_brief(1, us(1000)));
        assert!(!lanes.is_brief(1, us(60_000_000)));
        lanes.end(1, us(0), us(60_000_000));
        assert!(!lanes.is_brief(1, us(60_000_000)));
        assert!(lanes.is_brief(1, us(60_000_000) + SLOW_TIME));
    }
}
