//! The statistics of a case's samples, and their comparison with the baseline's.

use super::{Interval, Sample, StageTimes};
use crate::Unit;
use serde::{Deserialize, Serialize};

/// The figures of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Rate in the case's unit.
    pub rate: Interval,
    /// Median latency in microseconds.
    pub p50_us: Option<Interval>,
    /// 99th percentile of latency in microseconds.
    pub p99_us: Option<Interval>,
    /// The client's processor time: microseconds an operation, or seconds a GB (10^9).
    pub client_cpu: Option<Interval>,
    /// The server's, where it is known.
    pub server_cpu: Option<Interval>,
    /// Where the server's time went, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_stages: Option<StageTimes>,
    /// The comparison with the baseline; `None` for the baseline itself.
    pub against: Option<Comparison>,
}

/// The comparison of a variant with the baseline of its group, from repetitions that ran side by
/// side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Rate as a part of the baseline's.
    pub ratio: Interval,
    /// Median latency beyond the baseline's, in microseconds.
    pub added_us: Option<Interval>,
    /// The client's processor time beyond the baseline's, in the unit of [`Figures::client_cpu`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_client_cpu: Option<Interval>,
    /// The server's, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_server_cpu: Option<Interval>,
    /// The verdict on the rate.
    pub verdict: Verdict,
}

/// Whether two rates differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// All of the ratio's interval is below 1, and by more than the machine's noise.
    Lower,
    /// All of it is above 1, likewise.
    Higher,
    /// The interval does not hold 1, but the difference is below the machine's noise.
    BelowNoise,
    /// The interval holds 1, or is of fewer than six repetitions.
    Same,
}

impl Verdict {
    /// Derives the verdict from a ratio.
    pub fn of(ratio: &Interval, noise: f64) -> Self {
        if !ratio.excludes(1.0) {
            Self::Same
        } else if (ratio.median - 1.0).abs() <= noise {
            Self::BelowNoise
        } else if ratio.median < 1.0 {
            Self::Lower
        } else {
            Self::Higher
        }
    }

    /// Judges the second of two medians that did not run side by side: they differ when the
    /// intervals do not meet and the medians are further apart than the machines' noise. Fewer than
    /// six repetitions never show a difference.
    pub fn between(one: &Interval, other: &Interval, noise: f64) -> Self {
        let ratio = other.median / one.median;
        if !one.is_apart_from(other) {
            Self::Same
        } else if (ratio - 1.0).abs() <= noise {
            Self::BelowNoise
        } else if ratio > 1.0 {
            Self::Higher
        } else {
            Self::Lower
        }
    }

    /// Returns whether the rates differ.
    pub fn is_significant(self) -> bool {
        matches!(self, Self::Lower | Self::Higher)
    }

    /// Returns it as words of a table.
    pub fn words(self) -> &'static str {
        match self {
            Self::Lower => "lower",
            Self::Higher => "higher",
            Self::BelowNoise => "below the noise",
            Self::Same => "no difference shown",
        }
    }
}

impl Figures {
    /// Draws them from samples; `base` are the baseline's. `None` without a sample that counts.
    pub fn of(unit: Unit, samples: &[Sample], base: Option<&[Sample]>, noise: f64) -> Option<Self> {
        let counted: Vec<&Sample> = samples.iter().filter(|sample| !sample.warm_up).collect();
        let all = |value: &dyn Fn(&Sample) -> Option<f64>| {
            let values: Option<Vec<f64>> = counted.iter().map(|sample| value(sample)).collect();
            values.and_then(Interval::of)
        };
        Some(Self {
            rate: all(&|sample| Some(sample.rate(unit)))?,
            p50_us: all(&|sample| sample.p50_us()),
            p99_us: all(&|sample| sample.p99_us()),
            client_cpu: all(&|sample| sample.client_cost(unit)),
            server_cpu: all(&|sample| sample.server_cost(unit)),
            server_stages: StageTimes::of(&counted),
            against: base.and_then(|base| Comparison::of(unit, &counted, base, noise)),
        })
    }
}

impl Comparison {
    fn of(unit: Unit, own: &[&Sample], base: &[Sample], noise: f64) -> Option<Self> {
        let own = || own.iter().copied();
        let ratio = compare(own(), base, |own, base| Some(own.rate(unit) / base.rate(unit)))?;
        let added = |value: &dyn Fn(&Sample) -> Option<f64>| {
            compare(own(), base, |own, base| Some(value(own)? - value(base)?))
        };
        Some(Self {
            ratio,
            added_us: added(&|sample| sample.p50_us()),
            added_client_cpu: added(&|sample| sample.client_cost(unit)),
            added_server_cpu: added(&|sample| sample.server_cost(unit)),
            verdict: Verdict::of(&ratio, noise),
        })
    }
}

/// Computes a figure from each pair of samples with the same repetition, which were measured side
/// by side. `None` without pairs, or if a sample lacks the figure.
pub fn compare<'a>(
    own: impl IntoIterator<Item = &'a Sample>,
    base: &[Sample],
    figure: impl Fn(&Sample, &Sample) -> Option<f64>,
) -> Option<Interval> {
    let pairs = own.into_iter().filter_map(|own| {
        let same = |other: &&Sample| !other.warm_up && other.repetition == own.repetition;
        Some((own, base.iter().find(same)?))
    });
    let figures: Option<Vec<f64>> = pairs.map(|(own, base)| figure(own, base)).collect();
    figures.and_then(Interval::of)
}
