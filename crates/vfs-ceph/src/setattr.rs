//! SETATTR: changes of attributes; the library checks permissions.

use crate::attributes::attributes;
use crate::object::CephObject;
use crate::{CephBackend, errno::vfs_error};
use ceph::fs::{CephSetTime, Credentials, SetStat, Time};
use std::time::{SystemTime, UNIX_EPOCH};
use vfs::{Attributes, Caller, FileType, OFFSET_MAX, ObjectHandle, SetAttributes, VfsError, VfsResult};

impl CephBackend {
    pub(crate) fn set_attributes(
        &self,
        caller: &Caller,
        handle: &ObjectHandle,
        set: &SetAttributes,
    ) -> VfsResult<Attributes> {
        let object = self.resolve(handle)?;
        self.stat(&object)?;
        if !object.id.is_current() {
            return Err(VfsError::Rofs);
        }
        let user = self.credentials(caller)?;
        if let Some(size) = set.size {
            self.set_size(&object, size, &user)?;
        }
        self.set_owner(&object, set, &user)?;
        if let Some(acls) = &set.acls {
            self.write_acls(&object, acls, &user)?;
        }
        if let Some(mode) = set.mode {
            self.set_mode(&object, mode, &user)?;
        }
        self.set_times(&object, set, &user)?;
        Ok(attributes(&self.stat(&object)?, self.device))
    }

    pub(crate) fn set_size(&self, object: &CephObject, size: u64, user: &Credentials) -> VfsResult<()> {
        match object.file_type {
            FileType::Regular => {}
            FileType::Directory => return Err(VfsError::Isdir),
            _ => return Err(VfsError::Inval),
        }
        if size > OFFSET_MAX {
            return Err(VfsError::Fbig);
        }
        object.inode.set_stat(&SetStat { size: Some(size), ..SetStat::default() }, user).map_err(vfs_error)
    }

    pub(crate) fn set_owner(
        &self,
        object: &CephObject,
        set: &SetAttributes,
        user: &Credentials,
    ) -> VfsResult<()> {
        if set.uid.is_none() && set.gid.is_none() {
            return Ok(());
        }
        // To other file systems the largest number means "leave it".
        if set.uid == Some(u32::MAX) || set.gid == Some(u32::MAX) {
            return Err(VfsError::Inval);
        }
        let owner = SetStat { uid: set.uid, gid: set.gid, ..SetStat::default() };
        object.inode.set_stat(&owner, user).map_err(vfs_error)
    }

    pub(crate) fn set_mode(&self, object: &CephObject, mode: u32, user: &Credentials) -> VfsResult<()> {
        if object.file_type == FileType::Symlink {
            return Err(VfsError::Notsupp);
        }
        let mode = SetStat { mode: Some(mode & 0o7777), ..SetStat::default() };
        object.inode.set_stat(&mode, user).map_err(vfs_error)
    }

    pub(crate) fn set_times(
        &self,
        object: &CephObject,
        set: &SetAttributes,
        user: &Credentials,
    ) -> VfsResult<()> {
        if set.atime.is_none() && set.mtime.is_none() {
            return Ok(());
        }
        let (atime, mtime) = (time(set.atime)?, time(set.mtime)?);
        object.inode.set_stat(&SetStat { atime, mtime, ..SetStat::default() }, user).map_err(vfs_error)
    }
}

fn time(set: Option<vfs::SetTime>) -> VfsResult<Option<CephSetTime>> {
    match set {
        None => Ok(None),
        Some(vfs::SetTime::Now) => Ok(Some(CephSetTime::Now(now()))),
        // Ceph keeps seconds from 1970 to 2106.
        Some(vfs::SetTime::At(at)) if at.nanoseconds < 1_000_000_000 && u32::try_from(at.seconds).is_ok() => {
            Ok(Some(CephSetTime::At(Time { seconds: at.seconds, nanoseconds: at.nanoseconds })))
        }
        Some(vfs::SetTime::At(_)) => Err(VfsError::Inval),
    }
}

fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time { seconds: i64::try_from(since.as_secs()).unwrap_or(0), nanoseconds: since.subsec_nanos() }
}
