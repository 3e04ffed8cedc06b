//! Listeners, connections and shards: moves records between sockets and a service.
//!
//! One shard a core. A shard is a thread that owns its connections: a tick reads all that has arrived, gives
//! the service every whole record in arrival order, and writes each connection's replies at once. The
//! acceptor is a thread of its own that deals new connections out to the shards with the fewest in turn, so that the
//! connections of one nconnect mount spread over the cores. What a service has other threads carry out comes back
//! to the shard by its [`LateSink`] and is answered by a later tick.
//!
//! This crate never looks inside a record.

mod activity;
mod allowance;
mod aside;
mod connection;
mod driver;
mod input;
mod late;
mod ledger;
mod limits;
mod listener;
mod mailbox;
mod outgoing;
mod output;
mod owner;
mod service;
mod shard;
mod sockets;
mod stats;
mod strangers;
mod traffic;
mod watchdog;

pub use late::{Late, LateSink};
pub use ledger::address;
pub use limits::Limits;
pub use listener::{Admission, ListenError, Listener, Running};
pub use outgoing::Outgoing;
pub use owner::owner;
pub use service::{Action, Reply, Request, Service};
pub use stats::{CLASSES_MAX, Stats};
pub use watchdog::Shards;

#[cfg(test)]
mod outgoing_tests;
#[cfg(test)]
mod tests;
