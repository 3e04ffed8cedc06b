//! What the network layer asks of the layer above it.

use crate::{Late, LateSink};
use rpc::ConnectionId;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

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
    /// The service vouches for the peer: it has proved who it is, or is admitted from its address. The connection is
    /// trusted from now on, and among the last to be closed when memory or places are short.
    Trust,
    /// The call is carried out elsewhere and comes back by the shard's [`LateSink`], once and certainly; until then it
    /// holds this many bytes.
    Away(usize),
}

/// The answer to a request; a request may also have none.
#[derive(Debug)]
pub struct Reply {
    /// The connection to answer on.
    pub connection: ConnectionId,
    /// What to do.
    pub action: Action,
    /// A number below [`CLASSES_MAX`](crate::CLASSES_MAX), by which the time is counted that sending takes.
    pub class: u8,
}

/// Handles records.
pub trait Service: Send + Sync + 'static {
    /// Scratch memory of one shard.
    type Shard: Send;

    /// What other threads make of calls that were away.
    type Late: Send + 'static;

    /// Makes the scratch memory of a new shard; what is away comes back to it by `sink`. What the shard carries out may be
    /// written to `operation`, in numbers that [`Service::operation_name`] knows, for the log when the shard hangs.
    fn shard(&self, sink: &LateSink<Self::Late>, operation: &Arc<AtomicU32>) -> Self::Shard;

    /// Names a number that was written to the `operation` of a shard; empty for none.
    fn operation_name(&self, _operation: u32) -> &'static str {
        ""
    }

    /// Takes note of when the shard woke for what the next ticks handle.
    fn woke(&self, _shard: &mut Self::Shard, _at: Instant) {}

    /// Handles all the records of a tick, in arrival order, and what came back of earlier ones, and appends the
    /// replies. Drains `requests` and `late`.
    ///
    /// Work that takes long calls `pause` with the replies that there are, every 50 µs or so: the shard then sends them,
    /// serves connections that ask for little, with other scratch memory and by this function, and comes back with the time
    /// that this took, but for looks at what has arrived. No lock may be held meanwhile.
    fn tick(
        &self,
        shard: &mut Self::Shard,
        requests: &mut Vec<Request>,
        late: &mut Vec<Late<Self::Late>>,
        replies: &mut Vec<Reply>,
        pause: &mut dyn FnMut(&mut Vec<Reply>) -> Duration,
    );

    /// Takes note that a connection is gone.
    fn closed(&self, connection: ConnectionId);
}
