//! The unsent replies of one connection.

use rpc::{RECORD_MARK_LEN, memory, record_mark};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::time::Instant;

/// Longest reply that is copied into the buffer of the waiting one before it, in bytes.
const SHORT_MAX: usize = 256;

/// Replies that the kernel has not accepted yet.
pub(crate) struct Output {
    records: VecDeque<Vec<u8>>,
    /// Bytes of the first reply that the kernel has accepted.
    sent: usize,
    /// Memory of all replies in bytes.
    memory: usize,
    since: Instant,
}

impl Output {
    pub(crate) fn new() -> Self {
        Self { records: VecDeque::new(), sent: 0, memory: 0, since: Instant::now() }
    }

    /// Appends a reply and fills in its record mark.
    pub(crate) fn push(&mut self, mut record: Vec<u8>) {
        let length = record.len().saturating_sub(RECORD_MARK_LEN);
        if length == 0 {
            return;
        }
        if let Some(mark) = record.first_chunk_mut::<RECORD_MARK_LEN>() {
            *mark = record_mark(length);
        }
        if self.records.is_empty() {
            self.since = Instant::now();
        }
        if let Some(last) = self.records.back_mut().filter(|last| has_room(last, &record)) {
            last.extend_from_slice(&record);
            return memory::give(record);
        }
        self.memory += memory_of(&record);
        self.records.push_back(record);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns the memory of the replies in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    /// Returns when the peer last accepted a byte, or when the first reply began to wait.
    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// Fills `slices` with the next replies, at most `bytes_max` bytes. Returns the numbers of
    /// slices and bytes.
    pub(crate) fn slices<'s>(&'s self, slices: &mut [IoSlice<'s>], bytes_max: usize) -> (usize, usize) {
        let (mut used, mut bytes) = (0, 0);
        for (slice, record) in slices.iter_mut().zip(&self.records) {
            let start = if used == 0 { self.sent } else { 0 };
            let rest = record.get(start..).unwrap_or_default();
            let part = rest.get(..bytes_max - bytes).unwrap_or(rest);
            *slice = IoSlice::new(part);
            used += 1;
            bytes += part.len();
            if bytes >= bytes_max {
                break;
            }
        }
        (used, bytes)
    }

    /// Records that the kernel has accepted `count` bytes, and moves completely sent replies to
    /// `spent`.
    pub(crate) fn advance(&mut self, count: usize, spent: &mut Vec<Vec<u8>>) {
        self.since = Instant::now();
        self.sent += count;
        while let Some(first) = self.records.front().map(Vec::len).filter(|length| *length <= self.sent) {
            self.sent -= first;
            let record = self.records.pop_front();
            self.memory -= record.as_ref().map_or(0, memory_of);
            spent.extend(record);
        }
        if self.records.is_empty() {
            // An idle connection keeps no memory.
            self.records.shrink_to_fit();
        }
    }
}

/// Returns the memory of a waiting reply, in bytes.
fn memory_of(record: &Vec<u8>) -> usize {
    record.capacity() + size_of::<Vec<u8>>()
}

/// Returns whether a short reply fits into the unused buffer of the one before it.
fn has_room(last: &Vec<u8>, record: &[u8]) -> bool {
    record.len() <= SHORT_MAX && last.capacity() - last.len() >= record.len()
}
