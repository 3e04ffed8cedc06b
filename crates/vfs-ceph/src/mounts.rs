//! The mounts of an export, among which its objects are divided.
//!
//! The library has one lock for each mount. A directory belongs to a mount by its number, and a
//! file to that of the directory in which it was found, so that creating and reading it need no
//! second mount. An object that is in use stays with its mount. Ceph keeps the mounts coherent, as
//! it does with those of other gateways.

use ceph::CephErrno;
use ceph::fs::{CephFs, CephMount, CephSession, MountError, MountOptions, ReleaseRequest};
use std::sync::Arc;
use std::time::Duration;

/// Returns the name of a mount for the metadata servers.
pub(crate) fn identity_of(identity: &str, number: usize) -> String {
    format!("{identity}-{number}")
}

/// One or several mounts of one directory.
#[derive(Debug)]
pub(crate) struct CephMounts(Vec<Arc<CephMount>>);

impl CephMounts {
    /// Mounts a directory several times; `release` makes the callback of each.
    ///
    /// # Errors
    /// As [`CephMount::open`].
    pub(crate) fn open(
        library: CephFs,
        options: &MountOptions,
        count: usize,
        release: impl Fn() -> ReleaseRequest,
    ) -> Result<Self, MountError> {
        let open = |number: usize| {
            let [identity, former] = [&options.identity, &options.former]
                .map(|name| name.as_ref().map(|name| identity_of(name, number)));
            CephMount::open(library, &MountOptions { identity, former, ..options.clone() }, release())
        };
        (0..count.max(1)).map(open).collect::<Result<_, _>>().map(Self)
    }

    /// Returns the addresses of all mounts, in order.
    pub(crate) fn addresses(&self) -> Result<Vec<String>, CephErrno> {
        self.0.iter().map(|mount| mount.address()).collect()
    }

    /// Returns the sessions of all mounts.
    pub(crate) fn sessions(&self) -> Vec<CephSession> {
        self.0.iter().map(|mount| mount.session()).collect()
    }

    /// Returns the mount for an object that is in use nowhere.
    pub(crate) fn home(&self, ino: u64) -> &Arc<CephMount> {
        // Numbers of directories that were made together follow each other.
        let spread = (ino.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
        &self.0[spread % self.0.len()]
    }

    /// Returns whether there is more than one.
    pub(crate) fn are_several(&self) -> bool {
        self.0.len() > 1
    }

    /// Returns the first one.
    pub(crate) fn first(&self) -> &Arc<CephMount> {
        &self.0[0]
    }

    /// Allows delegations in all of them.
    pub(crate) fn allow_delegations(&self, within: Duration) {
        for mount in &self.0 {
            if let Err(error) = mount.allow_delegations(within) {
                tracing::warn!(%error, "the cluster allows no delegations: clients get none");
                return;
            }
        }
    }
}
