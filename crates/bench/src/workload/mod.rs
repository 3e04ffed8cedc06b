//! One repetition of each workload.

mod data;
#[cfg(test)]
pub(crate) mod fake;
mod metadata;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use hdrhistogram::Histogram;

pub use data::Shape;

use crate::pattern::Pattern;
use crate::{Endpoint, Measurement, Workload, cpu};

/// Requests in flight of the sequential workloads: enough to keep both ends busy.
const SEQUENTIAL_DEPTH: usize = 8;
const SEQUENTIAL_SIZE: usize = 1 << 20;
const RANDOM_DEPTH: usize = 64;
const RANDOM_SIZE: usize = 4096;
/// The longest latency that is told apart, in nanoseconds.
const LATENCY_MAX: u64 = 120_000_000_000;

/// What a repetition needs besides its endpoint.
#[derive(Clone, Copy)]
pub struct Conditions<'a> {
    /// Bytes of the file.
    pub file_size: u64,
    /// What the file holds.
    pub pattern: Pattern,
    /// How long to go on.
    pub length: Duration,
    /// Ends the repetition early.
    pub stop: &'a AtomicBool,
    /// Processor time of the server so far, if it can be known.
    pub server_cpu: &'a dyn Fn() -> Option<Duration>,
}

impl Conditions<'_> {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Counts what a repetition does.
struct Tally {
    operations: u64,
    bytes: u64,
    latencies: Histogram<u64>,
}

impl Tally {
    fn new() -> Result<Self> {
        let latencies = Histogram::new_with_bounds(1, LATENCY_MAX, 3)?;
        Ok(Self { operations: 0, bytes: 0, latencies })
    }

    fn count(&mut self, bytes: usize, latency: Duration) {
        self.operations += 1;
        self.bytes += bytes as u64;
        self.latencies.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    fn quantile_us(&self, quantile: f64) -> f64 {
        self.latencies.value_at_quantile(quantile) as f64 / 1000.0
    }
}

/// Fills the file with its pattern, for reads to find.
///
/// # Errors
/// The server's.
pub fn fill(endpoint: &mut dyn Endpoint, conditions: &Conditions<'_>) -> Result<()> {
    data::fill(endpoint, conditions)
}

/// Runs one repetition. `None` when it was stopped before its time, or before anything finished.
///
/// # Errors
/// The server's, and data that is not what was written.
pub fn repeat(
    workload: Workload,
    round: u32,
    endpoint: &mut dyn Endpoint,
    conditions: &Conditions<'_>,
) -> Result<Option<Measurement>> {
    match Shape::of(workload) {
        Some(shape) => transfer(shape, round, endpoint, conditions),
        None => measure(round, conditions, |tally, start| metadata::run(endpoint, conditions, tally, start)),
    }
}

/// Runs one repetition of reads or writes, as deep and as large as the session allows; see [`repeat`].
///
/// # Errors
/// As [`repeat`].
pub fn transfer(
    shape: Shape,
    round: u32,
    endpoint: &mut dyn Endpoint,
    conditions: &Conditions<'_>,
) -> Result<Option<Measurement>> {
    measure(round, conditions, |tally, start| data::run(shape, endpoint, conditions, tally, start))
}

fn measure(
    round: u32,
    conditions: &Conditions<'_>,
    run: impl FnOnce(&mut Tally, Instant) -> Result<()>,
) -> Result<Option<Measurement>> {
    let mut tally = Tally::new()?;
    let (server, client, start) = ((conditions.server_cpu)(), cpu::of_this_process(), Instant::now());
    run(&mut tally, start)?;
    let seconds = start.elapsed().as_secs_f64();
    let client = cpu::of_this_process().saturating_sub(client);
    let server = server.zip((conditions.server_cpu)()).map(|(from, to)| to.saturating_sub(from));
    if conditions.stopped() || tally.operations == 0 {
        return Ok(None);
    }
    Ok(Some(Measurement {
        round,
        operations: tally.operations,
        bytes: tally.bytes,
        seconds,
        p50_us: tally.quantile_us(0.5),
        p99_us: tally.quantile_us(0.99),
        client_cpu_seconds: client.as_secs_f64(),
        server_cpu_seconds: server.map(|time| time.as_secs_f64()),
    }))
}
