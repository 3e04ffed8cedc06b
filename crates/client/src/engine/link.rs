//! One non-blocking connection of the session.

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use rpc::{RecordLimits, RecordReader};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags};

use super::Calls;
use super::pace::EnginePace;
use crate::error::TransportError;
use crate::raw::RawConnection;

/// Buffers per system call; Linux accepts 1,024.
const SLICES_MAX: usize = 256;
/// The most bytes of one system call: a kernel without preemption runs nothing else on the
/// processor until it ends.
const SEND_BYTES_MAX: usize = 64 << 10;

/// Answers to callbacks that wait to be written. A server with fewer slots never has more.
const ANSWERS_MAX: usize = 64;

/// One of the session's connections.
#[derive(Debug)]
pub(crate) struct Link {
    /// The connection, or the schedule of reconnects.
    pub state: LinkState,
    /// XIDs of calls that wait for the next flush.
    pub queued: VecDeque<u32>,
    /// Whether the server requires the connection to be bound to the session.
    pub must_bind: bool,
    /// The schedule that holds the connection back.
    pub pace: EnginePace,
    /// The address, if it is another one than the client's.
    pub trunk: Option<SocketAddr>,
}

/// The state of a connection.
#[derive(Debug)]
pub(crate) enum LinkState {
    /// The connection is established.
    Up(Connection),
    /// The connection has failed.
    Down {
        /// The time of the failure.
        since: Instant,
        /// The time of the next attempt.
        retry_at: Instant,
        /// The delay after the next attempt.
        backoff: Duration,
    },
}

/// A connected socket and the records in transit.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    limits: RecordLimits,
    reader: RecordReader,
    /// Answers to callbacks, with their record marks, which are written between calls.
    answers: VecDeque<Vec<u8>>,
    /// Bytes of the first answer that have been written.
    answered: usize,
    /// XIDs of the calls to be written, in order.
    outbox: VecDeque<u32>,
    /// Bytes of the first call that have been written.
    written: usize,
    /// Records that arrived during the setup of the connection.
    early: Vec<Vec<u8>>,
}

impl Link {
    /// Creates a link over an established connection.
    pub(crate) fn new(connection: RawConnection) -> Result<Self, TransportError> {
        let state = LinkState::Up(Connection::new(connection)?);
        let (queued, pace) = (VecDeque::new(), EnginePace::default());
        Ok(Self { state, queued, must_bind: false, pace, trunk: None })
    }

    /// Returns the connection, if it is up.
    pub(crate) fn connection(&mut self) -> Option<&mut Connection> {
        match &mut self.state {
            LinkState::Up(connection) => Some(connection),
            LinkState::Down { .. } => None,
        }
    }

    /// Returns the number of calls that the link holds back.
    pub(crate) fn held_calls(&self) -> usize {
        match &self.state {
            LinkState::Up(connection) if self.pace.is_held() => connection.outbox.len(),
            _ => 0,
        }
    }

    /// Returns whether the link holds back calls.
    pub(crate) fn is_held(&self) -> bool {
        self.held_calls() > 0
    }

    /// Returns whether the connection is up.
    pub(crate) fn is_up(&self) -> bool {
        matches!(self.state, LinkState::Up(_))
    }
}

impl Connection {
    /// Takes over a connection whose setup has ended.
    pub(crate) fn new(connection: RawConnection) -> Result<Self, TransportError> {
        let limits = connection.limits();
        let (stream, reader, early) = connection.into_parts();
        stream.set_nonblocking(true)?;
        let (answers, outbox) = (VecDeque::new(), VecDeque::new());
        Ok(Self { stream, limits, reader, answers, answered: 0, outbox, written: 0, early })
    }

    /// Converts it to a blocking connection, if no record is in transit.
    pub(crate) fn into_raw(self) -> Option<RawConnection> {
        if self.reader.is_mid_record() || self.wants_to_write() || self.has_early() {
            return None;
        }
        self.stream.set_nonblocking(false).ok()?;
        Some(RawConnection::from_stream(self.stream, self.limits.record_size_max))
    }

    /// Returns the socket's descriptor.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Returns whether records wait to be written.
    pub(crate) fn wants_to_write(&self) -> bool {
        !self.outbox.is_empty() || !self.answers.is_empty()
    }

    /// Returns whether records arrived before the session used the connection.
    pub(crate) fn has_early(&self) -> bool {
        !self.early.is_empty()
    }

    /// Queues a sealed call for writing.
    pub(crate) fn push(&mut self, xid: u32) {
        self.outbox.push_back(xid);
    }

    /// Writes an answer to a callback, or queues it. Fails if too many wait: the server makes calls
    /// without reading the answers.
    pub(crate) fn answer(&mut self, record: Vec<u8>, calls: &Calls) -> Result<(), TransportError> {
        self.answers.push_back(record);
        self.write(calls)?;
        if self.answers.len() > ANSWERS_MAX { Err(TransportError::Closed) } else { Ok(()) }
    }

    /// Writes answers to callbacks between two calls. Returns whether all are written.
    fn write_answers(&mut self) -> Result<bool, TransportError> {
        while let Some(answer) = self.answers.front().filter(|_| self.written == 0) {
            let rest = answer.get(self.answered..).unwrap_or_default();
            match rustix::net::send(&self.stream, rest, SendFlags::NOSIGNAL) {
                Ok(sent) if sent < rest.len() => self.answered += sent,
                Ok(_) => {
                    self.answered = 0;
                    self.answers.pop_front();
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(false),
                Err(cause) => return Err(cause.into()),
            }
        }
        Ok(true)
    }

    /// Writes as much as the socket accepts.
    pub(crate) fn write(&mut self, calls: &Calls) -> Result<(), TransportError> {
        while self.write_answers()? && !self.outbox.is_empty() {
            let (mut slices, mut total) = (Vec::with_capacity(self.outbox.len().min(SLICES_MAX)), 0);
            for (at, xid) in self.outbox.iter().take(SLICES_MAX).enumerate() {
                let record = calls.get(*xid).map(|call| call.message.record()).unwrap_or_default();
                let from = if at == 0 { self.written } else { 0 };
                let rest = record.get(from..).unwrap_or_default();
                let slice = rest.get(..SEND_BYTES_MAX - total).unwrap_or(rest);
                slices.push(IoSlice::new(slice));
                total += slice.len();
                if total == SEND_BYTES_MAX {
                    break;
                }
            }
            let mut control = SendAncillaryBuffer::default();
            let sent = match rustix::net::sendmsg(&self.stream, &slices, &mut control, SendFlags::NOSIGNAL) {
                Ok(sent) => sent,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return Ok(()),
                Err(cause) => return Err(cause.into()),
            };
            self.advance(sent, calls);
            if sent < total {
                return Ok(());
            }
        }
        Ok(())
    }

    fn advance(&mut self, mut sent: usize, calls: &Calls) {
        while let Some(xid) = self.outbox.front() {
            let length = calls.get(*xid).map(|call| call.message.record().len()).unwrap_or_default();
            let left = length.saturating_sub(self.written);
            if sent < left {
                self.written += sent;
                return;
            }
            sent -= left;
            self.written = 0;
            self.outbox.pop_front();
        }
    }

    /// Reads from the socket once and moves complete records to `records`. Returns whether more may
    /// be available.
    pub(crate) fn read(
        &mut self,
        scratch: &mut [u8],
        records: &mut Vec<Vec<u8>>,
    ) -> Result<bool, TransportError> {
        records.append(&mut self.early);
        let target = self.reader.target();
        let (room, wanted) = (target.len(), target.len() + scratch.len());
        let mut slices = [IoSliceMut::new(target), IoSliceMut::new(scratch)];
        let slices = if room == 0 { slices.split_at_mut(1).1 } else { &mut slices[..] };
        let count = match rustix::io::readv(&self.stream, slices) {
            Ok(0) => return Err(TransportError::Closed),
            Ok(count) => count,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(false),
            Err(Errno::CONNRESET) => return Err(TransportError::Closed),
            Err(cause) => return Err(cause.into()),
        };
        self.reader.advance(count.min(room), records)?;
        self.reader.push(scratch.get(..count.saturating_sub(room)).unwrap_or_default(), records)?;
        Ok(count == wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_server_that_reads_no_answers_loses_the_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut connection = Connection::new(RawConnection::from_stream(stream, 1 << 20)).unwrap();
        // The buffers of the sockets hold some of them.
        let answered =
            (0..1000).take_while(|_| connection.answer(vec![0; 1 << 20], &Calls::default()).is_ok());
        assert!((ANSWERS_MAX..1000).contains(&answered.count()));
    }
}
