//! A call between the stages of a tick: its record, its authentication and its verdict.

mod job;

pub(crate) use job::{Auth, Job, Verdict};
