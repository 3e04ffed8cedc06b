//! The requests of one connection on their way in.

use rpc::{RecordError, RecordLimits, RecordMemory, RecordReader};
use std::time::Instant;

/// Bytes of a record, or of what is missing of it, from which on copying it is not worth the system call that it saves.
const LARGE_MIN: usize = 32 << 10;

/// Cuts what arrives into records.
pub(crate) struct Input {
    reader: RecordReader,
    /// Whole records on their way to the requests; empty between reads.
    records: Vec<Vec<u8>>,
    error: Option<RecordError>,
    record_since: Option<Instant>,
    /// Whether the last record was a large one, so that the next is likely to be.
    large: bool,
}

impl Input {
    pub(crate) fn new(record_size_max: usize) -> Self {
        let limits = RecordLimits { record_size_max, ..Default::default() };
        let mut reader = RecordReader::new(limits);
        reader.set_memory(RecordMemory::New);
        Self { reader, records: Vec::new(), error: None, record_since: None, large: false }
    }

    /// Has further records begin in memory that the shard keeps, which strangers must not hold.
    pub(crate) fn reuse_memory(&mut self) {
        self.reader.set_memory(RecordMemory::Kept);
    }

    /// Room in the record under way; none between records.
    pub(crate) fn target(&mut self) -> &mut [u8] {
        self.reader.target()
    }

    /// Takes note of bytes that were read into the target.
    pub(crate) fn advance(&mut self, count: usize) {
        if self.error.is_none() {
            self.error = self.reader.advance(count, &mut self.records).err();
        }
    }

    /// Takes bytes that were read into other memory.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.error.is_none() {
            self.error = self.reader.push(bytes, &mut self.records).err();
        }
    }

    /// Whether a large record is under way or likely to come: better read into its own memory than copied.
    pub(crate) fn expects_large(&self) -> bool {
        match self.reader.missing() {
            0 => self.large,
            missing => missing >= LARGE_MIN,
        }
    }

    /// The records that are whole; [`Input::error`] says whether more can follow.
    pub(crate) fn records(&mut self) -> impl Iterator<Item = Vec<u8>> {
        if let Some(last) = self.records.last() {
            self.large = last.len() >= LARGE_MIN;
        }
        self.records.drain(..)
    }

    /// Why what arrived is no record, if so: nothing more can be read.
    pub(crate) fn error(&self) -> Option<&RecordError> {
        self.error.as_ref()
    }

    /// Bytes held by the record under way.
    pub(crate) fn memory(&self) -> usize {
        self.reader.memory()
    }

    /// Notes since when a record has been under way, and returns it.
    pub(crate) fn note_time(&mut self) {
        match (self.reader.is_mid_record(), self.record_since) {
            (true, None) => self.record_since = Some(Instant::now()),
            (false, Some(_)) => self.record_since = None,
            _ => {}
        }
    }

    /// Whether a record is under way.
    pub(crate) fn is_mid_record(&self) -> bool {
        self.reader.is_mid_record()
    }

    /// Since when a record has been under way.
    pub(crate) fn record_since(&self) -> Option<Instant> {
        self.record_since
    }
}
