//! Opens and locks by groups of files, such as exports, for the limits of groups.

use crate::order::{Guard, Leaf, LeafLevel};
use crate::sync::{Mutex, MutexGuard};
use std::collections::BTreeMap;

/// The opens and locks of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct GroupCounts {
    opens: usize,
    /// Lock stateids and locked ranges.
    locks: usize,
}

/// The groups that have any.
#[derive(Debug, Default)]
pub(crate) struct FileGroups(Leaf<Mutex<BTreeMap<u64, GroupCounts>>>);

impl FileGroups {
    fn all(&self) -> Guard<MutexGuard<'_, BTreeMap<u64, GroupCounts>>, LeafLevel> {
        self.0.lock()
    }

    /// Counts an open; returns false if there are `max` already.
    pub(crate) fn add_open(&self, group: u64, max: usize) -> bool {
        let mut all = self.all();
        let counts = all.entry(group).or_default();
        let fits = counts.opens < max;
        counts.opens += usize::from(fits);
        fits
    }

    /// Counts an open that goes.
    pub(crate) fn remove_open(&self, group: u64) {
        self.change(group, |counts| counts.opens = counts.opens.saturating_sub(1));
    }

    /// Counts locks that were made or went.
    pub(crate) fn change_locks(&self, group: u64, before: usize, after: usize) {
        self.change(group, |counts| counts.locks = (counts.locks + after).saturating_sub(before));
    }

    /// Returns the number of opens.
    pub(crate) fn opens(&self, group: u64) -> usize {
        self.all().get(&group).map_or(0, |counts| counts.opens)
    }

    /// Returns the number of locks.
    pub(crate) fn locks(&self, group: u64) -> usize {
        self.all().get(&group).map_or(0, |counts| counts.locks)
    }

    fn change(&self, group: u64, change: impl FnOnce(&mut GroupCounts)) {
        let mut all = self.all();
        let counts = all.entry(group).or_default();
        change(counts);
        if *counts == GroupCounts::default() {
            all.remove(&group);
        }
    }
}
