//! Finding, linking, removing and renaming.

use crate::attributes::attributes;
use crate::backend::SNAPSHOTS;
use crate::handle::ObjectId;
use crate::object::{CephObject, file_type};
use crate::{CephBackend, containment, errno::vfs_error};
use ceph::fs::{CephInode, Credentials, NO_SNAPSHOT, SNAPSHOT_DIRECTORY};
use std::sync::Arc;
use vfs::{Attributes, Caller, EntryName, FileType, FoundObject, ObjectHandle, VfsError, VfsResult};

impl CephBackend {
    pub(crate) fn find(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<ObjectHandle> {
        let parent = self.resolve_searchable(directory)?;
        let name = EntryName::new(name)?;
        self.check_visible(name.as_bytes())?;
        let user = self.credentials(caller)?;
        let found = parent.inode.lookup(name.as_c_str(), &user);
        let (inode, stat) = found.map_err(|error| self.error_in(&parent, error))?;
        Ok(self.adopt(&parent, inode, &stat)?.handle)
    }

    /// Looks up a name without keeping its object: READDIR does this for thousands of names, and
    /// most of them are never used.
    pub(crate) fn find_attributes(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<(ObjectHandle, Attributes)> {
        let parent = self.resolve_searchable(directory)?;
        let name = EntryName::new(name)?;
        self.check_visible(name.as_bytes())?;
        let user = self.credentials(caller)?;
        let found = parent.inode.lookup(name.as_c_str(), &user);
        let (_, stat) = found.map_err(|error| self.error_in(&parent, error))?;
        let id = ObjectId { ino: stat.ino, snapshot: stat.snapshot };
        Ok((id.handle(), attributes(&stat, self.device)))
    }

    pub(crate) fn find_parent(&self, caller: &Caller, directory: &ObjectHandle) -> VfsResult<ObjectHandle> {
        let object = self.resolve_searchable(directory)?;
        if object.handle == self.root.handle {
            return Err(VfsError::Noent);
        }
        self.stat(&object)?;
        let id = object.id;
        if id.snapshot == SNAPSHOT_DIRECTORY {
            let current = ObjectId { ino: id.ino, snapshot: NO_SNAPSHOT };
            return Ok(self.resolve(&current.handle())?.handle);
        }
        let (inode, stat) = object.inode.lookup(c"..", &self.credentials(caller)?).map_err(vfs_error)?;
        if !id.is_current() && stat.snapshot == NO_SNAPSHOT {
            return self.parent_in_snapshot(id, stat.ino);
        }
        // It was removed, or moved out of the export.
        if stat.ino == id.ino && stat.snapshot == id.snapshot
            || id.is_current() && !containment::is_below(&self.root.inode, &inode, &self.server)?
        {
            return Err(VfsError::Stale);
        }
        let parent = ObjectId { ino: stat.ino, snapshot: stat.snapshot };
        Ok(self.resolve(&parent.handle())?.handle)
    }

    /// Returns the parent of a directory in a snapshot when the library knows only the present one:
    /// the same directory in the snapshot, or for the snapshot's root the list of snapshots.
    fn parent_in_snapshot(&self, id: ObjectId, present: u64) -> VfsResult<ObjectHandle> {
        let parent = ObjectId { ino: present, snapshot: id.snapshot };
        match self.resolve(&parent.handle()) {
            Ok(parent) => Ok(parent.handle),
            Err(VfsError::Stale) => Ok(ObjectId { ino: id.ino, snapshot: SNAPSHOT_DIRECTORY }.handle()),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn make_link(
        &self,
        caller: &Caller,
        object: &ObjectHandle,
        directory: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<()> {
        let object = self.resolve(object)?;
        let parent = self.resolve_to_change(directory)?;
        if object.file_type == FileType::Directory {
            return Err(VfsError::Isdir);
        }
        if !object.id.is_current() {
            return Err(VfsError::Xdev);
        }
        let name = self.new_name(name)?;
        self.stat(&object)?;
        let beside = self.inode_beside(&object, &parent)?;
        let source = beside.as_ref().unwrap_or(&object.inode);
        let linked = source.link(&parent.inode, name.as_c_str(), &self.credentials(caller)?);
        linked.map_err(|error| self.error_in(&parent, error))?;
        self.sync_across(beside.as_ref())
    }

    pub(crate) fn remove_name(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
        found: Option<&FoundObject>,
    ) -> VfsResult<()> {
        let parent = self.resolve_to_change(directory)?;
        let name = self.old_name(name)?;
        let user = self.credentials(caller)?;
        let removes_directory = match found.and_then(|found| found.attributes.as_ref()) {
            Some(attributes) => attributes.file_type == FileType::Directory,
            None => {
                let looked = parent.inode.lookup(name.as_c_str(), &user);
                let (_, stat) = looked.map_err(|error| self.error_in(&parent, error))?;
                file_type(stat.mode) == FileType::Directory
            }
        };
        let removed = match removes_directory {
            true => parent.inode.remove_directory(name.as_c_str(), &user),
            false => parent.inode.unlink(name.as_c_str(), &user),
        };
        removed.map_err(|error| match error.number() {
            libc::EEXIST => VfsError::Notempty,
            // The name has changed its type meanwhile.
            libc::ENOTDIR | libc::EISDIR => VfsError::Delay,
            _ => self.error_in(&parent, error),
        })
    }

    pub(crate) fn rename_name(
        &self,
        caller: &Caller,
        from: (&ObjectHandle, &[u8]),
        to: (&ObjectHandle, &[u8]),
    ) -> VfsResult<()> {
        let (from_parent, to_parent) = (self.resolve_to_change(from.0)?, self.resolve_to_change(to.0)?);
        let (from_name, to_name) = (self.old_name(from.1)?, self.new_name(to.1)?);
        let user = self.credentials(caller)?;
        if from_parent.id != to_parent.id {
            self.check_moves(caller, &from_parent, &from_name, &user)?;
        }
        let beside = self.inode_beside(&to_parent, &from_parent)?;
        let target = beside.as_ref().unwrap_or(&to_parent.inode);
        let renamed = from_parent.inode.rename(from_name.as_c_str(), target, to_name.as_c_str(), &user);
        renamed.map_err(|error| match error.number() {
            // One is a directory and the other not: RFC 8881 section 18.26.3 calls that
            // NFS4ERR_EXIST.
            libc::EISDIR | libc::ENOTDIR => VfsError::Exist,
            // The metadata server looks at the entries of the target before it compares types.
            libc::ENOTEMPTY if !is_directory(&from_parent, &from_name, &user) => VfsError::Exist,
            _ if self.is_gone(&to_parent) => self.error_in(&to_parent, error),
            _ => self.error_in(&from_parent, error),
        })?;
        if from_parent.id != to_parent.id {
            // The reply has only the other directory's attributes. With exclusive capabilities the
            // library would go on with the old ones of this, the change attribute among them.
            from_parent.inode.refresh(&self.server).map_err(vfs_error)?;
        }
        self.sync_across(beside.as_ref())
    }

    /// Waits for the journal after a change in which two mounts took part, by the inode that the
    /// call has borrowed from the other mount. That mount could neither sync the change later nor
    /// read the object before the journal is written, which can take five seconds.
    fn sync_across(&self, beside: Option<&CephInode>) -> VfsResult<()> {
        beside.map_or(Ok(()), |inode| inode.sync().map_err(vfs_error))
    }

    /// Checks that a caller may move an entry to another directory: the ".." of a directory
    /// changes, which is a write to it. The library does not ask.
    fn check_moves(
        &self,
        caller: &Caller,
        parent: &CephObject,
        name: &EntryName,
        user: &Credentials,
    ) -> VfsResult<()> {
        let Ok((inode, stat)) = parent.inode.lookup(name.as_c_str(), user) else { return Ok(()) };
        if file_type(stat.mode) != FileType::Directory || caller.uid == 0 {
            return Ok(());
        }
        let directory = self.adopt(parent, inode, &stat)?;
        if self.rights(caller, &directory)?.write { Ok(()) } else { Err(VfsError::Access) }
    }

    /// Checks the name of an entry that is to change.
    ///
    /// # Errors
    /// `Noent` for the name under which Ceph shows snapshots.
    fn old_name(&self, name: &[u8]) -> VfsResult<EntryName> {
        if name == SNAPSHOTS { Err(VfsError::Noent) } else { EntryName::new(name) }
    }

    /// Resolves the object of a handle for an operation that needs its type.
    pub(crate) fn regular_file(&self, object: &ObjectHandle) -> VfsResult<Arc<CephObject>> {
        let object = self.resolve(object)?;
        match object.file_type {
            FileType::Regular => Ok(object),
            FileType::Directory => Err(VfsError::Isdir),
            FileType::Symlink => Err(VfsError::Symlink),
            _ => Err(VfsError::WrongType),
        }
    }
}

/// Returns whether a name leads to a directory; no when it leads nowhere.
fn is_directory(parent: &CephObject, name: &EntryName, user: &Credentials) -> bool {
    let found = parent.inode.lookup(name.as_c_str(), user);
    found.is_ok_and(|(_, stat)| file_type(stat.mode) == FileType::Directory)
}
