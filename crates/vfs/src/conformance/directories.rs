//! READDIR (RFC 8881 section 18.23).

use super::Fixture;
use crate::{Eof, ObjectHandle, VfsError};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// Lists at most `count` entries after a cookie, and returns whether the end was reached.
fn piece(t: &Fixture, directory: &ObjectHandle, cookie: u64, count: usize) -> (Vec<(u64, String)>, bool) {
    let mut entries = Vec::new();
    let end = t.backend.readdir(&t.owner, directory, cookie, &mut |entry| {
        if entries.len() == count {
            return ControlFlow::Break(());
        }
        entries.push((entry.cookie, String::from_utf8_lossy(entry.name).into_owned()));
        ControlFlow::Continue(())
    });
    (entries, end.unwrap_or_else(|error| panic!("readdir: {error}")).is_reached())
}

/// Makes an entry the cheap way, a further name of one file: some file systems are slow to make
/// thousands of objects.
fn entry(t: &Fixture, file: &ObjectHandle, directory: &ObjectHandle, name: &str) {
    t.backend
        .link(&t.owner, file, directory, name.as_bytes())
        .unwrap_or_else(|error| panic!("{name}: {error}"));
}

/// With the fileid that GETATTR gives, and without "." and "..".
pub fn listing_gives_each_entry_once(t: &Fixture) {
    let directory = t.directory(&t.root(), "d");
    assert!(t.list(&directory).is_empty());
    let mut expected = BTreeMap::new();
    for name in ["file", "other", "third"] {
        expected.insert(name.to_owned(), t.attributes(&t.file(&directory, name).0).fileid);
    }
    let inner = t.directory(&directory, "inner");
    expected.insert("inner".to_owned(), t.attributes(&inner).fileid);
    let listed: BTreeMap<String, u64> =
        t.list(&directory).into_iter().map(|(_, name, fileid)| (name, fileid)).collect();
    assert_eq!(listed, expected);
}

/// The rest equals the entries listed after the cookie.
pub fn listing_continues_from_every_cookie(t: &Fixture) {
    let directory = t.directory(&t.root(), "d");
    (0..50).for_each(|n| drop(t.file(&directory, &format!("file{n}"))));
    let whole = t.list(&directory);
    for (index, (cookie, _, _)) in whole.iter().enumerate() {
        let (rest, end) = piece(t, &directory, *cookie, usize::MAX);
        let expected: Vec<_> = whole[index + 1..].iter().map(|(c, name, _)| (*c, name.clone())).collect();
        assert_eq!((rest, end), (expected, true));
    }
}

/// Names of several lengths, pieces of several sizes.
pub fn thousands_of_entries_are_listed_in_pieces(t: &Fixture) {
    const COUNT: usize = 5000;
    let directory = t.directory(&t.root(), "d");
    let name = |n: usize| format!("{n}-{}", "x".repeat(n % 60));
    let (file, _) = t.file(&t.root(), "file");
    (0..COUNT).for_each(|n| entry(t, &file, &directory, &name(n)));
    for size in [1000, 37] {
        let (mut cookie, mut seen) = (0, BTreeSet::new());
        loop {
            let (entries, end) = piece(t, &directory, cookie, size);
            cookie = entries.last().map_or(cookie, |(cookie, _)| *cookie);
            assert!(entries.into_iter().all(|(_, name)| seen.insert(name)), "an entry came twice");
            if end {
                break;
            }
        }
        assert_eq!(seen.len(), COUNT);
    }
}

/// Stable entries come exactly once; the others may come or not.
pub fn entries_that_stay_are_listed_once_while_others_come_and_go(t: &Fixture) {
    let directory = t.directory(&t.root(), "d");
    let (file, _) = t.file(&t.root(), "file");
    for n in 0..400 {
        entry(t, &file, &directory, &format!("stay{n}"));
        entry(t, &file, &directory, &format!("go{n}"));
    }
    let (mut cookie, mut round, mut seen) = (0, 0, Vec::new());
    loop {
        let (entries, end) = piece(t, &directory, cookie, 25);
        cookie = entries.last().map_or(cookie, |(cookie, _)| *cookie);
        seen.extend(entries.into_iter().map(|(_, name)| name).filter(|name| name.starts_with("stay")));
        if end {
            break;
        }
        for n in round * 10..round * 10 + 10 {
            let _ = t.remove(&directory, &format!("go{n}"));
            entry(t, &file, &directory, &format!("come{n}"));
        }
        round += 1;
        assert!(round < 1000, "the listing does not end");
    }
    let distinct: BTreeSet<&String> = seen.iter().collect();
    assert_eq!((seen.len(), distinct.len()), (400, 400));
}

/// rm -r: list a piece, remove it, go on from its last cookie.
pub fn an_emptied_directory_can_be_removed_while_listing(t: &Fixture) {
    let directory = t.directory(&t.root(), "d");
    let (file, _) = t.file(&t.root(), "file");
    (0..600).for_each(|n| entry(t, &file, &directory, &format!("file{n}")));
    let mut cookie = 0;
    loop {
        let (entries, end) = piece(t, &directory, cookie, 40);
        cookie = entries.last().map_or(cookie, |(cookie, _)| *cookie);
        entries.iter().for_each(|(_, name)| t.remove(&directory, name).unwrap());
        if end {
            break;
        }
    }
    t.remove(&t.root(), "d").unwrap();
}

/// A file has no entries.
pub fn listing_a_file_is_notdir(t: &Fixture) {
    let (file, _) = t.file(&t.root(), "file");
    assert_eq!(
        t.backend.readdir(&t.owner, &file, 0, &mut |_| ControlFlow::Continue(())),
        Err(VfsError::Notdir)
    );
}

/// 0, 1 and 2 are reserved, section 18.23.3; given as cookies 1 and 2 mean nothing.
pub fn cookies_are_never_reserved_values(t: &Fixture) {
    let directory = t.directory(&t.root(), "d");
    (0..20).for_each(|n| drop(t.file(&directory, &format!("file{n}"))));
    assert!(t.list(&directory).iter().all(|(cookie, _, _)| *cookie > 2));
    for cookie in [1, 2, u64::MAX] {
        let result = t.backend.readdir(&t.owner, &directory, cookie, &mut |_| ControlFlow::Continue(()));
        assert_eq!(result, Err(VfsError::BadCookie));
    }
}

/// READDIR with attributes looks each entry up.
pub fn an_entry_callback_may_use_the_same_directory(t: &Fixture) {
    let directory = t.directory(&t.root(), "d");
    (0..300).for_each(|n| drop(t.file(&directory, &format!("file{n}"))));
    let mut count = 0;
    let end = t.backend.readdir(&t.owner, &directory, 0, &mut |entry| {
        let (_, attributes) = t.backend.lookup_attributes(&t.owner, &directory, entry.name).unwrap();
        assert_eq!(attributes.fileid, entry.fileid);
        t.attributes(&directory);
        count += 1;
        ControlFlow::Continue(())
    });
    assert_eq!((end, count), (Ok(Eof::Reached), 300));
}
