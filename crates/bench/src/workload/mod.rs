//! Loads on an endpoint, and the measurement of one repetition.

mod arrivals;
mod data;
#[cfg(test)]
pub(crate) mod fake;
pub mod git;
mod in_flight;
mod metadata;
mod open_loop;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

pub use arrivals::{Arrivals, SharedRate};
pub use data::{TransferShape, fill};
pub use metadata::metadata;

use crate::measuring::{Histogram, Latencies, Sample};
use crate::pattern::Pattern;
use crate::{CpuUse, CpuWatch, Endpoint, ServerProbe};

/// The parameters of a repetition besides its endpoint.
#[derive(Clone, Copy)]
pub struct Conditions<'a> {
    /// Bytes of the file.
    pub file_size: u64,
    /// The contents of the file.
    pub pattern: Pattern,
    /// How long to go on.
    pub length: Duration,
    /// Ends the repetition early.
    pub stop: &'a AtomicBool,
}

impl Conditions<'_> {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// The counts of a repetition.
#[derive(Debug, Default)]
pub struct LoadTally {
    /// Number of completed operations.
    pub operations: u64,
    /// Bytes of file data that they moved.
    pub bytes: u64,
    /// Operations that were due and had not begun at the end.
    pub unserved: u64,
    /// How long they took.
    pub latencies: Histogram,
}

impl LoadTally {
    fn count(&mut self, bytes: usize, latency: Duration) {
        self.operations += 1;
        self.bytes += bytes as u64;
        self.latencies.count(latency);
    }

    /// Returns the sample of these counts, which took `seconds`; `None` if nothing was completed.
    pub(crate) fn sample(self, seconds: f64, used: &CpuUse) -> Option<Sample> {
        let Self { operations, bytes, unserved, latencies } = self;
        let latency = Latencies::of(latencies).filter(|_| operations > 0)?;
        Some(Sample { operations, bytes, seconds, unserved, latency: Some(latency), ..used.sample() })
    }

    /// Adds the counts of another client.
    pub fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.unserved += other.unserved;
        self.latencies.add(&other.latencies);
    }
}

/// Makes requests of a shape until the time is over, and counts them: with a rate on a fixed
/// schedule ([`open_loop`]), otherwise each as soon as one has finished.
///
/// # Errors
/// The server's error, and data that differs from the written data.
pub fn load(
    shape: TransferShape,
    rate: Option<SharedRate>,
    endpoint: &mut dyn Endpoint,
    conditions: &Conditions<'_>,
    tally: &mut LoadTally,
) -> Result<()> {
    match rate {
        Some(rate) => open_loop::run(shape, rate, endpoint, conditions, tally),
        None => data::run(shape, endpoint, conditions, tally),
    }
}

/// Runs `work` on a thread for each item, all at once; returns the results in the items' order. A
/// panic of a thread is an error in its place.
pub fn together<I: Send, T: Send>(
    items: impl IntoIterator<Item = I>,
    work: impl Fn(usize, I) -> Result<T> + Sync,
) -> Vec<Result<T>> {
    let work = &work;
    std::thread::scope(|scope| {
        let items = items.into_iter().enumerate();
        let threads: Vec<_> = items.map(|(index, item)| scope.spawn(move || work(index, item))).collect();
        let panicked = |_| Err(anyhow!("a client has ended in a panic"));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
    })
}

/// Times one repetition and its processor time at both ends, at the server for `variant`; `run`
/// counts its work. `None` when it was stopped before its time, or before any operation finished.
///
/// # Errors
/// The errors of `run`.
pub fn measure(
    stop: &AtomicBool,
    server: &ServerProbe,
    variant: &str,
    run: impl FnOnce(&mut LoadTally) -> Result<()>,
) -> Result<Option<Sample>> {
    let mut tally = LoadTally::default();
    let (cpu, start) = (CpuWatch::of_process(server), Instant::now());
    run(&mut tally)?;
    let (seconds, used) = (start.elapsed().as_secs_f64(), cpu.since(variant));
    Ok(if stop.load(Ordering::Relaxed) { None } else { tally.sample(seconds, &used) })
}
