//! The trait, operation by operation.

use crate::CephBackend;
use crate::attributes::attributes;
use crate::errno::vfs_error;
use std::ops::ControlFlow;
use std::sync::Arc;
use vfs::{
    Acls, Attributes, Backend, Caller, DirEntry, Eof, Features, FileType, FoundObject, FsStat, HeldObject,
    Identity, NewObject, OFFSET_MAX, ObjectHandle, OpenAccess, OpenFile, Permissions, Quota, RenamedObjects,
    SetAttributes, VfsError, VfsResult, XattrHow,
};

/// Objects that CephFS can still take, which has no limit.
const FILES_FREE: u64 = 1 << 40;
/// Longest name in bytes.
const NAME_MAX: u32 = 255;

impl Backend for CephBackend {
    fn root(&self) -> ObjectHandle {
        self.root.handle
    }

    fn features(&self) -> Features {
        Features {
            clone_block: 0,
            acls: true,
            quotas: true,
            xattrs: true,
            change_grows: true,
            // Programs of other machines: native clients and the clients of other gateways.
            local_programs: true,
        }
    }

    fn features_of(&self, _: &ObjectHandle) -> Features {
        self.features()
    }

    fn part(&self, _: &ObjectHandle) -> u64 {
        0
    }

    fn mounted_on(&self, _: &ObjectHandle) -> Option<u64> {
        None
    }

    fn has_mounts(&self, _: &ObjectHandle) -> bool {
        false
    }

    fn identity(&self, _: &ObjectHandle) -> Option<Identity> {
        // The numbers of an object are the same in every export of its file system.
        Some(Identity { device: self.device, skip: 0, shared: true })
    }

    fn may_wait(&self) -> bool {
        true
    }

    fn answers_from_memory(&self, _: &ObjectHandle) -> bool {
        false
    }

    fn seldom_waits(&self, _: &ObjectHandle) -> bool {
        true
    }

    fn is_cached(&self, _: &ObjectHandle) -> bool {
        false
    }

    fn lookup_now(&self, _: &Caller, _: &ObjectHandle, _: &[u8]) -> VfsResult<Option<ObjectHandle>> {
        Ok(None)
    }

    fn getattr(&self, object: &ObjectHandle) -> VfsResult<Attributes> {
        let object = self.resolve(object)?;
        Ok(attributes(&self.stat(&object)?, self.device))
    }

    fn change_before(&self, directory: &ObjectHandle) -> VfsResult<u64> {
        let directory = self.resolve(directory)?;
        directory.inode.known_stat(&self.server).map(|stat| stat.version).map_err(vfs_error)
    }

    /// The answer to a change of names brings the attributes of the directory.
    fn change_after(&self, directory: &ObjectHandle, before: u64) -> VfsResult<u64> {
        let known = self.change_before(directory)?;
        if known == before { self.getattr(directory).map(|now| now.change) } else { Ok(known) }
    }

    fn setattr(&self, caller: &Caller, object: &ObjectHandle, set: &SetAttributes) -> VfsResult<Attributes> {
        self.set_attributes(caller, object, set)
    }

    fn access(&self, caller: &Caller, object: &ObjectHandle) -> VfsResult<Permissions> {
        let object = self.resolve(object)?;
        let rights = self.rights(caller, &object)?;
        Ok(Permissions { write: rights.write && object.id.is_current(), ..rights })
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
        let (handle, attributes) = self.find_attributes(caller, directory, name)?;
        Ok(FoundObject { handle, attributes: Some(attributes) })
    }

    fn lookup_parent(&self, caller: &Caller, directory: &ObjectHandle) -> VfsResult<ObjectHandle> {
        self.find_parent(caller, directory)
    }

    fn readlink(&self, caller: &Caller, object: &ObjectHandle) -> VfsResult<Vec<u8>> {
        let object = self.resolve(object)?;
        if object.file_type != FileType::Symlink {
            return Err(VfsError::WrongType);
        }
        object.inode.read_link(&self.credentials(caller)?).map_err(vfs_error)
    }

    fn open(
        &self,
        caller: &Caller,
        object: &ObjectHandle,
        access: OpenAccess,
    ) -> VfsResult<Arc<dyn OpenFile>> {
        let object = self.regular_file(object)?;
        self.stat(&object)?;
        let flags = flags_of(access);
        let opened = match object.inode.open(flags, &self.credentials(caller)?) {
            // Clients load programs by reading them, so execute permission allows reading here.
            Err(error)
                if error.number() == libc::EACCES
                    && !access.write
                    && self.rights(caller, &object)?.execute =>
            {
                object.inode.open(flags, &self.server)
            }
            opened => opened,
        };
        Ok(Arc::new(self.opened(&object, opened.map_err(vfs_error)?, caller)))
    }

    fn open_own(
        &self,
        owner: &Caller,
        object: &ObjectHandle,
        access: OpenAccess,
    ) -> VfsResult<Arc<dyn OpenFile>> {
        let object = self.regular_file(object)?;
        if self.stat(&object)?.uid != owner.uid {
            return Err(VfsError::Access);
        }
        let opened = object.inode.open(flags_of(access), &self.server).map_err(vfs_error)?;
        Ok(Arc::new(self.opened(&object, opened, owner)))
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
        self.make(caller, directory, name, &object, set)
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
        _: Option<&RenamedObjects>,
    ) -> VfsResult<()> {
        self.rename_name(caller, from, to)
    }

    fn rename_new(
        &self,
        _: &Caller,
        _: (&ObjectHandle, &[u8]),
        _: (&ObjectHandle, &[u8]),
        _: &FoundObject,
    ) -> VfsResult<bool> {
        Ok(false)
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

    fn quota(&self, _: &Caller, object: &ObjectHandle) -> VfsResult<Option<Quota>> {
        self.quota_of(object)
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
        self.stable_names
    }

    // The cache keeps an object as long as others do, so its handle leads to it.
    fn hold(&self, object: &ObjectHandle) -> Option<HeldObject> {
        self.cached(object).map(|object| object as HeldObject)
    }

    /// The metadata server answers before its journal is written, and this waits for the journal.
    fn sync_names(&self, object: &ObjectHandle, _: Option<&HeldObject>) -> VfsResult<()> {
        self.commit(object)
    }

    fn commit(&self, object: &ObjectHandle) -> VfsResult<()> {
        let object = self.resolve(object)?;
        self.dirty_files.clean(&*object, || object.inode.sync())
    }

    fn sync_failures(&self) -> u64 {
        self.dirty_files.failures()
    }

    fn statfs(&self, object: &ObjectHandle) -> VfsResult<FsStat> {
        let object = self.resolve(object)?;
        let size = object.inode.file_system_size().map_err(vfs_error)?;
        Ok(FsStat {
            space_total: size.total,
            space_free: size.free,
            space_avail: size.free,
            files_total: size.files.saturating_add(FILES_FREE),
            files_free: FILES_FREE,
            files_avail: FILES_FREE,
            name_max: NAME_MAX,
            link_max: u32::MAX,
            file_size_max: OFFSET_MAX,
        })
    }

    fn trim(&self) {
        self.trim_objects();
    }

    fn handle_key(&self) -> Option<[u8; 16]> {
        self.handle_key
    }

    // Opens and locks belong to the session of a process with the cluster.
    fn heir(&self) -> Option<&dyn vfs::Heir> {
        None
    }
}

fn flags_of(access: OpenAccess) -> libc::c_int {
    match (access.read, access.write) {
        (true, true) => libc::O_RDWR,
        (false, true) => libc::O_WRONLY,
        _ => libc::O_RDONLY,
    }
}
