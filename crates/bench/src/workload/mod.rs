//! One repetition of each workload.

mod data;
#[cfg(test)]
pub(crate) mod fake;
pub mod git;
mod metadata;
mod open_loop;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;

pub use data::Shape;

use crate::measuring::Histogram;
use crate::pattern::Pattern;
use crate::{Endpoint, Measurement, Workload, cpu};

/// Requests in flight of the sequential workloads: enough to keep both ends busy.
const SEQUENTIAL_DEPTH: usize = 8;
const SEQUENTIAL_SIZE: usize = 1 << 20;
const RANDOM_DEPTH: usize = 64;
const RANDOM_SIZE: usize = 4096;

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
#[derive(Debug, Default)]
pub struct Tally {
    /// Operations that completed.
    pub operations: u64,
    /// Bytes of file data that they moved.
    pub bytes: u64,
    /// Operations that were due and had not begun at the end.
    pub unserved: u64,
    /// How long they took.
    pub latencies: Histogram,
}

impl Tally {
    fn count(&mut self, bytes: usize, latency: Duration) {
        self.operations += 1;
        self.bytes += bytes as u64;
        self.latencies.count(latency);
    }

    /// Adds what another client did.
    pub fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.unserved += other.unserved;
        self.latencies.add(&other.latencies);
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

/// Makes requests of a shape until the time is over, and counts them: with a rate on a fixed schedule of so many a second
/// ([`open_loop`]), else each as soon as one has finished.
///
/// # Errors
/// As [`repeat`].
pub fn load(
    shape: Shape,
    rate: Option<f64>,
    endpoint: &mut dyn Endpoint,
    conditions: &Conditions<'_>,
    tally: &mut Tally,
) -> Result<()> {
    match rate {
        Some(rate) => open_loop::run(shape, rate, endpoint, conditions, tally),
        None => data::run(shape, endpoint, conditions, tally, Instant::now()),
    }
}

/// Makes small files, looks at them, renames, lists and removes them, one operation after the other, until the time is over;
/// the last turn runs to its end.
///
/// # Errors
/// The server's, and a listing that lacks files.
pub fn metadata(endpoint: &mut dyn Endpoint, conditions: &Conditions<'_>, tally: &mut Tally) -> Result<()> {
    metadata::run(endpoint, conditions, tally, Instant::now())
}

fn measure(
    round: u32,
    conditions: &Conditions<'_>,
    run: impl FnOnce(&mut Tally, Instant) -> Result<()>,
) -> Result<Option<Measurement>> {
    let mut tally = Tally::default();
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
        p50_us: tally.latencies.quantile_us(0.5),
        p99_us: tally.latencies.quantile_us(0.99),
        client_cpu_seconds: client.as_secs_f64(),
        server_cpu_seconds: server.map(|time| time.as_secs_f64()),
    }))
}
