//! The bytes of callbacks and of their answers (RFC 8881 section 20, RFC 5531).

use super::security::Proof;
use nfs4::{
    CB_COMPOUND, CbCompound4Args, CbGetattr4Res, CbSequence4Args, CbSequence4Resok, NFS_CB, NfsCbArgop4,
    NfsCbOpnum4, Nfsstat4, Purpose, ReferringCall4, ReferringCallList4, attributes, decode_fattr4,
};
use rpcsec::CONFOUNDER_LEN;
use state::{BackCall, CallbackEnd, HeldAttributes, ReferringCall};
use xdr::{Decode, Decoder};

/// The largest size that a client is believed to have given a file, in bytes: no file is larger.
const FILE_SIZE_MAX: u64 = i64::MAX as u64;

/// What a callback says behind its CB_SEQUENCE, if anything.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) operation: Option<NfsCbArgop4<'static>>,
    /// The request that it is a consequence of.
    pub(super) referring: Option<ReferringCall>,
}

/// Encodes the record of a callback, with room for the record mark: CB_SEQUENCE and what follows
/// it. `confounder` is random.
pub(super) fn encode(
    xid: u32,
    call: &BackCall,
    said: &Said,
    proof: &Proof,
    confounder: [u8; CONFOUNDER_LEN],
) -> Vec<u8> {
    let channel = &call.channel;
    let sequence = CbSequence4Args {
        csa_sessionid: call.sessionid(),
        csa_sequenceid: call.sequenceid,
        csa_slotid: call.slotid,
        csa_highest_slotid: call.highest_slotid,
        // All callbacks may be done twice.
        csa_cachethis: false,
        csa_referring_call_lists: said.referring.map(referring).into_iter().collect(),
    };
    let argarray =
        [NfsCbArgop4::OP_CB_SEQUENCE(sequence)].into_iter().chain(said.operation.clone()).collect();
    let minorversion = channel.minor_version;
    let args = CbCompound4Args { tag: b"".into(), minorversion, callback_ident: 0, argarray };
    proof.record(xid, (channel.program, NFS_CB, CB_COMPOUND), &args, confounder)
}

/// So that the client, if it has not seen the reply to that request yet, does so first (RFC 8881
/// section 2.10.6.3).
fn referring(call: ReferringCall) -> ReferringCallList4 {
    let ReferringCall { sessionid, sequenceid, slotid } = call;
    let calls = vec![ReferringCall4 { rc_sequenceid: sequenceid, rc_slotid: slotid }];
    ReferringCallList4 { rcl_sessionid: sessionid, rcl_referring_calls: calls }
}

/// What a client has answered to a callback.
#[derive(Debug)]
pub(super) enum Answer<'a> {
    /// CB_SEQUENCE and whatever followed it were done; behind it are the results of the latter.
    Done(Decoder<'a>),
    /// The operation behind CB_SEQUENCE failed.
    Failed(Nfsstat4),
    /// Nothing was done, and the slot is now so.
    Again(CallbackEnd),
    /// The client cannot be called back like this.
    Refused,
}

/// Reads the results of a callback, which its proof has opened.
pub(super) fn answer(results_of: &[u8]) -> Answer<'_> {
    results(&mut Decoder::new(results_of)).unwrap_or(Answer::Refused)
}

fn results<'a>(decoder: &mut Decoder<'a>) -> Result<Answer<'a>, xdr::Error> {
    let status = Nfsstat4::decode(decoder)?;
    let _tag = decoder.opaque(usize::MAX)?;
    let count = decoder.u32()?;
    if count == 0 || NfsCbOpnum4::decode(decoder)? != NfsCbOpnum4::OP_CB_SEQUENCE {
        return Ok(Answer::Refused);
    }
    let sequence = Nfsstat4::decode(decoder)?;
    if sequence != Nfsstat4::NFS4_OK {
        return Ok(refused(sequence));
    }
    CbSequence4Resok::decode(decoder)?;
    match (status, count) {
        (Nfsstat4::NFS4_OK, _) => Ok(Answer::Done(*decoder)),
        // Said of the operation behind CB_SEQUENCE, too (section 2.10.6.1.3).
        (Nfsstat4::NFS4ERR_RETRY_UNCACHED_REP, _) => Ok(Answer::Again(CallbackEnd::Answered)),
        (status, _) => Ok(Answer::Failed(status)),
    }
}

/// What it means that CB_SEQUENCE failed (RFC 8881 section 20.9.3).
fn refused(status: Nfsstat4) -> Answer<'static> {
    match status {
        Nfsstat4::NFS4ERR_DELAY => Answer::Again(CallbackEnd::Unknown),
        // The slot's last callback had arrived, and its answer was lost.
        Nfsstat4::NFS4ERR_RETRY_UNCACHED_REP | Nfsstat4::NFS4ERR_SEQ_FALSE_RETRY => {
            Answer::Again(CallbackEnd::Answered)
        }
        Nfsstat4::NFS4ERR_SEQ_MISORDERED => Answer::Again(CallbackEnd::Misordered),
        _ => Answer::Refused,
    }
}

/// Reads the result of CB_GETATTR: change and size, both of them.
pub(super) fn held_attributes(mut results: Decoder<'_>) -> Option<HeldAttributes> {
    if NfsCbOpnum4::decode(&mut results) != Ok(NfsCbOpnum4::OP_CB_GETATTR) {
        return None;
    }
    let CbGetattr4Res::NFS4_OK(ok) = CbGetattr4Res::decode(&mut results).ok()? else { return None };
    let values = decode_fattr4(&ok.obj_attributes, Purpose::Learn, &attributes::KNOWN).ok()?;
    let size = values.size.filter(|size| *size <= FILE_SIZE_MAX)?;
    Some(HeldAttributes { change: values.change?, size })
}
