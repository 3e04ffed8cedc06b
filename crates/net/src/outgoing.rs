//! Records that the server sends of its own accord, on connections that its peers have opened.

use crate::mailbox::Mailbox;
use rpc::ConnectionId;
use std::fmt;
use std::sync::Arc;

/// The lowest bit of a connection's number that tells its shard.
const SHARD_SHIFT: u32 = 48;

/// The name of the `count`th connection, which belongs to a shard.
pub(crate) fn connection_id(shard: usize, count: u64) -> ConnectionId {
    // There are far fewer shards and connections than the bits have room for.
    ConnectionId((shard as u64) << SHARD_SHIFT | count & ((1 << SHARD_SHIFT) - 1))
}

/// Sends records on connections, from any thread: calls of the server's to its clients (RFC 8881 section 2.10.3.1).
#[derive(Clone)]
pub struct Outgoing {
    shards: Arc<[Arc<Mailbox>]>,
}

impl Outgoing {
    pub(crate) fn new(shards: impl IntoIterator<Item = Arc<Mailbox>>) -> Self {
        Self { shards: shards.into_iter().collect() }
    }

    /// Leaves a record for the shard that has the connection; its first four bytes are room for the record mark.
    /// Returns false when too much waits for that shard. When the connection is gone by then the record is dropped, and
    /// [`Service::closed`](crate::Service::closed) is called (again).
    pub fn send(&self, connection: ConnectionId, record: Vec<u8>) -> bool {
        let shard = usize::try_from(connection.0 >> SHARD_SHIFT).ok();
        shard.and_then(|shard| self.shards.get(shard)).is_some_and(|shard| shard.post(connection, record))
    }
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Outgoing({} shards)", self.shards.len())
    }
}
