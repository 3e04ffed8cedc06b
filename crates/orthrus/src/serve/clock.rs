//! The server's clock: it goes on in the next process, so that times of the state stay right. It
//! rests while the process is halted.
//!
//! While a process is stopped, frozen in a container or part of a paused virtual machine, its
//! clients cannot renew their leases, but CLOCK_MONOTONIC goes on. Their requests wait in the
//! sockets, and it would be chance whether the server finds a renewal first or a conflict.

use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Nanoseconds without a look at the clock after which the process was halted. Each shard and
/// housekeeping look every second.
const HALT_MIN: u64 = 5_000_000_000;
/// Nanoseconds after which a look is noted.
const NOTE_INTERVAL: u64 = 100_000_000;

/// A clock that began at a moment of CLOCK_MONOTONIC, which all processes share. Copies are one
/// clock.
#[derive(Clone, Debug)]
pub(super) struct ServerClock(Arc<ClockState>);

#[derive(Debug)]
struct ClockState {
    /// Nanoseconds of CLOCK_MONOTONIC at its start, later by all halts.
    began: AtomicU64,
    /// The last look of a thread that serves; 0 before the first one.
    seen: AtomicU64,
    /// Held while a halt is taken out.
    resting: Mutex<()>,
    rests: bool,
}

impl ServerClock {
    /// Makes a clock that begins now. One that does not rest counts halts, too.
    pub(super) fn start(rests: bool) -> Self {
        Self::new(nanoseconds(), rests)
    }

    /// Continues the clock of another process.
    pub(super) fn continued(began: u64) -> Self {
        Self::new(began, true)
    }

    fn new(began: u64, rests: bool) -> Self {
        let (began, seen) = (AtomicU64::new(began), AtomicU64::new(0));
        Self(Arc::new(ClockState { began, seen, resting: Mutex::default(), rests }))
    }

    /// Returns when it began, in nanoseconds of CLOCK_MONOTONIC.
    pub(super) fn began(&self) -> u64 {
        self.0.began.load(Acquire)
    }

    /// Returns the time since then, for a thread that serves. Without such looks the process is
    /// halted.
    pub(super) fn now(&self) -> Duration {
        self.look(nanoseconds)
    }

    /// Returns the time since then, for others.
    pub(super) fn peek(&self) -> Duration {
        since(self.began(), nanoseconds())
    }

    /// Looks at the clock. Looks again if a halt was taken out meanwhile: the process may have been
    /// halted between the lines.
    fn look(&self, clock: impl Fn() -> u64) -> Duration {
        loop {
            let (began, moment) = (self.began(), clock());
            self.note(moment);
            if began == self.began() {
                return since(began, moment);
            }
        }
    }

    /// Notes a look, and takes out a halt before it.
    fn note(&self, moment: u64) {
        let seen = self.0.seen.load(Acquire);
        match moment.saturating_sub(seen) {
            ..NOTE_INTERVAL => {}
            rest if rest < HALT_MIN || seen == 0 || !self.0.rests => {
                self.0.seen.fetch_max(moment, Relaxed);
            }
            _ => self.take_out(moment),
        }
    }

    /// Takes out the halt that ends now. All threads go on at once, and only one of them does it.
    fn take_out(&self, moment: u64) {
        let _resting = self.0.resting.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = self.0.seen.load(Relaxed);
        if moment.saturating_sub(seen) < HALT_MIN {
            return;
        }
        let rest = moment - seen;
        self.0.began.fetch_add(rest, Release);
        // Behind `began`: a thread that sees this one sees the new start.
        self.0.seen.store(moment, Release);
        let seconds = rest / 1_000_000_000;
        tracing::warn!(
            "the process was halted for {seconds} s, which do not count for the leases of clients"
        );
    }
}

fn since(began: u64, moment: u64) -> Duration {
    Duration::from_nanos(moment.saturating_sub(began))
}

fn nanoseconds() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let (seconds, rest) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
    seconds.unwrap_or(0).saturating_mul(1_000_000_000).saturating_add(rest.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const SECOND: u64 = 1_000_000_000;

    /// Looks at a clock that began at second 100.
    fn seconds(clock: &ServerClock, at: u64) -> u64 {
        clock.look(|| (100 + at) * SECOND).as_secs()
    }

    #[test]
    fn the_time_of_a_halt_does_not_count() {
        let clock = ServerClock::new(100 * SECOND, true);
        assert_eq!([0, 1, 4, 8].map(|at| seconds(&clock, at)), [0, 1, 4, 8]);
        // Nothing ran for an hour.
        assert_eq!([3608, 3608, 3609, 3612].map(|at| seconds(&clock, at)), [8, 8, 9, 12]);
        assert_eq!([3617, 3618].map(|at| seconds(&clock, at)), [12, 13], "another one");
        assert_eq!(clock.began(), 3705 * SECOND, "the next process goes on with it");
        assert_eq!(seconds(&ServerClock::continued(clock.began()), 3620), 15);
    }

    #[test]
    fn threads_that_go_on_at_once_take_a_halt_out_once() {
        let clock = ServerClock::new(100 * SECOND, true);
        seconds(&clock, 10);
        let look = || std::iter::repeat_with(|| seconds(&clock, 1000)).take(100).all(|at| at == 10);
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(look)).collect();
            assert!(threads.into_iter().all(|thread| thread.join().expect("no panic")));
        });
    }

    #[test]
    fn a_thread_that_was_halted_after_its_look_looks_again() {
        let clock = ServerClock::new(100 * SECOND, true);
        seconds(&clock, 8);
        let times = Cell::new(0);
        let halted = clock.look(|| {
            // Another thread takes out the halt that comes behind the first look.
            if times.replace(times.get() + 1) == 0 {
                seconds(&clock, 3608);
                return 108 * SECOND;
            }
            3709 * SECOND
        });
        assert_eq!((halted.as_secs(), times.get()), (9, 2));
    }

    #[test]
    fn a_member_of_a_cluster_counts_the_time_in_which_others_missed_it() {
        let clock = ServerClock::new(100 * SECOND, false);
        assert_eq!([1, 3600].map(|at| seconds(&clock, at)), [1, 3600]);
    }
}
