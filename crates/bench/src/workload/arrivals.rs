//! A fixed schedule of requests.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::LoadTally;

/// A client's share of a rate that several clients have together.
#[derive(Clone, Copy, Debug)]
pub struct SharedRate {
    /// Requests a second of all clients together.
    pub rate: f64,
    /// Number of clients that share the rate.
    pub clients: u32,
    /// The client, from 0.
    pub client: u32,
    /// The start of the schedule of all clients.
    pub start: Instant,
}

impl SharedRate {
    /// Returns the client's schedule for `length`. It is shifted against those of the others, so
    /// that no two requests are due at the same time.
    pub fn arrivals(&self, length: Duration) -> Arrivals {
        let first = self.start + Duration::from_secs_f64(f64::from(self.client) / self.rate);
        Arrivals::new(first, self.start + length, f64::from(self.clients.max(1)) / self.rate)
    }
}

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
    fn the_requests_of_several_clients_are_due_as_evenly_as_those_of_one() {
        let start = Instant::now();
        let client = |client| SharedRate { rate: 1000.0, clients: 12, client, start };
        let schedules = (0..12).map(|number| client(number).arrivals(Duration::from_millis(99)));
        let due = schedules.flat_map(|schedule| (0..9).map(move |number| schedule.due(number)));
        let mut due: Vec<u128> = due.map(|due| (due - start).as_micros()).collect();
        due.sort_unstable();
        assert!(due.iter().zip(0..).all(|(due, number)| due.abs_diff(number * 1000) <= 1), "{due:?}");
    }

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
