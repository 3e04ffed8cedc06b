//! The server's client records, kept in the store.

use super::store::Store;
use server::engine::ClientRecords;
use std::sync::Arc;

/// Passes the server's wishes on to the store.
pub struct Records(pub Arc<Store>);

impl ClientRecords for Records {
    fn may_wait(&self) -> bool {
        true
    }

    fn record(&self, owner: &[u8]) {
        // The thread may still have the identity of the last caller, who must not write the store.
        vfs_local::become_server();
        if let Err(error) = self.0.record(owner) {
            // The client is served all the same; only a restart would cost it what it has open.
            tracing::error!("a client could not be recorded, it cannot reclaim after a restart: {error}");
        }
    }

    fn forget(&self, owner: &[u8]) {
        vfs_local::become_server();
        if let Err(error) = self.0.forget(owner) {
            tracing::warn!("a client could not be taken off the records: {error}");
        }
    }
}
