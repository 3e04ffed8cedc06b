//! Received bytes of one connection, and the records in them.

use rpc::{RecordError, RecordLimits, RecordMemory, RecordReader};
use std::time::{Duration, Instant};

/// Records of at least this size are read into their own buffer; smaller ones are cheaper to copy.
const LARGE_MIN: usize = 32 << 10;

/// How long a large record in progress may take for further 16 KiB while memory for requests is
/// short. A lost packet takes less, also twice in succession. A record of the largest size that
/// arrives within `record_time_max` gets almost five times as much.
pub(crate) const STALL_TIME_MAX: Duration = Duration::from_secs(4);
/// Bytes of a large record that count as progress within [`STALL_TIME_MAX`].
const PROGRESS_MIN: usize = 16 << 10;

/// Splits the bytes of a connection into records.
pub(crate) struct Input {
    reader: RecordReader,
    /// Complete records of the last read.
    records: Vec<Vec<u8>>,
    error: Option<RecordError>,
    record_since: Option<Instant>,
    /// When the record in progress last had [`PROGRESS_MIN`] more bytes, and the bytes since.
    progress: Option<Instant>,
    fresh: usize,
    /// Whether the last record was large, so that the next is likely to be large as well.
    large: bool,
}

impl Input {
    pub(crate) fn new(record_size_max: usize) -> Self {
        let limits = RecordLimits { record_size_max, ..Default::default() };
        let mut reader = RecordReader::new(limits);
        reader.set_memory(RecordMemory::New);
        Self {
            reader,
            records: Vec::new(),
            error: None,
            record_since: None,
            progress: None,
            fresh: 0,
            large: false,
        }
    }

    /// Lets further records use the shard's spare buffers, which strangers must not hold.
    pub(crate) fn reuse_memory(&mut self) {
        self.reader.set_memory(RecordMemory::Kept);
    }

    /// Returns the unused buffer of the record in progress; empty between records.
    pub(crate) fn target(&mut self) -> &mut [u8] {
        self.reader.target()
    }

    /// Accepts bytes that were read into [`Input::target`].
    pub(crate) fn advance(&mut self, count: usize) {
        self.fresh += count;
        if self.error.is_none() {
            self.error = self.reader.advance(count, &mut self.records).err();
        }
    }

    /// Accepts bytes that were read into other memory.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.fresh += bytes.len();
        if self.error.is_none() {
            self.error = self.reader.push(bytes, &mut self.records).err();
        }
    }

    /// Returns whether a large record is in progress or likely to follow.
    pub(crate) fn expects_large(&self) -> bool {
        match self.reader.missing() {
            0 => self.large,
            missing => missing >= LARGE_MIN,
        }
    }

    /// Takes the complete records; [`Input::error`] reports whether more can follow.
    pub(crate) fn records(&mut self) -> impl Iterator<Item = Vec<u8>> {
        if let Some(last) = self.records.last() {
            self.large = last.len() >= LARGE_MIN;
            // A further record in progress begins now.
            self.record_since = None;
        }
        self.records.drain(..)
    }

    /// Returns the error that prevents further reading, if any.
    pub(crate) fn error(&self) -> Option<&RecordError> {
        self.error.as_ref()
    }

    /// Returns the memory of the record in progress, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.reader.memory()
    }

    /// Appends the bytes of the stream that are in no record yet.
    pub(crate) fn append_pending(&self, into: &mut Vec<u8>) {
        self.reader.append_pending(into);
    }

    /// Records the begin or the end of a record.
    pub(crate) fn note_time(&mut self) {
        let is_mid_record = self.reader.is_mid_record();
        if !is_mid_record {
            self.record_since = None;
        } else if self.record_since.is_none() || self.fresh >= PROGRESS_MIN {
            let now = Instant::now();
            self.record_since.get_or_insert(now);
            (self.progress, self.fresh) = (Some(now), 0);
        }
    }

    /// Stops the clock of the record in progress, until [`Input::note_time`].
    pub(crate) fn stop_time(&mut self) {
        self.record_since = None;
    }

    /// Returns whether a record is in progress.
    pub(crate) fn is_mid_record(&self) -> bool {
        self.reader.is_mid_record()
    }

    /// Returns whether a large record in progress is read, but hardly arrives.
    pub(crate) fn is_stalled(&self, now: Instant) -> bool {
        let last = self.record_since.and(self.progress);
        self.memory() >= LARGE_MIN && last.is_some_and(|last| now.duration_since(last) > STALL_TIME_MAX)
    }

    /// Returns the time from which on the record in progress is read.
    pub(crate) fn record_since(&self) -> Option<Instant> {
        self.record_since
    }
}

#[cfg(test)]
mod tests;
