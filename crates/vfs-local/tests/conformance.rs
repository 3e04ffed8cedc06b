//! The suite of all backends on this machine's file systems, as root and without.

use std::{
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::Path,
    process::Command,
    sync::Arc,
};
use tempfile::TempDir;
use vfs::{Caller, conformance::Fixture};
use vfs_local::{LocalBackend, LocalError, LocalOptions, ServesAs, become_server, prepare_process};

/// Removes the directory as the server: the thread may have a caller's identity still.
struct Cleanup(Option<TempDir>);

impl Drop for Cleanup {
    fn drop(&mut self) {
        become_server();
        drop(self.0.take());
    }
}

/// Makes an export below `base`, or says why that cannot be.
fn fixture_below(base: &Path) -> Option<Fixture> {
    prepare_process();
    let directory = match tempfile::tempdir_in(base) {
        Ok(directory) => directory,
        Err(error) => {
            eprintln!("skipped: no directory in {}: {error}", base.display());
            return None;
        }
    };
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let backend = match LocalBackend::open(directory.path(), &LocalOptions::default()) {
        Ok(backend) => backend,
        Err(error @ LocalError::NoHandles { .. }) => {
            eprintln!("skipped: {error}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let identities = backend.serves_as() == ServesAs::Callers;
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let owner = Caller { uid, gid, groups: [].into() };
    let keep = Box::new(Cleanup(Some(directory)));
    Some(Fixture { backend: Arc::new(backend), owner, identities, keep })
}

mod disk {
    fn fixture() -> Option<super::Fixture> {
        super::fixture_below(&std::env::temp_dir())
    }

    vfs::backend_conformance!(fixture);
}

mod tmpfs {
    fn fixture() -> Option<super::Fixture> {
        super::fixture_below(std::path::Path::new("/dev/shm"))
    }

    vfs::backend_conformance!(fixture);
}

/// Runs the tests of `disk` once more, as the user nobody.
#[test]
fn the_suite_holds_without_root() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: not root, so the other tests ran without root already");
        return;
    }
    const NOBODY: u32 = 65534;
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let copy = directory.path().join("suite");
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let output = Command::new(&copy)
        .args(["disk::", "--test-threads=2"])
        .current_dir("/")
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(!text.contains("running 0 tests"));
}
