//! The suite of all backends, with one mount and with several.

use crate::common::{self, directory};
use std::sync::Arc;
use vfs::Caller;
use vfs::conformance::Fixture;

/// Makes a fixture with a number of mounts.
fn fixture_with(mounts: usize) -> Option<Fixture> {
    let (path, cluster) = directory()?;
    let backend = common::open(cluster, &path, |options| options.mounts = mounts);
    Some(Fixture {
        backend: Arc::new(backend),
        owner: Caller::root(),
        identities: true,
        holes: false,
        keep: Box::new(()),
    })
}

mod one_mount {
    fn fixture() -> Option<super::Fixture> {
        super::fixture_with(1)
    }

    vfs::backend_conformance!(fixture);
}

mod several_mounts {
    fn fixture() -> Option<super::Fixture> {
        super::fixture_with(3)
    }

    vfs::backend_conformance!(fixture);
}
