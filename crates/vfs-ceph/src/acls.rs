//! Access control lists, as Ceph keeps them in extended attributes. The library enforces them.

use crate::object::CephObject;
use crate::{CephBackend, errno::vfs_error};
use ceph::fs::{Credentials, XattrFlag};
use std::ffi::CStr;
use vfs::{ACL_ENTRIES_MAX, Acls, FileType, PosixAcl, VfsError, VfsResult};

/// The list that is enforced.
const ACCESS: &CStr = c"system.posix_acl_access";
/// The list that new objects of a directory get.
const DEFAULT: &CStr = c"system.posix_acl_default";
/// Most bytes of an access control list.
const SIZE_MAX: usize = 64 << 10;

impl CephBackend {
    pub(crate) fn read_acls(&self, object: &CephObject) -> VfsResult<Acls> {
        if object.file_type == FileType::Symlink {
            return Err(VfsError::Notsupp);
        }
        let default = match object.file_type {
            FileType::Directory => self.read_list(object, DEFAULT)?,
            _ => None,
        };
        Ok(Acls { access: self.access_list(object)?, default })
    }

    /// Returns the list that decides about access, if there is one besides the mode.
    pub(crate) fn access_list(&self, object: &CephObject) -> VfsResult<Option<PosixAcl>> {
        self.read_list(object, ACCESS)
    }

    /// Returns whether a directory gives new objects their permissions.
    pub(crate) fn has_default_acl(&self, directory: &CephObject) -> bool {
        self.read_list(directory, DEFAULT).is_ok_and(|list| list.is_some())
    }

    fn read_list(&self, object: &CephObject, name: &CStr) -> VfsResult<Option<PosixAcl>> {
        match object.inode.xattr(name, SIZE_MAX, &self.server) {
            Ok(bytes) if bytes.is_empty() => Ok(None),
            Ok(bytes) => PosixAcl::from_xattr(&bytes).map(Some).ok_or(VfsError::Io),
            Err(error) if error.number() == libc::ENODATA => Ok(None),
            Err(error) => Err(vfs_error(error)),
        }
    }

    /// Sets or takes away both lists, with the rights of a user.
    pub(crate) fn write_acls(&self, object: &CephObject, acls: &Acls, user: &Credentials) -> VfsResult<()> {
        if object.file_type == FileType::Symlink {
            return Err(VfsError::Notsupp);
        }
        write(object, ACCESS, acls.access.as_ref(), user)?;
        match (object.file_type, &acls.default) {
            (FileType::Directory, default) => write(object, DEFAULT, default.as_ref(), user),
            (_, None) => Ok(()),
            (_, Some(_)) => Err(VfsError::Inval),
        }
    }
}

fn write(object: &CephObject, name: &CStr, list: Option<&PosixAcl>, user: &Credentials) -> VfsResult<()> {
    let done = match list {
        Some(list) if list.named() > ACL_ENTRIES_MAX => return Err(VfsError::Nospc),
        Some(list) => object.inode.set_xattr(name, &list.to_xattr(), XattrFlag::Either, user),
        None => object.inode.remove_xattr(name, user),
    };
    match done.map_err(|error| (error.number(), vfs_error(error))) {
        Err((libc::ENODATA, _)) => Ok(()),
        // The metadata server has no room for so many entries.
        Err((libc::E2BIG | libc::ERANGE, _)) => Err(VfsError::Nospc),
        done => done.map_err(|(_, error)| error),
    }
}
