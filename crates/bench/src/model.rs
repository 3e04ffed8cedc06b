//! The data of a run: what was planned, what was measured, and the figures drawn from it.

use crate::{Environment, Spread};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Version of the JSON form; a change that a reader must know about raises the number.
pub const SCHEMA: &str = "orthrus-bench/1";

/// A security flavor of the mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flavor {
    /// AUTH_SYS.
    Sys,
    /// Kerberos, identity only.
    Krb5,
    /// Kerberos with integrity.
    Krb5i,
    /// Kerberos with privacy.
    Krb5p,
}

impl Flavor {
    /// All four, in the order in which they are measured.
    pub const ALL: [Self; 4] = [Self::Sys, Self::Krb5, Self::Krb5i, Self::Krb5p];

    /// Returns the name as in `sec=`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sys => "sys",
            Self::Krb5 => "krb5",
            Self::Krb5i => "krb5i",
            Self::Krb5p => "krb5p",
        }
    }
}

impl std::str::FromStr for Flavor {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|flavor| flavor.name() == name);
        found.ok_or_else(|| "allowed are sys, krb5, krb5i and krb5p".to_owned())
    }
}

/// What a rate counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Megabytes (10^6) a second.
    #[serde(rename = "MB/s")]
    MegabytesPerSecond,
    /// Operations a second.
    #[serde(rename = "IOPS")]
    OperationsPerSecond,
}

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

/// What to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Flavors, `sys` among them if ratios are wanted.
    pub flavors: Vec<Flavor>,
    /// Workloads.
    pub workloads: Vec<Workload>,
    /// Repetitions of each pair; odd numbers have a real median.
    pub rounds: u32,
    /// Length of one repetition in seconds.
    pub seconds: f64,
    /// Bytes of the file that is read and written.
    pub file_size: u64,
    /// Connections of the session, as nconnect makes them.
    pub connections: u32,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            flavors: Flavor::ALL.to_vec(),
            workloads: Workload::ALL.to_vec(),
            rounds: 3,
            seconds: 1.0,
            file_size: 64 << 20,
            connections: 1,
        }
    }
}

impl Plan {
    /// Returns the length of one repetition.
    pub fn length(&self) -> Duration {
        Duration::try_from_secs_f64(self.seconds).unwrap_or(Duration::from_secs(1))
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

/// All repetitions of one workload with one flavor, and what they come to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The workload.
    pub workload: Workload,
    /// The flavor.
    pub flavor: Flavor,
    /// What [`Summary::rate`] counts.
    pub unit: Unit,
    /// The repetitions.
    pub measurements: Vec<Measurement>,
    /// The figures.
    pub summary: Summary,
}

/// The figures of a series.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Throughput or operations a second.
    pub rate: Spread,
    /// Rate as a part of that of `sys` in the same round; absent when `sys` was not measured.
    pub ratio_to_sys: Option<Spread>,
    /// Median latency in microseconds.
    pub p50_us: Spread,
    /// 99th percentile of latency in microseconds.
    pub p99_us: Spread,
    /// The client's processor time: microseconds an operation, or seconds a GB.
    pub client_cpu: Spread,
    /// The server's, where it is known.
    pub server_cpu: Option<Spread>,
}

impl Series {
    /// Summarises the repetitions of a workload; `sys` are those with `sys`. `None` without a repetition.
    pub fn new(
        workload: Workload,
        flavor: Flavor,
        measurements: Vec<Measurement>,
        sys: &[Measurement],
    ) -> Option<Self> {
        let unit = workload.unit();
        let each = |value: &dyn Fn(&Measurement) -> f64| Spread::of(measurements.iter().map(value));
        let ratios = measurements.iter().filter_map(|own| {
            let base = sys.iter().find(|base| base.round == own.round)?;
            Some(own.rate(unit) / base.rate(unit))
        });
        let server: Option<Vec<f64>> = measurements
            .iter()
            .map(|one| one.server_cpu_seconds.map(|seconds| one.per_work(unit, seconds)))
            .collect();
        let summary = Summary {
            rate: each(&|one| one.rate(unit))?,
            ratio_to_sys: Spread::of(ratios),
            p50_us: each(&|one| one.p50_us)?,
            p99_us: each(&|one| one.p99_us)?,
            client_cpu: each(&|one| one.per_work(unit, one.client_cpu_seconds))?,
            server_cpu: server.and_then(Spread::of),
        };
        Some(Self { workload, flavor, unit, measurements, summary })
    }
}

/// A flavor that could not be measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Which.
    pub flavor: Flavor,
    /// Why, as part of a sentence without its full stop.
    pub reason: String,
}

/// The outcome of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// Seconds since 1970 at the start.
    pub started_at: u64,
    /// The server that was measured, as the user named it.
    pub target: String,
    /// The command that repeats the run.
    pub command: String,
    /// What was planned.
    pub plan: Plan,
    /// Whether all of the plan was run; a run that was interrupted keeps what it has.
    pub complete: bool,
    /// What stopped it, when it is not complete.
    pub stopped_by: Option<String>,
    /// Flavors that were asked for and could not be measured.
    #[serde(default)]
    pub left_out: Vec<LeftOut>,
    /// The machine.
    pub environment: Environment,
    /// What was measured, in the order of workloads, then of flavors.
    pub series: Vec<Series>,
}

impl Report {
    /// Says whether a flavor was measured at all.
    pub fn has(&self, flavor: Flavor) -> bool {
        self.series.iter().any(|series| series.flavor == flavor)
    }

    /// Finds the series of a workload and flavor.
    pub fn series(&self, workload: Workload, flavor: Flavor) -> Option<&Series> {
        self.series.iter().find(|series| series.workload == workload && series.flavor == flavor)
    }
}
