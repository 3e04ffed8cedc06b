//! What a repetition came to.

use crate::Unit;
use serde::{Deserialize, Serialize};

/// A workload of `bench quick`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// 1 MiB reads, one after the other through a file, several in flight.
    SequentialRead,
    /// 1 MiB writes, likewise.
    SequentialWrite,
    /// 4 KiB reads at random places, one at a time.
    RandomReadDepth1,
    /// 4 KiB writes at random places, one at a time.
    RandomWriteDepth1,
    /// 4 KiB reads at random places, 64 in flight.
    RandomReadDepth64,
    /// 4 KiB writes at random places, 64 in flight.
    RandomWriteDepth64,
    /// Create, stat, rename, list and remove small files.
    Metadata,
}

impl Workload {
    /// All, in the order of the report.
    pub const ALL: [Self; 7] = [
        Self::SequentialRead,
        Self::SequentialWrite,
        Self::RandomReadDepth64,
        Self::RandomWriteDepth64,
        Self::RandomReadDepth1,
        Self::RandomWriteDepth1,
        Self::Metadata,
    ];

    /// Returns the name in the report.
    pub fn title(self) -> &'static str {
        match self {
            Self::SequentialRead => "Sequential read, 1 MiB",
            Self::SequentialWrite => "Sequential write, 1 MiB",
            Self::RandomReadDepth1 => "Random read, 4 KiB, one at a time",
            Self::RandomWriteDepth1 => "Random write, 4 KiB, one at a time",
            Self::RandomReadDepth64 => "Random read, 4 KiB, 64 in flight",
            Self::RandomWriteDepth64 => "Random write, 4 KiB, 64 in flight",
            Self::Metadata => "Metadata mix",
        }
    }

    /// Returns what its rate counts.
    pub fn unit(self) -> Unit {
        match self {
            Self::SequentialRead | Self::SequentialWrite => Unit::MegabytesPerSecond,
            _ => Unit::OperationsPerSecond,
        }
    }
}

/// One repetition of one workload with one flavor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Which interleaved round it was part of, from 0.
    pub round: u32,
    /// Operations that completed.
    pub operations: u64,
    /// Bytes of file data that they moved.
    pub bytes: u64,
    /// How long it took.
    pub seconds: f64,
    /// Median latency in microseconds.
    pub p50_us: f64,
    /// 99th percentile of latency in microseconds.
    pub p99_us: f64,
    /// Processor time of the client in seconds.
    pub client_cpu_seconds: f64,
    /// Processor time of the server in seconds, where it can be known.
    pub server_cpu_seconds: Option<f64>,
}

impl Measurement {
    /// Returns the rate in the workload's unit.
    pub fn rate(&self, unit: Unit) -> f64 {
        match unit {
            Unit::MegabytesPerSecond => self.bytes as f64 / 1e6 / self.seconds,
            Unit::OperationsPerSecond => self.operations as f64 / self.seconds,
        }
    }

    /// Returns processor time per unit of work: seconds a GB (10^9), or microseconds an operation.
    pub fn per_work(&self, unit: Unit, cpu_seconds: f64) -> f64 {
        match unit {
            Unit::MegabytesPerSecond => cpu_seconds / (self.bytes as f64 / 1e9),
            Unit::OperationsPerSecond => cpu_seconds * 1e6 / self.operations as f64,
        }
    }
}
