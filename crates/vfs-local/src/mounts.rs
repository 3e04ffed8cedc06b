//! What the kernel tells of mounts.

use rustix::fs::{Statx, makedev};
use std::{
    ffi::OsString,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

/// One mount of this process's name space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    pub(crate) id: u64,
    /// Number of the file system; on btrfs that of the whole and not of the subvolume.
    pub(crate) device: u64,
    /// Where it is, as this process sees it.
    pub(crate) place: PathBuf,
}

/// Returns all mounts, later ones over earlier ones; none where /proc does not tell.
pub(crate) fn all() -> Vec<Mount> {
    let text = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    text.split(|byte| *byte == b'\n').filter_map(parse).collect()
}

/// Returns the number of the file system that an object is on.
pub(crate) fn device(stat: &Statx) -> u64 {
    let mount = all().into_iter().find(|mount| mount.id == stat.stx_mnt_id);
    mount.map_or_else(|| makedev(stat.stx_dev_major, stat.stx_dev_minor), |mount| mount.device)
}

/// Reads a line: id, parent, major:minor, root, place, and what is not needed here (proc_pid_mountinfo(5)).
fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let text = |field: Option<&[u8]>| std::str::from_utf8(field?).ok().map(str::to_owned);
    let id = text(fields.next())?.parse().ok()?;
    let device = text(fields.nth(1))?;
    let (major, minor) = device.split_once(':')?;
    let device = makedev(major.parse().ok()?, minor.parse().ok()?);
    let place = OsString::from_vec(unescape(fields.nth(1)?));
    Some(Mount { id, device, place: Path::new(&place).to_owned() })
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
        let mount = Mount { id: 36, device: makedev(98, 7), place: "/mnt 2".into() };
        assert_eq!(parse(line), Some(mount));
        assert_eq!(parse(b"36 35 no device"), None);
        assert!(all().iter().any(|mount| mount.place == Path::new("/")));
    }
}
