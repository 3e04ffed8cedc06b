//! The trait, operation by operation.

use crate::{
    LocalBackend,
    attributes::{attributes, stat_fd},
    cached_object::CachedObject,
    errno::{sync_error, vfs_error},
    file::LocalFile,
    kind::Kind,
    leases,
};
use rustix::{
    fs::{FileType, OFlags, fstatvfs, fsync, readlinkat, syncfs},
    io::Errno,
};
use std::{
    ops::ControlFlow,
    os::fd::OwnedFd,
    sync::{Arc, OnceLock},
};
use vfs::{
    Acls, Attributes, Backend, Caller, DirEntry, Eof, Features, FoundObject, FsStat, Heir, HeldObject,
    Identity, NewObject, ObjectHandle, OpenAccess, OpenFile, Permissions, Quota, RenamedObjects,
    SetAttributes, VfsError, VfsResult, XattrHow,
};

/// Most names of one object, where the file system does not say: ext4's limit.
const LINK_MAX: u32 = 65_000;

impl Backend for LocalBackend {
    fn root(&self) -> ObjectHandle {
        self.root.handle
    }

    fn features(&self) -> Features {
        self.features
    }

    fn features_of(&self, _: &ObjectHandle) -> Features {
        self.features
    }

    fn part(&self, _: &ObjectHandle) -> u64 {
        0
    }

    fn mounted_on(&self, _: &ObjectHandle) -> Option<u64> {
        None
    }

    fn has_mounts(&self, directory: &ObjectHandle) -> bool {
        self.covers_some(directory)
    }

    fn identity(&self, _: &ObjectHandle) -> Option<Identity> {
        // The handles are the kernel's, whichever folder is exported.
        Some(Identity { device: self.device, skip: 0, shared: false })
    }

    fn may_wait(&self) -> bool {
        self.kind != Kind::Memory
    }

    fn answers_from_memory(&self, _: &ObjectHandle) -> bool {
        self.kind != Kind::Foreign
    }

    fn seldom_waits(&self, _: &ObjectHandle) -> bool {
        false
    }

    fn is_cached(&self, object: &ObjectHandle) -> bool {
        match self.kind {
            Kind::Memory => true,
            Kind::LocalDisk => self.cached(object).is_some(),
            Kind::Foreign => false,
        }
    }

    fn lookup_now(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<Option<ObjectHandle>> {
        match self.kind {
            Kind::Memory => self.find(caller, directory, name).map(Some),
            Kind::LocalDisk => self.find_cached(caller, directory, name),
            Kind::Foreign => Ok(None),
        }
    }

    fn getattr(&self, object: &ObjectHandle) -> VfsResult<Attributes> {
        let object = self.resolve(object)?;
        let asked = self.changes.now();
        let stat = stat_fd(&*object).map_err(vfs_error)?;
        self.check_alive(&object, &stat)?;
        Ok(attributes(&stat, object.ino, &self.changes, asked))
    }

    fn setattr(&self, caller: &Caller, object: &ObjectHandle, set: &SetAttributes) -> VfsResult<Attributes> {
        self.set_attributes(caller, object, set)
    }

    fn access(&self, caller: &Caller, object: &ObjectHandle) -> VfsResult<Permissions> {
        let object = self.resolve(object)?;
        self.act_as(caller)?;
        Ok(self.rights(caller, &object))
    }

    fn lookup(&self, caller: &Caller, directory: &ObjectHandle, name: &[u8]) -> VfsResult<ObjectHandle> {
        self.find(caller, directory, name)
    }

    fn lookup_attributes(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<(ObjectHandle, Attributes)> {
        self.find_attributes(caller, directory, name)
    }

    fn lookup_to_change(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<FoundObject> {
        self.find_to_change(caller, directory, name)
    }

    fn lookup_parent(&self, caller: &Caller, directory: &ObjectHandle) -> VfsResult<ObjectHandle> {
        self.find_parent(caller, directory)
    }

    fn readlink(&self, caller: &Caller, object: &ObjectHandle) -> VfsResult<Vec<u8>> {
        let object = self.resolve(object)?;
        if object.file_type != FileType::Symlink {
            return Err(VfsError::WrongType);
        }
        self.act_as(caller)?;
        readlinkat(&*object, c"", Vec::new()).map(|target| target.into_bytes()).map_err(vfs_error)
    }

    fn open(
        &self,
        caller: &Caller,
        object: &ObjectHandle,
        access: OpenAccess,
    ) -> VfsResult<Arc<dyn OpenFile>> {
        let object = self.resolve_file(object)?;
        if self.is_gone(&object) {
            return Err(VfsError::Stale);
        }
        self.act_as(caller)?;
        let fd = self.open_data(caller, &object, access)?;
        Ok(Arc::new(self.opened(fd, object.ino, caller)))
    }

    fn open_own(
        &self,
        owner: &Caller,
        object: &ObjectHandle,
        access: OpenAccess,
    ) -> VfsResult<Arc<dyn OpenFile>> {
        let object = self.resolve_file(object)?;
        let stat = stat_fd(&*object).map_err(vfs_error)?;
        self.check_alive(&object, &stat)?;
        if stat.stx_uid != owner.uid {
            return Err(VfsError::Access);
        }
        self.act_as_server()?;
        let fd = self.reopen(&*object, flags_of(access)).map_err(vfs_error)?;
        Ok(Arc::new(self.opened(fd, object.ino, owner)))
    }

    fn create_file(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
        access: OpenAccess,
        set: &SetAttributes,
    ) -> VfsResult<(ObjectHandle, Arc<dyn OpenFile>)> {
        self.make_file(caller, directory, name, access, set)
    }

    fn create(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
        object: NewObject<'_>,
        set: &SetAttributes,
    ) -> VfsResult<ObjectHandle> {
        self.make(caller, directory, name, object, set)
    }

    fn link(
        &self,
        caller: &Caller,
        object: &ObjectHandle,
        directory: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<()> {
        self.make_link(caller, object, directory, name)
    }

    fn remove(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
        found: Option<&FoundObject>,
    ) -> VfsResult<()> {
        self.remove_name(caller, directory, name, found)
    }

    fn rename(
        &self,
        caller: &Caller,
        from: (&ObjectHandle, &[u8]),
        to: (&ObjectHandle, &[u8]),
        found: Option<&RenamedObjects>,
    ) -> VfsResult<()> {
        self.rename_name(caller, from, to, found)
    }

    fn rename_new(
        &self,
        caller: &Caller,
        from: (&ObjectHandle, &[u8]),
        to: (&ObjectHandle, &[u8]),
        source: &FoundObject,
    ) -> VfsResult<bool> {
        self.rename_to_new_name(caller, from, to, source)
    }

    fn readdir(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        cookie: u64,
        entry: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> VfsResult<Eof> {
        self.list(caller, directory, cookie, entry)
    }

    fn acls(&self, object: &ObjectHandle) -> VfsResult<Acls> {
        let object = self.resolve(object)?;
        self.read_acls(&object)
    }

    fn quota(&self, caller: &Caller, object: &ObjectHandle) -> VfsResult<Option<Quota>> {
        self.quota_of(caller, object)
    }

    fn get_xattr(&self, caller: &Caller, object: &ObjectHandle, name: &[u8]) -> VfsResult<Vec<u8>> {
        self.read_xattr(caller, object, name)
    }

    fn set_xattr(
        &self,
        caller: &Caller,
        object: &ObjectHandle,
        name: &[u8],
        value: &[u8],
        how: XattrHow,
    ) -> VfsResult<()> {
        self.write_xattr(caller, object, name, value, how)
    }

    fn list_xattrs(&self, caller: &Caller, object: &ObjectHandle) -> VfsResult<Vec<Vec<u8>>> {
        self.names_of_xattrs(caller, object)
    }

    fn remove_xattr(&self, caller: &Caller, object: &ObjectHandle, name: &[u8]) -> VfsResult<()> {
        self.drop_xattr(caller, object, name)
    }

    fn syncs_names(&self, _: &ObjectHandle) -> bool {
        self.stable_names && self.kind != Kind::Memory
    }

    fn hold(&self, object: &ObjectHandle) -> Option<HeldObject> {
        self.cached(object).map(|object| object as HeldObject)
    }

    fn sync_names(&self, object: &ObjectHandle, held: Option<&HeldObject>) -> VfsResult<()> {
        let held = held.and_then(|held| Arc::clone(held).downcast().ok());
        let object = held.map_or_else(|| self.resolve(object), Ok);
        match object.and_then(|object| self.commit_object(&object)) {
            // The directory cannot be opened: without root it may be writable but not readable, and
            // without the object itself another program may have removed or moved it. Its changes
            // must be stable before they are reported, so the whole file system is synchronised.
            Err(
                VfsError::Access | VfsError::Noent | VfsError::Stale | VfsError::Delay | VfsError::Exhausted,
            ) => {
                self.act_as_server()?;
                let root = self.reopen(&*self.root, OFlags::RDONLY).map_err(vfs_error)?;
                syncfs(root).map_err(sync_error)
            }
            synced => synced,
        }
    }

    fn commit(&self, object: &ObjectHandle) -> VfsResult<()> {
        let object = self.resolve(object)?;
        self.commit_object(&object)
    }

    fn sync_failures(&self) -> u64 {
        0
    }

    fn statfs(&self, object: &ObjectHandle) -> VfsResult<FsStat> {
        let object = self.resolve(object)?;
        let stat = fstatvfs(&*object).map_err(vfs_error)?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        Ok(FsStat {
            space_total: bytes(stat.f_blocks),
            space_free: bytes(stat.f_bfree),
            space_avail: bytes(stat.f_bavail),
            files_total: stat.f_files,
            files_free: stat.f_ffree,
            files_avail: stat.f_favail,
            name_max: u32::try_from(stat.f_namemax).unwrap_or(255),
            link_max: LINK_MAX,
            file_size_max: self.file_size_max,
        })
    }

    fn trim(&self) {
        self.trim_objects();
    }

    fn handle_key(&self) -> Option<[u8; 16]> {
        self.handle_key
    }

    fn heir(&self) -> Option<&dyn Heir> {
        Some(self)
    }
}

impl LocalBackend {
    /// Puts an object on stable storage, even if it has no name any more.
    fn commit_object(&self, object: &CachedObject) -> VfsResult<()> {
        match object.file_type {
            FileType::Directory => return self.commit_directory(object),
            FileType::RegularFile => {}
            // Links and special files cannot be opened for fsync(2), and syncfs(2) would wait for
            // everybody's data: for each link of a tree that a client copies.
            _ => return Ok(()),
        }
        let stat = stat_fd(object).map_err(vfs_error)?;
        if let Some(fd) = leases::writer_of(&stat) {
            return fsync(&*fd).map_err(sync_error);
        }
        self.act_as_server()?;
        let fd = match self.reopen(object, OFlags::RDONLY) {
            // Without root the file may be writable only.
            Err(Errno::ACCESS) => self.reopen(object, OFlags::WRONLY),
            opened => opened,
        };
        fsync(fd.map_err(vfs_error)?).map_err(sync_error)
    }

    /// Puts the names in a directory on stable storage. Its descriptor stays for the next time.
    fn commit_directory(&self, directory: &CachedObject) -> VfsResult<()> {
        let fd = match directory.sync_fd.get() {
            Some(fd) => fd,
            None => {
                self.act_as_server()?;
                let fd = self.reopen(directory, OFlags::RDONLY).map_err(vfs_error)?;
                directory.sync_fd.get_or_init(|| self.keep(fd))
            }
        };
        match fsync(fd) {
            // The file system cannot synchronise a directory alone.
            Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => return syncfs(fd).map_err(sync_error),
            synchronised => synchronised.map_err(sync_error)?,
        }
        // After xfs has shut down for an error of its log, fsync of a directory still succeeds, but
        // its attributes give an error.
        stat_fd(fd).map_err(vfs_error).map(drop)
    }

    /// Makes the open file of a descriptor that the caller has opened.
    pub(crate) fn opened(&self, fd: OwnedFd, ino: u64, caller: &Caller) -> LocalFile {
        let writer = self.identities.then(|| caller.clone());
        let changes = Arc::clone(&self.changes);
        let fd = Arc::new(self.keep(fd));
        let counted = self.open_files.count(ino);
        LocalFile { fd, writer, ino, changes, kind: self.kind, seeker: OnceLock::new(), counted }
    }

    /// Finds the regular file of a handle.
    fn resolve_file(&self, handle: &ObjectHandle) -> VfsResult<Arc<CachedObject>> {
        let object = self.resolve(handle)?;
        match object.file_type {
            FileType::RegularFile => Ok(object),
            FileType::Directory => Err(VfsError::Isdir),
            FileType::Symlink => Err(VfsError::Symlink),
            _ => Err(VfsError::WrongType),
        }
    }

    /// Opens a regular file's data with the rights of the thread.
    fn open_data(&self, caller: &Caller, object: &CachedObject, access: OpenAccess) -> VfsResult<OwnedFd> {
        let flags = flags_of(access);
        match self.reopen(object, flags) {
            // Clients load programs by reading them, so execute permission allows reading here.
            Err(Errno::ACCESS) if !access.write && self.may_execute(caller, object) => {
                self.act_as_server()?;
                self.reopen(object, flags).map_err(vfs_error)
            }
            opened => opened.map_err(vfs_error),
        }
    }
}

fn flags_of(access: OpenAccess) -> OFlags {
    match (access.read, access.write) {
        (true, true) => OFlags::RDWR,
        (false, true) => OFlags::WRONLY,
        _ => OFlags::RDONLY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LocalOptions;

    #[test]
    fn an_object_that_is_held_is_synchronised_without_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let backend = LocalBackend::open(folder.path(), &LocalOptions::default()).unwrap();
        let (caller, root, set) = (Caller::root(), backend.root(), SetAttributes::default());
        let directory = backend.create(&caller, &root, b"directory", NewObject::Directory, &set).unwrap();
        let access = OpenAccess { read: true, write: true };
        let (file, _) = backend.create_file(&caller, &root, b"file", access, &set).unwrap();
        for (object, name) in [(directory, &b"directory"[..]), (file, b"file")] {
            let held = backend.hold(&object).unwrap();
            backend.remove(&caller, &root, name, None).unwrap();
            assert_eq!(backend.commit_object(held.downcast_ref().unwrap()), Ok(()));
            assert_eq!(backend.sync_names(&object, Some(&held)), Ok(()));
            drop(held);
            assert_eq!(backend.commit(&object), Err(VfsError::Stale));
        }
    }
}
