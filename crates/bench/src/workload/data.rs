//! Reads and writes of one file, several in flight, each made as soon as one has finished.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use super::{Conditions, LoadTally};
use crate::{Endpoint, Finished};
use rng::SplitMix64;

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

    /// Cuts the shape to the sizes of server and session, as a mount does for an application: a
    /// request that is too large becomes several, in flight together.
    pub(super) fn fitted(self, endpoint: &dyn Endpoint) -> Self {
        let depth_max = endpoint.depth_max().max(1);
        let read_max = if self.writes < 100 { endpoint.io_size_max(false) } else { usize::MAX };
        let write_max = if self.writes_at_all() { endpoint.io_size_max(true) } else { usize::MAX };
        let size_max = read_max.min(write_max).max(SIZE_MIN);
        // A power of two, so that a file of whole MiB is a whole number of requests.
        let size = 1 << self.size.min(size_max).ilog2();
        let depth = self.depth * (self.size / size).max(1);
        Self { depth: depth.min(depth_max), size, ..self }
    }

    /// The same places for every repetition and every flavor, others for another kind of load.
    pub(super) fn seed(self) -> u64 {
        u64::from(self.writes) << 32 | self.depth as u64
    }
}

/// Chooses where the next request goes.
struct Offsets {
    blocks: u64,
    shape: TransferShape,
    next: u64,
    random: SplitMix64,
    /// Hundredths of a write that are due.
    due: u32,
}

impl Offsets {
    fn new(shape: TransferShape, file_size: u64, seed: u64) -> Self {
        let blocks = (file_size / shape.size as u64).max(1);
        Self { blocks, shape, next: 0, random: SplitMix64(seed), due: 0 }
    }

    fn next(&mut self) -> u64 {
        let block = if self.shape.random { self.random.below(self.blocks) } else { self.next % self.blocks };
        self.next += 1;
        block * self.shape.size as u64
    }

    /// Whether the next request writes. Reads and writes are spread evenly, so that short
    /// repetitions have the same part of each as long ones.
    fn writes(&mut self) -> bool {
        self.due += self.shape.writes;
        let writes = self.due >= 100;
        self.due -= if writes { 100 } else { 0 };
        writes
    }
}

/// One request: where, since when its latency counts, and whether it writes.
#[derive(Clone, Copy)]
struct TransferRequest {
    offset: u64,
    since: Instant,
    write: bool,
}

/// The requests in flight; the tag of each is its index.
pub(super) struct InFlight<'a, 'b> {
    conditions: &'a Conditions<'b>,
    shape: TransferShape,
    places: Offsets,
    buffer: Vec<u8>,
    requests: Vec<TransferRequest>,
    idle: Vec<usize>,
}

impl<'a, 'b> InFlight<'a, 'b> {
    pub(super) fn new(shape: TransferShape, conditions: &'a Conditions<'b>, seed: u64) -> Self {
        let empty = TransferRequest { offset: 0, since: Instant::now(), write: false };
        Self {
            conditions,
            shape,
            places: Offsets::new(shape, conditions.file_size, seed),
            buffer: vec![0; if shape.writes_at_all() { shape.size } else { 0 }],
            requests: vec![empty; shape.depth],
            idle: (0..shape.depth).rev().collect(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.idle.len() == self.shape.depth
    }

    /// Says whether as many requests are in flight as may be.
    pub(super) fn is_full(&self) -> bool {
        self.idle.is_empty()
    }

    /// Starts as many requests as may be in flight.
    fn fill_up(&mut self, endpoint: &mut dyn Endpoint) -> Result<()> {
        // They all leave with the next wait: one look at the clock does for them.
        let now = Instant::now();
        while !self.is_full() {
            self.start(endpoint, now)?;
        }
        Ok(())
    }

    /// Starts the next request; its latency counts from `since`.
    pub(super) fn start(&mut self, endpoint: &mut dyn Endpoint, since: Instant) -> Result<()> {
        let Some(tag) = self.idle.pop() else { bail!("more requests than may be in flight") };
        let (offset, write) = (self.places.next(), self.places.writes());
        if let Some(request) = self.requests.get_mut(tag) {
            *request = TransferRequest { offset, since, write };
        }
        if write {
            self.conditions.pattern.fill(offset, &mut self.buffer);
            endpoint.start_write(tag, offset, &self.buffer)
        } else {
            endpoint.start_read(tag, offset, self.shape.size)
        }
    }

    fn wait(&mut self, endpoint: &mut dyn Endpoint, tally: &mut LoadTally) -> Result<()> {
        self.poll(endpoint, tally, None).map(drop)
    }

    /// Takes completed requests; waits for the first for at most `timeout`, or for as long as the
    /// endpoint allows.
    pub(super) fn poll(
        &mut self,
        endpoint: &mut dyn Endpoint,
        tally: &mut LoadTally,
        timeout: Option<Duration>,
    ) -> Result<usize> {
        let Self { conditions, shape, requests, idle, .. } = self;
        // All requests of one wait had arrived when it returned.
        let mut arrived = None;
        endpoint.poll(timeout, &mut |tag, finished| {
            let Some(request) = requests.get(tag).copied() else {
                bail!("an answer to a request that was never made");
            };
            let arrived = *arrived.get_or_insert_with(Instant::now);
            check(finished, request, *shape, conditions)?;
            tally.count(shape.size, arrived.saturating_duration_since(request.since));
            idle.push(tag);
            Ok(())
        })
    }
}

fn check(
    finished: Finished<'_>,
    request: TransferRequest,
    shape: TransferShape,
    conditions: &Conditions<'_>,
) -> Result<()> {
    let offset = request.offset;
    ensure!(matches!(finished, Finished::Written(_)) == request.write, "an answer to another request");
    let length = match finished {
        Finished::Read(data) => data.len(),
        Finished::Written(length) => length,
    };
    let (full, size) = (length == shape.size, shape.size);
    ensure!(
        full || !request.write,
        "only {length} of {size} bytes were written at offset {offset}: the server is full"
    );
    ensure!(full, "{length} of {size} bytes at offset {offset}");
    let Finished::Read(data) = finished else { return Ok(()) };
    match conditions.pattern.mismatch(offset, data) {
        None => Ok(()),
        Some(at) => bail!("wrong data: byte {at} of the file is not what was written there"),
    }
}

pub(super) fn run(
    shape: TransferShape,
    endpoint: &mut dyn Endpoint,
    conditions: &Conditions<'_>,
    tally: &mut LoadTally,
) -> Result<()> {
    let (shape, start) = (shape.fitted(endpoint), Instant::now());
    let mut in_flight = InFlight::new(shape, conditions, shape.seed());
    while start.elapsed() < conditions.length && !conditions.stopped() {
        in_flight.fill_up(endpoint)?;
        in_flight.wait(endpoint, tally)?;
    }
    drain(&mut in_flight, endpoint, tally)?;
    if shape.writes_at_all() { endpoint.commit() } else { Ok(()) }
}

pub(super) fn drain(
    in_flight: &mut InFlight<'_, '_>,
    endpoint: &mut dyn Endpoint,
    tally: &mut LoadTally,
) -> Result<()> {
    while !in_flight.is_empty() {
        in_flight.wait(endpoint, tally)?;
    }
    Ok(())
}

/// Fills the file with its pattern, for reads to find.
///
/// # Errors
/// The server's.
pub fn fill(endpoint: &mut dyn Endpoint, conditions: &Conditions<'_>) -> Result<()> {
    let (random, depth, size) = (false, FILL_DEPTH, FILL_SIZE);
    let shape = TransferShape { writes: 100, random, depth, size }.fitted(endpoint);
    // A file that is no multiple of the request's size would keep a tail without pattern.
    ensure!(
        conditions.file_size >= shape.size as u64 && conditions.file_size.is_multiple_of(shape.size as u64),
        "the file's size has to be a multiple of {} bytes",
        shape.size
    );
    let mut in_flight = InFlight::new(shape, conditions, 0);
    let mut tally = LoadTally::default();
    while in_flight.places.next < in_flight.places.blocks && !conditions.stopped() {
        let left = in_flight.places.blocks - in_flight.places.next;
        let spare = in_flight.idle.len().saturating_sub(usize::try_from(left).unwrap_or(usize::MAX));
        let spared = in_flight.idle.split_off(in_flight.idle.len() - spare);
        in_flight.fill_up(endpoint)?;
        in_flight.idle.extend(spared);
        in_flight.wait(endpoint, &mut tally)?;
    }
    drain(&mut in_flight, endpoint, &mut tally)?;
    endpoint.commit()
}
