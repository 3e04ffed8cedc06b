//! The last places of objects, which a server without root finds by their paths.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Deepest place that is followed.
const DEPTH_MAX: usize = 1024;

#[derive(Debug)]
struct PathLocation {
    parent: u64,
    name: Box<[u8]>,
    directory: bool,
    /// Where the fileid is in `keys`.
    key: usize,
}

#[derive(Debug, Default)]
struct KnownObject {
    places: HashMap<u64, PathLocation>,
    keys: Vec<u64>,
    /// A place was given up for another, so that not knowing one says nothing.
    evicted: bool,
}

/// When the tree was searched.
#[derive(Debug, Default)]
pub(crate) struct Searched {
    /// End and duration of the last search.
    pub(crate) last: Option<(Instant, Duration)>,
    /// A search saw the whole tree.
    pub(crate) complete: bool,
}

/// Where objects are, by fileid.
#[derive(Debug)]
pub(crate) struct Places {
    known: Mutex<KnownObject>,
    /// Held while searching: one search at a time.
    searched: Mutex<Searched>,
    places_max: usize,
    walk_entries_max: u64,
}

impl Places {
    pub(crate) fn new(places_max: usize, walk_entries_max: u64) -> Self {
        Self { known: Mutex::default(), searched: Mutex::default(), places_max, walk_entries_max }
    }

    fn known(&self) -> MutexGuard<'_, KnownObject> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn remember(&self, ino: u64, directory: bool, parent: u64, name: &[u8]) {
        let mut known = self.known();
        if let Some(place) = known.places.get_mut(&ino) {
            place.parent = parent;
            place.name = name.into();
            return;
        }
        if known.keys.len() >= self.places_max {
            known.evict(ino);
        }
        let key = known.keys.len();
        known.keys.push(ino);
        known.places.insert(ino, PathLocation { parent, name: name.into(), directory, key });
    }

    pub(crate) fn forget(&self, ino: u64) {
        self.known().take(ino);
    }

    /// Returns the names from the root down to an object.
    pub(crate) fn path(&self, ino: u64, root: u64) -> Option<Vec<Box<[u8]>>> {
        let known = self.known();
        let (mut at, mut names) = (ino, Vec::new());
        while at != root {
            let place = known.places.get(&at).filter(|_| names.len() < DEPTH_MAX)?;
            names.push(place.name.clone());
            at = place.parent;
        }
        names.reverse();
        Some(names)
    }

    /// Returns whether the place of an object is known.
    pub(crate) fn knows(&self, ino: u64) -> bool {
        self.known().places.contains_key(&ino)
    }

    /// Returns whether a place was given up, so that an unknown object may exist.
    pub(crate) fn has_evicted(&self) -> bool {
        self.known().evicted
    }

    /// Locks the record of searches: one thread searches at a time.
    pub(crate) fn searched(&self) -> MutexGuard<'_, Searched> {
        self.searched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the most entries that a search looks at.
    pub(crate) fn walk_entries_max(&self) -> u64 {
        self.walk_entries_max
    }
}

impl KnownObject {
    fn take(&mut self, ino: u64) {
        let Some(place) = self.places.remove(&ino) else { return };
        self.keys.swap_remove(place.key);
        if let Some(moved) = self.keys.get(place.key)
            && let Some(other) = self.places.get_mut(moved)
        {
            other.key = place.key;
        }
    }

    /// Gives up one place, a file's if one is found soon: others are reached through directories.
    fn evict(&mut self, seed: u64) {
        const TRIES: u64 = 8;
        self.evicted = true;
        let mut victim = None;
        for n in 0..TRIES {
            let spread = seed.wrapping_add(n).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
            let at = (spread % self.keys.len().max(1) as u64) as usize;
            victim = self.keys.get(at).copied();
            if victim.and_then(|ino| self.places.get(&ino)).is_some_and(|place| !place.directory) {
                break;
            }
        }
        if let Some(ino) = victim {
            self.take(ino);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_lead_from_the_root_down() {
        let places = Places::new(10, 10);
        places.remember(5, true, 2, b"a");
        places.remember(6, false, 5, b"b");
        let names: Vec<&[u8]> = vec![b"a", b"b"];
        assert_eq!(places.path(6, 2).unwrap().iter().map(|name| &name[..]).collect::<Vec<_>>(), names);
        assert_eq!(places.path(7, 2), None);
        places.remember(5, true, 6, b"loop");
        assert_eq!(places.path(6, 2), None, "a loop ends");
    }

    #[test]
    fn places_are_bounded() {
        let places = Places::new(100, 10);
        (0..5000).for_each(|ino| places.remember(ino, ino % 2 == 0, 1, b"name"));
        (0..5000).step_by(7).for_each(|ino| places.forget(ino));
        (0..5000).for_each(|ino| places.remember(ino, false, 1, b"name"));
        let known = places.known();
        assert_eq!((known.places.len(), known.keys.len()), (100, 100));
        assert!(known.keys.iter().enumerate().all(|(at, ino)| known.places[ino].key == at));
    }
}
