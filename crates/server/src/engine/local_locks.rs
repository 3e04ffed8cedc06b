//! Locks of clients that programs of the server's machine see as well, and theirs that clients meet.
//!
//! Between clients `state` decides; the file system holds what all of them have locked together. Who changes what it holds of
//! a file has the file's turn, and brings it to what `state` says by then: so the last one leaves it right, and no lock of
//! `state` is held meanwhile.

use super::{Compound, Failure, FileKey, Nfs, NfsState, Object, OpenPayload};
use nfs4::Nfsstat4;
use siphasher::sip::SipHasher13;
use state::{Lock, LockDenied, LockError, LockRange, LockedFor};
use std::{
    collections::HashMap,
    hash::{BuildHasher, BuildHasherDefault},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};
use vfs::{OpenAccess, RangeLocks, VfsError, VfsResult};

/// Independent parts, so that threads seldom meet at one lock.
const STRIPES: usize = 64;
/// The owner in LOCK4denied of a lock that a program of this machine holds.
const LOCAL_OWNER: &[u8] = b"a local program";
const _: () = assert!(LOCAL_OWNER.len() <= crate::ops::lock::DENIED_OWNER_MAX);

type Hash = BuildHasherDefault<SipHasher13>;
type Held = HashMap<FileKey, Box<dyn RangeLocks>, Hash>;

/// What file systems hold for clients: files of which something is locked.
pub(crate) struct LocalLocks {
    stripes: [Mutex<Held>; STRIPES],
    files: AtomicUsize,
}

impl Default for LocalLocks {
    fn default() -> Self {
        Self { stripes: std::array::from_fn(|_| Mutex::default()), files: AtomicUsize::new(0) }
    }
}

impl LocalLocks {
    /// Takes the turn of a file.
    fn turn(&self, file: &FileKey) -> MutexGuard<'_, Held> {
        // The remainder is below STRIPES.
        let stripe = &self.stripes[(Hash::default().hash_one(file) % STRIPES as u64) as usize];
        stripe.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, held: &mut Held, file: FileKey, locks: Box<dyn RangeLocks>) {
        if held.insert(file, locks).is_none() {
            self.files.fetch_add(1, Relaxed);
        }
    }
}

/// How the file system is to hold bytes that clients have locked so.
fn kind(locked: LockedFor) -> Option<bool> {
    match locked {
        LockedFor::Nothing => None,
        LockedFor::Reading => Some(false),
        LockedFor::Writing => Some(true),
    }
}

/// What bytes come to when one more lock is added.
fn raised(locked: LockedFor, write: bool) -> LockedFor {
    locked.max(if write { LockedFor::Writing } else { LockedFor::Reading })
}

impl Nfs {
    /// Brings what file systems hold to what clients have left of ranges that they have unlocked.
    pub(super) fn unlock_locally(&self) {
        let unlocked = self.state.take_unlocked();
        if self.local_locks.files.load(Relaxed) == 0 {
            return;
        }
        for (file, range) in unlocked {
            let mut held = self.local_locks.turn(&file);
            let Some(locks) = held.get(&file) else { continue };
            if let Err(error) = self.settle(&**locks, &file, range) {
                tracing::warn!(%error, "a lock of local programs' could not be brought up to date");
            }
            self.let_go(&mut held, &file);
        }
    }

    /// Brings what the file system holds of a range to what clients have locked; the caller has the file's turn. What they
    /// have, they have had in the file system: nobody can be in the way.
    fn settle(&self, locks: &dyn RangeLocks, file: &FileKey, range: LockRange) -> VfsResult<()> {
        let mut outcome = Ok(());
        for (piece, locked) in self.state.locked_within(file, range) {
            outcome = outcome.and(locks.set(piece.offset(), piece.last(), kind(locked)).map(drop));
        }
        outcome
    }

    /// Lets go of a file of which nothing is locked any more; the caller has its turn.
    fn let_go(&self, held: &mut Held, file: &FileKey) {
        if !self.state.has_locks(file) && held.remove(file).is_some() {
            self.local_locks.files.fetch_sub(1, Relaxed);
        }
    }
}

/// What stands in the way of a lock.
enum Way {
    Free,
    Taken(Option<vfs::LocalLock>),
}

impl Compound<'_> {
    /// Locks a range for a client, against other clients and, where there are such, programs of this machine.
    ///
    /// # Errors
    /// Those of [`state::State::lock`]; NFS4ERR_DENIED, or NFS4ERR_RECLAIM_CONFLICT, by such a program, and the backend's.
    pub fn lock(&self, object: &Object, request: &Lock<'_, FileKey>) -> Result<nfs4::Stateid4, LockFailure> {
        let client = self.client()?;
        let lock = || {
            let lock = |state: &NfsState, effects: &mut _| state.lock(self.now(), client, request, effects);
            Ok(self.with_effects(lock)?)
        };
        if !self.locks_locally(object) {
            return lock();
        }
        let file = request.file;
        let mut held = self.nfs.local_locks.turn(file);
        let payload = self.state().lock_allowed(self.now(), client, request, OpenPayload::clone)?;
        let range = LockRange::new(request.offset, request.length).map_err(|_| Nfsstat4::NFS4ERR_INVAL)?;
        if !self.prepare(&mut held, file, &payload, request.write)? {
            return lock();
        }
        let Some(locks) = held.get(file) else { return lock() };
        let before = self.state().locked_within(file, range);
        let way = self.raise(&**locks, &before, range, request.write);
        let locked = match way {
            Ok(Way::Free) => lock(),
            Ok(Way::Taken(_)) if request.reclaim => Err(Nfsstat4::NFS4ERR_RECLAIM_CONFLICT.into()),
            Ok(Way::Taken(found)) => Err(LockError::Denied(denied(found, range, request.write)).into()),
            Err(error) => Err(Failure::from(error).into()),
        };
        // What was raised in vain comes down again, and what was locked for writing before as well.
        let wanted = if request.write { LockedFor::Writing } else { LockedFor::Reading };
        if locked.is_err() || before.iter().any(|(_, before)| *before > wanted) {
            let settled = self.nfs.settle(&**locks, file, range);
            if let (Err(error), Ok(_)) = (settled, &locked) {
                tracing::warn!(%error, "a lock of local programs' could not be brought up to date");
            }
        }
        self.nfs.let_go(&mut held, file);
        locked
    }

    /// Whether locks on an object are held in its file system.
    fn locks_locally(&self, object: &Object) -> bool {
        self.nfs.config.local_locks && object.export.backend.features().local_programs
    }

    /// Sees to it that the file system can hold a lock of this kind on a file; false where it cannot, and none is held there.
    fn prepare(
        &self,
        held: &mut Held,
        file: &FileKey,
        payload: &OpenPayload,
        write: bool,
    ) -> Result<bool, Failure> {
        let there = held.get(file);
        if there.is_some_and(|locks| locks.can_write() || !write) {
            return Ok(true);
        }
        let Some(opened) = payload.any() else { return Ok(there.is_some()) };
        let Some(new) = opened.range_locks(payload.write.is_some())? else { return Ok(there.is_some()) };
        if there.is_some() {
            // All that is locked so far is for reading: two may have that at once, and then the former goes.
            for (piece, locked) in self.state().locked_within(file, LockRange::WHOLE) {
                if locked != LockedFor::Nothing {
                    new.set(piece.offset(), piece.last(), kind(locked))?;
                }
            }
        }
        self.nfs.local_locks.put(held, *file, new);
        Ok(true)
    }

    /// Locks a range in the file system besides what clients have there.
    fn raise(
        &self,
        locks: &dyn RangeLocks,
        before: &[(LockRange, LockedFor)],
        range: LockRange,
        write: bool,
    ) -> VfsResult<Way> {
        for (piece, locked) in before {
            let more = raised(*locked, write);
            if more != *locked && !locks.set(piece.offset(), piece.last(), kind(more))? {
                return Ok(Way::Taken(locks.find(range.offset(), range.last(), write)?));
            }
        }
        Ok(Way::Free)
    }

    /// Checks a lock that no client stands against for programs of this machine (LOCKT).
    ///
    /// # Errors
    /// NFS4ERR_DENIED, NFS4ERR_DELAY while somebody has a lease on the file.
    pub fn check_local_lock(
        &self,
        object: &Object,
        offset: u64,
        length: u64,
        write: bool,
    ) -> Result<(), LockFailure> {
        if !self.locks_locally(object) {
            return Ok(());
        }
        let range = LockRange::new(offset, length).map_err(|_| Nfsstat4::NFS4ERR_INVAL)?;
        let file = object.key();
        let find = |locks: &dyn RangeLocks| locks.find(range.offset(), range.last(), write);
        let held = self.nfs.local_locks.turn(&file);
        let found = match held.get(&file) {
            Some(locks) => find(&**locks),
            None => {
                drop(held);
                self.check_at_hand(object)?;
                self.lookable(object)?.map_or(Ok(None), |locks| find(&*locks))
            }
        };
        match found.map_err(Failure::from)? {
            None => Ok(()),
            Some(found) => Err(LockError::Denied(denied(Some(found), range, write)).into()),
        }
    }

    /// Opens a file to ask for its locks; nothing where the server itself may not read it.
    fn lookable(&self, object: &Object) -> Result<Option<Box<dyn RangeLocks>>, Failure> {
        let access = OpenAccess { read: true, write: false };
        match object.export.backend.open(&vfs::Caller::root(), &object.handle, access) {
            Ok(opened) => Ok(opened.range_locks(false)?),
            Err(VfsError::Access | VfsError::Perm) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// LOCK4denied for a program of this machine; where it has gone in between, the range itself.
fn denied(found: Option<vfs::LocalLock>, range: LockRange, write: bool) -> LockDenied {
    let (first, last, write) = match found {
        Some(found) => (found.first, found.last, found.write),
        None => (range.offset(), range.last(), write),
    };
    let length = if last == u64::MAX { u64::MAX } else { last - first + 1 };
    LockDenied { offset: first, length, write, clientid: 0, owner: LOCAL_OWNER.to_vec() }
}

/// Why a lock is not to be had.
pub enum LockFailure {
    /// By its state.
    Lock(LockError),
    /// For another reason.
    Other(Failure),
}

impl From<LockError> for LockFailure {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl From<Nfsstat4> for LockFailure {
    fn from(status: Nfsstat4) -> Self {
        Self::Lock(status.into())
    }
}

impl From<Failure> for LockFailure {
    fn from(failure: Failure) -> Self {
        Self::Other(failure)
    }
}
