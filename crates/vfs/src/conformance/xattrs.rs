//! Extended attributes (RFC 8276).

use super::{Fixture, assert_refused, mode, user};
use crate::{NewObject, VfsError, XATTR_SIZE_MAX, XattrHow::*};

/// Says that a test is not for this file system.
fn skipped(t: &Fixture) -> bool {
    let object = t.root();
    if !t.backend.features().xattrs {
        assert_eq!(t.backend.get_xattr(&t.owner, &object, b"a"), Err(VfsError::Notsupp));
        eprintln!("skipped: the file system has no extended attributes");
    }
    !t.backend.features().xattrs
}

/// Of files and directories, one by one.
pub fn extended_attributes_are_set_read_listed_and_removed(t: &Fixture) {
    if skipped(t) {
        return;
    }
    let (file, _) = t.file(&t.root(), "file");
    let directory = t.directory(&t.root(), "d");
    for object in [file, directory] {
        let get = |name: &[u8]| t.backend.get_xattr(&t.owner, &object, name);
        let set = |name: &[u8], value: &[u8]| t.backend.set_xattr(&t.owner, &object, name, value, Either);
        assert_eq!(get(b"colour"), Err(VfsError::Noxattr));
        let before = t.attributes(&object).change;
        set(b"colour", b"green").unwrap();
        set(b"empty", b"").unwrap();
        set("gr\u{fc}n".as_bytes(), &[0, 255, 0]).unwrap();
        assert_ne!(t.attributes(&object).change, before);
        assert_eq!(get(b"colour"), Ok(b"green".to_vec()));
        assert_eq!(get(b"empty"), Ok(Vec::new()));
        set(b"colour", b"red").unwrap();
        assert_eq!(get(b"colour"), Ok(b"red".to_vec()));
        let names = [b"colour".to_vec(), b"empty".to_vec(), "gr\u{fc}n".as_bytes().to_vec()];
        assert_eq!(t.backend.list_xattrs(&t.owner, &object), Ok(names.to_vec()));
        let before = t.attributes(&object).change;
        t.backend.remove_xattr(&t.owner, &object, b"empty").unwrap();
        assert_ne!(t.attributes(&object).change, before);
        assert_eq!(get(b"empty"), Err(VfsError::Noxattr));
        assert_eq!(t.backend.remove_xattr(&t.owner, &object, b"empty"), Err(VfsError::Noxattr));
        assert_eq!(t.backend.list_xattrs(&t.owner, &object).map(|names| names.len()), Ok(2));
    }
}

/// RFC 8276 section 8.4.2: create and replace.
pub fn an_extended_attribute_is_created_or_replaced_as_asked(t: &Fixture) {
    if skipped(t) {
        return;
    }
    let (object, _) = t.file(&t.root(), "file");
    let set = |value: &[u8], how| t.backend.set_xattr(&t.owner, &object, b"a", value, how);
    assert_eq!(set(b"1", Replace), Err(VfsError::Noxattr));
    assert_eq!(set(b"2", Create), Ok(()));
    assert_eq!(set(b"3", Create), Err(VfsError::Exist));
    assert_eq!(set(b"4", Replace), Ok(()));
    assert_eq!(t.backend.get_xattr(&t.owner, &object, b"a"), Ok(b"4".to_vec()));
}

/// Names of 251 bytes and values above 64 KiB.
pub fn extended_attributes_that_are_too_long_are_refused(t: &Fixture) {
    if skipped(t) {
        return;
    }
    let (object, _) = t.file(&t.root(), "file");
    let set = |name: &[u8], value: &[u8]| t.backend.set_xattr(&t.owner, &object, name, value, Either);
    assert_eq!(set(&[b'n'; 250], b"x"), Ok(()));
    assert_eq!(set(&[b'n'; 251], b"x"), Err(VfsError::Nametoolong));
    assert_eq!(set(b"a", &vec![1; XATTR_SIZE_MAX + 1]), Err(VfsError::Xattr2big));
    // Linux allows more than some file systems hold.
    let most = set(b"a", &vec![1; XATTR_SIZE_MAX]);
    assert!(matches!(most, Ok(()) | Err(VfsError::Nospc | VfsError::Xattr2big)), "{most:?}");
    assert_eq!(
        t.backend.list_xattrs(&t.owner, &object).map(|names| names.len()),
        Ok(1 + usize::from(most.is_ok()))
    );
}

/// They are data: read permission lets a caller read them, write permission lets it change them.
pub fn extended_attributes_need_the_rights_to_the_data(t: &Fixture) {
    if skipped(t) || !t.identities {
        return;
    }
    let (object, _) = t.file_of(&t.owner, &t.root(), "file", 0o644);
    t.backend.set_xattr(&t.owner, &object, b"a", b"1", Either).unwrap();
    let other = user(4002);
    assert_eq!(t.backend.get_xattr(&other, &object, b"a"), Ok(b"1".to_vec()));
    assert_refused(t.backend.set_xattr(&other, &object, b"a", b"2", Either));
    assert_refused(t.backend.remove_xattr(&other, &object, b"a"));
    assert_eq!(t.backend.list_xattrs(&other, &object), Ok(vec![b"a".to_vec()]));
    // A name tells as much as a value. Neither the right to write nor that to execute is one to
    // read.
    for bits in [0o600, 0o602, 0o601, 0o603] {
        t.set(&object, &mode(bits)).unwrap();
        assert_refused(t.backend.get_xattr(&other, &object, b"a"));
        assert_refused(t.backend.list_xattrs(&other, &object));
        assert_eq!(t.backend.list_xattrs(&t.owner, &object).map(|names| names.len()), Ok(1));
    }
    t.set(&object, &mode(0o004)).unwrap();
    if t.owner.uid != 0 {
        assert_refused(t.backend.list_xattrs(&t.owner, &object));
    }
    assert_eq!(t.backend.list_xattrs(&other, &object).map(|names| names.len()), Ok(1));
    t.set(&t.root(), &mode(0o711)).unwrap();
    assert_refused(t.backend.list_xattrs(&other, &t.root()));
    t.set(&object, &mode(0o606)).unwrap();
    assert_eq!(t.backend.set_xattr(&other, &object, b"a", b"2", Either), Ok(()));
    t.set(&t.root(), &mode(0o1777)).unwrap();
    assert_refused(t.backend.set_xattr(&other, &t.root(), b"a", b"2", Either));
}

/// Symbolic links and special files have none that users could set.
pub fn only_files_and_directories_take_extended_attributes(t: &Fixture) {
    if skipped(t) {
        return;
    }
    let make = |name: &[u8], kind| t.backend.create(&t.owner, &t.root(), name, kind, &mode(0o666)).unwrap();
    let (_, file) = t.file(&t.root(), "file");
    drop(file);
    for object in [make(b"link", NewObject::Symlink(b"file")), make(b"fifo", NewObject::Fifo)] {
        assert_eq!(t.backend.set_xattr(&t.owner, &object, b"a", b"1", Either), Err(VfsError::Perm));
        assert_eq!(t.backend.list_xattrs(&t.owner, &object), Ok(Vec::new()));
    }
    let target = t.lookup(&t.root(), "file").unwrap();
    assert_eq!(t.backend.list_xattrs(&t.owner, &target), Ok(Vec::new()), "nothing went through the link");
}
