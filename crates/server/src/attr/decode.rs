//! Decodes the attributes that a client sets (RFC 8881 sections 5.5 and 18.30).

use super::{
    IGNORED, SETTABLE,
    acl::{self, Ace, Unfit},
    supported_of,
};
use crate::engine::{Compound, Fh, OpError, OpResult, OpStop};
use nfs4::{AttributeValues, Bitmap4, Fattr4, Nfsstat4, Nfstime4, Purpose, Settime4, decode_fattr4};
use vfs::{FileType, SetAttributes, SetTime, Timestamp};

/// All bits of a mode: permissions, set-id and sticky.
const MODE_MAX: u32 = 0o7777;
/// The set-user-ID and set-group-ID bits of a mode.
const SET_ID: u32 = 0o6000;
/// The set-group-ID bit, which grants no right on a directory.
const SET_GID: u32 = 0o2000;
/// The bits of a umask: permissions only.
const UMASK_MAX: u32 = 0o777;
/// Nanoseconds of a timestamp are below this.
const NANOSECONDS_MAX: u32 = 1_000_000_000;

/// The attributes to set, with their bitmap.
#[derive(Clone, Debug, Default)]
pub struct Settable {
    /// The access control list, which [`Settable::fit_acl`] converts to the backend's form.
    pub acl: Option<Vec<Ace>>,
    /// The attributes for the backend.
    pub set: SetAttributes,
    /// The bitmap for attrset.
    pub mask: Bitmap4,
}

/// The object whose access control list is set.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// Whether the object is a directory.
    pub directory: bool,
    /// The user that owns the object, if already known.
    pub owner: Option<u32>,
    /// The group that owns the object, if already known.
    pub group: Option<u32>,
}

impl Settable {
    /// Converts the access control list, if there is one, to the backend's form.
    ///
    /// # Errors
    /// NFS4ERR_ATTRNOTSUPP and NFS4ERR_INVAL for lists that cannot be kept according to
    /// `docs/acls.md`, and the error of `subject`.
    pub fn fit_acl(&mut self, subject: impl FnOnce() -> Result<Subject, OpError>) -> Result<(), OpError> {
        let Some(aces) = self.acl.take() else { return Ok(()) };
        let Subject { directory, owner, group } = subject()?;
        let owner = self.set.uid.or(owner);
        let group = self.set.gid.or(group);
        let acls = acl::to_posix(&aces, directory, owner, group).map_err(|unfit| match unfit {
            Unfit::Unsupported => Nfsstat4::NFS4ERR_ATTRNOTSUPP,
            Unfit::Invalid => Nfsstat4::NFS4ERR_INVAL,
        })?;
        self.set.acls = Some(acls);
        Ok(())
    }
}

/// Decodes a fattr4 of SETATTR, CREATE or OPEN. `made` is the type of an object that is created in
/// the current directory; `None` if the attributes are for the current filehandle. Ignored
/// attributes are not in the result.
///
/// # Errors
/// NFS4ERR_PERM for set-id bits where the export allows none; NFS4ERR_ATTRNOTSUPP; NFS4ERR_INVAL
/// for a read-only attribute or an invalid value; NFS4ERR_BADOWNER, NFS4ERR_BADXDR, and
/// [`OpStop::Deferred`] for names that are not in a cache.
pub fn decode(c: &Compound<'_>, fattr: &Fattr4<'_>, made: Option<FileType>) -> OpResult<Settable> {
    let supported = supported_of(c.progress.minor, c.fh()?);
    let values = decode_fattr4(fattr, Purpose::Set, &supported).map_err(|error| error.status())?;
    if !fattr.attrmask.is_subset_of(&SETTABLE.or(&IGNORED)) {
        return Err(Nfsstat4::NFS4ERR_INVAL.into());
    }
    let (mode, umask) = mode(&values)?;
    check_setid(c, mode.unwrap_or(0) & SET_ID, made)?;
    if [&values.owner, &values.owner_group].into_iter().flatten().any(|name| name.is_empty()) {
        return Err(Nfsstat4::NFS4ERR_INVAL.into());
    }
    let uid = values.owner.as_ref().map(|owner| c.uid_of(owner));
    let gid = values.owner_group.as_ref().map(|owner| c.gid_of(owner));
    let set = SetAttributes {
        size: values.size,
        mode,
        umask,
        uid: uid.transpose()?,
        gid: gid.transpose()?,
        acls: None,
        atime: values.time_access_set.as_ref().map(time).transpose()?,
        mtime: values.time_modify_set.as_ref().map(time).transpose()?,
    };
    let acl = values.acl.as_ref().map(|list| acl::wire::decode(c, list)).transpose()?;
    Ok(Settable { acl, set, mask: fattr.attrmask.and_not(&IGNORED) })
}

/// Returns the mode and its umask (RFC 8275 section 4: not both attributes at once).
fn mode(values: &AttributeValues<'_>) -> Result<(Option<u32>, Option<u32>), OpError> {
    let (mode, umask) = match (values.mode, &values.mode_umask) {
        (Some(_), Some(_)) => return Err(Nfsstat4::NFS4ERR_INVAL.into()),
        (mode, None) => (mode, None),
        (None, Some(both)) => (Some(both.mu_mode), Some(both.mu_umask)),
    };
    if mode.is_some_and(|mode| mode > MODE_MAX) || umask.is_some_and(|umask| umask > UMASK_MAX) {
        return Err(Nfsstat4::NFS4ERR_INVAL.into());
    }
    Ok((mode, umask))
}

/// Refuses set-id bits where the export does, except for set-group-ID on a directory.
fn check_setid(c: &Compound<'_>, bits: u32, made: Option<FileType>) -> OpResult {
    let Fh::Object(object) = c.fh()? else { return Ok(()) };
    if bits == 0 || object.export.setid {
        return Ok(());
    }
    let found = || Ok(object.export.backend.getattr(&object.handle)?.file_type);
    let file_type = made.map_or_else(found, Ok::<_, OpStop>)?;
    match file_type {
        FileType::Directory if bits == SET_GID => Ok(()),
        _ => Err(Nfsstat4::NFS4ERR_PERM.into()),
    }
}

fn time(time: &Settime4) -> Result<SetTime, OpError> {
    match time {
        Settime4::SET_TO_CLIENT_TIME4(Nfstime4 { seconds, nseconds }) if *nseconds < NANOSECONDS_MAX => {
            Ok(SetTime::At(Timestamp { seconds: *seconds, nanoseconds: *nseconds }))
        }
        Settime4::SET_TO_CLIENT_TIME4(_) => Err(Nfsstat4::NFS4ERR_INVAL.into()),
        Settime4::Default(_) => Ok(SetTime::Now),
    }
}
