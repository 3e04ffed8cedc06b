//! A bound on a rate: a token bucket that any thread can charge without a lock.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The time whose amount may be used at once after a pause.
pub(super) const BURST: Duration = Duration::from_secs(1);

/// The longest time for which a connection is paused. It is far below the lease and the timeouts of
/// clients, so that an amount above the limit delays them and nothing else.
pub const PAUSE_TIME_MAX: Duration = Duration::from_secs(5);

/// The longest time for which an amount beyond the limit is remembered, so that no amount pauses a
/// client for ever.
const DEBT_MAX: Duration = Duration::from_secs(60);

/// A bucket that is charged after the fact, by the generic cell rate algorithm: it keeps the time
/// at which all that was charged would be paid for.
#[derive(Debug, Default)]
pub(super) struct RateBucket {
    /// The amount for each second; 0 for no limit.
    rate: AtomicU64,
    /// The time at which the bucket is full again, in nanoseconds of the server's clock.
    full_at: AtomicU64,
}

impl RateBucket {
    /// Sets the amount for each second; 0 for no limit.
    pub(super) fn set_rate(&self, rate: u64) {
        if self.rate.swap(rate, Relaxed) != rate {
            self.full_at.store(0, Relaxed);
        }
    }

    /// Returns the amount for each second; 0 for no limit.
    pub(super) fn rate(&self) -> u64 {
        self.rate.load(Relaxed)
    }

    /// Returns the time in which the bucket gains an amount; zero without a limit.
    pub(super) fn price(&self, amount: u64) -> Duration {
        let price = (u128::from(amount) * 1_000_000_000).checked_div(u128::from(self.rate()));
        Duration::from_nanos(price.map_or(0, |price| u64::try_from(price).unwrap_or(u64::MAX)))
    }

    /// Charges an amount. Returns how long its client must wait before its next call; zero within
    /// the limit.
    pub(super) fn charge(&self, amount: u64, now: Duration) -> Duration {
        let rate = self.rate();
        if rate == 0 {
            return Duration::ZERO;
        }
        let (now, cost) = (nanoseconds(now), nanoseconds(self.price(amount)));
        let latest = now.saturating_add(nanoseconds(BURST + DEBT_MAX));
        let charged = |full_at: u64| full_at.max(now).saturating_add(cost).min(latest);
        let before = self.full_at.fetch_update(Relaxed, Relaxed, |full_at| Some(charged(full_at)));
        let full_at = charged(before.unwrap_or_else(|before| before));
        let wait = full_at.saturating_sub(now).saturating_sub(nanoseconds(BURST));
        Duration::from_nanos(wait).min(PAUSE_TIME_MAX)
    }

    /// Returns whether nothing is left to pay for.
    pub(super) fn is_full(&self, now: Duration) -> bool {
        self.full_at.load(Relaxed) <= nanoseconds(now)
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(100);

    #[test]
    fn an_amount_below_the_rate_never_waits_and_a_burst_of_a_second_is_free() {
        let bucket = RateBucket::default();
        assert_eq!(bucket.charge(u64::MAX, START), Duration::ZERO, "no limit");
        bucket.set_rate(1000);
        assert_eq!(bucket.charge(1000, START), Duration::ZERO);
        for step in 1..1000 {
            let now = START + Duration::from_millis(step);
            assert_eq!(bucket.charge(1, now), Duration::ZERO, "{step}");
        }
    }

    #[test]
    fn a_client_that_waits_for_the_returned_time_gets_its_rate() {
        let bucket = RateBucket::default();
        bucket.set_rate(1000);
        let (mut now, mut calls) = (START, 0);
        while now < START + Duration::from_secs(11) {
            now += bucket.charge(10, now) + Duration::from_micros(10);
            calls += 10;
        }
        assert!((11_900..=12_100).contains(&calls), "11 seconds and a burst: {calls}");
    }

    #[test]
    fn clients_that_share_a_bucket_share_its_rate() {
        let bucket = RateBucket::default();
        bucket.set_rate(100);
        let mut clients = [START; 50];
        let mut calls = 0;
        for now in (0..20_000).map(|step| START + Duration::from_millis(step)) {
            for until in clients.iter_mut().filter(|until| **until <= now) {
                *until = now + bucket.charge(1, now);
                calls += 1;
            }
        }
        assert!((2000..=2200).contains(&calls), "20 seconds and a burst: {calls}");
    }

    #[test]
    fn a_pause_is_bounded_whatever_was_charged() {
        let bucket = RateBucket::default();
        bucket.set_rate(1);
        assert_eq!(bucket.charge(u64::MAX, START), PAUSE_TIME_MAX);
        assert_eq!(bucket.charge(u64::MAX, START), PAUSE_TIME_MAX);
        assert!(!bucket.is_full(START + DEBT_MAX));
        assert!(bucket.is_full(START + DEBT_MAX + BURST));
    }
}
