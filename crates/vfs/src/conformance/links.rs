//! Hard links and symbolic links.

use super::{BOTH, Fixture, READ, mode};
use crate::{FileType, NewObject, VfsError};

/// Same handle, same data, two links.
pub fn a_hard_link_is_the_same_object(t: &Fixture) {
    let (object, file) = t.file(&t.root(), "one");
    let directory = t.directory(&t.root(), "d");
    t.backend.link(&t.owner, &object, &directory, b"two").unwrap();
    assert_eq!(t.lookup(&directory, "two"), Ok(object));
    assert_eq!(t.attributes(&object).nlink, 2);
    file.write_at(b"shared", 0).unwrap();
    assert_eq!(t.content(&t.lookup(&directory, "two").unwrap()), b"shared");
}

/// The object goes with its last name.
pub fn removing_one_name_keeps_the_other(t: &Fixture) {
    let (object, _) = t.file(&t.root(), "one");
    t.backend.link(&t.owner, &object, &t.root(), b"two").unwrap();
    t.remove(&t.root(), "one").unwrap();
    assert_eq!(t.attributes(&object).nlink, 1);
    assert_eq!(t.lookup(&t.root(), "two"), Ok(object));
}

/// NFS4ERR_ISDIR, RFC 8881 section 18.9.3.
pub fn a_directory_cannot_be_linked(t: &Fixture) {
    let directory = t.directory(&t.root(), "d");
    assert_eq!(t.backend.link(&t.owner, &directory, &t.root(), b"e"), Err(VfsError::Isdir));
}

/// The existing entry stays as it is.
pub fn linking_over_an_existing_name_is_exist(t: &Fixture) {
    let (object, _) = t.file(&t.root(), "one");
    t.file(&t.root(), "two");
    assert_eq!(t.backend.link(&t.owner, &object, &t.root(), b"two"), Err(VfsError::Exist));
    assert_eq!(t.attributes(&object).nlink, 1);
}

/// The target is text to the server, also one that leads out of the export.
pub fn a_symlink_is_read_and_never_followed(t: &Fixture) {
    let long = b"../".repeat(300);
    for (index, target) in [&b"/etc/passwd"[..], b"../../..", &long, b"\xff\xfe"].into_iter().enumerate() {
        let name = format!("link{index}");
        let kind = NewObject::Symlink(target);
        let link = t.backend.create(&t.owner, &t.root(), name.as_bytes(), kind, &mode(0o777)).unwrap();
        let attributes = t.attributes(&link);
        assert_eq!((attributes.file_type, attributes.size), (FileType::Symlink, target.len() as u64));
        assert_eq!(t.backend.readlink(&t.owner, &link).as_deref(), Ok(target));
        assert_eq!(t.lookup(&t.root(), &name), Ok(link));
    }
}

/// NFS4ERR_WRONG_TYPE, RFC 8881 section 18.24.3.
pub fn readlink_of_a_file_is_wrong_type(t: &Fixture) {
    let (object, _) = t.file(&t.root(), "file");
    assert_eq!(t.backend.readlink(&t.owner, &object), Err(VfsError::WrongType));
    assert_eq!(t.backend.readlink(&t.owner, &t.root()), Err(VfsError::WrongType));
}

/// Nor truncated, nor given a mode that would reach its target.
pub fn a_symlink_cannot_be_opened(t: &Fixture) {
    let (target, _) = t.file(&t.root(), "target");
    let kind = NewObject::Symlink(b"target");
    let link = t.backend.create(&t.owner, &t.root(), b"link", kind, &mode(0o777)).unwrap();
    assert_eq!(t.backend.open(&t.owner, &link, READ).err(), Some(VfsError::Symlink));
    let size = crate::SetAttributes { size: Some(0), ..Default::default() };
    assert!(t.set(&link, &size).is_err());
    let before = t.attributes(&target);
    let _ = t.set(&link, &mode(0o777));
    assert_eq!(t.attributes(&target), before);
}

/// Creating under a symbolic link's name is `Exist`, dangling or not, and its target is not made.
pub fn a_symlink_in_the_way_is_not_written_through(t: &Fixture) {
    let kind = NewObject::Symlink(b"made-through-link");
    t.backend.create(&t.owner, &t.root(), b"link", kind, &mode(0o777)).unwrap();
    let made = t.backend.create_file(&t.owner, &t.root(), b"link", BOTH, &mode(0o644));
    assert_eq!(made.err(), Some(VfsError::Exist));
    assert_eq!(t.lookup(&t.root(), "made-through-link"), Err(VfsError::Noent));
    let (object, _) = t.file(&t.root(), "file");
    assert_eq!(t.backend.link(&t.owner, &object, &t.root(), b"link"), Err(VfsError::Exist));
}

/// Two, and one for each child; file systems that do not count say one.
pub fn directories_count_their_subdirectories(t: &Fixture) {
    let directory = t.directory(&t.root(), "d");
    let empty = t.attributes(&directory).nlink;
    if empty == 1 {
        return;
    }
    assert_eq!(empty, 2);
    t.directory(&directory, "a");
    t.directory(&directory, "b");
    t.file(&directory, "c");
    assert_eq!(t.attributes(&directory).nlink, 4);
    t.remove(&directory, "a").unwrap();
    assert_eq!(t.attributes(&directory).nlink, 3);
}
