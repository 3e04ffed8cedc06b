//! Byte-range locks of the metadata server, which other gateways and native clients see.

use crate::errno::vfs_error;
use ceph::CephErrno;
use ceph::fs::{CephLockRange, CephOpenFile, LockType};
use foreign::{ForeignLocks, ForeignThread, LockChange};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use vfs::{LocalLock, LockKind, LockOutcome, OFFSET_MAX, RangeLocks, VfsError, VfsResult};

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
    held: ForeignLocks,
}

impl CephLocks {
    pub(crate) fn new(file: Arc<CephOpenFile>, thread: Arc<ForeignThread>) -> Self {
        static OWNERS: AtomicU64 = AtomicU64::new(1);
        Self { file: Some(file), thread, owner: OWNERS.fetch_add(1, Relaxed), held: ForeignLocks::default() }
    }

    /// Returns the file, if the first byte of a range can be locked.
    fn file_at(&self, first: u64) -> Option<Arc<CephOpenFile>> {
        self.file.clone().filter(|_| first <= OFFSET_MAX)
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
        let Some(file) = self.file_at(first) else { return Ok(LockOutcome::Done) };
        let owner = self.owner;
        let set = move |(first, last, kind): LockChange| {
            file.set_lock(CephLockRange { first, last }, kind.map_or(LockType::Unlock, lock_type), owner)
        };
        match self.held.set(&self.thread, PATIENCE, (first, last, kind), set)? {
            Ok(()) => Ok(LockOutcome::Done),
            Err(error) if is_conflict(error) => Ok(LockOutcome::Conflict),
            Err(error) => Err(vfs_error(error)),
        }
    }

    fn find(&self, first: u64, last: u64, kind: LockKind) -> VfsResult<Option<LocalLock>> {
        let Some(file) = self.file_at(first) else { return Ok(None) };
        let range = CephLockRange { first, last };
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
