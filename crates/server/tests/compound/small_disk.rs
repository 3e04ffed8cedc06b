//! A small file system for tests that may fill it.

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::geteuid;
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::TempDir;

/// A tmpfs with a folder `export` with write permission for all and a folder `outside`; unmounted
/// by dropping it.
pub(crate) struct SmallDisk(TempDir);

impl SmallDisk {
    /// Mounts one of this size; `None`, with the reason printed, where that is not possible.
    pub(crate) fn mount(bytes: u64) -> Option<Self> {
        if !geteuid().is_root() {
            eprintln!("skipped: only root mounts file systems");
            return None;
        }
        let place = tempfile::tempdir().unwrap();
        let options = format!("size={bytes},mode=755");
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        if let Err(error) = mount(Some("orthrus-test"), place.path(), Some("tmpfs"), flags, Some(&*options)) {
            eprintln!("skipped: tmpfs cannot be mounted: {error}");
            return None;
        }
        let disk = Self(place);
        for (name, mode) in [("export", 0o777), ("outside", 0o755)] {
            let path = disk.path().join(name);
            std::fs::create_dir(&path).unwrap();
            set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        }
        Some(disk)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        vfs_local::become_server();
        let _ = umount2(self.path(), MntFlags::MNT_DETACH);
    }
}
