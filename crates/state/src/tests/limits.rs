//! Everything that a client can pile up ends somewhere.

use super::world::*;
use crate::*;
use nfs4::Nfsstat4;
use std::time::Duration;

#[test]
fn beyond_the_clients_max_the_oldest_unconfirmed_record_goes_and_confirmed_ones_stay() {
    let mut world = World::with(Limits { clients_max: 10, ..Limits::default() }, boot(1, &[]));
    let mut keeper = world.ready("keeper");
    for i in 0..1000 {
        world.exchange_id(&mut TestClient::new(&format!("flood {i}")), 0).unwrap();
        assert!(world.state.counts().clients <= 10);
    }
    world.renew(&mut keeper);
    let keepers: Vec<_> = (0..4).map(|i| world.ready(&format!("client {i}"))).collect();
    world.renew(&mut keeper);
    for client in keepers.iter().chain([&keeper]) {
        world.open(client, "o", 1, 1, 0).unwrap();
    }
    world.ready("holds nothing");
    for i in 0..100 {
        world.ready(&format!("one more {i}"));
    }
    let stays = |client: &TestClient| world.state.sessions().client_of_session(&client.sessionid).is_ok();
    assert!(keepers.iter().chain([&keeper]).all(stays));
}

#[test]
fn a_client_has_a_limited_number_of_sessions() {
    let mut world = World::with(Limits { sessions_per_client_max: 3, ..Limits::default() }, boot(1, &[]));
    let mut client = world.ready("a");
    world.create_session(&mut client).unwrap();
    world.create_session(&mut client).unwrap();
    assert_eq!(world.create_session(&mut client), Err(Nfsstat4::NFS4ERR_NOSPC));
    assert_eq!(world.state.counts().sessions, 3);
}

#[test]
fn a_session_without_connections_that_was_silent_for_a_lease_makes_room_for_another() {
    // RFC 8881 section 2.10.13
    let mut world = World::with(Limits { sessions_per_client_max: 3, ..Limits::default() }, boot(1, &[]));
    let mut client = world.ready("a");
    let mut make = |world: &mut World, connection| {
        let mut other = TestClient { connection, ..client.clone() };
        let made = world.create_session(&mut other).map(|_| other);
        client.sequenceid += 1;
        made
    };
    let others = [2, 3].map(|connection| make(&mut world, connection).unwrap());
    world.state.sessions().connection_closed(3);
    let refused = |made: Result<TestClient>| made.err() == Some(Nfsstat4::NFS4ERR_NOSPC);
    assert!(refused(make(&mut world, 4)), "its lease is not over");
    world.pass(59);
    let [mut bound, abandoned] = others;
    world.renew(&mut bound);
    world.pass(1);
    assert!(make(&mut world, 4).is_ok());
    let stays = |world: &World, client: &TestClient| {
        world.state.sessions().client_of_session(&client.sessionid).is_ok()
    };
    assert!(stays(&world, &bound) && !stays(&world, &abandoned));
    world.pass(59);
    world.renew(&mut bound);
    world.pass(59);
    assert!(refused(make(&mut world, 5)), "all have connections");
}

#[test]
fn opens_are_limited() {
    let limits = Limits { opens_per_client_max: 50, opens_max: 70, ..Limits::default() };
    let mut world = World::with(limits, boot(1, &[]));
    let mut clients = [world.ready("a"), world.ready("b")];
    let mut opened = Vec::new();
    for client in &mut clients {
        let mut own = 0;
        for user in 0..50 {
            // Each from a network of its own, so that together they come to the limits.
            client.principal = Principal::new(format!("sys:{user}"));
            client.address = [192, 0, user, 1].into();
            while world.open(client, &format!("o {user}"), own, 3, 0).is_ok() {
                own += 1;
            }
        }
        opened.push(own);
    }
    assert_eq!(opened, [50, 20]);
    let [a, b] = &clients;
    assert_eq!(world.open(b, "o", 99, 3, 0), Err(Nfsstat4::NFS4ERR_NOSPC));
    assert_eq!(world.open(a, &"x".repeat(1025), 1, 3, 0), Err(Nfsstat4::NFS4ERR_INVAL));
}

#[test]
fn locks_and_the_pieces_that_unlocking_makes_of_them_are_limited() {
    let mut world = World::with(Limits { locks_per_client_max: 50, ..Limits::default() }, boot(1, &[]));
    let client = world.ready("a");
    let key = world.key(&client);
    let open = world.open(&client, "o", 1, 3, 0).unwrap();
    let mut lock = world
        .lock(&client, Locker::New { open_stateid: open, owner: b"p" }, 1, LockMode::Write, (0, u64::MAX))
        .unwrap();
    let refused =
        (0..100).map(|i| 2 * i).find_map(|offset| match world.state.locku(key, &lock, &1, offset, 1) {
            Ok(stateid) => {
                lock = stateid;
                None
            }
            Err(status) => Some(status),
        });
    assert_eq!(refused, Some(Nfsstat4::NFS4ERR_LOCK_RANGE));
    assert!(world.state.counts().ranges <= 50);
    let more = world.lock(&client, Locker::Existing(lock), 1, LockMode::Write, (0, 1));
    assert_eq!(more, Err(LockError::Status(Nfsstat4::NFS4ERR_DELAY)));
    world.state.locku(key, &lock, &1, 0, u64::MAX).unwrap();
    assert_eq!(world.state.counts().ranges, 0);
}

#[test]
fn an_unlock_that_splits_nothing_has_room_at_the_limit() {
    // RFC 8881 section 18.12.3
    let mut world = World::with(Limits { locks_per_client_max: 50, ..Limits::default() }, boot(1, &[]));
    let client = world.ready("a");
    let key = world.key(&client);
    let open = world.open(&client, "o", 1, 3, 0).unwrap();
    let locker = Locker::New { open_stateid: open, owner: b"p" };
    let mut stateid = world.lock(&client, locker, 1, LockMode::Write, (0, u64::MAX)).unwrap();
    let mut unlock = |offset, length| {
        stateid = world.state.locku(key, &stateid, &1, offset, length)?;
        Ok(())
    };
    // Each leaves a range of 10 bytes, and the rest.
    let pieces = (1..100).take_while(|number| unlock(20 * number - 10, 10).is_ok()).count() as u64;
    assert!((20..50).contains(&pieces), "{pieces}");
    assert_eq!(unlock(3, 3), Err(Nfsstat4::NFS4ERR_LOCK_RANGE));
    // The beginning and the end of a range, none, and whole ones.
    assert_eq!([unlock(0, 3), unlock(27, 3), unlock(12, 5)], [Ok(()); 3]);
    (0..pieces).for_each(|number| assert_eq!(unlock(20 * number, 10), Ok(())));
    assert_eq!(unlock(20 * pieces, u64::MAX), Ok(()));
    assert_eq!(world.state.counts().ranges, 0);
}

/// Prints the memory of an idle mount, with a reply of usual size in every slot after a busy time.
#[test]
fn an_idle_client_with_its_session_takes_little_memory() {
    use crate::{clients::Client, clients::registry::Enrolled, sessions::Session, sessions::slots::Slots};
    let bare = size_of::<Client>() + size_of::<Enrolled>() + size_of::<Session>() + 64;
    let slots = 64 * Slots::size() + size_of_val(&*Slots::new(64).chunks);
    println!("client + session {bare} B, 64 used slots {slots} B, 64 cached replies of 400 B {} B", 64 * 400);
    assert!(bare < 1024, "{bare}");
    assert!(bare + slots + 64 * 400 < 32 * 1024);
}

#[test]
fn a_callback_security_list_keeps_few_and_short_entries()
// RFC 8881 section 18.33: the grammar bounds neither
{
    let mut world = World::new();
    let client = world.ready("a");
    let handle = |length| CallbackSecurity::Gss {
        service: 1,
        handle_from_server: vec![1; 16],
        handle_from_client: vec![2; length],
        expires: Duration::MAX,
    };
    let list = [vec![handle(1 << 20); 3], vec![handle(255), CallbackSecurity::None]].concat();
    world.state.callbacks().backchannel_ctl(&client.sessionid, 9, &list).unwrap();
    let kept = CallbackSecurity::kept(&list, world.state.limits());
    assert_eq!(kept, [handle(255), CallbackSecurity::None]);
    assert_eq!(CallbackSecurity::kept(&vec![CallbackSecurity::None; 100], world.state.limits()).len(), 8);
}
