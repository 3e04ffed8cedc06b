//! The requests in flight, and the pieces that a server takes them in.
//!
//! A request has the size of the plan with every flavor and server. If that is more than a server
//! takes at once, the request goes out in pieces at consecutive offsets, as from a mount. It counts
//! once, after its last piece.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use super::{Conditions, LoadTally, TransferShape};
use crate::{Endpoint, Finished};
use rng::SplitMix64;

/// The delay before a piece that the server has put off is sent again.
const DELAY: Duration = Duration::from_millis(20);

/// How long a server may put one piece off.
const DELAY_MAX: Duration = Duration::from_secs(120);

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

/// One request: where it goes, since when its latency counts, and how far it is.
#[derive(Clone, Copy)]
struct TransferRequest {
    offset: u64,
    since: Instant,
    write: bool,
    /// Bytes that are not yet sent.
    unsent: usize,
    /// Bytes that have not yet arrived.
    missing: usize,
}

/// One READ or WRITE: the index of its request, and where it goes.
#[derive(Clone, Copy)]
struct RequestPiece {
    request: usize,
    offset: u64,
    /// When the server first put it off.
    delayed: Option<Instant>,
}

/// The requests in flight and their pieces; the tag of a piece is its index.
pub(super) struct InFlight<'a, 'b> {
    conditions: &'a Conditions<'b>,
    shape: TransferShape,
    places: Offsets,
    /// As long as a piece.
    buffer: Vec<u8>,
    piece_size: usize,
    requests: Vec<TransferRequest>,
    pieces: Vec<RequestPiece>,
    idle_requests: Vec<usize>,
    idle_pieces: Vec<usize>,
    /// The request with unsent pieces. The next begins after its last piece.
    unsent: Option<usize>,
    /// Pieces that the server has put off, and when they are sent again.
    delayed: VecDeque<(Instant, usize)>,
}

impl<'a, 'b> InFlight<'a, 'b> {
    /// Prepares requests of a shape; the endpoint decides on the pieces.
    pub(super) fn new(
        shape: TransferShape,
        endpoint: &dyn Endpoint,
        conditions: &'a Conditions<'b>,
        seed: u64,
    ) -> Self {
        let piece_size = shape.piece_size(endpoint);
        let slots = endpoint.depth_max().max(1).min(shape.depth * (shape.size / piece_size));
        // A request without a piece in flight is sent before the next: slots are enough.
        let depth = shape.depth.min(slots);
        let empty = TransferRequest { offset: 0, since: Instant::now(), write: false, unsent: 0, missing: 0 };
        Self {
            conditions,
            shape,
            places: Offsets::new(shape, conditions.file_size, seed),
            buffer: vec![0; if shape.writes_at_all() { piece_size } else { 0 }],
            piece_size,
            requests: vec![empty; depth],
            pieces: vec![RequestPiece { request: 0, offset: 0, delayed: None }; slots],
            idle_requests: (0..depth).rev().collect(),
            idle_pieces: (0..slots).rev().collect(),
            unsent: None,
            delayed: VecDeque::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.idle_requests.len() == self.requests.len()
    }

    /// Returns whether no request can begin now: as many are in flight as may be, or the last one
    /// has unsent pieces.
    pub(super) fn is_full(&self) -> bool {
        self.unsent.is_some() || self.idle_requests.is_empty() || self.idle_pieces.is_empty()
    }

    /// Starts as many requests as may be in flight, at most `most`, and returns their number.
    pub(super) fn fill_up(&mut self, endpoint: &mut dyn Endpoint, most: usize) -> Result<usize> {
        self.send(endpoint)?;
        // They all leave with the next wait: one look at the clock does for them.
        let (now, mut started) = (Instant::now(), 0);
        while started < most && !self.is_full() {
            self.start(endpoint, now)?;
            started += 1;
        }
        Ok(started)
    }

    /// Starts the next request; its latency counts from `since`.
    pub(super) fn start(&mut self, endpoint: &mut dyn Endpoint, since: Instant) -> Result<()> {
        ensure!(!self.is_full(), "more requests than may be in flight");
        let index = self.idle_requests.pop().context("no request is idle")?;
        let (offset, write, size) = (self.places.next(), self.places.writes(), self.shape.size);
        let request = self.requests.get_mut(index).context("a request that is not known")?;
        *request = TransferRequest { offset, since, write, unsent: size, missing: size };
        self.unsent = Some(index);
        self.send(endpoint)
    }

    /// Sends the pieces again that were put off until now, and unsent pieces as far as places are
    /// free.
    pub(super) fn send(&mut self, endpoint: &mut dyn Endpoint) -> Result<()> {
        while let Some((_, tag)) = self.delayed.pop_front_if(|(until, _)| *until <= Instant::now()) {
            self.send_piece(endpoint, tag)?;
        }
        let Some(index) = self.unsent else { return Ok(()) };
        loop {
            let request = self.requests.get_mut(index).context("a request that is not known")?;
            if request.unsent == 0 {
                break;
            }
            let Some(tag) = self.idle_pieces.pop() else { return Ok(()) };
            let offset = request.offset + (self.shape.size - request.unsent) as u64;
            request.unsent -= self.piece_size;
            *self.pieces.get_mut(tag).context("a piece that is not known")? =
                RequestPiece { request: index, offset, delayed: None };
            self.send_piece(endpoint, tag)?;
        }
        self.unsent = None;
        Ok(())
    }

    fn send_piece(&mut self, endpoint: &mut dyn Endpoint, tag: usize) -> Result<()> {
        let piece = *self.pieces.get(tag).context("a piece that is not known")?;
        let request = self.requests.get(piece.request).context("a request that is not known")?;
        if request.write {
            self.conditions.pattern.fill(piece.offset, &mut self.buffer);
            endpoint.start_write(tag, piece.offset, &self.buffer)
        } else {
            endpoint.start_read(tag, piece.offset, self.piece_size)
        }
    }

    pub(super) fn wait(&mut self, endpoint: &mut dyn Endpoint, tally: &mut LoadTally) -> Result<()> {
        self.poll(endpoint, tally, None).map(drop)
    }

    /// Waits until all requests have arrived.
    pub(super) fn drain(&mut self, endpoint: &mut dyn Endpoint, tally: &mut LoadTally) -> Result<()> {
        while !self.is_empty() {
            self.send(endpoint)?;
            self.wait(endpoint, tally)?;
        }
        Ok(())
    }

    /// Returns how long to wait for pieces: at most until one that was put off is sent again.
    fn wait_max(&self, timeout: Option<Duration>) -> Option<Duration> {
        let Some((until, _)) = self.delayed.front() else { return timeout };
        let left = until.saturating_duration_since(Instant::now());
        Some(timeout.map_or(left, |timeout| timeout.min(left)))
    }

    /// Takes pieces that have arrived; waits for the first for at most `timeout`, or for as long as
    /// the endpoint allows.
    pub(super) fn poll(
        &mut self,
        endpoint: &mut dyn Endpoint,
        tally: &mut LoadTally,
        timeout: Option<Duration>,
    ) -> Result<usize> {
        let timeout = self.wait_max(timeout);
        if self.delayed.len() + self.idle_pieces.len() == self.pieces.len() {
            // The endpoint has nothing to wait for.
            std::thread::sleep(timeout.unwrap_or_default());
            return Ok(0);
        }
        let Self { conditions, shape, piece_size, requests, pieces, delayed, .. } = self;
        let (idle_requests, idle_pieces) = (&mut self.idle_requests, &mut self.idle_pieces);
        // All pieces of one wait had arrived when it returned.
        let mut arrived = None;
        endpoint.poll(timeout, &mut |tag, finished| {
            let piece = pieces.get_mut(tag);
            let Some((piece, request)) = piece.and_then(|piece| {
                let request = requests.get_mut(piece.request)?;
                Some((piece, request))
            }) else {
                bail!("an answer to a request that was never made");
            };
            let arrived = *arrived.get_or_insert_with(Instant::now);
            if finished == Finished::Delayed {
                let since = *piece.delayed.get_or_insert(arrived);
                let seconds = DELAY_MAX.as_secs();
                ensure!(arrived - since < DELAY_MAX, "the server has put a request off for {seconds} s");
                delayed.push_back((arrived + DELAY, tag));
                return Ok(());
            }
            ensure!(
                matches!(finished, Finished::Written(_)) == request.write,
                "an answer to another request"
            );
            check(finished, piece.offset, *piece_size, conditions)?;
            idle_pieces.push(tag);
            request.missing = request.missing.saturating_sub(*piece_size);
            if request.missing == 0 {
                tally.count(shape.size, arrived.saturating_duration_since(request.since));
                idle_requests.push(piece.request);
            }
            Ok(())
        })
    }
}

/// Fails unless all `size` bytes were written, or read as they were written.
fn check(finished: Finished<'_>, offset: u64, size: usize, conditions: &Conditions<'_>) -> Result<()> {
    match finished {
        Finished::Delayed => {}
        Finished::Written(length) => ensure!(
            length == size,
            "only {length} of {size} bytes were written at offset {offset}: the server is full"
        ),
        Finished::Read(data) => {
            ensure!(data.len() == size, "{} of {size} bytes at offset {offset}", data.len());
            if let Some(at) = conditions.pattern.mismatch(offset, data) {
                bail!("wrong data: byte {at} of the file is not what was written there");
            }
        }
    }
    Ok(())
}
