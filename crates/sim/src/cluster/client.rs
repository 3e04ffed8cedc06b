//! A client of a gateway: it holds locks and exclusive opens, counts under them, and reclaims them.

use super::gateway::{ClusterParts, GatewayProcess};
use super::holds::{Claim, Holds};
use crate::client::{
    CELLS, CompoundReply, Creates, LockClaim, Lost, Op, Reservation, arguments, at, create_session,
    exchange_id, lock_range, open, put, read, reclaim, sys_call, write,
};
use crate::plan::LEASE;
use nfs4::*;
use rpc::ReplyHeader;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// Rounds with a lock or an open between two decisions to close.
const STEPS_MAX: usize = 4;
/// How long a client waits for a reply.
const REPLY_TIME_MAX: Duration = Duration::from_secs(4);
/// Attempts to get a lock or an open before a client does something else.
const ATTEMPTS_MAX: usize = 8;
/// The flags of SEQUENCE that report lost state (RFC 8881 section 18.46).
const REVOKED: u32 = SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED
    | SEQ4_STATUS_EXPIRED_SOME_STATE_REVOKED
    | SEQ4_STATUS_ADMIN_STATE_REVOKED;

/// The file that a client has open.
#[derive(Clone, Debug)]
struct HeldFile {
    /// Its number: the files of all, then one for each gateway.
    file: usize,
    /// Whether the open itself excludes others.
    denies: bool,
    handle: Vec<u8>,
    stateid: Stateid4,
    lock: Option<Stateid4>,
    /// The place of the lock or the open among all holds.
    hold: Option<usize>,
}

/// A client of one gateway.
pub(super) struct SimClient {
    shared: ClusterParts,
    holds: Rc<RefCell<Holds>>,
    node: usize,
    host: usize,
    life: Cell<u32>,
    xid: Cell<u32>,
    session: Cell<Option<Sessionid4>>,
    sequence: Cell<u32>,
    /// The call of the last SEQUENCE that reported no lost state.
    renewed: Cell<Duration>,
    /// Whether the client has a client ID for which it has sent RECLAIM_COMPLETE.
    complete: Cell<Option<Clientid4>>,
    open: RefCell<Option<HeldFile>>,
    /// Rounds that it has finished.
    pub(super) rounds: Cell<usize>,
    /// Until when it reaches no gateway.
    pub(super) cut_until: Cell<Duration>,
    /// Whether its machine is to restart.
    pub(super) restarts: Cell<bool>,
}

/// The outcome of a step of a round.
type Stepped = Result<(), Lost>;

impl SimClient {
    pub(super) fn new(
        shared: &ClusterParts,
        holds: &Rc<RefCell<Holds>>,
        node: usize,
        host: usize,
    ) -> Rc<Self> {
        Rc::new(Self {
            shared: shared.clone(),
            holds: holds.clone(),
            node,
            host,
            life: Cell::new(0),
            xid: Cell::default(),
            session: Cell::default(),
            sequence: Cell::default(),
            renewed: Cell::default(),
            complete: Cell::default(),
            open: RefCell::default(),
            rounds: Cell::default(),
            cut_until: Cell::default(),
            restarts: Cell::default(),
        })
    }

    /// Holds files and counts in them, without an end.
    pub(super) async fn work(self: Rc<Self>) {
        loop {
            if self.restarts.take() {
                self.restart();
            }
            if self.session.get().is_none() && self.establish().await.is_err() {
                self.pause(100, 1500).await;
                continue;
            }
            match self.round().await {
                Ok(()) => self.pause(50, 2500).await,
                Err(Lost) => {
                    self.session.set(None);
                    self.pause(20, 800).await;
                }
            }
        }
    }

    async fn pause(&self, start: u64, end: u64) {
        self.shared.world.pause(start, end).await;
    }

    fn note(&self, event: std::fmt::Arguments<'_>) {
        self.shared.world.note(format_args!("client {}: {event}", self.host));
    }

    /// Begins a new life, which knows nothing of the former one.
    fn restart(&self) {
        self.note(format_args!("restarts"));
        self.lose(self.sure_until());
        self.life.set(self.life.get() + 1);
        self.session.set(None);
        self.complete.set(None);
    }

    /// Sends a call until there is a reply.
    async fn send(&self, operations: &[Op]) -> CompoundReply {
        let xid = self.xid.get() + 1;
        self.xid.set(xid);
        let record = sys_call(self.host, xid, &arguments(1, operations));
        loop {
            if let Some(reply) = self.exchange(record.clone()).await {
                let last = operations.last().map(|last| last.discriminant().name());
                self.note(format_args!("{}: {}", last.unwrap_or_default(), reply.status.name()));
                return reply;
            }
            self.pause(20, 700).await;
        }
    }

    /// Sends a call once, to a process that has the gateway's address.
    async fn exchange(&self, record: Vec<u8>) -> Option<CompoundReply> {
        let world = self.shared.world.clone();
        if world.now() < self.cut_until.get() && !world.lock().calm {
            return None;
        }
        let all = self.reached();
        // While the address moves, both have it in the eyes of some.
        let gateway = all.get(world.draw(|rng| rng.below(all.len())))?.clone();
        let slot = Rc::new(RefCell::new(None));
        let (answer, host, arrives) = (slot.clone(), self.host, world.clone());
        let (task, connection) = (world.current(), self.host as u64 * 100_000 + gateway.process);
        world.after(world.delay(), move || {
            let executing = arrives.clone();
            arrives.spawn(gateway.process, async move {
                let Some(reply) = gateway.execute(connection, host, record).await else { return };
                if executing.fault_in(40) {
                    return;
                }
                let wakes = executing.clone();
                executing.after(executing.delay(), move || {
                    *answer.borrow_mut() = Some(reply);
                    wakes.wake(task);
                });
            });
        });
        world.wait(REPLY_TIME_MAX, || slot.borrow().is_some()).await;
        let record = slot.borrow_mut().take()?;
        let ReplyHeader::Accepted { results_at, .. } = ReplyHeader::parse(&record).ok()? else { return None };
        CompoundReply::parse(record.get(results_at..)?)
    }

    /// Returns the processes that have the address of the client's gateway in the eyes of some.
    fn reached(&self) -> Vec<Rc<GatewayProcess>> {
        let serves = |gateway: &&Rc<GatewayProcess>| {
            gateway.node == self.node && gateway.lives() && gateway.running.borrow().is_some()
        };
        self.shared.gateways.borrow().iter().filter(serves).cloned().collect()
    }

    /// Makes a call in the session.
    async fn call(&self, operations: Vec<Op>) -> Result<CompoundReply, Lost> {
        let Some(session) = self.session.get() else { return Err(Lost) };
        let sequence = self.sequence.get() + 1;
        let first = NfsArgop4::OP_SEQUENCE(Sequence4Args {
            sa_sessionid: session,
            sa_sequenceid: sequence,
            sa_slotid: 0,
            sa_highest_slotid: 0,
            sa_cachethis: true,
        });
        let all: Vec<Op> = [first].into_iter().chain(operations).collect();
        let called = self.shared.world.now();
        loop {
            let reply = self.send(&all).await;
            let flags = match reply.results.first() {
                Some(NfsResop4::OP_SEQUENCE(Sequence4Res::NFS4_OK(ok))) => ok.sr_status_flags,
                Some(NfsResop4::OP_SEQUENCE(other)) if other.discriminant() == Nfsstat4::NFS4ERR_DELAY => {
                    self.pause(20, 300).await;
                    continue;
                }
                _ => return Err(Lost),
            };
            self.sequence.set(sequence);
            if flags & REVOKED != 0 {
                self.note(format_args!("learns that state was revoked"));
                self.lose(self.sure_until());
                // The state goes with the client ID.
                self.restart();
                return Err(Lost);
            }
            self.renewed.set(called.max(self.renewed.get()));
            return Ok(reply);
        }
    }

    /// Returns until when the client may rely on its state.
    fn sure_until(&self) -> Duration {
        self.shared.world.now().min(self.renewed.get() + LEASE)
    }

    /// Gives up the open file.
    fn lose(&self, until: Duration) {
        if let Some(hold) = self.open.take().and_then(|open| open.hold) {
            self.holds.borrow_mut().end(hold, until);
        }
    }

    /// Creates a session and reclaims.
    async fn establish(&self) -> Result<(), Lost> {
        let life = self.life.get();
        let reply = self.send(&[exchange_id(self.host, life)]).await;
        let Some(NfsResop4::OP_EXCHANGE_ID(ExchangeId4Res::NFS4_OK(known))) = reply.results.first() else {
            return Err(Lost);
        };
        let (clientid, sequence) = (known.eir_clientid, known.eir_sequenceid);
        let reply =
            self.send(&[create_session(clientid, sequence, 1, vec![CallbackSecParms4::AUTH_NONE])]).await;
        let Some(NfsResop4::OP_CREATE_SESSION(CreateSession4Res::NFS4_OK(made))) = reply.results.first()
        else {
            return Err(Lost);
        };
        self.session.set(Some(made.csr_sessionid));
        self.sequence.set(0);
        self.note(format_args!("has a session as {clientid:016x}"));
        if self.complete.get() == Some(clientid) {
            return Ok(());
        }
        let before = self.renewed.get();
        let done = self.reclaim(before).await;
        if done.is_ok() {
            self.complete.set(Some(clientid));
        } else {
            // The next attempt reclaims by the same lease.
            self.renewed.set(before);
            self.session.set(None);
        }
        done
    }

    async fn reclaim(&self, renewed: Duration) -> Result<(), Lost> {
        let open = self.open.borrow().clone();
        if let Some(open) = open.filter(|open| open.denies || open.hold.is_some()) {
            if let Some(status) = self.reclaim_file(&open).await? {
                self.refused(&open, renewed, status);
            }
        } else {
            self.lose(self.sure_until());
        }
        loop {
            let last = NfsArgop4::OP_RECLAIM_COMPLETE(ReclaimComplete4Args { rca_one_fs: false });
            let reply = self.call(vec![last]).await?;
            match reply.status {
                Nfsstat4::NFS4ERR_DELAY => self.pause(50, 500).await,
                _ => return Ok(()),
            }
        }
    }

    /// Reclaims the open file and its lock; returns the status of a refusal.
    async fn reclaim_file(&self, open: &HeldFile) -> Result<Option<Nfsstat4>, Lost> {
        let reservation = self.reservation(open.denies);
        let none = OpenDelegationType4::OPEN_DELEGATE_NONE;
        let reply =
            self.patient(|| vec![put(&open.handle), reclaim(&self.owner(), reservation, none)]).await?;
        let Some(NfsResop4::OP_OPEN(Open4Res::NFS4_OK(opened))) = reply.results.last() else {
            return Ok(Some(reply.status));
        };
        let (stateid, mut lock) = (opened.stateid, None);
        if open.lock.is_some() && open.hold.is_some() {
            let reply =
                self.patient(|| self.lock_operations(&open.handle, stateid, LockClaim::Reclaim)).await?;
            let Some(NfsResop4::OP_LOCK(Lock4Res::NFS4_OK(locked))) = reply.results.last() else {
                return Ok(Some(reply.status));
            };
            lock = Some(locked.lock_stateid);
        }
        self.note(format_args!("reclaims file {}", open.file));
        *self.open.borrow_mut() = Some(HeldFile { stateid, lock, ..open.clone() });
        Ok(None)
    }

    /// Makes a call until it has another answer than NFS4ERR_DELAY.
    async fn patient(&self, operations: impl Fn() -> Vec<Op>) -> Result<CompoundReply, Lost> {
        loop {
            let reply = self.call(operations()).await?;
            if reply.status != Nfsstat4::NFS4ERR_DELAY {
                return Ok(reply);
            }
            self.pause(50, 500).await;
        }
    }

    /// Gives up a file that may not be reclaimed, and checks that this is right.
    fn refused(&self, open: &HeldFile, renewed: Duration, status: Nfsstat4) {
        let now = self.shared.world.now();
        self.note(format_args!("may not reclaim file {}: {}", open.file, status.name()));
        self.lose(now.min(renewed + LEASE));
        let interrupted = self.shared.storage().interrupted().is_some_and(|at| at >= renewed);
        let was_cut = self.cut_until.get() >= renewed;
        if !interrupted && !was_cut && self.holds.borrow().must_be_reclaimed(self.node, renewed, now) {
            let detail = format!(
                "client {} may not reclaim file {} by a lease of {:.3}: {}",
                self.host,
                open.file,
                renewed.as_secs_f64(),
                status.name()
            );
            self.shared.world.complain("a client in time reclaims its state", detail);
        }
    }

    fn owner(&self) -> Vec<u8> {
        format!("{}-{}", self.host, self.life.get()).into_bytes()
    }

    fn reservation(&self, denies: bool) -> Reservation {
        let deny = if denies { OPEN4_SHARE_DENY_BOTH } else { OPEN4_SHARE_DENY_NONE };
        Reservation { deny, ..Reservation::PLAIN }
    }

    fn lock_operations(&self, handle: &[u8], open_stateid: Stateid4, claim: LockClaim) -> Vec<Op> {
        let locker = Locker4::TRUE(OpenToLockOwner4 {
            open_seqid: 0,
            open_stateid,
            lock_seqid: 0,
            lock_owner: StateOwner4 { clientid: 0, owner: self.owner().into() },
        });
        vec![put(handle), lock_range((true, 0, CELLS), claim, locker)]
    }

    /// Opens and locks a file if none is held, counts in it for a while, and releases it.
    async fn round(&self) -> Stepped {
        let held = self.open.borrow().as_ref().is_some_and(|open| open.hold.is_some());
        if !held && !self.acquire().await? {
            return self.release().await;
        }
        for _ in 0..self.shared.world.draw(|rng| rng.between(1, STEPS_MAX)) {
            if !self.count().await? {
                return Ok(());
            }
            self.pause(0, 6000).await;
            if self.restarts.get() {
                return Ok(());
            }
        }
        self.release().await?;
        self.rounds.set(self.rounds.get() + 1);
        Ok(())
    }

    /// Opens a file and locks it; returns whether it is held.
    async fn acquire(&self) -> Result<bool, Lost> {
        let denies = self.shared.world.draw(|rng| rng.one_in(3));
        let file = if denies {
            super::FILES + self.node
        } else {
            self.shared.world.draw(|rng| rng.below(super::FILES))
        };
        for _ in 0..ATTEMPTS_MAX {
            let open_it =
                open(&super::path(file), &self.owner(), Creates::Unchecked, self.reservation(denies));
            let operations = at(super::DIRECTORY).into_iter().chain([open_it, NfsArgop4::OP_GETFH]).collect();
            let reply = self.call(operations).await?;
            let opened = reply.results.iter().find_map(|result| match result {
                NfsResop4::OP_OPEN(Open4Res::NFS4_OK(ok)) => Some(ok.stateid),
                _ => None,
            });
            let (Some(stateid), Some(handle)) = (opened, reply.handle()) else {
                self.pause(200, 1500).await;
                continue;
            };
            let hold = denies.then(|| self.claim(file));
            *self.open.borrow_mut() = Some(HeldFile { file, denies, handle, stateid, lock: None, hold });
            return if denies { Ok(true) } else { self.acquire_lock().await };
        }
        Ok(false)
    }

    /// Notes that the client holds a file from now on.
    fn claim(&self, file: usize) -> usize {
        let claim =
            Claim { owner: (self.host, self.life.get()), file, from: self.shared.world.now(), until: None };
        self.note(format_args!("holds file {file}"));
        self.holds.borrow_mut().begin(claim)
    }

    async fn acquire_lock(&self) -> Result<bool, Lost> {
        let Some(open) = self.open.borrow().clone() else { return Ok(false) };
        for _ in 0..ATTEMPTS_MAX {
            let reply = self.call(self.lock_operations(&open.handle, open.stateid, LockClaim::New)).await?;
            if let Some(NfsResop4::OP_LOCK(Lock4Res::NFS4_OK(ok))) = reply.results.last() {
                let hold = Some(self.claim(open.file));
                *self.open.borrow_mut() = Some(HeldFile { lock: Some(ok.lock_stateid), hold, ..open });
                return Ok(true);
            }
            let passes = [Nfsstat4::NFS4ERR_DENIED, Nfsstat4::NFS4ERR_GRACE, Nfsstat4::NFS4ERR_DELAY];
            if !passes.contains(&reply.status) {
                return Ok(false);
            }
            self.pause(200, 1500).await;
        }
        Ok(false)
    }

    /// Reads the number in the file and writes the next one; returns whether the file is still
    /// held.
    async fn count(&self) -> Result<bool, Lost> {
        let Some(open) = self.open.borrow().clone() else { return Ok(false) };
        let stateid = open.lock.unwrap_or(open.stateid);
        let (called, sure) = (self.shared.world.now(), self.renewed.get() + LEASE);
        let reply = self.call(vec![put(&open.handle), read(stateid, 0, 8)]).await?;
        let number = match reply.results.last() {
            Some(NfsResop4::OP_READ(Read4Res::NFS4_OK(ok))) => {
                <[u8; 8]>::try_from(&ok.data[..]).map_or(0, u64::from_be_bytes)
            }
            _ => return Ok(self.meets(reply.status, sure)),
        };
        if let Some(lost) = self.holds.borrow().lost(open.file, number, called) {
            let detail = format!("file {} has {number}, and {lost} was acknowledged before", open.file);
            self.shared.world.complain("no lost acknowledged data", detail);
        }
        let (sure, next) = (self.renewed.get() + LEASE, number + 1);
        let data = next.to_be_bytes().to_vec();
        let reply =
            self.call(vec![put(&open.handle), write(stateid, 0, data, StableHow4::FILE_SYNC4)]).await?;
        if !matches!(reply.results.last(), Some(NfsResop4::OP_WRITE(Write4Res::NFS4_OK(_)))) {
            return Ok(self.meets(reply.status, sure));
        }
        let now = self.shared.world.now();
        if !self.holds.borrow_mut().acknowledge(open.file, next, now) {
            let detail = format!("two writers of file {} were told that they wrote {next}", open.file);
            self.shared.world.complain("no lost acknowledged data", detail);
        }
        Ok(true)
    }

    /// Deals with an error; returns whether the state is still there.
    fn meets(&self, status: Nfsstat4, sure_until: Duration) -> bool {
        let passes = [Nfsstat4::NFS4ERR_DELAY, Nfsstat4::NFS4ERR_IO, Nfsstat4::NFS4ERR_GRACE];
        if !passes.contains(&status) {
            self.note(format_args!("has lost its state: {}", status.name()));
            self.lose(self.shared.world.now().min(sure_until));
        }
        passes.contains(&status)
    }

    /// Unlocks and closes. The client does not count on the state from the call on.
    async fn release(&self) -> Stepped {
        let Some(open) = self.open.borrow().clone() else { return Ok(()) };
        self.lose(self.sure_until());
        if let Some(lock_stateid) = open.lock {
            let (locktype, seqid, offset, length) = (NfsLockType4::WRITE_LT, 0, 0, CELLS as u64);
            let unlock = NfsArgop4::OP_LOCKU(Locku4Args { locktype, seqid, lock_stateid, offset, length });
            self.patient(|| vec![put(&open.handle), unlock.clone()]).await?;
        }
        let close = NfsArgop4::OP_CLOSE(Close4Args { seqid: 0, open_stateid: open.stateid });
        self.patient(|| vec![put(&open.handle), close.clone()]).await.map(drop)
    }
}
