//! A client of NFSv4.0 (RFC 7530): no session, but owners with sequence numbers.

mod locks;

use super::calls::names;
use super::locked::LockedBytes;
use super::security::SimCall;
use super::{Client, CompoundReply, Creates, Op, Reservation, open_of, put, reclaim_of};
use crate::world::Inner;
use nfs4::*;
use std::rc::Rc;
use std::time::Duration;

/// The client and its only open-owner.
pub(crate) struct SimClient40 {
    client: Rc<Client>,
    clientid: u64,
    /// The sequence number of the owner's last request.
    seqid: u32,
    /// Whether the owner is confirmed.
    confirmed: bool,
    /// The number of lock-owners so far: each open has its own.
    lock_owners: u32,
}

/// The NFSv4.0 state that outlives a worker: a restart of the client's machine ends it.
#[derive(Default)]
pub(super) struct V40State {
    /// The time of the last call that has renewed the lease.
    pub(super) renewed: Duration,
    /// While the client reclaims, the same at the time when the server forgot it.
    pub(super) recovering: Option<Duration>,
    /// The locks of the file that is open for locks.
    pub(super) locked: Option<LockedBytes>,
}

impl V40State {
    /// Returns the time up to which the client can be sure of its locks, unless it hears from the
    /// server again.
    pub(super) fn sure_until(&self, inner: &Inner) -> Duration {
        inner.now.min(inner.history.lease_end(self.recovering.unwrap_or(self.renewed)))
    }
}

/// The outcome of an OPEN.
pub(crate) enum Opened40 {
    /// The file is open.
    Open {
        /// The filehandle of the file.
        handle: Vec<u8>,
        /// The stateid of the open.
        stateid: Stateid4,
        /// Whether the OPEN has created it.
        created: bool,
    },
    /// The server answered with this status, and has executed nothing.
    Failed(Nfsstat4),
    /// The outcome is unknown: the server has forgotten the client, or may have executed a late
    /// copy.
    Unknown,
}

impl SimClient40 {
    /// Makes the NFSv4.0 side of a client. The server does not know it yet.
    pub(crate) fn new(client: Rc<Client>) -> Self {
        let seqid = client.draw(|rng| rng.below(1000) as u32);
        Self { client, clientid: 0, seqid, confirmed: false, lock_owners: 0 }
    }

    /// Makes a call, and repeats it after each lost connection until it has a reply.
    async fn call(&self, operations: &[Op]) -> Option<CompoundReply> {
        let (client, xid) = (&self.client, self.client.world.xid());
        client.world.note(format_args!("client {} calls {xid} (4.0): {}", client.host, names(operations)));
        let reply = client.send(&SimCall::new(xid, 0, operations), || false).await?;
        client.world.note(format_args!("client {} is answered {xid}: {}", client.host, reply.status.name()));
        Some(reply)
    }

    /// Gets a confirmed client ID (RFC 7530 sections 16.33 and 16.34), with as many attempts as it
    /// takes.
    async fn identify(&mut self) {
        let (host, life) = (self.client.host, self.client.life);
        let mut verifier = [2; 8];
        verifier[..4].copy_from_slice(&life.to_be_bytes());
        loop {
            let set = NfsArgop4::OP_SETCLIENTID(Setclientid4Args {
                client: NfsClientId4 { verifier, id: format!("client40 {host}").into_bytes().into() },
                callback: CbClient4 {
                    cb_program: 0x4000_0000,
                    cb_location: Netaddr4 { na_r_netid: b"tcp".into(), na_r_addr: b"192.0.2.1.3.32".into() },
                },
                callback_ident: 1,
            });
            let reply = self.call(&[set]).await;
            let set = match reply.as_ref().and_then(|reply| reply.results.first()) {
                Some(NfsResop4::OP_SETCLIENTID(Setclientid4Res::NFS4_OK(ok))) => *ok,
                _ => {
                    self.expect("SETCLIENTID", reply.as_ref(), &[Nfsstat4::NFS4ERR_DELAY]);
                    self.client.pause(50, 500).await;
                    continue;
                }
            };
            let (clientid, setclientid_confirm) = (set.clientid, set.setclientid_confirm);
            let confirm = SetclientidConfirm4Args { clientid, setclientid_confirm };
            let called = self.client.world.now();
            let reply = self.call(&[NfsArgop4::OP_SETCLIENTID_CONFIRM(confirm)]).await;
            if reply.as_ref().is_some_and(|reply| reply.status == Nfsstat4::NFS4_OK) {
                self.renewed(called);
                (self.clientid, self.confirmed) = (clientid, false);
                return;
            }
            // The server has restarted, or a late copy of SETCLIENTID has replaced the verifier.
            let known = [Nfsstat4::NFS4ERR_DELAY, Nfsstat4::NFS4ERR_STALE_CLIENTID];
            self.expect("SETCLIENTID_CONFIRM", reply.as_ref(), &known);
            self.client.pause(50, 500).await;
        }
    }

    /// Reports a status that is not expected.
    fn expect(&self, operation: &str, reply: Option<&CompoundReply>, known: &[Nfsstat4]) {
        let Some(status) = reply.map(|reply| reply.status).filter(|status| !known.contains(status)) else {
            return;
        };
        let detail = format!("client {}: {operation} of NFSv4.0 answers {}", self.client.host, status.name());
        let now = self.client.world.now();
        let property = "a correct NFSv4.0 client keeps its owner";
        self.client.world.lock().history.complain(property, detail, now);
    }

    /// Counts a request of the open-owner, unless the server did not.
    fn count(&mut self, reply: &CompoundReply, reached: bool) {
        if is_counted(reply, reached) {
            self.seqid = self.seqid.wrapping_add(1);
        }
    }

    /// Notes that a call at this time has renewed the lease (RFC 7530 section 9.5).
    fn renewed(&self, called: Duration) {
        let mut state = self.client.state.borrow_mut();
        state.v40.renewed = state.v40.renewed.max(called);
    }

    /// Returns the name of the open-owner.
    fn owner(&self) -> Vec<u8> {
        format!("owner {} {}", self.client.host, self.client.life).into_bytes()
    }

    /// Makes an OPEN that reclaims a file, with the next sequence number.
    fn reclaim_arguments(&self) -> Op {
        let reservation = Reservation::V40;
        let none = OpenDelegationType4::OPEN_DELEGATE_NONE;
        let mut operation = reclaim_of(&self.owner(), reservation, none);
        operation.seqid = self.seqid.wrapping_add(1);
        operation.owner.clientid = self.clientid;
        NfsArgop4::OP_OPEN(operation)
    }

    /// Creates a file by an OPEN that fails if the name exists, and confirms the owner.
    pub(crate) async fn create(&mut self, path: &[Op], name: &str) -> Opened40 {
        self.open(path, name, Creates::Guarded).await
    }

    /// Opens a file for reading and writing, and confirms the owner.
    async fn open(&mut self, path: &[Op], name: &str, creates: Creates) -> Opened40 {
        if self.clientid == 0 {
            self.identify().await;
        }
        let mut tries = 0;
        loop {
            tries += 1;
            let called = self.client.world.now();
            let mut operation = open_of(name, &self.owner(), creates, Reservation::V40);
            operation.seqid = self.seqid.wrapping_add(1);
            operation.owner.clientid = self.clientid;
            let last = [NfsArgop4::OP_OPEN(operation), NfsArgop4::OP_GETFH];
            let operations: Vec<Op> = path.iter().cloned().chain(last).collect();
            let Some(reply) = self.call(&operations).await else { return Opened40::Unknown };
            let opened = reply.results.iter().find_map(|result| match result {
                NfsResop4::OP_OPEN(result) => Some(result.clone()),
                _ => None,
            });
            self.count(&reply, opened.is_some());
            match (opened, reply.handle(), reply.status) {
                (Some(Open4Res::NFS4_OK(ok)), Some(handle), _) => {
                    let confirm = ok.rflags & OPEN4_RESULT_CONFIRM != 0;
                    self.confirmed = true;
                    self.renewed(called);
                    let created = ok.cinfo.before != ok.cinfo.after;
                    let stateid = if confirm { self.confirm(&handle, ok.stateid).await } else { ok.stateid };
                    return Opened40::Open { handle, stateid, created };
                }
                (_, _, Nfsstat4::NFS4ERR_DELAY | Nfsstat4::NFS4ERR_GRACE | Nfsstat4::NFS4ERR_RESOURCE) => {
                    self.client.pause(100, 1500).await;
                }
                (_, _, Nfsstat4::NFS4ERR_STALE_CLIENTID | Nfsstat4::NFS4ERR_EXPIRED) => {
                    self.clientid = 0;
                    return Opened40::Unknown;
                }
                // Until the owner is confirmed, the server executes a late copy of an OPEN that has
                // failed (RFC 7530 section 16.18.5).
                (_, _, Nfsstat4::NFS4ERR_EXIST) if !self.confirmed && tries > 1 => {
                    return Opened40::Unknown;
                }
                (_, _, status) => {
                    self.expect("OPEN", Some(&reply), &[Nfsstat4::NFS4ERR_EXIST]);
                    return Opened40::Failed(status);
                }
            }
        }
    }

    /// Confirms the open-owner with OPEN_CONFIRM (RFC 7530 section 16.18).
    async fn confirm(&mut self, handle: &[u8], open_stateid: Stateid4) -> Stateid4 {
        let reply = self
            .sequenced(handle, |seqid| NfsArgop4::OP_OPEN_CONFIRM(OpenConfirm4Args { open_stateid, seqid }));
        match reply.await.as_ref().and_then(|reply| reply.results.last()) {
            Some(NfsResop4::OP_OPEN_CONFIRM(OpenConfirm4Res::NFS4_OK(ok))) => ok.open_stateid,
            _ => open_stateid,
        }
    }

    /// Closes an open file.
    pub(crate) async fn close(&mut self, handle: &[u8], open_stateid: Stateid4) {
        self.sequenced(handle, |seqid| NfsArgop4::OP_CLOSE(Close4Args { seqid, open_stateid })).await;
    }

    /// Makes a sequenced call on an open file until the server has executed it, or no longer knows
    /// the open.
    async fn sequenced(&mut self, handle: &[u8], operation: impl Fn(u32) -> Op) -> Option<CompoundReply> {
        loop {
            let called = self.client.world.now();
            let operations = [put(handle), operation(self.seqid.wrapping_add(1))];
            let reply = self.call(&operations).await?;
            self.count(&reply, reply.results.len() == operations.len());
            match reply.status {
                Nfsstat4::NFS4ERR_DELAY | Nfsstat4::NFS4ERR_GRACE | Nfsstat4::NFS4ERR_RESOURCE => {
                    self.client.pause(100, 1500).await;
                }
                status => {
                    let gone = [
                        Nfsstat4::NFS4_OK,
                        Nfsstat4::NFS4ERR_STALE_STATEID,
                        Nfsstat4::NFS4ERR_BAD_STATEID,
                        Nfsstat4::NFS4ERR_EXPIRED,
                        Nfsstat4::NFS4ERR_STALE,
                    ];
                    self.expect("OPEN_CONFIRM or CLOSE", Some(&reply), &gone);
                    match status {
                        Nfsstat4::NFS4_OK => self.renewed(called),
                        _ => self.clientid = 0,
                    }
                    return Some(reply);
                }
            }
        }
    }
}

/// Returns whether the server counts a request in the sequence of its owner (RFC 7530 section
/// 9.1.7). `reached` says that the sequenced operation has a result.
fn is_counted(reply: &CompoundReply, reached: bool) -> bool {
    let uncounted = [
        Nfsstat4::NFS4ERR_STALE_CLIENTID,
        Nfsstat4::NFS4ERR_STALE_STATEID,
        Nfsstat4::NFS4ERR_BAD_STATEID,
        Nfsstat4::NFS4ERR_BAD_SEQID,
        Nfsstat4::NFS4ERR_RESOURCE,
    ];
    reached && !uncounted.contains(&reply.status)
}
