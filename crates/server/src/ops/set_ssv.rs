//! SET_SSV (RFC 8881 section 18.47): for SP4_SSV, which the server does not offer.
//! Lacking: SP4_SSV; the answer is NFS4ERR_INVAL

use crate::engine::{Compound, OpResult};
use nfs4::{Nfsstat4, SetSsv4Args};
use xdr::{Decode, Decoder, Encoder};

/// Refuses the operation, since no client has SP4_SSV.
///
/// # Errors
/// NFS4ERR_INVAL always.
pub fn run(_: &mut Compound<'_>, args: &mut Decoder<'_>, _: &mut Encoder) -> OpResult {
    SetSsv4Args::decode(args)?;
    Err(Nfsstat4::NFS4ERR_INVAL.into())
}
