//! Limits on the connections and memory of peers.

use std::time::Duration;

/// Limits on connections and their memory. The defaults suit a server with a few thousand clients.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections open at once. A further one replaces the oldest untrusted connection of the
    /// address that has most of them. If all are trusted, it replaces the one that has been silent
    /// for longest of the address with most, if that has more than a quarter of all and at least
    /// twice as many as the newcomer's address; else it is closed at once.
    pub connections_max: usize,
    /// Bytes of one record with all fragments: a WRITE of the largest size with its headers and
    /// token.
    pub record_size_max: usize,
    /// Bytes of memory of unfinished and waiting requests over all connections. Above three
    /// quarters of it, connections begin no request, unless an address holds more than an eighth of
    /// it and their own address at most a 64th. Untrusted connections may hold a quarter of it;
    /// above that, connections of the address that holds most are closed. Trusted ones are closed
    /// only above all of it, or if they stall in a request above three quarters.
    pub input_bytes_max: usize,
    /// Bytes of memory of replies that one connection has not read. Above it, the server reads and
    /// serves no further request of that connection.
    pub output_bytes_max: usize,
    /// Bytes of memory of replies that one untrusted connection has not read, with the same effect.
    pub untrusted_output_bytes_max: usize,
    /// Bytes of memory of replies that wait on all connections. Above three quarters of it,
    /// connections with unread replies are not served. Victims are chosen as for `input_bytes_max`.
    pub output_bytes_total_max: usize,
    /// Bytes of memory of requests, and as many of replies, that another process takes over, for
    /// which all clients wait. Above it, a handover closes connections; victims are chosen as for
    /// `input_bytes_max`.
    pub handover_bytes_max: usize,
    /// Bytes of memory of requests that are read from one connection in one tick, so that none
    /// delays the others.
    pub tick_bytes_max: usize,
    /// Requests of one batch, whose replies are sent together. It bounds the memory of replies that
    /// a shard builds.
    pub batch_requests_max: usize,
    /// Deferred calls of one connection, exceeded by a batch at most. Above it, the server reads
    /// and serves no further request of that connection.
    pub deferred_requests_max: usize,
    /// Bytes that the deferred calls of one connection hold, with the same effect.
    pub deferred_bytes_max: usize,
    /// Bytes of memory that a shard keeps for further records. Buffers that it does not use within
    /// a second are freed.
    pub spare_bytes_max: usize,
    /// Longest time from the first byte of a record to its last. Slower connections are closed.
    pub record_time_max: Duration,
    /// Longest silence of an untrusted connection. It is then closed.
    pub untrusted_idle_time_max: Duration,
    /// Longest time that replies wait without the peer reading a byte. The connection is then
    /// closed.
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
            handover_bytes_max: 64 << 20,
            tick_bytes_max: 4 << 20,
            batch_requests_max: 64,
            deferred_requests_max: 256,
            deferred_bytes_max: 32 << 20,
            spare_bytes_max: 24 << 20,
            record_time_max: Duration::from_secs(60),
            untrusted_idle_time_max: Duration::from_secs(30),
            output_time_max: Duration::from_secs(60),
        }
    }
}
