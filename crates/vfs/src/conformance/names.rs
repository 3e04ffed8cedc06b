//! Names: finding, making and removing them.

use super::{BOTH, Fixture, mode};
use crate::{Caller, FileType, NewObject, SetAttributes, VfsError};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Creates one object of each kind and finds it again.
pub fn lookup_finds_what_was_created(t: &Fixture) {
    let root = t.root();
    let (file, _) = t.file(&root, "file");
    let directory = t.directory(&root, "directory");
    assert_eq!(t.lookup(&root, "file"), Ok(file));
    assert_eq!(t.lookup(&root, "directory"), Ok(directory));
    assert_eq!(t.attributes(&file).file_type, FileType::Regular);
    assert_eq!(t.attributes(&directory).file_type, FileType::Directory);
}

/// `Noent`, in an empty directory and beside other names.
pub fn lookup_of_an_unknown_name_is_noent(t: &Fixture) {
    assert_eq!(t.lookup(&t.root(), "nothing"), Err(VfsError::Noent));
    t.file(&t.root(), "file");
    assert_eq!(t.lookup(&t.root(), "fil"), Err(VfsError::Noent));
    assert_eq!(t.remove(&t.root(), "nothing"), Err(VfsError::Noent));
}

/// A file is no directory, for every operation that takes one.
pub fn lookup_in_a_file_is_notdir(t: &Fixture) {
    let (file, _) = t.file(&t.root(), "file");
    assert_eq!(t.lookup(&file, "x"), Err(VfsError::Notdir));
    assert_eq!(t.backend.lookup_parent(&t.owner, &file), Err(VfsError::Notdir));
    assert_eq!(t.remove(&file, "x"), Err(VfsError::Notdir));
    let made = t.backend.create(&t.owner, &file, b"x", NewObject::Directory, &mode(0o755));
    assert_eq!(made, Err(VfsError::Notdir));
    let made = t.backend.create_file(&t.owner, &file, b"x", BOTH, &mode(0o644));
    assert_eq!(made.err(), Some(VfsError::Notdir));
    assert_eq!(t.rename((&file, "x"), (&t.root(), "y")), Err(VfsError::Notdir));
}

/// NFS4ERR_SYMLINK, RFC 8881 section 18.13.4.
pub fn lookup_in_a_symlink_is_symlink(t: &Fixture) {
    t.directory(&t.root(), "d");
    let link = t.backend.create(&t.owner, &t.root(), b"l", NewObject::Symlink(b"d"), &mode(0o777));
    assert_eq!(t.lookup(&link.unwrap(), "x"), Err(VfsError::Symlink));
}

/// The one step is as good as the two.
pub fn lookup_with_attributes_agrees_with_lookup_and_getattr(t: &Fixture) {
    let (file, _) = t.file(&t.root(), "file");
    let (found, attributes) = t.backend.lookup_attributes(&t.owner, &t.root(), b"file").unwrap();
    assert_eq!(found, file);
    assert_eq!(attributes, t.attributes(&file));
    assert_eq!(t.backend.lookup_attributes(&t.owner, &t.root(), b"no").err(), Some(VfsError::Noent));
}

/// The object of a name that is about to change is the one that it stands for.
pub fn lookup_to_change_agrees_with_lookup(t: &Fixture) {
    let (file, _) = t.file(&t.root(), "file");
    let found = t.backend.lookup_to_change(&t.owner, &t.root(), b"file").unwrap();
    assert_eq!(found.handle, file);
    assert!(found.attributes.is_none_or(|attributes| attributes == t.attributes(&file)));
    assert_eq!(t.backend.lookup_to_change(&t.owner, &t.root(), b"no").err(), Some(VfsError::Noent));
}

/// This holds for all types, of the entry and of the new object.
pub fn creating_an_existing_name_is_exist(t: &Fixture) {
    let root = t.root();
    t.file(&root, "file");
    t.directory(&root, "directory");
    for name in ["file", "directory"] {
        let made = t.backend.create_file(&t.owner, &root, name.as_bytes(), BOTH, &mode(0o644));
        assert_eq!(made.err(), Some(VfsError::Exist));
        let kinds = [NewObject::Directory, NewObject::Symlink(b"x"), NewObject::Fifo];
        for kind in kinds {
            let made = t.backend.create(&t.owner, &root, name.as_bytes(), kind, &mode(0o644));
            assert_eq!(made, Err(VfsError::Exist));
        }
    }
}

/// Exclusive creation is atomic between threads.
pub fn only_one_of_many_creators_wins(t: &Fixture) {
    let won = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for round in 0..50 {
                    let name = format!("file{round}");
                    match t.backend.create_file(&t.owner, &t.root(), name.as_bytes(), BOTH, &mode(0o644)) {
                        Ok(_) => won.fetch_add(1, Ordering::Relaxed),
                        Err(error) => {
                            assert_eq!(error, VfsError::Exist);
                            0
                        }
                    };
                }
            });
        }
    });
    assert_eq!(won.into_inner(), 50);
}

/// 255 bytes is NAME_MAX of Linux.
pub fn a_name_of_255_bytes_works_and_a_longer_one_is_refused(t: &Fixture) {
    let (longest, longer) = ("n".repeat(255), "n".repeat(256));
    let (file, _) = t.file(&t.root(), &longest);
    assert_eq!(t.lookup(&t.root(), &longest), Ok(file));
    assert_eq!(t.lookup(&t.root(), &longer), Err(VfsError::Nametoolong));
    let made = t.backend.create_file(&t.owner, &t.root(), longer.as_bytes(), BOTH, &mode(0o644));
    assert_eq!(made.err(), Some(VfsError::Nametoolong));
    assert_eq!(t.rename((&t.root(), &longest), (&t.root(), &longer)), Err(VfsError::Nametoolong));
    assert_eq!(t.backend.statfs(&t.root()).unwrap().name_max, 255);
}

/// Nothing is folded or normalised.
pub fn names_are_bytes_and_keep_their_case(t: &Fixture) {
    let names: [&[u8]; 4] = [b"Case", b"case", "\u{e4}".as_bytes(), "a\u{308}".as_bytes()];
    for name in names {
        t.backend.create_file(&t.owner, &t.root(), name, BOTH, &SetAttributes::default()).unwrap();
    }
    assert_eq!(t.list(&t.root()).len(), names.len());
}

/// Names above the root belong to the server.
pub fn lookup_parent_leads_up_to_the_root_and_not_beyond(t: &Fixture) {
    let a = t.directory(&t.root(), "a");
    let b = t.directory(&a, "b");
    assert_eq!(t.backend.lookup_parent(&t.owner, &b), Ok(a));
    assert_eq!(t.backend.lookup_parent(&t.owner, &a), Ok(t.root()));
    assert_eq!(t.backend.lookup_parent(&t.owner, &t.root()), Err(VfsError::Noent));
}

/// FIFOs, sockets, and devices where the owner may make them.
pub fn special_files_keep_their_type_and_numbers(t: &Fixture) {
    let mut kinds =
        vec![(NewObject::Fifo, FileType::Fifo, (0, 0)), (NewObject::Socket, FileType::Socket, (0, 0))];
    if t.owner.uid == 0 && t.identities {
        kinds.push((NewObject::Character(1, 3), FileType::Character, (1, 3)));
        kinds.push((NewObject::Block(7, 300), FileType::Block, (7, 300)));
    }
    for (index, (kind, file_type, rdev)) in kinds.into_iter().enumerate() {
        let name = format!("special{index}");
        let made = t.backend.create(&t.owner, &t.root(), name.as_bytes(), kind, &mode(0o640)).unwrap();
        let attributes = t.attributes(&made);
        assert_eq!((attributes.file_type, attributes.rdev), (file_type, rdev));
        assert_eq!(attributes.mode, 0o640);
        assert_eq!(t.lookup(&t.root(), &name), Ok(made));
        assert_eq!(t.backend.open(&t.owner, &made, BOTH).err(), Some(VfsError::WrongType));
        t.remove(&t.root(), &name).unwrap();
    }
}

/// The lower bits of its numbers name another one.
pub fn a_device_with_numbers_beyond_those_of_linux_is_refused(t: &Fixture) {
    for (major, minor) in [(4097, 3), (0x10_0001, 3), (1, 0x10_0003), (u32::MAX, u32::MAX)] {
        for kind in [NewObject::Character(major, minor), NewObject::Block(major, minor)] {
            let made = t.backend.create(&Caller::root(), &t.root(), b"device", kind, &mode(0o600));
            assert_eq!(made, Err(VfsError::Inval), "{major}:{minor}");
        }
    }
    assert!(t.list(&t.root()).is_empty());
}

/// The name can be used again.
pub fn removing_a_file_frees_its_name(t: &Fixture) {
    t.file(&t.root(), "file");
    t.remove(&t.root(), "file").unwrap();
    assert_eq!(t.lookup(&t.root(), "file"), Err(VfsError::Noent));
    t.directory(&t.root(), "file");
    t.remove(&t.root(), "file").unwrap();
    assert!(t.list(&t.root()).is_empty());
}

/// REMOVE of a directory, RFC 8881 section 18.25.4.
pub fn removing_a_directory_that_is_not_empty_is_notempty(t: &Fixture) {
    let directory = t.directory(&t.root(), "d");
    t.file(&directory, "file");
    assert_eq!(t.remove(&t.root(), "d"), Err(VfsError::Notempty));
    t.remove(&directory, "file").unwrap();
    t.remove(&t.root(), "d").unwrap();
}

/// Its handle is stale, or it has no entries.
pub fn a_removed_directory_takes_no_new_entries(t: &Fixture) {
    let directory = t.directory(&t.root(), "d");
    t.remove(&t.root(), "d").unwrap();
    let made = t.backend.create_file(&t.owner, &directory, b"x", BOTH, &mode(0o644));
    assert_eq!(made.err(), Some(VfsError::Stale));
    assert_eq!(t.lookup(&directory, "x"), Err(VfsError::Stale));
}
