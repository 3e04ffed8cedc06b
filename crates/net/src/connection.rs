//! One TCP connection: which of its requests may go on, and when it is over.

use crate::driver::{Driver, Interest, Link};
use crate::input::Input;
use crate::output::Output;
use crate::traffic::Traffic;
use crate::{Limits, Request, Stats};
use rpc::ConnectionId;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// How a read or a write went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// As far as it could go for now.
    Open,
    /// One step, after which there may be more to do at once; the bytes that it moved.
    More(usize),
    /// The connection is over: the peer closed it, or sent what is no record.
    Closed,
}

/// What is under way on a connection.
pub(crate) struct Connection {
    id: ConnectionId,
    peer: SocketAddr,
    link: Link,
    input: Input,
    output: Output,
    /// Bytes of unfinished and held requests that are counted in `Stats::input_bytes`.
    counted: usize,
    /// Requests that wait until the peer has taken enough of its replies.
    held: VecDeque<Vec<u8>>,
    held_bytes: usize,
    /// Calls that are carried out elsewhere, and the bytes that they hold.
    away: usize,
    away_bytes: usize,
    closing: bool,
    traffic: Traffic,
    /// Of the last reply.
    class: u8,
}

impl Connection {
    pub(crate) fn new(id: ConnectionId, link: Link, peer: SocketAddr, limits: &Limits) -> Self {
        Self {
            id,
            peer,
            link,
            input: Input::new(limits.record_size_max),
            output: Output::new(),
            counted: 0,
            held: VecDeque::new(),
            held_bytes: 0,
            away: 0,
            away_bytes: 0,
            closing: false,
            traffic: Traffic::default(),
            class: 0,
        }
    }

    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Reads once, and appends the records that are whole.
    pub(crate) fn read(
        &mut self,
        driver: &mut Driver,
        limits: &Limits,
        stats: &Stats,
        requests: &mut Vec<Request>,
    ) -> Progress {
        if !self.wants_input(limits) {
            return Progress::Open;
        }
        let received = match driver.receive(&self.link, &mut self.input) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Progress::Open,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Progress::More(0),
            Err(_) => return Progress::Closed,
        };
        Stats::add(&stats.received_bytes, received.count as u64);
        if received.count == 0
            || self.take_records(stats, requests) == Progress::Closed
            || self.account(limits, stats) == Progress::Closed
        {
            return Progress::Closed;
        }
        if received.more { Progress::More(received.count) } else { Progress::Open }
    }

    fn take_records(&mut self, stats: &Stats, requests: &mut Vec<Request>) -> Progress {
        let (connection, peer) = (self.id, self.peer);
        for record in self.input.records() {
            self.traffic.request(record.len());
            requests.push(Request { connection, peer, record });
        }
        if let Some(error) = self.input.error() {
            Stats::add(&stats.malformed, 1);
            stats.log_closed(peer, error);
            return Progress::Closed;
        }
        Progress::Open
    }

    /// Counts what unfinished and held requests take; over the limit of all connections together this one has to go.
    pub(crate) fn account(&mut self, limits: &Limits, stats: &Stats) -> Progress {
        let holds = self.input.memory() + self.held_bytes;
        stats.input_bytes.fetch_add(holds, Ordering::Relaxed);
        let before = stats.input_bytes.fetch_sub(self.counted, Ordering::Relaxed);
        let total = before.saturating_sub(self.counted);
        self.counted = holds;
        self.input.note_time();
        if holds > 0 && total > limits.input_bytes_max {
            Stats::add(&stats.overdue, 1);
            stats.log_closed(self.peer, format_args!("requests under way hold {total} bytes"));
            return Progress::Closed;
        }
        Progress::Open
    }

    /// Says whether a further request has to wait: the peer leaves its replies lying, too many of its calls are away, or
    /// earlier requests wait.
    pub(crate) fn is_congested(&self, limits: &Limits) -> bool {
        self.is_full(limits) || !self.held.is_empty()
    }

    fn is_full(&self, limits: &Limits) -> bool {
        self.output.bytes() > limits.output_bytes_max
            || self.away >= limits.away_requests_max
            || self.away_bytes > limits.away_bytes_max
    }

    /// Counts a call that is carried out elsewhere.
    pub(crate) fn went_away(&mut self, bytes: usize, stats: &Stats) {
        self.away += 1;
        self.away_bytes += bytes;
        stats.away.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one that has come back.
    pub(crate) fn came_back(&mut self, bytes: usize, stats: &Stats) {
        self.away = self.away.saturating_sub(1);
        self.away_bytes = self.away_bytes.saturating_sub(bytes);
        stats.away.fetch_sub(1, Ordering::Relaxed);
    }

    /// Keeps a request until [`Connection::release_held`]; order is kept, since nothing is read meanwhile.
    pub(crate) fn hold(&mut self, record: Vec<u8>) {
        self.held_bytes += record.len();
        self.held.push_back(record);
    }

    /// Gives back the requests that waited, once the peer has taken enough of its replies and few enough are away.
    pub(crate) fn release_held(&mut self, limits: &Limits, stats: &Stats, requests: &mut Vec<Request>) {
        if self.held.is_empty() || self.closing || self.is_full(limits) {
            return;
        }
        let (connection, peer) = (self.id, self.peer);
        let held = std::mem::take(&mut self.held).into_iter();
        requests.extend(held.map(|record| Request { connection, peer, record }));
        self.held_bytes = 0;
        let _ = self.account(limits, stats);
    }

    /// Appends a reply.
    pub(crate) fn queue(&mut self, record: Vec<u8>, class: u8, stats: &Stats) {
        self.traffic.reply(record.len());
        self.class = class;
        if !self.closing {
            self.output.push(record, stats);
        }
    }

    /// Appends a record that answers no request.
    pub(crate) fn post(&mut self, record: Vec<u8>, stats: &Stats) {
        self.output.push(record, stats);
    }

    /// Closes once what is queued has been sent; nothing more is read.
    pub(crate) fn close_when_sent(&mut self) {
        self.closing = true;
    }

    /// Sends once, as much as one step may, and moves the replies that are sent to `spent`.
    pub(crate) fn write(&mut self, stats: &Stats, spent: &mut Vec<Vec<u8>>) -> Progress {
        if !self.output.is_empty() {
            match Driver::send(&self.link, &self.output) {
                Ok(sent) if sent.count == 0 => return Progress::Closed,
                Ok(sent) => {
                    Stats::add(&stats.sent_bytes, sent.count as u64);
                    self.output.advance(sent.count, stats, spent);
                    if !self.output.is_empty() {
                        return if sent.more { Progress::More(sent.count) } else { Progress::Open };
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Progress::Open,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Progress::More(0),
                Err(_) => return Progress::Closed,
            }
        }
        if self.closing { Progress::Closed } else { Progress::Open }
    }

    /// Has the driver report what the connection waits for.
    pub(crate) fn watch(&mut self, driver: &mut Driver, limits: &Limits) -> Progress {
        let interest = Interest { input: self.wants_input(limits), output: self.has_output() };
        match driver.watch(&mut self.link, interest) {
            Ok(()) => Progress::Open,
            Err(_) => Progress::Closed,
        }
    }

    /// Says whether the connection ends once its replies are sent, so that nothing more is served on it.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing
    }

    /// What it has done lately.
    pub(crate) fn traffic(&mut self) -> &mut Traffic {
        &mut self.traffic
    }

    /// The class of the last reply.
    pub(crate) fn class(&self) -> u8 {
        self.class
    }

    pub(crate) fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Says whether more requests may be read: not while the peer leaves its replies lying.
    fn wants_input(&self, limits: &Limits) -> bool {
        !self.closing && !self.is_congested(limits)
    }

    pub(crate) fn is_overdue(&self, now: Instant, limits: &Limits) -> bool {
        let reading =
            self.input.record_since().is_some_and(|since| now.duration_since(since) > limits.record_time_max);
        let writing = self.has_output() && now.duration_since(self.output.since()) > limits.output_time_max;
        reading || writing
    }

    /// Closes the connection and gives back what is counted for it.
    pub(crate) fn close(self, stats: &Stats) {
        stats.input_bytes.fetch_sub(self.counted, Ordering::Relaxed);
        stats.away.fetch_sub(self.away, Ordering::Relaxed);
        self.output.release(stats);
    }
}
