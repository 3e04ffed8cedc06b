//! Turns: the exclusive right of one thread to change the kernel's locks of a file.

mod image;

use crate::LogLimit;
use crate::engine::FileKey;
pub(in crate::engine) use image::{LateRangesImage, LocalLocksImage};
use siphasher::sip::SipHasher13;
use state::LockRange;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, BuildHasherDefault};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use vfs::{ExportTable, RangeLocks, VfsError};

/// Locks of a file that the kernel looks through in one turn to update unlocked ranges. Each takes
/// some nanoseconds. Housekeeping updates the other ranges, in turns of their own: whoever holds a
/// turn keeps a thread of the pool, and housekeeping keeps an upgrade waiting.
const LOOKS_PER_TURN_MAX: usize = 1 << 22;

/// Stripes of the table, so that threads seldom contend for one mutex.
const STRIPES: usize = 64;
type LockHash = BuildHasherDefault<SipHasher13>;
type HeldKernelLocks = HashMap<FileKey, LockedFile, LockHash>;

/// The files with locks held in the file system. Its mutexes are held only to look up an entry; a
/// file's turn lasts across system calls, so a file system that hangs delays only callers that lock
/// that file.
pub(crate) struct LocalLocks {
    stripes: [LockStripe; STRIPES],
    files: AtomicUsize,
    /// The files with [`LockedFile::late`].
    late: Mutex<VecDeque<FileKey>>,
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
    /// A range around all unlocked ones for which the turns so far were too short. Housekeeping
    /// updates it.
    late: Option<LockRange>,
}

/// The exclusive right to change the file system's locks of a file.
pub(super) struct LockTurn<'l> {
    all: &'l LocalLocks,
    file: FileKey,
    locks: Option<Arc<dyn RangeLocks>>,
    /// The locks of the kernel that may still be looked through to update unlocked ranges.
    pub(super) looks: usize,
    ended: bool,
}

/// The next step at the end of a turn.
pub(super) enum TurnEnd {
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
            late: Mutex::default(),
            stale: LogLimit::default(),
            unsupported: LogLimit::default(),
        }
    }
}

impl LocalLocks {
    /// Logs that the file system's locks differ from the clients'. On a failing file system clients
    /// cause this with every unlock.
    pub(super) fn note_stale(&self, now: Duration, error: VfsError) {
        if let Some(suppressed) = self.stale.permit(now) {
            tracing::warn!(%error, suppressed, "a lock of local programs' could not be brought up to date");
        }
    }

    /// Logs that the file system of an export has no locks.
    pub(super) fn note_unsupported(
        &self,
        now: Duration,
        error: VfsError,
        file: &FileKey,
        exports: &ExportTable,
    ) {
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

    /// Returns whether no file has locks.
    pub(super) fn is_empty(&self) -> bool {
        self.files.load(Relaxed) == 0
    }

    fn stripe(&self, file: &FileKey) -> &LockStripe {
        // The remainder is below STRIPES.
        &self.stripes[(LockHash::default().hash_one(file) % STRIPES as u64) as usize]
    }

    /// Takes the turn of a file; `None` when it is taken and the caller must not block.
    pub(super) fn turn(&self, file: &FileKey, may_wait: bool) -> Option<LockTurn<'_>> {
        let stripe = self.stripe(file);
        let mut held = stripe.lock();
        while held.get(file).is_some_and(|entry| entry.busy) {
            if !may_wait {
                return None;
            }
            held = stripe.freed.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        let entry = held.entry(*file).or_default();
        Some(LockTurn::new(self, *file, entry))
    }

    /// Takes the turn of a file with locks, to update a range. `None` for a file without locks, or
    /// when the turn is taken and its owner will update the range.
    pub(super) fn turn_to_unlock(&self, file: &FileKey, range: LockRange) -> Option<LockTurn<'_>> {
        let mut held = self.stripe(file).lock();
        let entry = held.get_mut(file)?;
        if entry.busy {
            entry.unlocked.push(range);
            return None;
        }
        Some(LockTurn::new(self, *file, entry))
    }
}

impl LocalLocks {
    fn late(&self) -> MutexGuard<'_, VecDeque<FileKey>> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a file has a range that housekeeping is to update.
    pub(super) fn has_late(&self) -> bool {
        !self.late().is_empty()
    }

    /// Takes the turn of a file to update its late range, which [`LockTurn::end`] returns. `None`
    /// if there is no such file, or its turn is taken.
    pub(super) fn late_turn(&self) -> Option<LockTurn<'_>> {
        let file = self.late().pop_front()?;
        let mut held = self.stripe(&file).lock();
        // Without an entry, the last lock of the file is gone.
        let entry = held.get_mut(&file)?;
        if entry.busy {
            drop(held);
            self.late().push_back(file);
            return None;
        }
        entry.unlocked.extend(entry.late.take());
        Some(LockTurn::new(self, file, entry))
    }
}

impl<'l> LockTurn<'l> {
    /// Takes the turn of a file, which is free.
    fn new(all: &'l LocalLocks, file: FileKey, entry: &mut LockedFile) -> Self {
        entry.busy = true;
        Self { all, file, locks: entry.locks.clone(), looks: LOOKS_PER_TURN_MAX, ended: false }
    }
}

impl LockTurn<'_> {
    pub(super) fn file(&self) -> &FileKey {
        &self.file
    }

    /// Returns the open file that holds the file's locks, if there are any.
    pub(super) fn locks(&self) -> Option<&Arc<dyn RangeLocks>> {
        self.locks.as_ref()
    }

    /// Makes `locks` the open file that holds the file's locks from now on.
    pub(super) fn put(&mut self, locks: Arc<dyn RangeLocks>) {
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

    /// Leaves an unlocked range to housekeeping.
    pub(super) fn leave(&self, range: LockRange) {
        let mut held = self.all.stripe(&self.file).lock();
        let late = &mut held.entry(self.file).or_default().late;
        let is_first = late.is_none();
        *late = Some(late.map_or(range, |late| late.hull(range)));
        drop(held);
        if is_first {
            self.all.late().push_back(self.file);
        }
    }

    /// Ends the turn, or returns a step to take before.
    pub(super) fn end(&mut self, is_locked: impl Fn() -> bool) -> TurnEnd {
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
            entry.late = None;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::nfs::tests::nfs;
    use crate::engine::{Nfs, Object};
    use vfs::{Backend, Export, LockKind, LockOutcome, MemoryBackend, MemoryLimits, VfsResult};

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
        assert!(nfs.local_locks.is_empty());
        assert!(nfs.local_locks.turn(&file, false).is_some(), "the turn has ended");
    }
}
