//! ALLOCATE and DEALLOCATE (RFC 7862 sections 15.1 and 15.4). The changes are on stable storage
//! before the reply: clients send no COMMIT for them.

use crate::engine::{Compound, OpResult};
use nfs4::{Allocate4Args, Deallocate4Args};
use xdr::{Decode, Decoder, Encoder};

/// Reserves space for a range; the file grows to hold it.
///
/// # Errors
/// The errors of stateids, NFS4ERR_OPENMODE, NFS4ERR_LOCKED, NFS4ERR_INVAL for an empty range,
/// NFS4ERR_FBIG, NFS4ERR_NOSPC, NFS4ERR_NOTSUPP, and the backend's.
pub fn allocate(c: &mut Compound<'_>, args: &mut Decoder<'_>, _: &mut Encoder) -> OpResult {
    let args = Allocate4Args::decode(args)?;
    let file = c.file_to_write(args.aa_stateid)?;
    file.allocate(args.aa_offset, args.aa_length)?;
    Ok(c.nfs.synced(file.sync())?)
}

/// Turns a range into a hole.
///
/// # Errors
/// As [`allocate`].
pub fn deallocate(c: &mut Compound<'_>, args: &mut Decoder<'_>, _: &mut Encoder) -> OpResult {
    let args = Deallocate4Args::decode(args)?;
    let file = c.file_to_write(args.da_stateid)?;
    file.deallocate(args.da_offset, args.da_length)?;
    Ok(c.nfs.synced(file.sync())?)
}
