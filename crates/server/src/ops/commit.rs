//! COMMIT (RFC 8881 section 18.3).

use crate::engine::{Compound, OpResult, regular_file};
use nfs4::{Commit4Args, Nfsstat4};
use xdr::{Decode, Decoder, Encoder};

/// Puts what was written on stable storage; the whole file, whatever the range.
///
/// # Errors
/// NFS4ERR_ISDIR, NFS4ERR_SYMLINK, NFS4ERR_WRONG_TYPE, and the backend's.
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    Commit4Args::decode(args)?;
    let object = c.object(Nfsstat4::NFS4ERR_ISDIR)?;
    let backend = &object.export.backend;
    regular_file(backend.getattr(&object.handle)?.file_type)?;
    c.nfs.synced(backend.commit(&object.handle))?;
    reply.opaque_fixed(&c.nfs.write_verifier());
    Ok(())
}
