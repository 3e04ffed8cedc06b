//! Reading, writing and the size of files.

use super::{BOTH, Fixture, READ, WRITE, mode};
use crate::{NewObject, SetAttributes, SetTime, Timestamp, VfsError};

/// At any offset, through the creating open and a later one.
pub fn written_data_is_read_back(t: &Fixture) {
    let (object, file) = t.file(&t.root(), "file");
    assert_eq!(file.write_at(b"hello world", 0), Ok(11));
    assert_eq!(file.write_at(b"W", 6), Ok(1));
    assert_eq!(t.content(&object), b"hello World");
    let mut middle = b"w".to_vec();
    assert_eq!(file.read_at(&mut middle, 3, 4), Ok(crate::Eof::NotReached));
    assert_eq!(middle, b"wo W");
    let writer = t.backend.open(&t.owner, &object, WRITE).unwrap();
    assert_eq!(writer.write_at(b"!", 11), Ok(1));
    assert_eq!(t.attributes(&object).size, 12);
}

/// Short at the end, nothing behind it; a read up to the last byte has reached the end, and so has
/// one of nothing there (RFC 8881 section 18.22.4).
pub fn reading_stops_at_the_end_of_the_file(t: &Fixture) {
    let (object, file) = t.file(&t.root(), "file");
    file.write_at(b"12345", 0).unwrap();
    let reader = t.backend.open(&t.owner, &object, READ).unwrap();
    let read = |count, offset| {
        let mut into = Vec::new();
        let end = reader.read_at(&mut into, count, offset).unwrap();
        (into, end.is_reached())
    };
    assert_eq!(read(8, 2), (b"345".to_vec(), true));
    assert_eq!(read(3, 2), (b"345".to_vec(), true));
    assert_eq!(read(2, 2), (b"34".to_vec(), false));
    for (count, offset, end) in [(8, 5, true), (8, 1 << 40, true), (0, 0, false), (0, 5, true)] {
        assert_eq!(read(count, offset), (Vec::new(), end));
    }
}

/// Where pages of a file can go to a socket, they are the data that a read copies.
pub fn pages_of_a_file_are_its_data(t: &Fixture) {
    let (_, file) = t.file(&t.root(), "file");
    let data: Vec<u8> = (0..300_001_u32).map(|at| (at % 251) as u8).collect();
    file.write_at(&data, 0).unwrap();
    file.set_size(400_000).unwrap();
    for (count, offset) in
        [(300_000, 0), (1, 300_000), (4096, 4095), (200_000, 250_001), (8, 400_000), (8, 1 << 40), (0, 5)]
    {
        let mut copied = Vec::new();
        let end = file.read_at(&mut copied, count, offset).unwrap();
        let Some((mut pages, end_of_pages)) = file.splice_at(count, offset).unwrap() else { continue };
        let mut moved = Vec::new();
        pages.copy_to(&mut moved).unwrap();
        assert!((moved, end_of_pages) == (copied, end), "{count} bytes at {offset}");
    }
}

/// Unwritten ranges are zeros and cost little.
pub fn a_hole_reads_as_zeros(t: &Fixture) {
    let (object, file) = t.file(&t.root(), "file");
    file.write_at(b"end", 300_000).unwrap();
    let data = t.content(&object);
    assert_eq!(data.len(), 300_003);
    assert!(data[..300_000].iter().all(|byte| *byte == 0));
    assert_eq!(&data[300_000..], b"end");
    file.write_at(b"far", 1 << 39).unwrap();
    let attributes = t.attributes(&object);
    assert_eq!(attributes.size, (1 << 39) + 3);
    assert!(!t.holes || attributes.space_used < 1 << 20);
}

/// SETATTR changes the size.
pub fn truncation_cuts_and_extends_with_zeros(t: &Fixture) {
    let (object, file) = t.file(&t.root(), "file");
    file.write_at(&[7; 10_000], 0).unwrap();
    let size = |size| SetAttributes { size: Some(size), ..SetAttributes::default() };
    assert_eq!(t.set(&object, &size(5)).unwrap().size, 5);
    assert_eq!(t.set(&object, &size(9)).unwrap().size, 9);
    assert_eq!(t.content(&object), [7, 7, 7, 7, 7, 0, 0, 0, 0]);
    assert_eq!(t.set(&object, &size(0)).unwrap().size, 0);
    assert!(t.content(&object).is_empty());
    let directory = t.directory(&t.root(), "d");
    assert_eq!(t.set(&directory, &size(0)), Err(VfsError::Isdir));
}

/// The permission was checked when the file was opened.
pub fn size_set_through_the_open_file_needs_no_permission(t: &Fixture) {
    let (object, file) = t.file(&t.root(), "file");
    t.set(&object, &mode(0)).unwrap();
    file.set_size(77).unwrap();
    assert_eq!(file.getattr().unwrap().size, 77);
}

/// The last name is gone, the open file is not.
pub fn an_open_file_is_readable_after_its_removal(t: &Fixture) {
    let (object, file) = t.file(&t.root(), "file");
    file.write_at(b"still here", 0).unwrap();
    let reader = t.backend.open(&t.owner, &object, READ).unwrap();
    t.remove(&t.root(), "file").unwrap();
    let mut into = Vec::new();
    assert_eq!(reader.read_at(&mut into, 16, 0), Ok(crate::Eof::Reached));
    assert_eq!(into, b"still here");
    assert_eq!(reader.getattr().unwrap().nlink, 0);
    file.write_at(b"more", 10).unwrap();
    assert_eq!(reader.read_at(&mut into, 4, 10), Ok(crate::Eof::Reached));
    assert_eq!(into, b"still heremore");
}

/// chmod 000 does not affect open files.
pub fn an_open_file_is_writable_after_its_mode_is_zero(t: &Fixture) {
    let caller = if t.identities { super::user(4001) } else { t.owner.clone() };
    t.set(&t.root(), &mode(0o777)).unwrap();
    let (object, _) = t.file_of(&caller, &t.root(), "file", 0o600);
    let file = t.backend.open(&caller, &object, BOTH).unwrap();
    t.backend.setattr(&caller, &object, &mode(0)).unwrap();
    assert_eq!(file.write_at(b"data", 0), Ok(4));
    assert_eq!(file.read_at(&mut Vec::new(), 3, 0), Ok(crate::Eof::NotReached));
    if t.identities {
        assert_eq!(t.backend.open(&caller, &object, READ).err(), Some(VfsError::Access));
    }
}

/// POSIX open with O_CREAT: the mode is for later opens.
pub fn creating_with_mode_zero_still_opens_the_file(t: &Fixture) {
    let (object, file) = t.file_of(&t.owner, &t.root(), "file", 0);
    assert_eq!(file.write_at(b"data", 0), Ok(4));
    assert_eq!(t.attributes(&object).mode, 0);
}

/// RFC 8881 section 18.16.3: NFS4ERR_ISDIR, NFS4ERR_SYMLINK, NFS4ERR_WRONG_TYPE.
pub fn opening_what_is_not_a_file_says_what_it_is(t: &Fixture) {
    let directory = t.directory(&t.root(), "d");
    let make = |name: &[u8], kind| t.backend.create(&t.owner, &t.root(), name, kind, &mode(0o666)).unwrap();
    let (link, fifo) = (make(b"link", NewObject::Symlink(b"d")), make(b"fifo", NewObject::Fifo));
    assert_eq!(t.backend.open(&t.owner, &directory, READ).err(), Some(VfsError::Isdir));
    assert_eq!(t.backend.open(&t.owner, &link, READ).err(), Some(VfsError::Symlink));
    assert_eq!(t.backend.open(&t.owner, &fifo, READ).err(), Some(VfsError::WrongType));
}

/// An OPEN that creates carries both.
pub fn create_applies_size_and_times(t: &Fixture) {
    let time = Timestamp { seconds: 1_234_567_890, nanoseconds: 987_654_321 };
    let set = SetAttributes {
        size: Some(4321),
        mode: Some(0o640),
        mtime: Some(SetTime::At(time)),
        ..SetAttributes::default()
    };
    let (object, _) = t.backend.create_file(&t.owner, &t.root(), b"file", WRITE, &set).unwrap();
    let attributes = t.attributes(&object);
    assert_eq!((attributes.size, attributes.mode, attributes.mtime), (4321, 0o640, time));
}

/// Each thread its own range, all at once.
pub fn many_threads_read_and_write_one_file(t: &Fixture) {
    let (_, file) = t.file(&t.root(), "file");
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let file = &file;
            scope.spawn(move || {
                let mut back = Vec::new();
                for round in 0..100_u64 {
                    let at = (round * 4 + u64::from(thread)) * 1000;
                    file.write_at(&[thread + 1; 1000], at).unwrap();
                    back.clear();
                    file.read_at(&mut back, 1000, at).unwrap();
                    assert_eq!(back, [thread + 1; 1000]);
                }
            });
        }
    });
    assert_eq!(file.getattr().unwrap().size, 400_000);
}

/// For files and directories.
pub fn commit_and_sync_succeed(t: &Fixture) {
    let (object, file) = t.file(&t.root(), "file");
    file.write_at(b"x", 0).unwrap();
    file.sync().unwrap();
    t.backend.commit(&object).unwrap();
    t.backend.commit(&t.root()).unwrap();
    t.set(&object, &mode(0o200)).unwrap();
    t.backend.commit(&object).unwrap();
}

/// A megabyte in one call, off the alignment of any block.
pub fn large_transfers_are_whole(t: &Fixture) {
    let (_, file) = t.file(&t.root(), "file");
    let data: Vec<u8> = (0..1_048_576_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    assert_eq!(file.write_at(&data, 777), Ok(data.len()));
    let mut back = Vec::new();
    assert_eq!(file.read_at(&mut back, data.len(), 777), Ok(crate::Eof::Reached));
    assert!(back == data);
}

/// `Fbig` or `Inval`, never a wrapped offset.
pub fn an_offset_beyond_the_largest_file_is_refused(t: &Fixture) {
    let (object, file) = t.file(&t.root(), "file");
    for offset in [u64::MAX, u64::MAX - 1, 1 << 63] {
        let result = file.write_at(b"xx", offset);
        assert!(matches!(result, Err(VfsError::Fbig | VfsError::Inval)), "{result:?}");
        let set = SetAttributes { size: Some(offset), ..SetAttributes::default() };
        let result = t.set(&object, &set);
        assert!(matches!(result, Err(VfsError::Fbig | VfsError::Inval)), "{result:?}");
        let mut into = Vec::new();
        assert!(matches!(file.read_at(&mut into, 2, offset), Ok(crate::Eof::Reached) | Err(VfsError::Inval)));
        assert!(into.is_empty());
    }
    assert_eq!(t.attributes(&object).size, 0);
}
