//! Files with state: who has them open with which shares, and their locked ranges (RFC 8881 section 9.1).

use crate::lock_ranges::RangeTable;
use crate::shares::ShareCounts;
use crate::slab::Key;
use crate::{Nfsstat4, Result, State};
use std::hash::Hash;

/// A file with at least one open.
#[derive(Debug)]
pub(crate) struct FileState<F> {
    pub(crate) name: F,
    pub(crate) opens: usize,
    pub(crate) shares: ShareCounts,
    /// Held by lock owners.
    pub(crate) ranges: RangeTable<Key>,
}

impl<F: Clone + Eq + Hash, O: Clone> State<F, O> {
    /// Finds the file, or makes it for an open that follows at once.
    pub(crate) fn file_for_open(&mut self, name: &F) -> Key {
        if let Some(key) = self.files_by_name.get(name) {
            return *key;
        }
        let file = FileState {
            name: name.clone(),
            opens: 0,
            shares: ShareCounts::default(),
            ranges: RangeTable::default(),
        };
        let key = self.files.insert(file);
        self.files_by_name.insert(name.clone(), key);
        key
    }

    /// Drops a file that nobody has open any more.
    pub(crate) fn release_file(&mut self, key: Key) {
        if self.files.get(key).is_some_and(|file| file.opens == 0)
            && let Some(file) = self.files.remove(key)
        {
            self.ranges = self.ranges.saturating_sub(file.ranges.len());
            self.files_by_name.remove(&file.name);
        }
    }

    /// Checks I/O with a special stateid against everybody's share reservations; `access` as in [`State::access`].
    ///
    /// # Errors
    /// NFS4ERR_LOCKED (somebody denies it), NFS4ERR_GRACE.
    pub fn anonymous_access(&self, now: std::time::Duration, file: &F, access: u32) -> Result<()> {
        if self.in_grace(now) {
            return Err(Nfsstat4::NFS4ERR_GRACE);
        }
        let file = self.files_by_name.get(file).and_then(|key| self.files.get(*key));
        if file.is_some_and(|file| file.shares.union().deny & access != 0) {
            return Err(Nfsstat4::NFS4ERR_LOCKED);
        }
        Ok(())
    }

    /// Tells whether anybody has the file open (for REMOVE and RENAME over it).
    pub fn is_open(&self, file: &F) -> bool {
        self.files_by_name.contains_key(file)
    }
}
