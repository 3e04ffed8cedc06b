//! Counters and gauges of the network layer.

use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Time in which at most one line of a kind is logged.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// Number of reply classes whose sending time is counted separately.
pub const CLASSES_MAX: usize = 8;

/// Counters and gauges that all shards share; any thread can read them.
#[derive(Debug, Default)]
pub struct Stats {
    /// Number of connections that are open.
    pub connections: AtomicUsize,
    /// Memory of unfinished and waiting requests, in bytes.
    pub input_bytes: AtomicUsize,
    /// Memory of replies that wait to be sent, in bytes.
    pub output_bytes: AtomicUsize,
    /// Number of calls that are deferred.
    pub deferred: AtomicUsize,
    /// Connections accepted so far.
    pub accepted: AtomicU64,
    /// Connections refused because all of `connections_max` are trusted.
    pub refused: AtomicU64,
    /// Connections closed because of a malformed record (too large, too many fragments, empty).
    pub malformed: AtomicU64,
    /// Connections closed because their peers were too slow, or were silent strangers.
    pub overdue: AtomicU64,
    /// Connections closed because memory or the connection table was short.
    pub evicted: AtomicU64,
    /// Loops of shards that took a second or longer.
    pub stalls: AtomicU64,
    /// Shards whose threads were blocked, so that other threads continued as the shards.
    pub relieved: AtomicU64,
    /// Panics of the service; each closed the connections of its batch.
    pub panics: AtomicU64,
    /// Records received since the start.
    pub records: AtomicU64,
    /// Bytes received since the start.
    pub received_bytes: AtomicU64,
    /// Bytes sent since the start.
    pub sent_bytes: AtomicU64,
    /// Time of sending in nanoseconds, by the class of the last reply sent.
    pub sending: [AtomicU64; CLASSES_MAX],
    /// Limits log lines about closed connections.
    closures: LinePause,
    /// Limits log lines about connections that cannot be accepted.
    failures: LinePause,
}

/// The time of the last log line of a kind, and the number of suppressed lines since.
#[derive(Debug, Default)]
struct LinePause(Mutex<Option<(Instant, u64)>>);

impl LinePause {
    /// Asks for permission to log, at most once per [`LOG_INTERVAL`], since peers can cause a line
    /// at will. `Some` permits it, with the number of lines suppressed since the last.
    fn permit(&self) -> Option<u64> {
        match &mut *self.0.lock().ok()? {
            Some((last, suppressed)) if last.elapsed() < LOG_INTERVAL => {
                *suppressed += 1;
                None
            }
            last => last.replace((Instant::now(), 0)).map_or(Some(0), |(_, suppressed)| Some(suppressed)),
        }
    }
}

impl Stats {
    /// Returns all counters and gauges by name, except the time of sending.
    pub fn snapshot(&self) -> Vec<(&'static str, u64)> {
        let gauge = |value: &AtomicUsize| value.load(Ordering::Relaxed) as u64;
        let count = |value: &AtomicU64| value.load(Ordering::Relaxed);
        vec![
            ("connections", gauge(&self.connections)),
            ("input_bytes", gauge(&self.input_bytes)),
            ("output_bytes", gauge(&self.output_bytes)),
            ("deferred", gauge(&self.deferred)),
            ("accepted", count(&self.accepted)),
            ("refused", count(&self.refused)),
            ("malformed", count(&self.malformed)),
            ("overdue", count(&self.overdue)),
            ("evicted", count(&self.evicted)),
            ("stalls", count(&self.stalls)),
            ("relieved", count(&self.relieved)),
            ("panics", count(&self.panics)),
            ("records", count(&self.records)),
            ("received_bytes", count(&self.received_bytes)),
            ("sent_bytes", count(&self.sent_bytes)),
        ]
    }

    /// Continues the counters of another process, by name; gauges are those of this one.
    pub fn resume<'a>(&self, counts: impl IntoIterator<Item = (&'a str, u64)>) {
        for (name, count) in counts {
            let counter = match name {
                "accepted" => &self.accepted,
                "refused" => &self.refused,
                "malformed" => &self.malformed,
                "overdue" => &self.overdue,
                "evicted" => &self.evicted,
                "stalls" => &self.stalls,
                "relieved" => &self.relieved,
                "panics" => &self.panics,
                "records" => &self.records,
                "received_bytes" => &self.received_bytes,
                "sent_bytes" => &self.sent_bytes,
                _ => continue,
            };
            Self::add(counter, count);
        }
    }

    /// Returns the memory that connections hold, in bytes.
    pub fn held_bytes(&self) -> usize {
        self.input_bytes.load(Ordering::Relaxed).saturating_add(self.output_bytes.load(Ordering::Relaxed))
    }

    /// Logs the reason for closing a connection.
    pub(crate) fn log_closed(&self, peer: SocketAddr, why: impl Display) {
        if let Some(suppressed) = self.closures.permit() {
            tracing::warn!(%peer, suppressed, "closed: {why}");
        }
    }

    /// Logs the reason why a connection could not be accepted.
    pub(crate) fn log_unaccepted(&self, error: &std::io::Error) {
        if let Some(suppressed) = self.failures.permit() {
            tracing::warn!(suppressed, "accepting a connection failed: {error}");
        }
    }

    /// Returns the time that sending replies of a class took; zero for an unknown class.
    pub fn sending(&self, class: u8) -> Duration {
        let nanoseconds = self.sending.get(usize::from(class)).map_or(0, |sum| sum.load(Ordering::Relaxed));
        Duration::from_nanos(nanoseconds)
    }

    /// Adds the time of one send.
    pub(crate) fn add_sending(&self, class: u8, time: Duration) {
        if let Some(sum) = self.sending.get(usize::from(class)) {
            Self::add(sum, u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        }
    }

    /// Adds to a counter.
    pub(crate) fn add(counter: &AtomicU64, by: u64) {
        counter.fetch_add(by, Ordering::Relaxed);
    }
}
