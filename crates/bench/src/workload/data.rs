//! Reads and writes of one file, several in flight, each made as soon as one has finished.

use std::time::Instant;

use anyhow::{Result, ensure};

use super::in_flight::InFlight;
use super::{Conditions, LoadTally};
use crate::Endpoint;

/// Requests in flight while a file is filled, and their size.
const FILL_DEPTH: usize = 8;
const FILL_SIZE: usize = 1 << 20;

/// Requests of at most this size are not cut, whatever a server offers.
const SIZE_MIN: usize = 4096;

/// The order of reads or writes in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferShape {
    /// Percentage of the requests that write.
    pub writes: u32,
    /// Whether places are drawn at random, or follow each other.
    pub random: bool,
    /// Number of requests in flight.
    pub depth: usize,
    /// Bytes of a request.
    pub size: usize,
}

impl TransferShape {
    /// Whether any of its requests write.
    pub const fn writes_at_all(self) -> bool {
        self.writes > 0
    }

    /// Returns the bytes of one READ or WRITE: a mount, too, cuts a larger request into pieces of
    /// the size that server and session allow.
    pub(super) fn piece_size(self, endpoint: &dyn Endpoint) -> usize {
        let read_max = if self.writes < 100 { endpoint.read_size_max() } else { usize::MAX };
        let write_max = if self.writes_at_all() { endpoint.write_size_max() } else { usize::MAX };
        power_of_two(self.size.min(read_max.min(write_max).max(SIZE_MIN)))
    }

    /// Returns the shape for a file: sizes become powers of two, so that a file of whole MiB is a
    /// whole number of requests, and no request is larger than the file.
    pub(super) fn fitted(self, file_size: u64) -> Self {
        let file_size = usize::try_from(file_size).unwrap_or(usize::MAX);
        let size = power_of_two(self.size.min(file_size));
        Self { size, depth: self.depth.max(1), ..self }
    }

    /// The same places for every repetition and every flavor, others for another kind of load.
    pub(super) fn seed(self) -> u64 {
        u64::from(self.writes) << 32 | self.depth as u64
    }
}

/// Returns the largest power of two that is at most `size`.
fn power_of_two(size: usize) -> usize {
    1 << size.max(1).ilog2()
}

pub(super) fn run(
    shape: TransferShape,
    endpoint: &mut dyn Endpoint,
    conditions: &Conditions<'_>,
    tally: &mut LoadTally,
) -> Result<()> {
    let (shape, start) = (shape.fitted(conditions.file_size), Instant::now());
    let mut in_flight = InFlight::new(shape, endpoint, conditions, shape.seed());
    while start.elapsed() < conditions.length && !conditions.stopped() {
        in_flight.fill_up(endpoint, usize::MAX)?;
        in_flight.wait(endpoint, tally)?;
    }
    in_flight.drain(endpoint, tally)?;
    if shape.writes_at_all() { endpoint.commit() } else { Ok(()) }
}

/// Fills the file with its pattern, for reads to find.
///
/// # Errors
/// The server's.
pub fn fill(endpoint: &mut dyn Endpoint, conditions: &Conditions<'_>) -> Result<()> {
    let shape = TransferShape { writes: 100, random: false, depth: FILL_DEPTH, size: FILL_SIZE };
    let size = shape.piece_size(endpoint);
    let shape = TransferShape { depth: FILL_DEPTH * (FILL_SIZE / size), size, ..shape };
    // A file that is no multiple of the request's size would keep a tail without pattern.
    ensure!(
        conditions.file_size >= size as u64 && conditions.file_size.is_multiple_of(size as u64),
        "the file's size has to be a multiple of {size} bytes"
    );
    let mut left = usize::try_from(conditions.file_size / size as u64)?;
    let mut in_flight = InFlight::new(shape, endpoint, conditions, 0);
    let mut tally = LoadTally::default();
    while left > 0 && !conditions.stopped() {
        left -= in_flight.fill_up(endpoint, left)?;
        in_flight.wait(endpoint, &mut tally)?;
    }
    in_flight.drain(endpoint, &mut tally)?;
    endpoint.commit()
}
