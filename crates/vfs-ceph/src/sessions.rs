//! The sessions of a gateway with the metadata servers, which another instance of it may have to
//! end.

use crate::backend::mount_options;
use crate::mounts::identity_of;
use crate::{CephBackend, CephError, CephOptions};
use ceph::fs::{CephFs, CephSession, reset_session};

/// Returns the names that the mounts of an export get; none if the export has no identity.
pub fn identities(options: &CephOptions) -> Vec<String> {
    let identity = options.identity.iter();
    identity
        .flat_map(|identity| (0..options.mounts.max(1)).map(|number| identity_of(identity, number)))
        .collect()
}

/// Ends the session of a mount by its name: the cluster accepts nothing more from its client, and
/// its locks are free. `options` lead to the file system, with the user of the session. Returns
/// whether there was one.
///
/// # Errors
/// As [`CephBackend::open`].
pub fn end_session(options: &CephOptions, identity: &str) -> Result<bool, CephError> {
    Ok(reset_session(CephFs::load()?, &mount_options(options), identity)?)
}

impl CephBackend {
    /// Returns the addresses of the mounts in the cluster, in the order of [`identities`].
    ///
    /// # Errors
    /// `Address` when a mount has ended.
    pub fn addresses(&self) -> Result<Vec<String>, CephError> {
        self.mounts.addresses().map_err(CephError::Address)
    }

    /// Returns the sessions of the mounts. Open files keep them, also after the backend was
    /// dropped.
    pub fn sessions(&self) -> Vec<CephSession> {
        self.mounts.sessions()
    }
}
