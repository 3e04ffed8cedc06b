//! Callbacks: CB_COMPOUND over the connections of backchannels (RFC 8881 sections 2.10.3.1 and 20).
//!
//! The state crate picks session, slot and connection of a callback. This module encodes and
//! protects it, and matches its answer; `engine::callbacks` sends it. All callbacks are idempotent,
//! so a callback whose answer is lost is sent again: on another connection of its session in the
//! same slot, else on another session.

mod calls;
pub(crate) mod message;
mod security;

pub use calls::image::CallbacksImage;
pub(crate) use calls::{ANSWER_TIME_MAX, ANSWER_TIME_MIN, CallbackQueue, Sent, TRIES_MAX};
pub(crate) use security::{OpenedCallback, Proof};

use rpc::ConnectionId;

/// Sends records other than replies.
pub trait CallbackTransport: Send + Sync {
    /// Sends a record on a connection that the client has opened. The first four bytes of the
    /// record are room for the record mark. Returns false when it cannot be sent now. A lost
    /// connection is reported only by
    /// [`Engine::connection_closed`](crate::dispatch::Engine::connection_closed).
    fn send(&self, connection: ConnectionId, record: Vec<u8>) -> bool;
}
