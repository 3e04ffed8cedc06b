//! Open files and their locks, with the state that a client needs to reclaim them.

use super::locked::{CELLS, LockedBytes, held_until};
use super::{
    CacheThis, Client, Creates, LockClaim, Lost, Op, Phase, Reservation, at, lock_range, open, put, reclaim,
};
use crate::history::ShareHold;
use crate::world::Inner;
use nfs4::*;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// An open file of one worker.
#[derive(Debug)]
pub(crate) struct ClientOpen {
    /// Its number among the client's opens.
    pub(super) id: u64,
    /// The hash of the file's path.
    pub file: u64,
    /// Client, life and worker.
    pub owner: (usize, u32, usize),
    /// The filehandle of the file.
    pub handle: Vec<u8>,
    /// The stateid of the open.
    pub stateid: Stateid4,
    /// The stateid of the locks, if there are or were any.
    pub locker: Option<Stateid4>,
    /// The bytes that its owner has locked.
    pub locked: LockedBytes,
    /// The access and deny bits of the open.
    reservation: Reservation,
    /// The index of its share reservation in the history.
    share: Option<usize>,
    /// Whether CLOSE was called. It is not reclaimed then, since others may have the file by now.
    pub(super) closing: bool,
    /// Whether the server no longer has it.
    pub lost: bool,
}

impl ClientOpen {
    fn name(&self) -> Vec<u8> {
        format!("{:?}", self.owner).into_bytes()
    }

    /// Makes the operations that reclaim the open, with its delegation.
    pub(super) fn reclaim_open(&self, delegation: OpenDelegationType4) -> Vec<Op> {
        vec![put(&self.handle), reclaim(&self.name(), self.reservation, delegation)]
    }

    /// Notes the time up to which the client can be sure of the share reservation.
    fn release_share(&mut self, inner: &mut Inner, until: Duration) {
        if let Some(hold) = self.share.take().and_then(|at| inner.history.shares.get_mut(at)) {
            hold.until = Some(until.max(hold.from));
        }
    }

    /// Forgets the stateid of the locks, which must be acquired again.
    pub(super) fn forget_locker(&mut self) {
        self.locker = None;
    }

    /// Makes the operations that lock a range.
    pub(super) fn lock_operations(&self, range: (bool, usize, usize), claim: LockClaim) -> Vec<Op> {
        let locker = match self.locker {
            Some(lock_stateid) => Locker4::FALSE(ExistLockOwner4 { lock_stateid, lock_seqid: 0 }),
            None => Locker4::TRUE(OpenToLockOwner4 {
                open_seqid: 0,
                open_stateid: self.stateid,
                lock_seqid: 0,
                lock_owner: StateOwner4 { clientid: 0, owner: self.name().into() },
            }),
        };
        vec![put(&self.handle), lock_range(range, claim, locker)]
    }

    /// Notes that the open and its locks are lost. The client could be sure of them up to `until`.
    pub(super) fn lose(&mut self, inner: &mut Inner, until: Duration) {
        self.lost = true;
        self.release_share(inner, until);
        self.locked.lose(inner, until);
        self.locker = None;
    }
}

impl Client {
    /// Opens a file, and creates it if it does not exist.
    ///
    /// # Errors
    /// Fails if the session is lost; an open ends with it.
    pub(crate) async fn open(
        &self,
        directory: &str,
        name: &str,
        worker: usize,
    ) -> Result<Rc<RefCell<ClientOpen>>, Lost> {
        self.open_as(directory, name, worker, Reservation::PLAIN).await?.ok_or_else(|| {
            self.complain("a file without a deny can be opened", Nfsstat4::NFS4ERR_SHARE_DENIED);
            Lost
        })
    }

    /// Opens a file with a share reservation. Returns `None` if others deny it.
    ///
    /// # Errors
    /// As [`Client::open`].
    pub(crate) async fn open_as(
        &self,
        directory: &str,
        name: &str,
        worker: usize,
        reservation: Reservation,
    ) -> Result<Option<Rc<RefCell<ClientOpen>>>, Lost> {
        let owner = (self.host, self.life, worker);
        let label = format!("{owner:?}").into_bytes();
        let reply = self
            .run(CacheThis::Yes, || {
                let last = [open(name, &label, Creates::Unchecked, reservation), NfsArgop4::OP_GETFH];
                at(directory).into_iter().chain(last).collect()
            })
            .await?;
        let opened = reply.results.iter().find_map(|result| match result {
            NfsResop4::OP_OPEN(Open4Res::NFS4_OK(ok)) => {
                Some((ok.stateid, ok.cinfo.before != ok.cinfo.after, &ok.delegation))
            }
            _ => None,
        });
        if reply.status == Nfsstat4::NFS4ERR_SHARE_DENIED {
            return Ok(None);
        }
        let (Some((stateid, created, delegation)), Some(handle)) = (opened, reply.handle()) else {
            self.complain("a writable file can be opened", reply.status);
            return Err(Lost);
        };
        let file = crate::trace::digest(format!("{directory}/{name}").as_bytes());
        if created {
            self.world.lock().history.stable_files.insert(file);
        }
        let (locker, locked) = (None, LockedBytes::new(owner, file));
        let share = {
            let mut inner = self.world.lock();
            let (access, deny) = (reservation.access & OPEN4_SHARE_ACCESS_BOTH, reservation.deny);
            let from = inner.now;
            inner.history.shares.push(ShareHold { owner, file, access, deny, from, until: None });
            Some(inner.history.shares.len() - 1)
        };
        let id = {
            let mut state = self.state.borrow_mut();
            state.next_open += 1;
            state.next_open
        };
        let (closing, lost) = (false, false);
        let open = ClientOpen {
            id,
            file,
            owner,
            handle,
            stateid,
            locker,
            locked,
            reservation,
            share,
            closing,
            lost,
        };
        self.granted(&open, delegation);
        let open = Rc::new(RefCell::new(open));
        self.state.borrow_mut().opens.insert(id, open.clone());
        Ok(Some(open))
    }

    /// Reports a status that violates a property.
    pub(crate) fn complain(&self, property: &'static str, status: Nfsstat4) {
        let now = self.world.now();
        let detail = format!("client {}: {}", self.host, status.name());
        self.world.lock().history.complain(property, detail, now);
    }

    /// Makes a call with an open file's stateid, and repeats it while the server answers
    /// NFS4ERR_DELAY or NFS4ERR_GRACE. Returns `None` if the open is lost.
    ///
    /// # Errors
    /// Fails if the session is lost.
    pub(crate) async fn with(
        &self,
        open: &Rc<RefCell<ClientOpen>>,
        cache: CacheThis,
        operations: impl Fn(&ClientOpen) -> Vec<Op>,
    ) -> Result<Option<super::CompoundReply>, Lost> {
        loop {
            // The stateid changes with a restart.
            self.world.until(|| self.state.borrow().phase == Phase::Ready).await;
            if open.borrow().lost {
                return Ok(None);
            }
            let built = operations(&open.borrow());
            let clientid = self.state.borrow().clientid;
            let free = || {
                let state = self.state.borrow();
                state.phase != Phase::Ready
                    || state.clientid != clientid
                    || state.slots.iter().any(|slot| !slot.busy)
            };
            self.world.until(free).await;
            if self.state.borrow().clientid != clientid || self.state.borrow().phase != Phase::Ready {
                continue;
            }
            let reply = self.call_now(built, cache).await?;
            match reply.status {
                Nfsstat4::NFS4ERR_DELAY | Nfsstat4::NFS4ERR_GRACE => self.pause(100, 1500).await,
                Nfsstat4::NFS4ERR_BAD_STATEID
                | Nfsstat4::NFS4ERR_EXPIRED
                | Nfsstat4::NFS4ERR_STALE_STATEID
                | Nfsstat4::NFS4ERR_ADMIN_REVOKED => {
                    self.complain("a client with a session keeps its state", reply.status);
                    let mut inner = self.world.lock();
                    let until = self.sure_until(&inner);
                    open.borrow_mut().lose(&mut inner, until);
                    return Ok(None);
                }
                _ => return Ok(Some(reply)),
            }
        }
    }

    /// Unlocks and closes a file, with as many attempts as it takes.
    pub(crate) async fn close(&self, open: Rc<RefCell<ClientOpen>>) {
        self.unlock(&open, 0, CELLS).await;
        {
            let mut inner = self.world.lock();
            let until = self.sure_until(&inner);
            let mut open = open.borrow_mut();
            open.release_share(&mut inner, until);
            open.closing = true;
        }
        loop {
            let operations = |open: &ClientOpen| {
                let close = Close4Args { seqid: 0, open_stateid: open.stateid };
                vec![put(&open.handle), NfsArgop4::OP_CLOSE(close)]
            };
            match self.with(&open, CacheThis::Yes, operations).await {
                Ok(Some(reply)) if reply.status != Nfsstat4::NFS4_OK => {
                    self.complain("an open file can be closed", reply.status);
                    break;
                }
                Ok(_) => break,
                // After a restart of the server it is closed.
                Err(Lost) => {}
            }
        }
        let id = open.borrow().id;
        self.state.borrow_mut().opens.remove(&id);
    }

    /// Locks bytes. Returns false if others have them, or the open is lost.
    ///
    /// # Errors
    /// Fails if the session is lost; the outcome is unknown.
    pub(crate) async fn lock(
        &self,
        open: &Rc<RefCell<ClientOpen>>,
        write: bool,
        start: usize,
        length: usize,
    ) -> Result<bool, Lost> {
        let range = start..(start + length).min(CELLS);
        if !write {
            let mut inner = self.world.lock();
            let until = self.sure_until(&inner);
            open.borrow_mut().locked.downgrade(&mut inner, range.clone(), until);
        }
        let reply = self
            .with(open, CacheThis::Yes, |open| {
                open.lock_operations((write, start, range.len()), LockClaim::New)
            })
            .await;
        let done = match reply.as_ref().map(|reply| reply.as_ref().and_then(|reply| reply.results.last())) {
            Ok(Some(NfsResop4::OP_LOCK(Lock4Res::NFS4_OK(ok)))) => Some(ok.lock_stateid),
            Ok(Some(NfsResop4::OP_LOCK(Lock4Res::NFS4ERR_DENIED(_)))) | Ok(None) => None,
            Ok(Some(_)) => {
                self.complain(
                    "a lock is granted or denied",
                    reply.ok().flatten().map_or(Nfsstat4::NFS4_OK, |r| r.status),
                );
                None
            }
            Err(Lost) => return Err(Lost),
        };
        let Some(stateid) = done else { return Ok(false) };
        let (mut inner, mut open) = (self.world.lock(), open.borrow_mut());
        let until = self.sure_until(&inner);
        open.locker = Some(stateid);
        open.locked.lock(&mut inner, range, write, until);
        Ok(true)
    }

    /// Returns the time up to which the client can be sure of its state, unless it hears from the
    /// server again.
    pub(super) fn sure_until(&self, inner: &Inner) -> Duration {
        let state = self.state.borrow();
        let renewed = if state.phase == Phase::Ready { state.renewed } else { state.held_until_then };
        inner.now.min(inner.history.lease_end(renewed))
    }

    /// Unlocks bytes, with as many attempts as it takes.
    pub(crate) async fn unlock(&self, open: &Rc<RefCell<ClientOpen>>, start: usize, length: usize) {
        let range = start..(start + length).min(CELLS);
        let called = self.world.now();
        let mut released = {
            let mut inner = self.world.lock();
            let until = self.sure_until(&inner);
            open.borrow_mut().locked.unlock(&mut inner, range.clone(), until)
        };
        loop {
            if open.borrow().locker.is_none() {
                break;
            }
            let operations = |open: &ClientOpen| {
                let unlock = open.locker.map(|stateid| unlock(stateid, start, range.len()));
                [put(&open.handle)].into_iter().chain(unlock).collect()
            };
            match self.with(open, CacheThis::Yes, operations).await {
                Ok(Some(reply)) => {
                    if let Some(NfsResop4::OP_LOCKU(Locku4Res::NFS4_OK(stateid))) = reply.results.last() {
                        open.borrow_mut().locker = Some(*stateid);
                        held_until(&mut self.world.lock(), &released, called);
                    } else if open.borrow().locker.is_some() {
                        self.complain("locked bytes can be unlocked", reply.status);
                    }
                    break;
                }
                Ok(None) => break,
                Err(Lost) => released.clear(),
            }
        }
    }
}

fn unlock(lock_stateid: Stateid4, start: usize, length: usize) -> Op {
    let (offset, length) = (start as u64, length as u64);
    NfsArgop4::OP_LOCKU(Locku4Args {
        locktype: NfsLockType4::WRITE_LT,
        seqid: 0,
        lock_stateid,
        offset,
        length,
    })
}
