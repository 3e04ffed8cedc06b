//! A fixed schedule of requests.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::LoadTally;

/// Requests that are due at equal distances. Threads may share a schedule.
pub struct Arrivals {
    first: Instant,
    end: Instant,
    interval: f64,
    taken: AtomicU64,
}

impl Arrivals {
    /// Plans requests from `first` to before `end`, so many seconds apart.
    pub fn new(first: Instant, end: Instant, interval: f64) -> Self {
        Self { first, end, interval, taken: AtomicU64::new(0) }
    }

    fn due(&self, number: u64) -> Instant {
        self.first + Duration::from_secs_f64(number as f64 * self.interval)
    }

    /// Returns when the next request is due.
    pub fn next(&self) -> Instant {
        self.due(self.taken.load(Ordering::Relaxed))
    }

    /// Takes the next that is due before the end: its number, and when.
    pub fn take(&self) -> Option<(u64, Instant)> {
        let taken = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |number| {
            let now = Instant::now();
            (self.due(number) < self.end && now < self.end).then_some(number + 1)
        });
        taken.ok().map(|number| (number, self.due(number)))
    }

    /// Counts requests that were due and that no thread took, with their waiting time.
    pub fn give_up(&self, tally: &mut LoadTally) {
        let mut number = self.taken.load(Ordering::Relaxed);
        while self.due(number) < self.end {
            tally.unserved += 1;
            tally.latencies.count(self.end.saturating_duration_since(self.due(number)));
            number += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_without_a_free_thread_count_with_their_waiting_time() {
        let first = Instant::now();
        let end = first + Duration::from_secs(1);
        // Forty of a hundred were taken.
        let arrivals = Arrivals { taken: AtomicU64::new(40), ..Arrivals::new(first, end, 0.01) };
        let mut tally = LoadTally::default();
        arrivals.give_up(&mut tally);
        assert_eq!((tally.unserved, tally.latencies.len(), tally.operations), (60, 60, 0));
        assert!((300_000.0..320_000.0).contains(&tally.latencies.quantile_us(0.5)));
        let over = Arrivals { end: first, ..arrivals };
        assert_eq!(over.take(), None, "nothing begins after the end");
    }
}
