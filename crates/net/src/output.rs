//! The unsent replies of one connection.

use pipes::{Attachment, FileData};
use rpc::{RECORD_MARK_LEN, memory, record_mark};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::time::Instant;

/// Longest reply that is copied into the buffer of the waiting one before it, in bytes.
const SHORT_MAX: usize = 256;

/// Most bytes by which one system call may exceed its share to finish a reply. A packet of its own
/// for the last bytes of a large reply costs more than they do.
const REST_MAX: usize = 16 << 10;

/// A part of the output.
enum Piece {
    /// Replies, or the parts of one around its file data.
    Bytes(Vec<u8>),
    /// File data of a reply. It begins behind the bytes before it.
    Data(FileData),
}

impl Piece {
    /// Returns the memory of a piece in bytes.
    fn memory(&self) -> usize {
        match self {
            Self::Bytes(record) => memory_of(record),
            Self::Data(data) => data.len() + size_of::<Self>(),
        }
    }
}

/// The next bytes to send.
pub(crate) struct Gathered {
    /// The number of slices.
    pub(crate) used: usize,
    /// The bytes of all slices.
    pub(crate) bytes: usize,
    /// Whether file data comes next, which another system call sends.
    pub(crate) data_follows: bool,
}

/// Replies that the kernel has not accepted yet.
pub(crate) struct Output {
    pieces: VecDeque<Piece>,
    /// Bytes of the first piece that the kernel has accepted, unless it is file data.
    sent: usize,
    /// Memory of all replies in bytes.
    memory: usize,
    since: Instant,
}

impl Output {
    pub(crate) fn new() -> Self {
        Self { pieces: VecDeque::new(), sent: 0, memory: 0, since: Instant::now() }
    }

    /// Appends a reply and fills in its record mark.
    pub(crate) fn push(&mut self, mut record: Vec<u8>) {
        if !mark(&mut record, 0) {
            return;
        }
        if self.pieces.is_empty() {
            self.since = Instant::now();
        }
        if let Some(Piece::Bytes(last)) = self.pieces.back_mut()
            && has_room(last, &record)
        {
            last.extend_from_slice(&record);
            return memory::give(record);
        }
        self.append(Piece::Bytes(record));
    }

    /// Appends a reply with file data, and fills in its record mark.
    pub(crate) fn push_attached(&mut self, mut record: Vec<u8>, attached: Attachment) {
        let Attachment { at, data } = attached;
        let tail = record.get(at..).map(<[u8]>::to_vec).unwrap_or_default();
        if !mark(&mut record, data.len()) {
            return;
        }
        record.truncate(at);
        self.push_piece(Piece::Bytes(record));
        self.push_piece(Piece::Data(data));
        self.push_piece(Piece::Bytes(tail));
    }

    fn push_piece(&mut self, piece: Piece) {
        let empty = match &piece {
            Piece::Bytes(bytes) => bytes.is_empty(),
            Piece::Data(data) => data.is_empty(),
        };
        if !empty {
            self.append(piece);
        }
    }

    fn append(&mut self, piece: Piece) {
        if self.pieces.is_empty() {
            self.since = Instant::now();
        }
        self.memory += piece.memory();
        self.pieces.push_back(piece);
    }

    /// Appends bytes that were a part of the stream of another process.
    pub(crate) fn push_bytes(&mut self, bytes: Vec<u8>) {
        self.push_piece(Piece::Bytes(bytes));
    }

    /// Returns all bytes that the kernel has not accepted yet. File data becomes bytes.
    ///
    /// # Errors
    /// The error of the kernel that refuses the data of a file.
    pub(crate) fn bytes(&mut self) -> io::Result<&[u8]> {
        // After an error this process has to send the rest, so the pieces stay until all are bytes.
        for piece in &mut self.pieces {
            let before = piece.memory();
            let Piece::Data(data) = piece else { continue };
            let mut bytes = Vec::new();
            data.copy_to(&mut bytes)?;
            *piece = Piece::Bytes(bytes);
            self.memory = (self.memory + piece.memory()).saturating_sub(before);
        }
        let mut all = Vec::new();
        let mut sent = std::mem::take(&mut self.sent);
        let since = self.since;
        while let Some(piece) = self.pop() {
            if let Piece::Bytes(bytes) = piece {
                all.extend_from_slice(bytes.get(sent..).unwrap_or_default());
            }
            sent = 0;
        }
        // Until the other process sends them, this one may have to.
        self.push_bytes(all);
        self.since = since;
        match self.pieces.front() {
            Some(Piece::Bytes(all)) => Ok(all),
            Some(Piece::Data(_)) | None => Ok(&[]),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Returns the memory of the replies in bytes, with their file data.
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    /// Returns when the peer last accepted a byte, or when the first reply began to wait.
    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// Returns the file data that comes next, if it does, and whether bytes follow it.
    pub(crate) fn file_data(&mut self) -> Option<(&mut FileData, bool)> {
        let more = self.pieces.len() > 1;
        match self.pieces.front_mut() {
            Some(Piece::Data(data)) => Some((data, more)),
            _ => None,
        }
    }

    /// Records that the kernel has accepted `count` bytes of the file data that came next.
    pub(crate) fn advance_data(&mut self, count: usize) {
        self.since = Instant::now();
        self.memory = self.memory.saturating_sub(count);
        if matches!(self.pieces.front(), Some(Piece::Data(data)) if data.is_empty()) {
            self.pop();
        }
    }

    /// Fills `slices` with the next replies up to file data, about `bytes_max` bytes.
    pub(crate) fn slices<'s>(&'s self, slices: &mut [IoSlice<'s>], bytes_max: usize) -> Gathered {
        let mut gathered = Gathered { used: 0, bytes: 0, data_follows: false };
        for (slice, piece) in slices.iter_mut().zip(&self.pieces) {
            let Piece::Bytes(record) = piece else {
                gathered.data_follows = true;
                break;
            };
            let start = if gathered.used == 0 { self.sent } else { 0 };
            let rest = record.get(start..).unwrap_or_default();
            let share = bytes_max - gathered.bytes;
            let part = rest.get(..share).filter(|_| rest.len() > share + REST_MAX).unwrap_or(rest);
            *slice = IoSlice::new(part);
            gathered.used += 1;
            gathered.bytes += part.len();
            if gathered.bytes >= bytes_max {
                break;
            }
        }
        gathered
    }

    /// Records that the kernel has accepted `count` bytes of the slices, and moves completely sent
    /// replies to `spent`.
    pub(crate) fn advance(&mut self, count: usize, spent: &mut Vec<Vec<u8>>) {
        self.since = Instant::now();
        self.sent += count;
        while let Some(Piece::Bytes(first)) = self.pieces.front()
            && first.len() <= self.sent
        {
            self.sent -= first.len();
            if let Some(Piece::Bytes(record)) = self.pop() {
                spent.push(record);
            }
        }
    }

    fn pop(&mut self) -> Option<Piece> {
        let piece = self.pieces.pop_front();
        self.memory -= piece.as_ref().map_or(0, Piece::memory);
        if self.pieces.is_empty() {
            // An idle connection keeps no memory.
            self.pieces.shrink_to_fit();
        }
        piece
    }
}

/// Fills in the mark of a record to which `attached` bytes belong besides its buffer. Returns
/// whether the record has any bytes.
fn mark(record: &mut [u8], attached: usize) -> bool {
    let length = record.len().saturating_sub(RECORD_MARK_LEN) + attached;
    if let Some(mark) = record.first_chunk_mut::<RECORD_MARK_LEN>() {
        *mark = record_mark(length);
    }
    length > 0
}

/// Returns the memory of a waiting reply, in bytes.
fn memory_of(record: &Vec<u8>) -> usize {
    record.capacity() + size_of::<Vec<u8>>()
}

/// Returns whether a short reply fits into the unused buffer of the one before it.
fn has_room(last: &Vec<u8>, record: &[u8]) -> bool {
    record.len() <= SHORT_MAX && last.capacity() - last.len() >= record.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the lengths of the slices for `bytes_max` bytes of these replies.
    fn slices(replies: &[usize], bytes_max: usize) -> Vec<usize> {
        let mut output = Output::new();
        replies.iter().for_each(|length| output.push(vec![7; *length]));
        let mut slices = [IoSlice::new(&[]); 4];
        let gathered = output.slices(&mut slices, bytes_max);
        let lengths: Vec<usize> = slices.iter().take(gathered.used).map(|slice| slice.len()).collect();
        assert_eq!(lengths.iter().sum::<usize>(), gathered.bytes);
        lengths
    }

    #[test]
    fn the_short_rest_of_a_large_reply_is_sent_with_it() {
        let share = 256 << 10;
        assert_eq!(slices(&[share + 1], share), [share + 1]);
        assert_eq!(slices(&[share + REST_MAX], share), [share + REST_MAX]);
        assert_eq!(slices(&[share + REST_MAX + 1], share), [share]);
        assert_eq!(slices(&[share / 2, share, 1000], share), [share / 2, share / 2]);
        assert_eq!(slices(&[share / 2, share / 2 + 1, 1000], share), [share / 2, share / 2 + 1]);
    }
}
