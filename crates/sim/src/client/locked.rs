//! The locked bytes of an open file, as their owner and the history know them.

use crate::history::LockHold;
use crate::world::Inner;
use std::ops::Range;
use std::time::Duration;

/// Bytes of a file that are locked.
pub(crate) const CELLS: usize = 12;

/// The bytes of one file that one owner has locked.
#[derive(Debug)]
pub(crate) struct LockedBytes {
    /// Client, life and worker.
    owner: (usize, u32, usize),
    /// The hash of the file's path.
    file: u64,
    /// For each byte that is locked, whether for writing.
    kinds: [Option<bool>; CELLS],
    /// The place of each byte's lock in the history.
    holds: [Option<usize>; CELLS],
}

impl LockedBytes {
    /// Makes a record without locks.
    pub(crate) fn new(owner: (usize, u32, usize), file: u64) -> Self {
        Self { owner, file, kinds: [None; CELLS], holds: [None; CELLS] }
    }

    /// Returns whether the owner has all bytes locked for writing.
    pub(crate) fn is_exclusive(&self) -> bool {
        self.kinds == [Some(true); CELLS]
    }

    /// Returns the locked ranges: whether for writing, start and length.
    pub(super) fn ranges(&self) -> Vec<(bool, usize, usize)> {
        let mut ranges: Vec<(bool, usize, usize)> = Vec::new();
        for (cell, kind) in self.kinds.iter().enumerate() {
            match (kind, ranges.last_mut()) {
                (Some(kind), Some((last, start, length))) if kind == last && *start + *length == cell => {
                    *length += 1;
                }
                (Some(kind), _) => ranges.push((*kind, cell, 1)),
                (None, _) => {}
            }
        }
        ranges
    }

    /// Notes that a range is locked from now on. The owner was sure of earlier locks of its bytes
    /// up to `until`.
    pub(super) fn lock(&mut self, inner: &mut Inner, range: Range<usize>, write: bool, until: Duration) {
        let (owner, file, from) = (self.owner, self.file, inner.now);
        for cell in range {
            self.release(inner, cell, until);
            self.kinds[cell] = Some(write);
            self.holds[cell] = Some(inner.history.holds.len());
            inner.history.holds.push(LockHold { owner, file, cell, write, from, until: None });
        }
    }

    /// Notes that a call is about to turn locks for writing into locks for reading.
    pub(super) fn downgrade(&mut self, inner: &mut Inner, range: Range<usize>, until: Duration) {
        for cell in range.filter(|cell| self.kinds[*cell] == Some(true)).collect::<Vec<_>>() {
            self.release(inner, cell, until);
        }
    }

    /// Notes that a range is about to be unlocked, so that it is not reclaimed. Returns the places
    /// of its locks in the history.
    pub(super) fn unlock(&mut self, inner: &mut Inner, range: Range<usize>, until: Duration) -> Vec<usize> {
        let released = range.clone().filter_map(|cell| self.holds[cell]).collect();
        for cell in range {
            self.release(inner, cell, until);
            self.kinds[cell] = None;
        }
        released
    }

    /// Notes that all locks are lost. The owner was sure of them up to `until`.
    pub(super) fn lose(&mut self, inner: &mut Inner, until: Duration) {
        self.unlock(inner, 0..CELLS, until);
    }

    fn release(&mut self, inner: &mut Inner, cell: usize, until: Duration) {
        if let Some(hold) = self.holds[cell].take().and_then(|at| inner.history.holds.get_mut(at)) {
            hold.until = Some(until.max(hold.from));
        }
    }
}

/// Notes that locks were held up to a call of LOCKU, since it has succeeded.
pub(super) fn held_until(inner: &mut Inner, released: &[usize], called: Duration) {
    for at in released {
        let hold = &mut inner.history.holds[*at];
        hold.until = Some(called.max(hold.from));
    }
}
