//! Counters and gauges of the network layer.

use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Time in which at most one line of a kind is logged.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// Number of reply classes whose sending time is counted separately.
pub const CLASSES_MAX: usize = 8;

macro_rules! stats {
    (
        gauges { $($(#[$gauge_doc:meta])* $gauge:ident,)* }
        events { $($(#[$event_doc:meta])* $event:ident,)* }
        amounts { $($(#[$amount_doc:meta])* $amount:ident,)* }
    ) => {
        /// Counters and gauges that all shards share; any thread can read them.
        #[derive(Debug, Default)]
        pub struct Stats {
            $($(#[$gauge_doc])* pub $gauge: AtomicUsize,)*
            $($(#[$event_doc])* pub $event: AtomicU64,)*
            $($(#[$amount_doc])* pub $amount: AtomicU64,)*
            /// Time of sending in nanoseconds, by the class of the last reply sent.
            pub sending: [AtomicU64; CLASSES_MAX],
            /// Limits log lines about closed connections.
            closures: LinePause,
            /// Limits log lines about connections that cannot be accepted.
            failures: LinePause,
            /// Limits log lines about connections that have no place.
            refusals: LinePause,
            /// Limits log lines about memory that is short.
            shortages: LinePause,
        }

        impl Stats {
            /// Returns all counters and gauges by name, except the time of sending.
            pub fn snapshot(&self) -> Vec<(&'static str, u64)> {
                let gauges = [$((stringify!($gauge), self.$gauge.load(Relaxed) as u64),)*];
                let amounts = [$((stringify!($amount), self.$amount.load(Relaxed)),)*];
                gauges.into_iter().chain(self.events()).chain(amounts).collect()
            }

            /// Returns the number of events of connections and shards, by name.
            pub fn events(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($event), self.$event.load(Relaxed)),)*]
            }

            /// Continues the counters of another process, by name; gauges are those of this one.
            pub fn resume<'a>(&self, counts: impl IntoIterator<Item = (&'a str, u64)>) {
                for (name, count) in counts {
                    $(if name == stringify!($event) {
                        Self::add(&self.$event, count);
                    })*
                    $(if name == stringify!($amount) {
                        Self::add(&self.$amount, count);
                    })*
                }
            }
        }
    };
}

stats! {
    gauges {
        /// Number of connections that are open.
        connections,
        /// Memory of unfinished and waiting requests, in bytes.
        input_bytes,
        /// Memory of replies that wait to be sent, in bytes.
        output_bytes,
        /// Number of calls that are deferred.
        deferred,
    }
    events {
        /// Connections accepted so far.
        accepted,
        /// Connections refused because all of `connections_max` are trusted and stay.
        refused,
        /// Connections closed because of a malformed record (too large, too many fragments, empty).
        malformed,
        /// Connections closed because their peers were too slow, or were silent strangers.
        overdue,
        /// Connections closed because memory or the connection table was short.
        evicted,
        /// Loops of shards that took a second or longer.
        stalls,
        /// Shards whose threads were blocked, so that other threads continued as the shards.
        relieved,
        /// Panics of the service; each closed the connections of its batch.
        panics,
    }
    amounts {
        /// Records received since the start.
        records,
        /// Bytes received since the start.
        received_bytes,
        /// Bytes sent since the start.
        sent_bytes,
    }
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
    /// Returns the memory that connections hold, in bytes.
    pub fn held_bytes(&self) -> usize {
        self.input_bytes.load(Relaxed).saturating_add(self.output_bytes.load(Relaxed))
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

    /// Logs the reason why a connection has no place.
    pub(crate) fn log_refused(&self, peer: SocketAddr, why: impl Display) {
        if let Some(suppressed) = self.refusals.permit() {
            tracing::warn!(%peer, suppressed, "refused: {why}");
        }
    }

    /// Logs that memory for requests is short; `describe` finds the details.
    pub(crate) fn log_short(&self, describe: impl FnOnce() -> String) {
        if self.shortages.permit().is_some() {
            tracing::warn!("no further request is read: {}", describe());
        }
    }

    /// Returns the time that sending replies of a class took; zero for an unknown class.
    pub fn sending(&self, class: u8) -> Duration {
        let nanoseconds = self.sending.get(usize::from(class)).map_or(0, |sum| sum.load(Relaxed));
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
        counter.fetch_add(by, Relaxed);
    }
}
