//! DELEGRETURN (RFC 8881 section 18.6): the server gives no delegations.

use crate::engine::{Compound, OpResult};
use nfs4::{Delegreturn4Args, Nfsstat4};
use xdr::{Decode, Decoder, Encoder};

/// Refuses: no stateid stands for a delegation.
///
/// # Errors
/// NFS4ERR_BAD_STATEID always.
pub fn run(_: &mut Compound<'_>, args: &mut Decoder<'_>, _: &mut Encoder) -> OpResult {
    Delegreturn4Args::decode(args)?;
    Err(Nfsstat4::NFS4ERR_BAD_STATEID.into())
}
