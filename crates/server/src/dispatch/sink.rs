//! The results of a tick, as the network layer receives them.

use super::DeferredCall;
use crate::metrics::Kind;
use crate::tenants::TenantShare;
use pipes::Attachment;
use rpc::ConnectionId;
use std::time::Duration;

/// An action for a connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// Sends a record. Its first four bytes are room for the record mark.
    Send(Vec<u8>),
    /// Closes the connection after the replies before it have been sent.
    Close,
}

/// The receiver of a tick's results.
pub trait ReplySink<S> {
    /// Passes on an action for a connection.
    fn reply(&mut self, connection: ConnectionId, action: Action);

    /// Passes on a reply to a call of this kind.
    fn send(&mut self, connection: ConnectionId, _kind: Kind, record: Vec<u8>) {
        self.reply(connection, Action::Send(record));
    }

    /// As `send`, for a reply with file data outside of its buffer.
    fn send_attached(&mut self, connection: ConnectionId, kind: Kind, record: Vec<u8>, data: Attachment) {
        match data.insert_into(record) {
            Ok(record) => self.send(connection, kind, record),
            Err(_) => self.reply(connection, Action::Close),
        }
    }

    /// Reports that a connection has sent an authenticated call, so that its peer may be served,
    /// and the tenant of the call.
    fn vouch(&mut self, _connection: ConnectionId, _tenant: TenantShare) {}

    /// Reports that a client is over a limit of its rate, and the time for which its connection is
    /// neither read nor served.
    fn throttle(&mut self, _connection: ConnectionId, _time: Duration) {}

    /// Reports that a call was expensive: see
    /// [`CompoundOutcome::expensive`](crate::engine::CompoundOutcome).
    fn note_expensive(&mut self, _connection: ConnectionId) {}

    /// Runs between units of work, so that finished replies leave and other connections are served.
    /// Returns the time that this took, as far as it is known; it does not count as time of this
    /// tick.
    fn pause(&mut self) -> Duration {
        Duration::ZERO
    }

    /// Returns whether other threads run calls that would block. If not, the tick waits for them.
    fn can_defer(&self) -> bool {
        false
    }

    /// Hands a call to another thread, which passes it through `execute_deferred`, `sync` and
    /// `complete` of the [`Server`](super::Server).
    ///
    /// # Errors
    /// Returns the call when there is no room for it.
    #[expect(clippy::result_large_err, reason = "it is moved once, and allocating for it would cost more")]
    fn defer(&mut self, deferred: DeferredCall<S>) -> Result<(), DeferredCall<S>> {
        Err(deferred)
    }
}

impl<S, F: FnMut(ConnectionId, Action)> ReplySink<S> for F {
    fn reply(&mut self, connection: ConnectionId, action: Action) {
        self(connection, action);
    }
}
