//! Encoding of callbacks and decoding of their answers (RFC 8881 section 20, RFC 5531).

use super::security::Proof;
use nfs4::{
    CB_COMPOUND, CbCompound4Args, CbGetattr4Res, CbSequence4Args, CbSequence4Resok, NFS_CB, NfsCbArgop4,
    NfsCbOpnum4, Nfsstat4, Purpose, ReferringCall4, ReferringCallList4, attributes, decode_fattr4,
};
use rpcsec::CONFOUNDER_LEN;
use state::{BackCall, CallbackEnd, HeldAttributes, ReferringCall};
use vfs::OFFSET_MAX;
use xdr::{Decode, Decoder};

/// The operation behind CB_SEQUENCE, if any, and its referring call.
#[derive(Debug, Default)]
pub(crate) struct CallbackOperation {
    pub(crate) argop: Option<NfsCbArgop4<'static>>,
    /// The request that caused this callback.
    pub(crate) referring: Option<ReferringCall>,
}

/// Encodes the record of a callback, with room for the record mark: CB_SEQUENCE and the operation
/// behind it. `confounder` is random.
pub(crate) fn encode(
    xid: u32,
    call: &BackCall,
    operation: &CallbackOperation,
    proof: &Proof,
    confounder: [u8; CONFOUNDER_LEN],
) -> Vec<u8> {
    let channel = &call.channel;
    let sequence = CbSequence4Args {
        csa_sessionid: call.sessionid(),
        csa_sequenceid: call.sequenceid,
        csa_slotid: call.slotid,
        csa_highest_slotid: call.highest_slotid,
        // All callbacks are idempotent.
        csa_cachethis: false,
        csa_referring_call_lists: operation.referring.map(referring).into_iter().collect(),
    };
    let argarray =
        [NfsCbArgop4::OP_CB_SEQUENCE(sequence)].into_iter().chain(operation.argop.clone()).collect();
    let minorversion = channel.minor_version;
    let args = CbCompound4Args { tag: b"".into(), minorversion, callback_ident: 0, argarray };
    proof.record(xid, (channel.program, NFS_CB, CB_COMPOUND), &args, confounder)
}

/// Names the request that caused the callback, so that a client that has not seen its reply yet
/// processes the reply first (RFC 8881 section 2.10.6.3).
fn referring(call: ReferringCall) -> ReferringCallList4 {
    let ReferringCall { sessionid, sequenceid, slotid } = call;
    let calls = vec![ReferringCall4 { rc_sequenceid: sequenceid, rc_slotid: slotid }];
    ReferringCallList4 { rcl_sessionid: sessionid, rcl_referring_calls: calls }
}

/// The outcome of a callback.
#[derive(Debug)]
pub(crate) enum CallbackReply<'a> {
    /// CB_SEQUENCE and the operation behind it succeeded. The decoder stands at the results of the
    /// latter.
    Done(Decoder<'a>),
    /// The operation behind CB_SEQUENCE failed.
    Failed(Nfsstat4),
    /// Nothing was done. The slot is in this state now, and the callback is to be sent again.
    Again(CallbackEnd),
    /// The client does not accept callbacks on this channel.
    Refused,
}

/// Decodes the results of a callback after its protection is removed.
pub(crate) fn answer(results_of: &[u8]) -> CallbackReply<'_> {
    results(&mut Decoder::new(results_of)).unwrap_or(CallbackReply::Refused)
}

fn results<'a>(decoder: &mut Decoder<'a>) -> Result<CallbackReply<'a>, xdr::Error> {
    let status = Nfsstat4::decode(decoder)?;
    let _tag = decoder.opaque(usize::MAX)?;
    let count = decoder.u32()?;
    if count == 0 || NfsCbOpnum4::decode(decoder)? != NfsCbOpnum4::OP_CB_SEQUENCE {
        return Ok(CallbackReply::Refused);
    }
    let sequence = Nfsstat4::decode(decoder)?;
    if sequence != Nfsstat4::NFS4_OK {
        return Ok(refused(sequence));
    }
    CbSequence4Resok::decode(decoder)?;
    match (status, count) {
        (Nfsstat4::NFS4_OK, _) => Ok(CallbackReply::Done(*decoder)),
        // Also returned for the operation behind CB_SEQUENCE (section 2.10.6.1.3).
        (Nfsstat4::NFS4ERR_RETRY_UNCACHED_REP, _) => Ok(CallbackReply::Again(CallbackEnd::Answered)),
        (status, _) => Ok(CallbackReply::Failed(status)),
    }
}

/// Maps an error of CB_SEQUENCE to an outcome (RFC 8881 section 20.9.3).
fn refused(status: Nfsstat4) -> CallbackReply<'static> {
    match status {
        Nfsstat4::NFS4ERR_DELAY => CallbackReply::Again(CallbackEnd::Unknown),
        // The last callback in this slot had arrived, and its answer was lost.
        Nfsstat4::NFS4ERR_RETRY_UNCACHED_REP | Nfsstat4::NFS4ERR_SEQ_FALSE_RETRY => {
            CallbackReply::Again(CallbackEnd::Answered)
        }
        Nfsstat4::NFS4ERR_SEQ_MISORDERED => CallbackReply::Again(CallbackEnd::Misordered),
        _ => CallbackReply::Refused,
    }
}

/// Decodes the result of CB_GETATTR, which must hold both change and size.
pub(crate) fn held_attributes(mut results: Decoder<'_>) -> Option<HeldAttributes> {
    if NfsCbOpnum4::decode(&mut results) != Ok(NfsCbOpnum4::OP_CB_GETATTR) {
        return None;
    }
    let CbGetattr4Res::NFS4_OK(ok) = CbGetattr4Res::decode(&mut results).ok()? else { return None };
    let values = decode_fattr4(&ok.obj_attributes, Purpose::Learn, &attributes::KNOWN).ok()?;
    let size = values.size.filter(|size| *size <= OFFSET_MAX)?;
    Some(HeldAttributes { change: values.change?, size })
}
