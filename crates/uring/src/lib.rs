//! The part of Linux' io_uring that the network layer uses, behind functions that are safe to call.
//!
//! A [`Ring`] waits for files and receives from sockets. The kernel writes into the ring's own buffers alone, which
//! live as long as it may; memory of a caller is never lent to it. One thread makes a ring and uses it.

mod pool;
mod ring;

pub use pool::Chunk;
pub use ring::{Completion, Events, Options, Ring};

#[cfg(test)]
mod tests;
