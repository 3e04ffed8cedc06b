//! OPEN of NFSv4.0 (RFC 7530 section 16.16): with the sequence number of its owner, and without a
//! delegation.

use super::sequenced::{self, SequencedCall};
use crate::engine::{Compound, Fh, OpError, OpResult};
use crate::ops::open::{self, OpenShare};
use nfs4::{
    Createhow4, NfsOpnum4, Nfsstat4, OPEN4_RESULT_CONFIRM, OPEN4_RESULT_LOCKTYPE_POSIX, Open4Args,
    OpenClaim4, OpenDelegationType4, Openflag4,
};
use state::v40::{Begin, OwnerKind, Turn};
use state::{ClientKey, OpenClaim};
use xdr::{Decode, Decoder, Encoder};

/// Opens a file, and creates it if the client asks for that. An unknown owner has to confirm its
/// first OPEN.
///
/// # Errors
/// NFS4ERR_BAD_SEQID, NFS4ERR_STALE_CLIENTID, NFS4ERR_EXPIRED, NFS4ERR_RESOURCE, NFS4ERR_NOTSUPP
/// (CLAIM_DELEGATE_PREV), and the errors of [`crate::ops::open::run`].
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let before = *args;
    let decoded = Open4Args::decode(args)?;
    check_arms(&decoded)?;
    let sequenced = SequencedCall::new(c, NfsOpnum4::OP_OPEN, decoded.seqid, &before, args);
    let client = c.state().v40().client_of_id_40(c.now(), &c.sender(), decoded.owner.clientid)?;
    c.progress.v40.client = Some(client);
    let owner = c.state().v40().state_owner(c.now(), client, OwnerKind::Open, &decoded.owner.owner)?;
    let mut turn = sequenced::turn(c, &owner)?;
    if let Begin::Replay(replay) = turn.begin_open(sequenced.seqid, sequenced.request)? {
        return sequenced::again(c, &replay, reply);
    }
    record(c, client);
    if !turn.is_confirmed() {
        c.with_effects(|state, effects| state.v40().cancel_unconfirmed(&mut turn, effects));
    }
    let start = reply.len();
    let result = c.with_room(|c| open(c, &decoded, client, &mut turn, reply));
    let mut filehandle = Encoder::new();
    if let (Ok(()), Some(fh)) = (&result, &c.progress.current) {
        c.encode_fh(fh, &mut filehandle);
    }
    sequenced::end(c, &owner, &mut turn, sequenced, &result, reply, start, filehandle.as_slice());
    result
}

/// Refuses arms of unions that only NFSv4.1 has.
///
/// # Errors
/// NFS4ERR_BADXDR for such an arm.
fn check_arms(args: &Open4Args<'_>) -> Result<(), OpError> {
    let later = matches!(
        args.claim,
        OpenClaim4::CLAIM_FH | OpenClaim4::CLAIM_DELEG_CUR_FH(_) | OpenClaim4::CLAIM_DELEG_PREV_FH
    ) || matches!(args.openhow, Openflag4::OPEN4_CREATE(Createhow4::EXCLUSIVE4_1(_)));
    if later { Err(Nfsstat4::NFS4ERR_BADXDR.into()) } else { Ok(()) }
}

/// Records a client with its first open, so that it may reclaim after a restart.
fn record(c: &Compound<'_>, client: ClientKey) {
    if !c.state().v40().is_recorded_40(client) {
        c.with_effects(|state, effects| state.v40().record_client_40(client, effects));
    }
}

fn open(
    c: &mut Compound<'_>,
    args: &Open4Args<'_>,
    client: ClientKey,
    turn: &mut Turn<'_>,
    reply: &mut Encoder,
) -> OpResult {
    let share = OpenShare::check_40(args)?;
    let claim = match &args.claim {
        OpenClaim4::CLAIM_PREVIOUS(_) => OpenClaim::Previous,
        OpenClaim4::CLAIM_DELEGATE_CUR(claim) => OpenClaim::Delegated(claim.delegate_stateid),
        OpenClaim4::CLAIM_DELEGATE_PREV(_) => return Err(Nfsstat4::NFS4ERR_NOTSUPP.into()),
        _ => OpenClaim::New,
    };
    let opened = open::open(c, args, share, claim).map_err(|stop| {
        // NFSv4.0 treats special files like symbolic links (RFC 7530 section 16.16.5).
        if stop.is(Nfsstat4::NFS4ERR_WRONG_TYPE) { Nfsstat4::NFS4ERR_SYMLINK.into() } else { stop }
    })?;
    c.end_changes();
    // The grace period may have ended in between, with the client's record.
    record(c, client);
    let reclaims = claim == OpenClaim::Previous;
    let confirm = c.state().v40().opened_40(turn, &opened.stateid, c.sender().principal, reclaims);
    c.set_current(Fh::Object(opened.object));
    let change = opened.change;
    reply.value(&opened.stateid).boolean(false).u64(change.before).u64(change.after);
    let confirm = if confirm { OPEN4_RESULT_CONFIRM } else { 0 };
    reply.u32(OPEN4_RESULT_LOCKTYPE_POSIX | confirm).value(&opened.attrset);
    // The callback of NFSv4.0 is a connection to the client, which fails behind firewalls and
    // address translation.
    reply.u32(OpenDelegationType4::OPEN_DELEGATE_NONE as u32);
    Ok(())
}
