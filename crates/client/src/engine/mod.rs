//! Many calls in flight on several connections, from one thread.
//!
//! An accepted call gets a slot and a connection. A flush seals all waiting calls as one batch and
//! writes once per connection. Receiving reads once per connection, opens all replies as one batch
//! and completes their calls. After a reconnect, the connection's calls are sent again.

mod call;
mod flush;
mod link;
mod links;
mod pace;
mod receive;
mod repair;
mod submission;

pub use submission::{CallOptions, Completion, Ticket};

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::callback::ClientBackChannel;
use crate::error::Error;
use crate::options::Options;
use crate::raw::{RawConnection, resolve};
use crate::security::{Confounders, Identity};
use crate::session::{Control, Owner, Session};
use crate::slots::SlotTable;
use call::Calls;
use link::Link;
use links::Links;

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

/// Bytes that one system call reads beyond the record in progress.
const SCRATCH_LEN: usize = 256 << 10;

/// The lease that is assumed until the server reports its own: 60 seconds.
const LEASE_DEFAULT: Duration = Duration::from_secs(60);

/// The session, its connections and the calls on them.
#[derive(Debug)]
pub(crate) struct CallEngine {
    pub(crate) options: Options,
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) identity: Identity,
    owner: Owner,
    pub(crate) session: Session,
    pub(crate) slots: SlotTable,
    pub(crate) links: Links,
    pub(crate) calls: Calls,
    /// XIDs of calls that wait for a slot.
    waiting: VecDeque<u32>,
    done: VecDeque<Completion>,
    scratch: Vec<u8>,
    confounders: Confounders,
    pub(crate) statistics: Statistics,
    pub(crate) lease: Duration,
    last_sent: Instant,
    next_check: Instant,
    /// `sr_status_flags` of the last reply.
    pub(crate) status_flags: u32,
    /// The earliest time of the next attempt to establish a context.
    context_retry_at: Instant,
    /// The handler of callbacks and the state of the backchannel.
    pub(crate) back: ClientBackChannel,
}

impl CallEngine {
    /// Connects, establishes the security context, and creates the client and the session.
    pub(crate) fn connect(options: Options) -> Result<Self, Error> {
        let addresses = resolve(&options.host, options.port)?;
        let mut identity = Identity::new(&options.security)?;
        let owner = Owner::new(&options)?;
        let mut first = RawConnection::connect_by(&options, &addresses)?;
        let session = Control::new(&options, &mut identity, &mut first).establish(&owner, &options)?;
        let now = Instant::now();
        let mut engine = Self {
            slots: SlotTable::new(session.fore.ca_maxrequests),
            links: Links::new(Link::new(first)?),
            scratch: vec![0; SCRATCH_LEN],
            confounders: Confounders::default(),
            lease: LEASE_DEFAULT,
            last_sent: now,
            next_check: now,
            calls: Calls::default(),
            waiting: VecDeque::new(),
            done: VecDeque::new(),
            statistics: Statistics::default(),
            status_flags: 0,
            context_retry_at: now,
            back: ClientBackChannel::default(),
            options,
            addresses,
            identity,
            owner,
            session,
        };
        for _ in 1..engine.options.connections.max(1) {
            let link = engine.new_link(None)?;
            engine.links.push(link);
        }
        Ok(engine)
    }

    /// Returns a handle for client and session operations on `connection`.
    pub(crate) fn control<'a>(&'a mut self, connection: &'a mut RawConnection) -> Control<'a> {
        Control::new(&self.options, &mut self.identity, connection)
    }

    /// Connects once more, outside of the session.
    pub(crate) fn connect_raw(&self) -> Result<RawConnection, Error> {
        Ok(RawConnection::connect_by(&self.options, &self.addresses)?)
    }
}
