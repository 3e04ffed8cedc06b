//! COPY within the server (RFC 7862 section 15.2).
//! Lacking: copies that go on after the answer, and those from another server

use crate::engine::{Compound, Failure, Fh, Object, OpResult};
use nfs4::{Copy4Args, Nfsstat4, StableHow4, Stateid4};
use state::StateidKind;
use std::sync::Arc;
use vfs::OpenFile;
use xdr::{Decode, Decoder, Encoder};

/// Copies from the saved file to the current one, in order, and answers when that is done. What is longer than
/// `copy_max` is copied in part, which wr_count says.
///
/// # Errors
/// NFS4ERR_NOTSUPP for a source on another server, NFS4ERR_INVAL for a source range that is not within its file and for
/// one file as both, those of stateids, NFS4ERR_OPENMODE, NFS4ERR_LOCKED, and the backend's.
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let args = Copy4Args::decode(args)?;
    if !args.ca_source_server.is_empty() {
        return Err(Nfsstat4::NFS4ERR_NOTSUPP.into());
    }
    let (from, source) = source(c, args.ca_src_stateid)?;
    let target = c.file_to_write(args.ca_dst_stateid)?;
    if from.key() == c.file(Nfsstat4::NFS4ERR_ISDIR)? {
        return Err(Nfsstat4::NFS4ERR_INVAL.into());
    }
    let size = source.getattr()?.size;
    let left = size.checked_sub(args.ca_src_offset).ok_or(Nfsstat4::NFS4ERR_INVAL)?;
    if args.ca_count > left {
        return Err(Nfsstat4::NFS4ERR_INVAL.into());
    }
    let wanted = if args.ca_count == 0 { left } else { args.ca_count };
    let count = wanted.min(c.nfs.config.copy_max);
    // Before the data: a failure in between must not go unseen.
    let verifier = c.nfs.write_verifier();
    let copied = target.copy_range(&*source, args.ca_src_offset, args.ca_dst_offset, count)?;
    if copied == 0 && count > 0 && source.getattr()?.size > args.ca_src_offset {
        return Err(Nfsstat4::NFS4ERR_NOSPC.into());
    }
    reply.array_len(0).u64(copied).u32(StableHow4::UNSTABLE4 as u32).opaque_fixed(&verifier);
    // Consecutive and synchronous.
    reply.boolean(true).boolean(true);
    Ok(())
}

/// Returns the saved object and its open file for reading; the saved stateid stands for the special one.
///
/// # Errors
/// NFS4ERR_NOFILEHANDLE, NFS4ERR_ISDIR, NFS4ERR_ACCESS for a flavor that is not the source's, and as
/// [`Compound::file_to_read`].
pub fn source(c: &Compound<'_>, stateid: Stateid4) -> Result<(Object, Arc<dyn OpenFile>), Failure> {
    let saved = c.saved.as_ref().ok_or(Nfsstat4::NFS4ERR_NOFILEHANDLE)?;
    let Fh::Object(object) = saved else { return Err(Nfsstat4::NFS4ERR_ISDIR.into()) };
    if !c.flavor_allowed(saved) {
        return Err(Nfsstat4::NFS4ERR_ACCESS.into());
    }
    let stateid = match StateidKind::of(&stateid) {
        StateidKind::Current => c.saved_stateid.ok_or(Nfsstat4::NFS4ERR_BAD_STATEID)?,
        _ => stateid,
    };
    if StateidKind::of(&stateid) == StateidKind::Invalid {
        return Err(Nfsstat4::NFS4ERR_BAD_STATEID.into());
    }
    Ok((object.clone(), c.file_of_to_read(object, stateid)?))
}
