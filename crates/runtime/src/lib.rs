//! The runtime: everything between the network layer and [`server`] that decides where a call runs.
//!
//! A shard runs calls until one would wait. Such a call is deferred to a pool of threads, or parked
//! until a client answers a callback. Directory changes wait for stable storage in groups.

pub mod housekeeping;
mod parked;
mod service;
mod settling;

pub use service::{Callbacks, NfsService, ShardMemory};
