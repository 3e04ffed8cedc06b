//! Copies that go on, their stateids and their ends.

use super::world::*;
use crate::*;
use nfs4::Nfsstat4;

const FILE: u32 = 7;

fn begin(world: &World, client: &TestClient) -> Option<(CopyKey, Stateid4)> {
    begin_by(world, client, [Stateid4::ANONYMOUS; 2])
}

fn begin_by(world: &World, client: &TestClient, stateids: [Stateid4; 2]) -> Option<(CopyKey, Stateid4)> {
    let new = NewCopy { file: &FILE, user: &client.principal, stateids, verifier: [3; 8] };
    world.state.copies().begin_copy(world.key(client), &new, None)
}

fn end(world: &World, copy: CopyKey, count: u64) -> Vec<CallbackTask> {
    let mut effects = Effects::default();
    world.state.copies().end_copy(copy, count, Nfsstat4::NFS4_OK, &mut effects);
    effects.callbacks
}

fn cancel(world: &World, client: &TestClient, stateid: &Stateid4) -> Result<()> {
    world.state.copies().cancel_copy(world.key(client), &client.principal, stateid, &FILE)
}

#[test]
fn a_copy_is_known_until_its_end_was_answered() {
    // RFC 7862 sections 4.8 and 15.9.3
    let mut world = World::new();
    let client = world.ready("a");
    let (copy, stateid) = begin(&world, &client).unwrap();
    let status = |world: &World| world.state.copies().copy_status(world.key(&client), &stateid, &FILE);
    assert_eq!(status(&world), Ok(CopyStatus { count: 0, complete: None }));
    assert!(
        world.state.copies().begin_copy_piece(copy) && !world.state.copies().begin_copy_piece(copy),
        "one at a time"
    );
    world.state.copies().end_copy_piece(copy, 10);
    assert_eq!(status(&world), Ok(CopyStatus { count: 10, complete: None }));
    assert!(world.state.copies().begin_copy_piece(copy));
    let told = CallbackTask::Offload { client: world.key(&client), copy };
    assert_eq!(world.state.copies().offload(copy), None);
    assert_eq!(end(&world, copy, 15), [told]);
    assert_eq!(world.state.copies().unanswered_offloads(), [told]);
    assert_eq!(status(&world), Ok(CopyStatus { count: 15, complete: Some(Nfsstat4::NFS4_OK) }));
    let offload = world.state.copies().offload(copy).unwrap();
    assert_eq!((offload.stateid, offload.count, offload.verifier), (stateid, 15, [3; 8]));
    assert!(!world.state.copies().begin_copy_piece(copy));
    world.state.copies().offload_answered(world.key(&client), copy);
    assert_eq!(status(&world), Err(Nfsstat4::NFS4ERR_BAD_STATEID));
    assert_eq!((world.state.counts().copies, world.state.copies().unanswered_offloads()), (0, vec![]));
}

#[test]
fn a_copy_is_cancelled_when_no_piece_of_it_is_being_copied() {
    // RFC 7862 section 15.8.3
    let mut world = World::new();
    let client = world.ready("a");
    let (copy, stateid) = begin(&world, &client).unwrap();
    assert!(world.state.copies().begin_copy_piece(copy));
    assert_eq!(cancel(&world, &client, &stateid), Err(Nfsstat4::NFS4ERR_DELAY));
    assert_eq!(cancel(&world, &client, &stateid), Err(Nfsstat4::NFS4ERR_DELAY));
    assert_eq!(end(&world, copy, 5), [], "nobody wants to hear of it");
    assert!(!world.state.copies().begin_copy_piece(copy));
    assert_eq!(cancel(&world, &client, &stateid), Ok(()));
    assert_eq!(cancel(&world, &client, &stateid), Err(Nfsstat4::NFS4ERR_BAD_STATEID));
    assert_eq!(world.state.counts().copies, 0);
}

#[test]
fn a_copy_is_its_clients_and_its_users() {
    // RFC 7862 section 4.1.2
    let mut world = World::new();
    let (client, other) = (world.ready("a"), world.ready("b"));
    let (_, stateid) = begin(&world, &client).unwrap();
    let user = TestClient { principal: Principal::new("sys:9"), ..TestClient::new("a") };
    let user = TestClient { sessionid: client.sessionid, ..user };
    for wrong in [&other, &user] {
        assert_eq!(cancel(&world, wrong, &stateid), Err(Nfsstat4::NFS4ERR_BAD_STATEID));
    }
    let state = &world.state;
    assert!(state.copies().copy_status(world.key(&other), &stateid, &FILE).is_err());
    assert!(state.copies().copy_status(world.key(&client), &stateid, &8).is_err());
    // It is no stateid of anything else (RFC 8881 section 18.48.3).
    assert_eq!(state.test_stateid(world.key(&client), &stateid), Nfsstat4::NFS4ERR_BAD_STATEID);
    assert!(state.access(world.key(&client), &stateid, &FILE, 1).is_err());
    assert!(state.free_stateid(world.key(&client), &stateid).is_err());
}

#[test]
fn a_copy_ends_with_the_state_of_its_stateids_or_with_its_user_and_others_go_on() {
    // RFC 8881 section 8.4.2.4
    let mut world = World::new();
    let client = world.ready("a");
    let open = |world: &mut World, file| world.open(&client, "o", file, 3, 0).unwrap();
    let [source, target, other] = [6, FILE, 8].map(|file| open(&mut world, file));
    let locker = Locker::New { open_stateid: source, owner: b"p" };
    let lock = world.lock(&client, locker, 6, LockMode::Read, (0, 5)).unwrap();
    let user = TestClient { principal: Principal::new("sys:9"), ..client.clone() };
    let begun = [
        begin_by(&world, &client, [lock, Stateid4::ANONYMOUS]),
        begin_by(&world, &client, [Stateid4::ANONYMOUS, target]),
        begin_by(&world, &user, [other, Stateid4::ANONYMOUS]),
        begin(&world, &client),
    ];
    let copies = begun.map(|begun| begun.unwrap().0);
    world.upgrade();
    let revoked = |world: &World| copies.map(|copy| world.state.copies().is_revoked(copy));
    let revoke = |world: &World, stateid: Stateid4| {
        world.state.with(|state, effects| state.leases().revoke(stateid.other, effects)).unwrap();
    };
    assert_eq!(revoked(&world), [false; 4]);
    revoke(&world, source);
    assert_eq!(revoked(&world), [true, false, false, false], "a lock stateid stands for its open, too");
    assert_eq!(begin_by(&world, &client, [source, target]), None, "COPY has lost its access meanwhile");
    world.upgrade();
    revoke(&world, target);
    assert_eq!(revoked(&world), [true, true, false, false]);
    let user = user.principal;
    let counts = world.state.with(|state, effects| state.leases().revoke_principal(&user, effects));
    assert_eq!((counts.opens, counts.copies), (0, 1));
    assert_eq!(revoked(&world), [true, true, true, false]);
}

#[test]
fn a_copy_by_a_delegation_ends_with_the_open_that_takes_it_along() {
    // RFC 8881 section 8.4.2.4
    let mut world = World::new();
    let client = world.ready("a");
    let open = world.open(&client, "o", FILE, 1, 0).unwrap();
    let opener = &client.principal;
    let request =
        DelegationRequest { file: &FILE, mode: DelegationMode::Read, reclaim: false, change: 1, opener };
    let delegated = world.state.delegate(world.now, world.key(&client), &request, 5).unwrap();
    let (copy, _) = begin_by(&world, &client, [delegated.stateid, Stateid4::ANONYMOUS]).unwrap();
    world.state.with(|state, effects| state.leases().revoke(open.other, effects)).unwrap();
    assert!(world.state.copies().is_revoked(copy));
}

#[test]
fn copies_are_limited_and_end_with_their_clients() {
    // RFC 7862 section 4.8, RFC 8881 sections 8.3 and 18.50
    let limits = Limits { copies_per_client_max: 2, copies_max: 3, ..Limits::default() };
    let mut world = World::with(limits, boot(1, &[]));
    let (a, b) = (world.ready("a"), world.ready("b"));
    let first = begin(&world, &a).unwrap();
    begin(&world, &a).unwrap();
    assert_eq!(begin(&world, &a), None, "of one client");
    begin(&world, &b).unwrap();
    assert_eq!(begin(&world, &b), None, "of all");
    world.state.copies().begin_copy_piece(first.0);
    let mut again = TestClient { verifier: [2; 8], ..TestClient::new("a") };
    world.mount(&mut again);
    assert_eq!(world.state.counts().copies, 1, "the client was started anew");
    assert_eq!(end(&world, first.0, 9), []);
    assert!(begin(&world, &b).is_some());
    world.state.sessions().destroy_session(&b.caller(), &b.sessionid, None).unwrap();
    world.state.destroy_clientid(&b.caller(), b.clientid).unwrap();
    assert_eq!(world.state.counts().copies, 0);
    assert!(begin(&world, &again).is_some());
    world.pass(61);
    world.state.expire(world.now);
    assert_eq!(world.state.counts().copies, 0, "a copy alone is not spared");
}
