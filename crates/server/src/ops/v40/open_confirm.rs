//! OPEN_CONFIRM (RFC 7530 section 16.18).

use super::sequenced::{self, SequencedCall};
use crate::engine::{Compound, OpResult, OpStop};
use nfs4::{NfsOpnum4, Nfsstat4, OpenConfirm4Args};
use state::v40::Begin;
use xdr::{Decode, Decoder, Encoder};

/// Confirms the first OPEN of an owner. An unexpected sequence number cancels that OPEN.
///
/// # Errors
/// NFS4ERR_BAD_SEQID, and the errors of [`state::V40::owner_of_open`] and
/// [`state::V40::open_confirm`].
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let before = *args;
    let decoded = OpenConfirm4Args::decode(args)?;
    let stateid = decoded.open_stateid;
    let sequenced = SequencedCall::new(c, NfsOpnum4::OP_OPEN_CONFIRM, decoded.seqid, &before, args);
    let owner = c.state().v40().owner_of_open(c.now(), &c.sender(), &stateid)?;
    let mut turn = sequenced::turn(c, &owner)?;
    match turn.begin(sequenced.seqid, sequenced.request) {
        Ok(Begin::Replay(replay)) => return sequenced::again(c, &replay, reply),
        Ok(Begin::Run) => {}
        Err(status) => {
            if !turn.is_confirmed() {
                c.with_effects(|state, effects| state.v40().cancel_unconfirmed(&mut turn, effects));
                // A copy then gets the same answer.
                c.state().v40().keep_closed(&mut turn, &owner, Some(&stateid));
            }
            return Err(status.into());
        }
    }
    let start = reply.len();
    let result = sequenced::check_current(&stateid)
        .and_then(|()| c.file(Nfsstat4::NFS4ERR_BAD_STATEID))
        .and_then(|file| Ok(c.state().v40().open_confirm(&mut turn, &stateid, &file)?))
        .map(|stateid| {
            reply.value(&stateid);
        })
        .map_err(OpStop::from);
    sequenced::end(c, &owner, &mut turn, sequenced, &result, reply, start, &[]);
    result
}
