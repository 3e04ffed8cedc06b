//! CLONE (RFC 7862 section 15.13).

use super::copy::source;
use crate::engine::{Compound, OpResult};
use nfs4::{Clone4Args, Nfsstat4};
use xdr::{Decode, Decoder, Encoder};

/// Makes a range of the current file share the blocks of the saved one.
///
/// # Errors
/// NFS4ERR_NOTSUPP where files share no blocks; NFS4ERR_INVAL for ranges that are unaligned, beyond
/// the source's end, or that overlap in one file; NFS4ERR_XDEV, the errors of stateids,
/// NFS4ERR_OPENMODE, NFS4ERR_LOCKED, and the backend's.
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, _: &mut Encoder) -> OpResult {
    let args = Clone4Args::decode(args)?;
    let (from, source) = source(c, args.cl_src_stateid)?;
    let target = c.file_to_write(args.cl_dst_stateid)?;
    let to = c.object(Nfsstat4::NFS4ERR_ISDIR)?;
    if to.export.backend.features_of(&to.handle).clone_block == 0 {
        return Err(Nfsstat4::NFS4ERR_NOTSUPP.into());
    }
    if from.export.id != to.export.id {
        return Err(Nfsstat4::NFS4ERR_XDEV.into());
    }
    let left = source.getattr()?.size.checked_sub(args.cl_src_offset);
    if left.is_none_or(|left| args.cl_count > left) {
        return Err(Nfsstat4::NFS4ERR_INVAL.into());
    }
    target.clone_range(&*source, args.cl_src_offset, args.cl_dst_offset, args.cl_count)?;
    // Clients send no COMMIT for it, and the reply has no verifier.
    Ok(c.nfs.synced(target.sync())?)
}
