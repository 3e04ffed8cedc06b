//! Runs a COMPOUND (RFC 8881 section 16.2).

use super::table::{self, Operation};
use crate::engine::{
    Call, Compound, CompoundOutcome, CompoundPhase, CompoundState, DeferReason, Fh, Nfs, NfsState, OpResult,
    OpStop, PSEUDO_EXPORT, WaitPolicy, fail, write_failure,
};
use crate::metrics::RequestSubject;
use nfs4::{NfsOpnum4, Nfsstat4};
use std::sync::atomic::Ordering::Relaxed;
use xdr::{Decoder, Encoder};

/// The header of COMPOUND4args, before its operations.
struct CompoundHeader<'a> {
    tag: &'a [u8],
    minor: u32,
    count: u32,
}

impl<'a> CompoundHeader<'a> {
    fn decode(args: &mut Decoder<'a>, tag_max: usize) -> Result<Self, xdr::Error> {
        Ok(Self { tag: args.opaque(tag_max)?, minor: args.u32()?, count: args.u32()? })
    }

    /// Checks minor version and tag.
    ///
    /// # Errors
    /// NFS4ERR_MINOR_VERS_MISMATCH, NFS4ERR_INVAL for a tag that is not UTF-8 (section 16.2.3).
    fn check(&self, minor_min: u32) -> Result<(), Nfsstat4> {
        if !(minor_min..=2).contains(&self.minor) {
            return Err(Nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH);
        }
        std::str::from_utf8(self.tag).map(|_| ()).map_err(|_| Nfsstat4::NFS4ERR_INVAL)
    }
}

/// The state of a COMPOUND after its operations have run, or when one of them would block.
#[derive(Debug)]
pub enum CompoundStatus<S = Box<CompoundState>> {
    /// The reply is complete.
    Done(CompoundOutcome),
    /// The next operation would block, and the reply holds the results before it; or all operations
    /// have run, and their changes or client records are not yet on stable storage.
    Deferred(S),
}

impl Nfs {
    /// Runs one COMPOUND and appends COMPOUND4res to `reply`, after its present content. Blocks
    /// where it has to.
    ///
    /// Operations are decoded one at a time, so that memory does not grow with their number.
    pub fn compound(&self, call: &Call<'_>, reply: &mut Encoder) -> CompoundOutcome {
        match self.begin(call, reply, WaitPolicy::Waits) {
            CompoundStatus::Done(outcome) => outcome,
            CompoundStatus::Deferred(state) => self.resume(call, reply, state),
        }
    }

    /// As [`Nfs::compound`], but may stop before an operation that would block. Then pass the same
    /// call and reply to [`Nfs::resume`] or [`Nfs::decline`], on any thread.
    pub fn begin(&self, call: &Call<'_>, reply: &mut Encoder, policy: WaitPolicy) -> CompoundStatus {
        let mut state = match self.prepare(call, reply) {
            Ok(state) => state,
            Err(outcome) => return CompoundStatus::Done(outcome),
        };
        match self.run_operations(call, reply, &mut state, policy) {
            Some(outcome) => CompoundStatus::Done(outcome),
            None => CompoundStatus::Deferred(Box::new(state)),
        }
    }

    /// Answers a COMPOUND with NFS4ERR_DELAY for its first operation.
    pub fn delay(&self, call: &Call<'_>, reply: &mut Encoder) {
        if let Ok(state) = self.prepare(call, reply) {
            self.decline(call, reply, Box::new(state));
        }
    }

    /// Begins the reply to a COMPOUND.
    ///
    /// # Errors
    /// The outcome of a COMPOUND that is answered without running it. The reply is complete.
    fn prepare(&self, call: &Call<'_>, reply: &mut Encoder) -> Result<CompoundState, CompoundOutcome> {
        let start = reply.len();
        let mut args = Decoder::new(call.args);
        let header = match CompoundHeader::decode(&mut args, self.config.tag_max) {
            Ok(header) => header,
            Err(error) => {
                self.outcomes.note_undecodable("COMPOUND", error);
                return Err(refuse(reply, &[], Nfsstat4::NFS4ERR_BADXDR));
            }
        };
        if let Err(status) = header.check(u32::from(!self.choices.nfs40())) {
            return Err(refuse(reply, header.tag, status));
        }
        if header.minor == 0
            && let Some(outcome) = self.answer_at_once_40(call, &header, reply)
        {
            return Err(outcome);
        }
        reply.u32(Nfsstat4::NFS4_OK as u32).opaque(header.tag);
        let count_at = reply.len();
        reply.u32(0);
        let mut state = CompoundState::new(self, header.minor, header.count, start);
        state.count_at = count_at;
        state.args_at = args.position();
        state.is_sample = call.counters.is_sample();
        if header.minor == 0 {
            // Later versions do this in SEQUENCE. Grants that depend on it wait for the records.
            let end_grace =
                |state: &NfsState, effects: &mut _| state.leases().end_grace_if_due(call.now, effects);
            self.with_queue(call.now, end_grace, |_| ());
            state.reply_end = start.saturating_add(self.reply_max_40(call));
        }
        Ok(state)
    }

    /// Answers a COMPOUND of NFSv4.0 without running it: the copy of an earlier one, or one that is
    /// too long.
    fn answer_at_once_40(
        &self,
        call: &Call<'_>,
        header: &CompoundHeader<'_>,
        reply: &mut Encoder,
    ) -> Option<CompoundOutcome> {
        if header.count > self.config.limits.operations_max {
            return Some(refuse(reply, header.tag, Nfsstat4::NFS4ERR_RESOURCE));
        }
        let kept = self.kept_reply(call)?;
        reply.raw(&kept);
        let status = Decoder::new(&kept).u32().ok().and_then(Nfsstat4::from_u32);
        let status = status.unwrap_or(Nfsstat4::NFS4ERR_SERVERFAULT);
        let (operations, subject) = (header.count, RequestSubject::default());
        Some(CompoundOutcome { status, operations, replayed: true, subject, expensive: false, export: None })
    }

    /// Runs a suspended COMPOUND to its end, and blocks where it has to. `call` has the current
    /// time.
    pub fn resume(&self, call: &Call<'_>, reply: &mut Encoder, state: Box<CompoundState>) -> CompoundOutcome {
        match self.go_on(call, reply, state, WaitPolicy::Waits) {
            CompoundStatus::Done(outcome) => outcome,
            CompoundStatus::Deferred(state) => {
                let outcome = self.sync(&state);
                self.complete(call, reply, state, outcome)
            }
        }
    }

    /// As [`Nfs::resume`], on a thread of the COMPOUND's lane. Stops before an operation that waits
    /// for another lane; call this again on a thread of that lane. Stops also after all operations
    /// have run, if their changes are not on stable storage ([`CompoundState::pending_sync`]). Then
    /// pass the same call and reply to [`Nfs::complete`], on any thread.
    pub fn execute(&self, call: &Call<'_>, reply: &mut Encoder, state: Box<CompoundState>) -> CompoundStatus {
        let policy = WaitPolicy::WaitsIn(state.lane());
        self.go_on(call, reply, state, policy)
    }

    /// Runs the rest of a suspended COMPOUND.
    fn go_on(
        &self,
        call: &Call<'_>,
        reply: &mut Encoder,
        mut state: Box<CompoundState>,
        policy: WaitPolicy,
    ) -> CompoundStatus {
        if let CompoundPhase::Executed(_) | CompoundPhase::Unrecorded(_) = state.phase {
            return CompoundStatus::Deferred(state);
        }
        match self.run_operations(call, reply, &mut state, policy) {
            Some(outcome) => CompoundStatus::Done(outcome),
            None => CompoundStatus::Deferred(state),
        }
    }

    /// Runs the operations of a COMPOUND from its present state. Returns `None` if it is not
    /// finished; its phase has the reason.
    fn run_operations(
        &self,
        call: &Call<'_>,
        reply: &mut Encoder,
        state: &mut CompoundState,
        policy: WaitPolicy,
    ) -> Option<CompoundOutcome> {
        let mut args = Decoder::new(call.args.get(state.args_at..).unwrap_or_default());
        let mut compound = Compound::new(self, call, state, policy);
        let mut status = match compound.run(&mut args, reply) {
            Ok(status) => compound.sync_all_but(1, status, reply),
            Err(reason) => {
                compound.progress.args_at += args.position();
                compound.progress.phase = CompoundPhase::Deferred(reason);
                compound.progress.deferrals += 1;
                return None;
            }
        };
        if compound.is_unrecorded() {
            // Rare enough to go without the group of the object.
            status = compound.sync_all_but(0, status, reply);
            if self.records_may_wait() {
                compound.progress.phase = CompoundPhase::Unrecorded(status);
                return None;
            }
            self.write_records(compound.progress.records.get());
        }
        if compound.progress.pending_syncs.get_mut().is_empty() {
            return Some(compound.end(status, reply));
        }
        compound.progress.phase = CompoundPhase::Executed(status);
        None
    }

    /// Ends a suspended COMPOUND with NFS4ERR_DELAY for the operation that would block.
    ///
    /// Returns `None` if the connection must close instead: for an operation in the sequence of an
    /// NFSv4.0 owner, and for results that depend on client records. NFS4ERR_DELAY counts in that
    /// sequence, and so does a copy that still runs (RFC 7530 section 9.1.7). On another connection
    /// the client sends the same request again; a reply that its slot keeps waits for the records.
    pub fn decline(
        &self,
        call: &Call<'_>,
        reply: &mut Encoder,
        mut state: Box<CompoundState>,
    ) -> Option<CompoundOutcome> {
        if state.pending_sync().is_some() {
            // All operations have run: a retry would gain nothing.
            return Some(self.resume(call, reply, state));
        }
        let end = match state.phase {
            CompoundPhase::Unrecorded(status) => Some(status),
            _ => None,
        };
        let mut args = Decoder::new(call.args.get(state.args_at..).unwrap_or_default());
        let mut compound = Compound::new(self, call, &mut state, WaitPolicy::Waits);
        let minor = compound.progress.minor;
        let unrecorded = end.is_some() || compound.is_unrecorded() && self.records_may_wait();
        if unrecorded && minor == 0 {
            compound.finish(None);
            return None;
        }
        let number = args.u32().ok().and_then(NfsOpnum4::from_u32).unwrap_or(NfsOpnum4::OP_ILLEGAL);
        let closes = unrecorded || minor == 0 && is_sequenced(number);
        if closes {
            // The repeated request runs: this reply is not sent.
            compound.progress.v40.once.set(false);
        }
        let status = end.unwrap_or_else(|| {
            compound.progress.position.index += 1;
            write_failure(minor, number, Nfsstat4::NFS4ERR_DELAY, reply)
        });
        let status = compound.sync_all_but(0, status, reply);
        let outcome = compound.end(status, reply);
        (!closes).then_some(outcome)
    }
}

/// Returns whether an operation of NFSv4.0 has the sequence number of an owner.
fn is_sequenced(operation: NfsOpnum4) -> bool {
    use NfsOpnum4::*;
    matches!(operation, OP_OPEN | OP_OPEN_CONFIRM | OP_OPEN_DOWNGRADE | OP_CLOSE | OP_LOCK | OP_LOCKU)
}

/// Answers a COMPOUND without running any operation.
fn refuse(reply: &mut Encoder, tag: &[u8], status: Nfsstat4) -> CompoundOutcome {
    reply.u32(status as u32).opaque(tag).u32(0);
    let subject = RequestSubject::default();
    CompoundOutcome { status, operations: 0, replayed: false, subject, expensive: false, export: None }
}

impl Compound<'_> {
    /// Runs operations until one fails. Returns the last status.
    ///
    /// # Errors
    /// The reason why the next operation is deferred. Then `args` begins with that operation.
    fn run(&mut self, args: &mut Decoder<'_>, reply: &mut Encoder) -> Result<Nfsstat4, DeferReason> {
        let mut status = Nfsstat4::NFS4_OK;
        let observer = self.observer();
        while status == Nfsstat4::NFS4_OK
            && self.progress.position.index < self.progress.position.count
            && self.progress.replay.is_none()
        {
            let seen = observer.map(|observer| (observer, self.observe_start(observer, args)));
            status = self.step(args, reply)?;
            if let Some((observer, seen)) = seen {
                self.report(observer, seen, status, reply);
            }
            if self.progress.position.index == 0 {
                self.begin_session_reply();
            }
            self.progress.position.index += 1;
            self.progress.deferrals = 0;
        }
        Ok(status)
    }

    /// Applies the session's limits to the reply after SEQUENCE.
    fn begin_session_reply(&mut self) {
        if let Some((fore, cache_this)) =
            self.progress.session.as_ref().map(|session| (session.fore, session.cache_this))
        {
            self.limit_reply(&fore, cache_this, self.progress.reply_start);
        }
    }

    /// Runs one operation and writes its number, status and result.
    ///
    /// # Errors
    /// The reason why the operation is deferred. Then the reply holds nothing of it.
    fn step(&mut self, args: &mut Decoder<'_>, reply: &mut Encoder) -> Result<Nfsstat4, DeferReason> {
        let (before, number_at) = (*args, reply.len());
        self.progress.result_at = number_at;
        let number = args.u32();
        let operation = number.ok().and_then(|number| table::find(number, self.progress.minor));
        let opnum = operation.map_or(NfsOpnum4::OP_ILLEGAL, |operation| operation.opnum);
        self.call.operation.store(opnum as u32, Relaxed);
        self.consider(opnum);
        reply.u32(opnum as u32);
        let status_at = reply.len();
        reply.u32(Nfsstat4::NFS4_OK as u32);
        let body = reply.len();
        let result = match (number, operation) {
            (Err(error), _) => Err(error.into()),
            (Ok(_), None) => Err(Nfsstat4::NFS4ERR_OP_ILLEGAL.into()),
            (Ok(_), Some(operation)) => self.run_operation(operation, args, reply),
        };
        let status = match result {
            Ok(()) => Nfsstat4::NFS4_OK,
            Err(OpStop::Deferred(reason)) => {
                self.truncate(reply, number_at);
                *args = before;
                return Err(reason);
            }
            Err(OpStop::Failed(error)) => {
                self.nfs.note_cause(self.now(), opnum, self.progress.current.as_ref(), error.cause);
                self.detach(body);
                fail(self.progress.minor, opnum, error, reply, status_at, body)
            }
        };
        match status {
            Nfsstat4::NFS4_OK => self.call.counters.succeeded(opnum),
            _ => self.nfs.outcomes.count_failure(opnum, status),
        }
        Ok(status)
    }

    /// Takes an operation into account for the counters of the request.
    fn consider(&mut self, opnum: NfsOpnum4) {
        let (outcomes, current) = (&self.nfs.outcomes, &self.progress.current);
        self.progress.subject.consider(opnum, || match current {
            Some(Fh::Object(object)) => outcomes.place(object.export.id, &object.export.pseudo_path),
            Some(Fh::Pseudo(_)) => outcomes.place(PSEUDO_EXPORT, "/"),
            None => 0,
        });
    }

    fn run_operation(
        &mut self,
        operation: &Operation,
        args: &mut Decoder<'_>,
        reply: &mut Encoder,
    ) -> OpResult {
        self.check(operation, reply)?;
        self.check_wait(operation)?;
        let (before, body) = (*args, reply.len());
        self.with_room(|c| {
            *args = before;
            c.truncate(reply, body);
            let result = (operation.run)(c, args, reply);
            c.end_changes();
            result
        })?;
        // A result with a reserve fits; without a reserve the operation has changed nothing, so its
        // result may be replaced by an error.
        let unlimited = || self.progress.session.is_none() && self.progress.minor > 0;
        let fits = operation.result_max > 0 || unlimited() || self.fits(reply);
        if fits { Ok(()) } else { Err(self.too_big().into()) }
    }
}
