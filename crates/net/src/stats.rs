//! Counters of the network layer.

use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// At most one line about peers in this time; the counters have the rest.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// Classes of replies whose time is counted apart.
pub const CLASSES_MAX: usize = 8;

/// Counters and gauges that all shards share; read them at any time.
#[derive(Debug, Default)]
pub struct Stats {
    /// Connections open now.
    pub connections: AtomicUsize,
    /// Bytes of memory of unfinished and waiting requests now.
    pub input_bytes: AtomicUsize,
    /// Bytes of memory of replies that wait for their readers now.
    pub output_bytes: AtomicUsize,
    /// Calls that are carried out elsewhere now.
    pub away: AtomicUsize,
    /// Connections accepted so far.
    pub accepted: AtomicU64,
    /// Connections refused because all of `connections_max` are trusted.
    pub refused: AtomicU64,
    /// Connections closed because their bytes were no records (too large, too many fragments).
    pub malformed: AtomicU64,
    /// Connections closed because they were too slow, or untrusted and silent.
    pub overdue: AtomicU64,
    /// Connections closed because memory or places were short.
    pub evicted: AtomicU64,
    /// Times that a shard has not completed a loop for a second.
    pub stalls: AtomicU64,
    /// Panics of the service; each closed the connections whose requests it had.
    pub panics: AtomicU64,
    /// Records received.
    pub records: AtomicU64,
    /// Bytes received.
    pub received_bytes: AtomicU64,
    /// Bytes sent.
    pub sent_bytes: AtomicU64,
    /// Nanoseconds that sending took, by the class of the last reply that was sent.
    pub sending: [AtomicU64; CLASSES_MAX],
    /// When the last line about a peer was logged, and how many have been left out since.
    logged: Mutex<Option<(Instant, u64)>>,
}

impl Stats {
    /// All counters and gauges by name, but for the time of sending.
    pub fn snapshot(&self) -> Vec<(&'static str, u64)> {
        let gauge = |value: &AtomicUsize| value.load(Ordering::Relaxed) as u64;
        let count = |value: &AtomicU64| value.load(Ordering::Relaxed);
        vec![
            ("connections", gauge(&self.connections)),
            ("input_bytes", gauge(&self.input_bytes)),
            ("output_bytes", gauge(&self.output_bytes)),
            ("away", gauge(&self.away)),
            ("accepted", count(&self.accepted)),
            ("refused", count(&self.refused)),
            ("malformed", count(&self.malformed)),
            ("overdue", count(&self.overdue)),
            ("evicted", count(&self.evicted)),
            ("stalls", count(&self.stalls)),
            ("panics", count(&self.panics)),
            ("records", count(&self.records)),
            ("received_bytes", count(&self.received_bytes)),
            ("sent_bytes", count(&self.sent_bytes)),
        ]
    }

    /// Bytes of memory that connections hold.
    pub fn held_bytes(&self) -> usize {
        self.input_bytes.load(Ordering::Relaxed).saturating_add(self.output_bytes.load(Ordering::Relaxed))
    }

    /// Logs why a peer's connection is closed, unless the last line is too young: peers can cause this at will.
    pub(crate) fn log_closed(&self, peer: SocketAddr, why: impl Display) {
        let Ok(mut logged) = self.logged.lock() else { return };
        match &mut *logged {
            Some((last, suppressed)) if last.elapsed() < LOG_INTERVAL => *suppressed += 1,
            last => {
                let suppressed = last.map_or(0, |(_, suppressed)| suppressed);
                *last = Some((Instant::now(), 0));
                tracing::warn!(%peer, suppressed, "closed: {why}");
            }
        }
    }

    /// The time that sending took for replies of a class; none for a class that there is not.
    pub fn sending(&self, class: u8) -> Duration {
        let nanoseconds = self.sending.get(usize::from(class)).map_or(0, |sum| sum.load(Ordering::Relaxed));
        Duration::from_nanos(nanoseconds)
    }

    /// Adds the time of a step of sending.
    pub(crate) fn add_sending(&self, class: u8, time: Duration) {
        if let Some(sum) = self.sending.get(usize::from(class)) {
            Self::add(sum, u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        }
    }

    /// Adds to a counter; no order with other memory is needed.
    pub(crate) fn add(counter: &AtomicU64, by: u64) {
        counter.fetch_add(by, Ordering::Relaxed);
    }
}
