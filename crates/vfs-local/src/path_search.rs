//! Finding objects without root: at their last place, or by a search of the tree.

use crate::{
    LocalBackend,
    attributes::stat_fd,
    places::{Places, Searched},
};
use rustix::{
    fs::{FileType, Mode, OFlags, RawDir, RawDirEntry, ResolveFlags, openat2},
    io::Errno,
};
use std::{
    mem::MaybeUninit,
    os::fd::OwnedFd,
    time::{Duration, Instant},
};
use vfs::{EntryName, ObjectHandle, VfsError, VfsResult};

/// Time between two searches, and how many times longer than a search the pause after it is.
const PAUSE_MIN: Duration = Duration::from_secs(5);
const PAUSE_FACTOR: u32 = 10;
/// Directories that a search keeps in mind while it looks at others.
const PENDING_MAX: usize = 100_000;

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
        let mut searched = places.searched();
        // Another thread may have searched meanwhile.
        if let Some(found) = self.try_place(places, ino, handle) {
            return found;
        }
        if searched.complete && !places.knows(ino) && !places.has_evicted() {
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

    /// Notes the place of every object of the tree, up to the limits, and returns whether it saw
    /// all.
    fn search(&self, places: &Places) -> bool {
        let mut pending: Vec<(u64, Vec<u8>)> = vec![(self.root.ino, Vec::new())];
        let mut left = places.walk_entries_max();
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

/// Calls `entry` for each entry but "." and ".." until it returns false, and returns whether the
/// end was reached.
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
