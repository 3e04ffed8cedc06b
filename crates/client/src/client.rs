//! The client: one session and its connections.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nfs4::{NfsOpnum4, Nfsstat4, Stateid4};
use rng::SplitMix64;
use rpc::memory;

use crate::callback::ClientBackChannel;
use crate::compound::Compound;
use crate::engine::{Calls, Link, LinkState};
use crate::error::Error;
use crate::options::{Options, Security};
use crate::raw::{RawConnection, resolve};
use crate::reply::Reply;
use crate::security::{Confounders, GssContext, Identity};
use crate::session::{Control, Owner, Session};
use crate::slots::SlotTable;

/// Identifies a submitted call within its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub(crate) u64);

/// Options of one call that override those of its client.
#[derive(Clone, Debug, Default)]
pub struct CallOptions {
    /// The time limit of the call; [`Options::call_timeout`] if `None`.
    pub timeout: Option<Duration>,
    /// The caller's own value, which is copied to the completion.
    pub tag: u64,
}

/// The outcome of a submitted call.
#[derive(Debug)]
pub struct Completion {
    /// The ticket that the submission returned.
    pub ticket: Ticket,
    /// The value of [`CallOptions::tag`].
    pub tag: u64,
    /// The reply. A COMPOUND with a failed operation is a reply, too: see [`Reply::check`].
    pub result: Result<Reply, Error>,
}

/// Counters of the calls and reconnects of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Calls sent, including repetitions.
    pub calls_sent: u64,
    /// Calls sent again after a connection failed.
    pub calls_repeated: u64,
    /// Replies that matched no call.
    pub replies_dropped: u64,
    /// Reconnects, not counting the first connections.
    pub reconnects: u64,
    /// Contexts established after the first ones.
    pub contexts_renewed: u64,
    /// Calls repeated since the server put them off with NFS4ERR_DELAY or NFS4ERR_GRACE, also in
    /// the result of SEQUENCE.
    pub delays: u64,
}

/// A client with one session.
///
/// It belongs to one thread at a time and never starts one. All work happens inside its methods, so
/// an unused client does not renew its lease.
#[derive(Debug)]
pub struct Client {
    pub(crate) options: Options,
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) identity: Identity,
    pub(crate) owner: Owner,
    pub(crate) session: Session,
    pub(crate) slots: SlotTable,
    pub(crate) links: Vec<Link>,
    pub(crate) calls: Calls,
    /// XIDs of calls that wait for a slot.
    pub(crate) waiting: VecDeque<u32>,
    pub(crate) done: VecDeque<Completion>,
    pub(crate) scratch: Vec<u8>,
    pub(crate) confounders: Confounders,
    pub(crate) statistics: Statistics,
    /// Index of the connection that took the last call.
    pub(crate) last_link: usize,
    pub(crate) lease: Duration,
    pub(crate) last_sent: Instant,
    pub(crate) next_check: Instant,
    /// `sr_status_flags` of the last reply.
    pub(crate) status_flags: u32,
    pub(crate) open_owners: u64,
    /// Draws the times of [`Options::lag_max`].
    pub(crate) random: SplitMix64,
    /// The earliest time of the next attempt to establish a context.
    pub(crate) context_retry_at: Instant,
    /// The handler of callbacks and the state of the backchannel.
    pub(crate) back: ClientBackChannel,
    pub(crate) recalls: Vec<Stateid4>,
}

/// Bytes that one system call reads beyond the record in progress.
const SCRATCH_LEN: usize = 256 << 10;

/// Initial buffer size of a call without data, in bytes.
const COMPOUND_CAPACITY: usize = 2 << 10;

/// The lease that is assumed until the server reports its own: 60 seconds.
const LEASE_DEFAULT: Duration = Duration::from_secs(60);

impl Client {
    /// Connects, establishes the security contexts, and creates the client and the session.
    ///
    /// # Errors
    /// Any [`Error`]; state already created at the server expires with its lease.
    pub fn connect(options: Options) -> Result<Self, Error> {
        let addresses = resolve(&options.host, options.port)?;
        let mut identity = Identity::new(&options.security)?;
        let owner = Owner::new(&options)?;
        let mut first = raw(&options, &addresses)?;
        let session = control(&options, &mut identity, &mut first).establish(&owner, &options)?;
        let now = Instant::now();
        let mut client = Self {
            slots: SlotTable::new(session.fore.ca_maxrequests),
            links: vec![Link::new(first)?],
            scratch: vec![0; SCRATCH_LEN],
            confounders: Confounders::default(),
            lease: LEASE_DEFAULT,
            last_sent: now,
            next_check: now,
            calls: Calls::default(),
            waiting: VecDeque::new(),
            done: VecDeque::new(),
            statistics: Statistics::default(),
            last_link: 0,
            status_flags: 0,
            open_owners: 0,
            random: SplitMix64(0),
            context_retry_at: now,
            back: ClientBackChannel::default(),
            recalls: Vec::new(),
            options,
            addresses,
            identity,
            owner,
            session,
        };
        for _ in 1..client.options.connections.max(1) {
            let link = client.new_link(None)?;
            client.links.push(link);
        }
        if client.options.reclaim_complete {
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
        self.identity.context().cloned()
    }

    /// Returns the session as the server granted it.
    pub const fn session(&self) -> &Session {
        &self.session
    }

    /// Returns the options that the client was built from.
    pub const fn options(&self) -> &Options {
        &self.options
    }

    /// Returns the counters of this client.
    pub const fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Returns `sr_status_flags` of the last reply, which report revoked state and required
    /// reclaims.
    pub const fn status_flags(&self) -> u32 {
        self.status_flags
    }

    /// Returns the number of calls in progress.
    pub fn outstanding(&self) -> usize {
        self.calls.len()
    }

    /// Returns the number of calls that may be in flight at once.
    pub fn slots(&self) -> u32 {
        self.slots.limit()
    }

    /// Returns the largest READ that fits the session's replies, in bytes.
    pub fn read_size_max(&self) -> u32 {
        data_max(self.options.io_size_max, self.session.fore.ca_maxresponsesize)
    }

    /// Returns the largest WRITE that fits the session's requests, in bytes.
    pub fn write_size_max(&self) -> u32 {
        data_max(self.options.io_size_max, self.session.fore.ca_maxrequestsize)
    }

    /// Sets the length of the lease; the client renews it after two thirds without a call.
    pub fn set_lease(&mut self, lease: Duration) {
        self.lease = lease;
    }

    /// Sets the addresses of further connections, for a server that has moved and for tests.
    pub fn set_addresses(&mut self, addresses: Vec<SocketAddr>) {
        self.addresses = addresses;
    }

    /// Begins a COMPOUND in a reused buffer.
    pub fn compound(&mut self) -> Compound {
        Compound::in_buffer(memory::take(COMPOUND_CAPACITY), self.options.minor_version)
    }

    /// Returns the memory of a reply to the pool.
    pub fn recycle(&mut self, reply: Reply) {
        memory::give(reply.into_record());
    }

    /// Returns a handle for client and session operations on `connection`.
    pub fn control<'a>(&'a mut self, connection: &'a mut RawConnection) -> Control<'a> {
        control(&self.options, &mut self.identity, connection)
    }

    /// Destroys the session, the client and the contexts at the server. A client with open files
    /// stays there until its lease expires.
    ///
    /// # Errors
    /// The first error; the remaining steps run regardless.
    pub fn close(mut self) -> Result<(), Error> {
        self.wait_all()?;
        let idle = self.links.drain(..).find_map(|link| match link.state {
            LinkState::Up(connection) => connection.into_raw(),
            LinkState::Down { .. } => None,
        });
        let mut connection = match idle {
            Some(connection) => connection,
            None => raw(&self.options, &self.addresses)?,
        };
        let (session, client_id) = (self.session.id, self.session.client_id);
        let mut control = control(&self.options, &mut self.identity, &mut connection);
        let ended =
            control.destroy_session(&session).and_then(|()| match control.destroy_client(client_id) {
                Err(error) if error.is(Nfsstat4::NFS4ERR_CLIENTID_BUSY) => Ok(()),
                other => other,
            });
        let timeout = self.options.connect_timeout;
        let destroyed = match self.identity.context() {
            None => Ok(()),
            Some(context) => match context.destroy(&mut connection, timeout) {
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

pub(crate) fn raw(options: &Options, addresses: &[SocketAddr]) -> Result<RawConnection, Error> {
    let low = matches!(options.security, Security::Sys(_));
    let (timeout, record_size_max) = (options.connect_timeout, options.record_size_max);
    Ok(RawConnection::connect_from(options.source, low, addresses, timeout, record_size_max)?)
}

pub(crate) fn control<'a>(
    options: &Options,
    identity: &'a mut Identity,
    connection: &'a mut RawConnection,
) -> Control<'a> {
    Control { connection, identity, minor_version: options.minor_version, timeout: options.call_timeout }
}
