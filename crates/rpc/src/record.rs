//! Record marking on byte streams (RFC 5531 section 11).

use crate::memory;

/// Length of the mark before each fragment, in bytes. The top bit of the mark is set on the last
/// fragment; the other bits are the fragment's length.
pub const RECORD_MARK_LEN: usize = 4;

const LAST_FRAGMENT: u32 = 0x8000_0000;

/// The first allocation for a record whose fragment has not arrived completely, in bytes.
const GROWTH_MIN: usize = 64 * 1024;

/// Bounds on the records that a [`RecordReader`] accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordLimits {
    /// Most bytes of a record, without marks.
    pub record_size_max: usize,
    /// Most fragments of a record, including empty ones.
    pub fragments_max: u32,
}

impl Default for RecordLimits {
    /// Returns 1 MiB of data plus 256 KiB for headers, and 1,024 fragments.
    fn default() -> Self {
        Self { record_size_max: (1 << 20) + (256 << 10), fragments_max: 1024 }
    }
}

/// The source of memory for a record in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordMemory {
    /// Buffers that the thread keeps ([`memory::keep`]), as large as the mark announces.
    Kept,
    /// New memory that grows with the bytes that arrive: for peers that may leave a record
    /// unfinished.
    New,
}

/// The reason why a stream of records cannot continue. The position of the next mark is lost, so
/// close the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The record is larger than [`RecordLimits::record_size_max`].
    #[error("a record of {size} bytes or more is above the limit of {max}")]
    TooLarge {
        /// Bytes that the marks have announced so far.
        size: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// The record has more fragments than [`RecordLimits::fragments_max`].
    #[error("a record has more than {max} fragments")]
    TooManyFragments {
        /// The limit in fragments.
        max: u32,
    },
    /// The record has no bytes.
    #[error("a record is empty")]
    Empty,
}

/// Returns the mark of a record of `len` bytes that is sent as one fragment.
///
/// `len` must be below 2 GiB.
pub const fn record_mark(len: usize) -> [u8; RECORD_MARK_LEN] {
    debug_assert!(len < LAST_FRAGMENT as usize);
    (LAST_FRAGMENT | len as u32).to_be_bytes()
}

/// Splits a stream of bytes into records, and joins the fragments of a record.
///
/// Read the bytes of a large record in progress from the socket into [`target`](Self::target). Read
/// all other bytes into a scratch buffer and pass them to [`push`](Self::push), which copies them
/// once. Between records a reader holds no memory besides itself. A record in progress allocates at
/// most 66 KiB plus four times the bytes that have arrived, independent of its mark;
/// [`RecordMemory::Kept`] may use larger buffers that the thread already has.
///
/// With vectored reads, one system call fills both buffers:
/// ```
/// # use orthrus_rpc::{RecordLimits, RecordReader};
/// # fn readv(_: &mut [u8], _: &mut [u8]) -> usize { 0 }
/// # let mut reader = RecordReader::new(RecordLimits::default());
/// # let (mut scratch, mut records) = ([0; 64], vec![]);
/// let target = reader.target();
/// let space = target.len();
/// let count = readv(target, &mut scratch);
/// reader.advance(count.min(space), &mut records)?;
/// reader.push(&scratch[..count.saturating_sub(space)], &mut records)?;
/// # Ok::<(), orthrus_rpc::RecordError>(())
/// ```
#[derive(Debug)]
pub struct RecordReader {
    limits: RecordLimits,
    memory: RecordMemory,
    /// The part of the next fragment's mark that has arrived.
    mark: [u8; RECORD_MARK_LEN],
    mark_len: usize,
    /// The record in progress; bytes from `filled` on are unused.
    record: Vec<u8>,
    filled: usize,
    /// End of the fragment in progress, as an offset in the record.
    fragment_end: usize,
    fragments: u32,
    in_fragment: bool,
    last: bool,
}

impl RecordReader {
    /// Makes a reader at the start of a stream.
    pub const fn new(limits: RecordLimits) -> Self {
        Self {
            limits,
            memory: RecordMemory::Kept,
            mark: [0; RECORD_MARK_LEN],
            mark_len: 0,
            record: Vec::new(),
            filled: 0,
            fragment_end: 0,
            fragments: 0,
            in_fragment: false,
            last: false,
        }
    }

    /// Sets where the memory of further records comes from.
    pub const fn set_memory(&mut self, memory: RecordMemory) {
        self.memory = memory;
    }

    /// Returns whether a record is in progress. A connection that ends here was cut off.
    pub const fn is_mid_record(&self) -> bool {
        self.in_fragment || self.mark_len > 0 || self.fragments > 0
    }

    /// Appends the bytes of the stream that have arrived and are in no record yet: a reader that
    /// gets them is where this one is. Fragments that were joined become one.
    pub fn append_pending(&self, into: &mut Vec<u8>) {
        if self.in_fragment || self.fragments > 0 {
            let (length, last) = match self.in_fragment {
                true => (self.fragment_end, self.last),
                false => (self.filled, false),
            };
            let mark = if last { LAST_FRAGMENT | length as u32 } else { length as u32 };
            into.extend_from_slice(&mark.to_be_bytes());
            into.extend_from_slice(self.record.get(..self.filled).unwrap_or_default());
        }
        into.extend_from_slice(self.mark.get(..self.mark_len).unwrap_or_default());
    }

    /// Returns the memory of the record in progress, in bytes.
    pub fn memory(&self) -> usize {
        self.record.capacity()
    }

    /// Returns how many bytes of the fragment in progress are missing; 0 between fragments.
    pub const fn missing(&self) -> usize {
        if self.in_fragment { self.fragment_end.saturating_sub(self.filled) } else { 0 }
    }

    /// Returns the buffer for the next bytes of the fragment in progress; empty between fragments.
    ///
    /// Call [`advance`](Self::advance) after a read into it.
    pub fn target(&mut self) -> &mut [u8] {
        if self.in_fragment && self.filled == self.record.len() {
            self.grow();
        }
        let end = self.record.len().min(self.fragment_end);
        self.record.get_mut(self.filled..end).unwrap_or_default()
    }

    /// Accepts `count` bytes that were read into [`target`](Self::target), and moves the record to
    /// `records` if they complete it.
    ///
    /// # Errors
    /// [`RecordError`]; the reader must not be used afterwards.
    pub fn advance(&mut self, count: usize, records: &mut Vec<Vec<u8>>) -> Result<(), RecordError> {
        self.filled = self.filled.saturating_add(count).min(self.record.len()).min(self.fragment_end);
        self.end_fragment(records)
    }

    /// Accepts the next bytes of the stream, and moves the records that they complete to `records`.
    ///
    /// # Errors
    /// [`RecordError`]; the reader must not be used afterwards. Records before the error have been
    /// moved.
    pub fn push(&mut self, mut bytes: &[u8], records: &mut Vec<Vec<u8>>) -> Result<(), RecordError> {
        while !bytes.is_empty() {
            if !self.in_fragment {
                bytes = self.take_mark(bytes);
                if self.mark_len < RECORD_MARK_LEN {
                    break;
                }
                self.begin_fragment()?;
            }
            let (now, later) = bytes.split_at(bytes.len().min(self.fragment_end - self.filled));
            self.append(now);
            bytes = later;
            self.end_fragment(records)?;
        }
        Ok(())
    }

    fn take_mark<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let (now, later) = bytes.split_at(bytes.len().min(RECORD_MARK_LEN - self.mark_len));
        for (place, byte) in self.mark.iter_mut().skip(self.mark_len).zip(now) {
            *place = *byte;
        }
        self.mark_len += now.len();
        later
    }

    fn begin_fragment(&mut self) -> Result<(), RecordError> {
        let mark = u32::from_be_bytes(self.mark);
        let length = (mark & !LAST_FRAGMENT) as usize;
        let size = self.filled.saturating_add(length);
        if size > self.limits.record_size_max {
            return Err(RecordError::TooLarge { size, max: self.limits.record_size_max });
        }
        self.fragments = self.fragments.saturating_add(1);
        if self.fragments > self.limits.fragments_max {
            return Err(RecordError::TooManyFragments { max: self.limits.fragments_max });
        }
        self.mark_len = 0;
        self.last = mark & LAST_FRAGMENT != 0;
        self.fragment_end = size;
        self.in_fragment = true;
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) {
        let end = self.filled + bytes.len();
        if self.record.capacity() == 0 {
            self.record = match self.take_kept() {
                None if end == self.fragment_end => memory::take(end),
                kept => kept.unwrap_or_default(),
            };
        }
        if let Some(room) = self.record.get_mut(self.filled..end) {
            room.copy_from_slice(bytes);
        } else {
            self.record.truncate(self.filled);
            if self.record.capacity() < end {
                self.record.reserve_exact(self.room(end.saturating_mul(2)) - self.filled);
            }
            self.record.extend_from_slice(bytes);
        }
        self.filled = end;
    }

    /// Grows the buffer for the fragment in progress: to its end in a kept buffer, otherwise in
    /// proportion to the bytes that have arrived.
    fn grow(&mut self) {
        if self.record.capacity() == 0 {
            self.record = self.take_kept().unwrap_or_default();
        }
        let wanted = if self.record.capacity() >= self.fragment_end {
            self.fragment_end
        } else {
            self.filled.saturating_mul(4).max(GROWTH_MIN).min(self.fragment_end)
        };
        if self.record.len() < wanted {
            self.record.reserve_exact(self.room(wanted) - self.record.len());
            self.record.resize(wanted, 0);
        }
    }

    /// Returns the memory for `wanted` bytes of the fragment in progress: never more than the whole
    /// fragment needs, in a size that the thread keeps for the next such record.
    fn room(&self, wanted: usize) -> usize {
        if wanted < self.fragment_end { wanted } else { memory::rounded(self.fragment_end) }
    }

    fn take_kept(&self) -> Option<Vec<u8>> {
        match self.memory {
            RecordMemory::Kept => memory::take_kept(self.fragment_end),
            RecordMemory::New => None,
        }
    }

    fn end_fragment(&mut self, records: &mut Vec<Vec<u8>>) -> Result<(), RecordError> {
        if !self.in_fragment || self.filled < self.fragment_end {
            return Ok(());
        }
        self.in_fragment = false;
        if self.last {
            let mut record = std::mem::take(&mut self.record);
            record.truncate(self.filled);
            (self.filled, self.fragment_end, self.fragments) = (0, 0, 0);
            if record.is_empty() {
                return Err(RecordError::Empty);
            }
            records.push(record);
        }
        Ok(())
    }
}
