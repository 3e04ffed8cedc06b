//! The events of a run, as a hash and optionally as lines.

use std::fmt::{self, Write};
use std::time::Duration;

/// Most lines that are kept: the first ones.
const LINES_KEPT: usize = 200_000;

/// The detail in which a run is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceDetail {
    /// The hash of all events, and the first of them as lines.
    Lines,
    /// The hash of all events.
    HashOnly,
}

/// Hashes every event. Two runs of one seed have the same hash.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    hash: Fnv,
    events: u64,
    lines: Option<Vec<String>>,
}

impl Trace {
    /// Makes a trace without events.
    pub(crate) fn new(detail: TraceDetail) -> Self {
        Self { lines: (detail == TraceDetail::Lines).then(Vec::new), ..Self::default() }
    }

    /// Adds an event at a simulated time.
    pub(crate) fn note(&mut self, now: Duration, event: fmt::Arguments<'_>) {
        self.events += 1;
        // Writing to a hash cannot fail.
        let _ = write!(self.hash, "{} {event}", now.as_nanos());
        if let Some(lines) = self.lines.as_mut().filter(|lines| lines.len() < LINES_KEPT) {
            lines.push(line(now, event));
        }
    }

    /// Returns the hash of all events.
    pub(crate) fn hash(&self) -> u64 {
        self.hash.0
    }

    /// Returns the number of events.
    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    /// Returns the lines, if kept.
    pub(crate) fn into_lines(self) -> Vec<String> {
        self.lines.unwrap_or_default()
    }
}

/// Formats a line of a trace: the time in seconds, and the event.
pub(crate) fn line(now: Duration, event: fmt::Arguments<'_>) -> String {
    format!("{:12.6}  {event}", now.as_secs_f64())
}

/// Hashes bytes, for example to distinguish records in a trace.
pub(crate) fn digest(bytes: &[u8]) -> u64 {
    let mut hash = Fnv::default();
    hash.bytes(bytes);
    hash.0
}

/// FNV-1a: the same on every machine and in every version.
#[derive(Debug)]
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

impl Write for Fnv {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes(text.as_bytes());
        Ok(())
    }
}
