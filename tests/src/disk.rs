//! File systems to break, in a mount namespace of their own: nothing of them stays.

use crate::is_root;
use nix::sched::{CloneFlags, unshare};
use std::fs::{File, Permissions, set_permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Runs a test with private mounts, which end with the test and its children. Skipped, with the
/// reason, where mounting is not permitted or a tool is missing.
pub fn in_own_mounts(body: impl FnOnce() + Send) {
    let missing = ["mount", "mkfs.ext4", "fsfreeze"].into_iter().find(|tool| run(tool, &["-V"]).is_err());
    if let Some(tool) = missing.filter(|_| is_root()) {
        return println!("skipped: {tool} is missing (packages mount, e2fsprogs, util-linux)");
    }
    // A thread that has left its namespace must not run other tests.
    let outcome = std::thread::scope(|scope| scope.spawn(|| alone(body)).join());
    match outcome {
        Ok(Ok(())) => {}
        Ok(Err(why)) => println!("skipped: no file systems can be mounted here: {why}"),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn alone(body: impl FnOnce()) -> Result<(), String> {
    unshare(CloneFlags::CLONE_NEWNS).map_err(|error| error.to_string())?;
    run("mount", &["--make-rprivate", "/"])?;
    body();
    Ok(())
}

/// A journaling file system that a test makes.
#[derive(Clone, Copy, Debug)]
pub enum Journaling {
    /// ext4 as mkfs.ext4 makes it.
    Ext4,
    /// ext4 with its feature `fast_commit`.
    Ext4FastCommit,
    /// xfs as mkfs.xfs makes it.
    Xfs,
}

impl Journaling {
    /// Returns a small size in bytes; mkfs.xfs makes nothing below 300 MiB.
    pub fn size_min(self) -> u64 {
        match self {
            Self::Ext4 | Self::Ext4FastCommit => 64 << 20,
            Self::Xfs => 320 << 20,
        }
    }

    /// Returns the command that makes it in an image.
    fn mkfs(self) -> &'static [&'static str] {
        match self {
            Self::Ext4 => &["mkfs.ext4", "-q", "-F", "-m", "0"],
            Self::Ext4FastCommit => &["mkfs.ext4", "-q", "-F", "-m", "0", "-O", "fast_commit"],
            Self::Xfs => &["mkfs.xfs", "-q"],
        }
    }
}

/// A file system, mounted where anybody may write; unmounted by dropping it.
#[derive(Debug)]
pub struct Disk {
    path: PathBuf,
    image: PathBuf,
    frozen: Option<Child>,
}

impl Disk {
    /// Makes ext4 in a file; writes to it wait for the file's disk.
    pub fn ext4(folder: &Path, name: &str, bytes: u64) -> Self {
        Self::make(Journaling::Ext4, folder, name, bytes).unwrap_or_else(|why| panic!("{why}"))
    }

    /// As [`Disk::ext4`], for any journaling file system.
    ///
    /// # Errors
    /// The message of the tool that is missing or refuses, for a kernel without that file system.
    pub fn make(kind: Journaling, folder: &Path, name: &str, bytes: u64) -> Result<Self, String> {
        let disk = Self::prepare(folder, name);
        File::create(&disk.image).and_then(|image| image.set_len(bytes)).expect("there is room");
        let image = disk.image.to_string_lossy().into_owned();
        let (mkfs, arguments) = kind.mkfs().split_first().expect("a command");
        run(mkfs, &[arguments, &[&image]].concat())?;
        run("mount", &["-o", "loop", &image, &disk.path.to_string_lossy()])?;
        Ok(disk.open_to_all())
    }

    /// tmpfs of at most so many bytes.
    pub fn tmpfs(folder: &Path, name: &str, bytes: u64) -> Self {
        Self::prepare(folder, name).mount(&["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"])
    }

    fn prepare(folder: &Path, name: &str) -> Self {
        let path = folder.join(name);
        std::fs::create_dir(&path).expect("a new name");
        Self { path, image: folder.join(format!("{name}.image")), frozen: None }
    }

    fn mount(self, what: &[&str]) -> Self {
        done("mount", &[what, &[&*self.path.to_string_lossy()]].concat());
        self.open_to_all()
    }

    fn open_to_all(self) -> Self {
        set_permissions(&self.path, Permissions::from_mode(0o777)).expect("it is ours");
        File::open(&self.path).and_then(|root| root.sync_all()).expect("the disk is well");
        self
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Allows no changes any more.
    pub fn make_read_only(&self) {
        done("mount", &["-o", "remount,ro", &self.path.to_string_lossy()]);
    }

    /// Cuts the power: from now on nothing reaches the disk, and writers get an error. Returns
    /// false if the file system or a tool cannot do so.
    pub fn lose_power(&self) -> bool {
        // Without -f: not even the journal that is in memory reaches the disk.
        run("xfs_io", &["-x", "-c", "shutdown", &self.path.to_string_lossy()]).is_ok()
    }

    /// Cuts the power and restores it: data that is not on the disk is lost, and the file system
    /// recovers as after a crash. All its files must be closed. Returns false if the file system or
    /// a tool cannot do so.
    pub fn power_cut(&self) -> bool {
        if !self.lose_power() {
            return false;
        }
        self.restore_power();
        true
    }

    /// Restores the power after [`Disk::lose_power`], as [`Disk::power_cut`] does.
    pub fn restore_power(&self) {
        let path = self.path.to_string_lossy();
        done("umount", &[&path]);
        done("mount", &["-o", "loop", &self.image.to_string_lossy(), &path]);
    }

    /// Makes writers wait until [`Disk::thaw`] or the end of the test: a process that waits for a
    /// frozen file system cannot be killed.
    pub fn freeze(&mut self) {
        let script = "fsfreeze --freeze \"$0\" && echo frozen; cat >/dev/null; fsfreeze --unfreeze \"$0\"";
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).arg(&self.path).stdin(Stdio::piped()).stdout(Stdio::piped());
        // Not in the group of the test's processes, with which it would be killed.
        let mut child = shell.process_group(0).spawn().expect("there is a shell");
        let mut line = String::new();
        let output = child.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("standard output is text");
        self.frozen = Some(child);
        assert_eq!(line, "frozen\n");
    }

    /// Resumes the waiting writers.
    pub fn thaw(&mut self) {
        let Some(mut child) = self.frozen.take() else { return };
        drop(child.stdin.take());
        assert!(child.wait().expect("it is a child").success());
    }

    /// Removes the storage below the file system and the kernel's cache of `file`: reads fail from
    /// now on.
    pub fn lose(&self, file: &str) {
        let file = File::open(self.path.join(file)).expect("it is there");
        file.sync_all().expect("the disk is well");
        let image = File::options().write(true).open(&self.image).expect("it is ours");
        image.set_len(0).expect("it is ours");
        let advice = nix::fcntl::PosixFadviseAdvice::POSIX_FADV_DONTNEED;
        nix::fcntl::posix_fadvise(&file, 0, 0, advice).expect("it is a file");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Some(mut child) = self.frozen.take() {
            drop(child.stdin.take());
            let _ = child.wait();
        }
        let _ = run("umount", &["--lazy", &self.path.to_string_lossy()]);
    }
}

fn done(program: &str, arguments: &[&str]) {
    run(program, arguments).unwrap_or_else(|why| panic!("{why}"));
}

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let output =
        Command::new(program).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}
