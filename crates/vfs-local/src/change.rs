//! Tells changes apart that fall into one tick of the kernel's clock.
//!
//! Since 6.13 Linux moves ctime on every change that somebody could have seen (multigrain
//! timestamps, on ext4, xfs and btrfs; tmpfs gives a directory the time of the removed entry, which
//! may be an old one). Before, and on other file systems, ctime moves with the timer, every 1 to 10
//! ms: two changes within that time look alike, and a client would keep the first in its cache.
//! There the server counts its own changes and adds them to ctime. Changes made on the server's
//! machine within one tick stay invisible there.

use image::{ImageError, ensure};
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

/// Independent parts, so that threads seldom meet at one lock.
const SHARDS: usize = 64;
/// Objects remembered in one part. When they are forgotten, all objects of the part seem to have
/// changed, and clients read their cached data once more. Earlier versions take 1,024 entries of a
/// part from an image, its base included.
const SHARD_MAX: usize = 1000;
/// The first of the numbers under which an image holds [`ChangeShard::base`]. No inode has them.
const BASE_INO: u64 = u64::MAX - (SHARDS as u64 - 1);

#[derive(Clone, Copy, Debug, Default)]
struct ChangeSlot {
    /// Changed since the attribute was asked for last.
    pending: bool,
    /// The ctime to which `bump` is added.
    ctime: u64,
    bump: u64,
}

#[derive(Debug, Default)]
struct ChangeShard {
    slots: HashMap<u64, ChangeSlot>,
    /// Added to the attribute of every object, so that none goes back when slots are forgotten.
    base: u64,
}

impl ChangeShard {
    /// Returns the slot of an object. Forgets the others when there is no room for it.
    fn slot(&mut self, ino: u64) -> &mut ChangeSlot {
        if self.slots.len() >= SHARD_MAX && !self.slots.contains_key(&ino) {
            let bumps = self.slots.values().map(|slot| slot.bump.wrapping_add(1));
            self.base = self.base.wrapping_add(bumps.max().unwrap_or(0)).wrapping_add(1);
            self.slots.clear();
        }
        self.slots.entry(ino).or_default()
    }
}

/// Makes the change attribute (RFC 8881 section 5.8.1.4) of the objects of one file system.
#[derive(Debug)]
pub(crate) struct Changes {
    shards: Option<Box<[Mutex<ChangeShard>; SHARDS]>>,
}

impl Changes {
    /// Counts changes unless ctime tells them apart.
    pub(crate) fn new(fine_ctime: bool) -> Self {
        let shards = (!fine_ctime).then(|| Box::new(std::array::from_fn(|_| Mutex::default())));
        Self { shards }
    }

    fn with<T>(&self, ino: u64, run: impl FnOnce(&mut ChangeShard) -> T) -> Option<T> {
        // The remainder is below SHARDS.
        let shard = &self.shards.as_ref()?[(ino % SHARDS as u64) as usize];
        Some(run(&mut shard.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Returns the counted changes for the next process: inode number, whether it changed since it
    /// was asked for, ctime and count. Objects from [`BASE_INO`] on are the bases of the parts.
    pub(crate) fn image(&self) -> Vec<(u64, bool, u64, u64)> {
        let Self { shards } = self;
        let mut image = Vec::new();
        for (ino, shard) in (BASE_INO..=u64::MAX).zip(shards.iter().flat_map(|shards| shards.iter())) {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let ChangeShard { slots, base } = &*shard;
            image.push((ino, false, 0, *base));
            image.extend(slots.iter().map(|(ino, slot)| {
                let ChangeSlot { pending, ctime, bump } = *slot;
                (*ino, pending, ctime, bump)
            }));
        }
        image
    }

    /// Goes on with the changes that the previous process has counted.
    pub(crate) fn restore(&self, image: Vec<(u64, bool, u64, u64)>) -> Result<(), ImageError> {
        for (ino, pending, ctime, bump) in image {
            let kept = self.with(ino, |shard| {
                if ino >= BASE_INO {
                    shard.base = bump;
                } else {
                    shard.slots.insert(ino, ChangeSlot { pending, ctime, bump });
                }
                shard.slots.len()
            });
            ensure(kept.unwrap_or(0) <= SHARD_MAX, "too many counted changes")?;
        }
        Ok(())
    }

    /// Notes that the server changed an object.
    pub(crate) fn note(&self, ino: u64) {
        self.with(ino, |shard| shard.slot(ino).pending = true);
    }

    /// Returns the change attribute of an object whose ctime is this many nanoseconds.
    pub(crate) fn attribute(&self, ino: u64, ctime: u64) -> u64 {
        let corrected = self.with(ino, |shard| {
            let first = ctime.wrapping_add(shard.base);
            let Some(slot) = shard.slots.get_mut(&ino) else { return first };
            if slot.ctime != ctime {
                // Another change may have come within the tick after the look at ctime. A first
                // sight counts as one, too: before it the bare ctime may have been seen.
                let changed = slot.pending || slot.ctime == 0;
                *slot = ChangeSlot { pending: false, ctime, bump: u64::from(changed) };
            } else if slot.pending {
                slot.pending = false;
                slot.bump += 1;
            }
            first.wrapping_add(slot.bump)
        });
        corrected.unwrap_or(ctime)
    }
}

/// Says whether this kernel gives a file system a ctime that moves on every change.
pub(crate) fn fine_ctime(file_system: i64) -> bool {
    const EXT4: i64 = 0xef53;
    const XFS: i64 = 0x5846_5342;
    const BTRFS: i64 = 0x9123_683e;
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0_u32));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    version >= (6, 13) && [EXT4, XFS, BTRFS].contains(&file_system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_within_one_tick_moves_the_attribute() /* RFC 8881 section 5.8.1.4 */
    {
        let changes = Changes::new(false);
        let mut last = changes.attribute(7, 1000);
        for _ in 0..5 {
            changes.note(7);
            let next = changes.attribute(7, 1000);
            assert!(next > last);
            assert_eq!(changes.attribute(7, 1000), next, "no change, no move");
            last = next;
        }
        changes.note(7);
        assert!((4_000_000..4_000_010).contains(&changes.attribute(7, 4_000_000)));
    }

    #[test]
    fn a_change_after_the_look_at_the_clock_moves_the_attribute() {
        let changes = Changes::new(false);
        changes.note(7);
        let before = changes.attribute(7, 1000);
        // The reader sees 2000, and then two changes are noted that both have this time.
        changes.note(7);
        let seen = changes.attribute(7, 2000);
        changes.note(7);
        assert!(before < seen && seen < changes.attribute(7, 2000));
        assert_ne!(seen, 2000, "another reader may have seen the bare time between the two");
    }

    #[test]
    fn no_attribute_goes_back_when_others_take_the_room() {
        let changes = Changes::new(false);
        for ino in [7, 8] {
            (0..5).for_each(|_| _ = (changes.note(ino), changes.attribute(ino, 1000)));
        }
        changes.note(7);
        // No reader has seen the last change of 7; readers have seen that of 8.
        let seen = [7, 8].map(|ino| changes.attribute(ino, 1000));
        changes.note(7);
        (1000..200_000).for_each(|ino| changes.note(ino));
        let later = [7, 8].map(|ino| changes.attribute(ino, 1000));
        assert!(later[0] > seen[0] && later[1] >= seen[1], "{seen:?} {later:?}");
        assert!(later[1] < 2000, "a later time is still later");

        let next = Changes::new(false);
        next.restore(changes.image()).unwrap();
        assert_eq!([7, 8].map(|ino| next.attribute(ino, 1000)), later);
    }

    #[test]
    fn objects_that_the_server_did_not_change_have_their_ctime() {
        let changes = Changes::new(false);
        changes.note(7);
        assert_eq!(changes.attribute(8, 1000), 1000);
        assert_eq!(Changes::new(true).attribute(7, 1000), 1000);
    }

    #[test]
    fn the_table_is_bounded() {
        let changes = Changes::new(false);
        (0..1_000_000).for_each(|ino| changes.note(ino));
        let held: usize = changes
            .shards
            .iter()
            .flat_map(|shards| shards.iter())
            .map(|shard| shard.lock().unwrap().slots.len())
            .sum();
        assert!(held <= SHARDS * SHARD_MAX);
    }
}
