//! Runs a COMPOUND (RFC 8881 section 16.2).

use super::table::{self, Operation, Place};
use super::{
    Call, Compound, CompoundOutcome, CompoundState, DeferReason, ErrorBody, Nfs, OpError, OpResult, OpStop,
    Patience, Phase, space, status,
};
use nfs4::{NfsOpnum4, Nfsstat4};
use std::sync::atomic::Ordering::Relaxed;
use xdr::{Decoder, Encoder};

/// Most bytes of a reply that is kept for a retry although the client did not ask for it: errors and
/// SEQUENCE alone cost next to nothing.
const CACHED_UNASKED_MAX: usize = 256;

/// What stands before the operations of COMPOUND4args.
struct Header<'a> {
    tag: &'a [u8],
    minor: u32,
    count: u32,
}

impl<'a> Header<'a> {
    fn decode(args: &mut Decoder<'a>, tag_max: usize) -> Result<Self, xdr::Error> {
        Ok(Self { tag: args.opaque(tag_max)?, minor: args.u32()?, count: args.u32()? })
    }

    /// # Errors
    /// NFS4ERR_MINOR_VERS_MISMATCH, NFS4ERR_INVAL for a tag that is not UTF-8 (section 16.2.3).
    fn check(&self, minor_min: u32) -> Result<(), Nfsstat4> {
        if !(minor_min..=2).contains(&self.minor) {
            return Err(Nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH);
        }
        std::str::from_utf8(self.tag).map(|_| ()).map_err(|_| Nfsstat4::NFS4ERR_INVAL)
    }
}

/// How far a COMPOUND was run.
#[derive(Debug)]
pub enum Ran<S = Box<CompoundState>> {
    /// To its end; the reply is complete.
    Done(CompoundOutcome),
    /// To an operation that would wait: the reply holds the results before it. Or to its end, but for that what it has changed is not on
    /// stable storage yet.
    Suspended(S),
}

impl Nfs {
    /// Runs one COMPOUND and appends COMPOUND4res to `reply`, whatever `reply` already holds. Waits where it has to.
    ///
    /// Operations are decoded one at a time, so that memory does not grow with their number.
    pub fn compound(&self, call: &Call<'_>, reply: &mut Encoder) -> CompoundOutcome {
        match self.begin(call, reply, Patience::Waits) {
            Ran::Done(outcome) => outcome,
            Ran::Suspended(state) => self.resume(call, reply, state),
        }
    }

    /// As [`Nfs::compound`], but may stop before an operation that would wait. Then the same call and reply are to be
    /// given to [`Nfs::resume`] or [`Nfs::give_up`], on any thread.
    pub fn begin(&self, call: &Call<'_>, reply: &mut Encoder, patience: Patience) -> Ran {
        let start = reply.len();
        let mut args = Decoder::new(call.args);
        let header = match Header::decode(&mut args, self.config.tag_max) {
            Ok(header) => header,
            Err(error) => {
                self.outcomes.note_undecodable("COMPOUND", error);
                return Ran::Done(refuse(reply, &[], Nfsstat4::NFS4ERR_BADXDR));
            }
        };
        if let Err(status) = header.check(u32::from(!self.config.nfs40)) {
            return Ran::Done(refuse(reply, header.tag, status));
        }
        if header.minor == 0
            && let Some(outcome) = self.answer_at_once_40(call, &header, reply)
        {
            return Ran::Done(outcome);
        }
        reply.u32(Nfsstat4::NFS4_OK as u32).opaque(header.tag);
        let count_at = reply.len();
        reply.u32(0);
        let mut state = CompoundState::new(self, header.minor, header.count, start);
        state.count_at = count_at;
        state.args_at = args.position();
        if header.minor == 0 {
            state.reply_end = start.saturating_add(self.reply_max_40(call));
        }
        match self.run_operations(call, reply, &mut state, patience) {
            Some(outcome) => Ran::Done(outcome),
            None => Ran::Suspended(Box::new(state)),
        }
    }

    /// Answers a COMPOUND of NFSv4.0 of which nothing is to be run: the copy of one that was, or one that is too long.
    fn answer_at_once_40(
        &self,
        call: &Call<'_>,
        header: &Header<'_>,
        reply: &mut Encoder,
    ) -> Option<CompoundOutcome> {
        if header.count > self.config.limits.operations_max {
            return Some(refuse(reply, header.tag, Nfsstat4::NFS4ERR_RESOURCE));
        }
        let kept = self.kept_reply(call)?;
        reply.raw(&kept);
        let status = Decoder::new(&kept).u32().ok().and_then(Nfsstat4::from_u32);
        let status = status.unwrap_or(Nfsstat4::NFS4ERR_SERVERFAULT);
        Some(CompoundOutcome { status, operations: header.count, replayed: true })
    }

    /// Runs a suspended COMPOUND to its end, and waits where it has to. `call` has the time of now.
    pub fn resume(&self, call: &Call<'_>, reply: &mut Encoder, state: Box<CompoundState>) -> CompoundOutcome {
        match self.go_on(call, reply, state) {
            Ran::Done(outcome) => outcome,
            Ran::Suspended(state) => {
                let outcome = state.settle();
                self.settled(call, reply, state, outcome)
            }
        }
    }

    /// As [`Nfs::resume`], but what it has changed may be left to be put on stable storage, when all operations have run. Then the same call and
    /// reply are to be given to [`Nfs::settled`], on any thread.
    pub fn go_on(&self, call: &Call<'_>, reply: &mut Encoder, mut state: Box<CompoundState>) -> Ran {
        if state.unsettled().is_some() {
            return Ran::Suspended(state);
        }
        match self.run_operations(call, reply, &mut state, Patience::Waits) {
            Some(outcome) => Ran::Done(outcome),
            None => Ran::Suspended(state),
        }
    }

    /// Runs the operations of a COMPOUND from where its state stands. Returns `None` if it is not finished:
    /// its phase says why.
    fn run_operations(
        &self,
        call: &Call<'_>,
        reply: &mut Encoder,
        state: &mut CompoundState,
        patience: Patience,
    ) -> Option<CompoundOutcome> {
        let mut args = Decoder::new(call.args.get(state.args_at..).unwrap_or_default());
        let mut compound = Compound::new(self, call, state, patience);
        let status = match compound.run(&mut args, reply) {
            Ok(status) => compound.settle_but_one(status, reply),
            Err(reason) => {
                compound.progress.args_at += args.position();
                compound.progress.phase = Phase::Deferred(reason);
                return None;
            }
        };
        if compound.progress.unsettled.get_mut().is_empty() {
            return Some(compound.end(status, reply));
        }
        compound.progress.phase = Phase::Executed(status);
        None
    }

    /// Ends a suspended COMPOUND with NFS4ERR_DELAY for the operation that would wait.
    pub fn give_up(
        &self,
        call: &Call<'_>,
        reply: &mut Encoder,
        mut state: Box<CompoundState>,
    ) -> CompoundOutcome {
        if state.unsettled().is_some() {
            // All operations have run: a retry would gain nothing.
            return self.resume(call, reply, state);
        }
        let mut args = Decoder::new(call.args.get(state.args_at..).unwrap_or_default());
        let mut compound = Compound::new(self, call, &mut state, Patience::Waits);
        let number = args.u32().ok().and_then(NfsOpnum4::from_u32).unwrap_or(NfsOpnum4::OP_ILLEGAL);
        let status = write_failure(compound.progress.minor, number, Nfsstat4::NFS4ERR_DELAY, reply);
        compound.progress.position.index += 1;
        compound.end(status, reply)
    }
}

/// Answers a COMPOUND of which no operation is run.
fn refuse(reply: &mut Encoder, tag: &[u8], status: Nfsstat4) -> CompoundOutcome {
    reply.u32(status as u32).opaque(tag).u32(0);
    CompoundOutcome { status, operations: 0, replayed: false }
}

/// Writes the number and the status of an operation that failed after all.
pub(super) fn write_failure(minor: u32, opnum: NfsOpnum4, status: Nfsstat4, reply: &mut Encoder) -> Nfsstat4 {
    reply.u32(opnum as u32);
    let status_at = reply.len();
    reply.u32(0);
    let body = reply.len();
    fail(minor, opnum, status.into(), reply, status_at, body)
}

/// Writes the status of an operation that failed, and takes back what it wrote unless that is the status's body.
fn fail(
    minor: u32,
    opnum: NfsOpnum4,
    error: OpError,
    reply: &mut Encoder,
    status_at: usize,
    body: usize,
) -> Nfsstat4 {
    if error.body == ErrorBody::Discard {
        reply.truncate(body);
        if opnum == NfsOpnum4::OP_SETATTR {
            // SETATTR4res has attrsset whatever the status (section 18.30.2).
            reply.u32(0);
        }
    }
    let status = status::allowed(minor, opnum, error.status);
    reply.patch_u32(status_at, status as u32);
    status
}

impl Compound<'_> {
    /// Runs operations until one fails; returns the last status.
    ///
    /// # Errors
    /// The reason why the next operation is deferred. Then `args` begins with that operation.
    fn run(&mut self, args: &mut Decoder<'_>, reply: &mut Encoder) -> Result<Nfsstat4, DeferReason> {
        let mut status = Nfsstat4::NFS4_OK;
        while status == Nfsstat4::NFS4_OK
            && self.progress.position.index < self.progress.position.count
            && self.progress.replay.is_none()
        {
            status = self.step(args, reply)?;
            if self.progress.position.index == 0 {
                self.begin_session_reply();
            }
            self.progress.position.index += 1;
        }
        Ok(status)
    }

    /// Completes the reply and ends the slot's use.
    pub(super) fn end(&mut self, status: Nfsstat4, reply: &mut Encoder) -> CompoundOutcome {
        let (start, count_at) = (self.progress.reply_start, self.progress.count_at);
        let operations = self.progress.position.index;
        if let Some(cached) = self.progress.replay.take() {
            reply.truncate(start);
            reply.raw(&cached);
            return CompoundOutcome { status, operations, replayed: true };
        }
        reply.patch_u32(start, status as u32);
        reply.patch_u32(count_at, operations);
        let result = reply.as_slice().get(start..).unwrap_or_default();
        if self.progress.v40.once.get() {
            self.nfs.keep_reply(self.call, result);
        }
        self.keep(result, status);
        CompoundOutcome { status, operations, replayed: false }
    }

    /// Applies the session's limits to the reply, once SEQUENCE has told which session it is.
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
    /// The reason why the operation is deferred. Then nothing of it is in the reply.
    fn step(&mut self, args: &mut Decoder<'_>, reply: &mut Encoder) -> Result<Nfsstat4, DeferReason> {
        let (before, number_at) = (*args, reply.len());
        self.progress.result_at = number_at;
        let number = args.u32();
        let operation = number.ok().and_then(|number| table::find(number, self.progress.minor));
        let opnum = operation.map_or(NfsOpnum4::OP_ILLEGAL, |operation| operation.opnum);
        self.call.operation.store(opnum as u32, Relaxed);
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
                reply.truncate(number_at);
                *args = before;
                return Err(reason);
            }
            Err(OpStop::Failed(error)) => {
                self.nfs.note_cause(self.now(), opnum, self.progress.current.as_ref(), error.cause);
                fail(self.progress.minor, opnum, error, reply, status_at, body)
            }
        };
        self.nfs.outcomes.count(self.call.connection.0, opnum, status);
        Ok(status)
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
            reply.truncate(body);
            let result = (operation.run)(c, args, reply);
            c.end_changes();
            result
        })?;
        // What has a reserve has fitted; what changed nothing may be taken back.
        let unlimited = || self.progress.session.is_none() && self.progress.minor > 0;
        let fits = operation.result_max > 0 || unlimited() || self.fits(reply);
        if fits { Ok(()) } else { Err(self.too_big().into()) }
    }

    fn fits(&self, reply: &Encoder) -> bool {
        let kept = if self.progress.position.is_last() { 0 } else { space::STATUS_RESERVE };
        reply.len() + kept <= self.progress.reply_end
    }

    /// Checks the columns of an operation's row.
    fn check(&self, operation: &Operation, reply: &Encoder) -> OpResult {
        self.check_place(operation.place)?;
        let forbidden = self.progress.session.as_ref().map(|session| session.forbidden);
        if forbidden.is_some_and(|set| set.contains(operation.opnum as u32)) {
            return Err(Nfsstat4::NFS4ERR_WRONG_CRED.into());
        }
        if operation.needs_fh {
            let fh = self.fh()?;
            self.check_restricted(operation.opnum)?;
            if operation.modifies && fh.is_read_only() {
                return Err(Nfsstat4::NFS4ERR_ROFS.into());
            }
        }
        if operation.result_max > 0 && self.room(reply) < operation.result_max {
            return Err(self.too_big().into());
        }
        Ok(())
    }

    /// Checks how the operation stands to SEQUENCE.
    fn check_place(&self, place: Place) -> Result<(), OpError> {
        let alone = self.progress.position.count == 1;
        let status = match place {
            Place::First if self.progress.position.index > 0 => Nfsstat4::NFS4ERR_SEQUENCE_POS,
            Place::Alone if !alone => Nfsstat4::NFS4ERR_NOT_ONLY_OP,
            Place::AloneOrInSession if self.progress.session.is_none() && !alone => {
                Nfsstat4::NFS4ERR_NOT_ONLY_OP
            }
            Place::InSession if self.progress.session.is_none() => Nfsstat4::NFS4ERR_OP_NOT_IN_SESSION,
            Place::Once => {
                self.progress.v40.once.set(true);
                return Ok(());
            }
            _ => return Ok(()),
        };
        Err(status.into())
    }

    /// Ends the slot's use; keeps the reply for a retry if the client asked for that or it costs next to
    /// nothing.
    fn keep(&mut self, result: &[u8], status: Nfsstat4) {
        let asked = self.progress.session.as_ref().is_some_and(|session| session.cache_this);
        let cheap = result.len() <= CACHED_UNASKED_MAX
            && (status != Nfsstat4::NFS4_OK || self.progress.position.count == 1);
        self.finish((asked || cheap).then_some(result));
    }
}
