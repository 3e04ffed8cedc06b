//! Files with data that may not be on stable storage.
//!
//! Such a file stays with its mount, since COMMIT must reach the mount that has the data.

use crate::errno::vfs_error;
use crate::object::CephObject;
use ceph::CephErrno;
use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use vfs::VfsResult;

/// Files that are kept so. With more, a write waits until the oldest file is on stable storage, so
/// that clients that never send COMMIT do not keep all files in memory.
const DIRTY_FILES_MAX: usize = 4096;

/// The files of an export with several mounts; with one mount there is nothing to keep.
#[derive(Debug, Default)]
pub(crate) struct DirtyFiles(Option<Mutex<VecDeque<Arc<CephObject>>>>);

impl DirtyFiles {
    pub(crate) fn new(mounts_are_several: bool) -> Self {
        Self(mounts_are_several.then(Mutex::default))
    }

    /// Notes that a file was written.
    ///
    /// # Errors
    /// The error of another file's write, when too many files are dirty.
    pub(crate) fn note(&self, object: &Arc<CephObject>) -> VfsResult<()> {
        let Some(files) = &self.0 else { return Ok(()) };
        if object.dirty.swap(true, Relaxed) || object.queued.swap(true, Relaxed) {
            return Ok(());
        }
        let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
        files.push_back(Arc::clone(object));
        if files.len() <= DIRTY_FILES_MAX {
            return Ok(());
        }
        let Some(oldest) = files.pop_front() else { return Ok(()) };
        drop(files);
        oldest.queued.store(false, Relaxed);
        if oldest.dirty.load(Relaxed) { self.clean(&oldest, || oldest.inode.sync()) } else { Ok(()) }
    }

    /// Puts a file's data on stable storage by `sync`. If that fails, the file stays dirty.
    pub(crate) fn clean(
        &self,
        object: &CephObject,
        sync: impl FnOnce() -> Result<(), CephErrno>,
    ) -> VfsResult<()> {
        // A write after this counts again.
        let was_dirty = object.dirty.swap(false, Relaxed);
        let synced = sync();
        if synced.is_err() && was_dirty {
            object.dirty.store(true, Relaxed);
        }
        synced.map_err(vfs_error)
    }
}
