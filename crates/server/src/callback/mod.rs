//! The server calls its clients: CB_COMPOUNDs over the connections of backchannels (RFC 8881
//! sections 2.10.3.1 and 20).
//!
//! State says on which session, slot and connection a callback goes; here are its bytes, what
//! became of it, and when it is sent again. Everything that is called back may be said twice, so a
//! callback whose answer is lost is repeated: on another connection of its session in the same
//! slot, else on another session.

mod calls;
mod message;
mod run;
mod security;

pub(crate) use calls::Callbacks;

use rpc::ConnectionId;

/// Sends what the server has to say besides replies.
pub trait CallbackTransport: Send + Sync {
    /// Sends a record on a connection that the client has opened; its first four bytes are room for
    /// the record mark. False when it cannot be sent now. Nothing is said of a connection that is
    /// gone but by [`Engine::connection_closed`](crate::dispatch::Engine::connection_closed).
    fn send(&self, connection: ConnectionId, record: Vec<u8>) -> bool;
}
