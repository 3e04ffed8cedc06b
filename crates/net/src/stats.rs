//! Counters of the network layer.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Counters and gauges that all shards share; read them at any time.
#[derive(Debug, Default)]
pub struct Stats {
    /// Connections open now.
    pub connections: AtomicUsize,
    /// Bytes of unfinished records held now.
    pub input_bytes: AtomicUsize,
    /// Connections accepted so far.
    pub accepted: AtomicU64,
    /// Connections refused because of `connections_max`.
    pub refused: AtomicU64,
    /// Connections closed because their bytes were no records (too large, too many fragments).
    pub malformed: AtomicU64,
    /// Connections closed because they were too slow or the server held too much for them.
    pub overdue: AtomicU64,
    /// Records received.
    pub records: AtomicU64,
    /// Bytes received.
    pub received_bytes: AtomicU64,
    /// Bytes sent.
    pub sent_bytes: AtomicU64,
}

impl Stats {
    /// Adds to a counter; no order with other memory is needed.
    pub(crate) fn add(counter: &AtomicU64, by: u64) {
        counter.fetch_add(by, Ordering::Relaxed);
    }
}
