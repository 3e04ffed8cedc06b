//! Tells changes apart that fall into one tick of the kernel's clock.
//!
//! Since 6.13 Linux moves ctime on every change that somebody could have seen (multigrain
//! timestamps, on ext4, xfs and btrfs; tmpfs gives a directory the time of the removed entry, which
//! may be an old one). Before, and on other file systems, ctime moves with the timer, every 1 to 10
//! ms: two changes within that time look alike, and a client would keep the first in its cache.
//! There the server counts its own changes and adds them to ctime. Changes made on the server's
//! machine within one tick stay invisible there.
//!
//! Several exports may lead to one file system, and a reload may open its folder once more. Their
//! clients see the changes of each other, so all backends of a file system count together.

use crate::subvolumes;
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
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
    /// When the last change was noted.
    noted: Moment,
}

/// A place in the order of the server's changes. A reader takes it before it asks for attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

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

/// The counted changes of one file system, whichever backends reach it.
#[derive(Debug)]
struct ChangeCounts {
    shards: [Mutex<ChangeShard>; SHARDS],
    /// The changes noted so far.
    noted: AtomicU64,
}

impl Default for ChangeCounts {
    fn default() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()), noted: AtomicU64::new(0) }
    }
}

/// The counts in use, by the numbers of their file systems.
static COUNTS: Mutex<Vec<(u64, Weak<ChangeCounts>)>> = Mutex::new(Vec::new());

impl ChangeCounts {
    /// Returns those of a file system that this process counts already, or new ones.
    fn of(device: u64) -> Arc<Self> {
        let mut all = COUNTS.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(_, counts)| counts.strong_count() > 0);
        let known = all.iter().find(|(known, _)| *known == device);
        if let Some(counts) = known.and_then(|(_, counts)| counts.upgrade()) {
            return counts;
        }
        let counts = Arc::default();
        all.push((device, Arc::downgrade(&counts)));
        counts
    }

    fn with<T>(&self, number: u64, run: impl FnOnce(&mut ChangeShard) -> T) -> T {
        // The remainder is below SHARDS.
        let shard = &self.shards[(number % SHARDS as u64) as usize];
        run(&mut shard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Makes the change attribute (RFC 8881 section 5.8.1.4) of the objects that a backend reaches.
/// They are known by their fileids there.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// `None` where ctime tells changes apart.
    counts: Option<Arc<ChangeCounts>>,
    /// That of the backend's root, on which fileids depend.
    subvolume: Option<u64>,
}

impl Changes {
    /// Counts changes together with all others of the file system, unless ctime tells them apart.
    pub(crate) fn of(fs_type: i64, device: u64, subvolume: Option<u64>) -> Self {
        let counts = (!fine_ctime(fs_type)).then(|| ChangeCounts::of(device));
        Self { counts, subvolume }
    }

    /// Returns the number of an object in the counts.
    fn number(&self, ino: u64) -> u64 {
        self.subvolume.map_or(ino, |of_root| subvolumes::number(ino, of_root))
    }

    /// Returns the counted changes for the next process: number of the object, whether it changed
    /// since it was asked for, ctime and count. From [`BASE_INO`] on these are the bases of the
    /// parts.
    pub(crate) fn image(&self) -> Vec<(u64, bool, u64, u64)> {
        let shards = self.counts.iter().flat_map(|counts| counts.shards.iter());
        let mut image = Vec::new();
        for (ino, shard) in (BASE_INO..=u64::MAX).zip(shards) {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let ChangeShard { slots, base } = &*shard;
            image.push((ino, false, 0, *base));
            image.extend(slots.iter().map(|(ino, slot)| {
                let ChangeSlot { pending, ctime, bump, noted: _ } = *slot;
                (*ino, pending, ctime, bump)
            }));
        }
        image
    }

    /// Goes on with the changes that the previous process has counted. Each backend of a file
    /// system has an image of them, and those of earlier versions differ.
    pub(crate) fn restore(&self, image: Vec<(u64, bool, u64, u64)>) {
        let Some(counts) = &self.counts else { return };
        for (number, pending, ctime, bump) in image {
            counts.with(number, |shard| {
                if number >= BASE_INO {
                    shard.base = shard.base.max(bump);
                    return;
                }
                let slot = shard.slot(number);
                slot.pending |= pending;
                if ctime.wrapping_add(bump) > slot.ctime.wrapping_add(slot.bump) {
                    (slot.ctime, slot.bump) = (ctime, bump);
                }
            });
        }
    }

    /// Returns the present moment, for attributes that are about to be asked for.
    pub(crate) fn now(&self) -> Moment {
        let noted = |counts: &Arc<ChangeCounts>| counts.noted.load(Ordering::SeqCst);
        Moment(self.counts.as_ref().map_or(0, noted))
    }

    /// Notes that the server changed an object.
    pub(crate) fn note(&self, ino: u64) {
        let Some(counts) = &self.counts else { return };
        let number = self.number(ino);
        counts.with(number, |shard| {
            let slot = shard.slot(number);
            slot.noted = Moment(counts.noted.fetch_add(1, Ordering::SeqCst) + 1);
            slot.pending = true;
        });
    }

    /// Returns the change attribute of an object for a ctime in nanoseconds, by
    /// attributes that were asked for at `asked`.
    pub(crate) fn attribute(&self, ino: u64, ctime: u64, asked: Moment) -> u64 {
        let Some(counts) = &self.counts else { return ctime };
        let number = self.number(ino);
        counts.with(number, |shard| {
            let first = ctime.wrapping_add(shard.base);
            let Some(slot) = shard.slots.get_mut(&number) else { return first };
            // The attributes are from before or after a change that was noted meanwhile. Neither
            // an earlier reader nor a later one may have the same number.
            let torn = slot.noted > asked;
            if slot.ctime != ctime {
                // Another change may have come within the tick after the look at ctime. A first
                // sight counts as one, too: before it the bare ctime may have been seen.
                let changed = slot.pending || torn || slot.ctime == 0;
                // An older ctime is that of a slower reader, or the clock was set back.
                let last = if slot.ctime == 0 { 0 } else { slot.ctime.wrapping_add(slot.bump) };
                slot.bump = u64::from(changed).max(last.saturating_add(1).saturating_sub(ctime));
                slot.ctime = ctime;
            } else if slot.pending || torn {
                slot.bump = slot.bump.wrapping_add(1);
            }
            slot.pending = torn;
            first.wrapping_add(slot.bump)
        })
    }
}

/// Returns whether this kernel gives a file system a ctime that moves on every change.
fn fine_ctime(file_system: i64) -> bool {
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
    use crate::{LocalBackend, LocalOptions};
    use vfs::{Backend, Caller, NewObject, OpenAccess, SetAttributes};

    /// Counts changes apart from all others.
    fn counted() -> Changes {
        Changes { counts: Some(Arc::default()), subvolume: None }
    }

    fn look(changes: &Changes, ino: u64, ctime: u64) -> u64 {
        changes.attribute(ino, ctime, changes.now())
    }

    #[test]
    fn readers_that_overtake_each_other_get_numbers_of_their_own() {
        let changes = counted();
        changes.note(7);
        let known = look(&changes, 7, 1000);
        // One reader asks before a change and another behind it, within a tick.
        let early = changes.now();
        changes.note(7);
        let late = look(&changes, 7, 1000);
        let overtaken = changes.attribute(7, 1000, early);
        let next = look(&changes, 7, 1000);
        assert!(known < late && late < overtaken && overtaken < next);
        assert_eq!(look(&changes, 7, 1000), next, "no change, no move");
    }

    #[test]
    fn no_attribute_repeats_when_an_older_time_comes_late() {
        let changes = counted();
        let mut seen = Vec::new();
        for ctime in [1000, 2000, 2000, 1000, 2000, 2000, 1000] {
            changes.note(7);
            seen.push(look(&changes, 7, ctime));
        }
        assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
        let last = look(&changes, 7, 1000);
        assert_eq!(look(&changes, 7, 1000), last, "a clock that was set back rests");
        assert!(look(&changes, 7, 1_000_000) < 1_000_010);
    }

    #[test]
    fn each_change_within_one_tick_moves_the_attribute() /* RFC 8881 section 5.8.1.4 */
    {
        let changes = counted();
        let mut last = look(&changes, 7, 1000);
        for _ in 0..5 {
            changes.note(7);
            let next = look(&changes, 7, 1000);
            assert!(next > last);
            assert_eq!(look(&changes, 7, 1000), next, "no change, no move");
            last = next;
        }
        changes.note(7);
        assert!((4_000_000..4_000_010).contains(&look(&changes, 7, 4_000_000)));
    }

    #[test]
    fn a_change_after_the_look_at_the_clock_moves_the_attribute() {
        let changes = counted();
        changes.note(7);
        let before = look(&changes, 7, 1000);
        // The reader sees 2000, and then two changes are noted that both have this time.
        changes.note(7);
        let seen = look(&changes, 7, 2000);
        changes.note(7);
        assert!(before < seen && seen < look(&changes, 7, 2000));
        assert_ne!(seen, 2000, "another reader may have seen the bare time between the two");
    }

    #[test]
    fn no_attribute_goes_back_when_others_take_the_room() {
        let changes = counted();
        for ino in [7, 8] {
            (0..5).for_each(|_| _ = (changes.note(ino), look(&changes, ino, 1000)));
        }
        changes.note(7);
        // No reader has seen the last change of 7; readers have seen that of 8.
        let seen = [7, 8].map(|ino| look(&changes, ino, 1000));
        changes.note(7);
        (1000..200_000).for_each(|ino| changes.note(ino));
        let later = [7, 8].map(|ino| look(&changes, ino, 1000));
        assert!(later[0] > seen[0] && later[1] >= seen[1], "{seen:?} {later:?}");
        assert!(later[1] < 2000, "a later time is still later");

        let next = counted();
        next.restore(changes.image());
        assert_eq!([7, 8].map(|ino| look(&next, ino, 1000)), later);
    }

    #[test]
    fn objects_that_the_server_did_not_change_have_their_ctime() {
        let changes = counted();
        changes.note(7);
        assert_eq!(look(&changes, 8, 1000), 1000);
        assert_eq!(look(&Changes::default(), 7, 1000), 1000);
    }

    #[test]
    fn the_table_is_bounded() {
        let (changes, other) = (counted(), counted());
        (0..1_000_000).for_each(|ino| changes.note(ino));
        let held = |changes: &Changes| -> usize {
            let shards = &changes.counts.as_ref().unwrap().shards;
            shards.iter().map(|shard| shard.lock().unwrap().slots.len()).sum()
        };
        assert!(held(&changes) <= SHARDS * SHARD_MAX);
        // Exports that have counted apart come together in the next process.
        (1_000_000..2_000_000).for_each(|ino| other.note(ino));
        let next = counted();
        for former in [&changes, &other] {
            next.restore(former.image());
        }
        assert!(held(&next) <= SHARDS * SHARD_MAX);
    }

    #[test]
    fn an_attribute_is_not_older_than_those_of_both_images() {
        let (one, other, next) = (counted(), counted(), counted());
        for (changes, bumps) in [(&one, 9), (&other, 5)] {
            (0..bumps).for_each(|_| _ = (changes.note(7), look(changes, 7, 1000)));
        }
        let seen = [&one, &other].map(|changes| look(changes, 7, 1000));
        for former in [&one, &other, &one] {
            next.restore(former.image());
        }
        assert_eq!(look(&next, 7, 1000), seen[0].max(seen[1]));
    }

    #[test]
    fn a_change_through_one_export_is_seen_through_all_others() // RFC 8881 section 5.8.1.4
    {
        // tmpfs has the time of the kernel's timer.
        let Ok(folder) = tempfile::tempdir_in("/dev/shm") else { return println!("skipped: no /dev/shm") };
        let open = |path| LocalBackend::open(path, &LocalOptions::default()).unwrap();
        let (caller, set) = (Caller::root(), SetAttributes::default());
        let outer = open(folder.path());
        let inner = outer.create(&caller, &outer.root(), b"inner", NewObject::Directory, &set).unwrap();
        let access = OpenAccess { read: true, write: true };
        let (file, opened) = outer.create_file(&caller, &inner, b"file", access, &set).unwrap();
        let others = [open(&folder.path().join("inner")), open(folder.path())];
        for round in 0..100 {
            let seen = || others.each_ref().map(|other| [&inner, &file].map(|object| change(other, object)));
            let before = seen();
            if round % 2 == 0 {
                outer.create(&caller, &inner, b"new", NewObject::Fifo, &set).unwrap();
            } else {
                outer.remove(&caller, &inner, b"new", None).unwrap();
            }
            opened.write_at(b"more", 0).unwrap();
            let moved = before.iter().flatten().zip(seen().into_iter().flatten()).all(|(a, b)| *a < b);
            assert!(moved, "round {round}");
        }
    }

    fn change(backend: &LocalBackend, object: &vfs::ObjectHandle) -> u64 {
        backend.getattr(object).unwrap().change
    }
}
