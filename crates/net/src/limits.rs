//! What a peer may make the network layer hold.

use std::time::Duration;

/// Bounds on connections and on the memory that they hold. Each has a default that suits a server with a few
/// thousand clients.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections open at once; a further one is closed as soon as it is accepted.
    pub connections_max: usize,
    /// Bytes of one record, all fragments together: a WRITE of the largest size with its headers and token.
    pub record_size_max: usize,
    /// Bytes of unfinished and waiting requests over all connections; the connection that would exceed it is closed.
    pub input_bytes_max: usize,
    /// Bytes of replies that wait for one slow reader; above it no further request of that connection is read or
    /// served.
    pub output_bytes_max: usize,
    /// Bytes of replies that wait for all readers together; a connection that leaves some lying above it is closed.
    pub output_bytes_total_max: usize,
    /// Bytes of requests that one connection may put into one tick, so that none holds up the others.
    pub tick_bytes_max: usize,
    /// Requests that are served before their replies are sent: with the largest reply, what a shard's replies take at
    /// once besides those that wait.
    pub batch_requests_max: usize,
    /// Calls of one connection that may be away at once, a batch more at the most; above it no further request of that
    /// connection is read or served.
    pub away_requests_max: usize,
    /// Bytes that the calls of one connection hold while they are away, with the same consequence.
    pub away_bytes_max: usize,
    /// Bytes of memory that a shard keeps for further records; what it does not use within a second is freed.
    pub spare_bytes_max: usize,
    /// How long a record may take from its first byte to its last; slower connections are closed.
    pub record_time_max: Duration,
    /// How long replies may wait without the peer taking a byte; then the connection is closed.
    pub output_time_max: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 16_384,
            record_size_max: (1 << 20) + (128 << 10),
            input_bytes_max: 256 << 20,
            output_bytes_max: 16 << 20,
            output_bytes_total_max: 1 << 30,
            tick_bytes_max: 4 << 20,
            batch_requests_max: 64,
            away_requests_max: 256,
            away_bytes_max: 32 << 20,
            spare_bytes_max: 24 << 20,
            record_time_max: Duration::from_secs(60),
            output_time_max: Duration::from_secs(60),
        }
    }
}
