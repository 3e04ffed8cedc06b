//! Holes, allocation, and copies from file to file.

use super::{Fixture, READ};
use crate::{Advice, Extent, ObjectHandle, OpenFile, VfsError};
use std::sync::Arc;

/// Distances far above the block of any file system.
const MEGA: u64 = 1 << 20;

/// Makes a file with data from 4 to 5 MiB and holes around it, 8 MiB long.
fn holey(t: &Fixture, name: &str) -> (ObjectHandle, Arc<dyn OpenFile>) {
    let (object, file) = t.file(&t.root(), name);
    file.set_size(8 * MEGA).unwrap();
    file.write_at(&vec![7; MEGA as usize], 4 * MEGA).unwrap();
    (object, file)
}

/// Returns the extents of a file by seeking: start and kind of each.
fn extents(file: &dyn OpenFile) -> Vec<(u64, Extent)> {
    let (size, mut at, mut all) = (file.getattr().unwrap().size, 0, Vec::new());
    while at < size {
        let (what, other) = match file.seek(Extent::Data, at).unwrap() {
            Some(data) if data == at => (Extent::Data, Extent::Hole),
            _ => (Extent::Hole, Extent::Data),
        };
        all.push((at, what));
        let next = file.seek(other, at).unwrap().unwrap_or(size);
        assert!(next > at, "{what:?} at {at} ends");
        at = next;
    }
    all
}

/// RFC 7862 section 15.11.3: the extent at the offset counts, and the end of the file is a hole.
/// There is nothing behind it.
pub fn data_and_holes_are_found(t: &Fixture) {
    let (_, full) = t.file(&t.root(), "full");
    full.write_at(b"abc", 0).unwrap();
    assert_eq!((full.seek(Extent::Data, 1), full.seek(Extent::Hole, 1)), (Ok(Some(1)), Ok(Some(3))));
    // Seeking does not disturb reading.
    let mut data = Vec::new();
    assert_eq!(full.read_at(&mut data, 9, 0), Ok(crate::Eof::Reached));
    assert_eq!(data, b"abc");
    let (_, file) = holey(t, "file");
    for offset in [8 * MEGA, 8 * MEGA + 1, u64::MAX] {
        assert_eq!(file.seek(Extent::Data, offset), Err(VfsError::Nxio));
        assert_eq!(file.seek(Extent::Hole, offset), Err(VfsError::Nxio));
    }
    if !t.holes {
        assert_eq!(
            (file.seek(Extent::Data, 3), file.seek(Extent::Hole, 3)),
            (Ok(Some(3)), Ok(Some(8 * MEGA)))
        );
        return;
    }
    let reader = t.backend.open(&t.owner, &t.lookup(&t.root(), "file").unwrap(), READ).unwrap();
    for file in [&file, &reader] {
        assert_eq!(file.seek(Extent::Data, 0), Ok(Some(4 * MEGA)));
        assert_eq!(file.seek(Extent::Data, 4 * MEGA + 5), Ok(Some(4 * MEGA + 5)));
        assert_eq!(file.seek(Extent::Data, 6 * MEGA), Ok(None));
        assert_eq!(file.seek(Extent::Hole, 3), Ok(Some(3)));
        assert_eq!(file.seek(Extent::Hole, 4 * MEGA + 5), Ok(Some(5 * MEGA)));
    }
}

/// RFC 7862 section 15.4: zeros, no space, the same size.
pub fn deallocated_bytes_are_zeros_and_take_no_space(t: &Fixture) {
    let (object, file) = t.file(&t.root(), "file");
    file.write_at(&vec![9; 3 * MEGA as usize], 0).unwrap();
    file.sync().unwrap();
    let before = t.attributes(&object);
    let done = file.deallocate(MEGA - 10, MEGA + 20);
    if done == Err(VfsError::Notsupp) {
        eprintln!("skipped: the file system has no holes to punch");
        return;
    }
    done.unwrap();
    let after = t.attributes(&object);
    assert_eq!(after.size, before.size);
    assert!(!t.holes || after.space_used < before.space_used);
    assert_ne!(after.change, before.change);
    let mut data = Vec::new();
    file.read_at(&mut data, 3 * MEGA as usize, 0).unwrap();
    let zero = (MEGA - 10) as usize..(2 * MEGA + 10) as usize;
    assert!(data.iter().enumerate().all(|(at, byte)| *byte == if zero.contains(&at) { 0 } else { 9 }));
    assert_eq!(file.deallocate(0, 0), Err(VfsError::Inval));
    // Behind the end there is nothing to free, and the size stays.
    let _ = file.deallocate(10 * MEGA, MEGA);
    assert_eq!(t.attributes(&object).size, before.size);
    file.deallocate(0, 4 * MEGA).unwrap();
    assert!(t.content(&object).iter().all(|byte| *byte == 0));
}

/// RFC 7862 section 15.1: space is reserved, written bytes stay, and the file grows.
pub fn allocated_bytes_take_space_and_keep_what_was_written(t: &Fixture) {
    let (object, file) = t.file(&t.root(), "file");
    file.write_at(b"abc", 5).unwrap();
    let done = file.allocate(0, 2 * MEGA);
    if done == Err(VfsError::Notsupp) {
        eprintln!("skipped: the file system allocates nothing beforehand");
        return;
    }
    done.unwrap();
    let attributes = t.attributes(&object);
    assert_eq!(attributes.size, 2 * MEGA);
    assert!(attributes.space_used >= 2 * MEGA);
    assert_eq!(&t.content(&object)[..10], b"\0\0\0\0\0abc\0\0");
    assert_eq!(file.allocate(0, 0), Err(VfsError::Inval));
    for (offset, length) in [(u64::MAX, 1), (1, u64::MAX), (1 << 62, 1 << 62), (i64::MAX as u64, 2)] {
        let refused = file.allocate(offset, length);
        assert!(matches!(refused, Err(VfsError::Fbig | VfsError::Inval | VfsError::Nospc)), "{refused:?}");
    }
    let refused = file.allocate(0, 1 << 60);
    assert!(matches!(refused, Err(VfsError::Nospc | VfsError::Fbig)), "{refused:?}");
    assert_eq!(&t.content(&object)[..10], b"\0\0\0\0\0abc\0\0");
}

/// No advice changes the contents.
pub fn advice_changes_nothing_that_is_read(t: &Fixture) {
    let (object, file) = t.file(&t.root(), "file");
    file.write_at(b"hello", 0).unwrap();
    let all = [
        Advice::Normal,
        Advice::Sequential,
        Advice::Random,
        Advice::WillNeed,
        Advice::DontNeed,
        Advice::NoReuse,
    ];
    for advice in all {
        for (offset, length) in [(0, 0), (3, 1 << 40), (u64::MAX, u64::MAX)] {
            file.advise(advice, offset, length);
        }
    }
    assert_eq!(t.content(&object), b"hello");
}

/// RFC 7862 section 15.2: up to the end of the source, onto and behind the end of the target.
pub fn a_range_is_copied_from_file_to_file(t: &Fixture) {
    let (_, from) = holey(t, "from");
    let (object, to) = t.file(&t.root(), "to");
    to.write_at(&[1; 100], 0).unwrap();
    assert_eq!(to.copy_range(&*from, 4 * MEGA - 10, 50, 30), Ok(30));
    let expected = [vec![1; 50], vec![0; 10], vec![7; 20], vec![1; 20]].concat();
    assert_eq!(t.content(&object), expected);
    assert_eq!(to.copy_range(&*from, 7 * MEGA, 100, 3 * MEGA), Ok(MEGA));
    assert_eq!(t.attributes(&object).size, MEGA + 100);
    assert_eq!(to.copy_range(&*from, 9 * MEGA, 0, 10), Ok(0));
    let before = t.attributes(&object).change;
    assert_eq!(to.copy_range(&*from, 4 * MEGA, 3, 3 * MEGA), Ok(3 * MEGA));
    assert_ne!(t.attributes(&object).change, before);
    let mut data = Vec::new();
    to.read_at(&mut data, 8 * MEGA as usize, 0).unwrap();
    let expected = [vec![1; 3], vec![7; MEGA as usize], vec![0; 2 * MEGA as usize]].concat();
    assert!(data[..expected.len()] == expected);
}

/// RFC 7862 section 15.13: by whole blocks, or up to the end of the source; and either side can
/// change then.
pub fn a_clone_is_equal_until_either_side_is_written(t: &Fixture) {
    let block = u64::from(t.backend.features().clone_block);
    let (_, from) = holey(t, "from");
    let (object, to) = t.file(&t.root(), "to");
    if block == 0 {
        assert_eq!(to.clone_range(&*from, 0, 0, MEGA), Err(VfsError::Notsupp));
        eprintln!("skipped: files of this file system share no blocks");
        return;
    }
    to.clone_range(&*from, 4 * MEGA, 0, MEGA).unwrap();
    from.write_at(&[8; 10], 4 * MEGA).unwrap();
    assert!(t.content(&object) == vec![7; MEGA as usize]);
    to.clone_range(&*from, 0, 2 * MEGA, 0).unwrap();
    assert_eq!(t.attributes(&object).size, 10 * MEGA);
    let mut data = Vec::new();
    to.read_at(&mut data, 11, 6 * MEGA).unwrap();
    assert_eq!(data, [8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 7]);
    for (source, target, count) in
        [(1, 0, block), (0, 1, block), (0, 0, block - 1), (0, 0, 9 * MEGA), (9 * MEGA, 0, 0)]
    {
        let refused = to.clone_range(&*from, source, target, count);
        assert_eq!(refused, Err(VfsError::Inval), "{source} {target} {count}");
    }
    assert_eq!(from.clone_range(&*from, 0, block, 2 * block), Err(VfsError::Inval), "ranges that overlap");
    from.clone_range(&*from, 4 * MEGA, 0, block).unwrap();
    assert_eq!(extents(&*from).first(), Some(&(0, Extent::Data)));
}
