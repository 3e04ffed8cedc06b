//! The end of a gateway that must not go on.

use super::back_off;
use crate::logging;
use grace::NodeId;
use grace_rados::StoreError;
use std::path::Path;

/// The exit status of a gateway that another instance has replaced, or that was removed from the
/// cluster. The unit of systemd does not start it again: it would take the name back.
const REPLACED_STATUS: i32 = 76;
/// The exit status of a gateway that the Ceph cluster has evicted, or that a defect ends. A new
/// start joins again.
const EVICTED_STATUS: i32 = 75;

/// The gateway is not in the grace database.
#[derive(Debug, thiserror::Error)]
#[error("{0} is no member of the cluster: add it with `orthrus cluster join {0}`")]
pub(super) struct NotMember(pub(super) NodeId);

/// Ends the process at once. Its sessions with the cluster have ended, or will be ended by others.
pub(super) fn end_for(error: &anyhow::Error) -> ! {
    tracing::error!("cluster: {error:#}; this gateway ends at once");
    logging::flush();
    vfs_local::exit_at_once(status_for(error))
}

/// Ends a server that is in no cluster after the Ceph cluster has evicted it. Its clients wait, and
/// go on with the process that the service manager starts next.
pub(in crate::serve) fn end_evicted() {
    end_for(&StoreError::Blocklisted.into());
}

/// Returns the exit status of a gateway that an error ends.
fn status_for(error: &anyhow::Error) -> i32 {
    if is_replaced(error) || error.is::<NotMember>() { REPLACED_STATUS } else { EVICTED_STATUS }
}

/// Ends a gateway whose start has failed, and notes the failure for the next start.
pub(in crate::serve) fn end_failed_start(error: &anyhow::Error, state_dir: Option<&Path>) -> ! {
    if let Some(state_dir) = state_dir.filter(|_| !is_replaced(error)) {
        back_off::note_failure(state_dir);
    }
    logging::flush();
    // The threads of Ceph's libraries would not survive the destructors.
    vfs_local::exit_at_once(status_for_start(error))
}

/// Returns the exit status of a gateway after a start that has failed.
fn status_for_start(error: &anyhow::Error) -> i32 {
    if is_replaced(error) { REPLACED_STATUS } else { 1 }
}

fn is_replaced(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(StoreError::Replaced))
}

/// Returns why the Ceph cluster has evicted the instance `own`, from the instance in the grace
/// database; `None` while the database cannot be read. A replaced gateway must not start again, so
/// that a guess would be wrong.
pub(super) fn reason_for_eviction(
    own: Option<u64>,
    in_database: Result<Option<u64>, StoreError>,
) -> Option<StoreError> {
    match in_database {
        Ok(instance) if own.is_some() && instance != own => Some(StoreError::Replaced),
        Ok(_) => Some(StoreError::Blocklisted),
        // This connection was evicted as well, and cannot tell.
        Err(error) if error.is_final() => Some(error),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context, anyhow};
    use ceph::CephErrno;

    fn unavailable() -> StoreError {
        StoreError::Unavailable { object: "grace".to_owned(), reason: CephErrno::new(110) }
    }

    #[test]
    fn a_gateway_without_its_name_is_not_started_again_and_one_with_a_defect_is() {
        let removed = NotMember("gw1".parse().unwrap());
        for (error, status, status_of_start) in [
            (StoreError::Replaced.into(), 76, 76),
            (Err::<(), _>(StoreError::Replaced).context("the cluster of gateways").unwrap_err(), 76, 76),
            (removed.into(), 76, 1),
            (StoreError::Blocklisted.into(), 75, 1),
            (unavailable().into(), 75, 1),
            (anyhow!("no thread"), 75, 1),
        ] {
            assert_eq!(status_for(&error), status, "{error:#}");
            assert_eq!(status_for_start(&error), status_of_start, "{error:#}");
        }
    }

    #[test]
    fn an_evicted_gateway_waits_until_the_database_shows_whether_it_was_replaced() {
        let reason = |own, shown| reason_for_eviction(own, shown).map(|error| status_for(&error.into()));
        assert_eq!(reason(Some(3), Err(unavailable())), None);
        assert_eq!(reason(Some(3), Ok(Some(4))), Some(76));
        assert_eq!(reason(Some(3), Ok(Some(3))), Some(75));
        assert_eq!(reason(None, Ok(Some(3))), Some(75), "it has not claimed the name");
        assert_eq!(reason(Some(3), Err(StoreError::Blocklisted)), Some(75));
    }
}
