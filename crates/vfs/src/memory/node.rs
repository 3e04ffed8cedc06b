//! One object: its attributes, its body and the permission rules of POSIX.

use super::{acls::HeldAcls, budget::MemoryBudget, content::Content, directory::Directory, xattrs::Xattrs};
use crate::{Attributes, Caller, FileType, Permissions, Timestamp, VfsError, VfsResult};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Set-user-id, set-group-id and sticky bit; execute for the group.
pub(super) const S_ISUID: u32 = 0o4000;
pub(super) const S_ISGID: u32 = 0o2000;
pub(super) const S_ISVTX: u32 = 0o1000;
const S_IXGRP: u32 = 0o010;

/// Rights as the three bits of a permission class.
pub(super) const READ: u32 = 4;
pub(super) const WRITE: u32 = 2;
pub(super) const EXECUTE: u32 = 1;

/// The contents of an object by type.
#[derive(Debug)]
pub(super) enum Body {
    Regular(Content),
    Directory(Directory),
    Symlink(Box<[u8]>),
    Special(FileType, (u32, u32)),
}

/// Everything about an object that may change.
#[derive(Debug)]
pub(super) struct NodeState {
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) nlink: u32,
    pub(super) change: u64,
    pub(super) atime: Timestamp,
    pub(super) mtime: Timestamp,
    pub(super) ctime: Timestamp,
    pub(super) btime: Timestamp,
    pub(super) body: Body,
    pub(super) xattrs: Xattrs,
    pub(super) acls: HeldAcls,
    pub(super) budget: Arc<MemoryBudget>,
}

/// An object; it lives as long as a name or an open file refers to it.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) ino: u64,
    inner: RwLock<NodeState>,
    budget: Arc<MemoryBudget>,
    charged: u64,
}

impl Node {
    /// Makes an object, charged to the budget until it is dropped.
    pub(super) fn new(ino: u64, inner: NodeState, budget: &Arc<MemoryBudget>) -> VfsResult<Arc<Self>> {
        budget.take_object()?;
        let charged = match &inner.body {
            Body::Symlink(target) => target.len() as u64,
            _ => 0,
        };
        if let Err(error) = budget.take_bytes(charged) {
            budget.give_object();
            return Err(error);
        }
        Ok(Arc::new(Self { ino, inner: RwLock::new(inner), budget: Arc::clone(budget), charged }))
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, NodeState> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, NodeState> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn attributes(&self) -> Attributes {
        self.read().attributes(self.ino)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.budget.give_object();
        self.budget.give_bytes(self.charged);
    }
}

impl NodeState {
    /// Makes the attributes of a new object owned by the caller.
    pub(super) fn new(body: Body, mode: u32, uid: u32, gid: u32, budget: &Arc<MemoryBudget>) -> Self {
        let now = budget.now();
        let nlink = if matches!(body, Body::Directory(_)) { 2 } else { 1 };
        // Start at the time, so that the value does not repeat one of a former object of this name.
        let change =
            (now.seconds.unsigned_abs()).wrapping_mul(1_000_000_000).wrapping_add(u64::from(now.nanoseconds));
        let mode = mode & 0o7777;
        Self {
            mode,
            uid,
            gid,
            nlink,
            change,
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
            body,
            xattrs: Xattrs::new(budget),
            acls: HeldAcls::new(budget),
            budget: Arc::clone(budget),
        }
    }

    pub(super) fn file_type(&self) -> FileType {
        match &self.body {
            Body::Regular(_) => FileType::Regular,
            Body::Directory(_) => FileType::Directory,
            Body::Symlink(_) => FileType::Symlink,
            Body::Special(file_type, _) => *file_type,
        }
    }

    pub(super) fn attributes(&self, ino: u64) -> Attributes {
        let (size, space_used, rdev) = match &self.body {
            Body::Regular(content) => (content.size(), content.allocated(), (0, 0)),
            Body::Directory(directory) => (directory.bytes(), directory.bytes(), (0, 0)),
            Body::Symlink(target) => (target.len() as u64, 0, (0, 0)),
            Body::Special(_, rdev) => (0, 0, *rdev),
        };
        Attributes {
            file_type: self.file_type(),
            mode: self.mode,
            nlink: self.nlink,
            uid: self.uid,
            gid: self.gid,
            size,
            space_used,
            rdev,
            fsid: super::FSID,
            fileid: ino,
            change: self.change,
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
            btime: Some(self.btime),
        }
    }

    pub(super) fn directory(&self) -> VfsResult<&Directory> {
        match &self.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(VfsError::Notdir),
        }
    }

    pub(super) fn directory_mut(&mut self) -> VfsResult<&mut Directory> {
        match &mut self.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(VfsError::Notdir),
        }
    }

    /// Returns the file's bytes, or the error of OPEN for other types.
    pub(super) fn content(&self) -> VfsResult<&Content> {
        match &self.body {
            Body::Regular(content) => Ok(content),
            Body::Directory(_) => Err(VfsError::Isdir),
            Body::Symlink(_) => Err(VfsError::Symlink),
            Body::Special(..) => Err(VfsError::WrongType),
        }
    }

    pub(super) fn content_mut(&mut self) -> VfsResult<&mut Content> {
        match &mut self.body {
            Body::Regular(content) => Ok(content),
            Body::Directory(_) => Err(VfsError::Isdir),
            Body::Symlink(_) => Err(VfsError::Symlink),
            Body::Special(..) => Err(VfsError::WrongType),
        }
    }

    /// Notes a change of metadata.
    pub(super) fn touch(&mut self) {
        self.ctime = self.budget.now();
        self.change = self.change.wrapping_add(1);
    }

    /// Notes a change of data or of directory entries.
    pub(super) fn touch_data(&mut self) {
        self.touch();
        self.mtime = self.ctime;
    }

    /// Clears set-user-id, and set-group-id where it means that (with group execute), as a write
    /// does.
    pub(super) fn drop_set_id(&mut self) {
        self.mode &= !S_ISUID;
        if self.mode & S_IXGRP != 0 {
            self.mode &= !S_ISGID;
        }
    }

    /// Returns the caller's permissions from the one class that applies to it.
    pub(super) fn permissions(&self, caller: &Caller) -> Permissions {
        let bits = if caller.uid == 0 {
            let executable =
                self.mode & 0o111 != 0 || matches!(self.body, Body::Directory(_) | Body::Symlink(_));
            READ | WRITE | if executable { EXECUTE } else { 0 }
        } else {
            self.rights(caller)
        };
        Permissions { read: bits & READ != 0, write: bits & WRITE != 0, execute: bits & EXECUTE != 0 }
    }

    /// Refuses with `Access` unless the caller has all the rights.
    pub(super) fn require(&self, caller: &Caller, rights: u32) -> VfsResult<()> {
        let has = self.permissions(caller);
        let denied = (rights & READ != 0 && !has.read)
            || (rights & WRITE != 0 && !has.write)
            || (rights & EXECUTE != 0 && !has.execute);
        if denied { Err(VfsError::Access) } else { Ok(()) }
    }

    /// Refuses extended attributes of objects that are neither file nor directory. Refuses changes
    /// to those of a shared directory by any caller but its owner, as Linux does.
    pub(super) fn require_xattrs(&self, caller: &Caller, rights: u32) -> VfsResult<()> {
        let shared = self.mode & S_ISVTX != 0 && rights & WRITE != 0 && !self.owned_by(caller);
        match &self.body {
            Body::Regular(_) => self.require(caller, rights),
            Body::Directory(_) if !shared => self.require(caller, rights),
            _ => Err(VfsError::Perm),
        }
    }

    /// Returns whether the caller has the rights of the owner.
    pub(super) fn owned_by(&self, caller: &Caller) -> bool {
        caller.uid == 0 || caller.uid == self.uid
    }

    /// Returns whether the sticky bit of this directory keeps the caller from removing an object.
    pub(super) fn sticky_against(&self, caller: &Caller, object_uid: u32) -> bool {
        self.mode & S_ISVTX != 0 && !self.owned_by(caller) && caller.uid != object_uid
    }
}
