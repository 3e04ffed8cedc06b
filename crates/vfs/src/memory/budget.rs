//! Bytes and objects that the backend may still hold.

use crate::{FsStat, VfsError, VfsResult};
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts what is in use against two limits.
#[derive(Debug)]
pub(super) struct Budget {
    bytes_max: u64,
    objects_max: u64,
    bytes: AtomicU64,
    objects: AtomicU64,
}

impl Budget {
    pub(super) fn new(bytes_max: u64, objects_max: u64) -> Self {
        Self { bytes_max, objects_max, bytes: AtomicU64::new(0), objects: AtomicU64::new(0) }
    }

    /// Takes bytes, or `Nospc` and takes nothing.
    pub(super) fn take_bytes(&self, count: u64) -> VfsResult<()> {
        take(&self.bytes, count, self.bytes_max)
    }

    pub(super) fn give_bytes(&self, count: u64) {
        self.bytes.fetch_sub(count, Ordering::Relaxed);
    }

    /// Takes one object, or `Nospc`.
    pub(super) fn take_object(&self) -> VfsResult<()> {
        take(&self.objects, 1, self.objects_max)
    }

    pub(super) fn give_object(&self) {
        self.objects.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn statfs(&self) -> FsStat {
        let space_free = self.bytes_max.saturating_sub(self.bytes.load(Ordering::Relaxed));
        let files_free = self.objects_max.saturating_sub(self.objects.load(Ordering::Relaxed));
        FsStat {
            space_total: self.bytes_max,
            space_free,
            space_avail: space_free,
            files_total: self.objects_max,
            files_free,
            files_avail: files_free,
            name_max: super::NAME_MAX as u32,
            link_max: super::LINK_MAX,
            file_size_max: super::FILE_SIZE_MAX,
        }
    }
}

fn take(counter: &AtomicU64, count: u64, max: u64) -> VfsResult<()> {
    let add = |used: u64| used.checked_add(count).filter(|used| *used <= max);
    let taken = counter.try_update(Ordering::Relaxed, Ordering::Relaxed, add);
    taken.map(|_| ()).map_err(|_| VfsError::Nospc)
}
