//! Permissions: the rules of the kernel.

use super::{BOTH, Fixture, READ, WRITE, assert_refused, member, mode, user};
use crate::{Caller, NewObject, ObjectHandle, Permissions, SetAttributes, VfsError};

const ALICE: u32 = 4001;
const BOB: u32 = 4002;
const STAFF: u32 = 5001;

/// Makes a directory that everybody may write to.
fn playground(t: &Fixture) -> ObjectHandle {
    let directory = t.directory(&t.root(), "playground");
    t.set(&directory, &mode(0o777)).unwrap();
    directory
}

/// Makes a file of alice's in group staff.
fn staff_file(t: &Fixture, bits: u32) -> ObjectHandle {
    let directory = playground(t);
    let (file, _) = t.file_of(&t.owner, &directory, "file", 0o600);
    t.set(&file, &owner(Some(ALICE), Some(STAFF))).unwrap();
    t.set(&file, &mode(bits)).unwrap();
    file
}

fn owner(uid: Option<u32>, gid: Option<u32>) -> SetAttributes {
    SetAttributes { uid, gid, ..SetAttributes::default() }
}

fn may(t: &Fixture, caller: &Caller, object: &ObjectHandle) -> (bool, bool, bool) {
    let Permissions { read, write, execute } = t.backend.access(caller, object).unwrap();
    (read, write, execute)
}

/// Even when group and others may more.
pub fn the_owner_class_applies_to_the_owner_alone(t: &Fixture) {
    if t.tells_callers_apart() {
        let file = staff_file(t, 0o077);
        assert_eq!(may(t, &member(ALICE, &[STAFF]), &file), (false, false, false));
        t.set(&file, &mode(0o500)).unwrap();
        assert_eq!(may(t, &user(ALICE), &file), (true, false, true));
        assert_eq!(may(t, &user(BOB), &file), (false, false, false));
    }
}

/// As primary and as one of the supplementary groups.
pub fn the_group_class_applies_to_members_and_supplementary_groups(t: &Fixture) {
    if t.tells_callers_apart() {
        let file = staff_file(t, 0o640);
        assert_eq!(may(t, &member(BOB, &[STAFF]), &file), (true, false, false));
        let primary = Caller { uid: BOB, gid: STAFF, groups: [].into() };
        assert_eq!(may(t, &primary, &file), (true, false, false));
        t.set(&file, &mode(0o606)).unwrap();
        assert_eq!(may(t, &member(BOB, &[7, STAFF, 9]), &file), (false, false, false));
    }
}

/// The caller is neither the owner nor in the group.
pub fn others_get_the_last_class(t: &Fixture) {
    if t.tells_callers_apart() {
        let file = staff_file(t, 0o604);
        assert_eq!(may(t, &user(BOB), &file), (true, false, false));
        t.set(&file, &mode(0o660)).unwrap();
        assert_eq!(may(t, &user(BOB), &file), (false, false, false));
    }
}

/// In each class, for files and directories.
pub fn every_set_of_rights_is_told_apart(t: &Fixture) {
    if t.tells_callers_apart() {
        let file = staff_file(t, 0);
        let directory = t.directory(&t.root(), "directory");
        t.set(&directory, &owner(Some(ALICE), Some(STAFF))).unwrap();
        for bits in 0..8 {
            let expected = (bits & 4 != 0, bits & 2 != 0, bits & 1 != 0);
            for (caller, shift) in [(user(ALICE), 6), (member(BOB, &[STAFF]), 3), (user(BOB), 0)] {
                for object in [&file, &directory] {
                    t.set(object, &mode(bits << shift)).unwrap();
                    assert_eq!(may(t, &caller, object), expected, "{bits:o} << {shift}");
                }
            }
        }
    }
}

/// Both where both are asked for.
pub fn opening_needs_the_rights_that_it_asks_for(t: &Fixture) {
    if t.tells_callers_apart() {
        let file = staff_file(t, 0o642);
        let (alice, bob, staff) = (user(ALICE), user(BOB), member(BOB, &[STAFF]));
        assert!(t.backend.open(&alice, &file, BOTH).is_ok());
        assert!(t.backend.open(&staff, &file, READ).is_ok());
        assert_eq!(t.backend.open(&staff, &file, WRITE).err(), Some(VfsError::Access));
        assert_eq!(t.backend.open(&staff, &file, BOTH).err(), Some(VfsError::Access));
        assert!(t.backend.open(&bob, &file, WRITE).is_ok());
        assert_eq!(t.backend.open(&bob, &file, READ).err(), Some(VfsError::Access));
    }
}

/// An owner keeps the access that it was granted before.
pub fn the_owner_alone_may_open_past_the_mode(t: &Fixture) {
    if t.tells_callers_apart() {
        let file = staff_file(t, 0o070);
        let (alice, staff) = (user(ALICE), member(BOB, &[STAFF]));
        assert_eq!(t.backend.open(&alice, &file, BOTH).err(), Some(VfsError::Access));
        let opened = t.backend.open_own(&alice, &file, BOTH).unwrap();
        assert_eq!(opened.write_at(b"mine", 0), Ok(4));
        assert_eq!(t.backend.open_own(&staff, &file, BOTH).err(), Some(VfsError::Access));
        let directory = t.backend.open_own(&t.owner, &playground_again(t), READ);
        assert_eq!(directory.err(), Some(VfsError::Isdir));
    }
}

/// Clients load programs by READ; ACCESS still tells the truth.
pub fn callers_that_may_execute_a_program_may_open_it_for_reading(t: &Fixture) {
    if t.tells_callers_apart() {
        let file = staff_file(t, 0o711);
        let bob = user(BOB);
        assert_eq!(may(t, &bob, &file), (false, false, true));
        let open = t.backend.open(&bob, &file, READ).unwrap();
        assert_eq!(open.read_at(&mut Vec::new(), 4, 0), Ok(crate::Eof::Reached));
        assert_eq!(t.backend.open(&bob, &file, BOTH).err(), Some(VfsError::Access));
        assert_eq!(t.backend.open(&bob, &file, WRITE).err(), Some(VfsError::Access));
        t.set(&file, &mode(0o700)).unwrap();
        assert_eq!(t.backend.open(&bob, &file, READ).err(), Some(VfsError::Access));
    }
}

/// Knowing the name is not enough.
pub fn searching_a_directory_needs_execute(t: &Fixture) {
    if t.tells_callers_apart() {
        let directory = t.directory(&t.root(), "d");
        t.file(&directory, "file");
        t.set(&directory, &mode(0o754)).unwrap();
        let bob = user(BOB);
        assert_refused(t.backend.lookup(&bob, &directory, b"file"));
        assert_refused(t.backend.lookup(&bob, &directory, b"nothing"));
        assert_refused(t.backend.lookup_attributes(&bob, &directory, b"file"));
        assert_refused(t.backend.lookup_parent(&bob, &directory));
        t.set(&directory, &mode(0o751)).unwrap();
        assert!(t.backend.lookup(&bob, &directory, b"file").is_ok());
    }
}

/// Search permission alone lists nothing.
pub fn listing_a_directory_needs_read(t: &Fixture) {
    if t.tells_callers_apart() {
        let directory = t.directory(&t.root(), "d");
        t.file(&directory, "file");
        t.set(&directory, &mode(0o751)).unwrap();
        let list = |caller: &Caller| {
            t.backend.readdir(caller, &directory, 0, &mut |_| std::ops::ControlFlow::Continue(()))
        };
        assert_eq!(list(&user(BOB)), Err(VfsError::Access));
        t.set(&directory, &mode(0o754)).unwrap();
        assert_eq!(list(&user(BOB)), Ok(crate::Eof::Reached));
    }
}

/// For every kind of object.
pub fn creating_and_removing_need_write_on_the_directory(t: &Fixture) {
    if t.tells_callers_apart() {
        let directory = t.directory(&t.root(), "d");
        let (file, _) = t.file_of(&t.owner, &directory, "file", 0o666);
        let bob = user(BOB);
        assert_refused(t.backend.create_file(&bob, &directory, b"x", BOTH, &mode(0o644)).map(|_| ()));
        for kind in [NewObject::Directory, NewObject::Symlink(b"x"), NewObject::Fifo] {
            assert_refused(t.backend.create(&bob, &directory, b"x", kind, &mode(0o644)));
        }
        assert_refused(t.backend.link(&bob, &file, &directory, b"x"));
        assert_refused(t.backend.remove(&bob, &directory, b"file", None));
        assert_eq!(t.list(&directory).len(), 1);
    }
}

/// As in /tmp: the file's owner, the directory's owner and root may.
pub fn a_sticky_directory_keeps_others_from_removing(t: &Fixture) {
    if t.tells_callers_apart() {
        let directory = playground(t);
        t.set(&directory, &mode(0o1777)).unwrap();
        for name in ["one", "two"] {
            t.file_of(&user(ALICE), &directory, name, 0o666);
        }
        assert_refused(t.backend.remove(&user(BOB), &directory, b"one", None));
        t.backend.remove(&user(ALICE), &directory, b"one", None).unwrap();
        t.backend.remove(&Caller::root(), &directory, b"two", None).unwrap();
    }
}

/// Files take the group, directories the bit too.
pub fn a_setgid_directory_gives_its_group(t: &Fixture) {
    if t.tells_callers_apart() {
        let directory = playground(t);
        t.set(&directory, &owner(None, Some(STAFF))).unwrap();
        t.set(&directory, &mode(0o2777)).unwrap();
        let (file, _) = t.file_of(&user(ALICE), &directory, "file", 0o644);
        let inner = t.directory_of(&user(ALICE), &directory, "inner", 0o755);
        let (file, inner) = (t.attributes(&file), t.attributes(&inner));
        assert_eq!((file.gid, file.mode), (STAFF, 0o644));
        assert_eq!((inner.gid, inner.mode), (STAFF, 0o2755));
    }
}

/// chmod(2) of the superuser keeps the bit, too.
pub fn the_superuser_makes_set_group_id_files_of_any_group(t: &Fixture) {
    if t.tells_callers_apart() {
        let directory = playground(t);
        t.set(&directory, &owner(None, Some(STAFF))).unwrap();
        t.set(&directory, &mode(0o2777)).unwrap();
        let root = Caller::root();
        let (file, _) = t.file_of(&root, &directory, "file", 0o2755);
        let fifo = t.backend.create(&root, &directory, b"fifo", NewObject::Fifo, &mode(0o2755)).unwrap();
        let (others, _) = t.file_of(&user(ALICE), &directory, "others", 0o2755);
        for (object, mode) in [(file, 0o2755), (fifo, 0o2755), (others, 0o755)] {
            let attributes = t.attributes(&object);
            assert_eq!((attributes.gid, attributes.mode), (STAFF, mode));
        }
    }
}

/// User and primary group.
pub fn new_objects_belong_to_the_caller(t: &Fixture) {
    if t.tells_callers_apart() {
        let directory = playground(t);
        let alice = Caller { uid: ALICE, gid: STAFF, groups: [7].into() };
        let (file, _) = t.file_of(&alice, &directory, "file", 0o644);
        let inner = t.directory_of(&alice, &directory, "inner", 0o755);
        let kind = NewObject::Symlink(b"target");
        let link = t.backend.create(&alice, &directory, b"link", kind, &mode(0o777)).unwrap();
        for object in [file, inner, link] {
            let attributes = t.attributes(&object);
            assert_eq!((attributes.uid, attributes.gid), (ALICE, STAFF));
        }
        assert_eq!(t.attributes(&file).mode, 0o644);
        assert_eq!(t.attributes(&inner).mode, 0o755);
    }
}

/// Write permission does not suffice.
pub fn only_the_owner_changes_the_mode(t: &Fixture) {
    if t.tells_callers_apart() {
        let file = staff_file(t, 0o666);
        assert_eq!(t.backend.setattr(&user(BOB), &file, &mode(0o777)), Err(VfsError::Perm));
        assert_eq!(t.backend.setattr(&user(ALICE), &file, &mode(0o400)).unwrap().mode, 0o400);
    }
}

/// Neither away nor to oneself.
pub fn only_the_superuser_gives_files_away(t: &Fixture) {
    if t.tells_callers_apart() {
        let file = staff_file(t, 0o666);
        let set = |caller: &Caller, uid| t.backend.setattr(caller, &file, &owner(Some(uid), None));
        assert_eq!(set(&user(ALICE), BOB), Err(VfsError::Perm));
        assert_eq!(set(&user(BOB), BOB), Err(VfsError::Perm));
        assert_eq!(set(&user(ALICE), ALICE).unwrap().uid, ALICE);
        assert_eq!(set(&Caller::root(), BOB).unwrap().uid, BOB);
    }
}

/// The rule of chgrp in POSIX.
pub fn an_owner_may_give_a_file_to_its_own_groups_only(t: &Fixture) {
    if t.tells_callers_apart() {
        let file = staff_file(t, 0o666);
        let set = |caller: &Caller, gid| t.backend.setattr(caller, &file, &owner(None, Some(gid)));
        assert_eq!(set(&user(ALICE), 5002), Err(VfsError::Perm));
        assert_eq!(set(&member(BOB, &[5002]), 5002), Err(VfsError::Perm));
        assert_eq!(set(&member(ALICE, &[7, 5002]), 5002).unwrap().gid, 5002);
        assert_eq!(set(&user(ALICE), ALICE).unwrap().gid, ALICE);
    }
}

/// chmod keeps set-group-id only for a group of the caller's, and for root.
pub fn setgid_is_dropped_for_a_group_of_others(t: &Fixture) {
    if t.tells_callers_apart() {
        let file = staff_file(t, 0o755);
        assert_eq!(t.backend.setattr(&user(ALICE), &file, &mode(0o2755)).unwrap().mode, 0o755);
        let member = member(ALICE, &[STAFF]);
        assert_eq!(t.backend.setattr(&member, &file, &mode(0o2755)).unwrap().mode, 0o2755);
        t.set(&file, &mode(0o755)).unwrap();
        assert_eq!(t.backend.setattr(&Caller::root(), &file, &mode(0o6755)).unwrap().mode, 0o6755);
    }
}

/// A device node opens hardware.
pub fn devices_are_for_the_superuser(t: &Fixture) {
    if t.tells_callers_apart() {
        let directory = playground(t);
        for kind in [NewObject::Block(8, 0), NewObject::Character(1, 1)] {
            assert_refused(t.backend.create(&user(ALICE), &directory, b"device", kind, &mode(0o666)));
        }
        let fifo = t.backend.create(&user(ALICE), &directory, b"fifo", NewObject::Fifo, &mode(0o600));
        assert_eq!(t.attributes(&fifo.unwrap()).uid, ALICE);
    }
}

/// Ownership does not suffice.
pub fn truncating_by_name_needs_write_permission(t: &Fixture) {
    if t.tells_callers_apart() {
        let file = staff_file(t, 0o446);
        let size = SetAttributes { size: Some(3), ..SetAttributes::default() };
        assert_eq!(t.backend.setattr(&user(ALICE), &file, &size), Err(VfsError::Access));
        assert_eq!(t.backend.setattr(&member(BOB, &[STAFF]), &file, &size), Err(VfsError::Access));
        assert_eq!(t.backend.setattr(&user(BOB), &file, &size).unwrap().size, 3);
    }
}

/// Unless it is squashed, which happens above the backend.
pub fn the_superuser_passes_all_classes(t: &Fixture) {
    if t.tells_callers_apart() {
        let file = staff_file(t, 0);
        assert_eq!(may(t, &Caller::root(), &file), (true, true, false));
        assert!(t.backend.open(&Caller::root(), &file, BOTH).is_ok());
        let directory = t.directory_of(&user(ALICE), &playground_again(t), "closed", 0);
        assert_eq!(may(t, &Caller::root(), &directory), (true, true, true));
        t.file_of(&Caller::root(), &directory, "x", 0o600);
    }
}

fn playground_again(t: &Fixture) -> ObjectHandle {
    t.lookup(&t.root(), "playground").unwrap()
}

/// No caller inherits the rights of the one before, on one thread or on several.
pub fn callers_in_turn_keep_their_own_rights(t: &Fixture) {
    if !t.tells_callers_apart() {
        return;
    }
    let directory = playground(t);
    let files: Vec<ObjectHandle> =
        (0..8_u32).map(|n| t.file_of(&user(ALICE + n), &directory, &format!("file{n}"), 0o600).0).collect();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for round in 0..200_u32 {
                    let caller = user(ALICE + round % 8);
                    for (n, file) in files.iter().enumerate() {
                        let expected = n as u32 == round % 8;
                        assert_eq!(t.backend.open(&caller, file, READ).is_ok(), expected);
                    }
                    assert!(t.backend.open(&Caller::root(), &files[0], READ).is_ok());
                }
            });
        }
    });
}

/// More than the 16 of AUTH_SYS and the 32 that other servers stop at.
pub fn a_caller_with_many_groups_is_served(t: &Fixture) {
    if t.tells_callers_apart() {
        let file = staff_file(t, 0o640);
        let mut groups: Vec<u32> = (10_000..11_000).collect();
        assert_refused(t.backend.open(&member(BOB, &groups), &file, READ).map(|_| ()));
        groups.push(STAFF);
        assert!(t.backend.open(&member(BOB, &groups), &file, READ).is_ok());
    }
}

/// RFC 8275 section 5: mode_umask of CREATE and OPEN.
pub fn the_umask_takes_bits_from_the_mode_of_what_is_made(t: &Fixture) {
    let set = SetAttributes { mode: Some(0o777), umask: Some(0o027), ..SetAttributes::default() };
    let (file, _) = t.backend.create_file(&t.owner, &t.root(), b"file", super::BOTH, &set).unwrap();
    let directory = t.backend.create(&t.owner, &t.root(), b"d", NewObject::Directory, &set).unwrap();
    assert_eq!((t.attributes(&file).mode, t.attributes(&directory).mode), (0o750, 0o750));
}
