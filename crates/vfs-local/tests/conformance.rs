//! The suite of all backends on this machine's file systems, as root and without.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use common::TestDirectory;
use orthrus_vfs_local::{ServesAs, prepare_process};
use std::{path::Path, sync::Arc};
use vfs::conformance::Fixture;

/// Makes an export below `base`, or says why that cannot be.
fn fixture_below(base: &Path) -> Option<Fixture> {
    prepare_process(true);
    let directory = match TestDirectory::new_in(base) {
        Ok(directory) => directory,
        Err(error) => {
            eprintln!("skipped: no directory in {}: {error}", base.display());
            return None;
        }
    };
    let backend = common::open(directory.path())?;
    let identities = backend.serves_as() == ServesAs::Callers;
    assert!(
        identities || std::env::var_os(common::CONTAINER).is_none(),
        "root of a container takes identities"
    );
    Some(Fixture {
        backend: Arc::new(backend),
        owner: common::me(),
        identities,
        holes: true,
        keep: Box::new(directory),
    })
}

mod disk {
    fn fixture() -> Option<super::Fixture> {
        super::fixture_below(&std::env::temp_dir())
    }

    vfs::backend_conformance!(fixture);
}

mod tmpfs {
    fn fixture() -> Option<super::Fixture> {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let mut numbers = release.split('.').map(|part| part.parse().unwrap_or(0_u32));
        if (numbers.next(), numbers.next()) < (Some(6), Some(6)) {
            eprintln!("skipped: before Linux 6.6 the cookies of tmpfs move when entries go");
            return None;
        }
        super::fixture_below(std::path::Path::new("/dev/shm"))
    }

    vfs::backend_conformance!(fixture);
}

/// Runs the tests of `disk` once more, as the user `nobody`.
#[test]
fn the_suite_holds_without_root() {
    common::run_as_nobody("disk::");
}

/// Callers have their own rights where the kernel opens no handles: else all would have root's.
#[test]
fn the_suite_holds_for_root_of_an_unprivileged_container() {
    common::run_in_container("disk::");
}

/// Files of xfs can share blocks.
#[test]
fn the_suite_holds_on_xfs() {
    common::run_on("xfs", "disk::");
}

/// Files of btrfs can share blocks too, and are compressed or have no blocks at all.
#[test]
fn the_suite_holds_on_btrfs() {
    common::run_on("btrfs", "disk::");
}

mod submounts {
    use super::common::{self, TestDirectory};
    use orthrus_vfs_local::{LocalOptions, SubmountBackend};
    use std::sync::Arc;
    use vfs::conformance::Fixture;

    fn fixture() -> Option<Fixture> {
        // Says why where it cannot be.
        let (_, probe) = common::export()?;
        let identities = probe.serves_as() == orthrus_vfs_local::ServesAs::Callers;
        let directory = TestDirectory::new_in(&std::env::temp_dir()).unwrap();
        let backend = SubmountBackend::open(directory.path(), &LocalOptions::default()).unwrap();
        Some(Fixture {
            backend: Arc::new(backend),
            owner: common::me(),
            identities,
            holes: true,
            keep: Box::new(directory),
        })
    }

    vfs::backend_conformance!(fixture);
}
