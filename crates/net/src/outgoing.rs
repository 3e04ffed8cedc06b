//! Server-initiated records, such as callbacks, on connections that peers have opened.

use crate::mailbox::Mailbox;
use rpc::ConnectionId;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

/// Bit offset of the shard's number in a connection ID.
const SHARD_SHIFT: u32 = 48;

/// Returns the ID of the `count`th connection, which belongs to `shard`.
pub(crate) fn connection_id(shard: usize, count: u64) -> ConnectionId {
    // The numbers of shards and connections fit with a wide margin.
    ConnectionId((shard as u64) << SHARD_SHIFT | count & ((1 << SHARD_SHIFT) - 1))
}

/// Sends records on connections from any thread, for the server's calls to its clients (RFC 8881
/// section 2.10.3.1).
#[derive(Clone)]
pub struct Outgoing {
    shards: Arc<[Arc<Mailbox>]>,
    routes: Arc<Routes>,
}

/// The shards of connections that another process has numbered: the numbers of the others tell.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    shards: RwLock<HashMap<u64, usize>>,
    count: AtomicUsize,
}

impl Routes {
    pub(crate) fn add(&self, connection: u64, shard: usize) {
        let mut shards = self.shards.write().unwrap_or_else(PoisonError::into_inner);
        shards.insert(connection, shard);
        self.count.store(shards.len(), Relaxed);
    }

    /// Forgets a connection that is closed.
    pub(crate) fn remove(&self, connection: u64) {
        if self.count.load(Relaxed) > 0 {
            let mut shards = self.shards.write().unwrap_or_else(PoisonError::into_inner);
            shards.remove(&connection);
            self.count.store(shards.len(), Relaxed);
        }
    }

    fn find(&self, connection: u64) -> Option<usize> {
        if self.count.load(Relaxed) == 0 {
            return None;
        }
        self.shards.read().unwrap_or_else(PoisonError::into_inner).get(&connection).copied()
    }
}

impl Outgoing {
    pub(crate) fn new(shards: impl IntoIterator<Item = Arc<Mailbox>>, routes: Arc<Routes>) -> Self {
        Self { shards: shards.into_iter().collect(), routes }
    }

    /// Returns the mailboxes of all shards.
    pub(crate) fn shards(&self) -> &[Arc<Mailbox>] {
        &self.shards
    }

    /// Queues a record for the shard of the connection. Its first four bytes are reserved for the
    /// record mark. Returns false if the shard's queue is full. If the connection has closed, the
    /// shard drops the record and calls [`Service::closed`](crate::Service::closed) (again).
    pub fn send(&self, connection: ConnectionId, record: Vec<u8>) -> bool {
        let numbered = || usize::try_from(connection.0 >> SHARD_SHIFT).ok();
        let shard = self.routes.find(connection.0).or_else(numbered);
        shard.and_then(|shard| self.shards.get(shard)).is_some_and(|shard| shard.post(connection, record))
    }
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Outgoing({} shards)", self.shards.len())
    }
}

#[cfg(test)]
mod tests;
