//! SETATTR: changes of attributes; the kernel checks permissions.

use crate::{
    LocalBackend,
    attributes::{attributes, file_type, stat_fd},
    cached_object::CachedObject,
    create::S_ISGID,
    errno::vfs_error,
    sys,
};
use rustix::{
    fs::{
        AtFlags, FileType, Gid, Mode, OFlags, Statx, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid,
        chmodat, chownat, ftruncate, utimensat,
    },
    path::DecInt,
};
use std::os::fd::AsFd;
use vfs::{Attributes, Caller, OFFSET_MAX, ObjectHandle, SetAttributes, SetTime, VfsError, VfsResult};

impl LocalBackend {
    pub(crate) fn set_attributes(
        &self,
        caller: &Caller,
        handle: &ObjectHandle,
        set: &SetAttributes,
    ) -> VfsResult<Attributes> {
        let object = self.resolve(handle)?;
        let before = stat_fd(&*object).map_err(vfs_error)?;
        self.check_alive(&object, &before)?;
        let done = self.change_attributes(caller, &object, &before, set);
        // An error may come after some of them have changed.
        self.changes.note(object.ino);
        done?;
        let asked = self.changes.now();
        let after = stat_fd(&*object).map_err(vfs_error)?;
        Ok(attributes(&after, object.ino, &self.changes, asked))
    }

    fn change_attributes(
        &self,
        caller: &Caller,
        object: &CachedObject,
        before: &Statx,
        set: &SetAttributes,
    ) -> VfsResult<()> {
        self.act_as(caller)?;
        if let Some(size) = set.size {
            self.set_size(object, file_type(before), size)?;
        }
        let gid = set.gid.unwrap_or(before.stx_gid);
        if set.uid.is_some() || set.gid.is_some() {
            let change = || self.set_owner(object, set);
            match u32::from(before.stx_mode) & S_ISGID {
                0 => change()?,
                _ => self.keeping_set_gid(caller, &[before.stx_gid, gid], change)??,
            }
        }
        if let Some(acls) = &set.acls {
            self.write_acls(caller, object, gid, acls)?;
        }
        if let Some(mode) = set.mode {
            self.set_mode(caller, object, gid, mode)?;
        }
        match self.set_times(object, set) {
            Err(VfsError::Perm) if moves_one_time(set) => {
                // A writer may move both times to now, but utimensat(2) demands the owner for one.
                sys::access(object.as_fd(), libc::W_OK).map_err(vfs_error)?;
                self.act_as_server()?;
                self.set_times(object, set)
            }
            done => done,
        }
    }

    fn set_size(&self, object: &CachedObject, file_type: FileType, size: u64) -> VfsResult<()> {
        match file_type {
            FileType::RegularFile => {}
            FileType::Directory => return Err(VfsError::Isdir),
            _ => return Err(VfsError::Inval),
        }
        if size > OFFSET_MAX {
            return Err(VfsError::Fbig);
        }
        let fd = self.reopen(object, OFlags::WRONLY).map_err(vfs_error)?;
        ftruncate(&fd, size).map_err(vfs_error)
    }

    pub(crate) fn set_owner(&self, object: &CachedObject, set: &SetAttributes) -> VfsResult<()> {
        // To the kernel the largest number means "leave it".
        if set.uid == Some(u32::MAX) || set.gid == Some(u32::MAX) {
            return Err(VfsError::Inval);
        }
        let (uid, gid) = (set.uid.map(Uid::from_raw), set.gid.map(Gid::from_raw));
        chownat(object, c"", uid, gid, AtFlags::EMPTY_PATH).map_err(vfs_error)
    }

    pub(crate) fn set_mode(
        &self,
        caller: &Caller,
        object: &CachedObject,
        gid: u32,
        mode: u32,
    ) -> VfsResult<()> {
        if object.file_type == FileType::Symlink {
            return Err(VfsError::Notsupp);
        }
        let mode = Mode::from_raw_mode(mode & 0o7777);
        let fd = DecInt::from_fd(object);
        let set = || chmodat(&self.proc, fd, mode, AtFlags::empty());
        self.keeping_set_gid(caller, &[gid], set)?.map_err(vfs_error)
    }

    /// Runs a change of an object of groups `gids`, before and after it, that must not take its
    /// set-group-ID bit away. Without CAP_FSETID the kernel keeps the bit only for members of the
    /// groups, also for root, so root joins them meanwhile.
    pub(crate) fn keeping_set_gid<R>(
        &self,
        caller: &Caller,
        gids: &[u32],
        run: impl FnOnce() -> R,
    ) -> VfsResult<R> {
        let joined = || gids.iter().copied().filter(|gid| !caller.is_member(*gid));
        if !self.identities || caller.uid != 0 || joined().next().is_none() {
            return Ok(run());
        }
        let groups = caller.groups.iter().copied().chain(joined()).collect();
        self.act_as(&Caller { groups, ..caller.clone() })?;
        let done = run();
        self.act_as(caller)?;
        Ok(done)
    }

    pub(crate) fn set_times(&self, object: &CachedObject, set: &SetAttributes) -> VfsResult<()> {
        if set.atime.is_none() && set.mtime.is_none() {
            return Ok(());
        }
        let times = Timestamps { last_access: timespec(set.atime)?, last_modification: timespec(set.mtime)? };
        utimensat(object, c"", &times, AtFlags::EMPTY_PATH).map_err(vfs_error)
    }
}

/// Returns whether one of the times is to become the present time, and the other is to stay.
fn moves_one_time(set: &SetAttributes) -> bool {
    matches!((set.atime, set.mtime), (Some(SetTime::Now), None) | (None, Some(SetTime::Now)))
}

fn timespec(time: Option<SetTime>) -> VfsResult<Timespec> {
    match time {
        None => Ok(Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }),
        Some(SetTime::Now) => Ok(Timespec { tv_sec: 0, tv_nsec: UTIME_NOW }),
        Some(SetTime::At(time)) if time.nanoseconds < 1_000_000_000 => {
            Ok(Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds.into() })
        }
        Some(SetTime::At(_)) => Err(VfsError::Inval),
    }
}
