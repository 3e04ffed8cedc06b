//! What a peer may make the network layer hold.

use std::time::Duration;

/// Bounds on connections and on the memory that they hold. Each has a default that suits a server with a few
/// thousand clients.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections open at once. A further one takes the place of the oldest untrusted connection of the address that
    /// has most of them; it is closed as soon as it is accepted when all are trusted.
    pub connections_max: usize,
    /// Bytes of one record, all fragments together: a WRITE of the largest size with its headers and token.
    pub record_size_max: usize,
    /// Bytes of memory of unfinished and waiting requests over all connections. Connections begin no request above three
    /// quarters of it. Untrusted connections may hold a quarter of it; above that, those of the address that holds most
    /// are closed. Trusted ones are closed only above all of it.
    pub input_bytes_max: usize,
    /// Bytes of memory of replies that wait for one slow reader; above it no further request of that connection is read
    /// or served.
    pub output_bytes_max: usize,
    /// The same for an untrusted connection.
    pub untrusted_output_bytes_max: usize,
    /// Bytes of memory of replies that wait for all readers together. Connections with replies that wait are not served
    /// above three quarters of it, and closed as those with requests are.
    pub output_bytes_total_max: usize,
    /// Bytes of memory of requests that one connection may put into one tick, so that none holds up the others.
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
    /// How long a connection may stay silent before it is trusted.
    pub untrusted_idle_time_max: Duration,
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
            untrusted_output_bytes_max: 256 << 10,
            output_bytes_total_max: 1 << 30,
            tick_bytes_max: 4 << 20,
            batch_requests_max: 64,
            away_requests_max: 256,
            away_bytes_max: 32 << 20,
            spare_bytes_max: 24 << 20,
            record_time_max: Duration::from_secs(60),
            untrusted_idle_time_max: Duration::from_secs(30),
            output_time_max: Duration::from_secs(60),
        }
    }
}
