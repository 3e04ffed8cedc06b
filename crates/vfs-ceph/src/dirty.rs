//! Files with data that may not be on stable storage.
//!
//! Such a file stays with its mount, since COMMIT must reach the mount that has the data.

use crate::errno::vfs_error;
use ceph::CephErrno;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use vfs::VfsResult;

/// Files with unwritten data that are kept open. With more, a write waits until the oldest file is
/// on stable storage, so that clients that never send COMMIT do not keep all files in memory.
const DIRTY_FILES_MAX: usize = 4096;

/// The marks of a file, which [`DirtyFiles`] sets.
#[derive(Debug, Default)]
pub(crate) struct DirtyMarks {
    /// Whether the mount may hold data of the file that is not on stable storage.
    dirty: AtomicBool,
    /// Whether it is among the files that are kept because they were written.
    queued: AtomicBool,
}

/// A file that can be written and synced.
pub(crate) trait WrittenFile {
    fn marks(&self) -> &DirtyMarks;

    /// Puts the data that its mount holds on stable storage.
    fn sync(&self) -> Result<(), CephErrno>;
}

/// The files of an export with several mounts; with one mount there is nothing to keep.
#[derive(Debug)]
pub(crate) struct DirtyFiles<T> {
    files: Option<Mutex<VecDeque<Arc<T>>>>,
    failures: AtomicU64,
}

impl<T: WrittenFile> DirtyFiles<T> {
    pub(crate) fn new(mounts_are_several: bool) -> Self {
        Self { files: mounts_are_several.then(Mutex::default), failures: AtomicU64::new(0) }
    }

    /// Notes that a file was written. When too many files are dirty, it waits for the sync of
    /// another one.
    ///
    /// A failure of this sync is not one of the write: it is counted. The other file is kept no
    /// more, since its clients write all its data again when they see another write verifier.
    pub(crate) fn note(&self, file: &Arc<T>) {
        let Some(files) = &self.files else { return };
        file.marks().dirty.store(true, Relaxed);
        if file.marks().queued.swap(true, Relaxed) {
            return;
        }
        let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
        files.push_back(Arc::clone(file));
        let oldest = if files.len() > DIRTY_FILES_MAX { files.pop_front() } else { None };
        drop(files);
        let Some(oldest) = oldest else { return };
        oldest.marks().queued.store(false, Relaxed);
        if !oldest.marks().dirty.load(Relaxed) {
            return;
        }
        if let Err(error) = self.clean(&*oldest, || oldest.sync()) {
            self.failures.fetch_add(1, Relaxed);
            tracing::warn!(%error, "written data did not reach stable storage: clients write it again");
        }
    }

    /// Puts a file's data on stable storage by `sync`. If that fails, the file stays dirty.
    pub(crate) fn clean(&self, file: &T, sync: impl FnOnce() -> Result<(), CephErrno>) -> VfsResult<()> {
        let marks = file.marks();
        // A write after this counts again.
        let was_dirty = marks.dirty.swap(false, Relaxed);
        let synced = sync();
        if synced.is_err() && was_dirty {
            marks.dirty.store(true, Relaxed);
        }
        synced.map_err(vfs_error)
    }

    /// Returns the number of failed syncs that made room for other files.
    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct TestFile {
        marks: DirtyMarks,
        syncs: AtomicU64,
        fails: AtomicBool,
    }

    impl WrittenFile for TestFile {
        fn marks(&self) -> &DirtyMarks {
            &self.marks
        }

        fn sync(&self) -> Result<(), CephErrno> {
            self.syncs.fetch_add(1, Relaxed);
            if self.fails.load(Relaxed) { Err(CephErrno::new(libc::EIO)) } else { Ok(()) }
        }
    }

    #[test]
    fn a_failed_sync_that_makes_room_changes_the_write_verifier_and_loses_no_later_write()
    // RFC 8881 section 18.3.3
    {
        let dirty = DirtyFiles::new(true);
        let write_others = || (0..DIRTY_FILES_MAX).for_each(|_| dirty.note(&Arc::<TestFile>::default()));
        let file = Arc::new(TestFile::default());
        file.fails.store(true, Relaxed);
        dirty.note(&file);
        write_others();
        assert_eq!((file.syncs.load(Relaxed), dirty.failures()), (1, 1));
        // Its clients write it again, and it is kept and synced as any other.
        file.fails.store(false, Relaxed);
        dirty.note(&file);
        assert_eq!(Arc::strong_count(&file), 2);
        write_others();
        assert_eq!((file.syncs.load(Relaxed), dirty.failures()), (2, 1));
        assert_eq!(Arc::strong_count(&file), 1);
    }
}
