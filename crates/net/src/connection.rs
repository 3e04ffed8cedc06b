//! One TCP connection: its input and output, back-pressure, and its end.
//!
//! A connection is not read while its peer leaves replies unread, while too many of its calls are
//! deferred, or while memory is short. Requests that have been read by then are held.

use crate::driver::{EpollDriver, Interest, Link, Ready};
use crate::image::ConnectionImage;
use crate::input::Input;
use crate::ledger::{Budget, ConnectionAccount, address};
use crate::output::Output;
use crate::requests::{RequestQueue, memory_of};
use crate::shared::SharedParts;
use crate::shares::TenantIndex;
use crate::strangers::TurnTicket;
use crate::traffic::Traffic;
use crate::{Request, Stats};
use image::SharedBytes;
use pipes::Attachment;
use rpc::{ConnectionId, record_mark};
use rustix::fd::OwnedFd;
use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// The outcome of a step of input or output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IoProgress {
    /// The step is complete; wait for the next event.
    Open,
    /// The step moved this many bytes, and another one can follow at once.
    More(usize),
    /// The connection has ended: the peer closed it, or sent a malformed record.
    Closed,
}

/// The state of a connection on its shard.
pub(crate) struct Connection {
    id: ConnectionId,
    account: Arc<ConnectionAccount>,
    link: Link,
    input: Input,
    output: Output,
    /// Requests that wait for their turn, or until the peer has read its replies.
    held: VecDeque<Vec<u8>>,
    held_bytes: usize,
    /// When the last complete record arrived.
    heard: Instant,
    /// Whether the next request may begin although others are held.
    turn: bool,
    /// Whether the current batch has a request of the connection.
    served: bool,
    /// Deferred calls, and the bytes that they hold.
    deferred: usize,
    deferred_bytes: usize,
    closing: bool,
    traffic: Traffic,
    /// The tenant that it counts for, once it is trusted.
    tenant: Option<TenantIndex>,
    /// Class of the last reply.
    class: u8,
    /// For strangers: the place in the lane, and the unused readiness.
    ticket: Option<TurnTicket>,
    readiness: Readiness,
    /// The time until which nothing is read or served, since its peer is over a limit.
    paused: Option<Instant>,
}

/// Readiness of a stranger since its last turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Readiness {
    /// The socket has bytes to read.
    pub(crate) input: bool,
    /// There is room for bytes to send.
    pub(crate) output: bool,
    /// The connection has ended.
    pub(crate) over: bool,
}

impl Connection {
    pub(crate) fn new(
        id: ConnectionId,
        link: Link,
        account: Arc<ConnectionAccount>,
        shared: &SharedParts,
    ) -> Self {
        Self {
            id,
            account,
            link,
            input: Input::new(shared.limits.record_size_max),
            output: Output::new(),
            held: VecDeque::new(),
            held_bytes: 0,
            heard: Instant::now(),
            turn: false,
            served: false,
            deferred: 0,
            deferred_bytes: 0,
            closing: false,
            traffic: Traffic::default(),
            tenant: None,
            class: 0,
            ticket: None,
            readiness: Readiness::default(),
            paused: None,
        }
    }

    /// Marks the connection as trusted, and moves its socket to the main epoll set.
    ///
    /// # Errors
    /// The error of epoll; close the connection.
    pub(crate) fn trust(&mut self, driver: &mut EpollDriver, shared: &SharedParts) -> io::Result<()> {
        shared.ledger.trust(&self.account);
        match self.account.is_trusted() {
            true => {
                self.input.reuse_memory();
                driver.promote(&mut self.link)
            }
            // The ledger has condemned it meanwhile.
            false => Ok(()),
        }
    }

    /// Serves nothing until a time, unless it has to wait longer already. Returns whether that has
    /// changed.
    pub(crate) fn pause(&mut self, until: Instant) -> bool {
        let longer = self.paused.is_none_or(|paused| paused < until);
        if longer {
            self.paused = Some(until);
        }
        longer
    }

    /// Ends a pause that is over.
    pub(crate) fn end_pause(&mut self, now: Instant) {
        self.paused = self.paused.filter(|until| *until > now);
    }

    /// Records that a stranger is ready.
    pub(crate) fn report(&mut self, ready: Ready) {
        self.link.disarm();
        match ready {
            Ready::Mail => {}
            Ready::Input(_) => self.readiness.input = true,
            Ready::Output(_) => self.readiness.output = true,
            Ready::Over(_) => self.readiness.over = true,
        }
    }

    /// Takes the readiness since the last turn.
    pub(crate) fn take_readiness(&mut self) -> Readiness {
        self.ticket = None;
        std::mem::take(&mut self.readiness)
    }

    /// Returns the place in the lane of strangers.
    pub(crate) fn ticket(&mut self) -> &mut Option<TurnTicket> {
        &mut self.ticket
    }

    /// Returns the address under which the peer takes turns.
    pub(crate) fn address(&self) -> IpAddr {
        address(self.account.peer().ip())
    }

    /// Reads once, and appends the complete records.
    pub(crate) fn read(
        &mut self,
        driver: &mut EpollDriver,
        shared: &SharedParts,
        requests: &mut RequestQueue,
    ) -> IoProgress {
        if !self.may_read(shared) || self.waits_for_memory(shared) {
            return IoProgress::Open;
        }
        let received = match driver.receive(&self.link, &mut self.input, self.account.is_trusted()) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return IoProgress::Open,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return IoProgress::More(0),
            Err(_) => return IoProgress::Closed,
        };
        Stats::add(&shared.stats.received_bytes, received.count as u64);
        let known = requests.len();
        if received.count == 0 || self.take_records(shared, requests) == IoProgress::Closed {
            return IoProgress::Closed;
        }
        self.note_input(shared, requests.len() > known);
        // Strangers are read in small steps, in turn; the rest waits in the kernel.
        if received.more && self.account.is_trusted() {
            IoProgress::More(received.count)
        } else {
            IoProgress::Open
        }
    }

    fn take_records(&mut self, shared: &SharedParts, requests: &mut RequestQueue) -> IoProgress {
        let (connection, peer) = (self.id, self.account.peer());
        for record in self.input.records() {
            self.heard = Instant::now();
            self.traffic.request(record.len());
            requests.push(Request { connection, peer, record });
        }
        if let Some(error) = self.input.error() {
            Stats::add(&shared.stats.malformed, 1);
            shared.stats.log_closed(peer, error);
            return IoProgress::Closed;
        }
        IoProgress::Open
    }

    /// Accounts for the memory of unfinished and held requests after some were read.
    pub(crate) fn note_input(&mut self, shared: &SharedParts, progress: bool) {
        self.input.note_time();
        let bytes = self.input.memory() + self.held_bytes;
        shared.ledger.note(&self.account, Budget::Input, bytes, progress);
    }

    /// Accounts for the same memory after a request was held. The connection is not read meanwhile.
    fn note_held(&self, shared: &SharedParts) {
        let bytes = self.input.memory() + self.held_bytes;
        shared.ledger.note(&self.account, Budget::Input, bytes, false);
    }

    /// Accounts for the memory of replies that wait.
    fn note_output(&self, shared: &SharedParts, progress: bool) {
        shared.ledger.note(&self.account, Budget::Output, self.output.memory(), progress);
    }

    /// Returns whether a further request must wait: the connection is full, or earlier requests are
    /// held.
    fn is_congested(&self, shared: &SharedParts) -> bool {
        self.is_full(shared) || !self.held.is_empty()
    }

    fn is_full(&self, shared: &SharedParts) -> bool {
        let SharedParts { limits, ledger, .. } = shared;
        let (trusted, waiting) = (self.account.is_trusted(), self.output.memory());
        let output_max = if trusted { limits.output_bytes_max } else { limits.untrusted_output_bytes_max };
        waiting > output_max
            || self.paused.is_some()
            // One call at a time; a batch of each connection would exhaust the budget.
            || (waiting > 0 || self.served) && ledger.is_short_for(&self.account, Budget::Output)
            || self.deferred >= limits.deferred_requests_max
            || self.deferred_bytes > limits.deferred_bytes_max
            // Strangers have one call at a time, and take turns.
            || !trusted && (self.served || self.deferred > 0)
    }

    /// Returns whether a request may be served now; if so, the batch has it.
    pub(crate) fn begin_call(&mut self, shared: &SharedParts) -> bool {
        let may = std::mem::take(&mut self.turn) || !self.is_congested(shared);
        self.served |= may;
        may
    }

    /// Records that the service has handled a request.
    pub(crate) fn end_call(&mut self) {
        self.served = false;
        self.traffic.done();
    }

    /// Counts a deferred call.
    pub(crate) fn note_deferred(&mut self, bytes: usize, shared: &SharedParts) {
        self.deferred += 1;
        self.deferred_bytes += bytes;
        self.traffic.defer();
        shared.stats.deferred.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a deferred call that has completed.
    pub(crate) fn completed(&mut self, bytes: usize, shared: &SharedParts) {
        self.deferred = self.deferred.saturating_sub(1);
        self.deferred_bytes = self.deferred_bytes.saturating_sub(bytes);
        shared.stats.deferred.fetch_sub(1, Ordering::Relaxed);
    }

    /// Holds a request until [`Connection::release_held`]. The connection is not read meanwhile,
    /// which keeps the order.
    pub(crate) fn hold(&mut self, record: Vec<u8>, shared: &SharedParts) {
        self.held_bytes += memory_of(&record);
        self.held.push_back(record);
        self.note_held(shared);
    }

    /// Holds a request that may have been released already: then it is the first.
    pub(crate) fn hold_again(&mut self, record: Vec<u8>, shared: &SharedParts) {
        self.traffic.done();
        self.held_bytes += memory_of(&record);
        match std::mem::take(&mut self.turn) {
            true => self.held.push_front(record),
            false => self.held.push_back(record),
        }
        self.note_held(shared);
    }

    /// Makes an image of the connection, and copies its socket.
    ///
    /// # Errors
    /// A deferred call, or an error of the kernel's.
    pub(crate) fn export(&mut self) -> io::Result<(ConnectionImage, OwnedFd)> {
        let Self {
            id,
            account,
            link,
            input,
            output,
            held,
            held_bytes: _,
            heard: _,
            turn: _,
            served,
            deferred,
            deferred_bytes: _,
            closing,
            traffic: _,
            // The next process learns it from the next call.
            tenant: _,
            class: _,
            ticket: _,
            readiness: _,
            // At most a few seconds of a limit, which the next process forgives.
            paused: _,
        } = self;
        if *served || *deferred > 0 {
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, "a call is in progress"));
        }
        let mut received = Vec::new();
        for record in held.iter() {
            received.extend_from_slice(&record_mark(record.len()));
            received.extend_from_slice(record);
        }
        input.append_pending(&mut received);
        let image = ConnectionImage {
            id: id.0,
            order: account.order(),
            peer: account.peer(),
            trusted: account.is_trusted(),
            input: SharedBytes::from(&*received),
            output: SharedBytes::from(output.bytes()?),
            closing: *closing,
        };
        Ok((image, link.socket().try_clone_to_owned()?))
    }

    /// Continues a connection of another process. Returns false if it has to end.
    pub(crate) fn inherit(
        &mut self,
        image: ConnectionImage,
        driver: &mut EpollDriver,
        shared: &SharedParts,
    ) -> bool {
        if self.account.is_trusted() {
            self.input.reuse_memory();
            if driver.promote(&mut self.link).is_err() {
                return false;
            }
        }
        self.input.push(&image.input.0);
        for record in self.input.records() {
            self.held_bytes += memory_of(&record);
            self.held.push_back(record);
        }
        self.output.push_bytes(image.output.0.to_vec());
        self.closing = image.closing;
        self.note_input(shared, true);
        self.note_output(shared, true);
        self.input.error().is_none()
    }

    /// Returns whether held requests may continue.
    pub(crate) fn has_held(&self, shared: &SharedParts) -> bool {
        !self.held.is_empty() && !self.closing && !self.is_full(shared)
    }

    /// Releases the held requests; for a stranger, only the first.
    pub(crate) fn release_held(&mut self, shared: &SharedParts, requests: &mut RequestQueue) {
        let (connection, peer) = (self.id, self.account.peer());
        self.turn = !self.account.is_trusted();
        let count = if self.turn { 1.min(self.held.len()) } else { self.held.len() };
        for record in self.held.drain(..count) {
            self.held_bytes -= memory_of(&record);
            requests.push(Request { connection, peer, record });
        }
        if self.held.is_empty() {
            self.held = VecDeque::new();
        }
        self.note_input(shared, true);
    }

    /// Returns whether the service vouches for the connection.
    pub(crate) fn is_trusted(&self) -> bool {
        self.account.is_trusted()
    }

    /// Appends a reply to the output of the connection.
    pub(crate) fn queue(
        &mut self,
        record: Vec<u8>,
        attached: Option<Attachment>,
        class: u8,
        shared: &SharedParts,
    ) {
        self.traffic.reply(record.len() + attached.as_ref().map_or(0, |attached| attached.data.len()));
        self.class = class;
        self.append(record, attached, shared);
    }

    /// Appends a record that answers no request, such as a callback.
    pub(crate) fn post(&mut self, record: Vec<u8>, shared: &SharedParts) {
        self.append(record, None, shared);
    }

    fn append(&mut self, record: Vec<u8>, attached: Option<Attachment>, shared: &SharedParts) {
        if self.closing {
            return;
        }
        match attached {
            None => self.output.push(record),
            Some(attached) => self.output.push_attached(record, attached),
        }
        self.note_output(shared, false);
    }

    /// Closes the connection once its replies are sent, without reading further.
    pub(crate) fn close_when_sent(&mut self) {
        self.closing = true;
    }

    /// Sends once, and moves completely sent replies to `spent`.
    pub(crate) fn write(&mut self, shared: &SharedParts, spent: &mut Vec<Vec<u8>>) -> IoProgress {
        if self.output.is_empty() {
            return if self.closing { IoProgress::Closed } else { IoProgress::Open };
        }
        let sent = match EpollDriver::send(&self.link, &mut self.output, spent) {
            Ok(sent) if sent.count > 0 => sent,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return IoProgress::Open,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return IoProgress::More(0),
            Ok(_) | Err(_) => return IoProgress::Closed,
        };
        Stats::add(&shared.stats.sent_bytes, sent.count as u64);
        self.note_output(shared, true);
        match self.output.is_empty() {
            true if self.closing => IoProgress::Closed,
            false if sent.more => IoProgress::More(sent.count),
            _ => IoProgress::Open,
        }
    }

    /// Registers the readiness that the connection waits for; none of input if it `waits` for
    /// memory.
    pub(crate) fn watch(
        &mut self,
        driver: &mut EpollDriver,
        shared: &SharedParts,
        waits: bool,
    ) -> IoProgress {
        let interest = Interest { input: !waits && self.may_read(shared), output: self.has_output() };
        // The peer is not slow while the server does not read.
        if interest.input {
            self.input.note_time()
        } else {
            self.input.stop_time()
        }
        match driver.watch(&mut self.link, interest) {
            Ok(()) => IoProgress::Open,
            Err(_) => IoProgress::Closed,
        }
    }

    /// Returns whether the connection closes once its replies are sent, so that no request is
    /// served.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing
    }

    /// Returns the tenant that it counts for.
    pub(crate) fn tenant(&mut self) -> &mut Option<TenantIndex> {
        &mut self.tenant
    }

    /// Returns the recent traffic.
    pub(crate) fn traffic(&mut self) -> &mut Traffic {
        &mut self.traffic
    }

    /// Returns the class of the last reply.
    pub(crate) fn class(&self) -> u8 {
        self.class
    }

    pub(crate) fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Returns whether more requests may be read, as far as the connection itself is concerned.
    fn may_read(&self, shared: &SharedParts) -> bool {
        !self.closing && !self.is_congested(shared)
    }

    /// Returns whether no further request is read because memory is short. A request in progress is
    /// always read to its end.
    pub(crate) fn waits_for_memory(&self, shared: &SharedParts) -> bool {
        !self.input.is_mid_record() && shared.ledger.is_short_for(&self.account, Budget::Input)
    }

    pub(crate) fn is_overdue(&self, now: Instant, shared: &SharedParts) -> bool {
        let limits = &shared.limits;
        let reading =
            self.input.record_since().is_some_and(|since| now.duration_since(since) > limits.record_time_max);
        let writing = self.has_output() && now.duration_since(self.output.since()) > limits.output_time_max;
        let working = self.deferred > 0 || self.has_output() || self.input.is_mid_record();
        let silent = !self.account.is_trusted()
            && !working
            && now.duration_since(self.heard) > limits.untrusted_idle_time_max;
        // A peer that has vanished in the middle of a request must not keep others waiting.
        let stalled = shared.ledger.is_short(Budget::Input)
            && self.input.is_stalled(now)
            // It is no fault of the peer that the shard has not read for a while.
            && !self.link.has_input();
        reading || writing || silent || stalled
    }

    /// Closes the connection, and releases its memory and counts. With `ends` it ends for other
    /// processes that hold its socket, too.
    pub(crate) fn close(self, driver: &EpollDriver, shared: &SharedParts, ends: bool) {
        driver.remove(&self.link, ends);
        shared.ledger.close(&self.account);
        shared.stats.deferred.fetch_sub(self.deferred, Ordering::Relaxed);
    }
}
