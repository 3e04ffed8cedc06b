//! Mounts below a folder, and their changes.

use crate::errno::uninterrupted;
use mounts::Mount;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{CWD, Mode, OFlags, Statx, makedev, openat},
    io::Errno,
};
use std::{
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

/// Returns all mounts, later ones over earlier ones; none where /proc cannot be read.
pub(crate) fn all() -> Vec<Mount> {
    mounts::all().unwrap_or_default()
}

/// Tells when mounts come and go.
#[derive(Debug)]
pub(crate) struct MountWatch(OwnedFd);

impl MountWatch {
    pub(crate) fn open() -> Result<Self, Errno> {
        openat(CWD, c"/proc/self/mountinfo", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map(Self)
    }

    /// Returns whether mounts have changed since the last call; the caller must handle the change.
    pub(crate) fn changed(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut fds = [PollFd::new(&self.0, PollFlags::PRI)];
        let polled = uninterrupted(|| poll(&mut fds, Some(&now)));
        polled.is_ok() && fds.iter().any(|fd| fd.revents().intersects(PollFlags::PRI | PollFlags::ERR))
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
}
