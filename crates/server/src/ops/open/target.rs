//! The target of an OPEN: finds or creates the file.

use super::create::{self, Creation};
use super::{DirectoryChange, OpenShare};
use crate::engine::io::SHARE_WRITE;
use crate::engine::{Compound, Fh, Object, OpResult, names, regular_file};
use nfs4::{Bitmap4, Nfsstat4, Open4Args, OpenClaim4, Openflag4};
use std::sync::Arc;
use vfs::OpenFile;

/// The file to open, and the changes made on the way.
pub(super) struct Target {
    /// The file as an object of its export.
    pub object: Object,
    /// The backend's file when the OPEN has created it. Its creator may use it with any mode.
    pub created: Option<Arc<dyn OpenFile>>,
    /// Whether an existing file is to be truncated to zero bytes.
    pub truncate: bool,
    /// Whether an earlier copy of this OPEN has created it, whose sender may use it with any mode.
    pub repeated: bool,
    /// The attributes that were set or will be set.
    pub attrset: Bitmap4,
    /// The directory's change attribute before and after.
    pub change: DirectoryChange,
}

impl Target {
    /// Makes the target of an existing file that is not changed.
    pub(super) fn existing(object: Object, change: DirectoryChange) -> Self {
        Self { object, created: None, truncate: false, repeated: false, attrset: Bitmap4::EMPTY, change }
    }
}

/// Finds or creates the file.
///
/// # Errors
/// As [`super::run`].
pub(super) fn find(c: &Compound<'_>, args: &Open4Args<'_>, share: OpenShare) -> OpResult<Target> {
    let target = match &args.claim {
        OpenClaim4::CLAIM_NULL(name) => by_name(c, names::component(name)?, args, share)?,
        OpenClaim4::CLAIM_FH | OpenClaim4::CLAIM_PREVIOUS(_) | OpenClaim4::CLAIM_DELEG_CUR_FH(_) => {
            c.check_flavor(c.fh()?)?;
            by_filehandle(c, args)?
        }
        OpenClaim4::CLAIM_DELEGATE_CUR(claim) => by_name(c, names::component(&claim.file)?, args, share)?,
        // The server keeps no delegation for a client that has restarted.
        OpenClaim4::CLAIM_DELEGATE_PREV(_) | OpenClaim4::CLAIM_DELEG_PREV_FH => {
            return Err(Nfsstat4::NFS4ERR_RECLAIM_BAD.into());
        }
    };
    if share.access & SHARE_WRITE != 0 {
        c.check_writable(&target.object)?;
    }
    Ok(target)
}

/// Takes the current filehandle as the file; nothing can be created.
fn by_filehandle(c: &Compound<'_>, args: &Open4Args<'_>) -> OpResult<Target> {
    if matches!(args.openhow, Openflag4::OPEN4_CREATE(_)) {
        return Err(Nfsstat4::NFS4ERR_INVAL.into());
    }
    let object = c.object(Nfsstat4::NFS4ERR_ISDIR)?.clone();
    regular_file(c.attributes(c.fh()?)?.file_type)?;
    Ok(Target::existing(object, DirectoryChange::default()))
}

/// Takes the current filehandle as the directory.
fn by_name(c: &Compound<'_>, name: &[u8], args: &Open4Args<'_>, share: OpenShare) -> OpResult<Target> {
    let directory = c.fh()?;
    if c.lookup_pseudo(directory, name)?.is_some() {
        return Err(match &args.openhow {
            Openflag4::OPEN4_CREATE(how) if !create::is_unchecked(how) => Nfsstat4::NFS4ERR_EXIST,
            _ => Nfsstat4::NFS4ERR_ISDIR,
        }
        .into());
    }
    let creating = matches!(args.openhow, Openflag4::OPEN4_CREATE(_));
    let directory = match directory {
        Fh::Object(object) => object,
        Fh::Pseudo(_) if creating => return Err(Nfsstat4::NFS4ERR_ROFS.into()),
        Fh::Pseudo(_) => return Err(Nfsstat4::NFS4ERR_NOENT.into()),
    };
    // File and directory are in one export, so one check covers both.
    c.check_flavor(c.fh()?)?;
    match &args.openhow {
        Openflag4::OPEN4_CREATE(how) => {
            c.check_brief(directory)?;
            let creation = Creation::decode(c, how)?;
            create::find_or_create(c, directory, name, &creation, share)
        }
        Openflag4::Default(_) => {
            let change = directory.export.backend.getattr(&directory.handle)?.change;
            let Fh::Object(object) = c.lookup(c.fh()?, name)? else {
                return Err(Nfsstat4::NFS4ERR_ISDIR.into());
            };
            regular_file(object.export.backend.getattr(&object.handle)?.file_type)?;
            Ok(Target::existing(object, DirectoryChange { before: change, after: change }))
        }
    }
}
