//! Extended attributes of the user's name space; the library checks permissions.

use crate::object::CephObject;
use crate::{CephBackend, errno::vfs_error};
use ceph::CephErrno;
use ceph::fs::XattrFlag;
use std::ffi::CString;
use std::sync::Arc;
use vfs::{Caller, FileType, ObjectHandle, VfsError, VfsResult, XATTR_NAME_MAX, XATTR_SIZE_MAX, XattrHow};

/// The name space that clients have; it is not on the wire.
const PREFIX: &[u8] = b"user.";

impl CephBackend {
    pub(crate) fn read_xattr(
        &self,
        caller: &Caller,
        object: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<Vec<u8>> {
        let object = self.attributed(object)?;
        if !self.rights(caller, &object)?.read {
            return Err(VfsError::Access);
        }
        let user = self.credentials(caller)?;
        object.inode.xattr(&full(name)?, XATTR_SIZE_MAX, &user).map_err(xattr_error)
    }

    pub(crate) fn write_xattr(
        &self,
        caller: &Caller,
        object: &ObjectHandle,
        name: &[u8],
        value: &[u8],
        how: XattrHow,
    ) -> VfsResult<()> {
        if value.len() > XATTR_SIZE_MAX {
            return Err(VfsError::Xattr2big);
        }
        let flag = match how {
            XattrHow::Either => XattrFlag::Either,
            XattrHow::Create => XattrFlag::Create,
            XattrHow::Replace => XattrFlag::Replace,
        };
        let object = self.attributed_to_change(caller, object)?;
        object.inode.set_xattr(&full(name)?, value, flag, &self.credentials(caller)?).map_err(|error| {
            // The metadata server's limit for all attributes of an object.
            if error.number() == libc::ENOSPC { VfsError::Xattr2big } else { xattr_error(error) }
        })
    }

    pub(crate) fn names_of_xattrs(&self, caller: &Caller, object: &ObjectHandle) -> VfsResult<Vec<Vec<u8>>> {
        let object = match self.attributed(object) {
            Err(VfsError::Perm) => return Ok(Vec::new()),
            object => object?,
        };
        if !self.rights(caller, &object)?.read {
            return Err(VfsError::Access);
        }
        let names = object.inode.xattrs(XATTR_SIZE_MAX, &self.credentials(caller)?).map_err(xattr_error)?;
        let ours = names.iter().filter_map(|name| name.strip_prefix(PREFIX));
        let mut ours: Vec<Vec<u8>> = ours.filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect();
        ours.sort_unstable();
        Ok(ours)
    }

    pub(crate) fn drop_xattr(&self, caller: &Caller, object: &ObjectHandle, name: &[u8]) -> VfsResult<()> {
        let object = self.attributed_to_change(caller, object)?;
        object.inode.remove_xattr(&full(name)?, &self.credentials(caller)?).map_err(xattr_error)
    }

    /// Finds an object that may have attributes of users: a file or a directory.
    fn attributed(&self, object: &ObjectHandle) -> VfsResult<Arc<CephObject>> {
        let object = self.resolve(object)?;
        self.stat(&object)?;
        match object.file_type {
            FileType::Regular | FileType::Directory => Ok(object),
            _ => Err(VfsError::Perm),
        }
    }

    /// As `attributed`, for a change, which needs the right to write.
    fn attributed_to_change(&self, caller: &Caller, object: &ObjectHandle) -> VfsResult<Arc<CephObject>> {
        let object = self.attributed(object)?;
        if !object.id.is_current() {
            return Err(VfsError::Rofs);
        }
        if !self.rights(caller, &object)?.write {
            return Err(VfsError::Access);
        }
        // As Linux has it: where everybody may make entries, everybody could fill the attributes.
        let stat = self.stat(&object)?;
        let sticky = object.file_type == FileType::Directory && stat.mode & libc::S_ISVTX != 0;
        if sticky && caller.uid != 0 && caller.uid != stat.uid { Err(VfsError::Perm) } else { Ok(object) }
    }
}

/// Returns the name as the library has it.
fn full(name: &[u8]) -> VfsResult<CString> {
    match name.len() {
        0 => Err(VfsError::Inval),
        1..=XATTR_NAME_MAX => CString::new([PREFIX, name].concat()).map_err(|_| VfsError::Inval),
        _ => Err(VfsError::Nametoolong),
    }
}

fn xattr_error(error: CephErrno) -> VfsError {
    match error.number() {
        libc::ENODATA => VfsError::Noxattr,
        libc::E2BIG => VfsError::Xattr2big,
        libc::ERANGE => VfsError::Xattr2big,
        _ => vfs_error(error),
    }
}
