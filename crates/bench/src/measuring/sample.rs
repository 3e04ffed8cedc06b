//! One repetition of one case.

use super::{Histogram, Stages};
use crate::Unit;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The result of one repetition. The record keeps all of them, including warm-ups and outliers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Number of the repetition, from 0; samples of all variants with the same number were measured
    /// one after the other.
    pub repetition: u32,
    /// Whether it only warms up and is not part of any figure.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub warm_up: bool,
    /// Number of completed operations.
    pub operations: u64,
    /// Bytes of file data that they moved.
    pub bytes: u64,
    /// How long it took.
    pub seconds: f64,
    /// Operations a second that were asked for, with a fixed schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered: Option<f64>,
    /// Operations that were due and had not begun at the end, with a fixed schedule; each counts in
    /// the latencies with the time that it had waited until then.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unserved: u64,
    /// How long operations took.
    #[serde(default)]
    pub latency: Option<Latencies>,
    /// Processor time of the client in seconds.
    #[serde(default)]
    pub client_cpu_seconds: Option<f64>,
    /// Processor time of the server in seconds; none where it cannot be known.
    #[serde(default)]
    pub server_cpu_seconds: Option<f64>,
    /// Processor time of the client's machine that anything used, client and server among it; none
    /// where the client's own cannot be told from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_cpu_seconds: Option<f64>,
    /// Where the server's time went for the requests of this variant's flavor, if it tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_stages: Option<Stages>,
    /// Further counters, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, u64>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// How long operations took, in microseconds; with a fixed schedule from when they were due.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// Mean latency in microseconds.
    pub mean_us: f64,
    /// Median latency in microseconds.
    pub p50_us: f64,
    /// 90th percentile in microseconds.
    pub p90_us: f64,
    /// 99th percentile in microseconds.
    pub p99_us: f64,
    /// 99.9th percentile in microseconds.
    pub p999_us: f64,
    /// Maximum latency in microseconds.
    pub max_us: f64,
    /// The distribution of all latencies.
    pub histogram: Histogram,
}

impl Latencies {
    /// Draws the figures from a histogram; `None` from an empty one.
    pub fn of(histogram: Histogram) -> Option<Self> {
        if histogram.is_empty() {
            return None;
        }
        let at = |part| histogram.quantile_us(part);
        Some(Self {
            mean_us: histogram.mean_us(),
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: at(1.0),
            histogram: histogram.stored(),
        })
    }
}

impl Sample {
    /// Returns the rate in this unit.
    pub fn rate(&self, unit: Unit) -> f64 {
        match unit {
            Unit::MegabytesPerSecond => self.bytes as f64 / 1e6 / self.seconds,
            Unit::OperationsPerSecond => self.operations as f64 / self.seconds,
        }
    }

    /// Returns processor time for a unit of work: seconds a GB (10^9), or microseconds an
    /// operation.
    pub fn per_work(&self, unit: Unit, cpu_seconds: f64) -> f64 {
        match unit {
            Unit::MegabytesPerSecond => cpu_seconds / (self.bytes as f64 / 1e9),
            Unit::OperationsPerSecond => cpu_seconds * 1e6 / self.operations as f64,
        }
    }

    /// Returns the client's processor time for a unit of work; `None` where it cannot be known.
    pub fn client_cost(&self, unit: Unit) -> Option<f64> {
        Some(self.per_work(unit, self.client_cpu_seconds?))
    }

    /// Returns the server's processor time for a unit of work; `None` where it cannot be known.
    pub fn server_cost(&self, unit: Unit) -> Option<f64> {
        Some(self.per_work(unit, self.server_cpu_seconds?))
    }

    /// Returns the median latency in microseconds.
    pub fn p50_us(&self) -> Option<f64> {
        Some(self.latency.as_ref()?.p50_us)
    }

    /// Returns the 99th percentile of latency in microseconds.
    pub fn p99_us(&self) -> Option<f64> {
        Some(self.latency.as_ref()?.p99_us)
    }

    /// Returns the part of one processor that the time is, 1 for one whole core.
    pub fn busy(&self, cpu_seconds: f64) -> f64 {
        cpu_seconds / self.seconds
    }
}
