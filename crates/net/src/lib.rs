//! Listeners, connections and shards: moves records between sockets and a [`Service`].
//!
//! A shard is a thread that owns its connections; there is one per core. In each tick a shard reads
//! the bytes that have arrived, passes complete records to the service in arrival order, and sends
//! the replies. The acceptor, another thread, assigns a new connection to a shard with the fewest
//! connections, in turn, so that the connections of an nconnect mount spread over the cores. A call
//! that the service defers to another thread returns through the shard's [`CompletionSender`], and
//! a later tick sends its reply.
//!
//! A deferred call that is brief can run on the shard's own thread, when nothing else waits. If it
//! blocks after all, another thread continues as the shard (`relief.rs`).
//!
//! A shard serves its connections in three classes:
//!
//! 1. interactive connections, which have lately moved nothing large; long work pauses for them
//!    (`interactive.rs`),
//! 2. bulk connections (`traffic.rs`),
//! 3. strangers, for which the service has not vouched. They have a bounded share of the time
//!    (`strangers.rs`, `allowance.rs`) and of the memory (`ledger.rs`).
//!
//! While several tenants have work, each gets a share of the time by its weight (`shares.rs`).
//!
//! This crate never reads the content of a record.

mod activity;
mod allowance;
mod completion;
mod connection;
mod driver;
mod ids;
mod image;
mod input;
mod interactive;
mod ledger;
mod limits;
mod listener;
mod mailbox;
mod outgoing;
mod output;
mod owner;
mod relief;
mod requests;
mod service;
mod shard;
mod shared;
mod shares;
mod sockets;
mod stats;
mod stillness;
mod strangers;
mod traffic;
mod watchdog;

pub use completion::{CompletionEvent, CompletionSender};
pub use image::{ConnectionImage, InheritedConnections, NetImage};
pub use ledger::address;
pub use limits::Limits;
pub use listener::{Admission, ListenError, Listener, Running};
pub use outgoing::Outgoing;
pub use owner::owner;
pub use service::{Action, Reply, Request, Service};
pub use shares::{WEIGHT_DEFAULT, WeightedTenant};
pub use stats::{CLASSES_MAX, Stats};
pub use watchdog::Shards;

#[cfg(test)]
mod tests;
