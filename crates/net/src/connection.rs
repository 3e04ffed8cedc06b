//! One TCP connection: bytes in, records out, replies back.

use crate::{Limits, Request, Stats};
use rpc::ConnectionId;
use rpc::record::{RECORD_MARK_LEN, RecordLimits, RecordReader, patch_record_mark};
use rustix::event::epoll::EventFlags;
use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
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
    /// Bytes of the unfinished record that are counted in `Stats::input_bytes`.
    counted: usize,
    record_since: Option<Instant>,
    output: VecDeque<Vec<u8>>,
    /// Bytes of the first reply that the kernel has taken already.
    sent: usize,
    output_bytes: usize,
    output_since: Instant,
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
            counted: 0,
            record_since: None,
            output: VecDeque::new(),
            sent: 0,
            output_bytes: 0,
            output_since: Instant::now(),
            interest: EventFlags::IN,
            closing: false,
        }
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
            let wanted = scratch.len();
            let (count, full) = match self.receive(scratch) {
                Ok(0) => return Progress::Closed,
                Ok(count) => (count, count == wanted),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return Progress::Closed,
            };
            Stats::add(&stats.received_bytes, count as u64);
            budget = budget.saturating_sub(count);
            if self.take_records(stats, requests) == Progress::Closed || !self.account(limits, stats) {
                return Progress::Closed;
            }
            if !full && self.reader.direct_len() == 0 {
                break;
            }
        }
        Progress::Open
    }
}
