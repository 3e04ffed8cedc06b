//! Names that are looked up and changed in one step.
//!
//! REMOVE and RENAME look up the object of a name, recall its delegations, and then change the
//! name. In between the name must not change its object, so an operation that changes a name holds
//! it for that time, while there can be delegations. Other names of the directory change meanwhile:
//! on a network file system each change is a round trip. Not excluded are changes by local
//! processes, and spellings of a name that only the file system takes for the same.

use super::{Compound, DeferReason, Delegations, FileKey, Object, OpResult};
use std::collections::HashSet;
use std::hash::Hash;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A directory and a name in it.
type Name = (FileKey, Box<[u8]>);

/// The set of held names.
#[derive(Debug)]
pub(crate) struct NamesHeld<K = Name> {
    held: Mutex<HeldSet<K>>,
    freed: Condvar,
}

#[derive(Debug)]
struct HeldSet<K> {
    names: HashSet<K>,
    /// The number of threads that wait for a name.
    waiting: usize,
}

impl<K> Default for HeldSet<K> {
    fn default() -> Self {
        Self { names: HashSet::new(), waiting: 0 }
    }
}

impl<K> Default for NamesHeld<K> {
    fn default() -> Self {
        Self { held: Mutex::default(), freed: Condvar::new() }
    }
}

impl<K> NamesHeld<K> {
    /// Returns whether any name is held.
    pub(super) fn are_held(&self) -> bool {
        !self.held.lock().unwrap_or_else(PoisonError::into_inner).names.is_empty()
    }
}

/// Holds names until it is dropped.
#[must_use = "the names may change again when it is dropped"]
#[derive(Debug)]
pub struct Hold<'n, K: Hash + Eq = Name> {
    held: &'n NamesHeld<K>,
    names: Vec<K>,
}

impl<K> NamesHeld<K> {
    fn lock(&self) -> MutexGuard<'_, HeldSet<K>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Hash + Eq> NamesHeld<K> {
    /// Holds all names at once, so that a waiting thread holds none. `None` when it would
    /// block and may not.
    fn hold(&self, names: Vec<K>, waits: bool) -> Option<Hold<'_, K>> {
        let mut held = self.lock();
        while names.iter().any(|name| held.names.contains(name)) {
            if !waits {
                return None;
            }
            held.waiting += 1;
            held = self.freed.wait(held).unwrap_or_else(PoisonError::into_inner);
            held.waiting -= 1;
        }
        held.names.extend(names.iter().cloned());
        Some(Hold { held: self, names })
    }
}

impl<K: Hash + Eq> Drop for Hold<'_, K> {
    fn drop(&mut self) {
        let mut held = self.held.lock();
        for name in &self.names {
            held.names.remove(name);
        }
        let awaited = held.waiting > 0;
        drop(held);
        if awaited {
            self.held.freed.notify_all();
        }
    }
}

impl<'c> Compound<'c> {
    /// Returns whether any client may have a delegation, or get one while the operation runs.
    pub(super) fn may_be_delegated(&self) -> bool {
        self.nfs.choices.delegations() != Delegations::None || self.state().delegations().has_delegations()
    }

    /// Holds names against changes by other operations, if there can be delegations. Blocks while
    /// another operation changes one of them.
    ///
    /// # Errors
    /// [`OpStop::Deferred`].
    pub fn hold_names(&self, names: &[(&Object, &[u8])]) -> OpResult<Option<Hold<'c>>> {
        if !self.may_be_delegated() {
            return Ok(None);
        }
        let names = names.iter().map(|(directory, name)| (directory.key(), (*name).into())).collect();
        let held = self.nfs.names.hold(names, self.may_wait());
        held.map(Some).ok_or(DeferReason::CurrentExport.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::thread;

    #[test]
    fn a_name_is_held_by_one_at_a_time_and_two_are_taken_together() {
        let names = NamesHeld::default();
        let held = names.hold(vec![1_u8, 1_u8], false).unwrap();
        assert!(names.hold(vec![2_u8, 1_u8], false).is_none());
        drop(names.hold(vec![2_u8], false).unwrap());
        drop(held);
        assert!(names.lock().names.is_empty());
        let inside = AtomicUsize::new(0);
        thread::scope(|scope| {
            for number in 0..4_u8 {
                let (names, inside) = (&names, &inside);
                scope.spawn(move || {
                    for round in 0..200 {
                        let other = (number + round % 3) % 4 + 2;
                        let _held = names.hold(vec![other, 1_u8], true);
                        assert_eq!(inside.fetch_add(1, SeqCst), 0);
                        inside.fetch_sub(1, SeqCst);
                    }
                });
            }
        });
    }
}
