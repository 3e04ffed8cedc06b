//! A bounded share of time for work that strangers cause while honest clients are active.
//!
//! An allowance is a token bucket whose tokens are processor time: it fills with one [`PART`]th of
//! the time that passes, up to [`BURST`]. Work is measured and paid for afterwards. An allowance in
//! debt is closed until it holds a [`QUANTUM`] again, so that its owner wakes for a worthwhile
//! amount of work instead of for each microsecond.

use std::time::{Duration, Instant};

/// The divisor of the time that an allowance gets: one twentieth.
const PART: u32 = 20;
/// The most time that an allowance holds: enough for a client to mount without a wait.
const BURST: Duration = Duration::from_millis(4);
/// The time that an allowance in debt must hold before it opens again.
const QUANTUM: Duration = Duration::from_micros(400);
/// The largest debt: a single long step must not close an allowance for longer.
const DEBT_MAX: Duration = Duration::from_millis(25);

/// A token bucket of time.
#[derive(Debug)]
pub(crate) struct Allowance {
    /// Remaining time, counted from a debt of `DEBT_MAX`.
    held: Duration,
    filled: Instant,
    /// Whether it is in debt, or has not held a quantum since its last debt.
    closed: bool,
}

impl Allowance {
    /// Creates a full allowance.
    pub(crate) fn new(now: Instant) -> Self {
        Self { held: DEBT_MAX + BURST, filled: now, closed: false }
    }

    /// Returns how long the owner must wait before it may work; zero if it may work now.
    pub(crate) fn wait(&mut self, now: Instant) -> Duration {
        self.fill(now);
        if self.closed && self.held >= DEBT_MAX + QUANTUM {
            self.closed = false;
        }
        match self.closed {
            true => (DEBT_MAX + QUANTUM).saturating_sub(self.held) * PART,
            false => Duration::ZERO,
        }
    }

    /// Charges work that has been done.
    pub(crate) fn spend(&mut self, now: Instant, time: Duration) {
        self.fill(now);
        self.held = self.held.saturating_sub(time);
        self.closed |= self.held <= DEBT_MAX;
    }

    fn fill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.filled);
        self.filled = self.filled.max(now);
        self.held = (self.held + passed / PART).min(DEBT_MAX + BURST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowance_gives_a_burst_at_once_and_then_its_part_of_the_time() {
        let start = Instant::now();
        let mut allowance = Allowance::new(start);
        let (mut now, mut spent) = (start, Duration::ZERO);
        while now < start + Duration::from_secs(10) {
            match allowance.wait(now) {
                Duration::ZERO => {
                    now += QUANTUM / 2;
                    spent += QUANTUM / 2;
                    allowance.spend(now, QUANTUM / 2);
                }
                wait => now += wait,
            }
        }
        let part = (now - start) / PART;
        assert!(spent >= part && spent <= part + BURST + QUANTUM, "{spent:?} of {:?}", now - start);
    }

    #[test]
    fn debt_is_bounded_and_paid_back_before_the_next_work() {
        let start = Instant::now();
        let mut allowance = Allowance::new(start);
        allowance.spend(start, Duration::from_secs(100));
        let wait = allowance.wait(start);
        assert_eq!(wait, (DEBT_MAX + QUANTUM) * PART);
        assert_ne!(allowance.wait(start + wait - Duration::from_micros(100)), Duration::ZERO);
        assert_eq!(allowance.wait(start + wait), Duration::ZERO);
    }

    #[test]
    fn an_idle_allowance_saves_no_more_than_a_burst() {
        let start = Instant::now();
        let mut allowance = Allowance::new(start);
        let later = start + Duration::from_secs(3600);
        allowance.spend(later, BURST);
        assert_eq!(allowance.wait(later), QUANTUM * PART);
    }
}
