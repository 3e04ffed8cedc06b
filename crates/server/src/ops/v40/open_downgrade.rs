//! OPEN_DOWNGRADE of NFSv4.0 (RFC 7530 section 16.19).

use super::sequenced::{self, SequencedCall};
use crate::engine::{Compound, OpResult};
use crate::ops;
use nfs4::{NfsOpnum4, Nfsstat4, OpenDowngrade4Args};
use xdr::{Decode, Decoder, Encoder};

/// READ and WRITE: there are no other bits in NFSv4.0.
const SHARE_BOTH: u32 = 3;

/// Drops access or deny bits of an open.
///
/// # Errors
/// NFS4ERR_BAD_SEQID, and the errors of [`state::V40::owner_of_open`] and
/// [`ops::open_downgrade::run`].
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let before = *args;
    let decoded = OpenDowngrade4Args::decode(args)?;
    let sequenced = SequencedCall::new(c, NfsOpnum4::OP_OPEN_DOWNGRADE, decoded.seqid, &before, args);
    let owner = c.state().v40().owner_of_open(c.now(), &c.sender(), &decoded.open_stateid)?;
    sequenced::run(c, &owner, sequenced, reply, |c, reply, turn| {
        sequenced::check(turn, &decoded.open_stateid)?;
        if decoded.share_access > SHARE_BOTH {
            return Err(Nfsstat4::NFS4ERR_INVAL.into());
        }
        let done = ops::open_downgrade::run(c, &mut before.clone(), reply);
        c.progress.stateid = None;
        done
    })
}
