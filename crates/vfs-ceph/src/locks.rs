//! Byte-range locks of the metadata server, which other gateways and native clients see.

use crate::errno::vfs_error;
use ceph::CephErrno;
use ceph::fs::{CephLockRange, CephOpenFile, LockType};
use foreign::ForeignThread;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use vfs::{HeldRanges, LocalLock, LockKind, LockOutcome, RangeLocks, VfsError, VfsResult};

/// How long a lock keeps its caller waiting for the metadata server: a lease that expires is
/// unlocked by housekeeping.
const PATIENCE: Duration = Duration::from_secs(2);

/// The locks of all clients on a file, held for one owner.
#[derive(Debug)]
pub(crate) struct CephLocks {
    /// Closed, and thereby unlocked, on the thread for calls that may hang.
    file: Option<Arc<CephOpenFile>>,
    thread: Arc<ForeignThread>,
    owner: u64,
    /// The locks after all queued calls.
    held: Mutex<HeldRanges>,
}

impl CephLocks {
    pub(crate) fn new(file: Arc<CephOpenFile>, thread: Arc<ForeignThread>) -> Self {
        static OWNERS: AtomicU64 = AtomicU64::new(1);
        Self { file: Some(file), thread, owner: OWNERS.fetch_add(1, Relaxed), held: Mutex::default() }
    }

    /// Returns the file, and the range if any byte of it can be locked.
    fn words(&self, first: u64, last: u64) -> Option<(Arc<CephOpenFile>, CephLockRange)> {
        let range = CephLockRange { first, last };
        self.file.clone().filter(|_| i64::try_from(first).is_ok()).map(|file| (file, range))
    }
}

impl RangeLocks for CephLocks {
    fn as_any(&self) -> Option<&dyn std::any::Any> {
        None
    }

    fn can_write(&self) -> bool {
        // The metadata server does not ask how the file was opened.
        true
    }

    fn set(&self, first: u64, last: u64, kind: Option<LockKind>) -> VfsResult<LockOutcome> {
        let Some((file, range)) = self.words(first, last) else { return Ok(LockOutcome::Done) };
        let held = || self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if self.thread.is_stuck() && !held().queues(first, last, kind)? {
            return Ok(LockOutcome::Done);
        }
        let (word, owner) = (kind.map_or(LockType::Unlock, lock_type), self.owner);
        // In one order for all: a lock must not overtake an unlock that hangs.
        let set = self.thread.run(PATIENCE, move || file.set_lock(range, word, owner));
        // A queued call may still take effect.
        if !matches!(set, Some(Err(_))) {
            held().set(first, last, kind);
        }
        match set.ok_or(VfsError::Delay)? {
            Ok(()) => Ok(LockOutcome::Done),
            Err(error) if is_conflict(error) => Ok(LockOutcome::Conflict),
            Err(error) => Err(vfs_error(error)),
        }
    }

    fn find(&self, first: u64, last: u64, kind: LockKind) -> VfsResult<Option<LocalLock>> {
        let Some((file, range)) = self.words(first, last) else { return Ok(None) };
        let (kind, owner) = (lock_type(kind), self.owner);
        let find = self.thread.ask(PATIENCE, move || file.find_lock(range, kind, owner));
        let found = find.ok_or(VfsError::Delay)?.map_err(vfs_error)?;
        Ok(found.map(|held| {
            let kind = if held.kind == LockType::Write { LockKind::Write } else { LockKind::Read };
            LocalLock { first: held.range.first, last: held.range.last, kind }
        }))
    }
}

impl Drop for CephLocks {
    fn drop(&mut self) {
        let file = self.file.take();
        self.thread.send(Box::new(move || drop(file)));
    }
}

fn lock_type(kind: LockKind) -> LockType {
    match kind {
        LockKind::Read => LockType::Read,
        LockKind::Write => LockType::Write,
    }
}

fn is_conflict(error: CephErrno) -> bool {
    matches!(error.number(), libc::EAGAIN | libc::EACCES)
}
