//! The numbers of objects on btrfs.
//!
//! There an inode number is unique within one subvolume or snapshot alone, and a snapshot's files
//! have the numbers of their originals. Clients see one file system, in which equal fileids mean
//! one object. So outside of the root's subvolume, a fileid also has the number of the subvolume.
//! Handles tell that number, which lasts: the device numbers of subvolumes change at each mount.

use crate::sys;

/// The magic number of btrfs.
const BTRFS: i64 = 0x9123_683e;
/// Bits of inode numbers when a fileid has to tell whether it has the number of a subvolume: those
/// of subvolumes, which have fewer than 2^23 numbers in practice, are above.
const INODE_BITS: u32 = 40;
/// A number that no subvolume has.
const NO_SUBVOLUME: u64 = 0;

/// Returns the subvolume of an exported root; `None` where inode numbers are unique anyway.
pub(crate) fn of_root(file_system: i64, root: &sys::FsHandle) -> Option<u64> {
    root.ino_in_subvolume().filter(|_| file_system == BTRFS).map(|(_, subvolume)| subvolume)
}

/// Returns the fileid of an object. No two objects have the same while the numbers of inode and
/// subvolume together have at most 63 bits.
pub(crate) fn fileid(ino: u64, subvolume: u64, of_root: u64) -> u64 {
    // Inode numbers grow from the lowest bit up, and those of subvolumes here from bit 62 down.
    if subvolume == of_root { ino } else { ino ^ (subvolume.reverse_bits() >> 1) }
}

/// Returns a number that an object has in all exports of its file system, whatever the subvolumes
/// of their roots.
pub(crate) fn number(fileid: u64, of_root: u64) -> u64 {
    if fileid >> INODE_BITS == 0 { self::fileid(fileid, of_root, NO_SUBVOLUME) } else { fileid }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn an_object_has_one_number_in_all_exports() {
        let subvolumes = [5, 256, 257, 258, 1 << 20];
        let inodes = [256, 257, 258, 1 << 20, (1 << 40) - 1];
        let objects = subvolumes.iter().flat_map(|subvolume| inodes.map(|ino| (ino, *subvolume)));
        let seen_from = |of_root| {
            let number = |(ino, subvolume)| number(fileid(ino, subvolume, of_root), of_root);
            objects.clone().map(number).collect::<Vec<_>>()
        };
        assert!(subvolumes.iter().all(|of_root| seen_from(*of_root) == seen_from(5)));
        assert_eq!(seen_from(5).into_iter().collect::<HashSet<_>>().len(), subvolumes.len() * inodes.len());
    }

    #[test]
    fn inodes_of_different_subvolumes_have_different_numbers() {
        let subvolumes = [5, 256, 257, 258, 1 << 20];
        let inodes = [256, 257, 258, 1 << 20, 1 << 40];
        let all = subvolumes.iter().flat_map(|subvolume| inodes.map(|ino| fileid(ino, *subvolume, 5)));
        let numbers: HashSet<u64> = all.collect();
        assert_eq!(numbers.len(), subvolumes.len() * inodes.len());
        assert!(inodes.iter().all(|ino| numbers.contains(ino)), "the root's subvolume keeps its numbers");
        assert!(numbers.iter().all(|number| i64::try_from(*number).is_ok()));
    }
}
