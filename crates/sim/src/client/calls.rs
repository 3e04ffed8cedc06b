//! One call on a slot, repeated on other connections until it has a reply (RFC 8881 section
//! 2.10.6).

use super::security::{OpenedReply, SimCall};
use super::{Client, ClientSlot, Op, Phase};
use crate::trace::digest;
use nfs4::{Compound4Res, Getfh4Res, NfsArgop4, NfsOpnum4, NfsResop4, Nfsstat4, Sequence4Args, Sequence4Res};
use xdr::{Decode, Decoder};

/// The session of a call was lost, so its outcome is unknown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lost;

/// The results of a COMPOUND.
#[derive(Clone, Debug)]
pub(crate) struct CompoundReply {
    /// The status of the last operation.
    pub status: Nfsstat4,
    /// The results of all operations.
    pub results: Vec<NfsResop4<'static>>,
}

impl CompoundReply {
    /// Decodes the results of a COMPOUND.
    pub(crate) fn parse(results: &[u8]) -> Option<Self> {
        let results = Compound4Res::decode(&mut Decoder::new(results)).ok()?.into_owned();
        Some(Self { status: results.status, results: results.resarray })
    }

    /// Returns the filehandle of GETFH.
    pub(crate) fn handle(&self) -> Option<Vec<u8>> {
        self.results.iter().find_map(|result| match result {
            NfsResop4::OP_GETFH(Getfh4Res::NFS4_OK(ok)) => Some(ok.object.to_vec()),
            _ => None,
        })
    }
}

/// Whether the server caches the reply to a call (`sa_cachethis`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CacheThis {
    Yes,
    No,
}

/// The meaning of a SEQUENCE result.
enum SequenceVerdict {
    Done,
    Again,
    Broken,
    Uncached,
}

impl Client {
    /// Makes a call when there is a session with a free slot.
    ///
    /// # Errors
    /// Fails if the session is lost before the reply arrives.
    pub(crate) async fn call(&self, operations: Vec<Op>, cache: CacheThis) -> Result<CompoundReply, Lost> {
        let free = || {
            let state = self.state.borrow();
            state.phase == Phase::Ready && state.slots.iter().any(|slot| !slot.busy)
        };
        self.world.until(free).await;
        self.call_now(operations, cache).await
    }

    /// Makes a call, and repeats it while the server answers NFS4ERR_DELAY or NFS4ERR_GRACE.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub(crate) async fn run(
        &self,
        cache: CacheThis,
        operations: impl Fn() -> Vec<Op>,
    ) -> Result<CompoundReply, Lost> {
        loop {
            let reply = self.call(operations(), cache).await?;
            if !matches!(reply.status, Nfsstat4::NFS4ERR_DELAY | Nfsstat4::NFS4ERR_GRACE) {
                return Ok(reply);
            }
            self.pause(100, 1500).await;
        }
    }

    /// Waits for a random time between two numbers of milliseconds.
    pub(crate) async fn pause(&self, start: u64, end: u64) {
        let time = self.draw(|rng| rng.millis(start, end));
        self.world.sleep(time).await;
    }

    /// Makes a call without waiting for the end of reclaims.
    pub(super) async fn call_now(
        &self,
        operations: Vec<Op>,
        cache: CacheThis,
    ) -> Result<CompoundReply, Lost> {
        let (id, sequence, session, highest) = {
            let mut state = self.state.borrow_mut();
            let Some(id) = state.slots.iter().position(|slot| !slot.busy) else { return Err(Lost) };
            let highest = state.slots.len() - 1;
            let slot = &mut state.slots[id];
            slot.busy = true;
            let sequence = slot.sequence.wrapping_add(1);
            state.in_flight += 1;
            (id, sequence, state.session, highest)
        };
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let first = NfsArgop4::OP_SEQUENCE(Sequence4Args {
            sa_sessionid: session,
            sa_sequenceid: sequence,
            sa_slotid: number(id),
            sa_highest_slotid: number(highest),
            sa_cachethis: cache == CacheThis::Yes,
        });
        let all: Vec<Op> = [first].into_iter().chain(operations).collect();
        let result = self.repeat(&all, cache).await;
        let mut state = self.state.borrow_mut();
        state.in_flight -= 1;
        if state.session == session
            && let Some(slot) = state.slots.get_mut(id)
        {
            *slot = ClientSlot { sequence, busy: false };
        }
        result
    }

    /// Sends a call until it has a reply.
    async fn repeat(&self, operations: &[Op], cache: CacheThis) -> Result<CompoundReply, Lost> {
        let xid = self.world.xid();
        let call = SimCall::new(xid, 1, operations);
        let (called, clientid) = (self.world.now(), self.state.borrow().clientid);
        self.world.note(format_args!("client {} calls {xid}: {}", self.host, names(operations)));
        loop {
            let Some(reply) = self.send(&call, || self.state.borrow().phase == Phase::Broken).await else {
                return Err(Lost);
            };
            match self.judge(&reply, cache) {
                SequenceVerdict::Again => self.pause(20, 400).await,
                SequenceVerdict::Broken => {
                    self.lose_session();
                    return Err(Lost);
                }
                SequenceVerdict::Uncached => return Err(Lost),
                SequenceVerdict::Done => {
                    let mut state = self.state.borrow_mut();
                    state.renewed = state.renewed.max(called);
                    drop(state);
                    if let Some(NfsResop4::OP_SEQUENCE(Sequence4Res::NFS4_OK(ok))) = reply.results.first() {
                        self.confirm_delegations(clientid, called, ok.sr_status_flags);
                    }
                    let status = reply.status.name();
                    self.world.note(format_args!("client {} gets the reply to {xid}: {status}", self.host));
                    return Ok(reply);
                }
            }
        }
    }

    /// Notes that the session is lost.
    pub(super) fn lose_session(&self) {
        let mut state = self.state.borrow_mut();
        if state.phase != Phase::Broken {
            // State that was not yet reclaimed belongs to the lease of the former session.
            if state.phase == Phase::Ready {
                (state.held_until_then, state.clientid_then) = (state.renewed, state.clientid);
                state.revoked_then = state.revoked;
            }
            state.phase = Phase::Broken;
            drop(state);
            self.world.note(format_args!("client {} has lost its session", self.host));
        }
    }

    /// Sends a call over one connection after the other until there is a reply, or `ends` returns
    /// true.
    pub(super) async fn send(&self, call: &SimCall, ends: impl Fn() -> bool) -> Option<CompoundReply> {
        loop {
            if ends() {
                return None;
            }
            let Some(connection) = self.connection().await else {
                self.pause(50, 1000).await;
                continue;
            };
            let Some(sent) = self.transmission(connection, call).await else { continue };
            let Some(record) = self.exchange(connection, call.xid, sent.record.clone()).await else {
                continue;
            };
            let reply = match self.receive(&sent, &record) {
                OpenedReply::ContextGone => continue,
                OpenedReply::Results(results) => CompoundReply::parse(&results),
                OpenedReply::Wrong => None,
            };
            if reply.is_none() {
                let detail = format!("client {} gets the record {:016x}", self.host, digest(&record));
                let now = self.world.now();
                self.world.lock().history.complain("every reply can be read", detail, now);
            }
            return reply;
        }
    }

    /// Sends a record and waits for its reply. Without one, the connection is closed.
    pub(super) async fn exchange(&self, connection: u64, xid: u32, record: Vec<u8>) -> Option<Vec<u8>> {
        let patience = self.draw(|rng| rng.millis(2000, 20_000));
        let reply = self.world.call(connection, xid, record, patience).await;
        if reply.is_none() {
            self.world.hang_up(connection);
            let mut state = self.state.borrow_mut();
            let links = state.links.iter_mut().filter(|link| **link == Some(connection));
            links.for_each(|link| *link = None);
        }
        reply
    }

    /// Chooses a connection, and opens it if it is closed.
    pub(super) async fn connection(&self) -> Option<u64> {
        let at = self.draw(|rng| rng.next()) as usize % self.state.borrow().links.len().max(1);
        let known = self.state.borrow().links.get(at).copied().flatten();
        if let Some(known) = known.filter(|known| self.world.lock().network.is_up(*known)) {
            return Some(known);
        }
        let connection = self.world.connect(self.host).await?;
        let old = self.state.borrow_mut().links.get_mut(at)?.replace(connection);
        // Another call has opened one meanwhile.
        if let Some(old) = old.filter(|old| Some(*old) != known) {
            self.world.hang_up(old);
        }
        Some(connection)
    }

    fn judge(&self, reply: &CompoundReply, cache: CacheThis) -> SequenceVerdict {
        let status = match reply.results.first() {
            Some(NfsResop4::OP_SEQUENCE(result)) => result.discriminant(),
            _ => reply.status,
        };
        match status {
            Nfsstat4::NFS4_OK => SequenceVerdict::Done,
            Nfsstat4::NFS4ERR_DELAY => SequenceVerdict::Again,
            Nfsstat4::NFS4ERR_BADSESSION | Nfsstat4::NFS4ERR_DEADSESSION => SequenceVerdict::Broken,
            Nfsstat4::NFS4ERR_RETRY_UNCACHED_REP if cache == CacheThis::No => SequenceVerdict::Uncached,
            other => {
                let detail = format!("client {}: SEQUENCE answers {}", self.host, other.name());
                let now = self.world.now();
                self.world.lock().history.complain("a correct client keeps its slots", detail, now);
                SequenceVerdict::Broken
            }
        }
    }

    /// Makes a call of one operation without a session.
    pub(super) async fn sessionless(&self, operation: Op) -> Option<CompoundReply> {
        let xid = self.world.xid();
        let operations = [operation];
        self.world.note(format_args!("client {} calls {xid}: {}", self.host, names(&operations)));
        self.send(&SimCall::new(xid, 1, &operations), || false).await
    }
}

/// Returns the names of operations, separated by spaces.
pub(super) fn names(operations: &[Op]) -> String {
    let names: Vec<String> = operations.iter().map(|op| name(op.discriminant()).to_owned()).collect();
    names.join(" ")
}

fn name(operation: NfsOpnum4) -> &'static str {
    operation.name().trim_start_matches("OP_")
}
