//! The sequences of state-owners.

use super::*;
use nfs4::Nfsstat4::*;
use proptest::prelude::*;

const OPEN: u32 = 18;
const CLOSE: u32 = 4;

fn request(operation: u32, fingerprint: u64) -> Request {
    Request { operation, fingerprint }
}

fn replay(status: Nfsstat4) -> Replay {
    Replay { status, body: [7].into(), filehandle: [].into() }
}

fn owner(world: &World, client: &ConfirmedClient, name: &[u8]) -> std::sync::Arc<StateOwner> {
    world.state.v40().state_owner(world.now, client.key(world), OwnerKind::Open, name).unwrap()
}

#[test]
fn a_request_is_run_in_sequence_repeated_from_memory_and_else_refused() {
    // RFC 7530 sections 9.1.7 and 9.1.9
    let mut world = World::new();
    let client = ConfirmedClient::ready(&mut world, "a");
    let owner = owner(&world, &client, b"o");
    let mut turn = owner.turn();
    assert_eq!(turn.begin(77, request(OPEN, 1)), Ok(Begin::Run), "the first may be any");
    assert!(turn.end(77, request(OPEN, 1), replay(NFS4ERR_NOENT)));
    assert_eq!(turn.begin(77, request(OPEN, 1)), Ok(Begin::Replay(replay(NFS4ERR_NOENT))));
    assert_eq!(turn.begin(77, request(OPEN, 2)), Err(NFS4ERR_BAD_SEQID), "another request");
    assert_eq!(turn.begin(77, request(CLOSE, 1)), Err(NFS4ERR_BAD_SEQID), "another operation");
    for seqid in [0, 1, 76, 79] {
        assert_eq!(turn.begin(seqid, request(OPEN, 1)), Err(NFS4ERR_BAD_SEQID));
    }
    assert_eq!(turn.begin(78, request(CLOSE, 3)), Ok(Begin::Run));
}

#[test]
fn the_number_of_a_request_that_could_not_be_placed_is_used_again() {
    // RFC 7530 section 9.1.7: after these the client does not move on
    let mut world = World::new();
    let client = ConfirmedClient::ready(&mut world, "a");
    let owner = owner(&world, &client, b"o");
    let mut turn = owner.turn();
    turn.end(1, request(OPEN, 1), replay(NFS4_OK));
    let again = [
        NFS4ERR_STALE_CLIENTID,
        NFS4ERR_STALE_STATEID,
        NFS4ERR_BAD_STATEID,
        NFS4ERR_BAD_SEQID,
        NFS4ERR_BADXDR,
        NFS4ERR_RESOURCE,
        NFS4ERR_NOFILEHANDLE,
        NFS4ERR_MOVED,
    ];
    for status in again {
        assert!(!turn.end(2, request(CLOSE, 2), replay(status)));
        assert_eq!(turn.begin(2, request(CLOSE, 3)), Ok(Begin::Run));
    }
    assert!(turn.end(2, request(CLOSE, 3), replay(NFS4ERR_DELAY)));
    assert_eq!(turn.begin(3, request(CLOSE, 3)), Ok(Begin::Run));
}

#[test]
fn the_sequence_wraps_to_one() {
    // RFC 7530 section 9.1.3
    let mut world = World::new();
    let client = ConfirmedClient::ready(&mut world, "a");
    let owner = owner(&world, &client, b"o");
    let mut turn = owner.turn();
    turn.end(u32::MAX, request(OPEN, 1), replay(NFS4_OK));
    assert_eq!(turn.begin(1, request(OPEN, 2)), Ok(Begin::Run));
    assert_eq!(turn.begin(2, request(OPEN, 2)), Err(NFS4ERR_BAD_SEQID));
}

#[test]
fn an_owner_that_is_not_confirmed_may_begin_anew_with_an_open() {
    // RFC 7530 section 16.18.5
    let mut world = World::new();
    let client = ConfirmedClient::ready(&mut world, "a");
    let owner = owner(&world, &client, b"o");
    let mut turn = owner.turn();
    turn.end(5, request(OPEN, 1), replay(NFS4_OK));
    assert_eq!(turn.begin_open(5, request(OPEN, 1)), Ok(Begin::Replay(replay(NFS4_OK))));
    assert_eq!(turn.begin_open(5, request(OPEN, 2)), Ok(Begin::Run));
    assert_eq!(turn.begin_open(99, request(OPEN, 2)), Ok(Begin::Run));
    assert_eq!(turn.begin(99, request(CLOSE, 2)), Err(NFS4ERR_BAD_SEQID));
}

#[test]
fn an_owner_answers_one_request_at_a_time() {
    // RFC 7530 section 9.1.7
    let mut world = World::new();
    let client = ConfirmedClient::ready(&mut world, "a");
    let owner = owner(&world, &client, b"o");
    let turn = owner.turn();
    assert!(owner.try_turn().is_none());
    drop(turn);
    assert!(owner.try_turn().is_some());
}

#[test]
fn an_owner_without_opens_goes_for_a_new_one_and_one_with_opens_does_not() {
    // RFC 7530 section 9.1.10
    let limits = Limits { owners_per_client_max: 3, ..Limits::default() };
    let mut world = World::with(limits, boot(1, &[]));
    let client = ConfirmedClient::ready(&mut world, "a");
    let key = client.key(&world);
    client.open(&mut world, 1, OpenClaim::New).unwrap();
    for name in [b"b", b"c", b"d", b"e"] {
        owner(&world, &client, name);
    }
    assert!(world.state.counts().owners <= 3);
    assert!(owner(&world, &client, b"owner").turn().is_confirmed(), "it has something open");
    let held: Vec<_> = [b"x", b"y"].iter().map(|name| owner(&world, &client, *name)).collect();
    let refused = world.state.v40().state_owner(world.now, key, OwnerKind::Open, b"z");
    assert_eq!(refused.err(), Some(NFS4ERR_RESOURCE), "who has a request under way is in use");
    drop(held);
    assert!(world.state.v40().state_owner(world.now, key, OwnerKind::Lock, b"z").is_ok());
}

/// Limits with which one address may have eight owners.
fn few_owners() -> Limits {
    Limits { owners_max: 16, ..Limits::default() }
}

#[test]
fn owners_of_all_clients_are_counted_and_go_with_their_clients() {
    let mut world = World::with(few_owners(), boot(1, &[]));
    let (a, b) = (ConfirmedClient::ready(&mut world, "a"), ConfirmedClient::ready(&mut world, "b"));
    let held: Vec<_> = (0..8).map(|name| owner(&world, &a, &[name])).collect();
    let refused = world.state.v40().state_owner(world.now, b.key(&world), OwnerKind::Open, b"5");
    assert_eq!(refused.err(), Some(NFS4ERR_RESOURCE));
    let mut other = ConfirmedClient { address: [192, 0, 2, 99].into(), ..ConfirmedClient::new("c") };
    other.mount(&mut world);
    owner(&world, &other, b"an address with nothing has a share");
    drop(held);
    world.pass(40);
    b.renew(&world).unwrap();
    world.pass(40);
    world.state.expire(world.now);
    assert_eq!((world.state.counts().clients, world.state.counts().owners), (1, 0));
    owner(&world, &b, b"5");
}

#[test]
fn clients_of_one_address_that_fill_their_share_leave_room_for_a_further_one() {
    let mut world = World::with(few_owners(), boot(1, &[]));
    for name in ["a", "b"] {
        let client = ConfirmedClient::ready(&mut world, name);
        (0..4).for_each(|name| drop(owner(&world, &client, &[name])));
    }
    let ninth = ConfirmedClient::ready(&mut world, "c");
    (0..20).for_each(|name| drop(owner(&world, &ninth, &[name])));
    assert!(world.state.counts().owners <= 8);
}

#[test]
fn an_address_above_its_share_may_replace_an_owner_without_opens() {
    let mut world = World::with(few_owners(), boot(1, &[]));
    let client = ConfirmedClient::ready(&mut world, "a");
    let _held: Vec<_> = (0..6).map(|name| owner(&world, &client, &[name])).collect();
    owner(&world, &client, b"unused");
    let mut other = ConfirmedClient { address: [192, 0, 2, 99].into(), ..ConfirmedClient::new("b") };
    other.mount(&mut world);
    let _others: Vec<_> = (0..4).map(|name| owner(&world, &other, &[name])).collect();
    let _new = owner(&world, &client, b"new");
    let key = client.key(&world);
    let refused = world.state.v40().state_owner(world.now, key, OwnerKind::Open, b"one more");
    assert_eq!((refused.err(), world.state.counts().owners), (Some(NFS4ERR_RESOURCE), 11));
}

#[test]
fn unconfirmed_opens_are_cancelled_and_idle_owners_go_later() {
    // RFC 7530 section 16.18.5
    let mut world = World::new();
    let client = ConfirmedClient::ready(&mut world, "a");
    let key = client.key(&world);
    let owner = owner(&world, &client, b"owner");
    let request = OpenRequest {
        owner: b"owner",
        file: &1,
        access: 3,
        deny: 0,
        claim: OpenClaim::New,
        opener: anyone(),
        truncates: false,
    };
    let Ok(OpenOutcome::Opened(stateid)) = world.state.open(world.now, key, &request, 1, 3) else {
        panic!("not opened")
    };
    let mut turn = owner.turn();
    assert!(world.state.v40().opened_40(&mut turn, &stateid, &client.principal, false), "needs OPEN_CONFIRM");
    drop(turn);
    drop(owner);
    assert_eq!(
        world.state.v40().client_of_stateid_40(world.now, &root(), &stateid),
        Err(NFS4ERR_BAD_STATEID)
    );
    for (seconds, opens, owners) in [(59, 1, 1), (16, 0, 1), (40, 0, 1), (20, 0, 0)] {
        world.pass(seconds);
        client.renew(&world).unwrap();
        world.state.expire(world.now);
        let counts = world.state.counts();
        assert_eq!((counts.opens, counts.owners), (opens, owners), "after {seconds} more seconds");
    }
}

#[test]
fn an_owner_is_kept_for_copies_of_a_close_that_came_late() {
    // RFC 7530 section 9.1.10
    let mut world = World::new();
    let client = ConfirmedClient::ready(&mut world, "a");
    let key = client.key(&world);
    let stateid = client.open(&mut world, 1, OpenClaim::New).unwrap();
    world.pass(200);
    let owner = world.state.v40().owner_of_open(world.now, &root(), &stateid).unwrap();
    let mut turn = owner.turn();
    world.state.with(|state, effects| state.opens().close(key, &stateid, &1, effects)).unwrap();
    turn.end(1, request(CLOSE, 1), replay(NFS4_OK));
    world.state.v40().keep_closed(&mut turn, &owner, Some(&stateid));
    drop(turn);
    drop(owner);
    world.state.expire(world.now);
    assert!(world.state.v40().owner_of_open(world.now, &root(), &stateid).is_ok());
    world.pass(200);
    world.state.expire(world.now);
    assert!(world.state.v40().owner_of_open(world.now, &root(), &stateid).is_err());
}

#[test]
fn a_lock_owner_is_released_when_it_holds_nothing() {
    // RFC 7530 section 16.37.4
    let mut world = World::new();
    let client = ConfirmedClient::ready(&mut world, "a");
    let (key, now) = (client.key(&world), world.now);
    let open_stateid = client.open(&mut world, 1, OpenClaim::New).unwrap();
    world.state.v40().state_owner(now, key, OwnerKind::Lock, b"l").unwrap();
    let locker = Locker::New { open_stateid, owner: b"l" };
    let lock =
        Lock { file: &1, mode: LockMode::Write, waits: false, reclaim: false, offset: 0, length: 9, locker };
    let stateid = world.state.lock(now, key, &lock).unwrap();
    let release = |name: &[u8]| {
        world.state.with(|state, effects| state.v40().release_lockowner(key, &root(), name, effects))
    };
    assert_eq!(release(b"l"), Err(NFS4ERR_LOCKS_HELD));
    assert_eq!(release(b"unknown"), Ok(()));
    world.state.with(|state, effects| state.locks().locku(key, &stateid, &1, 0, 9, effects)).unwrap();
    assert_eq!(release(b"l"), Ok(()));
    let counts = world.state.counts();
    assert_eq!((counts.lock_stateids, counts.ranges, counts.owners), (0, 0, 1));
    assert_eq!(world.state.v40().owner_of_lock(now, &root(), &stateid).err(), Some(NFS4ERR_BAD_STATEID));
}

proptest! {
    /// A client that advances after every answer except the statuses that forbid it, loses answers
    /// and sends copies: nothing is run twice, and none of its requests is refused.
    #[test]
    fn every_request_of_a_client_that_keeps_to_the_rules_is_run_once(
        steps in proptest::collection::vec((0_u8..4, any::<bool>()), 1..60),
        first in any::<u32>(),
    ) {
        // RFC 7530 sections 9.1.3 and 9.1.7
        let mut world = World::new();
        let client = ConfirmedClient::ready(&mut world, "a");
        let owner = owner(&world, &client, b"o");
        let mut turn = owner.turn();
        let (mut seqid, mut runs) = (first.max(1), 0_u64);
        for (number, (kind, copied)) in steps.into_iter().enumerate() {
            let request = request(OPEN, number as u64);
            let status = [NFS4_OK, NFS4ERR_DENIED, NFS4ERR_BAD_STATEID, NFS4ERR_RESOURCE][usize::from(kind)];
            prop_assert_eq!(turn.begin(seqid, request), Ok(Begin::Run));
            runs += 1;
            let kept = turn.end(seqid, request, replay(status));
            prop_assert_eq!(kept, kind < 2);
            if copied && kept {
                prop_assert_eq!(turn.begin(seqid, request), Ok(Begin::Replay(replay(status))));
            }
            if kept {
                seqid = seqid.checked_add(1).unwrap_or(1);
            }
        }
        prop_assert!(runs > 0);
    }
}
