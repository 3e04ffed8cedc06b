//! Operations with the sequence number of an owner: run once, and answered the same again (RFC 7530
//! sections 9.1.7 to 9.1.9).

use crate::engine::{Compound, DeferReason, ErrorBody, OpError, OpResult, OpStop, allowed_status};
use nfs4::{NfsOpnum4, Nfsstat4, Stateid4};
use state::StateidKind;
use state::v40::{Begin, Replay, Request, StateOwner, Turn};
use std::sync::Arc;
use xdr::{Decoder, Encoder};

/// Longest filehandle on the wire, in bytes (NFS4_FHSIZE).
const FILEHANDLE_MAX: usize = nfs4::NFS4_FHSIZE as usize;

/// A request in the sequence of its owner.
#[derive(Clone, Copy)]
pub(super) struct SequencedCall {
    /// The number of the operation.
    pub opnum: NfsOpnum4,
    /// The sequence number of the request.
    pub seqid: u32,
    /// The fingerprint that tells it from other requests.
    pub request: Request,
}

impl SequencedCall {
    /// Makes the request between two decoders, `before` and `after` the operation's arguments. The
    /// current filehandle is part of the request: an OPEN of the same name in another directory is
    /// not a copy.
    pub(super) fn new(
        c: &Compound<'_>,
        opnum: NfsOpnum4,
        seqid: u32,
        before: &Decoder<'_>,
        after: &Decoder<'_>,
    ) -> Self {
        let length = before.remaining().saturating_sub(after.remaining());
        let args = before.rest().get(..length).unwrap_or_default();
        let mut request = Encoder::new();
        if let Some(fh) = &c.progress.current {
            c.encode_fh(fh, &mut request);
        }
        request.raw(args);
        let fingerprint = c.nfs.fingerprint(request.as_slice(), c.call.security);
        Self { opnum, seqid, request: Request { operation: opnum as u32, fingerprint } }
    }
}

/// Waits for the owner's turn.
///
/// # Errors
/// The reason to defer the COMPOUND, where it may not block.
pub(super) fn turn<'o>(c: &Compound<'_>, owner: &'o StateOwner) -> Result<Turn<'o>, DeferReason> {
    let turn = if c.may_wait() { Some(owner.turn()) } else { owner.try_turn() };
    turn.ok_or(DeferReason::CurrentExport)
}

/// Runs an operation in its turn, or answers a copy of it.
///
/// # Errors
/// NFS4ERR_BAD_SEQID, NFS4ERR_BAD_STATEID for an open that is not confirmed, and the operation's.
pub(super) fn run(
    c: &mut Compound<'_>,
    owner: &Arc<StateOwner>,
    sequenced: SequencedCall,
    reply: &mut Encoder,
    run: impl FnOnce(&mut Compound<'_>, &mut Encoder, &mut Turn<'_>) -> OpResult,
) -> OpResult {
    let mut turn = turn(c, owner)?;
    c.progress.v40.client = Some(owner.client());
    if let Begin::Replay(replay) = turn.begin(sequenced.seqid, sequenced.request)? {
        return again(c, &replay, reply);
    }
    let start = reply.len();
    let result = run(c, reply, &mut turn);
    end(c, owner, &mut turn, sequenced, &result, reply, start, &[]);
    result
}

/// Answers the copy of a request with the cached reply. The filehandle that becomes current again
/// is checked like one from the client, since the export's policy may have changed.
///
/// # Errors
/// NFS4ERR_WRONGSEC, NFS4ERR_STALE, and the error in the cached reply.
pub(super) fn again(c: &mut Compound<'_>, replay: &Replay, reply: &mut Encoder) -> OpResult {
    // The first reply may still wait for client records.
    c.note_grant();
    if !replay.filehandle.is_empty() {
        let fh = c.decode_fh(Decoder::new(&replay.filehandle).opaque(FILEHANDLE_MAX)?)?;
        c.check_flavor(&fh)?;
        c.set_current(fh);
    }
    reply.raw(&replay.body);
    match replay.status {
        Nfsstat4::NFS4_OK => Ok(()),
        status => Err(OpError::with_body(status).into()),
    }
}

/// Caches the reply of an operation, whose result begins at `start` of the reply.
#[expect(clippy::too_many_arguments, reason = "the parts of one reply, used once")]
pub(super) fn end(
    c: &Compound<'_>,
    owner: &Arc<StateOwner>,
    turn: &mut Turn<'_>,
    sequenced: SequencedCall,
    result: &OpResult,
    reply: &Encoder,
    start: usize,
    filehandle: &[u8],
) {
    let Some(replay) = replay(sequenced.opnum, result, reply, start, filehandle) else { return };
    // Closed stateids are kept only as long as the CLOSE is the owner's last request.
    if turn.end(sequenced.seqid, sequenced.request, replay) && sequenced.opnum != NfsOpnum4::OP_CLOSE {
        c.state().v40().keep_closed(turn, owner, None);
    }
}

/// Returns the reply for a copy; `None` for an operation that has not run.
pub(super) fn replay(
    opnum: NfsOpnum4,
    result: &OpResult,
    reply: &Encoder,
    start: usize,
    filehandle: &[u8],
) -> Option<Replay> {
    let (status, has_body) = match result {
        Ok(()) => (Nfsstat4::NFS4_OK, true),
        Err(OpStop::Deferred(_)) => return None,
        Err(OpStop::Failed(error)) => (allowed_status(0, opnum, error.status), error.body == ErrorBody::Keep),
    };
    let body = if has_body { reply.as_slice().get(start..).unwrap_or_default() } else { &[] };
    Some(Replay { status, body: body.into(), filehandle: filehandle.into() })
}

/// Checks that the owner is confirmed (RFC 7530 section 16.18.5), and that the stateid's sequence
/// number is not zero, which stands for the current one only since NFSv4.1.
///
/// # Errors
/// NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID.
pub(super) fn check(turn: &Turn<'_>, stateid: &Stateid4) -> Result<(), OpError> {
    if !turn.is_confirmed() {
        return Err(Nfsstat4::NFS4ERR_BAD_STATEID.into());
    }
    check_current(stateid)
}

/// Checks only the stateid's sequence number, as [`check`] does.
///
/// # Errors
/// NFS4ERR_OLD_STATEID.
pub(super) fn check_current(stateid: &Stateid4) -> Result<(), OpError> {
    if stateid.seqid == 0 && StateidKind::of(stateid) == StateidKind::Ordinary {
        return Err(Nfsstat4::NFS4ERR_OLD_STATEID.into());
    }
    Ok(())
}
