//! Histogram of the distances of calls to the highest sequence number of their context.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Buckets of the histogram: 0 for calls in order, then 1, 2 to 3, 4 to 7 and so on, up to the
/// largest window.
const BUCKETS: usize = rpc::SequenceWindow::SIZE_MAX.ilog2() as usize + 1;

/// Accepted calls by their distance to the highest sequence number before them.
///
/// A client with several connections reorders its own calls. A distance close to the window's size
/// would exceed a smaller window (RFC 2203 section 5.3.3.1).
#[derive(Debug, Default)]
pub struct Lags([AtomicU64; BUCKETS]);

/// The counts of one tick, added to [`Lags`] at once, so that threads contend for the counters once
/// a tick and not with every call.
#[derive(Debug, Default)]
pub(crate) struct TickLags([u64; BUCKETS]);

impl TickLags {
    /// Counts a call that is `lag` numbers behind.
    pub(crate) fn count(&mut self, lag: u32) {
        let bucket = lag.checked_ilog2().map_or(0, |log| log as usize + 1);
        if let Some(count) = self.0.get_mut(bucket.min(BUCKETS - 1)) {
            *count += 1;
        }
    }
}

impl Lags {
    /// Adds the counts of one tick.
    pub(crate) fn add(&self, tick: &TickLags) {
        for (total, count) in self.0.iter().zip(tick.0).filter(|(_, count)| *count > 0) {
            total.fetch_add(count, Relaxed);
        }
    }

    /// Returns the least lag of each bucket with its number of calls.
    pub fn snapshot(&self) -> [(u32, u64); BUCKETS] {
        let floor = |bucket: usize| if bucket == 0 { 0 } else { 1 << (bucket - 1) };
        std::array::from_fn(|bucket| {
            (floor(bucket), self.0.get(bucket).map_or(0, |count| count.load(Relaxed)))
        })
    }
}

/// The buckets up to the largest lag seen.
impl fmt::Display for Lags {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut counts = self.snapshot().to_vec();
        while counts.pop_if(|(_, count)| *count == 0).is_some() {}
        counts.iter().enumerate().try_for_each(|(at, (lag, count))| {
            let gap = if at == 0 { "" } else { " " };
            write!(out, "{gap}lag_{lag}={count}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lags_are_counted_by_powers_of_two() {
        let (lags, mut tick) = (Lags::default(), TickLags::default());
        assert_eq!(lags.to_string(), "");
        let bounds = |lags: &Lags| lags.snapshot().map(|(least, _)| least);
        let at_first = bounds(&lags);
        [0, 0, 1, 2, 3, 4, 7, 8, 9].into_iter().for_each(|lag| tick.count(lag));
        lags.add(&tick);
        lags.add(&TickLags::default());
        assert_eq!(lags.to_string(), "lag_0=2 lag_1=1 lag_2=2 lag_4=2 lag_8=2");
        tick.count(u32::MAX);
        lags.add(&tick);
        assert_eq!(lags.snapshot().last(), Some(&(1 << 19, 1)));
        assert_eq!(bounds(&lags), at_first);
    }
}
