//! A slow disk: ext4 on a loop device that the kernel holds back (blk-throttle); and a fast one, in
//! memory.

use anyhow::Context;
use bench::mounted::tools::fed;
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Control groups version 1 for block devices. The root group covers all processes and the kernel's
/// own writes.
const LIMITS: &str = "/sys/fs/cgroup/blkio";

/// Removes the parts of a slow disk, in this order.
pub(crate) struct SlowDisk {
    mounted: bool,
    device: String,
    /// Its number, such as `7:0`.
    number: String,
    folder: tempfile::TempDir,
}

impl SlowDisk {
    /// Why there cannot be one here, if so.
    pub(crate) fn missing() -> Option<String> {
        if !nix::unistd::geteuid().is_root() {
            return Some("a slow disk takes root".to_owned());
        }
        if !Path::new(LIMITS).join("blkio.throttle.read_iops_device").exists() {
            return Some(format!("the kernel limits no devices: {LIMITS} has no blkio.throttle.*"));
        }
        let tools = ["losetup", "mkfs.ext4", "mount"];
        let absent = |tool: &&str| Command::new(tool).arg("--version").output().is_err();
        tools.iter().find(|tool| absent(tool)).map(|tool| format!("{tool} is not installed"))
    }

    /// Makes an empty disk of `size` bytes and mounts it; it is as fast as its file until
    /// [`SlowDisk::hold_back`].
    pub(crate) fn make(size: u64) -> anyhow::Result<Self> {
        let folder = private::temporary("orthrus-disk-")?;
        let image = image(&folder, size)?;
        let device = run("losetup", &["--find", "--show", "--direct-io=on", &image])?;
        let mut disk = Self { mounted: false, device, number: String::new(), folder };
        let name = disk.device.strip_prefix("/dev/").context("losetup names no device")?;
        disk.number = std::fs::read_to_string(format!("/sys/block/{name}/dev"))?.trim().to_owned();
        let place = disk.path();
        std::fs::create_dir(&place)?;
        run("mount", &["-o", "noatime", &disk.device, place.to_str().context("a strange name")?])?;
        disk.mounted = true;
        std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o777))?;
        Ok(disk)
    }

    /// Where it is mounted.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("slow")
    }

    /// The device that it is on, by its name below /dev.
    pub(crate) fn device(&self) -> &str {
        self.device.strip_prefix("/dev/").unwrap_or(&self.device)
    }

    /// Lets through so many reads and so many writes a second; 0 lets all through.
    pub(crate) fn hold_back(&self, each_second: u32) -> anyhow::Result<()> {
        for kind in ["read", "write"] {
            let file = format!("{LIMITS}/blkio.throttle.{kind}_iops_device");
            std::fs::write(&file, format!("{} {each_second}", self.number)).context(file)?;
        }
        Ok(())
    }

    /// Drops the pages of all files below the mount's folders that are named so.
    pub(crate) fn forget(&self, folder: &str) -> anyhow::Result<()> {
        let mut files = std::fs::read_dir(self.path().join(folder))?;
        files.try_for_each(|file| bench::lanl::drop_cache(&file?.path()))
    }
}

/// ext4 in memory, for servers that do not export tmpfs.
pub(crate) struct MemoryDisk {
    folder: tempfile::TempDir,
}

impl MemoryDisk {
    /// Makes an empty disk of at most `size` bytes and mounts it.
    pub(crate) fn make(size: u64) -> anyhow::Result<Self> {
        let folder = private::temporary_in("orthrus-disk-", "/dev/shm".as_ref())?;
        let image = image(&folder, size)?;
        let disk = Self { folder };
        let place = disk.path();
        std::fs::create_dir(&place)?;
        // The loop device goes with the mount.
        run("mount", &["-o", "loop,noatime", &image, place.to_str().context("a strange name")?])?;
        Ok(disk)
    }

    /// Where it is mounted.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("ext4")
    }
}

impl Drop for MemoryDisk {
    fn drop(&mut self) {
        // It may not be mounted yet.
        unmount(&self.path());
    }
}

/// Makes a file with an ext4 of this size.
fn image(folder: &tempfile::TempDir, size: u64) -> anyhow::Result<String> {
    let image = folder.path().join("image");
    File::create(&image)?.set_len(size)?;
    let path = image.to_str().context("a strange name")?;
    // No work of ext4's own beside that of the measurement.
    run("mkfs.ext4", &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", path])?;
    Ok(path.to_owned())
}

fn unmount(path: &Path) {
    let path = path.to_string_lossy();
    let _ = run("umount", &[&path]).or_else(|_| run("umount", &["-l", &path]));
}

/// Counts the commits of ext4's journal on a device of its own; `None` where there is none.
pub(crate) fn journal_commits(device: &str) -> Option<u64> {
    let info = std::fs::read_to_string(format!("/proc/fs/jbd2/{device}-8/info")).ok()?;
    info.split_whitespace().next()?.parse().ok()
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        // The disk has to be fast again first, or unmounting takes long.
        let _ = self.hold_back(0);
        if self.mounted {
            unmount(&self.path());
        }
        let _ = run("losetup", &["--detach", &self.device]);
    }
}

fn run(program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    Ok(fed(Command::new(program).args(arguments), "")?.trim().to_owned())
}
