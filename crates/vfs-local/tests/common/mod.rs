//! Directories to export, removed by the server's identity.
#![allow(dead_code, reason = "each test program uses a part")]

use orthrus_vfs_local::{LocalBackend, LocalError, LocalOptions, become_server, prepare_process};
use std::{os::unix::fs::PermissionsExt, path::Path};
use tempfile::TempDir;
use vfs::{Caller, ObjectHandle, SetAttributes};

/// A directory that is removed as the server: the thread may have a caller's identity still.
pub(crate) struct TestDirectory(Option<TempDir>);

impl TestDirectory {
    /// Makes one with mode 0755.
    pub(crate) fn new_in(base: &Path) -> std::io::Result<Self> {
        let directory = tempfile::tempdir_in(base)?;
        std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755))?;
        Ok(Self(Some(directory)))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.as_ref().map_or(Path::new("/nowhere"), TempDir::path)
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        become_server();
        drop(self.0.take());
    }
}

/// Makes a directory in the usual place and exports it, or says why that cannot be.
pub(crate) fn export() -> Option<(TestDirectory, LocalBackend)> {
    prepare_process(true);
    let directory = TestDirectory::new_in(&std::env::temp_dir()).unwrap();
    let backend = open(directory.path())?;
    Some((directory, backend))
}

/// Exports a directory, or says why that cannot be.
pub(crate) fn open(path: &Path) -> Option<LocalBackend> {
    let options = LocalOptions { object_cache_max: 512, ..LocalOptions::default() };
    match LocalBackend::open(path, &options) {
        Ok(backend) => Some(backend),
        Err(error @ LocalError::NoHandles { .. }) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Returns the user that runs the tests, as a caller.
pub(crate) fn me() -> Caller {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Caller { uid, gid, groups: [].into() }
}

/// Follows a path from the root.
pub(crate) fn walk(backend: &dyn vfs::Backend, path: &str) -> vfs::VfsResult<ObjectHandle> {
    path.split('/').try_fold(backend.root(), |at, name| backend.lookup(&me(), &at, name.as_bytes()))
}

/// Returns attributes that set a mode.
pub(crate) fn mode(mode: u32) -> SetAttributes {
    SetAttributes { mode: Some(mode), ..SetAttributes::default() }
}

/// Runs the tests of this program whose names contain `filter` once more, as the user `nobody`.
pub(crate) fn run_as_nobody(filter: &str) {
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65534;
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: not root, so the other tests ran without root already");
        return;
    }
    let directory = TestDirectory::new_in(&std::env::temp_dir()).unwrap();
    let copy = directory.path().join("tests");
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let mut command = std::process::Command::new(&copy);
    command.args([filter, "--test-threads=2"]).current_dir("/").uid(NOBODY).gid(NOBODY);
    let output = loop {
        match command.output() {
            // Another test has begun a program during the copy, which has the file open until it
            // runs.
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
            ended => break ended.unwrap(),
        }
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(!text.contains("running 0 tests"), "{text}");
}

/// Set where [`run_in_container`] runs tests: identities can be taken, and no handles be opened.
pub(crate) const CONTAINER: &str = "ORTHRUS_TEST_CONTAINER";

/// Runs the tests of this program whose names contain `filter` once more, as root of a new user
/// namespace with the same user numbers, as in an unprivileged container.
pub(crate) fn run_in_container(filter: &str) {
    use std::io::Write;
    use std::process::Stdio;
    if !rustix::process::geteuid().is_root() || !is_there("unshare") {
        eprintln!("skipped: it takes root and unshare");
        return;
    }
    // The shell waits until its user numbers have been mapped.
    let script = "read mapped && exec \"$0\" \"$@\"";
    let mut command = std::process::Command::new("unshare");
    command.args(["--user", "sh", "-c", script]).arg(std::env::current_exe().unwrap());
    // Root of a container makes no device nodes.
    let without = ["--skip", "special_files_keep_their_type_and_numbers"];
    command.args([filter, "--test-threads=2", "--show-output"]).args(without).env(CONTAINER, "1");
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let is_in = |child: &std::process::Child| {
        let link = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/user")).ok();
        link(&child.id().to_string()) != link("self")
    };
    while !is_in(&child) && child.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    for map in ["uid_map", "gid_map"] {
        // Where namespaces are not allowed, `unshare` has ended and says so.
        let _ = std::fs::write(format!("/proc/{}/{map}", child.id()), "0 0 65536");
    }
    let _ = writeln!(input, "mapped");
    drop(input);
    let output = child.wait_with_output().unwrap();
    let (text, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if error.contains("unshare failed") {
        eprintln!("skipped: {error}");
        return;
    }
    assert!(output.status.success(), "{text}\n{error}");
    assert!(!text.contains("running 0 tests"), "{text}");
}

/// Returns whether a program can be started.
fn is_there(program: &str) -> bool {
    std::process::Command::new(program).arg("-V").output().is_ok()
}

/// Set where [`run_with_quota`] has made a quota.
pub(crate) const QUOTA_IS_ON: &str = "ORTHRUS_TEST_QUOTA";

/// Runs the tests of this program whose names contain `filter` once more, on a new file system in a
/// file. Its mount is private to the process that runs them, and vanishes with it.
pub(crate) fn run_on(file_system: &str, filter: &str) {
    let everybody = "chmod 1777 \"$2\"";
    let Some(text) = run_mounted(file_system, &[], "loop", everybody, filter) else { return };
    for skipped in ["share no blocks", "no subvolumes here"] {
        assert!(!text.contains(skipped), "{text}");
    }
}

/// As [`run_on`], with a quota that `limit` sets: the program and its arguments, without the place.
pub(crate) fn run_with_quota(file_system: &str, options: &[&str], mount: &str, limit: &[&str], filter: &str) {
    if !is_there("setquota") {
        eprintln!("skipped: there is no setquota");
        return;
    }
    let limit = format!("chmod 755 \"$2\" && {} \"$2\" && export {QUOTA_IS_ON}=1", limit.join(" "));
    let Some(text) = run_mounted(file_system, options, &format!("loop,{mount}"), &limit, filter) else {
        return;
    };
    assert!(!text.contains("no quota in the usual place"), "{text}");
}

/// Returns the output of the tests; nothing where they cannot run.
fn run_mounted(
    file_system: &str,
    options: &[&str],
    mount: &str,
    prepare: &str,
    filter: &str,
) -> Option<String> {
    let mkfs = format!("mkfs.{file_system}");
    if !rustix::process::geteuid().is_root() || !is_there(&mkfs) {
        eprintln!("skipped: it takes root and {mkfs}");
        return None;
    }
    let directory = TestDirectory::new_in(&std::env::temp_dir()).unwrap();
    let (image, place) = (directory.path().join("image"), directory.path().join("place"));
    std::fs::File::create(&image).and_then(|file| file.set_len(1 << 30)).unwrap();
    std::fs::create_dir(&place).unwrap();
    let made = std::process::Command::new(&mkfs).arg("-q").args(options).arg(&image).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let script = format!(
        "mount -o {mount} \"$1\" \"$2\" || exit 77; {prepare} || exit 78; \
         TMPDIR=\"$2\" exec \"$3\" \"$4\" --test-threads=2 --show-output"
    );
    let mut command = std::process::Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script, "sh"]).args([&image, &place]);
    let output = command.arg(std::env::current_exe().unwrap()).arg(filter).output().unwrap();
    let (text, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.code() == Some(77) {
        eprintln!("skipped: {file_system} cannot be mounted here: {error}");
        return None;
    }
    assert!(output.status.success(), "{text}\n{error}");
    assert!(!text.contains("running 0 tests"), "{text}");
    Some(text.into_owned())
}
