//! Turns bytes on a socket into completions.

use std::time::{Duration, Instant};

use nfs4::{NfsOpnum4, Nfsstat4};

use super::call::{CallStage, EngineCall};
use super::{CallEngine, CallOptions, Completion, Ticket};
use crate::compound::Compound;
use crate::error::{Error, ResultsError};
use crate::raw::is_call;
use crate::reply::{Body, Reply};
use crate::security::{Expected, Incoming, open};
use crate::slots::{SequenceUse, Slot};

/// Interval of the checks of deadlines, failed connections and the lease.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// The number of new contexts in which one call is repeated.
const RENEWALS_MAX: u8 = 2;

/// Bytes of record buffers that a thread with clients keeps for reuse.
const SPARE_BYTES_MAX: usize = 32 << 20;

impl CallEngine {
    /// Sends waiting calls, waits until a call completes or `timeout` passes, and appends the
    /// completions to `done`. Returns the number appended; 0 at once if no call is in progress.
    ///
    /// # Errors
    /// Fails only if a system call of this process fails; completions report the failures of calls.
    pub(crate) fn poll(&mut self, timeout: Duration, done: &mut Vec<Completion>) -> Result<usize, Error> {
        let before = done.len();
        let deadline = Instant::now() + timeout;
        loop {
            let left = if self.done.is_empty() {
                deadline.saturating_duration_since(Instant::now())
            } else {
                Duration::ZERO
            };
            self.step(left)?;
            done.extend(self.done.drain(..));
            if done.len() > before || self.calls.len() == 0 || Instant::now() >= deadline {
                return Ok(done.len() - before);
            }
        }
    }

    /// Waits for a submitted call; each call completes by its deadline.
    ///
    /// # Errors
    /// The errors of the call; [`Error::Misuse`] if its completion was already returned.
    pub(crate) fn wait(&mut self, ticket: Ticket) -> Result<Reply, Error> {
        loop {
            if let Some(at) = self.done.iter().rposition(|completion| completion.ticket == ticket) {
                let found = self.done.remove(at);
                return found.map_or(Err(Error::Misuse("the call is gone")), |completion| completion.result);
            }
            let awaited = |call: &EngineCall| call.ticket == ticket && !call.abandoned && !call.internal;
            if !self.calls.iter().any(awaited) {
                return Err(Error::Misuse("the call is not in progress"));
            }
            self.step(CHECK_INTERVAL * 5)?;
        }
    }

    /// Abandons a submitted call: its completion is not reported.
    pub(crate) fn abandon(&mut self, ticket: Ticket) {
        self.done.retain(|completion| completion.ticket != ticket);
        if let Some(call) = self.calls.iter_mut().find(|call| call.ticket == ticket) {
            call.internal = true;
        }
    }

    /// Waits until all calls with a waiting caller have completed; keeps completions for
    /// [`CallEngine::poll`].
    ///
    /// # Errors
    /// The same as [`CallEngine::poll`].
    pub(crate) fn wait_all(&mut self) -> Result<(), Error> {
        while self.calls.iter().any(|call| !call.abandoned) {
            self.step(CHECK_INTERVAL * 5)?;
        }
        Ok(())
    }

    /// Runs one round, unless no call is in progress: repairs, sends, waits, receives.
    fn step(&mut self, wait: Duration) -> Result<(), Error> {
        self.prepare()?;
        if self.calls.len() == 0 { Ok(()) } else { self.receive(wait) }
    }

    /// Makes the repairs that are due, and sends waiting calls.
    fn prepare(&mut self) -> Result<(), Error> {
        let now = Instant::now();
        if now >= self.next_check {
            // The client may have moved to another thread.
            rpc::memory::keep(SPARE_BYTES_MAX);
            self.next_check = now + CHECK_INTERVAL;
            self.check(now)?;
        }
        self.flush()
    }

    /// Waits for records, at most until the next check, and processes them.
    fn receive(&mut self, wait: Duration) -> Result<(), Error> {
        let (mut arrived, mut failed) = (Vec::new(), Vec::new());
        for link in self.links.wait(wait.min(CHECK_INTERVAL))? {
            let mut records = Vec::new();
            if self.links.read(link, &mut self.scratch, &mut records).is_err() {
                failed.push(link);
            }
            arrived.extend(records.into_iter().map(|record| (link, record)));
        }
        self.process(arrived);
        failed.into_iter().for_each(|link| self.cut(link));
        Ok(())
    }

    /// Matches the records of all connections to calls, opens them as one batch and completes the
    /// calls.
    fn process(&mut self, records: Vec<(usize, Vec<u8>)>) {
        let mut xids = Vec::with_capacity(records.len());
        let mut replies = Vec::with_capacity(records.len());
        for (index, record) in records {
            match self.expected(index, &record) {
                Some((xid, expected)) => {
                    xids.push(xid);
                    replies.push(Incoming::new(record, expected));
                }
                None => self.process_call(index, &record),
            }
        }
        open(&mut replies);
        for (xid, reply) in xids.into_iter().zip(replies) {
            let (expected, body) = reply.into_parts();
            self.finish(xid, &expected, body);
        }
    }

    /// Answers a callback; any other record is a late reply.
    fn process_call(&mut self, index: usize, record: &[u8]) {
        let answer = if self.options.backchannel { self.back.call_back(&self.session, record) } else { None };
        let connection = self.links.connection(index);
        let (Some(answer), Some(connection)) = (answer, connection) else {
            self.statistics.replies_dropped += 1;
            return;
        };
        if connection.answer(answer, &self.calls).is_err() {
            self.cut(index);
        }
    }

    /// Answers callbacks for `time`, and maintains connections and the lease.
    ///
    /// # Errors
    /// The same as [`CallEngine::poll`].
    pub(crate) fn serve_callbacks(&mut self, time: Duration) -> Result<(), Error> {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            self.prepare()?;
            self.receive(left)?;
            if left.is_zero() {
                return Ok(());
            }
        }
    }

    /// Returns the call that the record replies to. The server numbers its own calls, so that one
    /// of them may have the XID of a call in progress.
    fn expected(&mut self, index: usize, record: &[u8]) -> Option<(u32, Expected)> {
        if is_call(record) {
            return None;
        }
        let xid = u32::from_be_bytes(*record.first_chunk()?);
        let call = self.calls.get_mut(xid).filter(|call| call.link == index)?;
        match std::mem::replace(&mut call.stage, CallStage::Queued) {
            CallStage::Sent(expected) => Some((xid, expected)),
            other => {
                call.stage = other;
                None
            }
        }
    }

    fn finish(&mut self, xid: u32, expected: &Expected, body: Result<Body, Error>) {
        let Some(slot) = self.calls.get(xid).and_then(|call| call.slot) else { return };
        match body.and_then(|body| Reply::new(body, true)) {
            Ok(reply) => self.finish_reply(xid, slot, reply),
            Err(error) if error.is_context_lost() && self.repeat_in_new_context(xid, expected) => {}
            Err(Error::Nfs { operation: NfsOpnum4::OP_SEQUENCE, status }) => {
                self.finish_refused(xid, slot, status);
            }
            // The server has not processed the slot.
            Err(error @ (Error::Rpc(_) | Error::Compound(_))) => {
                self.complete(xid, SequenceUse::Unused, Err(error))
            }
            Err(error) => self.complete(xid, SequenceUse::Consumed, Err(error)),
        }
    }

    fn finish_reply(&mut self, xid: u32, slot: Slot, reply: Reply) {
        let Some(sequence) = reply.sequence().copied() else { return };
        let own = sequence.sr_sessionid == self.session.id
            && sequence.sr_slotid == slot.id
            && sequence.sr_sequenceid == slot.sequence;
        if own {
            self.slots.set_target(sequence.sr_target_highest_slotid);
            self.status_flags = sequence.sr_status_flags;
            self.complete(xid, SequenceUse::Consumed, Ok(reply));
        } else {
            self.complete(xid, SequenceUse::Consumed, Err(ResultsError::Slot.into()));
        }
    }

    /// Handles a failed SEQUENCE: no operation was executed (RFC 8881 section 18.46.3).
    fn finish_refused(&mut self, xid: u32, slot: Slot, status: Nfsstat4) {
        let refused = Error::Nfs { operation: NfsOpnum4::OP_SEQUENCE, status };
        let Some(call) = self.calls.get_mut(xid) else { return };
        let (index, repeatable) = (call.link, call.repeatable);
        match status {
            Nfsstat4::NFS4ERR_CONN_NOT_BOUND_TO_SESSION => match self.links.get_mut(index) {
                // Another reply of the batch may have closed the connection already.
                Some(link) if !link.must_bind || !link.is_up() => {
                    link.must_bind = true;
                    link.queued.push_back(xid);
                    self.cut(index);
                }
                _ => self.complete(xid, SequenceUse::Unused, Err(refused)),
            },
            // It executed before the connection failed, and the result is lost. Repeating it is
            // safe.
            Nfsstat4::NFS4ERR_RETRY_UNCACHED_REP if repeatable => {
                call.slot = None;
                call.stage = CallStage::Waiting;
                self.slots.release(slot.id, SequenceUse::Consumed);
                self.waiting.push_back(xid);
            }
            Nfsstat4::NFS4ERR_RETRY_UNCACHED_REP => self.complete(xid, SequenceUse::Consumed, Err(refused)),
            // The first copy still runs, or the server lacks memory for the reply. Another request
            // in its place could execute twice (RFC 8881 section 2.10.6.2).
            Nfsstat4::NFS4ERR_DELAY => {
                call.stage = CallStage::PutOff;
                self.statistics.delays += 1;
            }
            // The server has executed another request with this sequence id.
            Nfsstat4::NFS4ERR_SEQ_FALSE_RETRY => self.complete(xid, SequenceUse::Consumed, Err(refused)),
            _ => self.complete(xid, SequenceUse::Unused, Err(refused)),
        }
    }

    /// Repeats the call in a new context and the same slot, because the server lost the context.
    fn repeat_in_new_context(&mut self, xid: u32, expected: &Expected) -> bool {
        let (Some(call), Expected::Gss { context, .. }) = (self.calls.get_mut(xid), expected) else {
            return false;
        };
        if call.renewals >= RENEWALS_MAX {
            return false;
        }
        call.renewals += 1;
        let index = call.link;
        self.identity.forget(context);
        self.links.queue(index, xid);
        true
    }

    /// Completes a call, and releases its slot.
    pub(super) fn complete(&mut self, xid: u32, sequence: SequenceUse, result: Result<Reply, Error>) {
        let Some(call) = self.calls.remove(xid) else { return };
        if let Some(slot) = call.slot {
            self.slots.release(slot.id, sequence);
        }
        if !call.abandoned && !call.internal {
            self.done.push_back(Completion { ticket: call.ticket, tag: call.tag, result });
        }
        call.message.recycle();
    }

    /// Renews the lease when it is due and no other call does so. A call that has timed out may
    /// never have reached the server.
    pub(super) fn renew_lease(&mut self, now: Instant) -> Result<(), Error> {
        let is_early = now.saturating_duration_since(self.last_sent) < self.lease * 2 / 3;
        if is_early || self.calls.iter().any(|call| !call.abandoned) {
            return Ok(());
        }
        self.last_sent = now;
        let xid = self.accept(Compound::new(self.options.minor_version), CallOptions::default())?;
        if let Some(call) = self.calls.get_mut(xid) {
            call.internal = true;
        }
        Ok(())
    }
}
