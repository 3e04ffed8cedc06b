//! One TCP connection: bytes in, records out, replies back.

use crate::{Limits, Request, Stats};

use rpc::{ConnectionId, RECORD_MARK_LEN, RecordLimits, RecordReader, record_mark};
use rustix::event::epoll::EventFlags;
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Replies handed to the kernel in one call.
const SLICES_MAX: usize = 64;

/// How a read or a write went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// As far as it could go for now.
    Open,
    /// The connection is over: the peer closed it, or sent what is no record.
    Closed,
}

/// A connection's socket and what is under way on it.
pub(crate) struct Connection {
    id: ConnectionId,
    stream: TcpStream,
    peer: SocketAddr,
    reader: RecordReader,
    /// Whole records on their way to the requests; empty between reads.
    records: Vec<Vec<u8>>,
    /// Bytes of unfinished and held requests that are counted in `Stats::input_bytes`.
    counted: usize,
    record_since: Option<Instant>,
    output: VecDeque<Vec<u8>>,
    /// Bytes of the first reply that the kernel has taken already.
    sent: usize,
    output_bytes: usize,
    output_since: Instant,
    /// Requests that wait until the peer has taken enough of its replies.
    held: VecDeque<Vec<u8>>,
    held_bytes: usize,
    interest: EventFlags,
    closing: bool,
}

impl Connection {
    pub(crate) fn new(id: ConnectionId, stream: TcpStream, peer: SocketAddr, limits: &Limits) -> Self {
        let reader =
            RecordReader::new(RecordLimits { record_size_max: limits.record_size_max, ..Default::default() });
        Self {
            id,
            stream,
            peer,
            reader,
            records: Vec::new(),
            counted: 0,
            record_since: None,
            output: VecDeque::new(),
            sent: 0,
            output_bytes: 0,
            output_since: Instant::now(),
            held: VecDeque::new(),
            held_bytes: 0,
            interest: EventFlags::IN,
            closing: false,
        }
    }

    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Reads until the socket is empty or the tick's budget is used, and appends the whole records.
    pub(crate) fn read(
        &mut self,
        scratch: &mut [u8],
        limits: &Limits,
        stats: &Stats,
        requests: &mut Vec<Request>,
    ) -> Progress {
        let mut budget = limits.tick_bytes_max;
        while budget > 0 && self.wants_input(limits) {
            let (count, room) = match self.receive(scratch) {
                Ok((0, _)) => return Progress::Closed,
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return Progress::Closed,
            };
            Stats::add(&stats.received_bytes, count as u64);
            budget = budget.saturating_sub(count);
            if self.take_records(count, room, scratch, stats, requests) == Progress::Closed
                || self.account(limits, stats) == Progress::Closed
            {
                return Progress::Closed;
            }
            if count < room + scratch.len() {
                break;
            }
        }
        Progress::Open
    }

    /// Reads once: first into the record under way, then into the scratch memory. Returns the bytes read and how many
    /// of them the record had room for.
    fn receive(&mut self, scratch: &mut [u8]) -> io::Result<(usize, usize)> {
        let target = self.reader.target();
        let room = target.len();
        let mut places = [IoSliceMut::new(target), IoSliceMut::new(scratch)];
        let places = if room == 0 { &mut places[1..] } else { &mut places[..] };
        (&self.stream).read_vectored(places).map(|count| (count, room))
    }

    fn take_records(
        &mut self,
        count: usize,
        room: usize,
        scratch: &[u8],
        stats: &Stats,
        requests: &mut Vec<Request>,
    ) -> Progress {
        let beyond = scratch.get(..count.saturating_sub(room)).unwrap_or_default();
        let taken = self
            .reader
            .advance(count.min(room), &mut self.records)
            .and_then(|()| self.reader.push(beyond, &mut self.records));
        let (connection, peer) = (self.id, self.peer);
        requests.extend(self.records.drain(..).map(|record| Request { connection, peer, record }));
        if let Err(error) = taken {
            Stats::add(&stats.malformed, 1);
            stats.log_closed(peer, error);
            return Progress::Closed;
        }
        Progress::Open
    }

    /// Counts what unfinished and held requests take; over the limit of all connections together this one has to go.
    pub(crate) fn account(&mut self, limits: &Limits, stats: &Stats) -> Progress {
        let holds = self.reader.memory() + self.held_bytes;
        stats.input_bytes.fetch_add(holds, Ordering::Relaxed);
        let before = stats.input_bytes.fetch_sub(self.counted, Ordering::Relaxed);
        let total = before.saturating_sub(self.counted);
        self.counted = holds;
        match (self.reader.is_mid_record(), self.record_since) {
            (true, None) => self.record_since = Some(Instant::now()),
            (false, Some(_)) => self.record_since = None,
            _ => {}
        }
        if holds > 0 && total > limits.input_bytes_max {
            Stats::add(&stats.overdue, 1);
            stats.log_closed(self.peer, format_args!("requests under way hold {total} bytes"));
            return Progress::Closed;
        }
        Progress::Open
    }

    /// Says whether a further request has to wait: the peer leaves its replies lying, or earlier requests wait.
    pub(crate) fn is_congested(&self, limits: &Limits) -> bool {
        self.output_bytes > limits.output_bytes_max || !self.held.is_empty()
    }

    /// Keeps a request until [`Connection::release_held`]; order is kept, since nothing is read meanwhile.
    pub(crate) fn hold(&mut self, record: Vec<u8>) {
        self.held_bytes += record.len();
        self.held.push_back(record);
    }

    /// Gives back the requests that waited, once the peer has taken enough of its replies.
    pub(crate) fn release_held(&mut self, limits: &Limits, stats: &Stats, requests: &mut Vec<Request>) {
        if self.held.is_empty() || self.closing || self.output_bytes > limits.output_bytes_max {
            return;
        }
        let (connection, peer) = (self.id, self.peer);
        let held = std::mem::take(&mut self.held).into_iter();
        requests.extend(held.map(|record| Request { connection, peer, record }));
        self.held_bytes = 0;
        let _ = self.account(limits, stats);
    }

    /// Appends a reply and fills in its record mark.
    pub(crate) fn queue(&mut self, mut record: Vec<u8>, stats: &Stats) {
        let length = record.len().saturating_sub(RECORD_MARK_LEN);
        if self.closing || length == 0 {
            return;
        }
        if let Some(mark) = record.first_chunk_mut::<RECORD_MARK_LEN>() {
            *mark = record_mark(length);
        }
        if self.output.is_empty() {
            self.output_since = Instant::now();
        }
        self.output_bytes += record.len();
        stats.output_bytes.fetch_add(record.len(), Ordering::Relaxed);
        self.output.push_back(record);
    }

    /// Closes once what is queued has been sent; nothing more is read.
    pub(crate) fn close_when_sent(&mut self) {
        self.closing = true;
    }

    /// Sends as much as the socket takes.
    pub(crate) fn write(&mut self, stats: &Stats) -> Progress {
        while !self.output.is_empty() {
            match self.send() {
                Ok(0) => return Progress::Closed,
                Ok(count) => {
                    Stats::add(&stats.sent_bytes, count as u64);
                    self.output_since = Instant::now();
                    self.drop_sent(count, stats);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Progress::Open,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Progress::Closed,
            }
        }
        if self.closing { Progress::Closed } else { Progress::Open }
    }

    fn send(&mut self) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let mut used = 0;
        for (slice, record) in slices.iter_mut().zip(&self.output) {
            let start = if used == 0 { self.sent } else { 0 };
            *slice = IoSlice::new(record.get(start..).unwrap_or_default());
            used += 1;
        }
        (&self.stream).write_vectored(slices.get(..used).unwrap_or_default())
    }

    fn drop_sent(&mut self, count: usize, stats: &Stats) {
        stats.output_bytes.fetch_sub(count.min(self.output_bytes), Ordering::Relaxed);
        self.output_bytes = self.output_bytes.saturating_sub(count);
        self.sent += count;
        while let Some(first) = self.output.front().map(Vec::len).filter(|length| *length <= self.sent) {
            self.sent -= first;
            self.output.pop_front();
        }
        if self.output.is_empty() {
            // An idle connection keeps no memory.
            self.output.shrink_to_fit();
        }
    }

    /// Says whether the connection ends once its replies are sent, so that nothing more is served on it.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing
    }

    pub(crate) fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Says whether more requests may be read: not while the peer leaves its replies lying.
    pub(crate) fn wants_input(&self, limits: &Limits) -> bool {
        !self.closing && !self.is_congested(limits)
    }

    /// Remembers what the shard watches for and says whether that changed.
    pub(crate) fn interest_changed(&mut self, interest: EventFlags) -> bool {
        std::mem::replace(&mut self.interest, interest) != interest
    }

    pub(crate) fn is_overdue(&self, now: Instant, limits: &Limits) -> bool {
        let reading =
            self.record_since.is_some_and(|since| now.duration_since(since) > limits.record_time_max);
        let writing = self.has_output() && now.duration_since(self.output_since) > limits.output_time_max;
        reading || writing
    }

    /// Gives back what is counted for the connection.
    pub(crate) fn release(self, stats: &Stats) {
        stats.input_bytes.fetch_sub(self.counted, Ordering::Relaxed);
        stats.output_bytes.fetch_sub(self.output_bytes, Ordering::Relaxed);
    }
}
