//! Server-initiated records, such as callbacks, on connections that peers have opened.

use crate::mailbox::Mailbox;
use rpc::ConnectionId;
use std::fmt;
use std::sync::Arc;

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
}

impl Outgoing {
    pub(crate) fn new(shards: impl IntoIterator<Item = Arc<Mailbox>>) -> Self {
        Self { shards: shards.into_iter().collect() }
    }

    /// Queues a record for the shard of the connection. Its first four bytes are reserved for the
    /// record mark. Returns false if the shard's queue is full. If the connection has closed, the
    /// shard drops the record and calls [`Service::closed`](crate::Service::closed) (again).
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
