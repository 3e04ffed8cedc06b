//! Optional features of the exported file system, found by trying them.

use crate::sys;
use rustix::{
    fs::{Mode, OFlags, fstatfs, getxattr, openat},
    io::Errno,
};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use vfs::Features;

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
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let Ok(file) = openat(root, c".", flags, Mode::RUSR) else { return 0 };
    let nothing = sys::CloneRange { source_offset: 0, count: 0, offset: 0 };
    if sys::clone_range(file.as_fd(), file.as_fd(), &nothing).is_err() {
        return 0;
    }
    fstatfs(&file).map_or(0, |stat| u32::try_from(stat.f_bsize).unwrap_or(0))
}

/// Returns whether the file system counts usage; asked as the server, for its own user.
fn counts_usage(root: &OwnedFd) -> bool {
    let own = rustix::process::geteuid().as_raw();
    sys::quota(root.as_fd(), sys::QuotaKind::User, own).is_ok()
}
