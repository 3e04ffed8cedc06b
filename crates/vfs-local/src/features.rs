//! Optional features of the exported file system, found by trying them.

use crate::sys;
use rustix::{
    fs::{Mode, OFlags, SeekFrom, fstatfs, getxattr, openat, seek},
    io::Errno,
};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use vfs::{Features, OFFSET_MAX};

/// Probes the features of the file system of an export's root, as the server.
pub(crate) fn of(root: &OwnedFd) -> Features {
    Features {
        clone_block: clone_block(root),
        acls: has(root, "system.posix_acl_access"),
        quotas: counts_usage(root),
        xattrs: has(root, "user.orthrus"),
        change_grows: false,
        local_programs: true,
    }
}

/// Returns whether the root could have an extended attribute.
fn has(root: &OwnedFd, name: &str) -> bool {
    let path = format!("/proc/self/fd/{}", root.as_raw_fd());
    let held = getxattr(path, name, &mut [0_u8; 0]);
    !matches!(held, Err(Errno::OPNOTSUPP | Errno::NOSYS))
}

/// Returns the size of the blocks that files can share, 0 where they cannot: a file without a name
/// or content is cloned to itself.
fn clone_block(root: &OwnedFd) -> u32 {
    let Ok(file) = nameless_file(root) else { return 0 };
    let nothing = sys::CloneRange { source_offset: 0, count: 0, offset: 0 };
    if sys::clone_range(file.as_fd(), file.as_fd(), &nothing).is_err() {
        return 0;
    }
    fstatfs(&file).map_or(0, |stat| u32::try_from(stat.f_bsize).unwrap_or(0))
}

/// Returns the size of the largest file in bytes; [`OFFSET_MAX`] where the file system does not
/// tell.
///
/// No system call returns it, but lseek(2) refuses an offset beyond it.
pub(crate) fn file_size_max(root: &OwnedFd) -> u64 {
    let Ok(file) = nameless_file(root) else { return OFFSET_MAX };
    let (mut taken, mut refused) = (0, OFFSET_MAX + 1);
    while refused - taken > 1 {
        let middle = taken + (refused - taken) / 2;
        match seek(&file, SeekFrom::Start(middle)) {
            Ok(_) => taken = middle,
            Err(_) => refused = middle,
        }
    }
    if taken == 0 { OFFSET_MAX } else { taken }
}

/// Opens a file without a name or content.
fn nameless_file(root: &OwnedFd) -> Result<OwnedFd, Errno> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    openat(root, c".", flags, Mode::RUSR)
}

/// Returns whether the file system counts usage; asked as the server, for its own user.
fn counts_usage(root: &OwnedFd) -> bool {
    let own = rustix::process::geteuid().as_raw();
    sys::quota(root.as_fd(), sys::QuotaKind::User, own).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs::File, os::unix::fs::FileExt};

    #[test]
    fn the_largest_file_has_the_size_that_the_file_system_takes() {
        for folder in [std::env::temp_dir(), "/dev/shm".into()] {
            let root = OwnedFd::from(File::open(&folder).unwrap());
            let max = file_size_max(&root);
            let file = File::from(nameless_file(&root).unwrap());
            let end = file.write_at(b"last", max - 4);
            assert!(end.is_ok(), "{}: {max}: {end:?}", folder.display());
            assert!(file.write_at(b"beyond", max).is_err(), "{}: {max}", folder.display());
        }
    }
}
