//! Opens, share reservations and stateids.

use super::world::*;
use crate::*;
use nfs4::{Nfsstat4, Stateid4};
use std::ops::Deref;

const READ: u32 = 1;
const WRITE: u32 = 2;
const BOTH: u32 = 3;

#[test]
fn shares_conflict_between_owners_and_within_one() {
    // RFC 8881 sections 9.7 and 18.16.3: no exception for the owner's own open
    let mut world = World::new();
    let (a, b) = (world.ready("a"), world.ready("b"));
    for (access, deny, then_access, then_deny, allowed) in [
        (READ, 0, BOTH, 0, true),
        (READ, WRITE, READ, 0, true),
        (READ, WRITE, WRITE, 0, false),
        (READ, WRITE, READ, READ, false),
        (BOTH, BOTH, READ, 0, false),
        (WRITE, 0, READ, WRITE, false),
        (READ, READ, WRITE, 0, true),
    ] {
        let first = world.open(&a, "o", 1, access, deny).unwrap();
        let result = world.open(&b, "o", 1, then_access, then_deny);
        match result {
            Ok(stateid) => {
                assert!(allowed);
                world.state.close(world.key(&b), &stateid, &1).unwrap();
            }
            Err(status) => {
                assert!(!allowed);
                assert_eq!(status, Nfsstat4::NFS4ERR_SHARE_DENIED);
            }
        }
        let own = world.open(&a, "o", 1, then_access, then_deny);
        assert_eq!(own.is_ok(), allowed);
        assert_eq!(world.open(&a, "other", 1, then_access, then_deny).is_ok(), allowed);
        let key = world.key(&a);
        world.state.close(key, &Stateid4 { seqid: 0, ..first }, &1).unwrap();
        if allowed {
            let again = world.open(&a, "other", 1, READ, 0).unwrap();
            world.state.close(key, &again, &1).unwrap();
        }
        assert_eq!(world.state.counts().files, 0);
    }
}

#[test]
fn an_owner_that_opens_again_widens_its_open_under_the_same_stateid() {
    // RFC 8881 sections 9.9 and 18.16.3
    let mut world = World::new();
    let client = world.ready("a");
    let key = world.key(&client);
    let first = world.open(&client, "o", 1, READ, 0).unwrap();
    assert_eq!(first.seqid, 1);
    assert_eq!(world.state.access(key, &first, &1, WRITE), Err(Nfsstat4::NFS4ERR_OPENMODE));
    let second = world.open(&client, "o", 1, WRITE, 0).unwrap();
    assert_eq!((second.seqid, second.other), (2, first.other));
    assert_eq!(world.closed(), 1, "the narrower payload");
    assert!(world.state.access(key, &second, &1, BOTH).is_ok());
    assert_eq!(world.state.access(key, &first, &1, READ), Err(Nfsstat4::NFS4ERR_OLD_STATEID));
    assert_eq!(world.state.counts().opens, 1);
}

#[test]
fn a_payload_that_is_too_narrow_by_the_time_it_arrives_is_asked_for_again() {
    let mut world = World::new();
    let client = world.ready("a");
    let key = world.key(&client);
    let request = OpenRequest {
        owner: b"o",
        file: &1,
        access: READ,
        deny: 0,
        claim: OpenClaim::New,
        opener: anyone(),
        truncates: false,
    };
    assert_eq!(world.state.open_check(world.now, key, &request), Ok(READ));
    world.open(&client, "o", 1, WRITE, 0).unwrap();
    assert_eq!(world.state.open(world.now, key, &request, 7, READ), Ok(OpenOutcome::Reopen(BOTH)));
    assert_eq!(world.state.take_closed().last(), Some(&7));
    let opened = world.state.open(world.now, key, &request, 8, BOTH).unwrap();
    assert!(matches!(opened, OpenOutcome::Opened(Stateid4 { seqid: 2, .. })));
    let mut effects = Effects::default();
    let checked = world.state.deref().opens().open_check(world.now, key, &request, u64::clone, &mut effects);
    assert_eq!(checked, Ok((BOTH, Some(8))));
}

#[test]
fn a_refused_open_returns_its_payload() {
    let mut world = World::new();
    let (a, b) = (world.ready("a"), world.ready("b"));
    let key = world.key(&b);
    let request = OpenRequest {
        owner: b"o",
        file: &1,
        access: WRITE,
        deny: 0,
        claim: OpenClaim::New,
        opener: anyone(),
        truncates: false,
    };
    assert_eq!(world.state.open_check(world.now, key, &request), Ok(WRITE));
    world.open(&a, "o", 1, READ, WRITE).unwrap();
    world.state.take_closed();
    assert_eq!(world.state.open(world.now, key, &request, 7, WRITE), Err(Nfsstat4::NFS4ERR_SHARE_DENIED));
    assert_eq!(world.state.take_closed(), [7]);
}

#[test]
fn bad_share_bits_are_refused() {
    // RFC 8881 section 18.16.3
    let mut world = World::new();
    let client = world.ready("a");
    assert_eq!(world.open(&client, "o", 1, 0, 0), Err(Nfsstat4::NFS4ERR_INVAL));
    assert_eq!(world.open(&client, "o", 1, 4, 0), Err(Nfsstat4::NFS4ERR_INVAL));
    assert_eq!(world.open(&client, "o", 1, READ, 4), Err(Nfsstat4::NFS4ERR_INVAL));
    assert!(world.open(&client, "o", 1, READ | 0x200, 0).is_ok(), "want bits do not matter");
}

#[test]
fn a_downgrade_restores_a_union_of_earlier_opens() {
    // RFC 8881 section 18.18.3
    let mut world = World::new();
    let (a, b) = (world.ready("a"), world.ready("b"));
    let key = world.key(&a);
    let stateid = world.open(&a, "o", 1, BOTH, WRITE).unwrap();
    assert_eq!(
        world.state.open_downgrade(key, &stateid, &1, (READ, WRITE), None),
        Err(Nfsstat4::NFS4ERR_INVAL)
    );
    let stateid = world.open(&a, "o", 1, READ, 0).unwrap();
    assert_eq!(world.open(&b, "o", 1, WRITE, 0), Err(Nfsstat4::NFS4ERR_SHARE_DENIED));
    let down = world.state.open_downgrade(key, &stateid, &1, (READ, 0), None).unwrap();
    assert_eq!((down.seqid, down.other), (3, stateid.other));
    assert_eq!(world.state.access(key, &down, &1, WRITE), Err(Nfsstat4::NFS4ERR_OPENMODE));
    assert!(world.open(&b, "o", 1, WRITE, 0).is_ok());
    assert_eq!(world.state.open_downgrade(key, &down, &1, (BOTH, 0), None), Err(Nfsstat4::NFS4ERR_INVAL));
}

#[test]
fn a_downgrade_replaces_the_payload_and_a_later_open_for_more_needs_another() {
    // RFC 8881 section 18.18.3
    let mut world = World::new();
    let a = world.ready("a");
    let key = world.key(&a);
    world.open(&a, "o", 1, READ, 0).unwrap();
    let stateid = world.open(&a, "o", 1, BOTH, 0).unwrap();
    world.closed();
    let wrong = world.state.open_downgrade(key, &stateid, &1, (BOTH, WRITE), Some(7));
    assert_eq!(wrong, Err(Nfsstat4::NFS4ERR_INVAL));
    assert_eq!(world.state.take_closed(), [7], "an error leaves the payload");
    let down = world.state.open_downgrade(key, &stateid, &1, (READ, 0), Some(8)).unwrap();
    assert_eq!(world.closed(), 1);
    let payload = || world.state.opens().access(key, &down, &1, READ, |payload| *payload);
    assert_eq!(payload(), Ok(8));
    world.open(&a, "o", 1, WRITE, 0).unwrap();
    assert_eq!(world.state.take_closed(), [8], "it was opened for READ alone");
}

#[test]
fn a_closed_stateid_is_bad_and_its_payload_is_returned() {
    // RFC 8881 section 18.2.4
    let mut world = World::new();
    let client = world.ready("a");
    let key = world.key(&client);
    let stateid = world.open(&client, "o", 1, BOTH, 0).unwrap();
    assert_eq!(world.state.close(key, &stateid, &2), Err(Nfsstat4::NFS4ERR_BAD_STATEID), "another file");
    assert_eq!(world.state.close(key, &stateid, &1), Ok(Stateid4::INVALID));
    assert_eq!(world.closed(), 1);
    assert_eq!(world.state.close(key, &stateid, &1), Err(Nfsstat4::NFS4ERR_BAD_STATEID));
    assert_eq!(world.state.access(key, &stateid, &1, 0), Err(Nfsstat4::NFS4ERR_BAD_STATEID));
    world.open(&client, "o", 1, BOTH, 0).unwrap();
    assert_eq!(
        world.state.access(key, &stateid, &1, 0),
        Err(Nfsstat4::NFS4ERR_BAD_STATEID),
        "the place was used again"
    );
}

#[test]
fn sequence_numbers_of_stateids_are_checked() {
    // RFC 8881 section 8.2.2
    let mut world = World::new();
    let client = world.ready("a");
    let key = world.key(&client);
    world.open(&client, "o", 1, BOTH, 0).unwrap();
    let current = world.open(&client, "o", 1, BOTH, 0).unwrap();
    let with = |seqid| {
        let whole = current;
        Stateid4 { seqid, other: whole.other }
    };
    for (seqid, status) in [
        (0, Nfsstat4::NFS4_OK),
        (2, Nfsstat4::NFS4_OK),
        (1, Nfsstat4::NFS4ERR_OLD_STATEID),
        (3, Nfsstat4::NFS4ERR_BAD_STATEID),
    ] {
        assert_eq!(world.state.test_stateid(key, &with(seqid)), status);
    }
}

#[test]
fn the_sequence_number_of_a_stateid_wraps_past_zero() {
    // RFC 8881 section 8.2.2
    let mut world = World::new();
    let client = world.ready("a");
    let key = world.key(&client);
    let first = world.open(&client, "o", 1, BOTH, 0).unwrap();
    let crate::stateids::StateRef::Open(open) = world.state.state_ref(&first).unwrap() else {
        panic!("no open")
    };
    world.state.opens.set_seqid(open, u32::MAX);
    let wrapped = world.open(&client, "o", 1, BOTH, 0).unwrap();
    assert_eq!(wrapped.seqid, 1);
    let old = Stateid4 { seqid: u32::MAX, ..wrapped };
    assert_eq!(world.state.test_stateid(key, &old), Nfsstat4::NFS4ERR_OLD_STATEID);
}

#[test]
fn stateids_of_others_of_earlier_starts_and_made_up_ones_are_bad() {
    // RFC 8881 section 8.2.4
    let mut world = World::new();
    let (a, b) = (world.ready("a"), world.ready("b"));
    let stateid = world.open(&a, "o", 1, BOTH, 0).unwrap();
    assert_eq!(world.state.test_stateid(world.key(&b), &stateid), Nfsstat4::NFS4ERR_BAD_STATEID);
    let key = world.key(&a);
    for byte in 0..12 {
        let mut forged = stateid;
        forged.other[byte] ^= 0x81;
        assert_eq!(world.state.test_stateid(key, &forged), Nfsstat4::NFS4ERR_BAD_STATEID);
    }
    for special in [Stateid4::ANONYMOUS, Stateid4::READ_BYPASS, Stateid4::CURRENT, Stateid4::INVALID] {
        assert_eq!(world.state.test_stateid(key, &special), Nfsstat4::NFS4ERR_BAD_STATEID);
    }
    let mut restarted = World::with(Limits::default(), boot(2, &[]));
    let c = restarted.ready("a");
    restarted.open(&c, "o", 1, BOTH, 0).unwrap();
    assert_eq!(restarted.state.test_stateid(restarted.key(&c), &stateid), Nfsstat4::NFS4ERR_BAD_STATEID);
}

#[test]
fn special_stateids_are_told_apart() {
    // RFC 8881 section 8.2.3
    assert_eq!(StateidKind::of(&Stateid4::ANONYMOUS), StateidKind::Anonymous);
    assert_eq!(StateidKind::of(&Stateid4::READ_BYPASS), StateidKind::Bypass);
    assert_eq!(StateidKind::of(&Stateid4::CURRENT), StateidKind::Current);
    assert_eq!(StateidKind::of(&Stateid4::INVALID), StateidKind::Invalid);
    assert_eq!(StateidKind::of(&Stateid4 { seqid: 2, other: [0; 12] }), StateidKind::Invalid);
    assert_eq!(StateidKind::of(&Stateid4 { seqid: 2, other: [0xff; 12] }), StateidKind::Invalid);
    assert_eq!(StateidKind::of(&Stateid4 { seqid: 0, other: [3; 12] }), StateidKind::Ordinary);
}

#[test]
fn io_with_a_special_stateid_honours_share_reservations() {
    // RFC 8881 section 9.7
    let mut world = World::new();
    let client = world.ready("a");
    assert_eq!(world.state.opens().anonymous_access(&1, WRITE), Ok(()));
    let stateid = world.open(&client, "o", 1, READ, WRITE).unwrap();
    assert!(world.state.opens().is_open(&1));
    assert_eq!(world.state.opens().anonymous_access(&1, READ), Ok(()));
    assert_eq!(world.state.opens().anonymous_access(&1, WRITE), Err(Nfsstat4::NFS4ERR_LOCKED));
    assert_eq!(world.state.opens().anonymous_access(&2, WRITE), Ok(()));
    world.state.close(world.key(&client), &stateid, &1).unwrap();
    assert_eq!(world.state.opens().anonymous_access(&1, WRITE), Ok(()));
}

#[test]
fn an_open_stateid_is_not_freed() {
    // RFC 8881 section 18.38.3
    let mut world = World::new();
    let client = world.ready("a");
    let stateid = world.open(&client, "o", 1, READ, 0).unwrap();
    let key = world.key(&client);
    assert_eq!(world.state.free_stateid(key, &stateid), Err(Nfsstat4::NFS4ERR_LOCKS_HELD));
    assert_eq!(world.state.free_stateid(key, &Stateid4::ANONYMOUS), Err(Nfsstat4::NFS4ERR_BAD_STATEID));
}
