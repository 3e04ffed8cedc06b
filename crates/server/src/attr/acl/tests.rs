//! Tests of the mapping against the rule of RFC 8881 section 6.2.1 and against acl(5).

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use vfs::{Acls, PosixAcl};

/// A caller: a user with groups. The object's owner and group are constants.
#[derive(Clone, Debug)]
struct Somebody {
    uid: u32,
    groups: BTreeSet<u32>,
}

const OWNER: u32 = 1;
const GROUP: u32 = 11;

/// Returns the rights by an NFSv4 list: the first matching entry decides each bit.
fn by_nfs4(aces: &[Ace], somebody: &Somebody, directory: bool) -> u8 {
    let (mut allowed, mut denied) = (0, 0);
    for ace in aces.iter().filter(|ace| ace.flag & nfs4::ACE4_INHERIT_ONLY_ACE == 0) {
        let about = match ace.who {
            Who::Owner => somebody.uid == OWNER,
            Who::User(uid) => somebody.uid == uid,
            Who::Group => somebody.groups.contains(&GROUP),
            Who::NamedGroup(gid) => somebody.groups.contains(&gid),
            Who::Everyone => true,
        };
        if about {
            let undecided = ace.mask & !(allowed | denied);
            if ace.allow { allowed |= undecided } else { denied |= undecided }
        }
    }
    rights_of(&Ace { who: Who::Everyone, allow: true, mask: allowed, flag: 0 }, directory)
}

/// Returns the rights that Linux gives by a POSIX list, each right requested alone.
fn by_posix(acl: &PosixAcl, somebody: &Somebody) -> u8 {
    if somebody.uid == OWNER {
        return acl.owner;
    }
    // The kernel's acl_permission_check().
    if acl.mode() & 0o070 == 0 {
        return if somebody.groups.contains(&GROUP) { 0 } else { acl.other };
    }
    if let Some(rights) = acl.users.get(&somebody.uid) {
        return acl.masked(*rights);
    }
    let own = somebody.groups.contains(&GROUP).then_some(acl.group);
    let named = acl.groups.iter().filter(|(gid, _)| somebody.groups.contains(gid)).map(|(_, rights)| *rights);
    let all: Vec<u8> = own.into_iter().chain(named).collect();
    match all.is_empty() {
        true => acl.other,
        false => acl.masked(all.into_iter().fold(0, |all, more| all | more)),
    }
}

fn somebody() -> impl Strategy<Value = Somebody> {
    (1_u32..5, proptest::collection::btree_set(11_u32..15, 0..4))
        .prop_map(|(uid, groups)| Somebody { uid, groups })
}

fn posix() -> impl Strategy<Value = PosixAcl> {
    let named = |numbers: std::ops::Range<u32>| proptest::collection::btree_map(numbers, 0_u8..8, 0..3);
    (0_u8..8, named(2..5), 0_u8..8, named(12..15), 0_u8..8).prop_map(
        |(owner, users, group, groups, other)| {
            let all = users.values().chain(groups.values()).fold(group, |all, rights| all | rights);
            let mask = if all == 0 { other } else { all };
            let mask = (!users.is_empty() || !groups.is_empty()).then_some(mask);
            PosixAcl { owner, users, group, groups, mask, other }
        },
    )
}

/// As [`posix`], after a chmod.
fn changed_posix() -> impl Strategy<Value = PosixAcl> {
    (posix(), 0_u32..0o1000).prop_map(|(mut acl, mode)| {
        acl.set_mode(mode);
        acl
    })
}

fn who() -> impl Strategy<Value = Who> {
    prop_oneof![
        2 => Just(Who::Owner),
        2 => Just(Who::Group),
        2 => Just(Who::Everyone),
        1 => (1_u32..5).prop_map(Who::User),
        1 => (11_u32..15).prop_map(Who::NamedGroup),
    ]
}

pub(super) fn ace() -> impl Strategy<Value = Ace> {
    let flag = prop_oneof![4 => Just(0), 1 => Just(INHERIT), 1 => Just(INHERIT | nfs4::ACE4_INHERIT_ONLY_ACE), 1 => 0_u32..16];
    (who(), any::<bool>(), 0_u32..128, flag).prop_map(|(who, allow, mask, flag)| Ace {
        who,
        allow,
        mask,
        flag,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    // section 6.4.1
    fn a_posix_list_comes_back_as_it_was(access in posix(), default in proptest::option::of(posix())) {
        let acls = Acls { access: Some(access.clone()), default: default.clone() };
        let aces = from_posix(&acls, 0, true);
        let expected = Acls { access: Some(access.in_force()), default };
        prop_assert_eq!(to_posix(&aces, true, Some(OWNER), Some(GROUP)), Ok(expected));
    }

    #[test]
    // section 6.2.1
    fn the_list_of_a_posix_acl_gives_the_rights_that_the_kernel_gives(acl in changed_posix(), somebody in somebody(), directory: bool) {
        let aces = from_posix(&Acls { access: Some(acl.clone()), default: None }, 0, directory);
        prop_assert_eq!(by_nfs4(&aces, &somebody, directory), by_posix(&acl, &somebody));
    }

    #[test]
    fn an_accepted_list_gives_no_more_rights_than_it_states(
        aces in proptest::collection::vec(ace(), 0..8),
        somebody in somebody(),
        directory: bool,
    ) // section 6.4.1: in doubt, more restricted
    {
        if let Ok(acls) = to_posix(&aces, directory, Some(OWNER), Some(GROUP)) {
            let given = by_posix(&acls.access.clone().unwrap(), &somebody);
            let said = by_nfs4(&aces, &somebody, directory);
            prop_assert_eq!(given & !said, 0, "{:?}", acls);
            prop_assert!(acls.default.is_none() || directory);
        }
    }
}

fn ace_of(who: Who, allow: bool, rights: u8) -> Ace {
    Ace { who, allow, mask: mask_of(rights, false), flag: 0 }
}

/// As `nfs4_setfacl -a` does it: a user's entry before the others.
#[test]
fn a_user_is_added_in_front() // section 6.2.1
{
    let mut aces = from_posix(&Acls::default(), 0o640, false);
    aces.insert(0, ace_of(Who::User(3), true, 6));
    let access = to_posix(&aces, false, Some(OWNER), Some(GROUP)).unwrap().access.unwrap();
    assert_eq!(access, PosixAcl { users: [(3, 6)].into(), mask: Some(6), ..PosixAcl::of_mode(0o640) });
    aces[0] = ace_of(Who::User(3), false, 7);
    let access = to_posix(&aces, false, Some(OWNER), Some(GROUP)).unwrap().access.unwrap();
    assert_eq!(access, PosixAcl { users: [(3, 0)].into(), mask: Some(4), ..PosixAcl::of_mode(0o640) });
}

/// POSIX cannot tell members of both groups from members of one.
#[test]
fn a_denial_for_a_group_before_an_allowance_for_another_is_not_supported() // section 6.4.1
{
    let aces = [
        ace_of(Who::Owner, true, 6),
        ace_of(Who::NamedGroup(12), false, 4),
        ace_of(Who::Group, true, 4),
        ace_of(Who::Everyone, true, 0),
    ];
    assert_eq!(to_posix(&aces, false, Some(OWNER), Some(GROUP)), Err(Unfit::Unsupported));
    let after = [aces[0], aces[2], aces[1], ace_of(Who::Everyone, true, 4)];
    let access = to_posix(&after, false, Some(OWNER), Some(GROUP)).unwrap().access.unwrap();
    assert_eq!((access.group, access.groups), (4, BTreeMap::from([(12, 0)])));
}

/// Files and directories inherit alike, at any depth, and files pass nothing on.
#[test]
fn inheritance_is_for_files_and_directories_at_once() // section 6.2.1.4
{
    let with = |flag| [ace_of(Who::Owner, true, 6), Ace { flag, ..ace_of(Who::User(3), true, 4) }];
    let fit = |flag, directory| to_posix(&with(flag), directory, Some(OWNER), Some(GROUP));
    for flag in [
        nfs4::ACE4_FILE_INHERIT_ACE,
        nfs4::ACE4_DIRECTORY_INHERIT_ACE,
        INHERIT | nfs4::ACE4_NO_PROPAGATE_INHERIT_ACE,
    ] {
        assert_eq!(fit(flag, true), Err(Unfit::Unsupported));
    }
    assert_eq!(fit(INHERIT, false), Err(Unfit::Invalid));
    assert_eq!(fit(nfs4::ACE4_INHERIT_ONLY_ACE, true), Err(Unfit::Invalid));
    // Special identifiers are not inherited: they get the rights of the directory's own list.
    let default = fit(INHERIT, true).unwrap().default.unwrap();
    assert_eq!(default, PosixAcl { owner: 4, users: [(3, 4)].into(), mask: Some(4), ..PosixAcl::default() });
}
