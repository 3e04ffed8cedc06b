//! Latencies as they were counted: an HDR histogram with its counts, to be written to a file and
//! read again.

use anyhow::{Context as _, Result};
use hdrhistogram::Histogram as Hdr;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt::Write as _;
use std::time::Duration;

/// The maximum latency in nanoseconds; longer ones count as this one.
const LATENCY_MAX: u64 = 600_000_000_000;

/// Three significant digits while counting, which shows a microsecond in a thousand.
const DIGITS: u8 = 3;

/// Two significant digits in files: buckets of 0.8 % keep the files of a run small.
const STORED_DIGITS: u8 = 2;

/// Counts of latencies in nanoseconds, each known to 0.1 %; to 0.8 % after [`Histogram::stored`].
///
/// In JSON it is a text of `value:count` pairs in ascending order, separated by blanks; a value is
/// the largest of its bucket.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram(Hdr<u64>);

impl Default for Histogram {
    fn default() -> Self {
        Self::with(DIGITS)
    }
}

impl Histogram {
    fn with(digits: u8) -> Self {
        // The constructor accepts these bounds.
        Self(Hdr::new_with_bounds(1, LATENCY_MAX, digits).unwrap_or_else(|_| unreachable!("constant bounds")))
    }

    /// Returns the same counts in the wider buckets of files.
    pub fn stored(&self) -> Self {
        let mut stored = Self::with(STORED_DIGITS);
        for (value, count) in self.buckets() {
            stored.0.saturating_record_n(value, count);
        }
        stored
    }

    /// Adds the latency of one operation.
    pub fn count(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Counts so many latencies of so many nanoseconds each.
    pub fn count_many(&mut self, nanos: u64, count: u64) {
        self.0.saturating_record_n(nanos, count);
    }

    /// Adds the counts of another.
    pub fn add(&mut self, other: &Self) {
        // Both have the same bounds.
        let _ = self.0.add(&other.0);
    }

    /// Returns how many latencies were counted.
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Returns whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the latency that this part (0 to 1) of all does not exceed, in microseconds.
    pub fn quantile_us(&self, part: f64) -> f64 {
        self.0.value_at_quantile(part) as f64 / 1000.0
    }

    /// Returns the mean in microseconds.
    pub fn mean_us(&self) -> f64 {
        self.0.mean() / 1000.0
    }

    /// Returns the buckets that have counts: the largest value in nanoseconds, the count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value()))
    }

    fn parse(text: &str) -> Result<Self> {
        let mut made = Self::with(STORED_DIGITS);
        for pair in text.split_whitespace() {
            let (value, count) = pair.split_once(':').context("a histogram is value:count pairs")?;
            made.0.saturating_record_n(value.parse()?, count.parse()?);
        }
        Ok(made)
    }
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = String::new();
        for (value, count) in self.buckets() {
            let blank = if text.is_empty() { "" } else { " " };
            let _ = write!(text, "{blank}{value}:{count}");
        }
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(|error| D::Error::custom(format!("{error:#}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_survives_writing_and_reading() {
        let mut histogram = Histogram::default();
        for micros in [1, 3, 3, 90, 1000, 250_000, 4_000_000] {
            histogram.count(Duration::from_micros(micros));
        }
        let histogram = histogram.stored();
        let text = serde_json::to_string(&histogram).unwrap();
        let read: Histogram = serde_json::from_str(&text).unwrap();
        assert_eq!(read.buckets().collect::<Vec<_>>(), histogram.buckets().collect::<Vec<_>>());
        for part in [0.0, 0.5, 0.99, 1.0] {
            assert_eq!(read.quantile_us(part), histogram.quantile_us(part), "{part}");
        }
        assert!(serde_json::from_str::<Histogram>("\"5:x\"").is_err());
    }

    #[test]
    fn a_value_is_known_to_a_thousandth_and_in_files_to_a_hundredth() {
        for nanos in [100u64, 12_345, 999_999, 77_777_777] {
            let mut histogram = Histogram::default();
            histogram.count(Duration::from_nanos(nanos));
            for (kept, most) in [(&histogram, 0.001), (&histogram.stored(), 0.009)] {
                let error = kept.quantile_us(0.5) * 1000.0 / nanos as f64 - 1.0;
                assert!(error.abs() < most, "{nanos}: {error}");
            }
        }
    }
}
