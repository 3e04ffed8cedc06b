//! Rate limit of log lines that peers can cause at will: one line a second of each kind, with the
//! number of suppressed lines.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The least time between two lines of a kind.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// A limit on log lines of one kind, for the whole server: a peer that can cause one can cause
/// millions.
#[derive(Debug, Default)]
pub struct LogLimit {
    /// The end of the quiet period, in milliseconds of the clock.
    quiet_until: AtomicU64,
    suppressed: AtomicU64,
}

impl LogLimit {
    /// Asks for permission to log. `Some` permits it, with the number of lines suppressed since the
    /// last.
    pub fn permit(&self, now: Duration) -> Option<u64> {
        let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let quiet_until = self.quiet_until.load(Relaxed);
        let next = now_ms.saturating_add(LOG_INTERVAL.as_millis() as u64);
        let won = now_ms >= quiet_until
            && self.quiet_until.compare_exchange(quiet_until, next, Relaxed, Relaxed).is_ok();
        if won {
            Some(self.suppressed.swap(0, Relaxed))
        } else {
            self.suppressed.fetch_add(1, Relaxed);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_of_trouble_is_logged_once_a_second_and_the_rest_is_counted() {
        let limit = LogLimit::default();
        let at = Duration::from_millis;
        assert_eq!(limit.permit(at(10)), Some(0));
        assert_eq!(limit.permit(at(20)), None);
        assert_eq!(limit.permit(at(1009)), None);
        assert_eq!(limit.permit(at(1010)), Some(2));
    }
}
