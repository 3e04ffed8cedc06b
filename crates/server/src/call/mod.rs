//! A call between the stages of a tick: its record, its authentication and its verdict.

mod job;

pub(crate) use job::{Auth, Job, Verdict};

/// Work between two pauses of a tick, in bytes that are read, written, hashed or encrypted: about
/// 50 µs.
pub(crate) const PAUSE_WORK: usize = 256 << 10;
