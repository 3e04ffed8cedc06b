//! Mounts, from the kernel's mountinfo.

use crate::errno::uninterrupted;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{CWD, Mode, OFlags, Statx, makedev, openat},
    io::Errno,
};
use std::{
    ffi::OsString,
    os::{
        fd::OwnedFd,
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

/// One mount of this process's name space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MountEntry {
    pub(crate) id: u64,
    /// Number of the file system; on btrfs that of the whole and not of the subvolume.
    pub(crate) device: u64,
    /// Where it is, as this process sees it.
    pub(crate) place: PathBuf,
}

/// Returns all mounts, later ones over earlier ones; none where /proc does not tell.
pub(crate) fn all() -> Vec<MountEntry> {
    let text = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    text.split(|byte| *byte == b'\n').filter_map(parse).collect()
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
        let all = all().into_iter().map(|mount| mount.place);
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
    mount.map_or_else(|| makedev(stat.stx_dev_major, stat.stx_dev_minor), |mount| mount.device)
}

/// Parses a line: id, parent, major:minor, root, mount point, and fields that are skipped
/// (proc_pid_mountinfo(5)).
fn parse(line: &[u8]) -> Option<MountEntry> {
    let mut fields = line.split(|byte| *byte == b' ');
    let text = |field: Option<&[u8]>| std::str::from_utf8(field?).ok().map(str::to_owned);
    let id = text(fields.next())?.parse().ok()?;
    let device = text(fields.nth(1))?;
    let (major, minor) = device.split_once(':')?;
    let device = makedev(major.parse().ok()?, minor.parse().ok()?);
    let place = OsString::from_vec(unescape(fields.nth(1)?));
    Some(MountEntry { id, device, place: Path::new(&place).to_owned() })
}

/// Undoes the kernel's `\040` for a space and its like.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, behind)) = rest.split_first() {
        let octal = behind.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()).filter(|_| *first == b'\\') {
            Some(byte) => {
                bytes.push(byte);
                rest = behind.get(3..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_gives_number_device_and_place() {
        let line = br"36 35 98:7 /mnt1 /mnt\0402 rw,noatime master:1 - ext3 /dev/root rw";
        let mount = MountEntry { id: 36, device: makedev(98, 7), place: "/mnt 2".into() };
        assert_eq!(parse(line), Some(mount));
        assert_eq!(parse(b"36 35 no device"), None);
        assert!(all().iter().any(|mount| mount.place == Path::new("/")));
    }

    #[test]
    fn only_what_is_below_a_root_has_a_place_there() {
        assert_eq!(below(b"/srv", b"/srv/a/b"), Some(&b"a/b"[..]));
        assert_eq!(below(b"/", b"/srv"), Some(&b"srv"[..]));
        for path in [&b"/srv"[..], b"/srv/", b"/srvx/a", b"/"] {
            assert_eq!(below(b"/srv", path), None);
        }
    }
}
