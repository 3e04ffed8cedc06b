//! Ranges of a file, each with the kind of its lock.

use std::collections::BTreeMap;
use vfs::LockKind;

/// The first byte, the last byte, and the kind of their lock from now on.
pub type LockChange = (u64, u64, Option<LockKind>);

/// The effect of a call on the locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangeChange {
    /// All bytes are locked like this already.
    Nothing,
    /// Some bytes get a stronger lock, and none a weaker one.
    Raises,
    /// Some bytes get a weaker lock or none.
    Lowers,
}

/// Locked ranges that do not overlap: the last byte and the kind by the first byte. Neighbours of
/// one kind are one range, so that their number is that of the kernel's.
#[derive(Debug, Default)]
pub(crate) struct HeldRanges(BTreeMap<u64, (u64, LockKind)>);

impl HeldRanges {
    /// Returns the effect of locking the bytes from `first` to `last`, or of unlocking them.
    pub(crate) fn change(&self, first: u64, last: u64, kind: Option<LockKind>) -> RangeChange {
        let (mut raises, mut next) = (false, Some(first));
        for (start, end, held) in self.within(first, last) {
            if strength(Some(held)) > strength(kind) {
                return RangeChange::Lowers;
            }
            let has_gap = next.is_some_and(|next| next < start);
            raises |= has_gap || strength(Some(held)) < strength(kind);
            next = end.checked_add(1);
        }
        raises |= next.is_some_and(|next| next <= last);
        if raises && kind.is_some() { RangeChange::Raises } else { RangeChange::Nothing }
    }

    /// Notes that the bytes from `first` to `last` are locked, or unlocked.
    pub(crate) fn set(&mut self, first: u64, last: u64, kind: Option<LockKind>) {
        // Neighbours of the same kind become one range with these bytes.
        let around: Vec<_> = self.within(first.saturating_sub(1), last.saturating_add(1)).collect();
        let (mut whole_first, mut whole_last) = (first, last);
        for (start, end, held) in around {
            self.0.remove(&start);
            if Some(held) == kind {
                (whole_first, whole_last) = (whole_first.min(start), whole_last.max(end));
                continue;
            }
            if start < first {
                self.0.insert(start, (end.min(first - 1), held));
            }
            if end > last {
                self.0.insert(start.max(last + 1), (end, held));
            }
        }
        if let Some(kind) = kind {
            self.0.insert(whole_first, (whole_last, kind));
        }
    }

    /// Returns the ranges with a byte from `first` to `last`, in order.
    fn within(&self, first: u64, last: u64) -> impl Iterator<Item = (u64, u64, LockKind)> {
        let before = self.0.range(..first).next_back().filter(move |(_, (end, _))| *end >= first);
        let ranges = before.into_iter().chain(self.0.range(first..=last));
        ranges.map(|(start, (end, kind))| (*start, *end, *kind))
    }

    /// Returns the changes that set the locks of all bytes, in order.
    pub(crate) fn changes(&self) -> Vec<LockChange> {
        let (mut changes, mut next) = (Vec::new(), Some(0));
        for (first, (last, kind)) in &self.0 {
            changes.extend(next.filter(|next| next < first).map(|next| (next, first - 1, None)));
            changes.push((*first, *last, Some(*kind)));
            next = last.checked_add(1);
        }
        changes.extend(next.map(|next| (next, u64::MAX, None)));
        changes
    }

    /// Returns the ranges for an image, each with whether it is locked for writing.
    pub(crate) fn image(&self) -> Vec<(u64, u64, bool)> {
        self.0.iter().map(|(first, (last, kind))| (*first, *last, *kind == LockKind::Write)).collect()
    }

    /// Returns the ranges of an image.
    pub(crate) fn from_image(ranges: &[(u64, u64, bool)]) -> Self {
        let mut held = Self::default();
        for (first, last, writes) in ranges.iter().filter(|(first, last, _)| first <= last) {
            held.set(*first, *last, Some(if *writes { LockKind::Write } else { LockKind::Read }));
        }
        held
    }
}

fn strength(kind: Option<LockKind>) -> u8 {
    match kind {
        None => 0,
        Some(LockKind::Read) => 1,
        Some(LockKind::Write) => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rng::SplitMix64;

    const KINDS: [Option<LockKind>; 3] = [None, Some(LockKind::Read), Some(LockKind::Write)];

    #[test]
    fn ranges_agree_with_a_table_of_bytes() {
        // The last bytes lie at the end of all offsets.
        let offset = |byte: usize| if byte < 8 { byte as u64 } else { u64::MAX - 15 + byte as u64 };
        let (mut held, mut bytes) = (HeldRanges::default(), [None; 16]);
        let mut random = SplitMix64(1);
        let mut draw = |below: usize| random.index(below);
        for _ in 0..20_000 {
            // Ranges stay in one half, since the middle is missing in the table.
            let (half, a, b, kind) = (8 * draw(2), draw(8), draw(8), KINDS[draw(3)]);
            let (first, last) = (half + a.min(b), half + a.max(b));
            let meant = &mut bytes[first..=last];
            let lowers = meant.iter().any(|held| strength(*held) > strength(kind));
            let raises = meant.iter().any(|held| strength(*held) < strength(kind));
            let expected = match (lowers, raises) {
                (true, _) => RangeChange::Lowers,
                (false, true) => RangeChange::Raises,
                (false, false) => RangeChange::Nothing,
            };
            assert_eq!(held.change(offset(first), offset(last), kind), expected, "{held:?}");
            held.set(offset(first), offset(last), kind);
            meant.fill(kind);
            let image = held.image();
            assert!(image.windows(2).all(|two| two[0].1 < two[1].0), "{image:?}");
            let joined = |two: &[(u64, u64, bool)]| two[0].1 + 1 == two[1].0 && two[0].2 == two[1].2;
            assert!(!image.windows(2).any(joined), "{image:?}");
            for (byte, kind) in bytes.iter().enumerate() {
                assert_eq!(held.change(offset(byte), offset(byte), *kind), RangeChange::Nothing, "{held:?}");
            }
        }
        assert_eq!(HeldRanges::from_image(&held.image()).image(), held.image());
        let mut copy = HeldRanges::default();
        copy.set(0, u64::MAX, Some(LockKind::Write));
        held.changes().into_iter().for_each(|(first, last, kind)| copy.set(first, last, kind));
        assert_eq!(copy.image(), held.image());
    }
}
