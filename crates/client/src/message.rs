//! The buffer of a call: room for the header, then the arguments.
//!
//! The arguments are written once and stay in place. The header is written in front of them when
//! the call is sent, and again when it is repeated on another connection or in another context.

use rpc::{memory, record_mark};

/// Bytes reserved in front of the arguments for the record mark, the RPC header and the wrapper of
/// a protected body.
pub(crate) const HEADROOM: usize = 1024;

const MARK_LEN: usize = 4;

/// The buffer of one call.
#[derive(Debug, Default)]
pub(crate) struct Message {
    /// Headroom, arguments and, after sealing, the trailer of the record.
    buffer: Vec<u8>,
    arguments_at: usize,
    arguments_end: usize,
    /// Offset at which the record begins.
    start: usize,
    /// The whole record, if it is encrypted. The plain arguments are kept for a repetition.
    encrypted: Vec<u8>,
}

impl Message {
    /// Wraps `buffer`, which holds [`HEADROOM`] bytes and then the arguments.
    pub(crate) fn new(mut buffer: Vec<u8>) -> Self {
        if buffer.len() < HEADROOM {
            buffer.resize(HEADROOM, 0);
        }
        let arguments_end = buffer.len();
        Self { buffer, arguments_at: HEADROOM, arguments_end, start: HEADROOM, encrypted: Vec::new() }
    }

    /// Creates a message with a copy of `arguments`.
    pub(crate) fn of(arguments: &[u8]) -> Self {
        let mut buffer = empty_buffer(Vec::new());
        buffer.extend_from_slice(arguments);
        Self::new(buffer)
    }

    /// Returns the arguments without header.
    #[cfg(test)]
    pub(crate) fn arguments(&self) -> &[u8] {
        self.buffer.get(self.arguments_at..self.arguments_end).unwrap_or_default()
    }

    /// Overwrites arguments from offset `at` with values that became known later.
    pub(crate) fn patch(&mut self, at: usize, bytes: &[u8]) {
        let from = self.arguments_at + at;
        if let Some(place) = self.buffer.get_mut(from..from + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    /// Writes `prefix` in front of the arguments and returns both: the signed body if the prefix is
    /// its sequence number.
    pub(crate) fn with_prefix(&mut self, prefix: &[u8]) -> &[u8] {
        self.buffer.truncate(self.arguments_end);
        self.start = self.arguments_at;
        self.encrypted.clear();
        self.prepend(prefix);
        self.buffer.get(self.start..).unwrap_or_default()
    }

    /// Returns the bytes that [`Message::with_prefix`] returned.
    pub(crate) fn body(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    /// Writes `bytes` in front of the present contents.
    pub(crate) fn prepend(&mut self, bytes: &[u8]) {
        if let Some(missing) = bytes.len().checked_sub(self.start) {
            // Only a test with an oversized handle gets here.
            self.buffer.splice(0..0, std::iter::repeat_n(0, missing + HEADROOM));
            self.start += missing + HEADROOM;
            self.arguments_at += missing + HEADROOM;
            self.arguments_end += missing + HEADROOM;
        }
        let from = self.start - bytes.len();
        if let Some(place) = self.buffer.get_mut(from..self.start) {
            place.copy_from_slice(bytes);
            self.start = from;
        }
    }

    /// Writes `bytes` behind the present contents.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Starts an encrypted record: `head`, then `room` bytes, then the present contents. Returns
    /// the record and the offset of the room.
    pub(crate) fn begin_encrypted(
        &mut self,
        head: &[u8],
        room: usize,
        spare: usize,
    ) -> (&mut Vec<u8>, usize) {
        let body = self.buffer.get(self.start..).unwrap_or_default();
        self.encrypted.clear();
        memory::reserve(&mut self.encrypted, MARK_LEN + head.len() + room + body.len() + spare);
        self.encrypted.extend_from_slice(&[0; MARK_LEN]);
        self.encrypted.extend_from_slice(head);
        let at = self.encrypted.len();
        self.encrypted.resize(at + room, 0);
        self.encrypted.extend_from_slice(body);
        (&mut self.encrypted, at)
    }

    /// Returns the encrypted record in progress.
    pub(crate) fn encrypted_mut(&mut self) -> &mut Vec<u8> {
        &mut self.encrypted
    }

    /// Pads the encrypted record to a multiple of four bytes, as XDR requires.
    pub(crate) fn pad_encrypted(&mut self) {
        self.encrypted.resize(self.encrypted.len().next_multiple_of(4), 0);
    }

    /// Writes the record mark, which completes the record.
    pub(crate) fn finish(&mut self) {
        if self.encrypted.is_empty() {
            let mark = record_mark(self.buffer.len() - self.start);
            self.prepend(&mark);
        } else {
            let mark = record_mark(self.encrypted.len() - MARK_LEN);
            if let Some(place) = self.encrypted.first_chunk_mut() {
                *place = mark;
            }
        }
    }

    /// Returns the record with its mark, after [`Message::finish`].
    pub(crate) fn record(&self) -> &[u8] {
        if self.encrypted.is_empty() {
            self.buffer.get(self.start..).unwrap_or_default()
        } else {
            &self.encrypted
        }
    }

    /// Returns the memory to the pool.
    pub(crate) fn recycle(self) {
        memory::give(self.buffer);
        memory::give(self.encrypted);
    }
}

/// Clears `buffer` and reserves the headroom.
pub(crate) fn empty_buffer(mut buffer: Vec<u8>) -> Vec<u8> {
    buffer.truncate(HEADROOM);
    buffer.resize(HEADROOM, 0);
    buffer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_and_trailer_stand_around_the_arguments() {
        let mut message = Message::of(b"args");
        assert_eq!(message.with_prefix(b"seq:"), b"seq:args");
        message.append(b"mic.");
        message.prepend(b"head");
        message.finish();
        assert_eq!(message.record(), b"\x80\0\0\x10headseq:argsmic.");
        assert_eq!(message.arguments(), b"args");
    }

    #[test]
    fn a_message_can_be_sealed_again() {
        let mut message = Message::of(b"args");
        message.with_prefix(b"1234");
        let (record, at) = message.begin_encrypted(b"head", 2, 0);
        assert_eq!((&record[..], at), (&b"\0\0\0\0head\0\x001234args"[..], 8));
        message.finish();
        assert_eq!(message.record(), b"\x80\0\0\x0ehead\0\x001234args");
        message.with_prefix(b"");
        message.prepend(b"again");
        message.finish();
        assert_eq!(message.record(), b"\x80\0\0\x09againargs");
    }

    #[test]
    fn a_head_longer_than_the_headroom_finds_room() {
        let mut message = Message::of(b"args");
        message.with_prefix(&[]);
        message.prepend(&[7; HEADROOM + 10]);
        message.finish();
        assert_eq!(message.record().len(), 4 + HEADROOM + 10 + 4);
        assert!(message.record().ends_with(b"\x07args"));
    }
}
