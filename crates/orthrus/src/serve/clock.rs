//! The server's clock: it goes on in the next process, so that times of the state stay right.

use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// A clock that began at a moment of CLOCK_MONOTONIC, which all processes share.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerClock {
    /// Nanoseconds of CLOCK_MONOTONIC at its start.
    began: u64,
}

impl ServerClock {
    /// Makes a clock that begins now.
    pub(super) fn start() -> Self {
        Self { began: nanoseconds() }
    }

    /// Continues the clock of another process.
    pub(super) fn continued(began: u64) -> Self {
        Self { began }
    }

    /// Returns when it began, in nanoseconds of CLOCK_MONOTONIC.
    pub(super) fn began(self) -> u64 {
        self.began
    }

    /// Returns the time since then.
    pub(super) fn now(self) -> Duration {
        Duration::from_nanos(nanoseconds().saturating_sub(self.began))
    }

    /// Returns when it began, if this process can express that.
    pub(super) fn instant(self) -> Option<Instant> {
        Instant::now().checked_sub(self.now())
    }
}

fn nanoseconds() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let (seconds, rest) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
    seconds.unwrap_or(0).saturating_mul(1_000_000_000).saturating_add(rest.unwrap_or(0))
}
