//! Restarts of the server: the right to reclaim, and its end.

use super::world::*;
use crate::*;
use nfs4::{Nfsstat4, Stateid4};
use std::time::Duration;

fn record(owner: &str) -> Effect {
    recorded(owner)
}

fn forget(owner: &str) -> Effect {
    Effect::ForgetClient { owner: owner.into() }
}

/// Returns whether grants wait for a removal.
fn forgets(world: &World) -> bool {
    world.state.records_of_grant(None).removals > 0
}

fn restarted(prior: &[&[u8]]) -> World {
    World::with(Limits::default(), boot(2, prior))
}

fn reclaim(world: &mut World, client: &TestClient, file: u32) -> Result<Stateid4> {
    world.open_as(client, "o", file, 3, 0, OpenClaim::Previous)
}

fn complete(world: &mut World, client: &TestClient) -> Result<()> {
    let key = world.key(client);
    world.state.reclaim_complete(world.now, key, false)
}

#[test]
fn a_client_that_lost_its_server_in_the_middle_of_a_copy_reclaims_and_goes_on() {
    // RFC 8881 section 8.4.2.1
    let mut world = World::new();
    let mut client = world.ready("linux");
    let stateid = world.open(&client, "o", 1, 3, 0).unwrap();
    let records = world.records();
    assert_eq!(records, [record("linux")]);

    let mut world = restarted(&[b"linux"]);
    assert_eq!(world.sequence(&client, client.args()).unwrap_err(), Nfsstat4::NFS4ERR_BADSESSION);
    assert_eq!(world.create_session(&mut client), Err(Nfsstat4::NFS4ERR_STALE_CLIENTID));
    world.mount(&mut client);
    let key = world.key(&client);
    assert_eq!(world.state.test_stateid(key, &stateid), Nfsstat4::NFS4ERR_BAD_STATEID);
    assert_eq!(world.open(&client, "o", 2, 3, 0), Err(Nfsstat4::NFS4ERR_GRACE));
    let reclaimed = reclaim(&mut world, &client, 1).unwrap();
    let lock = Lock {
        file: &1,
        mode: LockMode::Write,
        waits: false,
        reclaim: true,
        offset: 0,
        length: 10,
        locker: Locker::New { open_stateid: reclaimed, owner: b"p" },
    };
    world.state.lock(world.now, key, &lock).unwrap();
    complete(&mut world, &client).unwrap();
    assert_eq!(world.records(), [record("linux"), Effect::GraceEnded]);
    assert!(!world.state.leases().in_grace());
    assert!(world.open(&client, "o", 2, 3, 0).is_ok());
    assert!(world.state.access(key, &reclaimed, &1, 2).is_ok());
}

#[test]
fn a_client_that_is_reclaiming_may_finish_within_twice_the_time() {
    // RFC 8881 section 8.4.2.1
    let mut world = restarted(&[b"a", b"b"]);
    let grace = Limits::default().grace;
    let mut client = TestClient::new("a");
    world.mount(&mut client);
    let begin = world.now;
    world.now = begin + grace - Duration::from_secs(1);
    for (file, seconds) in [4, 3, 4].into_iter().enumerate() {
        reclaim(&mut world, &client, file as u32).unwrap();
        world.now += Duration::from_secs(seconds);
    }
    assert!(world.state.leases().in_grace());
    world.now += Duration::from_secs(2);
    world.renew(&mut client);
    assert_eq!(reclaim(&mut world, &client, 9), Err(Nfsstat4::NFS4ERR_NO_GRACE));

    let mut world = restarted(&[b"a", b"b"]);
    world.mount(&mut client);
    let begin = world.now;
    let mut file = 0;
    while world.state.leases().in_grace() {
        reclaim(&mut world, &client, file).unwrap();
        file += 1;
        world.now += Duration::from_secs(4);
        world.renew(&mut client);
    }
    assert!(world.now - begin >= 2 * grace && world.now - begin < 2 * grace + Duration::from_secs(4));
}

#[test]
fn without_prior_clients_there_is_no_grace_period_and_nothing_to_reclaim() {
    // RFC 8881 section 8.4.2.1
    let mut world = restarted(&[]);
    let mut client = TestClient::new("a");
    world.mount(&mut client);
    assert!(!world.state.leases().in_grace());
    assert_eq!(reclaim(&mut world, &client, 1), Err(Nfsstat4::NFS4ERR_NO_GRACE));
    complete(&mut world, &client).unwrap();
    assert_eq!(reclaim(&mut world, &client, 1), Err(Nfsstat4::NFS4ERR_NO_GRACE));
}

#[test]
fn new_state_waits_for_the_clients_own_reclaim_complete() {
    // RFC 8881 section 18.51.3
    let mut world = World::new();
    let mut client = TestClient::new("a");
    world.mount(&mut client);
    assert_eq!(world.open(&client, "o", 1, 3, 0), Err(Nfsstat4::NFS4ERR_GRACE));
    complete(&mut world, &client).unwrap();
    assert_eq!(complete(&mut world, &client), Err(Nfsstat4::NFS4ERR_COMPLETE_ALREADY));
    assert!(world.open(&client, "o", 1, 3, 0).is_ok());
}

#[test]
fn reclaim_complete_for_one_file_system_completes_nothing() {
    // RFC 8881 section 18.51.3
    let mut world = World::new();
    let mut client = TestClient::new("a");
    world.mount(&mut client);
    let key = world.key(&client);
    world.state.reclaim_complete(world.now, key, true).unwrap();
    world.state.reclaim_complete(world.now, key, true).unwrap();
    complete(&mut world, &client).unwrap();
}

#[test]
fn a_client_that_was_not_recorded_reclaims_nothing() {
    // RFC 8881 section 8.4.3
    let mut world = restarted(&[b"a"]);
    let mut stranger = TestClient::new("b");
    world.mount(&mut stranger);
    assert_eq!(reclaim(&mut world, &stranger, 1), Err(Nfsstat4::NFS4ERR_RECLAIM_BAD));
    complete(&mut world, &stranger).unwrap();
    assert!(world.state.leases().in_grace(), "a has not come back");
    assert_eq!(world.open(&stranger, "o", 1, 3, 0), Err(Nfsstat4::NFS4ERR_GRACE));
    assert_eq!(world.state.opens().anonymous_access(&1, 2), Err(Nfsstat4::NFS4ERR_GRACE));
    let tested = world.state.locks().lockt(world.key(&stranger), &1, b"p", LockMode::Write, 0, 1);
    assert_eq!(tested, Err(LockError::Status(Nfsstat4::NFS4ERR_GRACE)));
}

#[test]
fn grace_ends_when_the_last_recorded_client_is_complete() {
    // RFC 8881 section 18.51.4
    let mut world = restarted(&[b"a", b"b"]);
    let (mut a, mut b) = (TestClient::new("a"), TestClient::new("b"));
    world.mount(&mut a);
    complete(&mut world, &a).unwrap();
    assert_eq!(reclaim(&mut world, &a, 1), Err(Nfsstat4::NFS4ERR_NO_GRACE));
    assert!(world.state.leases().in_grace());
    world.mount(&mut b);
    complete(&mut world, &b).unwrap();
    assert!(!world.state.leases().in_grace());
    assert_eq!(world.records(), [record("a"), record("b"), Effect::GraceEnded]);
}

#[test]
fn clients_that_do_not_return_in_time_are_forgotten() {
    // RFC 8881 section 8.4.3
    let mut world = restarted(&[b"a", b"b", b"c"]);
    let (mut a, mut c) = (TestClient::new("a"), TestClient::new("c"));
    world.mount(&mut a);
    complete(&mut world, &a).unwrap();
    world.mount(&mut c);
    reclaim(&mut world, &c, 1).unwrap();
    world.pass(59);
    world.renew(&mut a);
    world.renew(&mut c);
    assert_eq!(world.state.expire(world.now), 0);
    assert!(world.state.leases().in_grace());
    world.pass(1);
    assert!(world.state.leases().in_grace(), "b and c may still be on stable storage");
    assert!(!forgets(&world));
    assert_eq!(world.state.expire(world.now), 0);
    assert!(!world.state.leases().in_grace() && forgets(&world));
    // Others may take the unreclaimed state of c from now on, so a second restart must not let c
    // reclaim it.
    let expected: Vec<Effect> = vec![record("a"), forget("b"), forget("c"), Effect::GraceEnded];
    assert_eq!(world.records(), expected);
    assert!(!forgets(&world));
    let mut late = TestClient::new("b");
    world.mount(&mut late);
    assert_eq!(reclaim(&mut world, &late, 1), Err(Nfsstat4::NFS4ERR_NO_GRACE));
    complete(&mut world, &c).unwrap();
    assert_eq!(world.records(), [record("c")]);
    assert!(world.state.access(world.key(&c), &reclaim_stateid(&world, &c), &1, 2).is_ok());
}

/// Returns the current stateid of the client's reclaimed open.
fn reclaim_stateid(world: &World, client: &TestClient) -> Stateid4 {
    let key = world.key(client);
    let mut found = None;
    world.state.opens.each(|open_key, open| {
        if open.client == key {
            found = Some(open_key);
        }
    });
    world.state.stateid(crate::stateids::StateRef::Open(found.unwrap()), 0)
}

#[test]
fn the_first_request_after_the_grace_period_finds_the_others_forgotten() {
    // RFC 8881 section 8.4.3: a second crash right after it must not let them reclaim
    let mut world = restarted(&[b"a", b"b"]);
    let mut a = TestClient::new("a");
    world.mount(&mut a);
    complete(&mut world, &a).unwrap();
    world.records();
    world.pass(60);
    world.renew(&mut a);
    assert_eq!(world.records(), [forget("b"), Effect::GraceEnded]);
}

#[test]
fn an_expired_or_destroyed_client_must_not_reclaim_later() {
    // RFC 8881 section 8.4.3: others may have had its locks since
    let mut world = World::new();
    world.ready("a");
    assert_eq!(world.records(), [record("a")]);
    world.pass(60);
    world.state.expire(world.now);
    assert_eq!(world.records(), [forget("a")]);
    let client = world.ready("b");
    world.state.sessions().destroy_session(&client.caller(), &client.sessionid, None).unwrap();
    world.state.destroy_clientid(&client.caller(), client.clientid).unwrap();
    assert_eq!(world.records(), [record("b"), forget("b")]);
}

#[test]
fn a_recorded_client_that_goes_ends_the_wait_for_it() {
    let mut world = restarted(&[b"a"]);
    let mut client = TestClient::new("a");
    world.mount(&mut client);
    world.state.sessions().destroy_session(&client.caller(), &client.sessionid, None).unwrap();
    world.state.destroy_clientid(&client.caller(), client.clientid).unwrap();
    assert_eq!(world.records(), [forget("a"), Effect::GraceEnded]);
}

#[test]
fn a_restarted_client_stays_recorded() {
    // RFC 8881 section 8.4.2.1
    let mut world = World::new();
    world.ready("a");
    world.records();
    let mut again = TestClient { verifier: [2; 8], ..TestClient::new("a") };
    world.mount(&mut again);
    assert_eq!(world.records(), []);
    world.pass(60);
    world.state.expire(world.now);
    assert_eq!(world.records(), [forget("a")]);
}

#[test]
fn a_reclaim_against_anothers_share_or_lock_conflicts() {
    // RFC 8881 section 9.11
    let mut world = restarted(&[b"a", b"b"]);
    let (mut a, mut b) = (TestClient::new("a"), TestClient::new("b"));
    world.mount(&mut a);
    world.mount(&mut b);
    world.open_as(&a, "o", 1, 3, 2, OpenClaim::Previous).unwrap();
    assert_eq!(reclaim(&mut world, &b, 1), Err(Nfsstat4::NFS4ERR_RECLAIM_CONFLICT));
    let (open_a, open_b) = (reclaim(&mut world, &a, 2).unwrap(), reclaim(&mut world, &b, 2).unwrap());
    let lock = |open_stateid| Lock {
        file: &2,
        mode: LockMode::Write,
        waits: false,
        reclaim: true,
        offset: 0,
        length: u64::MAX,
        locker: Locker::New { open_stateid, owner: b"p" },
    };
    world.state.lock(world.now, world.key(&a), &lock(open_a)).unwrap();
    let conflict = world.state.lock(world.now, world.key(&b), &lock(open_b));
    assert_eq!(conflict, Err(LockError::Status(Nfsstat4::NFS4ERR_RECLAIM_CONFLICT)));
}

#[test]
fn while_clients_of_another_server_reclaim_no_new_state_is_granted_for_shared_files() {
    // RFC 8881 section 8.4.2.1
    let mut world = World::new().with_shared(|file| *file < 100);
    let client = world.ready("a");
    let (open, private) =
        (world.open(&client, "o", 1, 3, 0).unwrap(), world.open(&client, "o", 101, 3, 0).unwrap());
    let locker = |open_stateid| Locker::New { open_stateid, owner: b"p" };
    let held = world.lock(&client, locker(open), 1, LockMode::Write, (0, 10)).unwrap();
    world.records();

    world.state.leases().enforce_grace();
    let key = world.key(&client);
    let grace = Err(Nfsstat4::NFS4ERR_GRACE);
    assert!(world.state.leases().is_enforced() && !world.state.leases().in_grace());
    assert_eq!(world.open(&client, "o", 2, 3, 0), grace);
    assert_eq!(world.open(&client, "o", 1, 1, 0), grace, "also of a file that it has open");
    let locked = world.lock(&client, Locker::Existing(held), 1, LockMode::Write, (20, 10));
    assert_eq!(locked, Err(LockError::Status(Nfsstat4::NFS4ERR_GRACE)));
    let tested = world.state.locks().lockt(key, &1, b"q", LockMode::Write, 90, 1);
    assert_eq!(tested, Err(LockError::Status(Nfsstat4::NFS4ERR_GRACE)));
    assert_eq!(world.state.opens().anonymous_access(&1, 2), Err(Nfsstat4::NFS4ERR_GRACE));
    // Its own clients have nothing to reclaim.
    assert_eq!(reclaim(&mut world, &client, 3), Err(Nfsstat4::NFS4ERR_NO_GRACE));
    // Files that no other server has are not concerned.
    world.open(&client, "o", 102, 3, 0).unwrap();
    world.lock(&client, locker(private), 101, LockMode::Write, (0, 10)).unwrap();
    // State from before is good, and can be given back.
    world.state.access(key, &open, &1, 3).unwrap();
    world.state.locku(key, &held, &1, 0, 10).unwrap();
    world.state.close(key, &open, &1).unwrap();

    world.state.leases().relax_grace();
    world.open(&client, "o", 1, 3, 0).unwrap();
    assert_eq!(world.records(), []);
}

#[test]
fn after_the_clients_of_this_server_have_reclaimed_those_of_others_are_waited_for() {
    // RFC 8881 section 8.4.2.1
    let mut world = restarted(&[b"a"]);
    world.state.leases().enforce_grace();
    let mut client = TestClient::new("a");
    world.mount(&mut client);
    reclaim(&mut world, &client, 1).unwrap();
    complete(&mut world, &client).unwrap();
    assert!(!world.state.leases().in_grace());
    assert_eq!(world.open(&client, "o", 2, 3, 0), Err(Nfsstat4::NFS4ERR_GRACE));
    assert_eq!(reclaim(&mut world, &client, 2), Err(Nfsstat4::NFS4ERR_NO_GRACE));
    world.state.leases().relax_grace();
    world.open(&client, "o", 2, 3, 0).unwrap();
}

#[test]
fn a_grace_period_that_is_given_up_leaves_nothing_to_reclaim() {
    // RFC 8881 section 8.4.3
    let mut world = restarted(&[b"a", b"b"]);
    let mut a = TestClient::new("a");
    world.mount(&mut a);
    reclaim(&mut world, &a, 1).unwrap();
    world.state.with(|state, effects| state.leases().give_up_grace(effects));
    assert_eq!(world.records(), [forget("a"), forget("b"), Effect::GraceEnded]);
    assert_eq!(reclaim(&mut world, &a, 2), Err(Nfsstat4::NFS4ERR_NO_GRACE));
    world.state.with(|state, effects| state.leases().give_up_grace(effects));
    assert_eq!(world.records(), []);
}

/// A client of the same owner and another creator.
fn impostors() -> Vec<TestClient> {
    let elsewhere = TestClient { address: [198, 51, 100, 1].into(), ..TestClient::new("a") };
    let proved = TestClient {
        principal: Principal::new("gss:bob@R"),
        protection: Protection::Privacy,
        ..TestClient::new("a")
    };
    vec![elsewhere, proved, TestClient { name: b"a".to_vec(), ..TestClient::machine("evil") }]
}

#[test]
fn the_right_to_reclaim_is_for_the_creator_of_the_client() {
    // RFC 8881 section 8.4.2.1
    for mut impostor in impostors() {
        let mut world = restarted(&[b"a"]);
        let mut client = TestClient::new("a");
        world.mount(&mut impostor);
        assert_eq!(reclaim(&mut world, &impostor, 1), Err(Nfsstat4::NFS4ERR_NO_GRACE));
        assert_eq!(world.open(&impostor, "o", 1, 3, 0), Err(Nfsstat4::NFS4ERR_GRACE));
        complete(&mut world, &impostor).unwrap();
        assert_eq!(world.records(), []);
        assert!(world.state.leases().in_grace());
        // The client gets its owner back, and keeps it.
        world.mount(&mut client);
        assert_eq!(world.sequence(&impostor, impostor.args()).unwrap_err(), Nfsstat4::NFS4ERR_BADSESSION);
        for verifier in [[1; 8], [9; 8]] {
            impostor.verifier = verifier;
            assert_eq!(world.exchange_id(&mut impostor, 0), Err(Nfsstat4::NFS4ERR_CLID_INUSE));
        }
        assert!(reclaim(&mut world, &client, 1).is_ok());
        complete(&mut world, &client).unwrap();
        assert_eq!(world.records(), [record("a"), Effect::GraceEnded]);
    }
}

#[test]
fn a_stranger_that_goes_takes_no_right_to_reclaim_along() {
    // RFC 8881 section 8.4.2.1
    for mut impostor in impostors() {
        let mut world = restarted(&[b"a"]);
        world.mount(&mut impostor);
        complete(&mut world, &impostor).unwrap();
        let caller = impostor.caller();
        world.state.sessions().destroy_session(&caller, &impostor.sessionid, None).unwrap();
        world.state.destroy_clientid(&caller, impostor.clientid).unwrap();
        assert_eq!(world.records(), []);
        let mut client = TestClient::new("a");
        world.mount(&mut client);
        assert!(reclaim(&mut world, &client, 1).is_ok());
    }
}

#[test]
fn the_client_that_has_the_owner_at_the_end_of_grace_is_recorded_with_its_own_principal() {
    // RFC 8881 section 8.4.2.1: a client with a new principal must be able to reclaim the next time
    for mut heir in impostors() {
        let mut world = restarted(&[b"a"]);
        world.mount(&mut heir);
        complete(&mut world, &heir).unwrap();
        world.pass(30);
        world.renew(&mut heir);
        world.pass(31);
        world.state.expire(world.now);
        let principal = hash_of(&heir.caller());
        let recorded = Effect::RecordClient { owner: b"a".to_vec(), principal };
        assert_eq!(world.records(), [recorded, Effect::GraceEnded]);
        assert!(world.open(&heir, "o", 1, 3, 0).is_ok());
    }
}

#[test]
fn a_record_of_an_earlier_version_is_for_any_principal_until_the_grace_period_ends() {
    // RFC 8881 section 8.4.2.1
    for mut client in impostors() {
        let prior_clients = vec![PriorClient { owner: b"a".to_vec(), principal: None }];
        let mut world = World::with(Limits::default(), Boot { prior_clients, ..boot(2, &[]) });
        world.mount(&mut client);
        assert!(reclaim(&mut world, &client, 1).is_ok());
        complete(&mut world, &client).unwrap();
        let principal = hash_of(&client.caller());
        let recorded = Effect::RecordClient { owner: b"a".to_vec(), principal };
        assert_eq!(world.records(), [recorded, Effect::GraceEnded]);
    }
}

#[test]
fn a_grant_waits_for_the_records_of_its_client_and_of_those_that_lost_their_state() {
    // RFC 8881 section 8.4.3
    let mut world = World::new();
    let (a, b) = (world.ready("a"), world.ready("b"));
    let waits = |world: &World, client: &TestClient| {
        let tickets = world.state.records_of_grant(Some(world.key(client)));
        (tickets.puts, tickets.removals)
    };
    assert_eq!((waits(&world, &a), waits(&world, &b)), ((1, 0), (2, 0)));
    let (_, newest) = world.state.take_effects();
    world.state.note_stable(RecordTickets { puts: 1, ..newest });
    assert_eq!((waits(&world, &a), waits(&world, &b)), ((0, 0), (2, 0)));
    world.state.sessions().destroy_session(&a.caller(), &a.sessionid, None).unwrap();
    world.state.destroy_clientid(&a.caller(), a.clientid).unwrap();
    assert_eq!(waits(&world, &b), (2, 0), "it has given its state back itself");
    let c = world.ready("c");
    assert!(world.state.evict(c.clientid));
    assert_eq!(waits(&world, &b), (2, 2));
    world.state.note_stable(newest);
    assert_eq!(waits(&world, &b), (0, 2), "the removal was not in the queue by then");
    world.state.note_stable(world.state.newest_records());
    assert_eq!(waits(&world, &b), (0, 0));
}

#[test]
fn the_next_incarnation_of_a_client_waits_for_the_same_record() // RFC 8881 section 18.35.4
{
    let mut world = World::new();
    world.ready("a");
    let mut again = TestClient { verifier: [9; 8], ..TestClient::new("a") };
    world.mount(&mut again);
    assert_eq!(world.state.records_of_grant(Some(world.key(&again))).puts, 1);
}
