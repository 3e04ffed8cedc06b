//! LOCKU of NFSv4.0 (RFC 7530 section 16.12).

use super::sequenced::{self, SequencedCall};
use crate::engine::{Compound, OpResult};
use crate::ops;
use nfs4::{Locku4Args, NfsOpnum4};
use xdr::{Decode, Decoder, Encoder};

/// Unlocks a range of bytes.
///
/// # Errors
/// NFS4ERR_BAD_SEQID, and the errors of [`state::V40::owner_of_lock`] and [`ops::locku::run`].
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let before = *args;
    let decoded = Locku4Args::decode(args)?;
    let sequenced = SequencedCall::new(c, NfsOpnum4::OP_LOCKU, decoded.seqid, &before, args);
    let owner = c.state().v40().owner_of_lock(c.now(), &c.sender(), &decoded.lock_stateid)?;
    sequenced::run(c, &owner, sequenced, reply, |c, reply, _| {
        sequenced::check_current(&decoded.lock_stateid)?;
        let done = ops::locku::run(c, &mut before.clone(), reply);
        c.progress.stateid = None;
        done
    })
}
