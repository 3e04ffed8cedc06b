//! SETATTR (RFC 8881 section 18.30).

use crate::attr::{self, Settable, Subject};
use crate::engine::io::SHARE_WRITE;
use crate::engine::{Compound, ErrorBody, Object, OpError, OpResult, regular_file};
use nfs4::{
    Bitmap4, FATTR4_MODE, FATTR4_SIZE, FATTR4_TIME_ACCESS_SET, FATTR4_TIME_MODIFY_SET, Nfsstat4,
    Setattr4Args, Stateid4,
};
use state::StateidKind;
use vfs::{FileType, SetAttributes, SetTime, VfsError, VfsResult};
use xdr::{Decode, Decoder, Encoder};

/// Sets attributes: the size first, through the open of the stateid when there is one.
///
/// # Errors
/// The errors of attributes and stateids, NFS4ERR_LOCKED, NFS4ERR_DELAY while others have
/// delegations, NFS4ERR_ISDIR, and the backend's. attrsset then has the size if it was set.
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let args = Setattr4Args::decode(args)?;
    let mut settable = attr::decode(c, &args.obj_attributes, None)?;
    if settable.set.umask.is_some() {
        // mode_umask is only for objects that are being created (RFC 8275 section 4).
        return Err(Nfsstat4::NFS4ERR_INVAL.into());
    }
    let object = c.object(Nfsstat4::NFS4ERR_ROFS)?;
    settable.fit_acl(|| subject(object))?;
    c.begin_change(object)?;
    let mut done = Bitmap4::EMPTY;
    if let Some(size) = settable.set.size.take() {
        set_size(c, object, args.stateid, size)?;
        done = Bitmap4::of(&[FATTR4_SIZE]);
        // The new size has moved the time of modification, also for a caller that does not own the
        // file: ftruncate() of Linux sends both.
        if settable.set.mtime == Some(SetTime::Now) {
            settable.set.mtime = None;
            done.set(FATTR4_TIME_MODIFY_SET);
        }
    }
    let set = match set(c, object, &mut settable) {
        Err(VfsError::Stale) if !done.is_empty() && drop_times(&mut settable) => Ok(false),
        set => set,
    };
    // This includes sizes: a client without written data sends no COMMIT for one.
    if !done.is_empty() || set == Ok(true) {
        c.sync_before_reply(object)?;
    }
    if let Err(error) = set {
        reply.value(&done);
        return Err(OpError { body: ErrorBody::Keep, ..error.into() }.into());
    }
    reply.value(&settable.mask);
    Ok(())
}

/// Returns the properties of an object that its access control list needs.
///
/// # Errors
/// NFS4ERR_ATTRNOTSUPP for a symbolic link, which has none, and the backend's.
fn subject(object: &Object) -> Result<Subject, OpError> {
    let attributes = object.export.backend.getattr(&object.handle)?;
    if attributes.file_type == FileType::Symlink {
        return Err(Nfsstat4::NFS4ERR_ATTRNOTSUPP.into());
    }
    let directory = attributes.file_type == FileType::Directory;
    Ok(Subject { directory, owner: Some(attributes.uid), group: Some(attributes.gid) })
}

/// Sets the attributes that the backend supports. A symbolic link's mode has no meaning and stays
/// unchanged; attrsset omits it (RFC 8881 section 18.30.3), so that a recursive chmod continues.
/// Returns whether there was anything to set.
fn set(c: &Compound<'_>, object: &Object, settable: &mut Settable) -> VfsResult<bool> {
    if settable.set == SetAttributes::default() {
        return Ok(false);
    }
    match object.export.backend.setattr(&c.caller(object), &object.handle, &settable.set) {
        Err(VfsError::Notsupp) if settable.set.mode.take().is_some() => {
            settable.mask.clear(FATTR4_MODE);
            set(c, object, settable)
        }
        done => done.map(|_| true),
    }
}

/// Drops attributes that are only times, and returns whether they were: a file without names has
/// no times to set.
fn drop_times(settable: &mut Settable) -> bool {
    let Settable { set, mask, .. } = settable;
    if set.atime.take().is_some() {
        mask.clear(FATTR4_TIME_ACCESS_SET);
    }
    if set.mtime.take().is_some() {
        mask.clear(FATTR4_TIME_MODIFY_SET);
    }
    *set == SetAttributes::default()
}

/// Changes the size through the open of a stateid, or with the caller's own permissions.
fn set_size(c: &Compound<'_>, object: &Object, stateid: Stateid4, size: u64) -> OpResult {
    let stateid = c.resolve(stateid)?;
    if StateidKind::of(&stateid) == StateidKind::Ordinary {
        return Ok(c.opened_for_write(object, &stateid)?.set_size(size)?);
    }
    let backend = &object.export.backend;
    regular_file(backend.getattr(&object.handle)?.file_type)?;
    c.check_anonymous(object, SHARE_WRITE)?;
    let set = SetAttributes { size: Some(size), ..SetAttributes::default() };
    backend.setattr(&c.caller(object), &object.handle, &set)?;
    Ok(())
}
