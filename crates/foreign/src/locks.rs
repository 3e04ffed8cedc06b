//! Byte-range locks of a file on a file system that may hang.

use crate::ForeignThread;
use crate::held_ranges::{HeldRanges, LockChange, RangeChange};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use vfs::{OFFSET_MAX, VfsError, VfsResult};

/// Notes of the locks of a file, which are changed by calls on a [`ForeignThread`].
///
/// The changes of a file come one after the other.
#[derive(Debug, Default)]
pub struct ForeignLocks(Arc<Mutex<LockNotes>>);

#[derive(Debug, Default)]
struct LockNotes {
    /// The locks after all queued calls.
    held: HeldRanges,
    /// Whether the last queued call of the file sets all locks to the notes.
    ends_with_notes: bool,
}

fn locked(notes: &Mutex<LockNotes>) -> MutexGuard<'_, LockNotes> {
    notes.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ForeignLocks {
    /// Makes a change by `set` after the queued calls, and waits at most `patience` for it. In one
    /// order for all: a lock must not overtake an unlock that hangs.
    ///
    /// While the thread is stuck, no lock is queued. Unlocks are noted, and one call for all of
    /// them sets the locks to the notes, however many there are. Unlocking a range without locks is
    /// done at once.
    ///
    /// # Errors
    /// `Delay` if the call has not returned in time: it may still succeed or fail, so no lock is
    /// granted from the notes. The inner result is that of the call.
    pub fn set<E: Send + 'static>(
        &self,
        thread: &ForeignThread,
        patience: Duration,
        (first, last, kind): LockChange,
        set: impl Fn(LockChange) -> Result<(), E> + Send + 'static,
    ) -> VfsResult<Result<(), E>> {
        // File systems know no byte behind the largest offset.
        let change = (first, if last >= OFFSET_MAX { u64::MAX } else { last }, kind);
        if thread.is_stuck() {
            return self.note(thread, change, set).map(Ok);
        }
        locked(&self.0).ends_with_notes = false;
        let done = thread.run(patience, move || set(change));
        // A queued call may still take effect.
        if !matches!(done, Some(Err(_))) {
            let (first, last, kind) = change;
            locked(&self.0).held.set(first, last, kind);
        }
        done.ok_or(VfsError::Delay)
    }

    fn note<E>(
        &self,
        thread: &ForeignThread,
        (first, last, kind): LockChange,
        set: impl Fn(LockChange) -> Result<(), E> + Send + 'static,
    ) -> VfsResult<()> {
        let mut notes = locked(&self.0);
        match notes.held.change(first, last, kind) {
            RangeChange::Lowers => {}
            RangeChange::Nothing if kind.is_none() => return Ok(()),
            RangeChange::Nothing | RangeChange::Raises => return Err(VfsError::Delay),
        }
        notes.held.set(first, last, kind);
        let is_queued = mem::replace(&mut notes.ends_with_notes, true);
        drop(notes);
        if !is_queued {
            let notes = Arc::clone(&self.0);
            thread.send(Box::new(move || {
                let mut notes = locked(&notes);
                notes.ends_with_notes = false;
                let changes = notes.held.changes();
                drop(notes);
                // No caller waits for an error. It shows again at the next unlock of these bytes.
                changes.into_iter().for_each(|change| drop(set(change)));
            }));
        }
        Err(VfsError::Delay)
    }

    /// Returns the locks for an image: the first and the last byte of each, and whether it is one
    /// for writing.
    pub fn image(&self) -> Vec<(u64, u64, bool)> {
        locked(&self.0).held.image()
    }

    /// Returns the notes of an image.
    pub fn from_image(ranges: &[(u64, u64, bool)]) -> Self {
        let held = HeldRanges::from_image(ranges);
        Self(Arc::new(Mutex::new(LockNotes { held, ends_with_notes: false })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use vfs::LockKind;

    const LONG: Duration = Duration::from_secs(30);
    const READ: Option<LockKind> = Some(LockKind::Read);
    const WRITE: Option<LockKind> = Some(LockKind::Write);

    /// A file with a thread that can be made to hang, and the calls that have set its locks.
    #[derive(Default)]
    struct HangingFile {
        thread: ForeignThread,
        locks: ForeignLocks,
        calls: Arc<Mutex<(HeldRanges, Vec<LockChange>)>>,
    }

    impl HangingFile {
        fn set(&self, patience: Duration, first: u64, last: u64, kind: Option<LockKind>) -> VfsResult<()> {
            let calls = Arc::clone(&self.calls);
            let set = move |(first, last, kind)| {
                let mut calls = calls.lock().unwrap();
                calls.0.set(first, last, kind);
                calls.1.push((first, last, kind));
                Ok::<_, ()>(())
            };
            self.locks.set(&self.thread, patience, (first, last, kind), set).map(Result::unwrap)
        }

        /// Makes the thread hang until the sender is used or dropped. The receiver tells when it
        /// hangs: until then, the end of an earlier call can still make it seem to go on.
        fn hang(&self) -> (mpsc::Sender<()>, mpsc::Receiver<()>) {
            let (release, released) = mpsc::channel();
            let (begin, began) = mpsc::channel();
            self.thread.send(Box::new(move || {
                let _ = begin.send(());
                released.recv().unwrap_or(());
            }));
            (release, began)
        }

        /// Returns the calls that have run since the last time, after all queued ones.
        fn calls(&self) -> Vec<LockChange> {
            let (say, said) = mpsc::channel();
            self.thread.send(Box::new(move || say.send(()).unwrap()));
            said.recv_timeout(LONG).unwrap();
            mem::take(&mut self.calls.lock().unwrap().1)
        }

        fn held(&self) -> Vec<(u64, u64, bool)> {
            assert_eq!(self.locks.image(), self.calls.lock().unwrap().0.image());
            self.locks.image()
        }
    }

    #[test]
    fn all_unlocks_while_a_file_system_hangs_are_one_call() // RFC 8881 section 18.12.3
    {
        let file = HangingFile::default();
        file.set(LONG, 0, u64::MAX, WRITE).unwrap();
        file.calls();
        let (release, began) = file.hang();
        began.recv_timeout(LONG).unwrap();
        assert_eq!(file.set(Duration::ZERO, 0, 0, None), Err(VfsError::Delay), "it waits in the queue");
        for byte in 1..1000 {
            assert_eq!(file.set(LONG, byte, byte, None), Err(VfsError::Delay));
            assert_eq!(file.set(LONG, byte, byte, None), Ok(()), "there is no lock to take away");
            assert_eq!(file.set(LONG, byte, byte, WRITE), Err(VfsError::Delay), "it may still fail");
        }
        assert_eq!(file.set(LONG, 2000, 2999, READ), Err(VfsError::Delay));
        drop(release);
        let noted = [(0, 999, None), (1000, 1999, WRITE), (2000, 2999, READ), (3000, u64::MAX, WRITE)];
        assert_eq!(file.calls(), [&[(0, 0, None)][..], &noted].concat());
        assert_eq!(file.held(), [(1000, 1999, true), (2000, 2999, false), (3000, u64::MAX, true)]);
        assert_eq!(file.set(LONG, 5, 5, WRITE), Ok(()), "it hangs no more");
    }

    #[test]
    fn a_lock_that_was_queued_last_is_undone_behind_it() {
        let file = HangingFile::default();
        file.set(LONG, 0, 9, WRITE).unwrap();
        let ((first, began), (second, _)) = (file.hang(), file.hang());
        began.recv_timeout(LONG).unwrap();
        assert_eq!(file.set(Duration::ZERO, 20, 20, WRITE), Err(VfsError::Delay));
        assert_eq!(file.set(LONG, 5, 5, None), Err(VfsError::Delay));
        // The thread goes on, and hangs again before it gets to these calls.
        first.send(()).unwrap();
        while file.thread.is_stuck() {
            std::thread::yield_now();
        }
        assert_eq!(file.set(Duration::ZERO, 30, 30, WRITE), Err(VfsError::Delay));
        assert_eq!(file.set(LONG, 30, 30, None), Err(VfsError::Delay));
        assert_eq!(file.set(LONG, 20, 20, None), Err(VfsError::Delay));
        drop(second);
        file.calls();
        assert_eq!(file.held(), [(0, 4, true), (6, 9, true)]);
    }
}
