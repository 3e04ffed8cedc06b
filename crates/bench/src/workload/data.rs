//! Reads and writes of one file, several in flight.

use std::time::Instant;

use anyhow::{Result, bail, ensure};

use super::{Conditions, RANDOM_DEPTH, RANDOM_SIZE, SEQUENTIAL_DEPTH, SEQUENTIAL_SIZE, Tally};
use crate::{Endpoint, Finished, Workload};

/// How reads or writes go through the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Whether it writes.
    pub write: bool,
    /// Whether places are drawn at random, or follow each other.
    pub random: bool,
    /// Requests in flight.
    pub depth: usize,
    /// Bytes of a request.
    pub size: usize,
}

impl Shape {
    /// Returns how a workload goes through the file; `None` for [`Workload::Metadata`], which does not.
    pub const fn of(workload: Workload) -> Option<Self> {
        let (write, random, depth) = match workload {
            Workload::SequentialRead => (false, false, SEQUENTIAL_DEPTH),
            Workload::SequentialWrite => (true, false, SEQUENTIAL_DEPTH),
            Workload::RandomReadDepth1 => (false, true, 1),
            Workload::RandomWriteDepth1 => (true, true, 1),
            Workload::RandomReadDepth64 => (false, true, RANDOM_DEPTH),
            Workload::RandomWriteDepth64 => (true, true, RANDOM_DEPTH),
            Workload::Metadata => return None,
        };
        let size = if random { RANDOM_SIZE } else { SEQUENTIAL_SIZE };
        Some(Self { write, random, depth, size })
    }

    /// Cuts it into what server and session take, as a mount does with what an application asks for: a request that is
    /// too large becomes several, in flight together.
    fn fitted(self, endpoint: &dyn Endpoint) -> Self {
        let depth_max = endpoint.depth_max().max(1);
        let size_max = endpoint.io_size_max(self.write).max(RANDOM_SIZE);
        // A power of two, so that a file of whole MiB is a whole number of requests.
        let size = 1 << self.size.min(size_max).ilog2();
        let depth = self.depth * (self.size / size).max(1);
        Self { depth: depth.min(depth_max), size, ..self }
    }

    /// The same places for every repetition and every flavor, others for another kind of load.
    fn seed(self) -> u64 {
        u64::from(self.write) << 32 | self.depth as u64
    }
}

/// Chooses where the next request goes.
struct Places {
    blocks: u64,
    size: u64,
    random: bool,
    next: u64,
    state: u64,
}

impl Places {
    fn new(shape: Shape, file_size: u64, seed: u64) -> Self {
        let size = shape.size as u64;
        let blocks = (file_size / size).max(1);
        Self { blocks, size, random: shape.random, next: 0, state: seed }
    }

    fn next(&mut self) -> u64 {
        let block = if self.random {
            // SplitMix64: every run and every flavor goes through the same places.
            self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = self.state;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((u128::from(mixed ^ (mixed >> 31)) * u128::from(self.blocks)) >> 64) as u64
        } else {
            self.next % self.blocks
        };
        self.next += 1;
        block * self.size
    }
}

/// The requests in flight; the tag of each is its index.
struct InFlight<'a, 'b> {
    conditions: &'a Conditions<'b>,
    shape: Shape,
    places: Places,
    buffer: Vec<u8>,
    requests: Vec<(u64, Instant)>,
    idle: Vec<usize>,
}

impl<'a, 'b> InFlight<'a, 'b> {
    fn new(shape: Shape, conditions: &'a Conditions<'b>, seed: u64) -> Self {
        let now = Instant::now();
        Self {
            conditions,
            shape,
            places: Places::new(shape, conditions.file_size, seed),
            buffer: vec![0; if shape.write { shape.size } else { 0 }],
            requests: vec![(0, now); shape.depth],
            idle: (0..shape.depth).rev().collect(),
        }
    }

    fn is_empty(&self) -> bool {
        self.idle.len() == self.shape.depth
    }

    /// Starts as many requests as may be in flight.
    fn start(&mut self, endpoint: &mut dyn Endpoint) -> Result<()> {
        // They all leave with the next wait: one look at the clock does for them.
        let now = Instant::now();
        while let Some(tag) = self.idle.pop() {
            let offset = self.places.next();
            if self.shape.write {
                self.conditions.pattern.fill(offset, &mut self.buffer);
            }
            if let Some(request) = self.requests.get_mut(tag) {
                *request = (offset, now);
            }
            if self.shape.write {
                endpoint.start_write(tag, offset, &self.buffer)?;
            } else {
                endpoint.start_read(tag, offset, self.shape.size)?;
            }
        }
        Ok(())
    }

    fn wait(&mut self, endpoint: &mut dyn Endpoint, tally: &mut Tally) -> Result<()> {
        let Self { conditions, shape, requests, idle, .. } = self;
        // What one wait hands over had arrived when it did.
        let mut arrived = None;
        endpoint.wait(&mut |tag, finished| {
            let Some((offset, started)) = requests.get(tag).copied() else {
                bail!("an answer to a request that was never made");
            };
            let arrived = *arrived.get_or_insert_with(Instant::now);
            check(finished, offset, *shape, conditions)?;
            tally.count(shape.size, arrived.saturating_duration_since(started));
            idle.push(tag);
            Ok(())
        })
    }
}

fn check(finished: Finished<'_>, offset: u64, shape: Shape, conditions: &Conditions<'_>) -> Result<()> {
    let length = match finished {
        Finished::Read(data) => data.len(),
        Finished::Written(length) => length,
    };
    ensure!(length == shape.size, "{length} of {} bytes at offset {offset}", shape.size);
    let Finished::Read(data) = finished else { return Ok(()) };
    match conditions.pattern.mismatch(offset, data) {
        None => Ok(()),
        Some(at) => bail!("wrong data: byte {at} of the file is not what was written there"),
    }
}

pub fn run(
    shape: Shape,
    endpoint: &mut dyn Endpoint,
    conditions: &Conditions<'_>,
    tally: &mut Tally,
    start: Instant,
) -> Result<()> {
    let shape = shape.fitted(endpoint);
    let mut in_flight = InFlight::new(shape, conditions, shape.seed());
    while start.elapsed() < conditions.length && !conditions.stopped() {
        in_flight.start(endpoint)?;
        in_flight.wait(endpoint, tally)?;
    }
    drain(&mut in_flight, endpoint, tally)?;
    if shape.write { endpoint.commit() } else { Ok(()) }
}

fn drain(in_flight: &mut InFlight<'_, '_>, endpoint: &mut dyn Endpoint, tally: &mut Tally) -> Result<()> {
    while !in_flight.is_empty() {
        in_flight.wait(endpoint, tally)?;
    }
    Ok(())
}

pub fn fill(endpoint: &mut dyn Endpoint, conditions: &Conditions<'_>) -> Result<()> {
    let (random, depth, size) = (false, SEQUENTIAL_DEPTH, SEQUENTIAL_SIZE);
    let shape = Shape { write: true, random, depth, size }.fitted(endpoint);
    // A file that is no multiple of the request's size would keep a tail without pattern.
    ensure!(
        conditions.file_size >= shape.size as u64 && conditions.file_size.is_multiple_of(shape.size as u64),
        "the file's size has to be a multiple of {} bytes",
        shape.size
    );
    let mut in_flight = InFlight::new(shape, conditions, 0);
    let mut tally = Tally::new()?;
    while in_flight.places.next < in_flight.places.blocks && !conditions.stopped() {
        let left = in_flight.places.blocks - in_flight.places.next;
        let spare = in_flight.idle.len().saturating_sub(usize::try_from(left).unwrap_or(usize::MAX));
        let spared = in_flight.idle.split_off(in_flight.idle.len() - spare);
        in_flight.start(endpoint)?;
        in_flight.idle.extend(spared);
        in_flight.wait(endpoint, &mut tally)?;
    }
    drain(&mut in_flight, endpoint, &mut tally)?;
    endpoint.commit()
}
