//! COMMIT (RFC 8881 section 18.3).

use crate::engine::{Compound, OpResult, regular_file};
use nfs4::{Commit4Args, Nfsstat4};
use vfs::VfsError;
use xdr::{Decode, Decoder, Encoder};

/// Puts written data on stable storage: the whole file, for any range.
///
/// # Errors
/// NFS4ERR_ISDIR, NFS4ERR_SYMLINK, NFS4ERR_WRONG_TYPE, and the backend's.
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    Commit4Args::decode(args)?;
    let object = c.object(Nfsstat4::NFS4ERR_ISDIR)?;
    let backend = &object.export.backend;
    let committed = match backend.getattr(&object.handle) {
        // The file has no name, but is still open.
        Err(VfsError::Stale) => c.opened(object).ok_or(Nfsstat4::NFS4ERR_STALE)?.sync(),
        attributes => {
            regular_file(attributes?.file_type)?;
            backend.commit(&object.handle)
        }
    };
    c.nfs.synced(committed)?;
    reply.opaque_fixed(&c.nfs.write_verifier());
    Ok(())
}
