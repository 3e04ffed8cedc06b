//! The server's client records, kept in the store.

use super::store::Store;
use server::engine::ClientRecords;
use state::PrincipalHash;
use std::sync::Arc;

/// What a failure costs: clients are served all the same.
const MEANING: &str = "after a restart who may reclaim is not what it should be";

/// Passes the server's wishes on to the store.
pub struct Records(pub Arc<Store>);

impl ClientRecords for Records {
    fn may_wait(&self) -> bool {
        true
    }

    fn record(&self, owner: &[u8], principal: PrincipalHash) {
        // The thread may still have the identity of the last caller, who must not write the store.
        vfs_local::become_server();
        if let Err(error) = self.0.record(owner, principal) {
            tracing::error!("a client could not be recorded: {error}; {MEANING}");
        }
    }

    fn forget(&self, owner: &[u8]) {
        vfs_local::become_server();
        if let Err(error) = self.0.forget(owner) {
            tracing::error!("a client could not be taken off the records: {error}; {MEANING}");
        }
    }

    fn sync(&self) {
        vfs_local::become_server();
        if let Err(error) = self.0.sync() {
            tracing::error!("the client records could not be put on stable storage: {error}; {MEANING}");
        }
    }
}
