//! OFFLOAD_STATUS and OFFLOAD_CANCEL (RFC 7862 sections 15.9 and 15.8).
//! Lacking: copies that go on, so that none is ever known

use crate::engine::{Compound, OpResult};
use nfs4::{Nfsstat4, OffloadCancel4Args, OffloadStatus4Args};
use xdr::{Decode, Decoder, Encoder};

/// Knows no copy that goes on: COPY is done when it is answered.
///
/// # Errors
/// NFS4ERR_BAD_STATEID always.
pub fn status(_: &mut Compound<'_>, args: &mut Decoder<'_>, _: &mut Encoder) -> OpResult {
    OffloadStatus4Args::decode(args)?;
    Err(Nfsstat4::NFS4ERR_BAD_STATEID.into())
}

/// As [`status`].
///
/// # Errors
/// NFS4ERR_BAD_STATEID always.
pub fn cancel(_: &mut Compound<'_>, args: &mut Decoder<'_>, _: &mut Encoder) -> OpResult {
    OffloadCancel4Args::decode(args)?;
    Err(Nfsstat4::NFS4ERR_BAD_STATEID.into())
}
