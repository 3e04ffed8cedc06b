//! The client: one session, its connections and its identities.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nfs4::{NfsOpnum4, Nfsstat4, Stateid4};
use rpc::gss::RpcGssServiceT;
use rpc::memory;

use crate::callback::BackChannel;
use crate::compound::Compound;
use crate::engine::{Calls, Link, LinkState};
use crate::error::Error;
use crate::options::{Options, Security};
use crate::raw::{RawConnection, resolve};
use crate::reply::Reply;
use crate::security::{Confounders, GssContext, Identity};
use crate::session::{Control, Owner, Session};
use crate::slots::SlotTable;

/// Names a submitted call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub(crate) u64);

/// Names an identity of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct IdentityId(pub(crate) usize);

impl IdentityId {
    /// The identity of [`Options::security`].
    pub const USER: Self = Self(0);
    /// The identity of [`Options::machine`].
    pub const MACHINE: Self = Self(1);
}

/// How a call differs from others of its client.
#[derive(Clone, Debug, Default)]
pub struct CallOptions {
    /// Whose call it is.
    pub identity: IdentityId,
    /// Another service than the identity's: the service belongs to the call (RFC 2203 section
    /// 5.3.1).
    pub service: Option<RpcGssServiceT>,
    /// How long it may take, if not [`Options::call_timeout`].
    pub timeout: Option<Duration>,
    /// The caller's own mark, which comes back with the completion.
    pub tag: u64,
}

/// The end of a submitted call.
#[derive(Debug)]
pub struct Completion {
    /// Which.
    pub ticket: Ticket,
    /// The caller's own mark.
    pub tag: u64,
    /// The reply. A COMPOUND of which an operation failed is a reply, too: see [`Reply::check`].
    pub result: Result<Reply, Error>,
}

/// What a client has done and what has happened to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Calls sent, repetitions included.
    pub calls_sent: u64,
    /// Calls sent again after a connection was cut.
    pub calls_repeated: u64,
    /// Replies that no call waited for.
    pub replies_dropped: u64,
    /// Connections made after the first ones.
    pub reconnects: u64,
    /// Security contexts made after the first ones.
    pub contexts_renewed: u64,
}

/// A client with one session.
///
/// It belongs to one thread at a time and never starts one. All of its work happens inside its
/// methods: a client that nobody calls does not renew its lease.
#[derive(Debug)]
pub struct Client {
    pub(crate) options: Options,
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) identities: Vec<Identity>,
    pub(crate) owner: Owner,
    pub(crate) session: Session,
    pub(crate) slots: SlotTable,
    pub(crate) links: Vec<Link>,
    pub(crate) calls: Calls,
    /// Calls without a slot.
    pub(crate) waiting: VecDeque<u32>,
    pub(crate) done: VecDeque<Completion>,
    pub(crate) scratch: Vec<u8>,
    pub(crate) confounders: Confounders,
    pub(crate) statistics: Statistics,
    /// The connection of the last call.
    pub(crate) last_link: usize,
    pub(crate) lease: Duration,
    pub(crate) last_sent: Instant,
    pub(crate) next_check: Instant,
    /// `sr_status_flags` of the last reply.
    pub(crate) status_flags: u32,
    pub(crate) open_owners: u64,
    /// The state of what is left to chance.
    pub(crate) chance: u64,
    /// Whose calls the blocking methods make.
    pub(crate) identity: IdentityId,
    /// Not before then is the next context tried for.
    pub(crate) context_retry_at: Instant,
    /// How callbacks are answered, and the recalls among them.
    pub(crate) back: BackChannel,
    pub(crate) recalls: Vec<Stateid4>,
}

/// Bytes that one system call reads beside the record in progress.
const SCRATCH_LEN: usize = 256 << 10;

/// Bytes of a call without data.
const COMPOUND_CAPACITY: usize = 2 << 10;

/// The lease until the server has said how long it is, in seconds.
const LEASE_DEFAULT: Duration = Duration::from_secs(60);

impl Client {
    /// Connects, makes the security contexts, the client and the session at the server.
    ///
    /// # Errors
    /// Any; nothing is left behind but what the server forgets when the lease is over.
    pub fn connect(options: Options) -> Result<Self, Error> {
        let addresses = resolve(&options.host, options.port)?;
        let user = Identity::new(&options.security)?;
        let machine = Identity::new(options.machine.as_ref().unwrap_or(&options.security))?;
        let owner = Owner::new(&options)?;
        let mut identities = vec![user, machine];
        let mut first = raw(&options, &addresses)?;
        let session = control(&options, &mut identities, &mut first).establish(&owner, &options)?;
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
            chance: 0,
            identity: IdentityId::USER,
            context_retry_at: now,
            back: BackChannel::default(),
            recalls: Vec::new(),
            options,
            addresses,
            identities,
            owner,
            session,
        };
        client.share_context(IdentityId::MACHINE);
        for _ in 1..client.options.connections.max(1) {
            let link = client.new_link()?;
            client.links.push(link);
        }
        if client.options.reclaim_complete {
            client.finish_reclaim()?;
        }
        Ok(client)
    }

    /// Without an identity of its own the machine's context is the user's, and the other way round.
    pub(crate) fn share_context(&mut self, id: IdentityId) {
        let [user, machine, ..] = &mut self.identities[..] else { return };
        let (from, to) = if id == IdentityId::USER { (user, machine) } else { (machine, user) };
        if self.options.machine.is_none()
            && id.0 <= IdentityId::MACHINE.0
            && let (Identity::Gss { context: made, .. }, Identity::Gss { context: shared, .. }) = (from, to)
        {
            shared.clone_from(made);
        }
    }

    /// Says that everything has been reclaimed: RECLAIM_COMPLETE, which may have been sent already.
    ///
    /// # Errors
    /// Any.
    pub fn finish_reclaim(&mut self) -> Result<(), Error> {
        let mut compound = self.compound();
        compound.reclaim_complete();
        let reply = self.call(compound)?;
        match reply.results().done(NfsOpnum4::OP_RECLAIM_COMPLETE) {
            Err(error) if error.is(Nfsstat4::NFS4ERR_COMPLETE_ALREADY) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Adds somebody on whose behalf calls can be made in this session.
    ///
    /// # Errors
    /// Only when the system has no random bytes; a context is made with the first call.
    pub fn add_identity(&mut self, security: &Security) -> Result<IdentityId, Error> {
        self.identities.push(Identity::new(security)?);
        Ok(IdentityId(self.identities.len() - 1))
    }

    /// The security context of an identity, if it has one now.
    pub fn context(&self, identity: IdentityId) -> Option<Arc<GssContext>> {
        self.identities.get(identity.0)?.context().cloned()
    }

    /// The session as the server granted it.
    pub const fn session(&self) -> &Session {
        &self.session
    }

    /// What the client was made of.
    pub const fn options(&self) -> &Options {
        &self.options
    }

    /// Counters.
    pub const fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// `sr_status_flags` of the last reply: whether state was revoked or must be reclaimed.
    pub const fn status_flags(&self) -> u32 {
        self.status_flags
    }

    /// The number of calls in progress.
    pub fn outstanding(&self) -> usize {
        self.calls.len()
    }

    /// How many calls may be at the server at once.
    pub fn slots(&self) -> u32 {
        self.slots.limit()
    }

    /// The largest READ that the session's replies have room for, in bytes.
    pub fn read_size_max(&self) -> u32 {
        data_max(self.options.io_size_max, self.session.fore.ca_maxresponsesize)
    }

    /// The largest WRITE that the session's requests have room for, in bytes.
    pub fn write_size_max(&self) -> u32 {
        data_max(self.options.io_size_max, self.session.fore.ca_maxrequestsize)
    }

    /// Sets how long the lease is; it is renewed when two thirds have passed without a call.
    pub fn set_lease(&mut self, lease: Duration) {
        self.lease = lease;
    }

    /// Sets where further connections go: a server that has moved, or a test's.
    pub fn set_addresses(&mut self, addresses: Vec<SocketAddr>) {
        self.addresses = addresses;
    }

    /// Begins a COMPOUND, in memory that a former call has left.
    pub fn compound(&mut self) -> Compound {
        Compound::in_buffer(memory::take(COMPOUND_CAPACITY), self.options.minor_version)
    }

    /// Gives the memory of a reply back.
    pub fn recycle(&mut self, reply: Reply) {
        memory::give(reply.into_record());
    }

    /// Opens a further connection that belongs to no session, for calls that a client would not
    /// make.
    ///
    /// # Errors
    /// Any of the transport.
    pub fn raw_connection(&self) -> Result<RawConnection, Error> {
        raw(&self.options, &self.addresses)
    }

    /// Calls about clients and sessions on a connection of the caller's, as the machine.
    pub fn control<'a>(&'a mut self, connection: &'a mut RawConnection) -> Control<'a> {
        control(&self.options, &mut self.identities, connection)
    }

    /// Ends the session, the client and the contexts at the server. A client that has files open is
    /// left there until its lease is over.
    ///
    /// # Errors
    /// The first thing that went wrong; the rest is tried anyway.
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
        let mut control = control(&self.options, &mut self.identities, &mut connection);
        let ended =
            control.destroy_session(&session).and_then(|()| match control.destroy_client(client_id) {
                Err(error) if error.is(Nfsstat4::NFS4ERR_CLIENTID_BUSY) => Ok(()),
                other => other,
            });
        let timeout = self.options.connect_timeout;
        let mut contexts: Vec<_> = self.identities.iter().filter_map(Identity::context).cloned().collect();
        contexts.dedup_by(|one, other| Arc::ptr_eq(one, other));
        let destroyed =
            contexts.iter().try_for_each(|context| match context.destroy(&mut connection, timeout) {
                // A restart has ended it before.
                Err(error) if error.is_context_lost() => Ok(()),
                other => other,
            });
        ended.and(destroyed)
    }
}

/// What of `size` is left for data.
fn data_max(wanted: u32, size: u32) -> u32 {
    // The heads of RPC and COMPOUND, a 128-byte filehandle and the tokens of any enctype fit into
    // this.
    const HEADS_MAX: u32 = 2048;
    let fits = size.saturating_sub(HEADS_MAX).max(512);
    // Whole pages, if there is room for one.
    wanted.min(if fits >= 4096 { fits / 4096 * 4096 } else { fits })
}

pub(crate) fn raw(options: &Options, addresses: &[SocketAddr]) -> Result<RawConnection, Error> {
    let sys = |security: &Security| matches!(security, Security::Sys(_));
    let low = sys(&options.security) || options.machine.as_ref().is_some_and(sys);
    let connect = if low { RawConnection::connect_low } else { RawConnection::connect };
    Ok(connect(addresses, options.connect_timeout, options.record_size_max)?)
}

pub(crate) fn control<'a>(
    options: &Options,
    identities: &'a mut [Identity],
    connection: &'a mut RawConnection,
) -> Control<'a> {
    // The machine is the second of at least two identities.
    let machine = IdentityId::MACHINE.0.min(identities.len().saturating_sub(1));
    Control {
        connection,
        identity: &mut identities[machine],
        minor_version: options.minor_version,
        timeout: options.call_timeout,
    }
}
