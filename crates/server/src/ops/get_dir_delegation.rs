//! GET_DIR_DELEGATION (RFC 8881 section 18.39): the server gives none.
//! Lacking: delegations of directories; the answer is GDD4_UNAVAIL

use crate::engine::{Compound, OpResult};
use nfs4::{Gddrnf4Status, GetDirDelegation4Args};
use xdr::{Decode, Decoder, Encoder};

/// Answers that a delegation is not available, and that no signal will follow.
///
/// # Errors
/// NFS4ERR_BADXDR.
pub fn run(_: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    GetDirDelegation4Args::decode(args)?;
    reply.u32(Gddrnf4Status::GDD4_UNAVAIL as u32).boolean(false);
    Ok(())
}
