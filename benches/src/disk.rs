//! A slow disk: ext4 on a loop device that the kernel holds back (blk-throttle); and a fast one, in
//! memory.

use anyhow::Context;
use bench::tools::fed;
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
        let image = image(&folder, FileSystem::Ext4.mkfs().context("an image")?, size)?;
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
    pub(crate) fn forget(&self, file: &Path) -> anyhow::Result<()> {
        bench::lanl::drop_cache(&self.path().join(file))
    }
}

/// An overlayfs on a slow disk. The server cannot know whether a call would wait there, so all
/// calls use its threads that may wait.
pub(crate) struct SlowOverlay {
    path: PathBuf,
}

impl SlowOverlay {
    /// Mounts an empty one, which must go before the disk.
    pub(crate) fn mount(disk: &SlowDisk) -> anyhow::Result<Self> {
        let path = disk.folder.path().join("overlay");
        std::fs::create_dir(&path)?;
        let mut options = "index=on,nfs_export=on".to_owned();
        for layer in ["lowerdir", "upperdir", "workdir"] {
            let folder = disk.path().join(layer);
            std::fs::create_dir(&folder)?;
            options.push_str(&format!(",{layer}={}", folder.display()));
        }
        let place = path.to_str().context("a strange name")?;
        run("mount", &["-t", "overlay", "-o", &options, "overlay", place])?;
        Ok(Self { path })
    }

    /// Returns where it is mounted.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SlowOverlay {
    fn drop(&mut self) {
        unmount(&self.path);
    }
}

/// A file system that a benchmark makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FileSystem {
    /// ext4 as mkfs.ext4 makes it.
    Ext4,
    /// ext4 with its feature `fast_commit`.
    Ext4FastCommit,
    /// xfs as mkfs.xfs makes it.
    Xfs,
    /// A folder of the machine's tmpfs.
    Tmpfs,
}

impl FileSystem {
    /// Returns its name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Ext4FastCommit => "ext4 with fast_commit",
            Self::Xfs => "xfs",
            Self::Tmpfs => "tmpfs",
        }
    }

    /// Returns its name for `tests/linux/run.sh --export-on`.
    ///
    /// # Errors
    /// When the lab does not know it.
    pub(crate) fn lab_name(self) -> Result<&'static str, String> {
        match self {
            Self::Ext4 => Ok("ext4"),
            Self::Xfs => Ok("xfs"),
            Self::Tmpfs => Ok("tmpfs"),
            Self::Ext4FastCommit => Err("the lab makes no ext4 with fast_commit".to_owned()),
        }
    }

    /// Returns the command that makes it in an image; `None` for tmpfs.
    fn mkfs(self) -> Option<&'static [&'static str]> {
        // No work of ext4's own beside that of the measurement.
        const LAZY: &str = "lazy_itable_init=0,lazy_journal_init=0";
        match self {
            Self::Ext4 => Some(&["mkfs.ext4", "-q", "-F", "-E", LAZY]),
            Self::Ext4FastCommit => Some(&["mkfs.ext4", "-q", "-F", "-O", "fast_commit", "-E", LAZY]),
            Self::Xfs => Some(&["mkfs.xfs", "-q"]),
            Self::Tmpfs => None,
        }
    }
}

/// A file system in an image, on a loop device.
pub(crate) struct ImageDisk {
    folder: tempfile::TempDir,
    mounted: bool,
}

impl ImageDisk {
    /// Makes an empty file system of at most `size` bytes in an image below `parent` and mounts it.
    /// For tmpfs it makes a folder in memory instead.
    pub(crate) fn make(parent: &Path, file_system: FileSystem, size: u64) -> anyhow::Result<Self> {
        let Some(mkfs) = file_system.mkfs() else {
            let folder = private::temporary_in("orthrus-disk-", "/dev/shm".as_ref())?;
            return Ok(Self { folder, mounted: false });
        };
        let folder = private::temporary_in("orthrus-disk-", parent)?;
        let image = image(&folder, mkfs, size)?;
        let disk = Self { folder, mounted: true };
        let place = disk.path();
        std::fs::create_dir(&place)?;
        // The loop device goes with the mount.
        run("mount", &["-o", "loop,noatime", &image, place.to_str().context("a strange name")?])?;
        Ok(disk)
    }

    /// Where it is mounted.
    pub(crate) fn path(&self) -> PathBuf {
        if self.mounted { self.folder.path().join("mount") } else { self.folder.path().to_owned() }
    }
}

impl Drop for ImageDisk {
    fn drop(&mut self) {
        if self.mounted {
            unmount(&self.path());
        }
    }
}

/// Makes a file of this size, and a file system in it by the command `mkfs`.
fn image(folder: &tempfile::TempDir, mkfs: &[&str], size: u64) -> anyhow::Result<String> {
    let image = folder.path().join("image");
    File::create(&image)?.set_len(size)?;
    let path = image.to_str().context("a strange name")?;
    let (program, arguments) = mkfs.split_first().context("no command")?;
    run(program, &[arguments, &[path]].concat())?;
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
