//! Byte-range locks of NFSv4.0, and their reclaim after a restart of the server (RFC 7530 sections
//! 9.1 and 9.6).

use super::{Opened40, SimClient40, is_counted};
use crate::client::locked::{LockedBytes, held_until};
use crate::client::{CELLS, CompoundReply, Creates, LockClaim, Op, at, lock_range, put};
use crate::trace::digest;
use crate::world::Inner;
use nfs4::*;
use std::time::Duration;

/// The worker that owns the locks, in the history.
const WORKER: usize = 6;

/// A file that is open for locks.
pub(crate) struct LockFile40 {
    /// The hash of the file's path.
    file: u64,
    handle: Vec<u8>,
    open: Stateid4,
    /// The stateid of the lock-owner, after its first LOCK.
    locker: Option<Stateid4>,
    lock_owner: Vec<u8>,
    /// The sequence number of the lock-owner's last request.
    seqid: u32,
    /// Whether the server no longer knows the open.
    pub lost: bool,
}

/// The end of an attempt to reclaim.
enum ReclaimEnd {
    Done,
    /// The server has refused an operation.
    Refused(Nfsstat4),
    /// The server has restarted again. NFSv4.0 has no RECLAIM_COMPLETE, so a client cannot reclaim
    /// the rest: others may have had it since.
    Interrupted,
}

impl LockFile40 {
    /// Makes a LOCK with the next sequence numbers.
    fn lock(&self, client: &SimClient40, range: (bool, usize, usize), claim: LockClaim) -> Op {
        let lock_seqid = self.seqid.wrapping_add(1);
        let locker = match self.locker {
            Some(lock_stateid) => Locker4::FALSE(ExistLockOwner4 { lock_stateid, lock_seqid }),
            None => Locker4::TRUE(OpenToLockOwner4 {
                open_seqid: client.seqid.wrapping_add(1),
                open_stateid: self.open,
                lock_seqid,
                lock_owner: StateOwner4 { clientid: client.clientid, owner: self.lock_owner.clone().into() },
            }),
        };
        lock_range(range, claim, locker)
    }
}

impl SimClient40 {
    /// Opens a file for locks. `None` if that failed.
    pub(crate) async fn open_for_locks(&mut self, directory: &str, name: &str) -> Option<LockFile40> {
        let file = digest(format!("{directory}/{name}").as_bytes());
        let Opened40::Open { handle, stateid, created } =
            self.open(&at(directory), name, Creates::Unchecked).await
        else {
            return None;
        };
        if created {
            self.client.world.lock().history.stable_files.insert(file);
        }
        let owner = (self.client.host, self.client.life, WORKER);
        self.client.state.borrow_mut().v40.locked = Some(LockedBytes::new(owner, file));
        let lock_owner = self.new_lock_owner();
        Some(LockFile40 { file, handle, open: stateid, locker: None, lock_owner, seqid: 0, lost: false })
    }

    /// Draws the name of a lock-owner that the server cannot know.
    fn new_lock_owner(&mut self) -> Vec<u8> {
        self.lock_owners += 1;
        format!("lock {} {} {}", self.client.host, self.client.life, self.lock_owners).into_bytes()
    }

    /// Changes the record of locked bytes. `until` is the time up to which the client can be sure
    /// of them, unless it hears from the server again.
    fn locked<T>(&self, change: impl FnOnce(&mut LockedBytes, &mut Inner, Duration) -> T) -> Option<T> {
        let mut inner = self.client.world.lock();
        let mut state = self.client.state.borrow_mut();
        let until = state.v40.sure_until(&inner);
        state.v40.locked.as_mut().map(|locked| change(locked, &mut inner, until))
    }

    /// Locks bytes, if no other owner has them.
    pub(crate) async fn lock(&mut self, file: &mut LockFile40, write: bool, start: usize, length: usize) {
        let length = length.min(CELLS - start);
        let range = start..start + length;
        if !write {
            self.locked(|locked, inner, until| locked.downgrade(inner, range.clone(), until));
        }
        let lock = |client: &Self, file: &LockFile40| {
            Some(file.lock(client, (write, start, length), LockClaim::New))
        };
        let Some(reply) = self.sequenced_lock(file, lock).await else { return };
        match reply.results.last() {
            Some(NfsResop4::OP_LOCK(Lock4Res::NFS4_OK(ok))) => {
                file.locker = Some(ok.lock_stateid);
                self.locked(|locked, inner, until| locked.lock(inner, range, write, until));
            }
            Some(NfsResop4::OP_LOCK(Lock4Res::NFS4ERR_DENIED(_))) => {}
            _ => self.expect("LOCK", Some(&reply), &[]),
        }
    }

    /// Unlocks bytes, with as many attempts as it takes.
    pub(crate) async fn unlock(&mut self, file: &mut LockFile40, start: usize, length: usize) {
        let length = length.min(CELLS - start);
        let (called, life) = (self.client.world.now(), self.clientid);
        let range = start..start + length;
        let released = self.locked(|locked, inner, until| locked.unlock(inner, range, until));
        let unlock = |_: &Self, file: &LockFile40| {
            let (locktype, offset, length) = (NfsLockType4::WRITE_LT, start as u64, length as u64);
            let seqid = file.seqid.wrapping_add(1);
            // Without a lock-owner there is no lock, perhaps because none was left to reclaim.
            let lock_stateid = file.locker?;
            Some(NfsArgop4::OP_LOCKU(Locku4Args { locktype, seqid, lock_stateid, offset, length }))
        };
        let Some(reply) = self.sequenced_lock(file, unlock).await else { return };
        match reply.results.last() {
            Some(NfsResop4::OP_LOCKU(Locku4Res::NFS4_OK(stateid))) => {
                file.locker = Some(*stateid);
                if self.clientid == life {
                    let mut inner = self.client.world.lock();
                    held_until(&mut inner, &released.unwrap_or_default(), called);
                }
            }
            _ => self.expect("LOCKU", Some(&reply), &[]),
        }
    }

    /// Renews the lease, or recovers if the server does not know the client.
    pub(crate) async fn renew(&mut self, file: &mut LockFile40) {
        let called = self.client.world.now();
        let renew = NfsArgop4::OP_RENEW(Renew4Args { clientid: self.clientid });
        let Some(reply) = self.call(&[renew]).await else { return };
        match reply.status {
            Nfsstat4::NFS4_OK => self.renewed(called),
            Nfsstat4::NFS4ERR_STALE_CLIENTID | Nfsstat4::NFS4ERR_EXPIRED => self.recover(file, &reply).await,
            _ => self.expect("RENEW", Some(&reply), &[Nfsstat4::NFS4ERR_DELAY]),
        }
    }

    /// Closes the file, if the server knows the open. All bytes must be unlocked.
    pub(crate) async fn close_locked(&mut self, file: LockFile40) {
        if !file.lost {
            self.close(&file.handle, file.open).await;
        }
        self.client.state.borrow_mut().v40.locked = None;
    }

    /// Makes a call of a lock-owner until the server has executed it, and reclaims in between if
    /// the server has restarted. `None` if the locks are lost, or there is nothing to call.
    async fn sequenced_lock(
        &mut self,
        file: &mut LockFile40,
        operation: impl Fn(&Self, &LockFile40) -> Option<Op>,
    ) -> Option<CompoundReply> {
        while !file.lost {
            let operation = operation(self, file)?;
            let reply = self.try_lock(file, operation).await?;
            match reply.status {
                Nfsstat4::NFS4ERR_DELAY | Nfsstat4::NFS4ERR_GRACE | Nfsstat4::NFS4ERR_RESOURCE => {
                    self.client.pause(100, 1500).await;
                }
                status if is_gone(status) => self.recover(file, &reply).await,
                _ => return Some(reply),
            }
        }
        None
    }

    /// Makes one call of a lock-owner and counts it, unless the server did not. The first LOCK is
    /// in the sequence of the open-owner (RFC 7530 section 9.1.7).
    async fn try_lock(&mut self, file: &mut LockFile40, operation: Op) -> Option<CompoundReply> {
        let called = self.client.world.now();
        let is_first = file.locker.is_none();
        let reply = self.call(&[put(&file.handle), operation]).await?;
        let counts = is_counted(&reply, reply.results.len() == 2);
        if counts && is_first {
            self.seqid = self.seqid.wrapping_add(1);
        }
        if reply.status == Nfsstat4::NFS4_OK {
            self.renewed(called);
        }
        if counts && (!is_first || reply.status == Nfsstat4::NFS4_OK) {
            file.seqid = file.seqid.wrapping_add(1);
        }
        Some(reply)
    }

    /// Gets a client ID from a server that does not know the client, and reclaims.
    async fn recover(&mut self, file: &mut LockFile40, reply: &CompoundReply) {
        self.check_loss(reply.status);
        let renewed = self.client.state.borrow().v40.renewed;
        self.client.state.borrow_mut().v40.recovering = Some(renewed);
        self.identify().await;
        let end = self.reclaim(file).await;
        if let ReclaimEnd::Refused(status) = end {
            self.client.refused(file.file, renewed, "NFSv4.0 lock", status);
        }
        if !matches!(end, ReclaimEnd::Done) {
            file.lost = true;
            self.locked(|locked, inner, until| locked.lose(inner, until));
        }
        self.client.state.borrow_mut().v40.recovering = None;
    }

    /// Reports a violation if the server drops a client during its lease, without a crash.
    fn check_loss(&self, status: Nfsstat4) {
        let mut inner = self.client.world.lock();
        let (now, renewed) = (inner.now, self.client.state.borrow().v40.renewed);
        let crashed = inner.history.crashes.iter().any(|at| *at >= renewed);
        if !crashed && now < inner.history.lease_end(renewed) {
            let detail = format!("client {} of NFSv4.0: {}", self.client.host, status.name());
            inner.history.complain("a client with a lease keeps its locks", detail, now);
        }
    }

    /// Reclaims the open and its locks (RFC 7530 section 9.6.2).
    async fn reclaim(&mut self, file: &mut LockFile40) -> ReclaimEnd {
        match self.reclaim_open(&file.handle).await {
            Ok(stateid) => file.open = stateid,
            Err(end) => return end,
        }
        (file.locker, file.lock_owner) = (None, self.new_lock_owner());
        let ranges = self.locked(|locked, _, _| locked.ranges()).unwrap_or_default();
        for range in ranges {
            loop {
                let lock = file.lock(self, range, LockClaim::Reclaim);
                let Some(reply) = self.try_lock(file, lock).await else { return ReclaimEnd::Interrupted };
                match (reply.results.last(), reply.status) {
                    (Some(NfsResop4::OP_LOCK(Lock4Res::NFS4_OK(ok))), _) => {
                        file.locker = Some(ok.lock_stateid);
                        break;
                    }
                    (_, Nfsstat4::NFS4ERR_DELAY | Nfsstat4::NFS4ERR_RESOURCE) => {
                        self.client.pause(50, 500).await;
                    }
                    (_, status) => return ReclaimEnd::of(status),
                }
            }
        }
        ReclaimEnd::Done
    }

    async fn reclaim_open(&mut self, handle: &[u8]) -> Result<Stateid4, ReclaimEnd> {
        loop {
            let called = self.client.world.now();
            let operation = self.reclaim_arguments();
            let Some(reply) = self.call(&[put(handle), operation]).await else {
                return Err(ReclaimEnd::Interrupted);
            };
            if is_counted(&reply, reply.results.len() == 2) {
                self.seqid = self.seqid.wrapping_add(1);
            }
            match (reply.results.last(), reply.status) {
                (Some(NfsResop4::OP_OPEN(Open4Res::NFS4_OK(ok))), _) => {
                    self.renewed(called);
                    self.confirmed = true;
                    let confirm = ok.rflags & OPEN4_RESULT_CONFIRM != 0;
                    return Ok(if confirm { self.confirm(handle, ok.stateid).await } else { ok.stateid });
                }
                (_, Nfsstat4::NFS4ERR_DELAY | Nfsstat4::NFS4ERR_RESOURCE) => {
                    self.client.pause(50, 500).await;
                }
                (_, status) => return Err(ReclaimEnd::of(status)),
            }
        }
    }
}

impl ReclaimEnd {
    fn of(status: Nfsstat4) -> Self {
        if is_gone(status) { Self::Interrupted } else { Self::Refused(status) }
    }
}

/// Returns whether a status says that the server does not know the client, or its state.
fn is_gone(status: Nfsstat4) -> bool {
    matches!(
        status,
        Nfsstat4::NFS4ERR_STALE_CLIENTID
            | Nfsstat4::NFS4ERR_STALE_STATEID
            | Nfsstat4::NFS4ERR_BAD_STATEID
            | Nfsstat4::NFS4ERR_EXPIRED
    )
}
