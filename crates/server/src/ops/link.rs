//! LINK (RFC 8881 section 18.9).

use crate::engine::{Change, Compound, Fh, OpResult, names};
use nfs4::Nfsstat4;
use vfs::FileType;
use xdr::{Decoder, Encoder};

/// Adds a name for the saved object in the current directory.
///
/// # Errors
/// The errors of names, NFS4ERR_NOFILEHANDLE, NFS4ERR_DELAY while others have delegations,
/// NFS4ERR_XDEV, NFS4ERR_ISDIR, NFS4ERR_EXIST, and the backend's.
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let name = names::component(args.opaque(usize::MAX)?)?;
    let directory = c.directory()?;
    let object = match c.progress.saved.as_ref().ok_or(Nfsstat4::NFS4ERR_NOFILEHANDLE)? {
        Fh::Pseudo(_) => return Err(Nfsstat4::NFS4ERR_ISDIR.into()),
        Fh::Object(object) if object.export.id == directory.export.id => object.clone(),
        Fh::Object(_) => return Err(Nfsstat4::NFS4ERR_XDEV.into()),
    };
    if c.lookup_pseudo(c.fh()?, name)?.is_some() {
        return Err(Nfsstat4::NFS4ERR_EXIST.into());
    }
    let backend = &directory.export.backend;
    if backend.getattr(&object.handle)?.file_type == FileType::Directory {
        return Err(Nfsstat4::NFS4ERR_ISDIR.into());
    }
    let held = c.hold_names(&[(&directory, name)])?;
    c.begin_change(&object)?;
    let change = Change::before(&directory)?;
    backend.link(&c.caller(&directory), &object.handle, &directory.handle, name)?;
    reply.value(&change.after(&directory));
    drop(held);
    c.sync_before_reply(&directory)
}
