//! Leases, and the state that ends with them.

use super::world::*;
use crate::*;
use nfs4::Nfsstat4;
use std::time::Duration;

#[test]
fn an_expired_client_that_is_in_somebodys_way_loses_everything() {
    // RFC 8881 section 8.4.3
    let mut world = World::new();
    let (dead, mut alive) = (world.ready("dead"), world.ready("alive"));
    let open = world.open(&dead, "o", 1, 3, 3).unwrap();
    world
        .lock(&dead, Locker::New { open_stateid: open, owner: b"p" }, 1, LockMode::Write, (0, u64::MAX))
        .unwrap();
    assert_eq!(world.open(&alive, "o", 1, 1, 0), Err(Nfsstat4::NFS4ERR_SHARE_DENIED));
    world.pass(59);
    world.renew(&mut alive);
    assert!(!world.state.leases().is_held_by_expired(world.now, &1));
    assert!(!world.state.free_expired(world.now, 1), "its lease has a second left");
    world.pass(1);
    assert!(world.state.leases().is_held_by_expired(world.now, &1));
    assert!(!world.state.leases().is_held_by_expired(world.now, &2));
    assert!(!world.state.free_expired(world.now, 2), "it is not in the way there");
    assert_eq!(world.state.expire(world.now), 0);
    assert!(world.state.free_expired(world.now, 1));
    assert_eq!(world.closed(), 1);
    assert!(world.records().contains(&Effect::ForgetClient { owner: b"dead".to_vec() }));
    assert!(world.open(&alive, "o", 1, 3, 3).is_ok());
    assert!(!world.state.free_expired(world.now, 1), "nobody who is alive goes");
    assert_eq!(world.sequence(&dead, dead.args()).unwrap_err(), Nfsstat4::NFS4ERR_BADSESSION);
    let mut again = TestClient { clientid: dead.clientid, ..TestClient::new("dead") };
    assert_eq!(world.create_session(&mut again), Err(Nfsstat4::NFS4ERR_STALE_CLIENTID));
}

#[test]
fn an_evicted_client_loses_everything_and_no_other_client_does() {
    // RFC 8881 section 8.5
    let mut world = World::new();
    let (evicted, alive) = (world.ready("evicted"), world.ready("alive"));
    let open = world.open(&evicted, "o", 1, 3, 3).unwrap();
    world
        .lock(&evicted, Locker::New { open_stateid: open, owner: b"p" }, 1, LockMode::Write, (0, u64::MAX))
        .unwrap();
    world.open(&alive, "o", 2, 1, 0).unwrap();
    assert!(!world.state.evict(evicted.clientid ^ 1));
    assert_eq!(world.state.counts().opens, 2);
    assert!(world.state.evict(evicted.clientid));
    assert!(!world.state.evict(evicted.clientid), "it is gone");
    assert_eq!((world.closed(), world.state.counts().opens), (1, 1));
    // It must not reclaim after a restart what others have had since.
    assert!(world.records().contains(&Effect::ForgetClient { owner: b"evicted".to_vec() }));
    assert!(world.open(&alive, "o", 1, 3, 3).is_ok());
    assert_eq!(world.sequence(&evicted, evicted.args()).unwrap_err(), Nfsstat4::NFS4ERR_BADSESSION);
    let mut again = TestClient { clientid: evicted.clientid, ..TestClient::new("evicted") };
    assert_eq!(world.create_session(&mut again), Err(Nfsstat4::NFS4ERR_STALE_CLIENTID));
}

#[test]
fn a_server_that_drains_keeps_its_clients_and_takes_no_others() {
    let mut world = World::new();
    let mut known = world.ready("known");
    let clients = |world: &World| world.state.clients().with_lease(world.now);
    assert_eq!(clients(&world), 1);
    world.state.clients().set_draining(true);
    let refused = world.exchange_id(&mut TestClient::new("new"), 0);
    assert_eq!(refused.unwrap_err(), Nfsstat4::NFS4ERR_CLID_INUSE);
    // It lost its sessions, and comes back.
    world.exchange_id(&mut known, 0).unwrap();
    world.create_session(&mut known).unwrap();
    assert!(world.open(&known, "o", 1, 1, 0).is_ok());
    world.state.clients().set_draining(false);
    world.exchange_id(&mut TestClient::new("new"), 0).unwrap();
    assert_eq!(clients(&world), 1, "the new one has not confirmed its client ID");
    world.pass(60);
    assert_eq!(clients(&world), 0, "its lease has run out");
}

#[test]
fn an_expired_client_that_is_in_nobodys_way_goes_on_when_it_comes_back() {
    // RFC 8881 section 8.4.3
    let mut world = World::new();
    let (mut slept, idle) = (world.ready("slept"), world.ready("idle"));
    let open = world.open(&slept, "o", 1, 3, 3).unwrap();
    world.pass(3600);
    assert_eq!(world.state.expire(world.now), 1, "the one that holds nothing");
    assert_eq!(world.sequence(&idle, idle.args()).unwrap_err(), Nfsstat4::NFS4ERR_BADSESSION);
    world.renew(&mut slept);
    let key = world.key(&slept);
    assert!(world.state.access(key, &open, &1, 3).is_ok());
    assert!(!world.state.free_expired(world.now, 1));
    world.now += Duration::from_secs(60) + Limits::default().courtesy_max;
    assert_eq!(world.state.expire(world.now), 1);
    assert_eq!(world.state.counts().opens, 0);
}

#[test]
fn courtesy_ends_where_memory_runs_short() {
    // RFC 8881 section 8.4.3
    for limits in
        [Limits { opens_max: 1, ..Limits::default() }, Limits { clients_max: 1, ..Limits::default() }]
    {
        let mut world = World::with(limits, boot(1, &[]));
        let client = world.ready("a");
        world.open(&client, "o", 1, 3, 0).unwrap();
        world.pass(60);
        assert_eq!(world.state.expire(world.now), 1);
    }
}

#[test]
fn a_replay_renews_and_an_error_does_not() {
    // RFC 8881 section 18.46.3
    let mut world = World::new();
    let mut clients = [world.ready("a"), world.ready("b")];
    let args = clients.each_ref().map(TestClient::args);
    for client in &mut clients {
        let begun = world.begin(client);
        world.state.sessions().finish(begun.token, Some(b"r"));
    }
    world.pass(30);
    assert!(world.sequence(&clients[0], Sequence { sequenceid: 99, ..args[0] }).is_err());
    assert!(world.sequence(&clients[1], args[1]).is_ok());
    let removed = [29, 1, 29, 1].map(|seconds| {
        world.pass(seconds);
        world.state.expire(world.now)
    });
    assert_eq!(removed, [0, 1, 0, 1]);
}

#[test]
fn a_lease_does_not_run_out_under_a_running_request() {
    // RFC 8881 section 8.3
    let mut world = World::new();
    let mut client = world.ready("a");
    let begun = world.begin(&mut client);
    world.pass(1000);
    assert_eq!(world.state.expire(world.now), 0);
    world.state.sessions().finish(begun.token, None);
    assert_eq!(world.state.expire(world.now), 1);
}

#[test]
fn an_unconfirmed_record_goes_after_a_lease_period() {
    // RFC 8881 section 18.35.4
    let mut world = World::new();
    let mut client = TestClient::new("a");
    world.exchange_id(&mut client, 0).unwrap();
    world.pass(60);
    assert_eq!(world.state.expire(world.now), 1);
    assert_eq!(world.create_session(&mut client), Err(Nfsstat4::NFS4ERR_STALE_CLIENTID));
    assert_eq!(world.state.counts().clients, 0);
}

#[test]
fn a_request_that_outlives_its_client_ends_quietly() {
    let mut world = World::new();
    let mut client = world.ready("a");
    let begun = world.begin(&mut client);
    let mut restarted = TestClient { verifier: [2; 8], ..TestClient::new("a") };
    world.mount(&mut restarted);
    let request = OpenRequest {
        owner: b"o",
        file: &1,
        access: 3,
        deny: 0,
        claim: OpenClaim::New,
        opener: anyone(),
        truncates: false,
    };
    let opened = world.state.open(world.now, begun.client, &request, 5, 3);
    assert_eq!(opened, Err(Nfsstat4::NFS4ERR_DEADSESSION));
    assert_eq!(world.closed(), 1);
    world.state.sessions().finish(begun.token, Some(b"late"));
    assert_eq!(world.state.counts().reply_cache, 0);
}
