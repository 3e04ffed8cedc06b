//! The replies of one connection on their way out.

use crate::Stats;
use rpc::{RECORD_MARK_LEN, record_mark};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Replies that the kernel has yet to take.
pub(crate) struct Output {
    records: VecDeque<Vec<u8>>,
    /// Bytes of the first reply that the kernel has taken already.
    sent: usize,
    /// Bytes that it has yet to take of all of them; counted in `Stats::output_bytes`.
    bytes: usize,
    since: Instant,
}

impl Output {
    pub(crate) fn new() -> Self {
        Self { records: VecDeque::new(), sent: 0, bytes: 0, since: Instant::now() }
    }

    /// Appends a reply and fills in its record mark.
    pub(crate) fn push(&mut self, mut record: Vec<u8>, stats: &Stats) {
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
        self.bytes += record.len();
        stats.output_bytes.fetch_add(record.len(), Ordering::Relaxed);
        self.records.push_back(record);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Bytes that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// When the peer last took a byte, or when what waits began to.
    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// Puts what waits into `slices`, in its order and at most so many bytes; says how many slices and bytes there are.
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

    /// Takes note that the kernel has taken `count` bytes, and moves the replies that it has taken whole to `spent`.
    pub(crate) fn advance(&mut self, count: usize, stats: &Stats, spent: &mut Vec<Vec<u8>>) {
        self.since = Instant::now();
        stats.output_bytes.fetch_sub(count.min(self.bytes), Ordering::Relaxed);
        self.bytes = self.bytes.saturating_sub(count);
        self.sent += count;
        while let Some(first) = self.records.front().map(Vec::len).filter(|length| *length <= self.sent) {
            self.sent -= first;
            spent.extend(self.records.pop_front());
        }
        if self.records.is_empty() {
            // An idle connection keeps no memory.
            self.records.shrink_to_fit();
        }
    }

    /// Gives back what is counted.
    pub(crate) fn release(self, stats: &Stats) {
        stats.output_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
