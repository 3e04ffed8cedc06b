//! Access control lists, as acl(5) has them.

use super::{Fixture, READ, WRITE, assert_refused, member, mode, user};
use crate::{Acls, Caller, NewObject, PosixAcl, SetAttributes, VfsError};

const ALICE: u32 = 4001;
const BOB: u32 = 4002;
const STAFF: u32 = 5001;

/// Says that a test is not for this file system.
fn skipped(t: &Fixture) -> bool {
    if !t.backend.features().acls {
        assert_eq!(t.backend.acls(&t.root()), Err(VfsError::Notsupp));
        eprintln!("skipped: the file system has no access control lists");
    }
    !t.backend.features().acls
}

fn set(access: PosixAcl, default: Option<PosixAcl>) -> SetAttributes {
    SetAttributes { acls: Some(Acls { access: Some(access), default }), ..SetAttributes::default() }
}

/// Alice may read and write, staff may read, others nothing.
fn list() -> PosixAcl {
    PosixAcl {
        owner: 6,
        users: [(ALICE, 6)].into(),
        group: 0,
        groups: [(STAFF, 4)].into(),
        mask: Some(6),
        other: 0,
    }
}

/// And the mode shows the mask in the place of the group.
pub fn a_list_is_kept_and_the_mode_goes_with_it(t: &Fixture) {
    if skipped(t) {
        return;
    }
    let (object, _) = t.file(&t.root(), "file");
    assert_eq!(t.backend.acls(&object), Ok(Acls::default()));
    let before = t.attributes(&object).change;
    t.set(&object, &set(list(), None)).unwrap();
    assert_eq!(t.backend.acls(&object), Ok(Acls { access: Some(list()), default: None }));
    assert_eq!(t.attributes(&object).mode, 0o660);
    assert_ne!(t.attributes(&object).change, before);
    t.set(&object, &mode(0o740)).unwrap();
    let changed = PosixAcl { owner: 7, mask: Some(4), ..list() };
    assert_eq!(t.backend.acls(&object).map(|acls| acls.access), Ok(Some(changed)));
    t.set(&object, &set(PosixAcl::of_mode(0o604), None)).unwrap();
    assert_eq!((t.backend.acls(&object), t.attributes(&object).mode), (Ok(Acls::default()), 0o604));
}

/// For users by name, for groups, and no more than the mask.
pub fn a_list_says_who_may(t: &Fixture) {
    if skipped(t) || !t.identities {
        return;
    }
    let (object, _) = t.file(&t.root(), "file");
    t.set(&object, &set(list(), None)).unwrap();
    let open = |caller, access| t.backend.open(&caller, &object, access);
    assert!(open(user(ALICE), WRITE).is_ok());
    assert!(open(member(BOB, &[STAFF]), READ).is_ok());
    assert_refused(open(member(BOB, &[STAFF]), WRITE).map(drop));
    assert_refused(open(user(BOB), READ).map(drop));
    t.set(&object, &mode(0o640)).unwrap();
    assert_refused(open(user(ALICE), WRITE).map(drop));
    assert!(open(user(ALICE), READ).is_ok());
}

/// Other users with write permission may not.
pub fn only_the_owner_changes_the_list(t: &Fixture) {
    if skipped(t) || !t.identities {
        return;
    }
    let (object, _) = t.file(&t.root(), "file");
    t.set(&object, &set(list(), None)).unwrap();
    assert_refused(t.backend.setattr(&user(ALICE), &object, &set(PosixAcl::of_mode(0o777), None)));
    assert_eq!(t.backend.acls(&object), Ok(Acls { access: Some(list()), default: None }));
}

/// Else new files of a shared directory leave its group.
pub fn a_list_of_the_superuser_keeps_the_set_group_id_bit(t: &Fixture) {
    if skipped(t) || !t.tells_callers_apart() {
        return;
    }
    let directory = t.directory(&t.root(), "d");
    let owner = SetAttributes { uid: Some(ALICE), gid: Some(STAFF), ..SetAttributes::default() };
    t.set(&directory, &owner).unwrap();
    t.set(&directory, &mode(0o2770)).unwrap();
    let changed = |caller| t.backend.setattr(&caller, &directory, &set(list(), None)).unwrap().mode;
    assert_eq!(changed(Caller::root()), 0o2660);
    assert_eq!(changed(member(ALICE, &[STAFF])), 0o2660);
}

/// Files get it as their own, directories to pass it on; it comes before the umask.
pub fn new_objects_get_the_default_list_of_their_directory(t: &Fixture) {
    if skipped(t) {
        return;
    }
    let directory = t.directory(&t.root(), "d");
    let default = PosixAcl { owner: 7, users: [(ALICE, 7)].into(), mask: Some(7), ..PosixAcl::default() };
    t.set(&directory, &set(PosixAcl::of_mode(0o755), Some(default.clone()))).unwrap();
    let asked = SetAttributes { mode: Some(0o666), umask: Some(0o077), ..SetAttributes::default() };
    let (file, _) = t.backend.create_file(&t.owner, &directory, b"file", READ, &asked).unwrap();
    let below = t.backend.create(&t.owner, &directory, b"below", NewObject::Directory, &mode(0o777)).unwrap();
    let of_file = PosixAcl { owner: 6, mask: Some(6), ..default.clone() };
    assert_eq!(t.backend.acls(&file), Ok(Acls { access: Some(of_file), default: None }));
    let of_below = Acls { access: Some(default.clone()), default: Some(default.clone()) };
    assert_eq!(t.backend.acls(&below), Ok(of_below));
    assert_eq!(
        t.set(&file, &set(list(), Some(default))).err(),
        Some(VfsError::Inval),
        "a file passes nothing on"
    );
    t.set(&directory, &set(PosixAcl::of_mode(0o755), None)).unwrap();
    assert_eq!(t.backend.acls(&directory), Ok(Acls::default()));
}

/// A list beside the attributes of a create.
pub fn a_list_is_set_on_what_is_being_made(t: &Fixture) {
    if skipped(t) {
        return;
    }
    let (file, _) = t.backend.create_file(&t.owner, &t.root(), b"file", READ, &set(list(), None)).unwrap();
    assert_eq!(t.backend.acls(&file), Ok(Acls { access: Some(list()), default: None }));
    let both = set(PosixAcl::of_mode(0o700), Some(list()));
    let directory = t.backend.create(&t.owner, &t.root(), b"d", NewObject::Directory, &both).unwrap();
    assert_eq!(t.backend.acls(&directory), Ok(Acls { access: None, default: Some(list()) }));
    assert_eq!(t.attributes(&directory).mode, 0o700);
    let link = NewObject::Symlink(b"file");
    assert_eq!(t.backend.create(&t.owner, &t.root(), b"l", link, &set(list(), None)), Err(VfsError::Notsupp));
    assert_eq!(t.lookup(&t.root(), "l"), Err(VfsError::Noent), "what could not be made whole is not there");
}

/// With the list alone and with a mode, for members of the group and others.
pub fn a_directory_with_a_list_inherits_the_set_group_id_bit(t: &Fixture) {
    if skipped(t) || !t.tells_callers_apart() {
        return;
    }
    let shared = t.directory(&t.root(), "shared");
    t.set(&shared, &SetAttributes { gid: Some(STAFF), ..SetAttributes::default() }).unwrap();
    t.set(&shared, &mode(0o2777)).unwrap();
    let list = set(PosixAcl::of_mode(0o750), None);
    let both = SetAttributes { mode: Some(0o750), ..list.clone() };
    for (caller, kind) in
        [(member(ALICE, &[STAFF]), "member"), (user(BOB), "other"), (Caller::root(), "root")]
    {
        for (set, name) in [(&list, "list"), (&both, "both")] {
            let name = format!("{kind} {name}");
            let made = t.backend.create(&caller, &shared, name.as_bytes(), NewObject::Directory, set);
            let made = t.attributes(&made.unwrap());
            assert_eq!((made.gid, made.mode), (STAFF, 0o2750), "{name}");
        }
    }
}

/// As far as the file system has room for them.
pub fn a_list_of_three_hundred_entries_is_kept(t: &Fixture) {
    if skipped(t) {
        return;
    }
    let (object, _) = t.file(&t.root(), "file");
    let many = PosixAcl { users: (0..300).map(|n| (10_000 + n, 4)).collect(), ..list() };
    t.set(&object, &set(many.clone(), None)).unwrap();
    assert_eq!(t.backend.acls(&object).map(|acls| acls.access), Ok(Some(many)));
    let huge = PosixAcl { users: (0..100_000).map(|n| (10_000 + n, 4)).collect(), ..list() };
    assert_eq!(t.set(&object, &set(huge, None)).err(), Some(VfsError::Nospc));
}
