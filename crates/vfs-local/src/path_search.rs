//! Finding objects without root: where they were last, and a search of the tree when that is not
//! known.

use crate::{LocalBackend, attributes::stat_fd};
use rustix::{
    fs::{FileType, Mode, OFlags, RawDir, RawDirEntry, ResolveFlags, openat2},
    io::Errno,
};
use std::{
    collections::HashMap,
    mem::MaybeUninit,
    os::fd::OwnedFd,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use vfs::{EntryName, ObjectHandle, VfsError, VfsResult};

/// Time between two searches, and how many times longer than a search the pause after it is.
const PAUSE_MIN: Duration = Duration::from_secs(5);
const PAUSE_FACTOR: u32 = 10;
/// Deepest place that is followed.
const DEPTH_MAX: usize = 1024;
/// Directories that a search keeps in mind while it looks at others.
const PENDING_MAX: usize = 100_000;

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
struct Searched {
    /// End and duration of the last search.
    last: Option<(Instant, Duration)>,
    /// A search saw the whole tree.
    complete: bool,
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
    fn path(&self, ino: u64, root: u64) -> Option<Vec<Box<[u8]>>> {
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

    fn knows(&self, ino: u64) -> bool {
        self.known().places.contains_key(&ino)
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

/// Returns the path of a name in a directory below the root.
fn below(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if directory.is_empty() { b"" } else { b"/" };
    [directory, slash, name].concat()
}

/// The result of looking for an object at its expected location.
enum Found {
    Object(OwnedFd),
    /// Another object has the fileid now: the wanted one is gone.
    Replaced,
    Nothing,
}

impl LocalBackend {
    /// Finds an object that is not in the cache of descriptors.
    pub(crate) fn find_place(&self, ino: u64, handle: &ObjectHandle) -> VfsResult<OwnedFd> {
        let places = self.places.as_ref().ok_or(VfsError::Stale)?;
        if let Some(found) = self.try_place(places, ino, handle) {
            return found;
        }
        let mut searched = places.searched.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have searched meanwhile.
        if let Some(found) = self.try_place(places, ino, handle) {
            return found;
        }
        if searched.complete && !places.knows(ino) && !places.known().evicted {
            return Err(VfsError::Stale);
        }
        if let Some((end, took)) = searched.last
            && end.elapsed() < PAUSE_MIN.max(took.saturating_mul(PAUSE_FACTOR))
        {
            return Err(VfsError::Delay);
        }
        places.forget(ino);
        let start = Instant::now();
        let complete = self.search(places);
        *searched = Searched { last: Some((Instant::now(), start.elapsed())), complete };
        drop(searched);
        self.try_place(places, ino, handle).unwrap_or(Err(VfsError::Stale))
    }

    /// Looks at the place where the object was last; `None` when it is not there.
    fn try_place(&self, places: &Places, ino: u64, handle: &ObjectHandle) -> Option<VfsResult<OwnedFd>> {
        let path = places.path(ino, self.root.ino)?;
        match self.look_at(&path, ino, handle) {
            Ok(Found::Object(fd)) => Some(Ok(fd)),
            Ok(Found::Replaced) => Some(Err(VfsError::Stale)),
            Ok(Found::Nothing) => None,
            Err(error) => Some(Err(error)),
        }
    }

    fn look_at(&self, path: &[Box<[u8]>], ino: u64, handle: &ObjectHandle) -> VfsResult<Found> {
        let mut fd = rustix::io::fcntl_dupfd_cloexec(&self.root.fd, 0).map_err(crate::errno::vfs_error)?;
        for name in path {
            let name = EntryName::new(name)?;
            fd = match self.open_name(&fd, &name) {
                Ok(fd) => fd,
                Err(Errno::MFILE | Errno::NFILE) => return Err(VfsError::Exhausted),
                Err(_) => return Ok(Found::Nothing),
            };
        }
        let stat = stat_fd(&fd).map_err(crate::errno::vfs_error)?;
        let there =
            crate::sys::fd_to_handle(std::os::fd::AsFd::as_fd(&fd)).map_err(crate::errno::vfs_error)?;
        let there = crate::handle::encode(stat.stx_ino, &there)?;
        Ok(match self.fileid(stat.stx_ino, &there) == ino {
            true if there == *handle => Found::Object(fd),
            true => Found::Replaced,
            false => Found::Nothing,
        })
    }

    /// Notes the place of every object of the tree, up to the limits; says whether it saw all.
    fn search(&self, places: &Places) -> bool {
        let mut pending: Vec<(u64, Vec<u8>)> = vec![(self.root.ino, Vec::new())];
        let mut left = places.walk_entries_max;
        let mut complete = true;
        while let Some((ino, path)) = pending.pop() {
            let directory = match self.open_path(&path) {
                Ok(directory) => directory,
                Err(errno) => {
                    // It was moved, perhaps to a place that was listed before, or no descriptor is
                    // left. Of other directories, such as mounts, another search sees no more.
                    complete &= !matches!(errno, Errno::NOENT | Errno::MFILE | Errno::NFILE | Errno::NOMEM);
                    continue;
                }
            };
            let mut has_room = true;
            let numbers = self.numbers_in(&directory);
            complete &= list(&directory, &mut |entry| {
                let (entry_ino, file_type) = (numbers.of(entry), entry.file_type());
                let name = entry.file_name().to_bytes();
                places.remember(entry_ino, file_type != FileType::RegularFile, ino, name);
                if matches!(file_type, FileType::Directory | FileType::Unknown) {
                    has_room &= pending.len() < PENDING_MAX;
                    if has_room {
                        pending.push((entry_ino, below(&path, name)));
                    }
                }
                left = left.saturating_sub(1);
                left > 0
            });
            complete &= has_room;
            if left == 0 {
                return false;
            }
        }
        complete
    }

    /// Opens a directory below the root for listing.
    fn open_path(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let path = if path.is_empty() { b"." } else { path };
        crate::errno::retry(|| openat2(&self.root.fd, path, flags, Mode::empty(), resolve))
    }
}

/// Calls `entry` for each entry but "." and ".." until it returns false; says whether the end was
/// reached.
fn list(directory: &OwnedFd, entry: &mut dyn FnMut(&RawDirEntry<'_>) -> bool) -> bool {
    const BUFFER: usize = 32 * 1024;
    let mut buffer = vec![MaybeUninit::uninit(); BUFFER];
    let mut entries = RawDir::new(directory, &mut buffer);
    while let Some(next) = entries.next() {
        let Ok(next) = next else { return false };
        let name = next.file_name().to_bytes();
        if !matches!(name, b"." | b"..") && !entry(&next) {
            return false;
        }
    }
    true
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
