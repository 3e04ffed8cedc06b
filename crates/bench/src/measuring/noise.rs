//! The steadiness of this machine: the same piece of work, timed repeatedly between repetitions.

use super::Interval;
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// How long the piece of work takes at least.
const LENGTH: Duration = Duration::from_millis(5);

/// The minimum noise of any machine: smaller differences are not called different.
const NOISE_LEAST: f64 = 0.01;

/// Words that a turn of the work goes through: a quarter of a common second-level cache.
const WORDS: usize = 16 << 10;

/// The result of one calibration.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Seconds since the start of the run.
    pub at_seconds: f64,
    /// Turns of the work a second. Only their differences mean something.
    pub rate: f64,
}

/// The statistics of a run's calibrations.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Half of the range that the middle half of the calibrations spans, as a part of their median;
    /// at least 1 %.
    pub relative: f64,
    /// Calibrations that were made.
    pub calibrations: u32,
}

/// Runs the work once.
pub fn calibrate(since: Instant) -> Calibration {
    let mut words: Vec<u64> = (0..WORDS as u64).collect();
    let (start, mut turns) = (Instant::now(), 0u32);
    while start.elapsed() < LENGTH {
        let mut carried = u64::from(turns);
        for word in &mut words {
            carried = carried.rotate_left(7).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ *word;
            *word = carried;
        }
        black_box(&mut words);
        turns += 1;
    }
    let seconds = start.elapsed().as_secs_f64();
    Calibration { at_seconds: since.elapsed().as_secs_f64(), rate: f64::from(turns) / seconds }
}

impl Noise {
    /// Judges the calibrations of a run; `None` with fewer than three.
    pub fn of(calibrations: &[Calibration]) -> Option<Self> {
        let mut rates: Vec<f64> = calibrations.iter().map(|one| one.rate).collect();
        if rates.len() < 3 {
            return None;
        }
        rates.sort_by(f64::total_cmp);
        let skipped = rates.len() / 4;
        let (low, high) = (*rates.get(skipped)?, *rates.get(rates.len() - 1 - skipped)?);
        let median = Interval::of(rates)?.median;
        let calibrations = u32::try_from(calibrations.len()).unwrap_or(u32::MAX);
        Some(Self { relative: ((high - low) / 2.0 / median).max(NOISE_LEAST), calibrations })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_noise_is_half_of_the_range_of_the_middle_half() {
        let at = |rate| Calibration { at_seconds: 0.0, rate };
        let noise = Noise::of(&[at(95.0), at(100.0), at(105.0)]).unwrap();
        assert!((noise.relative - 0.05).abs() < 1e-9 && noise.calibrations == 3, "{noise:?}");
        // One in four at each end may stand out: a piece is so short that somebody else's turn
        // takes half of it.
        let mut many = vec![at(100.0); 30];
        many.extend([at(1.0); 10]);
        assert_eq!(Noise::of(&many).map(|noise| noise.relative), Some(NOISE_LEAST));
        assert_eq!(Noise::of(&[at(1.0); 2]), None);
    }

    #[test]
    fn a_calibration_counts_something() {
        assert!(calibrate(Instant::now()).rate > 1.0);
    }
}
