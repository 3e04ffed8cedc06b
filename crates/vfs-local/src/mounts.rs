//! Mounts below a folder, and their changes.

use crate::{errno::uninterrupted, kind::Kind};
use mounts::Mount;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{CWD, Mode, OFlags, Statx, makedev, openat},
    io::Errno,
};
use std::{
    collections::{HashMap, HashSet},
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{
            AtomicBool,
            Ordering::{AcqRel, Acquire, Release},
        },
    },
};

/// Returns all mounts, later ones over earlier ones; none where /proc cannot be read.
pub(crate) fn all() -> Vec<Mount> {
    mounts::all().unwrap_or_default()
}

/// Tells when mounts come and go.
#[derive(Debug)]
pub(crate) struct MountWatch {
    table: OwnedFd,
    /// A change was seen that is still to be handled.
    pending: AtomicBool,
}

impl MountWatch {
    pub(crate) fn open() -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let table = openat(CWD, c"/proc/self/mountinfo", flags, Mode::empty())?;
        Ok(Self { table, pending: AtomicBool::new(false) })
    }

    /// Returns whether mounts have changed since the last call; the caller must handle the change.
    pub(crate) fn changed(&self) -> bool {
        let changed = self.has_changed();
        // Threads that handle a change read the table after this.
        changed && self.pending.swap(false, AcqRel)
    }

    /// Returns whether there is a change that [`MountWatch::changed`] has not returned yet.
    pub(crate) fn has_changed(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut fds = [PollFd::new(&self.table, PollFlags::PRI)];
        let polled = uninterrupted(|| poll(&mut fds, Some(&now)));
        // The kernel tells each change once.
        if polled.is_ok() && fds.iter().any(|fd| fd.revents().intersects(PollFlags::PRI | PollFlags::ERR)) {
            self.pending.store(true, Release);
        }
        self.pending.load(Acquire)
    }
}

/// The places of mounts below a folder, as of the last change.
#[derive(Debug)]
pub(crate) struct Below {
    watch: MountWatch,
    places: Mutex<Option<Arc<[PathBuf]>>>,
}

impl Below {
    pub(crate) fn new() -> Result<Self, Errno> {
        Ok(Self { watch: MountWatch::open()?, places: Mutex::default() })
    }

    /// Returns those of the last call of [`Below::places`].
    pub(crate) fn known(&self) -> Arc<[PathBuf]> {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.clone().unwrap_or_default()
    }

    /// Returns them; `root` tells where the folder is.
    pub(crate) fn places(&self, root: impl FnOnce() -> Option<Vec<u8>>) -> Arc<[PathBuf]> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = self.watch.changed();
        if let Some(places) = places.as_ref().filter(|_| !changed) {
            return places.clone();
        }
        let root = root().unwrap_or_default();
        let all = all().into_iter().map(|mount| mount.point);
        let found: Arc<[PathBuf]> =
            all.filter(|place| below(&root, place.as_os_str().as_bytes()).is_some()).collect();
        *places = Some(found.clone());
        found
    }
}

/// A place below a folder where a file system is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MountedPlace {
    /// The path from the folder.
    pub(crate) place: Vec<u8>,
    /// The number of the last mount there.
    pub(crate) mount: u64,
    /// The kind of its file system; foreign if any mount at the place is.
    pub(crate) kind: Kind,
}

/// Returns the places below a folder that are reached without passing another mount, those on
/// foreign file systems last.
pub(crate) fn nearest(root: &[u8], all: &[Mount]) -> Vec<MountedPlace> {
    let mut found: Vec<MountedPlace> = Vec::new();
    let mut index = HashMap::new();
    for mount in all {
        let Some(place) = below(root, mount.point.as_os_str().as_bytes()) else { continue };
        let kind = Kind::named(&mount.fs_type);
        let at = *index.entry(place).or_insert(found.len());
        match found.get_mut(at) {
            Some(known) => {
                known.mount = mount.id;
                known.kind = if known.kind == Kind::Foreign { known.kind } else { kind };
            }
            None => found.push(MountedPlace { place: place.to_owned(), mount: mount.id, kind }),
        }
    }
    let places: HashSet<&[u8]> = index.into_keys().collect();
    let is_nearest = |place: &[u8]| {
        let mut slashes = (0..place.len()).filter(|at| place.get(*at) == Some(&b'/'));
        !slashes.any(|at| place.get(..at).is_some_and(|above| places.contains(above)))
    };
    found.retain(|found| is_nearest(&found.place));
    found.sort_by_key(|found| found.kind == Kind::Foreign);
    found
}

/// Returns a path relative to a root; `None` for paths outside it.
pub(crate) fn below<'p>(root: &[u8], path: &'p [u8]) -> Option<&'p [u8]> {
    let rest = path.strip_prefix(root)?;
    let rest = if root.ends_with(b"/") { rest } else { rest.strip_prefix(b"/")? };
    (!rest.is_empty()).then_some(rest)
}

/// Returns the number of the file system that an object is on.
pub(crate) fn device(stat: &Statx) -> u64 {
    let mount = all().into_iter().find(|mount| mount.id == stat.stx_mnt_id);
    let (major, minor) = mount.map_or((stat.stx_dev_major, stat.stx_dev_minor), |mount| mount.device);
    makedev(major, minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_below_a_root_has_a_place_there() {
        assert_eq!(below(b"/srv", b"/srv/a/b"), Some(&b"a/b"[..]));
        assert_eq!(below(b"/", b"/srv"), Some(&b"srv"[..]));
        for path in [&b"/srv"[..], b"/srv/", b"/srvx/a", b"/"] {
            assert_eq!(below(b"/srv", path), None);
        }
    }

    #[test]
    fn the_nearest_mounts_come_once_with_those_that_may_hang_last() {
        let mount = |id: u64, point: &str, fs_type: &str| {
            let line = format!("{id} 1 0:1 / {point} rw - {fs_type} source rw");
            Mount::parse(line.as_bytes()).unwrap()
        };
        let all = [
            mount(1, "/", "ext4"),
            mount(2, "/srv/far", "fuse.sshfs"),
            mount(3, "/srv/far/deep", "tmpfs"),
            mount(4, "/srv/a", "xfs"),
            mount(5, "/srv/a-b", "tmpfs"),
            mount(6, "/srv/auto", "autofs"),
            mount(7, "/srv/auto", "ext4"),
            mount(8, "/srv/a", "tmpfs"),
        ];
        let found = nearest(b"/srv", &all);
        let found: Vec<_> = found.iter().map(|found| (&*found.place, found.mount, found.kind)).collect();
        let expected: [(&[u8], u64, Kind); 4] = [
            (b"a", 8, Kind::Memory),
            (b"a-b", 5, Kind::Memory),
            (b"far", 2, Kind::Foreign),
            (b"auto", 7, Kind::Foreign),
        ];
        assert_eq!(found, expected);
    }
}
