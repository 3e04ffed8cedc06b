//! Handles name objects, not paths.

use super::{BOTH, Fixture, READ, mode};
use crate::{OBJECT_HANDLE_MAX, ObjectHandle, VfsError};

/// Also when a directory above moves.
pub fn a_handle_survives_a_rename(t: &Fixture) {
    let root = t.root();
    let directory = t.directory(&root, "d");
    let (object, file) = t.file(&directory, "file");
    file.write_at(b"same", 0).unwrap();
    t.rename((&directory, "file"), (&root, "moved")).unwrap();
    assert_eq!(t.content(&object), b"same");
    t.rename((&root, "moved"), (&directory, "back")).unwrap();
    t.rename((&root, "d"), (&root, "e")).unwrap();
    assert_eq!(t.content(&object), b"same");
    assert_eq!(t.lookup(&directory, "back"), Ok(object));
}

/// For files and directories, for each operation.
pub fn a_handle_is_stale_after_the_last_name_is_gone(t: &Fixture) {
    let (file, _) = t.file(&t.root(), "file");
    let directory = t.directory(&t.root(), "d");
    t.attributes(&file);
    t.remove(&t.root(), "file").unwrap();
    t.remove(&t.root(), "d").unwrap();
    assert_eq!(t.backend.getattr(&file), Err(VfsError::Stale));
    assert_eq!(t.backend.getattr(&directory), Err(VfsError::Stale));
    assert_eq!(t.backend.open(&t.owner, &file, READ).err(), Some(VfsError::Stale));
    assert_eq!(t.set(&file, &mode(0o600)), Err(VfsError::Stale));
    assert_eq!(t.lookup(&directory, "x"), Err(VfsError::Stale));
    assert_eq!(
        t.backend.readdir(&t.owner, &directory, 0, &mut |_| std::ops::ControlFlow::Continue(())),
        Err(VfsError::Stale)
    );
    assert_eq!(t.backend.link(&t.owner, &file, &t.root(), b"again"), Err(VfsError::Stale));
    assert_eq!(t.backend.access(&t.owner, &file), Err(VfsError::Stale));
}

/// Changes in a directory may wait to be synchronised when it is removed.
pub fn an_object_that_is_held_is_synchronised_after_the_last_name_is_gone(t: &Fixture) {
    let directory = t.directory(&t.root(), "directory");
    let held = t.backend.hold(&directory);
    t.remove(&t.root(), "directory").unwrap();
    t.backend.sync_names(&directory, held.as_ref()).unwrap();
}

/// Hard links keep an object alive.
pub fn a_handle_survives_while_one_name_is_left(t: &Fixture) {
    let (file, _) = t.file(&t.root(), "one");
    t.backend.link(&t.owner, &file, &t.root(), b"two").unwrap();
    t.remove(&t.root(), "one").unwrap();
    assert_eq!(t.attributes(&file).nlink, 1);
    t.remove(&t.root(), "two").unwrap();
    assert_eq!(t.backend.getattr(&file), Err(VfsError::Stale));
}

/// Even where the file system uses the inode number again.
pub fn a_new_file_of_the_same_name_has_another_handle(t: &Fixture) {
    let mut former = Vec::new();
    for _ in 0..50 {
        let (file, _) = t.file(&t.root(), "file");
        assert!(!former.contains(&file));
        former.push(file);
        t.remove(&t.root(), "file").unwrap();
    }
    t.file(&t.root(), "file");
    assert!(former.iter().all(|handle| t.backend.getattr(handle) == Err(VfsError::Stale)));
}

/// One object, one handle.
pub fn handles_are_equal_for_one_object_and_differ_otherwise(t: &Fixture) {
    let (one, _) = t.file(&t.root(), "one");
    let (two, _) = t.file(&t.root(), "two");
    assert_ne!(one, two);
    assert_eq!(t.lookup(&t.root(), "one"), t.lookup(&t.root(), "one"));
    assert_eq!(t.lookup(&t.root(), "one"), Ok(one));
    let root = t.directory(&t.root(), "d");
    assert_eq!(t.backend.lookup_parent(&t.owner, &root), Ok(t.root()));
}

/// Every single changed byte, every shorter and longer one.
pub fn a_forged_handle_never_leads_to_another_object(t: &Fixture) {
    if t.backend.handle_key().is_some() {
        eprintln!("skipped: only the server's signature tells handles of this backend from forged ones");
        return;
    }
    let (object, _) = t.file(&t.root(), "file");
    (0..40).for_each(|n| drop(t.file(&t.root(), &format!("other{n}"))));
    let real = t.attributes(&object).fileid;
    let bytes = object.as_bytes();
    let mut forged: Vec<Vec<u8>> = Vec::new();
    for at in 0..bytes.len() {
        for change in [0x01, 0x80, 0xff] {
            let mut copy = bytes.to_vec();
            copy[at] ^= change;
            forged.push(copy);
        }
        forged.push(bytes[..at].to_vec());
    }
    forged.push([bytes, &[0]].concat());
    for bytes in forged.iter().filter_map(|bytes| ObjectHandle::new(bytes)) {
        match t.backend.getattr(&bytes) {
            Err(VfsError::Badhandle | VfsError::Stale) => {}
            Ok(found) => assert_eq!(found.fileid, real, "{bytes:?} leads to another object than {object:?}"),
            Err(error) => panic!("{bytes:?}: {error}"),
        }
    }
}

/// `Badhandle` or `Stale` from every operation.
pub fn handles_of_random_bytes_are_refused(t: &Fixture) {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    for len in 0..=OBJECT_HANDLE_MAX {
        let bytes: Vec<u8> = std::iter::repeat_with(|| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 56) as u8
        })
        .take(len)
        .collect();
        let handle = ObjectHandle::new(&bytes).unwrap();
        let refused = |error: Option<VfsError>| {
            assert!(matches!(error, Some(VfsError::Badhandle | VfsError::Stale)), "{handle:?}: {error:?}");
        };
        refused(t.backend.getattr(&handle).err());
        refused(t.lookup(&handle, "x").err());
        refused(t.backend.open(&t.owner, &handle, READ).err());
        refused(t.backend.create_file(&t.owner, &handle, b"x", BOTH, &mode(0o644)).err());
        refused(t.backend.readdir(&t.owner, &handle, 0, &mut |_| std::ops::ControlFlow::Continue(())).err());
        refused(t.backend.statfs(&handle).err());
    }
}

/// More than a cache of descriptors holds: fixtures are made with one of at most 512.
pub fn thousands_of_handles_resolve_in_any_order(t: &Fixture) {
    const COUNT: usize = 1500;
    let mut directory = t.root();
    let mut handles = Vec::new();
    for n in 0..COUNT {
        if n % 100 == 0 {
            directory = t.directory(&t.root(), &format!("d{n}"));
        }
        let (object, _) = t.file(&directory, &format!("file{n}"));
        handles.push((object, t.attributes(&object).fileid));
    }
    for step in [1, 7, 1499] {
        for n in 0..COUNT {
            let (object, fileid) = handles[n * step % COUNT];
            assert_eq!(t.attributes(&object).fileid, fileid);
        }
    }
}
