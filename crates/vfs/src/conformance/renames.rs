//! RENAME (RFC 8881 section 18.26).

use super::{Fixture, assert_refused, mode, user};
use crate::{NewObject, VfsError};

/// The object stays the same one.
pub fn a_name_moves_within_and_between_directories(t: &Fixture) {
    let root = t.root();
    let directory = t.directory(&root, "d");
    let (object, _) = t.file(&root, "a");
    t.rename((&root, "a"), (&root, "b")).unwrap();
    assert_eq!(t.lookup(&root, "a"), Err(VfsError::Noent));
    assert_eq!(t.lookup(&root, "b"), Ok(object));
    t.rename((&root, "b"), (&directory, "c")).unwrap();
    assert_eq!(t.lookup(&root, "b"), Err(VfsError::Noent));
    assert_eq!(t.lookup(&directory, "c"), Ok(object));
}

/// The replaced file loses its name.
pub fn renaming_over_a_file_replaces_it(t: &Fixture) {
    let root = t.root();
    let (object, file) = t.file(&root, "new");
    file.write_at(b"new", 0).unwrap();
    let (old, _) = t.file(&root, "old");
    t.rename((&root, "new"), (&root, "old")).unwrap();
    assert_eq!(t.lookup(&root, "old"), Ok(object));
    assert_eq!(t.content(&object), b"new");
    assert_eq!(t.backend.getattr(&old), Err(VfsError::Stale));
    assert_eq!(t.list(&root).len(), 1);
}

/// A directory may replace an empty one.
pub fn renaming_over_an_empty_directory_replaces_it(t: &Fixture) {
    let root = t.root();
    let from = t.directory(&root, "from");
    t.file(&from, "inside");
    let to = t.directory(&root, "to");
    t.rename((&root, "from"), (&root, "to")).unwrap();
    assert_eq!(t.lookup(&root, "to"), Ok(from));
    assert_eq!(t.backend.getattr(&to), Err(VfsError::Stale));
    assert!(t.lookup(&from, "inside").is_ok());
}

/// Both directories stay as they are.
pub fn renaming_over_a_directory_that_is_not_empty_is_notempty(t: &Fixture) {
    let root = t.root();
    let from = t.directory(&root, "from");
    let to = t.directory(&root, "to");
    t.file(&to, "inside");
    let result = t.rename((&root, "from"), (&root, "to"));
    assert!(matches!(result, Err(VfsError::Notempty | VfsError::Exist)), "{result:?}");
    assert_eq!(t.lookup(&root, "from"), Ok(from));
    assert_eq!(t.lookup(&root, "to"), Ok(to));
}

/// NFS4ERR_EXIST: the types must agree, whether the directory has entries or not.
pub fn renaming_a_file_over_a_directory_is_exist(t: &Fixture) {
    let root = t.root();
    t.file(&root, "file");
    t.backend.create(&t.owner, &root, b"link", NewObject::Symlink(b"file"), &mode(0o777)).unwrap();
    let directory = t.directory(&root, "directory");
    assert_eq!(t.rename((&root, "file"), (&root, "directory")), Err(VfsError::Exist));
    assert_eq!(t.rename((&root, "link"), (&root, "directory")), Err(VfsError::Exist));
    t.file(&directory, "inside");
    assert_eq!(t.rename((&root, "file"), (&root, "directory")), Err(VfsError::Exist));
    assert_eq!(t.rename((&root, "link"), (&root, "directory")), Err(VfsError::Exist));
    assert_eq!(t.rename((&directory, "inside"), (&root, "directory")), Err(VfsError::Exist));
    assert_eq!(t.lookup(&root, "directory"), Ok(directory));
    assert!(t.lookup(&directory, "inside").is_ok());
}

/// NFS4ERR_EXIST: the types must agree, whether the directory has entries or not.
pub fn renaming_a_directory_over_a_file_is_exist(t: &Fixture) {
    let root = t.root();
    t.file(&root, "file");
    let directory = t.directory(&root, "directory");
    assert_eq!(t.rename((&root, "directory"), (&root, "file")), Err(VfsError::Exist));
    let below = t.directory(&directory, "below");
    assert_eq!(t.rename((&root, "directory"), (&root, "file")), Err(VfsError::Exist));
    assert_eq!(t.rename((&directory, "below"), (&root, "file")), Err(VfsError::Exist));
    assert_eq!(t.lookup(&directory, "below"), Ok(below));
}

/// `Inval`, into itself and into its descendants.
pub fn a_directory_cannot_move_below_itself(t: &Fixture) {
    let root = t.root();
    let a = t.directory(&root, "a");
    let b = t.directory(&a, "b");
    assert_eq!(t.rename((&root, "a"), (&a, "x")), Err(VfsError::Inval));
    assert_eq!(t.rename((&root, "a"), (&b, "x")), Err(VfsError::Inval));
    let up = t.rename((&a, "b"), (&root, "a"));
    assert!(matches!(up, Err(VfsError::Notempty | VfsError::Exist)), "{up:?}");
    assert_eq!(t.lookup(&a, "b"), Ok(b));
}

/// A backend that cannot tell whether a name is free changes nothing either.
pub fn a_rename_to_a_free_name_leaves_others_alone(t: &Fixture) {
    let root = t.root();
    let (one, _) = t.file(&root, "one");
    let (two, _) = t.file(&root, "two");
    let source = t.backend.lookup_to_change(&t.owner, &root, b"one").unwrap();
    let rename = |to: &[u8]| t.backend.rename_new(&t.owner, (&root, b"one"), (&root, to), &source);
    assert_eq!((rename(b"two"), rename(b"one")), (Ok(false), Ok(false)));
    assert_eq!((t.lookup(&root, "one"), t.lookup(&root, "two")), (Ok(one), Ok(two)));
    let renamed = rename(b"three").unwrap();
    assert_eq!(t.lookup(&root, "three").ok(), renamed.then_some(one));
    assert_eq!(t.lookup(&root, "one").is_err(), renamed);
}

/// Both names stay in place.
pub fn renaming_between_two_names_of_one_object_does_nothing(t: &Fixture) {
    let root = t.root();
    let (object, _) = t.file(&root, "one");
    t.backend.link(&t.owner, &object, &root, b"two").unwrap();
    t.rename((&root, "one"), (&root, "two")).unwrap();
    t.rename((&root, "one"), (&root, "one")).unwrap();
    assert_eq!(t.lookup(&root, "one"), Ok(object));
    assert_eq!(t.lookup(&root, "two"), Ok(object));
    assert_eq!(t.attributes(&object).nlink, 2);
}

/// `Noent`, and the target stays.
pub fn renaming_what_is_not_there_is_noent(t: &Fixture) {
    let (target, _) = t.file(&t.root(), "target");
    assert_eq!(t.rename((&t.root(), "nothing"), (&t.root(), "target")), Err(VfsError::Noent));
    assert_eq!(t.lookup(&t.root(), "target"), Ok(target));
}

/// LOOKUPP follows the move.
pub fn a_moved_directory_has_its_new_parent(t: &Fixture) {
    let root = t.root();
    let a = t.directory(&root, "a");
    let b = t.directory(&root, "b");
    let child = t.directory(&a, "child");
    t.rename((&a, "child"), (&b, "child")).unwrap();
    assert_eq!(t.backend.lookup_parent(&t.owner, &child), Ok(b));
    let (from, to) = (t.attributes(&a).nlink, t.attributes(&b).nlink);
    assert!((from, to) == (2, 3) || (from, to) == (1, 1), "{from} {to}");
}

/// Either one refused refuses the rename.
pub fn renaming_needs_write_on_both_directories(t: &Fixture) {
    if !t.tells_callers_apart() {
        return;
    }
    let caller = user(4001);
    let open = t.directory_of(&t.owner, &t.root(), "open", 0o777);
    t.set(&open, &mode(0o777)).unwrap();
    let closed = t.directory(&t.root(), "closed");
    t.file(&closed, "theirs");
    t.file_of(&caller, &open, "mine", 0o644);
    assert_refused(t.backend.rename(&caller, (&open, b"mine"), (&closed, b"x"), None));
    assert_refused(t.backend.rename(&caller, (&closed, b"theirs"), (&open, b"x"), None));
    t.backend.rename(&caller, (&open, b"mine"), (&open, b"x"), None).unwrap();
}

/// Neither taken away nor replaced.
pub fn a_sticky_directory_keeps_others_from_renaming(t: &Fixture) {
    if !t.tells_callers_apart() {
        return;
    }
    let (alice, bob) = (user(4001), user(4002));
    let tmp = t.directory(&t.root(), "tmp");
    t.set(&tmp, &mode(0o1777)).unwrap();
    t.file_of(&alice, &tmp, "alice", 0o666);
    t.file_of(&bob, &tmp, "bob", 0o666);
    assert_refused(t.backend.rename(&bob, (&tmp, b"alice"), (&tmp, b"x"), None));
    assert_refused(t.backend.rename(&bob, (&tmp, b"bob"), (&tmp, b"alice"), None));
    t.backend.rename(&alice, (&tmp, b"alice"), (&tmp, b"x"), None).unwrap();
}

/// Its ".." would change, which is a write to it.
pub fn a_directory_of_others_does_not_move_between_parents(t: &Fixture) {
    if !t.tells_callers_apart() {
        return;
    }
    let (alice, bob) = (user(4001), user(4002));
    let shared = t.directory(&t.root(), "shared");
    let other = t.directory(&t.root(), "other");
    t.set(&shared, &mode(0o777)).unwrap();
    t.set(&other, &mode(0o777)).unwrap();
    t.directory_of(&alice, &shared, "d", 0o755);
    assert_refused(t.backend.rename(&bob, (&shared, b"d"), (&other, b"d"), None));
    t.backend.rename(&bob, (&shared, b"d"), (&shared, b"e"), None).unwrap();
    t.backend.rename(&alice, (&shared, b"e"), (&other, b"d"), None).unwrap();
}
