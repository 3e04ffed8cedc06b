//! The state that all objects of a backend share: the remaining bytes and objects, and the clock.

use super::WallClock;
use crate::{FsStat, Timestamp, VfsError, VfsResult};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts bytes and objects against two limits, and reads the clock.
pub(super) struct MemoryBudget {
    clock: Box<WallClock>,
    bytes_max: u64,
    objects_max: u64,
    bytes: AtomicU64,
    objects: AtomicU64,
}

impl MemoryBudget {
    pub(super) fn new(bytes_max: u64, objects_max: u64, clock: Box<WallClock>) -> Self {
        Self { clock, bytes_max, objects_max, bytes: AtomicU64::new(0), objects: AtomicU64::new(0) }
    }

    /// Returns the time of day.
    pub(super) fn now(&self) -> Timestamp {
        (self.clock)()
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
            file_size_max: crate::OFFSET_MAX,
        }
    }
}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let in_use = [&self.bytes, &self.objects].map(|counter| counter.load(Ordering::Relaxed));
        write!(f, "Budget({in_use:?} of {:?})", [self.bytes_max, self.objects_max])
    }
}

fn take(counter: &AtomicU64, count: u64, max: u64) -> VfsResult<()> {
    let add = |used: u64| used.checked_add(count).filter(|used| *used <= max);
    let taken = counter.try_update(Ordering::Relaxed, Ordering::Relaxed, add);
    taken.map(|_| ()).map_err(|_| VfsError::Nospc)
}
