//! The listings that administrators see.

use super::world::*;
use crate::*;
use std::collections::BTreeSet;

const BOTH: u32 = 3;

#[test]
fn a_listing_has_clients_with_their_opens_locks_and_delegations() {
    let mut world = World::new();
    let mut a = world.ready("a");
    let mut machine = TestClient::machine("b");
    world.mount(&mut machine);
    let open = world.open(&a, "o", 1, BOTH, 2).unwrap();
    let locker = Locker::New { open_stateid: open, owner: b"p" };
    let lock = world.lock(&a, locker, 1, LockMode::Write, (10, 5)).unwrap();
    world.lock(&a, Locker::Existing(lock), 1, LockMode::Read, (100, u64::MAX)).unwrap();
    world.open(&a, "o", 2, 1, 0).unwrap();
    world.renew(&mut a);
    world.pass(30);

    let mut clients = world.state.list_clients(world.now, 10).entries;
    clients.sort_by_key(|client| client.owner.clone());
    let [first, second] = clients.as_slice() else { panic!("{clients:?}") };
    assert_eq!((first.opens, first.locks, first.sessions, first.confirmed), (2, 2, 1, true));
    assert_eq!((first.silent.as_secs(), first.expired, &*first.owner), (30, false, &b"a"[..]));
    assert_eq!((first.requests, second.requests), (1, 0));
    assert_eq!((second.opens, &*second.principal.0), (0, &b"gss:host/b@R"[..]));

    let mut opens = world.state.list_opens(10, |file, _| *file).entries;
    opens.sort_by_key(|open| open.file);
    let [one, two] = opens.as_slice() else { panic!("{opens:?}") };
    assert_eq!((one.access, one.deny, one.holder.client), (BOTH, 2, a.clientid));
    let ranges: Vec<_> =
        one.locks.iter().map(|lock| (lock.range.offset(), lock.range.last(), lock.mode)).collect();
    assert_eq!(ranges, [(10, 14, LockMode::Write), (100, u64::MAX, LockMode::Read)]);
    assert_eq!((two.access, two.deny, two.locks.len()), (1, 0, 0));
    assert_eq!((one.stateid, one.locks[0].stateid), (open, Stateid4 { seqid: 2, ..lock }));

    let request = DelegationRequest {
        file: &2,
        mode: DelegationMode::Read,
        reclaim: false,
        change: 1,
        opener: anyone().principal,
    };
    let granted = world.state.delegate(world.now, world.key(&a), &request, 5).unwrap();
    let delegations = world.state.list_delegations(10, |file, payload| (*file, payload.copied())).entries;
    let [delegation] = delegations.as_slice() else { panic!("{delegations:?}") };
    assert_eq!(
        (delegation.file, delegation.mode, delegation.phase),
        ((2, Some(5)), DelegationMode::Read, "held")
    );
    assert_eq!((delegation.stateid, &delegation.holder.principal), (granted.stateid, anyone().principal));

    world.pass(1000);
    assert!(world.state.list_clients(world.now, 10).entries.iter().all(|client| client.expired));
    world.renew(&mut a);
    let expired = world.state.list_clients(world.now, 10).entries.iter().filter(|c| c.expired).count();
    assert_eq!(expired, 1);
}

#[test]
fn a_listing_is_bounded_and_counts_the_rest() {
    let mut world = World::new();
    let client = world.ready("a");
    for file in 0..20 {
        world.open(&client, "o", file, 1, 0).unwrap();
    }
    let listing = world.state.list_opens(7, |file, _| *file);
    assert_eq!((listing.entries.len(), listing.left_out), (7, 13));
    assert_eq!(world.state.list_clients(world.now, 0).left_out, 1);
}

#[test]
fn a_listing_of_sessions_has_their_slots_their_callers_and_their_backchannel() {
    let mut world = World::new();
    let mut a = world.ready("a");
    let mut machine = TestClient { connection: 2, ..TestClient::machine("b") };
    world.mount(&mut machine);
    world.state.sessions().connection_closed(machine.connection);
    let running = world.begin(&mut a);
    let mut sessions = world.state.list_sessions(10).entries;
    sessions.sort_by_key(|session| session.holder.principal.0.clone());
    let [gone, here] = sessions.as_slice() else { panic!("{sessions:?}") };
    assert_eq!((here.id, here.holder.client, here.minor_version), (a.sessionid, a.clientid, 1));
    assert_eq!((here.connections, here.slots_running, here.slots_granted), (1, 1, CHANNEL.requests));
    assert_eq!(here.callers, BTreeSet::from([(false, Protection::None)]));
    let works = |works, connections| {
        Some(ListedBackchannel { connections, works, security: vec![CallbackSecurity::None] })
    };
    assert_eq!(here.backchannel, works(true, 1));
    assert_eq!((gone.connections, gone.slots_running, gone.callers.len()), (0, 0, 0));
    assert_eq!(gone.backchannel, works(false, 0));
    world.state.sessions().finish(running.token, None);
    assert_eq!(world.state.list_sessions(1).left_out, 1);
}

#[test]
fn a_session_without_a_backchannel_has_none_in_the_listing() {
    let mut world = World::new();
    let mut client = TestClient::new("a");
    world.exchange_id(&mut client, 0).unwrap();
    let args = CreateSession { flags: 0, ..client.create_args() };
    world.state.create_session(world.now, &client.caller(), &args, 1).unwrap();
    let sessions = world.state.list_sessions(10).entries;
    assert_eq!(sessions.iter().map(|session| session.backchannel.clone()).collect::<Vec<_>>(), [None]);
}
