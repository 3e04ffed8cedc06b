//! The grace period and RECLAIM_COMPLETE (RFC 8881 sections 8.4.2 and 18.51).

use crate::{ClientKey, Result, State};
use std::hash::Hash;
use std::time::Duration;

impl<F: Clone + Eq + Hash, O: Clone> State<F, O> {
    /// Tells whether the grace period runs: what may conflict with state yet to be reclaimed answers NFS4ERR_GRACE.
    pub fn in_grace(&self, now: Duration) -> bool {
        let _ = now;
        false
    }

    /// Handles RECLAIM_COMPLETE.
    ///
    /// # Errors
    /// NFS4ERR_COMPLETE_ALREADY, NFS4ERR_DEADSESSION.
    pub fn reclaim_complete(&mut self, now: Duration, client: ClientKey, one_fs: bool) -> Result<()> {
        let _ = (now, client, one_fs);
        Err(crate::Nfsstat4::NFS4ERR_SERVERFAULT)
    }
}
