//! Byte-range locks with owners and stateids.

use super::world::*;
use crate::*;
use nfs4::{Nfsstat4, Stateid4};

const TO_END: u64 = u64::MAX;

fn new<'a>(open_stateid: Stateid4, owner: &'a str) -> Locker<'a> {
    Locker::New { open_stateid, owner: owner.as_bytes() }
}

fn denied(result: core::result::Result<Stateid4, LockError>) -> LockDenied {
    match result {
        Err(LockError::Denied(denied)) => denied,
        other => panic!("not denied: {other:?}"),
    }
}

#[test]
fn a_conflict_names_the_lock_and_its_owner() {
    // RFC 8881 section 18.10.3
    let mut world = World::new();
    let (a, b) = (world.ready("a"), world.ready("b"));
    let (open_a, open_b) = (world.open(&a, "o", 1, 3, 0).unwrap(), world.open(&b, "o", 1, 3, 0).unwrap());
    world.lock(&a, new(open_a, "process 1"), 1, LockMode::Write, (100, TO_END)).unwrap();
    let refused = denied(world.lock(&b, new(open_b, "process 1"), 1, LockMode::Read, (0, 101)));
    assert_eq!((refused.offset, refused.length, refused.mode), (100, TO_END, LockMode::Write));
    assert_eq!((refused.clientid, refused.owner.as_slice()), (a.clientid, &b"process 1"[..]));
    world.lock(&b, new(open_b, "process 1"), 1, LockMode::Write, (0, 100)).unwrap();
    assert_eq!(world.state.counts().lock_stateids, 2);
}

#[test]
fn a_refused_first_lock_leaves_no_stateid() {
    let mut world = World::new();
    let client = world.ready("a");
    let open = world.open(&client, "o", 1, 3, 0).unwrap();
    world.lock(&client, new(open, "p"), 1, LockMode::Write, (0, TO_END)).unwrap();
    denied(world.lock(&client, new(open, "q"), 1, LockMode::Write, (0, 1)));
    assert_eq!(world.state.counts().lock_stateids, 1);
}

#[test]
fn a_lock_stateid_counts_up_and_works_for_io() {
    // RFC 8881 section 9.4
    let mut world = World::new();
    let client = world.ready("a");
    let key = world.key(&client);
    let open = world.open(&client, "o", 1, 3, 0).unwrap();
    let first = world.lock(&client, new(open, "p"), 1, LockMode::Read, (0, 10)).unwrap();
    assert_eq!(first.seqid, 1);
    let second = world.lock(&client, Locker::Existing(first), 1, LockMode::Write, (10, 10)).unwrap();
    assert_eq!((second.seqid, second.other), (2, first.other));
    let again = world.lock(&client, new(open, "p"), 1, LockMode::Write, (30, 10)).unwrap();
    assert_eq!((again.seqid, again.other), (3, first.other), "the owner is known");
    let old = world.lock(&client, Locker::Existing(first), 1, LockMode::Write, (10, 10));
    assert_eq!(old, Err(LockError::Status(Nfsstat4::NFS4ERR_OLD_STATEID)));
    assert!(world.state.access(key, &again, &1, 3).is_ok());
    assert_eq!(world.state.access(key, &again, &2, 3), Err(Nfsstat4::NFS4ERR_BAD_STATEID));
    let unlocked = world.state.locku(key, &again, &1, 0, TO_END).unwrap();
    assert_eq!((unlocked.seqid, world.state.counts().ranges), (4, 0));
}

#[test]
fn a_lock_needs_an_open_of_its_kind() {
    // RFC 8881 section 18.10.4
    let mut world = World::new();
    let client = world.ready("a");
    let read = world.open(&client, "r", 1, 1, 0).unwrap();
    let write = world.open(&client, "w", 1, 2, 0).unwrap();
    let openmode = Err(LockError::Status(Nfsstat4::NFS4ERR_OPENMODE));
    assert_eq!(world.lock(&client, new(read, "p"), 1, LockMode::Write, (0, 1)), openmode);
    assert_eq!(world.lock(&client, new(write, "p"), 1, LockMode::Read, (0, 1)), openmode);
    assert!(world.lock(&client, new(read, "p"), 1, LockMode::Read, (0, 1)).is_ok());
}

#[test]
fn upgrading_and_downgrading_replace_the_owners_own_lock() {
    // RFC 8881 section 9.3
    let mut world = World::new();
    let client = world.ready("a");
    let open = world.open(&client, "o", 1, 3, 0).unwrap();
    let p = world.lock(&client, new(open, "p"), 1, LockMode::Read, (0, 100)).unwrap();
    let q = world.lock(&client, new(open, "q"), 1, LockMode::Read, (50, 100)).unwrap();
    denied(world.lock(&client, Locker::Existing(p), 1, LockMode::Write, (0, 100)));
    let p = world.lock(&client, Locker::Existing(p), 1, LockMode::Write, (0, 50)).unwrap();
    assert_eq!(world.state.counts().ranges, 3);
    world.lock(&client, Locker::Existing(p), 1, LockMode::Read, (0, 50)).unwrap();
    assert_eq!(world.state.counts().ranges, 2, "neighbours of one type are one lock");
    assert!(world.lock(&client, Locker::Existing(q), 1, LockMode::Read, (0, 10)).is_ok());
}

#[test]
fn lockt_answers_for_an_owner_that_need_not_exist() {
    // RFC 8881 section 18.11.3
    let mut world = World::new();
    let (a, b) = (world.ready("a"), world.ready("b"));
    let open = world.open(&a, "o", 1, 3, 0).unwrap();
    world.lock(&a, new(open, "p"), 1, LockMode::Write, (10, 10)).unwrap();
    let test = |client: &TestClient, owner: &[u8], offset| {
        world.state.locks().lockt(world.key(client), &1, owner, LockMode::Read, offset, 1)
    };
    assert_eq!(test(&a, b"p", 10), Ok(()), "one's own lock is not in the way");
    assert!(matches!(test(&a, b"q", 10), Err(LockError::Denied(_))));
    assert!(matches!(test(&b, b"p", 19), Err(LockError::Denied(_))), "owners are told apart by client");
    assert_eq!(test(&b, b"p", 20), Ok(()));
    let empty = world.state.locks().lockt(world.key(&b), &1, b"p", LockMode::Read, 0, 0);
    assert_eq!(empty, Err(LockError::Status(Nfsstat4::NFS4ERR_INVAL)));
}

#[test]
fn bad_ranges_are_refused_everywhere() {
    // RFC 8881 sections 18.10.3 and 18.12.3
    let mut world = World::new();
    let client = world.ready("a");
    let key = world.key(&client);
    let open = world.open(&client, "o", 1, 3, 0).unwrap();
    let lock = world.lock(&client, new(open, "p"), 1, LockMode::Write, (0, 1)).unwrap();
    for range in [(5, 0), (u64::MAX, 1), (u64::MAX - 1, 2)] {
        let result = world.lock(&client, Locker::Existing(lock), 1, LockMode::Write, range);
        assert_eq!(result, Err(LockError::Status(Nfsstat4::NFS4ERR_INVAL)));
        assert_eq!(world.state.locku(key, &lock, &1, range.0, range.1), Err(Nfsstat4::NFS4ERR_INVAL));
    }
}

#[test]
fn close_releases_the_locks_under_the_open() {
    // RFC 8881 section 18.2.4
    let mut world = World::new();
    let (a, b) = (world.ready("a"), world.ready("b"));
    let (open_a, open_b) = (world.open(&a, "o", 1, 3, 0).unwrap(), world.open(&b, "o", 1, 3, 0).unwrap());
    let lock = world.lock(&a, new(open_a, "p"), 1, LockMode::Write, (0, TO_END)).unwrap();
    denied(world.lock(&b, new(open_b, "p"), 1, LockMode::Write, (0, 1)));
    let key = world.key(&a);
    world.state.close(key, &open_a, &1).unwrap();
    assert_eq!(world.state.test_stateid(key, &lock), Nfsstat4::NFS4ERR_BAD_STATEID);
    world.lock(&b, new(open_b, "p"), 1, LockMode::Write, (0, 1)).unwrap();
}

#[test]
fn the_ranges_of_an_owner_stay_while_it_has_another_lock_stateid_on_the_file() {
    let mut world = World::new();
    let client = world.ready("a");
    let key = world.key(&client);
    let (x, y) = (world.open(&client, "x", 1, 3, 0).unwrap(), world.open(&client, "y", 1, 3, 0).unwrap());
    world.lock(&client, new(x, "p"), 1, LockMode::Write, (0, 10)).unwrap();
    world.lock(&client, new(y, "p"), 1, LockMode::Write, (20, 10)).unwrap();
    world.state.close(key, &x, &1).unwrap();
    assert_eq!(world.state.counts().ranges, 2);
    world.state.close(key, &y, &1).unwrap();
    assert_eq!(world.state.counts().ranges, 0);
    assert_eq!(world.state.opens.owners_len(), 0);
}

#[test]
fn a_lock_stateid_is_freed_once_it_holds_nothing() {
    // RFC 8881 section 18.38.3
    let mut world = World::new();
    let client = world.ready("a");
    let key = world.key(&client);
    let open = world.open(&client, "o", 1, 3, 0).unwrap();
    let lock = world.lock(&client, new(open, "p"), 1, LockMode::Write, (0, 10)).unwrap();
    assert_eq!(world.state.free_stateid(key, &lock), Err(Nfsstat4::NFS4ERR_LOCKS_HELD));
    let lock = world.state.locku(key, &lock, &1, 0, TO_END).unwrap();
    world.state.free_stateid(key, &lock).unwrap();
    assert_eq!(world.state.free_stateid(key, &lock), Err(Nfsstat4::NFS4ERR_BAD_STATEID));
    assert_eq!((world.state.counts().lock_stateids, world.state.counts().opens), (0, 1));
}

#[test]
fn an_open_stateid_is_no_lock_stateid_and_the_other_way_round() {
    // RFC 8881 section 8.2.4
    let mut world = World::new();
    let client = world.ready("a");
    let key = world.key(&client);
    let open = world.open(&client, "o", 1, 3, 0).unwrap();
    let lock = world.lock(&client, new(open, "p"), 1, LockMode::Write, (0, 10)).unwrap();
    assert_eq!(world.state.close(key, &lock, &1), Err(Nfsstat4::NFS4ERR_BAD_STATEID));
    assert_eq!(world.state.locku(key, &open, &1, 0, 1), Err(Nfsstat4::NFS4ERR_BAD_STATEID));
    let bad = Err(LockError::Status(Nfsstat4::NFS4ERR_BAD_STATEID));
    assert_eq!(world.lock(&client, Locker::Existing(open), 1, LockMode::Write, (0, 1)), bad);
    assert_eq!(world.lock(&client, new(lock, "p"), 1, LockMode::Write, (0, 1)), bad);
}

#[test]
fn waiters_for_a_lock_are_notified_when_it_may_be_free_and_not_before() {
    // RFC 8881 sections 18.10.4 and 20.11
    let mut world = World::new();
    let (a, b, c) = (world.ready("a"), world.ready("b"), world.ready("c"));
    let open_a = world.open(&a, "o", 1, 3, 0).unwrap();
    let open_b = world.open(&b, "o", 1, 3, 0).unwrap();
    let open_c = world.open(&c, "o", 1, 3, 0).unwrap();
    let new = |open_stateid, owner| Locker::New { open_stateid, owner };
    let first = world.lock(&a, new(open_a, b"p"), 1, LockMode::Write, (0, 10)).unwrap();
    let second = world.lock(&a, new(open_a, b"q"), 1, LockMode::Write, (10, 10)).unwrap();
    assert!(world.lock(&b, new(open_b, b"p"), 1, LockMode::Write, (0, 20)).is_err());
    assert!(world.lock(&c, new(open_c, b"r"), 1, LockMode::Read, (0, 5)).is_err());
    world.state.take_callbacks();
    let (key_a, key_b, key_c) = (world.key(&a), world.key(&b), world.key(&c));
    world.lock(&a, Locker::Existing(first), 1, LockMode::Read, (0, 10)).unwrap();
    let told = world.state.take_callbacks();
    let [CallbackTask::NotifyLock { client, notice }] = told[..] else { panic!("{told:?}") };
    assert_eq!(client, key_c, "what is locked for reading may be locked for reading");
    let said = world.state.locks().lock_notice(notice).unwrap();
    assert_eq!((said.file, said.clientid, &*said.owner), (1, c.clientid, &b"r"[..]));
    world.state.locks().lock_notice_done(notice);
    assert_eq!(world.state.locks().lock_notice(notice), None);
    let first = Stateid4 { seqid: 0, ..first };
    world.state.locku(key_a, &first, &1, 0, 10).unwrap();
    assert_eq!(world.state.take_callbacks(), [], "the rest is locked yet");
    let second = Stateid4 { seqid: 0, ..second };
    world.state.locku(key_a, &second, &1, 0, TO_END).unwrap();
    let told = world.state.take_callbacks();
    let [CallbackTask::NotifyLock { client, .. }] = told[..] else { panic!("{told:?}") };
    assert_eq!(client, key_b);
    world.state.locku(key_a, &second, &1, 0, TO_END).unwrap();
    assert_eq!(world.state.take_callbacks(), [], "once");
}

#[test]
fn the_end_of_an_open_notifies_waiters_and_a_granted_lock_ends_the_wait() {
    // RFC 8881 section 20.11
    let mut world = World::new();
    let (a, b) = (world.ready("a"), world.ready("b"));
    let open_a = world.open(&a, "o", 1, 3, 0).unwrap();
    let open_b = world.open(&b, "o", 1, 3, 0).unwrap();
    let new = |open_stateid| Locker::New { open_stateid, owner: b"p" };
    world.lock(&a, new(open_a), 1, LockMode::Write, (0, 10)).unwrap();
    assert!(world.lock(&b, new(open_b), 1, LockMode::Write, (0, 10)).is_err());
    world.state.take_callbacks();
    world.state.close(world.key(&a), &open_a, &1).unwrap();
    assert_eq!(world.state.take_callbacks().len(), 1);
    let open_a = world.open(&a, "o", 1, 3, 0).unwrap();
    let held = world.lock(&a, new(open_a), 1, LockMode::Write, (0, 10)).unwrap();
    assert!(world.lock(&b, new(open_b), 1, LockMode::Write, (0, 10)).is_err());
    world.lock(&b, new(open_b), 1, LockMode::Write, (20, 10)).unwrap();
    world.state.locku(world.key(&a), &held, &1, 0, TO_END).unwrap();
    assert_eq!(world.state.take_callbacks(), [], "it has asked for something else since");
}

#[test]
fn waiters_without_a_callback_are_not_remembered() {
    // RFC 8881 section 18.10.4
    let mut world = World::new();
    let (a, b) = (world.ready("a"), world.ready("b"));
    let open_a = world.open(&a, "o", 1, 3, 0).unwrap();
    let open_b = world.open(&b, "o", 1, 3, 0).unwrap();
    let new = |open_stateid| Locker::New { open_stateid, owner: b"p" };
    let held = world.lock(&a, new(open_a), 1, LockMode::Write, (0, 10)).unwrap();
    world.state.sessions().connection_closed(1);
    assert!(world.lock(&b, new(open_b), 1, LockMode::Write, (0, 10)).is_err());
    world.state.take_callbacks();
    world.state.locku(world.key(&a), &held, &1, 0, TO_END).unwrap();
    assert_eq!(world.state.take_callbacks(), []);
}
