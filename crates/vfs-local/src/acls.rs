//! Access control lists, as the kernel keeps them in extended attributes. The kernel checks
//! permissions and enforces the lists.

use crate::{LocalBackend, cached_object::CachedObject, errno::vfs_error};
use rustix::{
    buffer::spare_capacity,
    fs::{FileType, XattrFlags, getxattr, removexattr, setxattr},
    io::Errno,
};
use vfs::{ACL_ENTRIES_MAX, Acls, Caller, PosixAcl, VfsError, VfsResult};

/// The list that is enforced.
const ACCESS: &str = "system.posix_acl_access";
/// The list that new objects of a directory get.
const DEFAULT: &str = "system.posix_acl_default";
/// Most bytes of a list.
const SIZE_MAX: usize = 64 << 10;

impl LocalBackend {
    pub(crate) fn read_acls(&self, object: &CachedObject) -> VfsResult<Acls> {
        if object.file_type == FileType::Symlink || !self.features.acls {
            return Err(VfsError::Notsupp);
        }
        let path = self.path_of(object);
        let default = match object.file_type {
            FileType::Directory => read(&path, DEFAULT)?,
            _ => None,
        };
        Ok(Acls { access: read(&path, ACCESS)?, default })
    }

    /// Returns whether a directory gives new objects their permissions.
    pub(crate) fn has_default_acl(&self, directory: &CachedObject) -> bool {
        self.features.acls && read(&self.path_of(directory), DEFAULT).is_ok_and(|list| list.is_some())
    }

    /// Sets or takes away both lists of an object of group `gid`, with the rights of the thread,
    /// which are the caller's.
    pub(crate) fn write_acls(
        &self,
        caller: &Caller,
        object: &CachedObject,
        gid: u32,
        acls: &Acls,
    ) -> VfsResult<()> {
        if object.file_type == FileType::Symlink || !self.features.acls {
            return Err(VfsError::Notsupp);
        }
        let path = self.path_of(object);
        self.keeping_set_gid(caller, &[gid], || write(&path, ACCESS, acls.access.as_ref()))??;
        match (object.file_type, &acls.default) {
            (FileType::Directory, default) => write(&path, DEFAULT, default.as_ref()),
            (_, None) => Ok(()),
            (_, Some(_)) => Err(VfsError::Inval),
        }
    }
}

fn read(path: &str, name: &str) -> VfsResult<Option<PosixAcl>> {
    let mut bytes = Vec::with_capacity(SIZE_MAX);
    match getxattr(path, name, spare_capacity(&mut bytes)) {
        Ok(_) => PosixAcl::from_xattr(&bytes).map(Some).ok_or(VfsError::Io),
        Err(Errno::NODATA) => Ok(None),
        Err(errno) => Err(vfs_error(errno)),
    }
}

fn write(path: &str, name: &str, list: Option<&PosixAcl>) -> VfsResult<()> {
    let done = match list {
        Some(list) if list.named() > ACL_ENTRIES_MAX => return Err(VfsError::Nospc),
        Some(list) => setxattr(path, name, &list.to_xattr(), XattrFlags::empty()),
        None => removexattr(path, name),
    };
    match done {
        Err(Errno::NODATA) => Ok(()),
        // The file system has no room for so many entries.
        Err(Errno::TOOBIG | Errno::RANGE) => Err(VfsError::Nospc),
        done => done.map_err(vfs_error),
    }
}
