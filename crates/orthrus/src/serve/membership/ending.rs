//! The end of a gateway that must not go on.

use crate::logging;
use grace_rados::StoreError;

/// The exit status of a gateway that another instance has replaced, or that was removed from the
/// cluster. The unit of systemd does not start it again: it would take the name back.
pub(super) const REPLACED_STATUS: i32 = 76;
/// The exit status of a gateway that the Ceph cluster has evicted. A new start joins again.
pub(super) const EVICTED_STATUS: i32 = 75;

/// Ends the process at once. Its sessions with the cluster have ended, or will be ended by others.
pub(super) fn end_with(status: i32, reason: &str) -> ! {
    tracing::error!("cluster: {reason}; this gateway ends at once");
    logging::flush();
    vfs_local::exit_at_once(status)
}

/// Ends a server that is in no cluster after the Ceph cluster has evicted it. Its clients wait, and
/// go on with the process that the service manager starts next.
pub(in crate::serve) fn end_evicted() {
    end_with(EVICTED_STATUS, &StoreError::Blocklisted.to_string());
}

/// Ends the process for a final error of the storage.
pub(super) fn end_now(error: &StoreError) -> ! {
    match error {
        StoreError::Blocklisted => end_with(EVICTED_STATUS, &error.to_string()),
        _ => end_with(REPLACED_STATUS, &error.to_string()),
    }
}
