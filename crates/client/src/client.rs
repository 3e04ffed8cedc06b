//! The client: the blocking methods, and the calls in flight behind them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nfs4::{NfsCbArgop4, NfsOpnum4, Nfsstat4, Stateid4};
use rpc::memory;

use crate::callback::CallbackAnswer;
use crate::compound::Compound;
use crate::engine::{CallEngine, CallOptions, Completion, Statistics, Ticket};
use crate::error::Error;
use crate::options::Options;
use crate::raw::RawConnection;
use crate::reply::Reply;
use crate::security::{Damage, GssContext};
use crate::session::{Control, Session};

/// A client with one session.
///
/// It belongs to one thread at a time and never starts one. All work happens inside its methods, so
/// an unused client does not renew its lease.
#[derive(Debug)]
pub struct Client {
    pub(crate) engine: CallEngine,
    /// The number of owners of opens that the client has named.
    pub(crate) open_owners: u64,
}

/// Initial buffer size of a call without data, in bytes.
const COMPOUND_CAPACITY: usize = 2 << 10;

impl Client {
    /// Connects, establishes the security context, and creates the client and the session.
    ///
    /// # Errors
    /// Any [`Error`]; state already created at the server expires with its lease.
    pub fn connect(options: Options) -> Result<Self, Error> {
        let mut client = Self { engine: CallEngine::connect(options)?, open_owners: 0 };
        if client.options().reclaim_complete {
            client.finish_reclaim()?;
        }
        Ok(client)
    }

    /// Sends RECLAIM_COMPLETE to end the reclaim of state. The client may have sent it before.
    ///
    /// # Errors
    /// Any [`Error`]; a RECLAIM_COMPLETE that was sent before is not one.
    pub fn finish_reclaim(&mut self) -> Result<(), Error> {
        let mut compound = self.compound();
        compound.reclaim_complete();
        let reply = self.call(compound)?;
        match reply.results().done(NfsOpnum4::OP_RECLAIM_COMPLETE) {
            Err(error) if error.is(Nfsstat4::NFS4ERR_COMPLETE_ALREADY) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Returns the current security context, if any.
    pub fn context(&self) -> Option<Arc<GssContext>> {
        self.engine.identity.context().cloned()
    }

    /// Returns the session as the server granted it.
    pub const fn session(&self) -> &Session {
        &self.engine.session
    }

    /// Returns the options that the client was built from.
    pub const fn options(&self) -> &Options {
        &self.engine.options
    }

    /// Returns the counters of this client.
    pub const fn statistics(&self) -> Statistics {
        self.engine.statistics
    }

    /// Returns `sr_status_flags` of the last reply, which report revoked state and required
    /// reclaims.
    pub const fn status_flags(&self) -> u32 {
        self.engine.status_flags
    }

    /// Returns the number of calls in progress.
    pub fn outstanding(&self) -> usize {
        self.engine.calls.len()
    }

    /// Returns the number of calls that may be in flight at once.
    pub fn slots(&self) -> u32 {
        self.engine.slots.limit()
    }

    /// Returns the largest READ that fits the session's replies, in bytes.
    pub fn read_size_max(&self) -> u32 {
        data_max(self.options().io_size_max, self.session().fore.ca_maxresponsesize)
    }

    /// Returns the largest WRITE that fits the session's requests, in bytes.
    pub fn write_size_max(&self) -> u32 {
        data_max(self.options().io_size_max, self.session().fore.ca_maxrequestsize)
    }

    /// Sets the length of the lease; the client renews it after two thirds without a call.
    pub fn set_lease(&mut self, lease: Duration) {
        self.engine.lease = lease;
    }

    /// Sets the addresses of further connections, for a server that has moved and for tests.
    pub fn set_addresses(&mut self, addresses: Vec<SocketAddr>) {
        self.engine.addresses = addresses;
    }

    /// Begins a COMPOUND in a reused buffer.
    pub fn compound(&mut self) -> Compound {
        Compound::in_buffer(memory::take(COMPOUND_CAPACITY), self.options().minor_version)
    }

    /// Returns the memory of a reply to the pool.
    pub fn recycle(&mut self, reply: Reply) {
        memory::give(reply.into_record());
    }

    /// Submits a COMPOUND. The next [`Client::flush`] or [`Client::poll`] sends it; if all slots
    /// are in use, it waits for one.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a COMPOUND without a session, and if 16,384 calls are in progress.
    pub fn submit(&mut self, compound: Compound) -> Result<Ticket, Error> {
        self.submit_with(compound, CallOptions::default())
    }

    /// Submits a COMPOUND; see [`Client::submit`].
    ///
    /// # Errors
    /// The same as [`Client::submit`].
    pub fn submit_with(&mut self, compound: Compound, options: CallOptions) -> Result<Ticket, Error> {
        self.engine.submit(compound, options)
    }

    /// Sends submitted calls, as far as slots and sockets allow.
    ///
    /// # Errors
    /// Fails only if the system has no random bytes; completions report the failures of calls.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.engine.flush()
    }

    /// Sends waiting calls, waits until a call completes or `timeout` passes, and appends the
    /// completions to `done`. Returns the number appended; 0 at once if no call is in progress.
    ///
    /// # Errors
    /// Fails only if a system call of this process fails; completions report the failures of calls.
    pub fn poll(&mut self, timeout: Duration, done: &mut Vec<Completion>) -> Result<usize, Error> {
        self.engine.poll(timeout, done)
    }

    /// Calls a COMPOUND and waits for its reply. Keeps the completions of other calls for
    /// [`Client::poll`].
    ///
    /// # Errors
    /// Any [`Error`] but that of a failed operation: see [`Reply::check`].
    pub fn call(&mut self, compound: Compound) -> Result<Reply, Error> {
        let ticket = self.submit(compound)?;
        self.wait(ticket)
    }

    /// Waits for a submitted call; each call completes by its deadline.
    ///
    /// # Errors
    /// As [`Client::call`], and [`Error::Misuse`] for a call whose completion was already returned.
    pub fn wait(&mut self, ticket: Ticket) -> Result<Reply, Error> {
        self.engine.wait(ticket)
    }

    /// Abandons a submitted call: its completion is not reported.
    pub fn abandon(&mut self, ticket: Ticket) {
        self.engine.abandon(ticket);
    }

    /// Waits until all calls with a waiting caller have completed; keeps completions for
    /// [`Client::poll`].
    ///
    /// # Errors
    /// The same as [`Client::poll`].
    pub fn wait_all(&mut self) -> Result<(), Error> {
        self.engine.wait_all()
    }

    /// Answers callbacks for `time`, and maintains connections and the lease.
    ///
    /// # Errors
    /// The same as [`Client::poll`].
    pub fn serve_callbacks(&mut self, time: Duration) -> Result<(), Error> {
        self.engine.serve_callbacks(time)
    }

    /// Sets the handler of callbacks. It runs inside the methods of this client that wait for
    /// replies, and inside [`Client::serve_callbacks`].
    pub fn on_callback(&mut self, handler: impl FnMut(&NfsCbArgop4<'_>) -> CallbackAnswer + Send + 'static) {
        self.engine.back.set_handler(Box::new(handler));
    }

    /// Returns the stateids of CB_RECALLs that were answered with NFS4_OK since the last call.
    pub fn take_recalls(&mut self) -> Vec<Stateid4> {
        self.engine.back.take_recalls()
    }

    /// Damages the protection of callback answers, for tests of servers.
    pub fn damage_callback_answers(&mut self, damage: Damage) {
        self.engine.back.set_damage(damage);
    }

    /// Closes a connection, for tests of reconnects.
    pub fn cut_connection(&mut self, index: usize) {
        self.engine.cut(index);
    }

    /// Opens a further connection of the session to another address, if the same server is there
    /// (session trunking, RFC 8881 section 2.10.5). Returns whether it is.
    ///
    /// # Errors
    /// Any [`Error`] of the connection; the session stays as it is.
    pub fn trunk(&mut self, address: SocketAddr) -> Result<bool, Error> {
        self.engine.trunk(address)
    }

    /// Creates the client and the session again after the server has lost them, for example in a
    /// restart. Calls in progress fail with [`TransportError::Closed`](crate::TransportError). The
    /// owners then reclaim opens and locks, and [`Client::finish_reclaim`] ends the reclaim.
    ///
    /// # Errors
    /// Any [`Error`] of the new connection or session.
    pub fn recover(&mut self) -> Result<(), Error> {
        self.engine.recover()
    }

    /// Returns a handle for client and session operations on `connection`.
    pub fn control<'a>(&'a mut self, connection: &'a mut RawConnection) -> Control<'a> {
        self.engine.control(connection)
    }

    /// Destroys the session, the client and the context at the server. A client with open files
    /// stays there until its lease expires.
    ///
    /// # Errors
    /// The first error; the remaining steps run regardless.
    pub fn close(self) -> Result<(), Error> {
        let Self { mut engine, .. } = self;
        engine.wait_all()?;
        let mut connection = match engine.links.take_idle() {
            Some(connection) => connection,
            None => engine.connect_raw()?,
        };
        let session = engine.session.clone();
        let mut control = engine.control(&mut connection);
        let ended = control.destroy_session(&session.id).and_then(|()| {
            match control.destroy_client(session.client_id) {
                Err(error) if error.is(Nfsstat4::NFS4ERR_CLIENTID_BUSY) => Ok(()),
                other => other,
            }
        });
        let destroyed = match engine.identity.context() {
            None => Ok(()),
            Some(context) => match context.destroy(&mut connection, engine.options.connect_timeout) {
                // A restart of the server has already ended it.
                Err(error) if error.is_context_lost() => Ok(()),
                other => other,
            },
        };
        ended.and(destroyed)
    }
}

/// Returns the part of `size` that is left for data, in bytes, at most `wanted`.
fn data_max(wanted: u32, size: u32) -> u32 {
    // Room for the headers of RPC and COMPOUND, a 128-byte filehandle and the tokens of any
    // enctype.
    const HEADS_MAX: u32 = 2048;
    let fits = size.saturating_sub(HEADS_MAX).max(512);
    // Round down to whole pages, if one fits.
    wanted.min(if fits >= 4096 { fits / 4096 * 4096 } else { fits })
}
