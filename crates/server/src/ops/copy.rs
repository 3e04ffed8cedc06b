//! COPY within the server (RFC 7862 section 15.2).
//! Lacking: copies from another server

use crate::engine::{Compound, CopyRange, Fh, Object, OpResult};
use nfs4::{Copy4Args, Nfsstat4, StableHow4, Stateid4};
use state::StateidKind;
use std::sync::Arc;
use vfs::OpenFile;
use xdr::{Decode, Decoder, Encoder};

/// Copies from the saved file to the current one, in order. A copy longer than `copy_piece_max`
/// continues in the background, if the client allows it and has a backchannel. Else it finishes
/// before its reply, at most `copy_max` bytes of it, and wr_count has the number of bytes copied.
///
/// # Errors
/// NFS4ERR_NOTSUPP for a source on another server; NFS4ERR_INVAL for a source range that is not
/// within its file, for one file as both, and for a source stateid of another client; the errors of
/// stateids, NFS4ERR_OPENMODE, NFS4ERR_LOCKED, and the backend's.
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let args = Copy4Args::decode(args)?;
    if !args.ca_source_server.is_empty() {
        return Err(Nfsstat4::NFS4ERR_NOTSUPP.into());
    }
    // Linux has one client for each network namespace, but copies from a mount of one to a mount of
    // another. It would repeat the COPY without an end after NFS4ERR_BAD_STATEID; after this one
    // the program reads and writes.
    let client = c.progress.session.as_ref().map(|session| session.client);
    if client.is_some_and(|client| c.state().is_of_another_client(client, &args.ca_src_stateid)) {
        return Err(Nfsstat4::NFS4ERR_INVAL.into());
    }
    let (from, source) = source(c, args.ca_src_stateid)?;
    let target = c.file_to_write(args.ca_dst_stateid)?;
    let to = c.object(Nfsstat4::NFS4ERR_ISDIR)?.clone();
    if from.key() == to.key() {
        return Err(Nfsstat4::NFS4ERR_INVAL.into());
    }
    let size = source.getattr()?.size;
    let left = size.checked_sub(args.ca_src_offset).ok_or(Nfsstat4::NFS4ERR_INVAL)?;
    if args.ca_count > left {
        return Err(Nfsstat4::NFS4ERR_INVAL.into());
    }
    let count = if args.ca_count == 0 { left } else { args.ca_count };
    let mut range = CopyRange { source, target, from: args.ca_src_offset, to: args.ca_dst_offset, count };
    // Taken before the data is written, so that a failure in between changes the next verifier.
    let verifier = c.nfs.write_verifier(&*to.export.backend);
    if !args.ca_synchronous && count > c.nfs.config.copy_piece_max {
        let stateids = [source_stateid(c, args.ca_src_stateid)?, c.resolve(args.ca_dst_stateid)?];
        match c.copy_later((&from, &to), stateids, range) {
            Ok(stateid) => {
                let id = [stateid];
                reply.array(&id).u64(0).u32(StableHow4::UNSTABLE4 as u32).opaque_fixed(&verifier);
                // Consecutive, and not synchronous.
                reply.boolean(true).boolean(false);
                return Ok(());
            }
            Err(same) => range = same,
        }
    }
    let copied = range.copy(0, c.nfs.config.copy_max)?;
    reply.array_len(0).u64(copied).u32(StableHow4::UNSTABLE4 as u32).opaque_fixed(&verifier);
    // Consecutive and synchronous.
    reply.boolean(true).boolean(true);
    Ok(())
}

/// Returns the saved object and its file, open for reading; the stateid as in [`source_stateid`].
///
/// # Errors
/// NFS4ERR_NOFILEHANDLE, NFS4ERR_ISDIR, NFS4ERR_ACCESS for a flavor that is not the source's, and
/// as [`Compound::file_to_read`].
pub fn source(c: &Compound<'_>, stateid: Stateid4) -> OpResult<(Object, Arc<dyn OpenFile>)> {
    let saved = c.progress.saved.as_ref().ok_or(Nfsstat4::NFS4ERR_NOFILEHANDLE)?;
    let Fh::Object(object) = saved else { return Err(Nfsstat4::NFS4ERR_ISDIR.into()) };
    if !c.flavor_allowed(saved)? {
        return Err(Nfsstat4::NFS4ERR_ACCESS.into());
    }
    Ok((object.clone(), c.file_of_to_read(object, source_stateid(c, stateid)?)?))
}

/// Resolves the stateid of a source: the special current stateid stands for the saved one.
fn source_stateid(c: &Compound<'_>, stateid: Stateid4) -> OpResult<Stateid4> {
    let stateid = match StateidKind::of(&stateid) {
        StateidKind::Current => c.progress.saved_stateid.ok_or(Nfsstat4::NFS4ERR_BAD_STATEID)?,
        _ => stateid,
    };
    match StateidKind::of(&stateid) {
        StateidKind::Invalid => Err(Nfsstat4::NFS4ERR_BAD_STATEID.into()),
        _ => Ok(stateid),
    }
}
