//! Byte-range locks shared with programs on the server's machine.
//!
//! Between clients, `state` decides; the file system holds the union of their locks. A thread that
//! changes the kernel's locks of a file takes the file's turn, and sets them to the locks that
//! `state` has by then. So the last turn leaves them correct, and no lock of `state` is held
//! meanwhile.

mod turns;

use super::{
    Compound, DeferReason, FileKey, Nfs, NfsState, Object, OpResult, OpStop, OpenPayload, RefusedBy,
};
use nfs4::Nfsstat4;
use state::{Lock, LockDenied, LockError, LockMode, LockRange};
use std::time::Duration;
pub(super) use turns::{LateRangesImage, LocalLocks, LocalLocksImage};
use turns::{LockTurn, TurnEnd};
use vfs::{LockKind, LockOutcome, OFFSET_MAX, OpenAccess, RangeLocks, VfsError, VfsResult};

/// The owner in LOCK4denied of a lock that a program of this machine holds.
pub(crate) const LOCAL_OWNER: &[u8] = b"a local program";

/// Locked ranges of a file up to which threads of shards change its locks. The kernel looks through
/// all of them for each range that changes, and LOCKU and CLOSE can change as many.
const RANGES_ON_SHARD_MAX: usize = 128;

/// Returns the kind of the file system's lock for a lock of clients.
fn kind(mode: LockMode) -> LockKind {
    match mode {
        LockMode::Read => LockKind::Read,
        LockMode::Write => LockKind::Write,
    }
}

/// Returns the mode of a client's lock of this kind.
fn mode(kind: LockKind) -> LockMode {
    match kind {
        LockKind::Read => LockMode::Read,
        LockKind::Write => LockMode::Write,
    }
}

impl Nfs {
    /// Updates the file systems for the ranges that clients have unlocked.
    pub(super) fn unlock_locally(&self, now: Duration) {
        let unlocked = self.state.locks().take_unlocked();
        if self.local_locks.is_empty() {
            return;
        }
        for (file, range) in unlocked {
            let Some(mut turn) = self.local_locks.turn_to_unlock(&file, range) else { continue };
            self.bring_up_to_date(&mut turn, range, now);
            self.end_turn(turn, now);
        }
    }

    /// Updates the file systems for some of the ranges that clients have unlocked in files with
    /// very many locks. Returns whether others remain.
    pub fn unlock_late(&self, now: Duration) -> bool {
        if let Some(turn) = self.local_locks.late_turn() {
            self.end_turn(turn, now);
        }
        self.local_locks.has_late()
    }

    /// Sets the file system's locks of a range to the clients', and logs a failure.
    fn bring_up_to_date(&self, turn: &mut LockTurn<'_>, range: LockRange, now: Duration) {
        if let Err(error) = self.reconcile(turn, range) {
            self.local_locks.note_stale(now, error);
        }
    }

    /// Sets the file system's locks of a range to the clients', and leaves to housekeeping what
    /// would make the turn too long. There is no conflict, since the file system already holds all
    /// locks of clients.
    fn reconcile(&self, turn: &mut LockTurn<'_>, range: LockRange) -> VfsResult<()> {
        let Some(locks) = turn.locks().cloned() else { return Ok(()) };
        let (mut outcome, mut rest) = (Ok(()), Some(range));
        while let Some(range) = rest {
            if turn.looks == 0 {
                turn.leave(range);
                break;
            }
            let (done, next) = self.reconcile_some(turn, &*locks, range);
            (outcome, rest) = (outcome.and(done), next);
        }
        outcome
    }

    /// Does so with a part of the range, and returns the rest.
    fn reconcile_some(
        &self,
        turn: &mut LockTurn<'_>,
        locks: &dyn RangeLocks,
        range: LockRange,
    ) -> (VfsResult<()>, Option<LockRange>) {
        // The kernel looks through all of them for each call.
        let looks = 1 + self.state.locks().ranges_of(turn.file());
        let pieces = self.state.locks().locked_first(turn.file(), range, turn.looks / looks);
        let (mut outcome, mut next) = (Ok(()), Some(range.offset()));
        for (piece, locked) in pieces {
            // The file system has no stronger lock than one for writing.
            if locked != Some(LockMode::Write) {
                if turn.looks == 0 {
                    break;
                }
                turn.looks = turn.looks.saturating_sub(looks);
                outcome = outcome.and(locks.set(piece.offset(), piece.last(), locked.map(kind)).map(drop));
            }
            next = piece.last().checked_add(1);
        }
        (outcome, next.and_then(|next| LockRange::of_bytes(next, range.last())))
    }

    /// Ends a turn after the ranges that were unlocked meanwhile are updated, and releases a file
    /// without locks.
    fn end_turn(&self, mut turn: LockTurn<'_>, now: Duration) {
        let file = *turn.file();
        loop {
            match turn.end(|| self.state.locks().has_locks(&file)) {
                TurnEnd::Ended => return,
                TurnEnd::Unlocked(ranges) => {
                    ranges.into_iter().for_each(|range| self.bring_up_to_date(&mut turn, range, now));
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

/// The answer of the file system to a lock.
enum KernelLock {
    Granted,
    /// A program holds this lock, if it still does.
    Refused(Option<vfs::LocalLock>),
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
            let locked = self.with_effects(lock);
            let stateid = locked.inspect_err(|error| {
                if let LockError::Status(status) = error {
                    self.note_if_full(*status, RefusedBy::Locks);
                }
            })?;
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
        if !self.prepare(turn, &payload, request.mode)? {
            return lock();
        }
        let Some(locks) = turn.locks().cloned() else { return lock() };
        let before = self.state().locks().locked_within(file, range);
        let answer = self.raise(&*locks, &before, range, request.mode);
        let locked = match answer {
            Ok(KernelLock::Granted) => lock(),
            Ok(KernelLock::Refused(_)) if request.reclaim && self.nfs.awaits_release(self.now()) => {
                Err(Nfsstat4::NFS4ERR_DELAY.into())
            }
            Ok(KernelLock::Refused(_)) if request.reclaim => Err(Nfsstat4::NFS4ERR_RECLAIM_CONFLICT.into()),
            Ok(KernelLock::Refused(found)) => {
                if self.state().locks().wait_for_program(client, request) {
                    let waits = &self.nfs.program_waits;
                    waits.add(*file, range, kind(request.mode), &locks, self.now());
                }
                Err(LockError::Denied(denied(found, range, request.mode)).into())
            }
            Err(error) => {
                self.nfs.local_locks.note_unsupported(self.now(), error, turn.file(), &self.progress.exports);
                Err(error.into())
            }
        };
        // Undoes a lock that failed, and downgrades a range that was locked for writing before.
        if locked.is_err() || before.iter().any(|(_, before)| *before > Some(request.mode)) {
            let reconciled = self.nfs.reconcile(turn, range);
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

    /// Checks that the file system of an object holds few locked ranges of it, where this thread
    /// must not be kept for long.
    ///
    /// # Errors
    /// [`OpStop::Deferred`].
    pub(crate) fn check_few_ranges(&self, object: &Object) -> OpResult {
        let is_held = !self.nfs.local_locks.is_empty() && self.locks_locally(object);
        if is_held && self.state().locks().ranges_of(&object.key()) > RANGES_ON_SHARD_MAX {
            return Err(DeferReason::CurrentExport.into());
        }
        Ok(())
    }

    /// Returns whether locks on an object are also taken in its file system.
    fn locks_locally(&self, object: &Object) -> bool {
        self.nfs.config.local_locks && object.export.backend.features().local_programs
    }

    /// Makes sure that the file system can hold a lock of this mode on a file. Returns false if it
    /// cannot; then no lock is held there.
    fn prepare(&self, turn: &mut LockTurn<'_>, payload: &OpenPayload, mode: LockMode) -> OpResult<bool> {
        let there = turn.locks().is_some();
        if turn.locks().is_some_and(|locks| locks.can_write() || mode == LockMode::Read) {
            return Ok(true);
        }
        let Some(opened) = payload.any() else { return Ok(there) };
        let strongest = if payload.write.is_some() { LockKind::Write } else { LockKind::Read };
        let Some(new) = opened.range_locks(strongest)? else { return Ok(there) };
        if there {
            // All locks so far are read locks: two open files may hold them at once until the
            // former is closed.
            for (piece, locked) in self.state().locks().locked_within(turn.file(), LockRange::WHOLE) {
                if let Some(mode) = locked
                    && let Err(error) = new.set(piece.offset(), piece.last(), Some(kind(mode)))
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
        before: &[(LockRange, Option<LockMode>)],
        range: LockRange,
        mode: LockMode,
    ) -> VfsResult<KernelLock> {
        let kind = kind(mode);
        for missing in missing(before, mode) {
            if locks.set(missing.offset(), missing.last(), Some(kind))? == LockOutcome::Conflict {
                return Ok(KernelLock::Refused(locks.find(range.offset(), range.last(), kind)?));
            }
        }
        Ok(KernelLock::Granted)
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
        mode: LockMode,
    ) -> Result<(), LockFailure> {
        if !self.locks_locally(object) {
            return Ok(());
        }
        let range = LockRange::new(offset, length).map_err(|_| Nfsstat4::NFS4ERR_INVAL)?;
        let file = object.key();
        let find = |locks: &dyn RangeLocks| locks.find(range.offset(), range.last(), kind(mode));
        let turn = self.nfs.local_locks.turn(&file, self.may_wait()).ok_or(DeferReason::CurrentExport)?;
        let locks = turn.locks().cloned();
        self.nfs.end_turn(turn, self.now());
        let found = match locks {
            Some(locks) => find(&*locks),
            None => {
                self.check_cached(object)?;
                self.lookable(object)?.map_or(Ok(None), |locks| find(&*locks))
            }
        };
        match found? {
            None => Ok(()),
            Some(found) => Err(LockError::Denied(denied(Some(found), range, mode)).into()),
        }
    }

    /// Opens a file to query its locks; `None` where the server itself may not read it. A file
    /// without names is queried through the client's open.
    fn lookable(&self, object: &Object) -> OpResult<Option<Box<dyn RangeLocks>>> {
        let access = OpenAccess { read: true, write: false };
        let opened = match object.export.backend.open(&vfs::Caller::root(), &object.handle, access) {
            Err(VfsError::Stale) => self.opened(object).pop().ok_or(VfsError::Stale),
            opened => opened,
        };
        match opened {
            Ok(opened) => Ok(opened.range_locks(LockKind::Read)?),
            Err(VfsError::Access | VfsError::Perm) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns the ranges to lock so that all pieces have a lock of this mode at least. The kernel
/// looks through all locks of the file for each, so they are few: pieces in between may have it
/// already.
fn missing(before: &[(LockRange, Option<LockMode>)], mode: LockMode) -> impl Iterator<Item = LockRange> + '_ {
    before.split(move |(_, locked)| *locked > Some(mode)).filter_map(move |pieces| {
        let mut missing = pieces.iter().filter(|(_, locked)| *locked < Some(mode)).map(|(piece, _)| *piece);
        let first = missing.next()?;
        Some(missing.next_back().map_or(first, |last| first.hull(last)))
    })
}

/// Returns whether a range has only some of the bytes from 2^63-1 to the end.
fn splits_the_end(range: LockRange) -> bool {
    range.last() > OFFSET_MAX && (range.offset() > OFFSET_MAX || range.last() < u64::MAX)
}

/// Returns LOCK4denied for a local program; for the requested range itself if the lock has gone
/// meanwhile.
fn denied(found: Option<vfs::LocalLock>, range: LockRange, wanted: LockMode) -> LockDenied {
    let (first, last, mode) = match found {
        Some(found) => (found.first, found.last, mode(found.kind)),
        None => (range.offset(), range.last(), wanted),
    };
    let length = if last == u64::MAX { u64::MAX } else { last - first + 1 };
    LockDenied { offset: first, length, mode, clientid: 0, owner: LOCAL_OWNER.to_vec() }
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

    #[test]
    fn a_lock_over_many_gaps_is_one_call_unless_it_would_weaken_another() {
        // RFC 8881 section 18.10.3
        let range = |first, last| LockRange::of_bytes(first, last).unwrap();
        let piece = |(first, locked)| (range(first, first + 9), locked);
        let (read, write) = (Some(LockMode::Read), Some(LockMode::Write));
        let before = [(0, read), (10, None), (20, read), (30, None), (40, write), (50, read), (60, None)];
        let before = before.map(piece);
        let missing = |mode| missing(&before, mode).collect::<Vec<_>>();
        assert_eq!(missing(LockMode::Read), [range(10, 39), range(60, 69)]);
        assert_eq!(missing(LockMode::Write), [range(0, 69)]);
    }
}
