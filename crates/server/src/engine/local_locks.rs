//! Byte-range locks shared with programs on the server's machine.
//!
//! Between clients, `state` decides; the file system holds the union of their locks. A thread that
//! changes the kernel's locks of a file takes the file's turn, and sets them to the locks that
//! `state` has by then. So the last turn leaves them correct, and no lock of `state` is held
//! meanwhile.

pub(super) mod image;

use super::{Compound, DeferReason, FileKey, Nfs, NfsState, Object, OpResult, OpStop, OpenPayload};
use crate::LogLimit;
use nfs4::Nfsstat4;
use siphasher::sip::SipHasher13;
use state::{Lock, LockDenied, LockError, LockRange, LockedFor};
use std::{
    collections::HashMap,
    hash::{BuildHasher, BuildHasherDefault},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};
use vfs::{ExportTable, LockKind, LockOutcome, OpenAccess, RangeLocks, VfsError, VfsResult};

/// Stripes of the table, so that threads seldom contend for one mutex.
const STRIPES: usize = 64;
/// The owner in LOCK4denied of a lock that a program of this machine holds.
pub(crate) const LOCAL_OWNER: &[u8] = b"a local program";

type LockHash = BuildHasherDefault<SipHasher13>;
type HeldKernelLocks = HashMap<FileKey, LockedFile, LockHash>;

/// The files with locks held in the file system. Its mutexes are held only to look up an entry; a
/// file's turn lasts across system calls, so a file system that hangs delays only callers that lock
/// that file.
pub(crate) struct LocalLocks {
    stripes: [LockStripe; STRIPES],
    files: AtomicUsize,
    /// Limits the log lines of [`LocalLocks::note_stale`].
    stale: LogLimit,
    /// Limits the log lines of [`LocalLocks::note_unsupported`].
    unsupported: LogLimit,
}

#[derive(Default)]
struct LockStripe {
    held: Mutex<HeldKernelLocks>,
    freed: Condvar,
}

impl LockStripe {
    fn lock(&self) -> MutexGuard<'_, HeldKernelLocks> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A file with locks, or with a turn taken.
#[derive(Default)]
struct LockedFile {
    locks: Option<Arc<dyn RangeLocks>>,
    /// Whether the turn is taken.
    busy: bool,
    /// Ranges unlocked meanwhile. The owner of the turn updates them before it ends.
    unlocked: Vec<LockRange>,
}

/// The exclusive right to change the file system's locks of a file.
struct LockTurn<'l> {
    all: &'l LocalLocks,
    file: FileKey,
    locks: Option<Arc<dyn RangeLocks>>,
    ended: bool,
}

/// The next step at the end of a turn.
enum TurnEnd {
    /// The turn has ended.
    Ended,
    /// These ranges were unlocked meanwhile and are to be updated.
    Unlocked(Vec<LockRange>),
    /// The file has no locks left: this description is to be unlocked and dropped. The next turn
    /// may lock through the same one.
    Release(Arc<dyn RangeLocks>),
}

impl Default for LocalLocks {
    fn default() -> Self {
        Self {
            stripes: std::array::from_fn(|_| LockStripe::default()),
            files: AtomicUsize::new(0),
            stale: LogLimit::default(),
            unsupported: LogLimit::default(),
        }
    }
}

impl LocalLocks {
    /// Logs that the file system's locks differ from the clients'. On a failing file system clients
    /// cause this with every unlock.
    fn note_stale(&self, now: Duration, error: VfsError) {
        if let Some(suppressed) = self.stale.permit(now) {
            tracing::warn!(%error, suppressed, "a lock of local programs' could not be brought up to date");
        }
    }

    /// Logs that the file system of an export has no locks.
    fn note_unsupported(&self, now: Duration, error: VfsError, file: &FileKey, exports: &ExportTable) {
        if error != VfsError::Notsupp {
            return;
        }
        if let Some(suppressed) = self.unsupported.permit(now) {
            let export = exports.by_id(file.export).map_or("", |export| &export.pseudo_path);
            tracing::warn!(
                export,
                suppressed,
                "LOCK is refused, since the file system has no locks: mount it with locks, or set `local_locks = \
                 false`, which keeps locks between the clients of this server"
            );
        }
    }

    fn stripe(&self, file: &FileKey) -> &LockStripe {
        // The remainder is below STRIPES.
        &self.stripes[(LockHash::default().hash_one(file) % STRIPES as u64) as usize]
    }

    /// Takes the turn of a file; `None` when it is taken and the caller must not block.
    fn turn(&self, file: &FileKey, may_wait: bool) -> Option<LockTurn<'_>> {
        let stripe = self.stripe(file);
        let mut held = stripe.lock();
        while held.get(file).is_some_and(|entry| entry.busy) {
            if !may_wait {
                return None;
            }
            held = stripe.freed.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        let entry = held.entry(*file).or_default();
        entry.busy = true;
        Some(LockTurn { all: self, file: *file, locks: entry.locks.clone(), ended: false })
    }

    /// Takes the turn of a file with locks, to update a range. `None` for a file without locks, or
    /// when the turn is taken and its owner will update the range.
    fn turn_to_unlock(&self, file: &FileKey, range: LockRange) -> Option<LockTurn<'_>> {
        let mut held = self.stripe(file).lock();
        let entry = held.get_mut(file)?;
        if entry.busy {
            entry.unlocked.push(range);
            return None;
        }
        entry.busy = true;
        Some(LockTurn { all: self, file: *file, locks: entry.locks.clone(), ended: false })
    }
}

impl LockTurn<'_> {
    /// Makes `locks` the open file that holds the file's locks from now on.
    fn put(&mut self, locks: Arc<dyn RangeLocks>) {
        self.locks = Some(locks.clone());
        let mut held = self.all.stripe(&self.file).lock();
        let former = held.entry(self.file).or_default().locks.replace(locks);
        drop(held);
        match former {
            None => drop(self.all.files.fetch_add(1, Relaxed)),
            // A client that waits for a program's lock may keep the former one alive. An error
            // shows again when these bytes are unlocked.
            Some(former) => drop(former.set(0, u64::MAX, None)),
        }
    }

    /// Ends the turn, or returns a step to take before.
    fn end(&mut self, is_locked: impl Fn() -> bool) -> TurnEnd {
        let stripe = self.all.stripe(&self.file);
        let mut held = stripe.lock();
        let entry = held.entry(self.file).or_default();
        if !entry.unlocked.is_empty() {
            return TurnEnd::Unlocked(std::mem::take(&mut entry.unlocked));
        }
        if entry.locks.is_some()
            && !is_locked()
            && let Some(locks) = entry.locks.take()
        {
            self.all.files.fetch_sub(1, Relaxed);
            self.locks = None;
            return TurnEnd::Release(locks);
        }
        (entry.busy, self.ended) = (false, true);
        if entry.locks.is_none() {
            held.remove(&self.file);
        }
        drop(held);
        stripe.freed.notify_all();
        TurnEnd::Ended
    }
}

/// Ends the turn also after a panic.
impl Drop for LockTurn<'_> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let stripe = self.all.stripe(&self.file);
        if let Some(entry) = stripe.lock().get_mut(&self.file) {
            entry.busy = false;
        }
        stripe.freed.notify_all();
    }
}

/// Returns the kind of lock that the file system holds for bytes with these locks.
fn kind(locked: LockedFor) -> Option<LockKind> {
    match locked {
        LockedFor::Nothing => None,
        LockedFor::Reading => Some(LockKind::Read),
        LockedFor::Writing => Some(LockKind::Write),
    }
}

/// Returns the kind of lock that a client requests.
fn lock_kind(write: bool) -> LockKind {
    if write { LockKind::Write } else { LockKind::Read }
}

/// Returns the strongest lock after one more is added.
fn raised(locked: LockedFor, write: bool) -> LockedFor {
    locked.max(if write { LockedFor::Writing } else { LockedFor::Reading })
}

impl Nfs {
    /// Updates the file systems for the ranges that clients have unlocked.
    pub(super) fn unlock_locally(&self, now: Duration) {
        let unlocked = self.state.locks().take_unlocked();
        if self.local_locks.files.load(Relaxed) == 0 {
            return;
        }
        for (file, range) in unlocked {
            let Some(turn) = self.local_locks.turn_to_unlock(&file, range) else { continue };
            self.bring_up_to_date(&turn, range, now);
            self.end_turn(turn, now);
        }
    }

    /// Sets the file system's locks of a range to the clients', and logs a failure.
    fn bring_up_to_date(&self, turn: &LockTurn<'_>, range: LockRange, now: Duration) {
        let Some(locks) = &turn.locks else { return };
        if let Err(error) = self.reconcile(&**locks, &turn.file, range) {
            self.local_locks.note_stale(now, error);
        }
    }

    /// Sets the file system's locks of a range to the clients'. The caller holds the file's turn.
    /// There is no conflict, since the file system already holds all locks of clients.
    fn reconcile(&self, locks: &dyn RangeLocks, file: &FileKey, range: LockRange) -> VfsResult<()> {
        let mut outcome = Ok(());
        for (piece, locked) in self.state.locks().locked_within(file, range) {
            outcome = outcome.and(locks.set(piece.offset(), piece.last(), kind(locked)).map(drop));
        }
        outcome
    }

    /// Ends a turn after the ranges that were unlocked meanwhile are updated, and releases a file
    /// without locks.
    fn end_turn(&self, mut turn: LockTurn<'_>, now: Duration) {
        let file = turn.file;
        loop {
            match turn.end(|| self.state.locks().has_locks(&file)) {
                TurnEnd::Ended => return,
                TurnEnd::Unlocked(ranges) => {
                    ranges.into_iter().for_each(|range| self.bring_up_to_date(&turn, range, now));
                }
                TurnEnd::Release(locks) => {
                    if let Err(error) = locks.set(0, u64::MAX, None) {
                        self.local_locks.note_stale(now, error);
                    }
                }
            }
        }
    }
}

/// The outcome of locking in the file system.
enum Way {
    Free,
    Taken(Option<vfs::LocalLock>),
}

impl Compound<'_> {
    /// Locks a range against other clients and, on backends with local programs, against these.
    ///
    /// # Errors
    /// The errors of the lock of `state`; NFS4ERR_DENIED, or NFS4ERR_RECLAIM_CONFLICT, for the lock
    /// of a local program, and the backend's.
    pub fn lock(&self, object: &Object, request: &Lock<'_, FileKey>) -> Result<nfs4::Stateid4, LockFailure> {
        let client = self.client()?;
        let lock = || {
            let lock =
                |state: &NfsState, effects: &mut _| state.locks().lock(self.now(), client, request, effects);
            let stateid = self.with_effects(lock)?;
            self.note_grant();
            Ok(stateid)
        };
        if !self.locks_locally(object) {
            return lock();
        }
        let turn = self.nfs.local_locks.turn(request.file, self.may_wait());
        let mut turn = turn.ok_or(DeferReason::CurrentExport)?;
        let locked = self.lock_in_turn(&mut turn, request, &lock);
        self.nfs.end_turn(turn, self.now());
        locked
    }

    /// Locks a range first in the file system, then in the state by `lock`.
    fn lock_in_turn(
        &self,
        turn: &mut LockTurn<'_>,
        request: &Lock<'_, FileKey>,
        lock: &dyn Fn() -> Result<nfs4::Stateid4, LockFailure>,
    ) -> Result<nfs4::Stateid4, LockFailure> {
        let (client, file) = (self.client()?, request.file);
        let payload = self.state().locks().lock_allowed(self.now(), client, request, OpenPayload::clone)?;
        let range = LockRange::new(request.offset, request.length).map_err(|_| Nfsstat4::NFS4ERR_INVAL)?;
        if !self.prepare(turn, &payload, request.write)? {
            return lock();
        }
        let Some(locks) = &turn.locks else { return lock() };
        let before = self.state().locks().locked_within(file, range);
        let way = self.raise(&**locks, &before, range, request.write);
        let locked = match way {
            Ok(Way::Free) => lock(),
            Ok(Way::Taken(_)) if request.reclaim && self.nfs.awaits_release(self.now()) => {
                Err(Nfsstat4::NFS4ERR_DELAY.into())
            }
            Ok(Way::Taken(_)) if request.reclaim => Err(Nfsstat4::NFS4ERR_RECLAIM_CONFLICT.into()),
            Ok(Way::Taken(found)) => {
                if self.state().locks().wait_for_program(client, request) {
                    let waits = &self.nfs.program_waits;
                    waits.add(*file, range, lock_kind(request.write), locks, self.now());
                }
                Err(LockError::Denied(denied(found, range, request.write)).into())
            }
            Err(error) => {
                self.nfs.local_locks.note_unsupported(self.now(), error, &turn.file, &self.progress.exports);
                Err(error.into())
            }
        };
        // Undoes a lock that failed, and downgrades a range that was locked for writing before.
        let wanted = if request.write { LockedFor::Writing } else { LockedFor::Reading };
        if locked.is_err() || before.iter().any(|(_, before)| *before > wanted) {
            let reconciled = self.nfs.reconcile(&**locks, file, range);
            if let (Err(error), Ok(_)) = (reconciled, &locked) {
                self.nfs.local_locks.note_stale(self.now(), error);
            }
        }
        locked
    }

    /// Checks that the file system of a file that other servers serve as well can lock a range. It
    /// counts to 2^63-1, so it has the bytes behind that for one: a lock of some of them would hold
    /// between the clients of this server alone (RFC 8881 section 18.10.3).
    ///
    /// # Errors
    /// NFS4ERR_BAD_RANGE.
    pub fn check_lock_range(&self, object: &Object, offset: u64, length: u64) -> OpResult {
        let splits = LockRange::new(offset, length).is_ok_and(splits_the_end);
        if splits && self.locks_locally(object) && object.key().is_shared() {
            return Err(Nfsstat4::NFS4ERR_BAD_RANGE.into());
        }
        Ok(())
    }

    /// Returns whether locks on an object are also taken in its file system.
    fn locks_locally(&self, object: &Object) -> bool {
        self.nfs.config.local_locks && object.export.backend.features().local_programs
    }

    /// Makes sure that the file system can hold a lock of this kind on a file. Returns false if it
    /// cannot; then no lock is held there.
    fn prepare(&self, turn: &mut LockTurn<'_>, payload: &OpenPayload, write: bool) -> OpResult<bool> {
        let there = turn.locks.is_some();
        if turn.locks.as_ref().is_some_and(|locks| locks.can_write() || !write) {
            return Ok(true);
        }
        let Some(opened) = payload.any() else { return Ok(there) };
        let Some(new) = opened.range_locks(lock_kind(payload.write.is_some()))? else { return Ok(there) };
        if there {
            // All locks so far are read locks: two open files may hold them at once until the
            // former is closed.
            for (piece, locked) in self.state().locks().locked_within(&turn.file, LockRange::WHOLE) {
                if locked != LockedFor::Nothing
                    && let Err(error) = new.set(piece.offset(), piece.last(), kind(locked))
                {
                    // Without this, a shared description would keep the pieces before.
                    let _ = new.set(0, u64::MAX, None);
                    return Err(error.into());
                }
            }
        }
        turn.put(new.into());
        Ok(true)
    }

    /// Adds a lock on a range to the clients' locks in the file system.
    fn raise(
        &self,
        locks: &dyn RangeLocks,
        before: &[(LockRange, LockedFor)],
        range: LockRange,
        write: bool,
    ) -> VfsResult<Way> {
        for (piece, locked) in before {
            let more = raised(*locked, write);
            if more != *locked
                && locks.set(piece.offset(), piece.last(), kind(more))? == LockOutcome::Conflict
            {
                return Ok(Way::Taken(locks.find(range.offset(), range.last(), lock_kind(write))?));
            }
        }
        Ok(Way::Free)
    }

    /// Checks a lock without conflicts among clients against local programs (LOCKT).
    ///
    /// # Errors
    /// NFS4ERR_DENIED, NFS4ERR_DELAY while a process has a lease on the file.
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
        let find = |locks: &dyn RangeLocks| locks.find(range.offset(), range.last(), lock_kind(write));
        let turn = self.nfs.local_locks.turn(&file, self.may_wait()).ok_or(DeferReason::CurrentExport)?;
        let locks = turn.locks.clone();
        self.nfs.end_turn(turn, self.now());
        let found = match locks {
            Some(locks) => find(&*locks),
            None => {
                self.check_at_hand(object)?;
                self.lookable(object)?.map_or(Ok(None), |locks| find(&*locks))
            }
        };
        match found? {
            None => Ok(()),
            Some(found) => Err(LockError::Denied(denied(Some(found), range, write)).into()),
        }
    }

    /// Opens a file to query its locks; `None` where the server itself may not read it. A file
    /// without names is queried through the client's open.
    fn lookable(&self, object: &Object) -> OpResult<Option<Box<dyn RangeLocks>>> {
        let access = OpenAccess { read: true, write: false };
        let opened = match object.export.backend.open(&vfs::Caller::root(), &object.handle, access) {
            Err(VfsError::Stale) => self.opened(object).ok_or(VfsError::Stale),
            opened => opened,
        };
        match opened {
            Ok(opened) => Ok(opened.range_locks(LockKind::Read)?),
            Err(VfsError::Access | VfsError::Perm) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns whether a range has only some of the bytes from 2^63-1 to the end.
fn splits_the_end(range: LockRange) -> bool {
    let end = i64::MAX.unsigned_abs();
    range.last() > end && (range.offset() > end || range.last() < u64::MAX)
}

/// Returns LOCK4denied for a local program; for the requested range itself if the lock has gone
/// meanwhile.
fn denied(found: Option<vfs::LocalLock>, range: LockRange, write: bool) -> LockDenied {
    let (first, last, write) = match found {
        Some(found) => (found.first, found.last, found.kind == LockKind::Write),
        None => (range.offset(), range.last(), write),
    };
    let length = if last == u64::MAX { u64::MAX } else { last - first + 1 };
    LockDenied { offset: first, length, write, clientid: 0, owner: LOCAL_OWNER.to_vec() }
}

/// The reason why a lock is not granted.
pub enum LockFailure {
    /// Another lock conflicts with it.
    Denied(LockDenied),
    /// The operation stops for another reason.
    Stopped(OpStop),
}

impl From<LockError> for LockFailure {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Denied(denied) => Self::Denied(denied),
            LockError::Status(status) => Self::Stopped(status.into()),
        }
    }
}

impl<E: Into<OpStop>> From<E> for LockFailure {
    fn from(stop: E) -> Self {
        Self::Stopped(stop.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::nfs::tests::nfs;
    use vfs::{Backend, Export, MemoryBackend, MemoryLimits};

    /// Notes each call, and whether its file has a turn meanwhile.
    struct Probe {
        nfs: Arc<Nfs>,
        file: FileKey,
        calls: Arc<Mutex<Vec<(&'static str, bool)>>>,
    }

    impl Probe {
        fn note(&self, call: &'static str) {
            let busy = self.nfs.local_locks.turn(&self.file, false).is_none();
            self.calls.lock().unwrap().push((call, busy));
        }
    }

    impl RangeLocks for Probe {
        fn can_write(&self) -> bool {
            true
        }
        fn set(&self, first: u64, last: u64, kind: Option<LockKind>) -> VfsResult<LockOutcome> {
            assert_eq!((first, last, kind), (0, u64::MAX, None));
            self.note("unlocked");
            Ok(LockOutcome::Done)
        }
        fn find(&self, _: u64, _: u64, _: LockKind) -> VfsResult<Option<vfs::LocalLock>> {
            Ok(None)
        }
        fn as_any(&self) -> Option<&dyn std::any::Any> {
            None
        }
    }

    impl Drop for Probe {
        fn drop(&mut self) {
            self.note("dropped");
        }
    }

    #[test]
    fn the_last_lock_of_a_file_is_released_before_another_may_lock_it() // RFC 8881 section 18.12.3
    {
        let nfs = Arc::new(nfs());
        let backend = Arc::new(MemoryBackend::new(MemoryLimits::default(), [7; 16]).unwrap());
        let handle = backend.root();
        let export = Arc::new(Export::new("/export", backend).unwrap());
        let peer = vfs::ClientPeer { address: ([192, 0, 2, 1], 700).into(), now: Duration::ZERO };
        let root = Object::root_of(&export, peer).unwrap().unwrap();
        let file = root.other(handle).key();
        let calls = Arc::default();
        let mut turn = nfs.local_locks.turn(&file, false).unwrap();
        turn.put(Arc::new(Probe { nfs: nfs.clone(), file, calls: Arc::clone(&calls) }));
        let late = LockRange::new(5, 5).unwrap();
        assert!(nfs.local_locks.turn_to_unlock(&file, late).is_none());
        // The range that was unlocked meanwhile comes first.
        let TurnEnd::Unlocked(ranges) = turn.end(|| false) else { panic!("it forgets a range") };
        assert_eq!(ranges, [late]);
        nfs.end_turn(turn, Duration::ZERO);
        assert_eq!(*calls.lock().unwrap(), [("unlocked", true), ("dropped", true)]);
        assert_eq!(nfs.local_locks.files.load(Relaxed), 0);
        assert!(nfs.local_locks.turn(&file, false).is_some(), "the turn has ended");
    }
}
