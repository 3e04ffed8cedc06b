//! CREATE and the creation of files: objects with the caller's identity.

use crate::backend::SNAPSHOTS;
use crate::object::CephObject;
use crate::{CephBackend, errno::vfs_error};
use ceph::fs::{Credentials, NewInode};
use std::ffi::CString;
use std::sync::Arc;
use vfs::{
    Caller, EntryName, FileType, NewObject, ObjectHandle, OpenAccess, OpenFile, SetAttributes, VfsError,
    VfsResult,
};

/// The default mode of a file or special file.
const FILE_MODE: u32 = 0o600;
/// The default mode of a directory.
const DIRECTORY_MODE: u32 = 0o700;
/// Bits that mkdir(2) does not take.
const SET_ID: u32 = 0o6000;
/// The bits with which a program runs with the group of its file.
const RUNS_AS_GROUP: u32 = libc::S_ISGID | libc::S_IXGRP;

impl CephBackend {
    /// Checks the name of a new entry.
    ///
    /// # Errors
    /// `Badname` for the name under which Ceph shows snapshots.
    pub(crate) fn new_name(&self, name: &[u8]) -> VfsResult<EntryName> {
        if name == SNAPSHOTS { Err(VfsError::Badname) } else { EntryName::new(name) }
    }

    pub(crate) fn make_file(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
        access: OpenAccess,
        set: &SetAttributes,
    ) -> VfsResult<(ObjectHandle, Arc<dyn OpenFile>)> {
        let parent = self.resolve_to_change(directory)?;
        let name = self.new_name(name)?;
        let set = &self.without_foreign_set_gid(caller, &parent, self.masked(&parent, set))?;
        let user = self.credentials(caller)?;
        let mode = set.mode.unwrap_or(FILE_MODE) & 0o7777;
        let made = parent.inode.create_file(name.as_c_str(), mode, &user);
        let (inode, stat, file) = made.map_err(|error| self.error_in(&parent, error))?;
        let object = self.adopt_new(&parent, inode, &stat);
        let finished = self.finish_file(caller, &object, (file, access), set, &user);
        // The name may stand for another object by now, so it is removed with the caller's own
        // rights only.
        if finished.is_err() {
            let _ = parent.inode.unlink(name.as_c_str(), &user);
        }
        finished
    }

    fn finish_file(
        &self,
        caller: &Caller,
        object: &Arc<CephObject>,
        (file, access): (ceph::fs::CephOpenFile, OpenAccess),
        set: &SetAttributes,
        user: &Credentials,
    ) -> VfsResult<(ObjectHandle, Arc<dyn OpenFile>)> {
        // A new size takes the set-id bits away, and clients give the size 0 with O_TRUNC.
        let size = set.size.unwrap_or(0);
        if size > 0 {
            self.set_size(object, size, &self.server)?;
        }
        self.finish(object, set, size > 0 && gives_set_id(set), user)?;
        // An open for writing would rule out a delegation.
        let file = match access.write {
            true => file,
            false => object.inode.open(libc::O_RDONLY, &self.server).map_err(vfs_error)?,
        };
        Ok((object.handle, Arc::new(self.opened(object, file, caller))))
    }

    pub(crate) fn make(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
        new: &NewObject<'_>,
        set: &SetAttributes,
    ) -> VfsResult<ObjectHandle> {
        let parent = self.resolve_to_change(directory)?;
        let name = self.new_name(name)?;
        new.check()?;
        let set = match *new {
            NewObject::Directory => &self.masked(&parent, set),
            _ => &self.without_foreign_set_gid(caller, &parent, self.masked(&parent, set))?,
        };
        let user = self.credentials(caller)?;
        let target;
        let (object, mode) = match *new {
            NewObject::Directory => {
                (NewInode::Directory, set.mode.unwrap_or(DIRECTORY_MODE) & 0o7777 & !SET_ID)
            }
            NewObject::Symlink(text) => {
                target = CString::new(text).map_err(|_| VfsError::Inval)?;
                (NewInode::Symlink(&target), 0)
            }
            NewObject::Block(major, minor) => {
                self.check_device(caller)?;
                special(libc::S_IFBLK, libc::makedev(major, minor), set)
            }
            NewObject::Character(major, minor) => {
                self.check_device(caller)?;
                special(libc::S_IFCHR, libc::makedev(major, minor), set)
            }
            NewObject::Socket => special(libc::S_IFSOCK, 0, set),
            NewObject::Fifo => special(libc::S_IFIFO, 0, set),
        };
        let made = parent.inode.create(name.as_c_str(), object, mode, &user);
        let (inode, stat) = made.map_err(|error| self.error_in(&parent, error))?;
        let object = self.adopt_new(&parent, inode, &stat);
        let finished = self.finish_node(&object, new, set, &user).map(|()| object.handle);
        if finished.is_err() {
            let _ = match new {
                NewObject::Directory => parent.inode.remove_directory(name.as_c_str(), &user),
                _ => parent.inode.unlink(name.as_c_str(), &user),
            };
        }
        finished
    }

    /// Refuses devices of ordinary users, which the library does not.
    fn check_device(&self, caller: &Caller) -> VfsResult<()> {
        if caller.uid == 0 { Ok(()) } else { Err(VfsError::Perm) }
    }

    /// Takes the creator's umask from the mode, unless the directory has a default ACL: then that
    /// is in its place.
    fn masked(&self, parent: &CephObject, set: &SetAttributes) -> SetAttributes {
        let umask = set.umask.filter(|umask| *umask != 0 && !self.has_default_acl(parent)).unwrap_or(0);
        SetAttributes { mode: set.mode.map(|mode| mode & !umask), umask: None, ..set.clone() }
    }

    /// Takes the set-group-ID bit from the mode of a new file that gets a group of others from its
    /// directory. The kernel does so for its file systems, and the library does not.
    fn without_foreign_set_gid(
        &self,
        caller: &Caller,
        parent: &CephObject,
        set: SetAttributes,
    ) -> VfsResult<SetAttributes> {
        let runs_as_group = set.mode.is_some_and(|mode| mode & RUNS_AS_GROUP == RUNS_AS_GROUP);
        if caller.uid == 0 || !runs_as_group {
            return Ok(set);
        }
        let parent = self.stat(parent)?;
        let is_foreign = parent.mode & libc::S_ISGID != 0 && !caller.is_member(parent.gid);
        let mode = set.mode.map(|mode| if is_foreign { mode & !libc::S_ISGID } else { mode });
        Ok(SetAttributes { mode, ..set })
    }

    fn finish_node(
        &self,
        object: &CephObject,
        new: &NewObject<'_>,
        set: &SetAttributes,
        user: &Credentials,
    ) -> VfsResult<()> {
        let set_id = *new == NewObject::Directory && gives_set_id(set);
        let symlink = matches!(new, NewObject::Symlink(_));
        let set = SetAttributes { size: None, mode: set.mode.filter(|_| !symlink), ..set.clone() };
        self.finish(object, &set, set_id, user)
    }

    /// Sets owner, lists, mode and times of a new object, where they were given and are not as they
    /// should be.
    fn finish(
        &self,
        object: &CephObject,
        set: &SetAttributes,
        set_mode: bool,
        user: &Credentials,
    ) -> VfsResult<()> {
        let gives = set.uid.is_some() || set.gid.is_some();
        self.set_owner(object, set, user)?;
        if let Some(acls) = &set.acls {
            self.write_acls(object, acls, user)?;
        }
        // chown took the set-id bits away.
        let lost = gives && gives_set_id(set);
        // A mode beside a list changes the list (RFC 8881 section 6.4.1.3).
        let set_mode = set_mode || set.acls.is_some();
        if let Some(mode) = set.mode.filter(|_| set_mode || lost) {
            match self.inherited(object)? {
                0 => self.set_mode(object, mode, user)?,
                bit => self.set_mode(object, mode | bit, &self.server)?,
            }
        }
        self.set_times(object, set, user)
    }

    /// Returns the set-group-ID bit that a new directory has from the one above it. It stays, also
    /// when its creator is not in the group.
    fn inherited(&self, object: &CephObject) -> VfsResult<u32> {
        match object.file_type {
            FileType::Directory => Ok(self.stat(object)?.mode & libc::S_ISGID),
            _ => Ok(0),
        }
    }
}

/// Whether the mode has set-id bits, which some calls do not take or take away.
fn gives_set_id(set: &SetAttributes) -> bool {
    set.mode.is_some_and(|mode| mode & SET_ID != 0)
}

/// Returns a special object, and its mode.
fn special(kind: u32, rdev: u64, set: &SetAttributes) -> (NewInode<'static>, u32) {
    (NewInode::Special(kind, rdev), set.mode.unwrap_or(FILE_MODE) & 0o7777)
}
