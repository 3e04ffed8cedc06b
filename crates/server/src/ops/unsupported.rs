//! What RFC 8881 calls optional or RFC 7862 adds, and the server does not do; and what NFSv4.1 took
//! out of NFSv4.0 (RFC 8881 section 17).

use crate::engine::{Compound, OpResult};
use nfs4::Nfsstat4;
use xdr::{Decoder, Encoder};

/// Refuses; nothing behind the operation is run, so that its arguments need not be read.
///
/// # Errors
/// NFS4ERR_NOTSUPP always.
pub fn run(_: &mut Compound<'_>, _: &mut Decoder<'_>, _: &mut Encoder) -> OpResult {
    Err(Nfsstat4::NFS4ERR_NOTSUPP.into())
}
