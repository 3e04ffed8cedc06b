//! Location of objects: inside or outside the export, and below which mounts.

use crate::{LocalBackend, attributes::stat_fd, cached_object::CachedObject, identity, mounts};
use rustix::{
    fs::{Mode, OFlags, ResolveFlags, Statx, openat2},
    path::DecInt,
};
use std::{
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::PathBuf,
};
use vfs::ObjectHandle;

impl LocalBackend {
    /// Returns whether a directory lies below the export's root now.
    pub(crate) fn contains(&self, fd: &OwnedFd) -> bool {
        let path_of = |fd: &OwnedFd| rustix::fs::readlinkat(&self.proc, DecInt::from_fd(fd), Vec::new());
        match (path_of(&self.root.fd), path_of(fd)) {
            (Ok(root), Ok(path)) => below(root.as_bytes(), path.as_bytes()),
            // The caller may not be allowed to search the directories on the way.
            _ if self.identities => identity::as_superuser(|| self.contains_by_walking(fd)).unwrap_or(false),
            _ => self.contains_by_walking(fd),
        }
    }

    /// The slow way, for paths that are longer than the kernel prints.
    fn contains_by_walking(&self, fd: &OwnedFd) -> bool {
        /// Directories between a handle and the root of its export. Deeper ones count as outside.
        const DEPTH_MAX: usize = 4096;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // Each subvolume of btrfs has an inode with the number of the root.
        let number = |stat: &Statx| (stat.stx_mnt_id, stat.stx_dev_major, stat.stx_dev_minor, stat.stx_ino);
        let Ok(root) = stat_fd(&self.root.fd) else { return false };
        let Ok(mut at) = rustix::io::fcntl_dupfd_cloexec(fd, 0) else { return false };
        for _ in 0..DEPTH_MAX {
            match stat_fd(&at) {
                Ok(stat) if number(&stat) == number(&root) => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
            match openat2(&at, c"..", flags, Mode::empty(), ResolveFlags::NO_XDEV) {
                Ok(parent) => at = parent,
                Err(_) => return false,
            }
        }
        false
    }

    /// Returns whether one of the places where something is mounted is a name in a directory.
    pub(crate) fn is_covered(&self, places: &[PathBuf], directory: &CachedObject, name: &[u8]) -> bool {
        if places.is_empty() {
            return false;
        }
        let Some(path) = self.real_path(&directory.fd) else { return false };
        let covers = |place: &[u8]| mounts::below(&path, place) == Some(name);
        places.iter().any(|place| covers(place.as_os_str().as_bytes()))
    }

    /// Returns whether something is mounted on a name of a directory.
    pub(crate) fn covers_some(&self, directory: &ObjectHandle) -> bool {
        let places = self.below.places(|| self.path_of_root());
        if places.is_empty() {
            return false;
        }
        let path = self.resolve_directory(directory).ok().and_then(|found| self.real_path(&found.fd));
        path.is_some_and(|path| {
            let names = places.iter().filter_map(|place| mounts::below(&path, place.as_os_str().as_bytes()));
            names.into_iter().any(|name| !name.contains(&b'/'))
        })
    }

    pub(crate) fn path_of_root(&self) -> Option<Vec<u8>> {
        self.real_path(&self.root.fd)
    }

    /// Returns where an object is, as this process sees it.
    pub(crate) fn real_path(&self, fd: &OwnedFd) -> Option<Vec<u8>> {
        let path = rustix::fs::readlinkat(&self.proc, DecInt::from_fd(fd), Vec::new()).ok()?;
        Some(path.into_bytes())
    }
}

/// Returns whether a path is the root or below it.
fn below(root: &[u8], path: &[u8]) -> bool {
    match path.strip_prefix(root) {
        Some(rest) => root == b"/" || rest.is_empty() || rest.starts_with(b"/"),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_components_count_as_below() {
        assert!(below(b"/srv/data", b"/srv/data"));
        assert!(below(b"/srv/data", b"/srv/data/x"));
        assert!(below(b"/", b"/srv"));
        assert!(!below(b"/srv/data", b"/srv/database"));
        assert!(!below(b"/srv/data", b"/srv"));
    }
}
