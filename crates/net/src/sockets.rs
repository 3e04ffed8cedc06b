//! The connections of one shard: from readiness to requests, and from replies to the kernel.
//!
//! Trusted connections are reported one by one. Strangers wait in their lane until
//! [`Sockets::open_lane`] finds that they may be served.

mod charges;

use crate::connection::{Connection, IoProgress};
use crate::driver::{EpollDriver, Ready};
use crate::ids::IdHash;
use crate::ledger::{BUSY_TIME, Budget, ConnectionAccount};
use crate::mailbox::{Arrival, Mailbox};
use crate::requests::RequestQueue;
use crate::shared::SharedParts;
use crate::shares::{TenantShares, WeightedTenant};
use crate::stillness::Exported;
use crate::strangers::Strangers;
use crate::{Action, Reply, Request, Stats};
use rpc::{ConnectionId, memory};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Interval at which connections that wait for memory are checked.
const SHORT_INTERVAL: Duration = Duration::from_millis(10);
/// The inverse of the largest share of time that these checks take, and the longest time between
/// two of them.
const SHORT_PART: u32 = 20;
const SHORT_PAUSE: Duration = Duration::from_millis(100);

/// The connections of a shard, with the driver that waits for them.
pub(crate) struct Sockets {
    driver: EpollDriver,
    mailbox: Arc<Mailbox>,
    connections: HashMap<u64, Connection, IdHash>,
    shared: Arc<SharedParts>,
    /// Requests for the next tick.
    pub(crate) requests: RequestQueue,
    /// Connections to close once their requests have been served.
    ended: Vec<u64>,
    /// Closed connections that are not yet reported to the service.
    closed: Vec<ConnectionId>,
    /// Trusted connections with held requests that may continue.
    releasable: HashSet<u64>,
    /// Connections that are not read because memory is short.
    paused: HashSet<u64>,
    /// When these are checked next.
    next_check: Instant,
    /// Whether there were such connections at the last sweep.
    was_short: bool,
    /// Readiness that was reported during a turn of the interactive lane, for other connections.
    deferred: HashSet<Ready>,
    /// The lane of connections that are not trusted.
    strangers: Strangers,
    /// The shares of tenants in the time of this shard.
    pub(crate) shares: TenantShares,
    /// Connections over a limit of a rate, by the end of their pause.
    sleepers: BinaryHeap<Reverse<(Instant, u64)>>,
    /// Scratch memory for their readiness.
    reports: Vec<Ready>,
    /// Whether a trusted connection has received or sent anything since the last wait.
    active: bool,
    /// Replies that were sent and whose memory can be reused.
    spent: Vec<Vec<u8>>,
    /// Whether no request is served, see [`Sockets::drain`].
    draining: bool,
    /// Time spent on sending since a caller last reset it.
    pub(crate) sending: Duration,
    /// The start of the last wait, if it only asked for events while tenants compete.
    asked: Option<Instant>,
}

impl Sockets {
    pub(crate) fn new(mailbox: &Arc<Mailbox>, shared: Arc<SharedParts>) -> io::Result<Self> {
        Ok(Self {
            driver: EpollDriver::new(mailbox)?,
            mailbox: mailbox.clone(),
            connections: HashMap::default(),
            shared,
            requests: RequestQueue::default(),
            ended: Vec::new(),
            closed: Vec::new(),
            releasable: HashSet::new(),
            paused: HashSet::new(),
            next_check: Instant::now(),
            was_short: false,
            deferred: HashSet::new(),
            strangers: Strangers::new(Instant::now()),
            shares: TenantShares::new(Instant::now()),
            sleepers: BinaryHeap::new(),
            reports: Vec::new(),
            active: false,
            spent: Vec::new(),
            draining: false,
            sending: Duration::ZERO,
            asked: None,
        })
    }

    /// Waits until there is work, at most for `timeout`.
    pub(crate) fn wait(&mut self, timeout: Duration, ready: &mut Vec<Ready>) {
        if std::mem::take(&mut self.active) {
            self.shared.ledger.note_activity();
        }
        let timeout = timeout.min(self.watch_strangers()).min(self.wake_sleepers());
        let timeout = match (self.deferred.is_empty() && self.releasable.is_empty(), self.paused.is_empty()) {
            (true, true) => timeout,
            (true, false) => timeout.min(SHORT_INTERVAL),
            (false, _) => Duration::ZERO,
        };
        self.asked = (timeout.is_zero() && self.shares.is_contended()).then(Instant::now);
        self.poll_for(timeout, ready);
        // The kernel reports most of them again.
        if !self.deferred.is_empty() {
            ready.iter().for_each(|event| _ = self.deferred.remove(event));
            ready.extend(self.deferred.drain());
        }
        self.resume_paused();
    }

    /// Reads again from connections that no longer have to wait for memory. One peer can have
    /// thousands that do, so that a check takes as long as many requests of others.
    fn resume_paused(&mut self) {
        if self.paused.is_empty() {
            return;
        }
        let start = Instant::now();
        if start < self.next_check {
            return;
        }
        let Self { paused, connections, shared, .. } = self;
        let waits = |id: &u64| connections.get(id).is_some_and(|it| it.waits_for_memory(shared));
        let resumed: Vec<u64> = paused.extract_if(|id| !waits(id)).collect();
        self.next_check = start + (start.elapsed() * SHORT_PART).min(SHORT_PAUSE);
        resumed.into_iter().for_each(|id| self.read_done(id));
    }

    /// Continues the connections whose pause is over, and returns the time until the next one.
    fn wake_sleepers(&mut self) -> Duration {
        if self.sleepers.is_empty() {
            return Duration::MAX;
        }
        let now = Instant::now();
        while let Some(Reverse((until, id))) = self.sleepers.peek().copied() {
            if until > now {
                return until - now;
            }
            self.sleepers.pop();
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.end_pause(now);
                self.write_done(id);
            }
        }
        Duration::MAX
    }

    /// Appends current readiness without waiting.
    pub(crate) fn poll(&mut self, ready: &mut Vec<Ready>) {
        self.poll_for(Duration::ZERO, ready);
    }

    fn poll_for(&mut self, timeout: Duration, ready: &mut Vec<Ready>) {
        if let Err(error) = self.driver.wait(timeout, ready) {
            tracing::error!("waiting for events failed: {error}");
        }
    }

    /// Lets the next wait end for strangers if they may be served, and returns its longest
    /// duration.
    fn watch_strangers(&mut self) -> Duration {
        let wait = self.lane_wait();
        if let Err(error) = self.driver.watch_strangers(wait.is_zero()) {
            tracing::error!("strangers cannot be watched: {error}");
        }
        match wait {
            Duration::ZERO if self.strangers.is_empty() => Duration::MAX,
            // The server may become idle before the allowance opens.
            wait => wait.min(BUSY_TIME),
        }
    }

    /// Finds the ready strangers if the lane may be served now. Returns whether there are any.
    pub(crate) fn open_lane(&mut self) -> bool {
        if !self.lane_wait().is_zero() {
            return false;
        }
        let mut ready = std::mem::take(&mut self.reports);
        if self.driver.has_ready_strangers()
            && let Err(error) = self.driver.poll_strangers(&mut ready)
        {
            tracing::error!("looking for strangers failed: {error}");
        }
        for report in ready.drain(..) {
            let Some(id) = report.connection() else { continue };
            // The main set reports trusted connections.
            let Some(connection) = self.connections.get_mut(&id).filter(|it| !it.is_trusted()) else {
                continue;
            };
            connection.report(report);
            self.enqueue(id);
        }
        self.reports = ready;
        !self.strangers.is_empty()
    }

    /// Adds a stranger to the lane, if it is not there.
    fn enqueue(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let address = connection.address();
        connection.ticket().get_or_insert_with(|| self.strangers.push(address, id));
    }

    /// Runs one step of the stranger that has the turn: sends, and then releases one held call or
    /// reads once. Returns false if no stranger has work.
    pub(crate) fn step_stranger(&mut self) -> bool {
        let Some(id) = self.strangers.pop() else { return false };
        let Some(connection) = self.connections.get_mut(&id) else { return true };
        let reports = connection.take_readiness();
        if reports.over {
            self.end(id);
            return true;
        }
        if reports.output {
            self.write(id);
        }
        let Some(connection) = self.connections.get_mut(&id) else { return true };
        if connection.has_held(&self.shared) {
            connection.release_held(&self.shared, &mut self.requests);
        } else if reports.input {
            self.read_step(id);
        }
        self.read_done(id);
        true
    }

    /// Charges the time since `start` to strangers if trusted connections were active.
    pub(crate) fn close_lane(&mut self, start: Instant) {
        if self.is_busy() {
            let now = Instant::now();
            self.strangers.spend(now, now.saturating_duration_since(start));
        }
    }

    /// Returns how long strangers must wait; zero if they may be served now.
    fn lane_wait(&mut self) -> Duration {
        match self.is_busy() {
            true => self.strangers.wait(Instant::now()),
            false => Duration::ZERO,
        }
    }

    /// Returns whether trusted connections of any shard are active.
    fn is_busy(&self) -> bool {
        self.active || self.shared.ledger.is_busy()
    }

    /// Adds the connections from the mailbox.
    pub(crate) fn take_arrived(&mut self) {
        for arrival in self.mailbox.take() {
            self.add(arrival);
        }
        // A connection arrives before it is evicted.
        self.ended.extend(self.mailbox.take_evicted().iter().map(|connection| connection.0));
    }

    /// Adds a connection, unless it was evicted on its way or cannot be watched.
    fn add(&mut self, Arrival { id, stream, account, inherited }: Arrival) {
        if account.is_condemned() {
            return self.drop_arrived(&account);
        }
        let link = match self.driver.add(id.0, stream) {
            Ok(link) => link,
            Err(error) => {
                tracing::warn!("connection from {} could not be watched: {error}", account.peer());
                return self.drop_arrived(&account);
            }
        };
        let mut connection = Connection::new(id, link, account, &self.shared);
        let sound = inherited.is_none_or(|image| connection.inherit(image, &mut self.driver, &self.shared));
        self.connections.insert(id.0, connection);
        if !sound {
            self.ended.push(id.0);
        } else if !self.draining {
            // While the shard drains, this waits until it serves again.
            self.write_done(id.0);
        }
    }

    fn drop_arrived(&self, account: &ConnectionAccount) {
        self.shared.ledger.close(account);
        self.uncount();
    }

    /// Defers an event to the next wait.
    pub(crate) fn defer(&mut self, ready: Ready) {
        self.deferred.insert(ready);
    }

    /// Returns the number of connections.
    pub(crate) fn len(&self) -> usize {
        self.connections.len()
    }

    /// Reads once from a connection. Returns the memory that this took in bytes, if more may be
    /// available.
    pub(crate) fn read_step(&mut self, id: u64) -> Option<usize> {
        let connection = self.connections.get_mut(&id)?;
        self.active |= connection.is_trusted();
        let known = self.requests.bytes();
        match connection.read(&mut self.driver, &self.shared, &mut self.requests) {
            IoProgress::More(count) => return Some(count.max(self.requests.bytes() - known)),
            IoProgress::Open => {}
            // It closes after its requests have been served.
            IoProgress::Closed => self.ended.push(id),
        }
        None
    }

    /// Watches for further input of a connection.
    pub(crate) fn read_done(&mut self, id: u64) {
        if self.watch(id) == IoProgress::Closed {
            self.ended.push(id);
        }
    }

    fn watch(&mut self, id: u64) -> IoProgress {
        let Some(connection) = self.connections.get_mut(&id) else { return IoProgress::Open };
        // Asked once, since other shards change the answer: a connection that is not watched must
        // be among the paused ones.
        let waits = connection.waits_for_memory(&self.shared);
        if waits {
            self.paused.insert(id);
        }
        connection.watch(&mut self.driver, &self.shared, waits)
    }

    /// Reads once from a connection of the interactive lane.
    pub(crate) fn read_interactive(&mut self, id: u64, requests: &mut RequestQueue) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        self.active |= connection.is_trusted();
        if connection.read(&mut self.driver, &self.shared, requests) == IoProgress::Closed {
            self.ended.push(id);
        }
        self.read_done(id);
    }

    /// Sends the replies of a connection until its socket takes no more.
    pub(crate) fn write(&mut self, id: u64) {
        while self.write_step(id) {}
        self.write_done(id);
    }

    /// Sends once on a connection, and returns whether more can be sent at once.
    pub(crate) fn write_step(&mut self, id: u64) -> bool {
        let Some(connection) = self.connections.get_mut(&id) else { return false };
        let start = connection.has_output().then(Instant::now);
        self.active |= start.is_some() && connection.is_trusted();
        let progress = connection.write(&self.shared, &mut self.spent);
        self.spent.drain(..).for_each(memory::give);
        if let Some(took) = start.map(|start| start.elapsed()) {
            self.shared.stats.add_sending(connection.class(), took);
            self.sending += took;
        }
        match progress {
            IoProgress::More(_) => return true,
            IoProgress::Open => {}
            IoProgress::Closed => self.close(id),
        }
        false
    }

    /// Watches for room to send, and stops reading from a peer that does not read its replies.
    pub(crate) fn write_done(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let (has_held, is_trusted) = (connection.has_held(&self.shared), connection.is_trusted());
        match is_trusted {
            true if has_held => _ = self.releasable.insert(id),
            false if has_held => self.enqueue(id),
            _ => {}
        }
        if self.watch(id) == IoProgress::Closed {
            self.close(id);
        }
    }

    /// Holds all further requests.
    pub(crate) fn drain(&mut self) {
        self.draining = true;
    }

    /// Returns whether all further requests are held.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining
    }

    /// Serves requests again, held ones first.
    pub(crate) fn reopen(&mut self) {
        self.draining = false;
        let all: Vec<u64> = self.connections.keys().copied().collect();
        // Each is watched again, and those with held requests take their turns.
        all.into_iter().for_each(|id| self.write_done(id));
    }

    /// Makes images of all connections.
    ///
    /// # Errors
    /// A connection that has a deferred call, or an error of the kernel's.
    pub(crate) fn export(&mut self) -> io::Result<Exported> {
        self.connections.values_mut().map(Connection::export).collect()
    }

    /// Releases held requests of trusted connections, unless their tenants are put off.
    pub(crate) fn release(&mut self) {
        if self.draining {
            return;
        }
        let Self { releasable, connections, shared, requests, shares, .. } = self;
        releasable.retain(|id| {
            let Some(connection) = connections.get_mut(id) else { return false };
            if !connection.has_held(shared) {
                return false;
            }
            if connection.tenant().is_some_and(|tenant| !shares.admits(tenant)) {
                return true;
            }
            connection.release_held(shared, requests);
            false
        });
    }

    /// Returns the most requests of a batch.
    pub(crate) fn batch_requests_max(&self) -> usize {
        self.shared.limits.batch_requests_max
    }

    /// Returns the request if it may be served now. Otherwise it is held, or dropped if its
    /// connection is closing.
    pub(crate) fn admit(&mut self, request: Request) -> Option<Request> {
        let connection = self.connections.get_mut(&request.connection.0)?;
        if connection.is_closing() {
            return None;
        }
        if self.draining {
            connection.hold_again(request.record, &self.shared);
            return None;
        }
        if connection.begin_call(&self.shared) {
            return Some(request);
        }
        connection.hold(request.record, &self.shared);
        None
    }

    /// Applies the actions of the service.
    pub(crate) fn queue(&mut self, replies: impl Iterator<Item = Reply>) {
        for reply in replies {
            let Some(connection) = self.connections.get_mut(&reply.connection.0) else { continue };
            match reply.action {
                Action::Send(record) => connection.queue(record, None, reply.class, &self.shared),
                Action::SendAttached(record, data) => {
                    connection.queue(record, Some(data), reply.class, &self.shared);
                }
                Action::Trust(tenant) => self.trust(reply.connection, tenant),
                Action::Close => connection.close_when_sent(),
                Action::Yield => connection.traffic().defer(),
                Action::Pause(time) => {
                    let until = Instant::now() + time;
                    if connection.pause(until) {
                        self.sleepers.push(Reverse((until, reply.connection.0)));
                    }
                }
                Action::Defer(bytes) => {
                    if !connection.is_trusted() && (self.active || self.shared.ledger.is_busy()) {
                        self.strangers.spend_deferred(Instant::now());
                    }
                    connection.note_deferred(bytes, &self.shared);
                }
            }
        }
    }

    /// Marks a connection as trusted, and counts it for a tenant.
    fn trust(&mut self, connection: ConnectionId, tenant: WeightedTenant) {
        let Self { shares, driver, shared, ended, strangers, .. } = self;
        let Some(trusted) = self.connections.get_mut(&connection.0) else { return };
        let index = *trusted.tenant().get_or_insert_with(|| shares.join(tenant));
        if trusted.is_trusted() {
            shares.weigh(index, tenant);
            return;
        }
        if let Err(error) = trusted.trust(driver, shared) {
            tracing::warn!("a connection could not be watched: {error}");
            ended.push(connection.0);
        }
        if let Some(ticket) = trusted.ticket().take() {
            strangers.remove(ticket);
        }
    }

    /// Appends a record that answers no request. Returns false if the connection has closed or is
    /// closing.
    pub(crate) fn post(&mut self, connection: ConnectionId, record: Vec<u8>) -> bool {
        let connection = self.connections.get_mut(&connection.0);
        let Some(connection) = connection.filter(|connection| !connection.is_closing()) else { return false };
        connection.post(record, &self.shared);
        true
    }

    /// Counts a completed deferred call, and returns whether its connection is open.
    pub(crate) fn completed(&mut self, connection: ConnectionId, held: usize) -> bool {
        let Some(connection) = self.connections.get_mut(&connection.0) else { return false };
        connection.completed(held, &self.shared);
        true
    }

    /// Counts the records of a batch.
    pub(crate) fn count_records(&self, count: usize) {
        Stats::add(&self.shared.stats.records, count as u64);
    }

    /// Records that the service has handled the requests of these connections, and removes
    /// duplicates.
    pub(crate) fn done(&mut self, served: &mut Vec<u64>) {
        for id in served.iter() {
            if let Some(connection) = self.connections.get_mut(id) {
                connection.end_call();
            }
        }
        served.dedup();
    }

    /// Closes the connections of a batch in which the service panicked.
    pub(crate) fn blame(&mut self, served: Vec<u64>) {
        tracing::error!("a defect of the server closes {} connection(s)", served.len());
        Stats::add(&self.shared.stats.panics, 1);
        self.ended.extend(served);
    }

    /// Closes a connection once its requests have been served.
    pub(crate) fn end(&mut self, id: u64) {
        self.ended.push(id);
    }

    /// Closes the connections that have ended.
    pub(crate) fn close_ended(&mut self) {
        while let Some(id) = self.ended.pop() {
            self.close(id);
        }
    }

    /// Closes connections with slow peers and silent strangers, and forgets tenants that have left.
    pub(crate) fn close_overdue(&mut self, now: Instant) {
        self.shares.sweep(now);
        self.log_short();
        let all: Vec<u64> = self.connections.keys().copied().collect();
        for id in all {
            // Asked one by one, because each that closes leaves memory to the others.
            if self.connections.get(&id).is_some_and(|connection| connection.is_overdue(now, &self.shared)) {
                Stats::add(&self.shared.stats.overdue, 1);
                self.close(id);
            }
        }
    }

    /// Logs that memory is short, if connections waited for it at the last sweep, too.
    fn log_short(&mut self) {
        let is_short = !self.paused.is_empty() && self.shared.ledger.is_short(Budget::Input);
        if std::mem::replace(&mut self.was_short, is_short) && is_short {
            self.shared.ledger.log_short();
        }
    }

    /// Closes all connections of the shard, which go on in another process that holds them.
    pub(crate) fn close_all(&mut self) {
        self.draining = true;
        let ids: Vec<u64> = self.connections.keys().copied().collect();
        ids.into_iter().for_each(|id| self.close(id));
    }

    fn close(&mut self, id: u64) {
        if let Some(mut connection) = self.connections.remove(&id) {
            if let Some(ticket) = connection.ticket().take() {
                self.strangers.remove(ticket);
            }
            if let Some(tenant) = connection.tenant().take() {
                self.shares.leave(tenant);
            }
            // A shard that drains may share its sockets with a process that goes on with them.
            connection.close(&self.driver, &self.shared, !self.draining);
            self.shared.routes.remove(id);
            self.uncount();
            self.closed.push(ConnectionId(id));
        }
    }

    fn uncount(&self) {
        self.shared.stats.connections.fetch_sub(1, Ordering::Relaxed);
        self.mailbox.closed();
    }

    /// Takes the connections that were closed since the last call.
    pub(crate) fn take_closed(&mut self) -> impl Iterator<Item = ConnectionId> {
        self.closed.drain(..)
    }
}

#[cfg(test)]
mod tests;
