//! CLOSE of NFSv4.0 (RFC 7530 section 16.2).

use super::sequenced::{self, SequencedCall};
use crate::engine::{Compound, OpResult};
use nfs4::{Close4Args, NfsOpnum4, Nfsstat4, Stateid4};
use xdr::{Decode, Decoder, Encoder};

/// Ends an open with the locks under it. The open's stateid leads to the cached reply until the
/// owner's next request.
///
/// # Errors
/// NFS4ERR_BAD_SEQID, and the errors of [`state::V40::owner_of_open`] and [`state::Opens::close`].
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let before = *args;
    let decoded = Close4Args::decode(args)?;
    let stateid = decoded.open_stateid;
    let sequenced = SequencedCall::new(c, NfsOpnum4::OP_CLOSE, decoded.seqid, &before, args);
    let owner = c.state().v40().owner_of_open(c.now(), &c.sender(), &stateid)?;
    sequenced::run(c, &owner, sequenced, reply, |c, reply, turn| {
        sequenced::check(turn, &stateid)?;
        let file = c.file(Nfsstat4::NFS4ERR_BAD_STATEID)?;
        c.with_effects(|state, effects| state.opens().close(owner.client(), &stateid, &file, effects))?;
        c.state().v40().keep_closed(turn, &owner, Some(&stateid));
        reply.value(&Stateid4 { seqid: stateid.seqid.wrapping_add(1), ..stateid });
        Ok(())
    })
}
