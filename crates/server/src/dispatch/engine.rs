//! The interface to the engine that runs COMPOUNDs.

use crate::compound::CompoundStatus;
use crate::engine::{Call, CompoundOutcome, CompoundState, Nfs, ObservedRefusal, WaitPolicy, WaitsFor};
use crate::rpcsec::ContextTable;
use identity::Mapper;
use rpc::ConnectionId;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use vfs::{ClientPeer, SecFlavor, Unresolved, VfsResult};
use xdr::Encoder;

/// Runs COMPOUNDs: [`Nfs`], or a simpler implementation in tests.
pub trait Engine: Send + Sync {
    /// A COMPOUND suspended before an operation that would block.
    type Suspended: WaitsFor + Send + 'static;

    /// Runs one COMPOUND and appends COMPOUND4res to `reply`, after its present content. With
    /// [`WaitPolicy::Suspends`] it stops before an operation that would block.
    fn compound(
        &self,
        call: &Call<'_>,
        reply: &mut Encoder,
        policy: WaitPolicy,
    ) -> CompoundStatus<Self::Suspended>;

    /// Runs the rest of the same call to the same reply, and blocks where it has to.
    fn resume(&self, call: &Call<'_>, reply: &mut Encoder, suspended: Self::Suspended) -> CompoundOutcome;

    /// As `resume`, on a thread of the lane of the call. May stop before an operation that waits
    /// for another lane, and at the end, before the changes are on stable storage: see
    /// [`WaitsFor::pending_sync`].
    fn execute(
        &self,
        call: &Call<'_>,
        reply: &mut Encoder,
        suspended: Self::Suspended,
    ) -> CompoundStatus<Self::Suspended> {
        CompoundStatus::Done(self.resume(call, reply, suspended))
    }

    /// Puts the changes of a call on stable storage, after all of its operations have run.
    ///
    /// # Errors
    /// The error of their file system.
    fn sync(&self, _suspended: &Self::Suspended) -> VfsResult<()> {
        Ok(())
    }

    /// Ends such a call after its changes have reached stable storage or failed to.
    fn complete(
        &self,
        call: &Call<'_>,
        reply: &mut Encoder,
        suspended: Self::Suspended,
        _outcome: VfsResult<()>,
    ) -> CompoundOutcome {
        self.resume(call, reply, suspended)
    }

    /// Ends the same call with NFS4ERR_DELAY for the operation that would block. `None`: there is
    /// no such reply, and the connection must close.
    fn decline(
        &self,
        call: &Call<'_>,
        reply: &mut Encoder,
        suspended: Self::Suspended,
    ) -> Option<CompoundOutcome>;

    /// Handles a reply that arrived on a connection; false if it answers no callback.
    fn callback_reply(&self, _connection: ConnectionId, _record: &[u8], _now: Duration) -> bool {
        false
    }

    /// Sets the table of contexts that clients have established: callbacks with RPCSEC_GSS use
    /// these.
    fn connect_contexts(&self, _contexts: &Arc<ContextTable>) {}

    /// Returns the name of a lane of [`WaitsFor::lane`] for the log, if it is that of an export.
    fn lane_name(&self, _lane: u32) -> Option<String> {
        None
    }

    /// Reports a call that was denied before any operation, for the audit log.
    fn observe_denial(&self, _peer: SocketAddr, _principal: Option<&str>, _reason: &str) {}

    /// Returns whether a client at this address and port may use AUTH_SYS.
    ///
    /// # Errors
    /// The name of the client that must be looked up first.
    fn admits_sys(&self, _client: SocketAddr, _now: Duration) -> Result<bool, Unresolved> {
        Ok(true)
    }

    /// Returns the accounts whose groups AUTH_SYS callers have; `None` if they have those of their
    /// credentials.
    fn sys_accounts(&self) -> Option<&Mapper> {
        None
    }

    /// Answers a COMPOUND with NFS4ERR_DELAY for its first operation.
    fn delay(&self, _call: &Call<'_>, _reply: &mut Encoder) {}

    /// Removes all state bound to a connection.
    fn connection_closed(&self, connection: ConnectionId);

    /// Ends everything that has timed out; called about once a second.
    fn housekeeping(&self, now: Duration);
}

impl Engine for Nfs {
    type Suspended = Box<CompoundState>;

    fn compound(&self, call: &Call<'_>, reply: &mut Encoder, policy: WaitPolicy) -> CompoundStatus {
        match policy {
            WaitPolicy::Waits => CompoundStatus::Done(Nfs::compound(self, call, reply)),
            WaitPolicy::Suspends | WaitPolicy::WaitsIn(_) => self.begin(call, reply, policy),
        }
    }

    fn execute(&self, call: &Call<'_>, reply: &mut Encoder, suspended: Box<CompoundState>) -> CompoundStatus {
        Nfs::execute(self, call, reply, suspended)
    }

    fn sync(&self, suspended: &Box<CompoundState>) -> VfsResult<()> {
        Nfs::sync(self, suspended)
    }

    fn complete(
        &self,
        call: &Call<'_>,
        reply: &mut Encoder,
        suspended: Box<CompoundState>,
        outcome: VfsResult<()>,
    ) -> CompoundOutcome {
        Nfs::complete(self, call, reply, suspended, outcome)
    }

    fn resume(&self, call: &Call<'_>, reply: &mut Encoder, suspended: Box<CompoundState>) -> CompoundOutcome {
        Nfs::resume(self, call, reply, suspended)
    }

    fn decline(
        &self,
        call: &Call<'_>,
        reply: &mut Encoder,
        suspended: Box<CompoundState>,
    ) -> Option<CompoundOutcome> {
        Nfs::decline(self, call, reply, suspended)
    }

    fn callback_reply(&self, connection: ConnectionId, record: &[u8], now: Duration) -> bool {
        Nfs::callback_reply(self, connection, record, now)
    }

    fn connect_contexts(&self, contexts: &Arc<ContextTable>) {
        self.callbacks.connect_contexts(contexts.clone());
    }

    fn lane_name(&self, lane: u32) -> Option<String> {
        self.exports.snapshot().by_id(lane).map(|export| export.pseudo_path.clone())
    }

    fn observe_denial(&self, peer: SocketAddr, principal: Option<&str>, reason: &str) {
        self.observe_refusal(&ObservedRefusal { peer, principal, flavor: None, export: None, reason });
    }

    fn admits_sys(&self, client: SocketAddr, now: Duration) -> Result<bool, Unresolved> {
        let exports = self.exports.snapshot();
        let peer = ClientPeer { address: client, now };
        let mut refused = Ok(false);
        for export in exports.iter() {
            match export.rule_for(peer) {
                Ok(Some(rule)) if export.rule(rule).allows(SecFlavor::Sys, peer) => return Ok(true),
                Ok(_) => {}
                Err(unresolved) => refused = Err(unresolved),
            }
        }
        refused
    }

    fn sys_accounts(&self) -> Option<&Mapper> {
        Nfs::sys_accounts(self)
    }

    fn delay(&self, call: &Call<'_>, reply: &mut Encoder) {
        Nfs::delay(self, call, reply);
    }

    fn connection_closed(&self, connection: ConnectionId) {
        Nfs::connection_closed(self, connection);
    }

    fn housekeeping(&self, now: Duration) {
        Nfs::housekeeping(self, now);
    }
}
