//! Extended attributes of the user's name space; the kernel checks permissions.

use crate::{LocalBackend, cached_object::CachedObject, errno::vfs_error, sys};
use rustix::{
    buffer::spare_capacity,
    fs::{XattrFlags, getxattr, listxattr, removexattr, setxattr},
    io::Errno,
};
use std::{os::fd::AsFd, sync::Arc};
use vfs::{Caller, ObjectHandle, VfsError, VfsResult, XATTR_NAME_MAX, XATTR_SIZE_MAX, XattrHow};

/// The name space that clients have; it is not on the wire.
const PREFIX: &[u8] = b"user.";

impl LocalBackend {
    pub(crate) fn read_xattr(
        &self,
        caller: &Caller,
        object: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<Vec<u8>> {
        let object = self.begin_xattr(caller, object)?;
        let mut value = Vec::with_capacity(XATTR_SIZE_MAX);
        getxattr(self.path_of(&*object), full(name)?, spare_capacity(&mut value)).map_err(xattr_error)?;
        value.shrink_to_fit();
        Ok(value)
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
        let flags = match how {
            XattrHow::Either => XattrFlags::empty(),
            XattrHow::Create => XattrFlags::CREATE,
            XattrHow::Replace => XattrFlags::REPLACE,
        };
        let object = self.begin_xattr(caller, object)?;
        setxattr(self.path_of(&*object), full(name)?, value, flags).map_err(xattr_error)?;
        self.changes.note(object.ino);
        Ok(())
    }

    pub(crate) fn names_of_xattrs(&self, caller: &Caller, object: &ObjectHandle) -> VfsResult<Vec<Vec<u8>>> {
        let object = self.begin_xattr(caller, object)?;
        // Other calls ask the kernel for permission, listxattr(2) asks for nothing but the way to
        // the file.
        sys::access(object.as_fd(), libc::R_OK).map_err(vfs_error)?;
        let mut names: Vec<u8> = Vec::with_capacity(XATTR_SIZE_MAX);
        listxattr(self.path_of(&*object), spare_capacity(&mut names)).map_err(xattr_error)?;
        let ours = names.split(|byte| *byte == 0).filter_map(|name| name.strip_prefix(PREFIX));
        let mut ours: Vec<Vec<u8>> = ours.filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect();
        ours.sort_unstable();
        Ok(ours)
    }

    pub(crate) fn drop_xattr(&self, caller: &Caller, object: &ObjectHandle, name: &[u8]) -> VfsResult<()> {
        let object = self.begin_xattr(caller, object)?;
        removexattr(self.path_of(&*object), full(name)?).map_err(xattr_error)?;
        self.changes.note(object.ino);
        Ok(())
    }

    /// Finds the object and takes on the caller's rights.
    fn begin_xattr(&self, caller: &Caller, object: &ObjectHandle) -> VfsResult<Arc<CachedObject>> {
        let object = self.resolve(object)?;
        if self.is_gone(&object) {
            return Err(VfsError::Stale);
        }
        self.act_as(caller)?;
        Ok(object)
    }
}

/// Returns the name as the kernel has it.
fn full(name: &[u8]) -> VfsResult<Vec<u8>> {
    match name.len() {
        0 => Err(VfsError::Inval),
        1..=XATTR_NAME_MAX => Ok([PREFIX, name].concat()),
        _ => Err(VfsError::Nametoolong),
    }
}

fn xattr_error(errno: Errno) -> VfsError {
    match errno {
        Errno::NODATA => VfsError::Noxattr,
        Errno::TOOBIG => VfsError::Xattr2big,
        // For a name: it does not fit.
        Errno::RANGE => VfsError::Nametoolong,
        other => vfs_error(other),
    }
}
