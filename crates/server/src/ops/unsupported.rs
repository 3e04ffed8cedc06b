//! Operations that RFC 8881 calls optional or RFC 7862 adds, and the server lacks; and operations
//! of NFSv4.0 that NFSv4.1 removed (RFC 8881 section 17).

use crate::engine::{Compound, OpResult};
use nfs4::Nfsstat4;
use xdr::{Decoder, Encoder};

/// Refuses an operation without decoding its arguments: no operation behind it runs.
///
/// # Errors
/// NFS4ERR_NOTSUPP always.
pub fn run(_: &mut Compound<'_>, _: &mut Decoder<'_>, _: &mut Encoder) -> OpResult {
    Err(Nfsstat4::NFS4ERR_NOTSUPP.into())
}
