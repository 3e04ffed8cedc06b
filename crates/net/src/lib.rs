//! Listeners, connections and shards: moves records between sockets and a service.
//!
//! One shard a core. A shard is a thread that owns its connections: a tick reads all that has arrived, gives
//! the service every whole record in arrival order, and writes each connection's replies at once. The
//! acceptor is a thread of its own that deals new connections out to the shards in turn, so that the
//! connections of one nconnect mount spread over the cores.
//!
//! This crate never looks inside a record.

mod connection;
mod limits;
mod listener;
mod service;
mod shard;
mod stats;

pub use limits::Limits;
pub use listener::{ListenError, Listener, Running};
pub use service::{Action, Reply, Request, Service};
pub use stats::Stats;

#[cfg(test)]
mod tests;
