//! Revocation by an administrator, as clients see it.

use super::world::*;
use crate::*;
use nfs4::Nfsstat4::*;
use nfs4::{SEQ4_STATUS_ADMIN_STATE_REVOKED, SEQ4_STATUS_RECALLABLE_STATE_REVOKED, Stateid4};

const FILE: u32 = 1;
const READ: u32 = 1;
const BOTH: u32 = 3;

fn flags(world: &mut World, client: &mut TestClient) -> u32 {
    let begun = world.begin(client);
    world.state.sessions().finish(begun.token, None);
    begun.reply.status_flags
}

fn revoke(world: &World, stateid: Stateid4) -> core::result::Result<Revoked, RevokeError> {
    world.state.with(|state, effects| state.leases().revoke(stateid.other, effects))
}

fn free(world: &World, client: &TestClient, stateid: &Stateid4) -> Result<()> {
    let key = world.key(client);
    world.state.with(|state, effects| state.free_stateid(key, stateid, effects))
}

/// Opens the file, locks all of it for writing, and returns both stateids.
fn open_and_lock(world: &mut World, client: &TestClient) -> (Stateid4, Stateid4) {
    let open = world.open(client, "o", FILE, BOTH, BOTH).unwrap();
    let locker = Locker::New { open_stateid: open, owner: b"p" };
    (open, world.lock(client, locker, FILE, LockMode::Write, (0, u64::MAX)).unwrap())
}

#[test]
fn a_revoked_open_frees_the_file_and_its_client_learns_it_until_it_frees_the_stateids() {
    // RFC 8881 sections 8.4.2.4, 15.1.5.1, 18.38.3 and 18.46.3
    let mut world = World::new();
    let (mut a, b) = (world.ready("a"), world.ready("b"));
    let (open, lock) = open_and_lock(&mut world, &a);
    assert_eq!(world.open(&b, "o", FILE, BOTH, 0), Err(NFS4ERR_SHARE_DENIED));
    assert_eq!(flags(&mut world, &mut a) & SEQ4_STATUS_ADMIN_STATE_REVOKED, 0);

    let revoked = revoke(&world, open).unwrap();
    assert_eq!(revoked, Revoked { kind: RevokedKind::Open, client: a.clientid });
    assert_eq!(world.closed(), 1, "the file is closed");
    world.upgrade();
    let (key, others) = (world.key(&a), world.key(&b));
    for stateid in [open, lock] {
        assert_eq!(world.state.access(key, &stateid, &FILE, READ), Err(NFS4ERR_ADMIN_REVOKED));
        assert_eq!(world.state.test_stateid(key, &stateid), NFS4ERR_ADMIN_REVOKED);
        assert_eq!(world.state.test_stateid(others, &stateid), NFS4ERR_BAD_STATEID, "it is not theirs");
    }
    assert_eq!(world.state.close(key, &open, &FILE), Err(NFS4ERR_ADMIN_REVOKED));
    let other = world.open(&b, "o", FILE, BOTH, BOTH).unwrap();
    let locker = Locker::New { open_stateid: other, owner: b"p" };
    world.lock(&b, locker, FILE, LockMode::Write, (0, u64::MAX)).unwrap();

    for stateid in [open, lock] {
        assert_eq!(flags(&mut world, &mut a), SEQ4_STATUS_ADMIN_STATE_REVOKED);
        assert_eq!(free(&world, &b, &stateid), Err(NFS4ERR_BAD_STATEID));
        assert_eq!(free(&world, &a, &stateid), Ok(()));
        assert_eq!(free(&world, &a, &stateid), Err(NFS4ERR_BAD_STATEID));
        assert_eq!(world.state.test_stateid(key, &stateid), NFS4ERR_BAD_STATEID);
    }
    assert_eq!(flags(&mut world, &mut a), 0);
}

#[test]
fn a_revoked_lock_stateid_unlocks_its_ranges_and_leaves_the_open() {
    let mut world = World::new();
    let (a, b) = (world.ready("a"), world.ready("b"));
    let open = world.open(&a, "o", FILE, BOTH, 0).unwrap();
    let locker = Locker::New { open_stateid: open, owner: b"p" };
    let lock = world.lock(&a, locker, FILE, LockMode::Write, (0, 5)).unwrap();
    let other = world.open(&b, "o", FILE, BOTH, 0).unwrap();
    let locker = Locker::New { open_stateid: other, owner: b"p" };
    assert!(world.lock(&b, locker, FILE, LockMode::Write, (0, 5)).is_err());

    assert_eq!(revoke(&world, lock).map(|revoked| revoked.kind), Ok(RevokedKind::Lock));
    world.lock(&b, locker, FILE, LockMode::Write, (0, 5)).unwrap();
    let key = world.key(&a);
    let denied = world.lock(&a, Locker::Existing(lock), FILE, LockMode::Write, (0, 5));
    assert_eq!(denied, Err(LockError::Status(NFS4ERR_ADMIN_REVOKED)));
    assert_eq!(world.state.locku(key, &lock, &FILE, 0, 5), Err(NFS4ERR_ADMIN_REVOKED));
    world.state.close(key, &open, &FILE).unwrap();
    assert_eq!(free(&world, &a, &lock), Ok(()));
}

#[test]
fn a_revoked_delegation_is_not_mistaken_for_one_that_was_not_returned() {
    // RFC 8881 sections 15.1.5.1 and 15.1.5.3
    let mut world = World::new();
    let (mut a, b) = (world.ready("a"), world.ready("b"));
    world.open(&a, "o", FILE, READ, 0).unwrap();
    let request = DelegationRequest {
        file: &FILE,
        mode: DelegationMode::Read,
        reclaim: false,
        change: 1,
        opener: anyone().principal,
    };
    let delegate = |world: &World| world.state.delegate(world.now, world.key(&a), &request, 5);
    let stateid = delegate(&world).unwrap().stateid;
    assert_eq!(revoke(&world, stateid).map(|revoked| revoked.kind), Ok(RevokedKind::Delegation));
    let key = world.key(&a);
    assert_eq!(world.state.access(key, &stateid, &FILE, READ), Err(NFS4ERR_ADMIN_REVOKED));
    assert_eq!(world.state.delegreturn(key, &stateid, &FILE), Err(NFS4ERR_ADMIN_REVOKED));
    world.open(&b, "o", FILE, BOTH, 0).unwrap();
    assert_eq!(flags(&mut world, &mut a), SEQ4_STATUS_ADMIN_STATE_REVOKED);
    assert_eq!(free(&world, &a, &stateid), Ok(()));
    assert_eq!(flags(&mut world, &mut a), 0);

    // One that is not returned in time is revoked already.
    let key_b = world.key(&b);
    let opened = world.state.list_opens(10, |file, _| *file).entries;
    let of_b = opened.iter().find(|open| open.holder.client == b.clientid).unwrap().stateid;
    world.state.close(key_b, &of_b, &FILE).unwrap();
    world.pass(31);
    let delegate = |world: &World| world.state.delegate(world.now, world.key(&a), &request, 5);
    let stateid = delegate(&world).unwrap().stateid;
    assert_eq!(world.open(&b, "o", FILE, BOTH, 0), Err(NFS4ERR_DELAY));
    world.pass(Limits::default().recall_time.as_secs());
    let (mut a, mut b) = (a, b);
    world.renew(&mut a);
    world.renew(&mut b);
    world.state.expire(world.now);
    assert_eq!(revoke(&world, stateid), Err(RevokeError::Unknown));
    assert_eq!(world.state.test_stateid(world.key(&a), &stateid), NFS4ERR_DELEG_REVOKED);
    assert_eq!(flags(&mut world, &mut a), SEQ4_STATUS_RECALLABLE_STATE_REVOKED);
}

#[test]
fn a_revoked_open_takes_the_delegation_of_its_client_along() {
    let mut world = World::new();
    let (a, b) = (world.ready("a"), world.ready("b"));
    let mut delegated = |client: &TestClient, file: u32| {
        let open = world.open(client, "o", file, READ, 0).unwrap();
        let opener = anyone().principal;
        let request =
            DelegationRequest { file: &file, mode: DelegationMode::Read, reclaim: false, change: 1, opener };
        let given = world.state.delegate(world.now, world.key(client), &request, 5).unwrap();
        (open, given.stateid)
    };
    let (open, own) = delegated(&a, FILE);
    let (_, of_another_client) = delegated(&b, FILE);
    let (_, of_another_file) = delegated(&a, 2);
    assert_eq!(revoke(&world, open).map(|revoked| revoked.kind), Ok(RevokedKind::Open));
    assert_eq!(world.closed(), 2, "nothing keeps the file open");
    let key = world.key(&a);
    for stateid in [open, own] {
        assert_eq!(world.state.test_stateid(key, &stateid), NFS4ERR_ADMIN_REVOKED);
        assert_eq!(free(&world, &a, &stateid), Ok(()));
    }
    assert_eq!(world.state.test_stateid(key, &of_another_file), NFS4_OK);
    assert_eq!(world.state.test_stateid(world.key(&b), &of_another_client), NFS4_OK);
}

#[test]
fn all_of_a_principal_is_its_opens_their_delegations_and_those_of_its_clients() {
    let mut world = World::new();
    let alice = Principal::new("gss:alice@R");
    let mut machine = TestClient::machine("m");
    world.mount(&mut machine);
    world.state.reclaim_complete(world.now, world.key(&machine), false).unwrap();
    let other = world.ready("other");
    let kept = world.open(&other, "o", 2, READ, 0).unwrap();
    let by_machine = world.open(&machine, "o", 3, READ, 0).unwrap();
    let user = TestClient { principal: alice.clone(), ..TestClient::new("m") };
    let user = TestClient { sessionid: machine.sessionid, clientid: machine.clientid, ..user };
    let (first, second) =
        (world.open(&user, "a", 4, READ, 0).unwrap(), world.open(&user, "a", 5, READ, 0).unwrap());
    let request =
        DelegationRequest { file: &5, mode: DelegationMode::Read, reclaim: false, change: 1, opener: &alice };
    let delegation = world.state.delegate(world.now, world.key(&user), &request, 5).unwrap().stateid;

    let counts = world.state.with(|state, effects| state.leases().revoke_principal(&alice, effects));
    assert_eq!(counts, RevokedCounts { opens: 2, delegations: 1, ..RevokedCounts::default() });
    let key = world.key(&machine);
    for stateid in [first, second, delegation] {
        assert_eq!(world.state.test_stateid(key, &stateid), NFS4ERR_ADMIN_REVOKED);
    }
    assert_eq!(world.state.test_stateid(key, &by_machine), NFS4_OK);
    assert_eq!(world.state.test_stateid(world.key(&other), &kept), NFS4_OK);
    let none = world.state.with(|state, effects| state.leases().revoke_principal(&alice, effects));
    assert_eq!(none, RevokedCounts::default());
}

#[test]
fn opens_and_delegations_of_files_that_are_gone_are_revoked_and_others_stay() {
    let mut world = World::new();
    let client = world.ready("c");
    let opens = [3, 4].map(|file| world.open(&client, "o", file, READ, 0).unwrap());
    let delegations = [3, 4].map(|file| {
        let request = DelegationRequest {
            file: &file,
            mode: DelegationMode::Read,
            reclaim: false,
            change: 1,
            opener: &client.principal,
        };
        world.state.delegate(world.now, world.key(&client), &request, 5).unwrap().stateid
    });
    let counts = world.state.with(|state, effects| state.leases().revoke_files(|file| *file == 3, effects));
    assert_eq!(counts, RevokedCounts { opens: 1, delegations: 1, ..RevokedCounts::default() });
    let key = world.key(&client);
    for [gone, other] in [opens, delegations] {
        assert_eq!(world.state.test_stateid(key, &gone), NFS4ERR_ADMIN_REVOKED);
        assert_eq!(world.state.test_stateid(key, &other), NFS4_OK);
    }
}

fn reclaim(world: &mut World, client: &TestClient) -> Result<Stateid4> {
    world.open_as(client, "o", FILE, BOTH, 0, OpenClaim::Previous)
}

/// The effect that the client is taken off stable storage.
fn forgotten(client: &TestClient) -> Effect {
    Effect::ForgetClient { owner: client.name.clone() }
}

#[test]
fn a_client_is_off_stable_storage_from_a_revocation_to_its_last_free_stateid() {
    // RFC 8881 section 8.4.3
    let mut world = World::new();
    let (a, b) = (world.ready("a"), world.ready("b"));
    let (open, lock) = open_and_lock(&mut world, &a);
    let kept = world.open(&a, "o", FILE + 1, BOTH, 0).unwrap();
    world.records();
    revoke(&world, open).unwrap();
    let removal = world.state.newest_records().removals;
    assert_eq!(world.state.records_of_grant(Some(world.key(&b))).removals, removal, "others wait for it");
    revoke(&world, kept).unwrap();
    assert_eq!(world.records(), [forgotten(&a)]);

    for stateid in [open, lock] {
        free(&world, &a, &stateid).unwrap();
        assert_eq!(world.records(), []);
    }
    world.upgrade();
    free(&world, &a, &kept).unwrap();
    let put = world.state.newest_records().puts;
    assert_eq!(world.state.records_of_grant(Some(world.key(&a))).puts, put, "its grants wait for it");
    assert_eq!(world.records(), [recorded("a")]);
}

#[test]
fn a_client_whose_delegation_is_revoked_is_off_stable_storage_until_it_frees_it() {
    // RFC 8881 section 8.4.3
    let mut world = World::new();
    let (mut a, mut b) = (world.ready("a"), world.ready("b"));
    world.open(&a, "o", FILE, READ, 0).unwrap();
    let request = DelegationRequest {
        file: &FILE,
        mode: DelegationMode::Read,
        reclaim: false,
        change: 1,
        opener: anyone().principal,
    };
    let stateid = world.state.delegate(world.now, world.key(&a), &request, 5).unwrap().stateid;
    assert_eq!(world.open(&b, "o", FILE, BOTH, 0), Err(NFS4ERR_DELAY));
    world.pass(Limits::default().recall_time.as_secs());
    world.renew(&mut a);
    world.renew(&mut b);
    world.records();
    world.state.expire(world.now);
    let removal = world.state.newest_records().removals;
    assert_eq!(world.state.records_of_grant(Some(world.key(&b))).removals, removal);
    assert_eq!(world.records(), [forgotten(&a)]);
    free(&world, &a, &stateid).unwrap();
    assert_eq!(world.records(), [recorded("a")]);
}

#[test]
fn a_client_loses_its_right_to_reclaim_with_its_first_revoked_stateid() {
    // RFC 8881 section 8.4.3
    let mut world = World::with(Limits::default(), boot(2, &[b"a", b"b"]));
    let mut a = TestClient::new("a");
    world.mount(&mut a);
    let open = reclaim(&mut world, &a).unwrap();
    revoke(&world, open).unwrap();
    assert_eq!(world.records(), [forgotten(&a)]);
    assert_eq!(reclaim(&mut world, &a), Err(NFS4ERR_RECLAIM_BAD));
    world.state.reclaim_complete(world.now, world.key(&a), false).unwrap();
    assert_eq!(world.records(), []);
    free(&world, &a, &open).unwrap();
    assert_eq!(world.records(), [recorded("a")]);
}

#[test]
fn unknown_stateids_are_not_revoked_and_a_client_that_goes_leaves_none() {
    let mut world = World::new();
    let a = world.ready("a");
    let open = world.open(&a, "o", FILE, READ, 0).unwrap();
    for unknown in [Stateid4::ANONYMOUS, Stateid4::CURRENT, Stateid4 { seqid: 1, other: [7; 12] }] {
        assert_eq!(revoke(&world, unknown), Err(RevokeError::Unknown));
    }
    assert!(revoke(&world, open).is_ok());
    assert_eq!(revoke(&world, open), Err(RevokeError::Unknown), "it is revoked already");
    assert!(world.state.evict(a.clientid));
    let again = world.ready("a");
    assert_eq!(world.state.test_stateid(world.key(&again), &open), NFS4ERR_BAD_STATEID);
}
