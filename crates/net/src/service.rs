//! What the network layer asks of the layer above it.

use rpc::ConnectionId;
use std::net::SocketAddr;

/// A record that arrived whole.
#[derive(Debug)]
pub struct Request {
    /// The connection that it came on.
    pub connection: ConnectionId,
    /// The peer's address.
    pub peer: SocketAddr,
    /// The record without its marks.
    pub record: Vec<u8>,
}

/// What to do with a connection after a request.
#[derive(Debug)]
pub enum Action {
    /// Sends a record. Its first four bytes are room for the record mark, which the network layer fills in.
    Send(Vec<u8>),
    /// Closes the connection after the replies before it were sent.
    Close,
}

/// The answer to a request; a request may also have none.
#[derive(Debug)]
pub struct Reply {
    /// The connection to answer on.
    pub connection: ConnectionId,
    /// What to do.
    pub action: Action,
}

/// Handles records.
pub trait Service: Send + Sync + 'static {
    /// Scratch memory of one shard.
    type Shard: Send;

    /// Makes the scratch memory of a new shard.
    fn shard(&self) -> Self::Shard;

    /// Handles all the records of a tick, in arrival order, and appends the replies. Drains `requests`.
    fn tick(&self, shard: &mut Self::Shard, requests: &mut Vec<Request>, replies: &mut Vec<Reply>);

    /// Takes note that a connection is gone.
    fn closed(&self, connection: ConnectionId);
}
