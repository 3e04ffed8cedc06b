//! The algebra of locked byte ranges, without stateids or clients.

use std::collections::BTreeMap;

/// A range of bytes, both ends inclusive, never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LockRange {
    first: u64,
    last: u64,
}

/// Why offset and length are no range: always NFS4ERR_INVAL (RFC 8881 section 18.10.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an empty range, or one that ends behind the last byte that can be locked")]
pub struct RangeError;

impl LockRange {
    /// Makes a range from offset4 and length4; a length of all ones reaches to the end of any file.
    ///
    /// # Errors
    /// [`RangeError`] when the length is zero, or offset and length come to more than 64 bits hold.
    pub fn new(offset: u64, length: u64) -> Result<Self, RangeError> {
        match length {
            0 => Err(RangeError),
            u64::MAX => Ok(Self { first: offset, last: u64::MAX }),
            _ => match offset.checked_add(length) {
                Some(end) => Ok(Self { first: offset, last: end - 1 }),
                None => Err(RangeError),
            },
        }
    }

    /// Makes a range of its first and last byte; `None` if it is empty.
    pub fn of_bytes(first: u64, last: u64) -> Option<Self> {
        (first <= last).then_some(Self { first, last })
    }

    /// Returns the range from the first byte of both ranges to the last.
    pub fn hull(self, other: Self) -> Self {
        Self { first: self.first.min(other.first), last: self.last.max(other.last) }
    }

    /// All bytes that can be locked.
    pub const WHOLE: Self = Self { first: 0, last: u64::MAX };

    /// Returns offset4, the first byte.
    pub fn offset(self) -> u64 {
        self.first
    }

    /// Returns the last byte.
    pub fn last(self) -> u64 {
        self.last
    }

    /// Returns length4: all ones when the range reaches to the end.
    pub fn length(self) -> u64 {
        match self.last {
            u64::MAX => u64::MAX,
            last => last - self.first + 1,
        }
    }
}

/// The mode of a lock: nfs_lock_type4 without the variants that wait. Writing is the stronger one,
/// and no lock (`None`) is weaker than both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockMode {
    /// READ_LT: shared with other locks for reading.
    Read,
    /// WRITE_LT: shared with no other lock.
    Write,
}

impl LockMode {
    /// Returns whether locks of two owners on one byte exclude each other (RFC 8881 section 9.3).
    fn excludes(self, other: Self) -> bool {
        self.max(other) == Self::Write
    }
}

/// A lock that somebody holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeldRange<H> {
    pub(crate) holder: H,
    pub(crate) range: LockRange,
    pub(crate) mode: LockMode,
}

/// The ranges of one holder by their first byte: the last byte and the mode. They never overlap,
/// and neighbours of one mode are one range.
type Ranges = BTreeMap<u64, (u64, LockMode)>;

/// The locked ranges of one file: for each holder, ranges that do not overlap.
#[derive(Debug)]
pub(crate) struct RangeTable<H> {
    holders: BTreeMap<H, Ranges>,
    len: usize,
}

impl<H> Default for RangeTable<H> {
    fn default() -> Self {
        Self { holders: BTreeMap::new(), len: 0 }
    }
}

impl<H: Copy + Ord> RangeTable<H> {
    /// Returns the number of ranges of all holders.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the holders of ranges.
    pub(crate) fn holders(&self) -> impl Iterator<Item = H> {
        self.holders.keys().copied()
    }

    /// Returns whether the holder has any range.
    pub(crate) fn holds(&self, holder: H) -> bool {
        self.holders.contains_key(&holder)
    }

    /// Returns the holder's ranges in order, each with its mode.
    pub(crate) fn of(&self, holder: H) -> impl Iterator<Item = (LockRange, LockMode)> {
        let ranges = self.holders.get(&holder).into_iter().flatten();
        ranges.map(|(first, (last, mode))| (LockRange { first: *first, last: *last }, *mode))
    }

    /// Returns a lock of somebody else that does not allow this one.
    pub(crate) fn conflict(&self, holder: H, range: LockRange, mode: LockMode) -> Option<HeldRange<H>> {
        let others = self.holders.iter().filter(|(other, _)| **other != holder);
        others
            .flat_map(|(other, ranges)| {
                overlapping(ranges, range).map(|(range, mode)| HeldRange { holder: *other, range, mode })
            })
            .find(|held| held.mode.excludes(mode))
    }

    /// Locks a range: the holder's locks in it get this mode. The caller checks conflicts.
    pub(crate) fn lock(&mut self, holder: H, range: LockRange, mode: LockMode) {
        let ranges = self.holders.entry(holder).or_default();
        let before = ranges.len();
        cut(ranges, range);
        let merged = absorb_neighbours(ranges, range, mode);
        ranges.insert(merged.first, (merged.last, mode));
        self.len = self.len - before + ranges.len();
    }

    /// Returns whether unlocking a range makes two ranges of one.
    pub(crate) fn splits(&self, holder: H, range: LockRange) -> bool {
        let surrounds = |(held, _): (LockRange, LockMode)| held.first < range.first && range.last < held.last;
        self.holders.get(&holder).is_some_and(|ranges| overlapping(ranges, range).any(surrounds))
    }

    /// Unlocks a range; unlocked parts of it stay so.
    pub(crate) fn unlock(&mut self, holder: H, range: LockRange) {
        let Some(ranges) = self.holders.get_mut(&holder) else { return };
        let before = ranges.len();
        cut(ranges, range);
        self.len = self.len - before + ranges.len();
        if ranges.is_empty() {
            self.holders.remove(&holder);
        }
    }

    /// Returns the range from a holder's first locked byte to its last.
    pub(crate) fn hull(&self, holder: H) -> Option<LockRange> {
        let ranges = self.holders.get(&holder)?;
        let ((first, _), (_, (last, _))) = (ranges.first_key_value()?, ranges.last_key_value()?);
        Some(LockRange { first: *first, last: *last })
    }

    /// Returns the part of a range, from its first byte on, in which no holder has more than `max`
    /// ranges; `max` is at least one.
    pub(crate) fn part_with(&self, range: LockRange, max: usize) -> LockRange {
        // Of one holder, only the first range can begin before the part.
        let others = self.holders.values().filter_map(|ranges| overlapping(ranges, range).nth(max.max(1)));
        let end = others.map(|(held, _)| held.first).min();
        end.map_or(range, |end| LockRange { last: end - 1, ..range })
    }

    /// Returns the strongest lock of all holders on the bytes of a range, in pieces that follow
    /// each other; neighbours differ.
    pub(crate) fn coverage(&self, range: LockRange) -> Vec<(LockRange, Option<LockMode>)> {
        // Where locks begin and where they have ended, readers and writers counted apart.
        let mut edges: BTreeMap<u64, (i64, i64)> = BTreeMap::from([(range.first, (0, 0))]);
        for (held, mode) in self.holders.values().flat_map(|ranges| overlapping(ranges, range)) {
            let step = match mode {
                LockMode::Read => (1, 0),
                LockMode::Write => (0, 1),
            };
            let begin = edges.entry(held.first.max(range.first)).or_default();
            *begin = (begin.0 + step.0, begin.1 + step.1);
            if held.last < range.last {
                let end = edges.entry(held.last + 1).or_default();
                *end = (end.0 - step.0, end.1 - step.1);
            }
        }
        let mut pieces: Vec<(LockRange, Option<LockMode>)> = Vec::new();
        let (mut readers, mut writers) = (0, 0);
        for (first, step) in edges {
            (readers, writers) = (readers + step.0, writers + step.1);
            let locked = match (readers, writers) {
                (0, 0) => None,
                (_, 0) => Some(LockMode::Read),
                _ => Some(LockMode::Write),
            };
            match pieces.last_mut() {
                Some((_, before)) if *before == locked => {}
                before => {
                    if let Some((piece, _)) = before {
                        piece.last = first - 1;
                    }
                    pieces.push((LockRange { first, last: range.last }, locked));
                }
            }
        }
        pieces
    }

    /// Unlocks all of a holder and returns how many ranges that were.
    pub(crate) fn unlock_all(&mut self, holder: H) -> usize {
        let ranges = self.holders.remove(&holder).map_or(0, |ranges| ranges.len());
        self.len -= ranges;
        ranges
    }
}

/// Returns the ranges that share a byte with `range`, in order.
fn overlapping(ranges: &Ranges, range: LockRange) -> impl Iterator<Item = (LockRange, LockMode)> + '_ {
    // Of the ranges that begin before it only the nearest can reach into it, since ranges of one
    // holder do not overlap.
    let before = ranges.range(..range.first).next_back().filter(move |(_, (last, _))| *last >= range.first);
    let within = ranges.range(range.first..=range.last);
    before
        .into_iter()
        .chain(within)
        .map(|(first, (last, mode))| (LockRange { first: *first, last: *last }, *mode))
}

/// Removes `range`: ranges inside it go, ranges that stick out are shortened, and one around it
/// becomes two.
fn cut(ranges: &mut Ranges, range: LockRange) {
    let hit: Vec<(LockRange, LockMode)> = overlapping(ranges, range).collect();
    for (old, mode) in hit {
        ranges.remove(&old.first);
        if old.first < range.first {
            ranges.insert(old.first, (range.first - 1, mode));
        }
        if old.last > range.last {
            ranges.insert(range.last + 1, (old.last, mode));
        }
    }
}

/// Removes the neighbours of the same mode that touch `range` and returns the range that covers all
/// of them.
fn absorb_neighbours(ranges: &mut Ranges, range: LockRange, mode: LockMode) -> LockRange {
    let mut merged = range;
    let left = ranges.range(..range.first).next_back().map(|(first, (last, mode))| (*first, *last, *mode));
    if let Some((first, last, held_mode)) = left
        && held_mode == mode
        && last.checked_add(1) == Some(range.first)
    {
        ranges.remove(&first);
        merged.first = first;
    }
    if let Some(next) = range.last.checked_add(1)
        && let Some((last, held_mode)) = ranges.get(&next).copied()
        && held_mode == mode
    {
        ranges.remove(&next);
        merged.last = last;
    }
    merged
}

#[cfg(test)]
mod tests;
