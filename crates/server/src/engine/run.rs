//! Runs a COMPOUND (RFC 8881 section 16.2).

use super::table::{self, Operation, Place};
use super::{Call, Compound, CompoundOutcome, Failure, Nfs, OpResult, space, status};
use nfs4::{NfsOpnum4, Nfsstat4};
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
    fn check(&self) -> Result<(), Nfsstat4> {
        if !(1..=2).contains(&self.minor) {
            return Err(Nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH);
        }
        std::str::from_utf8(self.tag).map(|_| ()).map_err(|_| Nfsstat4::NFS4ERR_INVAL)
    }
}

impl Nfs {
    /// Runs one COMPOUND and appends COMPOUND4res to `reply`, whatever `reply` already holds.
    ///
    /// Operations are decoded one at a time, so that memory does not grow with their number.
    pub fn compound(&self, call: &Call<'_>, reply: &mut Encoder) -> CompoundOutcome {
        let start = reply.len();
        let mut args = Decoder::new(call.args);
        let header = match Header::decode(&mut args, self.config.tag_max) {
            Ok(header) => header,
            Err(_) => return refuse(reply, &[], Nfsstat4::NFS4ERR_BADXDR),
        };
        if let Err(status) = header.check() {
            return refuse(reply, header.tag, status);
        }
        reply.u32(Nfsstat4::NFS4_OK as u32).opaque(header.tag);
        let count_at = reply.len();
        reply.u32(0);
        let mut compound = Compound::new(self, call, header.minor, header.count, start);
        let (status, done) = compound.run(&mut args, reply, start);
        if let Some(cached) = compound.replay.take() {
            reply.truncate(start);
            reply.raw(&cached);
            return CompoundOutcome { status, operations: done, replayed: true };
        }
        reply.patch_u32(start, status as u32);
        reply.patch_u32(count_at, done);
        let result = reply.as_slice().get(start..).unwrap_or_default();
        compound.keep(result, status);
        CompoundOutcome { status, operations: done, replayed: false }
    }
}

/// Answers a COMPOUND of which no operation is run.
fn refuse(reply: &mut Encoder, tag: &[u8], status: Nfsstat4) -> CompoundOutcome {
    reply.u32(status as u32).opaque(tag).u32(0);
    CompoundOutcome { status, operations: 0, replayed: false }
}

impl Compound<'_> {
    /// Runs operations until one fails; returns the last status and how many ran.
    fn run(&mut self, args: &mut Decoder<'_>, reply: &mut Encoder, start: usize) -> (Nfsstat4, u32) {
        let mut status = Nfsstat4::NFS4_OK;
        while status == Nfsstat4::NFS4_OK
            && self.position.index < self.position.count
            && self.replay.is_none()
        {
            status = self.step(args, reply);
            if self.position.index == 0 {
                self.begin_session_reply(start);
            }
            self.position.index += 1;
        }
        (status, self.position.index)
    }

    /// Applies the session's limits to the reply, once SEQUENCE has told which session it is.
    fn begin_session_reply(&mut self, start: usize) {
        if let Some((fore, cache_this)) =
            self.session.as_ref().map(|session| (session.fore, session.cache_this))
        {
            self.limit_reply(&fore, cache_this, start);
        }
    }

    /// Runs one operation and writes its number, status and result.
    fn step(&mut self, args: &mut Decoder<'_>, reply: &mut Encoder) -> Nfsstat4 {
        let number = args.u32();
        let operation = number.ok().and_then(|number| table::find(number, self.minor));
        let opnum = operation.map_or(NfsOpnum4::OP_ILLEGAL, |operation| operation.opnum);
        reply.u32(opnum as u32);
        let status_at = reply.len();
        reply.u32(Nfsstat4::NFS4_OK as u32);
        let body = reply.len();
        let result = match (number, operation) {
            (Err(error), _) => Err(error.into()),
            (Ok(_), None) => Err(Nfsstat4::NFS4ERR_OP_ILLEGAL.into()),
            (Ok(_), Some(operation)) => self.run_operation(operation, args, reply),
        };
        let Err(failure) = result else { return Nfsstat4::NFS4_OK };
        if !failure.keep_body {
            reply.truncate(body);
            if opnum == NfsOpnum4::OP_SETATTR {
                // SETATTR4res has attrsset whatever the status (section 18.30.2).
                reply.u32(0);
            }
        }
        let status = status::allowed(opnum, failure.status);
        reply.patch_u32(status_at, status as u32);
        status
    }

    fn run_operation(
        &mut self,
        operation: &Operation,
        args: &mut Decoder<'_>,
        reply: &mut Encoder,
    ) -> OpResult {
        self.check(operation, reply)?;
        (operation.run)(self, args, reply)?;
        // What has a reserve has fitted; what changed nothing may be taken back.
        let fits = operation.result_max > 0 || self.session.is_none() || self.fits(reply);
        if fits { Ok(()) } else { Err(self.too_big().into()) }
    }

    fn fits(&self, reply: &Encoder) -> bool {
        let kept = if self.position.is_last() { 0 } else { space::STATUS_RESERVE };
        reply.len() + kept <= self.reply_end
    }

    /// Checks the columns of an operation's row.
    fn check(&self, operation: &Operation, reply: &Encoder) -> OpResult {
        self.check_place(operation.place)?;
        let forbidden = self.session.as_ref().map(|session| session.forbidden);
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
    fn check_place(&self, place: Place) -> Result<(), Failure> {
        let alone = self.position.count == 1;
        let status = match place {
            Place::First if self.position.index > 0 => Nfsstat4::NFS4ERR_SEQUENCE_POS,
            Place::Alone if !alone => Nfsstat4::NFS4ERR_NOT_ONLY_OP,
            Place::AloneOrInSession if self.session.is_none() && !alone => Nfsstat4::NFS4ERR_NOT_ONLY_OP,
            Place::InSession if self.session.is_none() => Nfsstat4::NFS4ERR_OP_NOT_IN_SESSION,
            _ => return Ok(()),
        };
        Err(status.into())
    }

    /// Ends the slot's use; keeps the reply for a retry if the client asked for that or it costs next to
    /// nothing.
    fn keep(&mut self, result: &[u8], status: Nfsstat4) {
        let asked = self.session.as_ref().is_some_and(|session| session.cache_this);
        let cheap =
            result.len() <= CACHED_UNASKED_MAX && (status != Nfsstat4::NFS4_OK || self.position.count == 1);
        self.finish((asked || cheap).then_some(result));
    }
}
