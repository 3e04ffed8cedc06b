//! An object that is held open between requests.

use crate::descriptor::Descriptor;
use object_cache::CacheableObject;
use rustix::fs::FileType;
use std::{
    os::fd::{AsFd, BorrowedFd},
    sync::OnceLock,
};
use vfs::ObjectHandle;

/// An object held open by path only: good for attributes and as a starting point, not for data.
#[derive(Debug)]
pub(crate) struct CachedObject {
    pub(crate) handle: ObjectHandle,
    /// The inode number, with that of the subvolume on btrfs: `LocalBackend::fileid`.
    pub(crate) ino: u64,
    pub(crate) file_type: FileType,
    pub(crate) fd: Descriptor,
    /// A directory opened for reading, once its changes had to be synchronised.
    pub(crate) sync_fd: OnceLock<Descriptor>,
}

impl CachedObject {
    pub(crate) fn new(handle: ObjectHandle, ino: u64, file_type: FileType, fd: Descriptor) -> Self {
        Self { handle, ino, file_type, fd, sync_fd: OnceLock::new() }
    }
}

impl AsFd for CachedObject {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl CacheableObject for CachedObject {
    fn handle(&self) -> &ObjectHandle {
        &self.handle
    }
}
