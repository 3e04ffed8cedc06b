//! Medians with the interval that order statistics give them: no assumption about the distribution,
//! outliers kept.

use serde::{Deserialize, Serialize};

/// The confidence that is aimed at.
const CONFIDENCE: f64 = 0.95;

/// A median, and between which values the true one is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The middle value; the mean of the two middle ones for an even number.
    pub median: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
    /// The confidence, 0 to 1. It is below 0.95 for fewer than six values; the ends are then the
    /// minimum and the maximum.
    pub confidence: f64,
    /// Values it was made of.
    pub values: u32,
}

impl Interval {
    /// Makes it of values; `None` without any, or when one is not finite.
    ///
    /// The k-th least and the k-th greatest of n values have the median between them with a
    /// probability of 1 - 2 P(X < k), X binomial with n and 1/2. The greatest k is taken that keeps
    /// it at 95 %.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        if sorted.is_empty() || sorted.iter().any(|value| !value.is_finite()) {
            return None;
        }
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
        let median = (at((count - 1) / 2) + at(count / 2)) / 2.0;
        let (skipped, confidence) = ends(count);
        Some(Self {
            median,
            low: at(skipped),
            high: at(count - 1 - skipped),
            confidence,
            values: u32::try_from(count).unwrap_or(u32::MAX),
        })
    }

    /// Half of the interval's width as a part of the median.
    pub fn relative(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.high - self.low) / 2.0 / self.median.abs() }
    }

    /// Returns whether the median differs from `value` at the confidence that is aimed at. Fewer
    /// than six values never show that.
    pub fn excludes(&self, value: f64) -> bool {
        self.is_confident() && !(self.low..=self.high).contains(&value)
    }

    /// Returns whether two medians differ at that confidence: the intervals do not meet.
    pub fn is_apart_from(&self, other: &Self) -> bool {
        let meet = self.low <= other.high && other.low <= self.high;
        self.is_confident() && other.is_confident() && !meet
    }

    /// Returns whether there are enough values for the confidence that is aimed at.
    pub fn is_confident(&self) -> bool {
        self.confidence >= CONFIDENCE
    }
}

/// Returns the number of values to drop at each end, and the confidence of the rest.
fn ends(count: usize) -> (usize, f64) {
    // P(X = 0) of a binomial; beyond a thousand values it is zero for this purpose.
    let mut term = 0.5f64.powi(i32::try_from(count.min(1000)).unwrap_or(1000));
    let mut below = term;
    let (mut skipped, mut confidence) = (0, (1.0 - 2.0 * below).max(0.0));
    for next in 1..=count / 2 {
        term *= (count - next + 1) as f64 / next as f64;
        below += term;
        if 1.0 - 2.0 * below < CONFIDENCE {
            break;
        }
        (skipped, confidence) = (next, 1.0 - 2.0 * below);
    }
    (skipped, confidence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_are_those_of_the_binomial_table() {
        // Tables of the sign test: n = 5: 93.75 %, 6: 96.9 %, 9: second values 96.1 %, 10: 97.9 %,
        // 20: sixth values 95.9 %.
        for (count, skipped, confidence) in [
            (1, 0, 0.0),
            (3, 0, 0.75),
            (5, 0, 0.9375),
            (6, 0, 0.96875),
            (9, 1, 0.9609),
            (10, 1, 0.9785),
            (20, 5, 0.9586),
        ] {
            let found = ends(count);
            assert!(found.0 == skipped && (found.1 - confidence).abs() < 1e-4, "{count}: {found:?}");
        }
    }

    #[test]
    fn an_outlier_is_kept_and_does_not_move_the_median() {
        let interval = Interval::of([10.0, 11.0, 12.0, 13.0, 500.0]).unwrap();
        assert_eq!((interval.median, interval.low, interval.high), (12.0, 10.0, 500.0));
        assert_eq!(Interval::of([1.0, 2.0]).map(|interval| interval.median), Some(1.5));
    }

    #[test]
    fn empty_and_infinite_samples_have_no_interval() {
        assert_eq!(Interval::of([]), None);
        assert_eq!(Interval::of([1.0, f64::INFINITY]), None);
    }
}
