//! READLINK (RFC 8881 section 18.24).

use crate::engine::{Compound, OpResult};
use nfs4::Nfsstat4;
use vfs::FileType;
use xdr::{Decoder, Encoder};

/// Returns the target of a symbolic link.
///
/// # Errors
/// NFS4ERR_WRONG_TYPE for anything but a symbolic link, NFS4ERR_REP_TOO_BIG, and the backend's.
pub fn run(c: &mut Compound<'_>, _: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let object = c.object(Nfsstat4::NFS4ERR_WRONG_TYPE)?;
    let backend = &object.export.backend;
    if backend.getattr(&object.handle)?.file_type != FileType::Symlink {
        return Err(Nfsstat4::NFS4ERR_WRONG_TYPE.into());
    }
    let target = backend.readlink(&c.caller(object), &object.handle)?;
    reply.opaque(&target);
    Ok(())
}
