//! What all clients share is divided among principals and addresses, so that a flood by one of them costs it its own share.

use super::world::*;
use crate::*;
use nfs4::Nfsstat4;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// A stranger by AUTH_SYS.
fn stranger(name: &str, last: u8) -> TestClient {
    let address = IpAddr::from([198, 51, 100, last]);
    TestClient { principal: Principal::new("sys:4242"), address, ..TestClient::new(name) }
}

/// A user by RPCSEC_GSS, from the strangers' first address.
fn kerberos(name: &str) -> TestClient {
    let principal = Principal::new(format!("gss:{name}@R"));
    TestClient { principal, protection: Protection::Privacy, ..stranger(name, 1) }
}

fn small() -> Limits {
    Limits { clients_max: 256, reply_cache_max: 1 << 20, ..Limits::default() }
}

/// Makes clients with a session each until that is refused.
fn flood(world: &mut World, of: impl Fn(usize) -> TestClient, count: usize) -> Vec<TestClient> {
    let mut made = Vec::new();
    for n in 0..count {
        let mut client = of(n);
        if world.exchange_id(&mut client, 0).is_err() || world.create_session(&mut client).is_err() {
            continue;
        }
        made.push(client);
    }
    made
}

/// Sends SEQUENCE by all sessions that are still there.
fn renew_all(world: &mut World, clients: &mut [TestClient]) {
    for client in clients {
        if let Ok(Sequenced::Execute(begun)) = world.sequence(client, client.args()) {
            client.slot += 1;
            world.state.finish(begun.token, Some(&[0; 2048]));
        }
    }
}

#[test]
fn a_flood_of_sessions_from_one_address_does_not_keep_others_out() {
    let mut world = World::with(small(), boot(1, &[]));
    let mut before = world.ready("before");
    let open = world.open(&before, "o", 1, 3, 3).unwrap();
    let mut flood = flood(&mut world, |n| stranger(&format!("bogus {n}"), 1), 3000);
    assert!(world.state.counts().session_memory <= 1 << 20);
    assert!(world.state.counts().clients <= 256);
    // For four and a half leases the attacker renews what it has and takes what comes free.
    for turn in 0..54 {
        world.pass(5);
        renew_all(&mut world, &mut flood);
        let mut more = stranger(&format!("top {turn}"), 1);
        let _ = world.exchange_id(&mut more, 0).and_then(|_| world.create_session(&mut more));
        world.renew(&mut before);
        world.state.expire(world.now);
        world.ready(&format!("address {turn}"));
        let mut user = kerberos(&format!("user {turn}"));
        world.mount(&mut user);
        world.renew(&mut user);
        assert!(world.state.counts().session_memory <= 1 << 20);
    }
    let key = world.key(&before);
    assert!(world.state.access(key, &open, &1, 3).is_ok());
}

#[test]
fn unconfirmed_clients_of_a_flood_go_before_anything_of_others() {
    let mut world = World::with(small(), boot(1, &[]));
    let mut honest = stranger("honest", 2);
    world.exchange_id(&mut honest, 0).unwrap();
    for n in 0..5000 {
        world.exchange_id(&mut stranger(&format!("flood {n}"), 1), 0).unwrap();
    }
    assert!(world.state.counts().clients <= 256);
    world.create_session(&mut honest).unwrap();
    world.renew(&mut honest);
    let mut same_address = stranger("late", 1);
    world.mount(&mut same_address);
    world.renew(&mut same_address);
}

#[test]
fn many_addresses_together_leave_a_fair_part_to_the_next_one() {
    let mut world = World::with(small(), boot(1, &[]));
    for last in 1..=60 {
        flood(&mut world, |n| stranger(&format!("{last} {n}"), last), 100);
    }
    for last in 61..=70 {
        let mut late = stranger("late", last);
        late.name.push(last);
        world.mount(&mut late);
        world.renew(&mut late);
    }
    assert!(world.state.counts().clients <= 256);
}

#[test]
fn clients_that_hold_something_do_not_make_room_for_a_flood() {
    let limits = Limits { clients_max: 8, ..Limits::default() };
    let mut world = World::with(limits, boot(1, &[]));
    let mut busy = Vec::new();
    for n in 0..4 {
        busy.push(world.ready(&format!("busy {n}")));
        world.open(&busy[n], "o", 1, 1, 0).unwrap();
    }
    let mut more = TestClient::new("one more");
    assert_eq!(world.exchange_id(&mut more, 0), Err(Nfsstat4::NFS4ERR_DELAY));
    busy.iter_mut().for_each(|client| world.renew(client));
    // Another address still finds its fair part.
    let mut other = stranger("other", 1);
    world.mount(&mut other);
}

#[test]
fn the_memory_of_a_session_is_what_it_caches_and_not_what_it_could() {
    // RFC 8881 section 2.10.6.1.3
    let mut world = World::new();
    let mut client = world.ready("a");
    let idle = world.state.counts().session_memory;
    assert!(idle < 8 * 1024, "{idle}");
    let begun = world.begin(&mut client);
    world.state.finish(begun.token, Some(&[0; 2048]));
    assert_eq!(world.state.counts().session_memory, idle, "room for one reply is counted from the beginning");
    for slotid in 1..8 {
        let args = Sequence { slotid, highest_slotid: slotid, sequenceid: 1, ..client.args() };
        let Ok(Sequenced::Execute(begun)) = world.sequence(&client, args) else { panic!() };
        world.state.finish(begun.token, Some(&[0; 2048]));
    }
    let used = world.state.counts().session_memory;
    assert!((idle + 7 * 2048..=idle + 8 * 2048 + 4096).contains(&used), "{used}");
}

/// Fills the share of one address: sessions with a long reply on each slot.
fn fill(world: &mut World) -> (Vec<TestClient>, BTreeSet<Nfsstat4>) {
    let mut refusals = BTreeSet::new();
    let mut clients = flood(world, |n| stranger(&format!("big {n}"), 1), 60);
    for client in &mut clients {
        client.slot = 2;
        for slotid in 0..8 {
            let args = Sequence { slotid, highest_slotid: 7, sequenceid: 1, fingerprint: 1, ..client.args() };
            match world.sequence(client, args) {
                Ok(Sequenced::Execute(begun)) => world.state.finish(begun.token, Some(&[0; 2048])),
                Ok(Sequenced::Replay(_)) => panic!("no replay"),
                Err(status) => drop(refusals.insert(status)),
            }
        }
    }
    (clients, refusals)
}

#[test]
fn a_tenant_that_caches_too_much_is_asked_for_slots_and_then_keeps_the_first_of_each_session() {
    // RFC 8881 sections 2.10.6.1 and 18.46.3
    let mut world = World::with(small(), boot(1, &[]));
    let (clients, refusals) = fill(&mut world);
    assert_eq!(refusals, [Nfsstat4::NFS4ERR_DELAY].into());
    assert!(world.state.counts().session_memory <= 1 << 20);
    let newest = clients.last().unwrap();
    let Ok(Sequenced::Execute(begun)) = world.sequence(newest, newest.args()) else { panic!("slot 0 works") };
    assert_eq!(begun.reply.target_highest_slotid, 0);
    world.state.finish(begun.token, Some(&[0; 2048]));
    let mut other = world.ready("other");
    let begun = world.begin(&mut other);
    assert_eq!(begun.reply.target_highest_slotid, 7, "the other's share is untouched");
    world.state.finish(begun.token, None);
}

#[test]
fn replies_are_dropped_on_slots_of_which_the_client_has_said_that_it_waits_for_none() {
    // RFC 8881 section 18.46.3: sa_highest_slotid
    let mut world = World::with(small(), boot(1, &[]));
    let (mut clients, _) = fill(&mut world);
    let full = world.state.counts().reply_cache;
    for _ in 0..3 {
        world.pass(10);
        renew_all(&mut world, &mut clients);
        world.state.expire(world.now);
    }
    let trimmed = world.state.counts();
    assert!(trimmed.reply_cache < full, "{} of {full}", trimmed.reply_cache);
    let begun = world.begin(&mut clients[0]);
    assert_eq!(begun.reply.target_highest_slotid, 7, "there is enough again");
    world.state.finish(begun.token, None);
    for client in &clients {
        let retry = Sequence {
            sequenceid: client.slot - 1,
            fingerprint: u64::from(client.slot) - 1,
            ..client.args()
        };
        if let Ok(sequenced) = world.sequence(client, retry) {
            assert!(matches!(sequenced, Sequenced::Replay(_)), "the first slot keeps its reply");
        }
    }
}

#[test]
fn a_client_that_is_silent_loses_no_cached_reply() {
    // RFC 8881 section 2.10.6.1.3: the connection may be broken, and the client about to repeat its request
    let mut world = World::with(small(), boot(1, &[]));
    fill(&mut world);
    let full = world.state.counts().reply_cache;
    for _ in 0..5 {
        world.pass(10);
        world.state.expire(world.now);
    }
    assert_eq!(world.state.counts().reply_cache, full);
}

#[test]
fn a_client_that_may_reclaim_does_not_make_room() {
    // RFC 8881 section 8.4.2
    let limits = Limits { clients_max: 8, ..Limits::default() };
    let mut world = World::with(limits, boot(2, &[b"waiting"]));
    let mut waiting = stranger("waiting", 1);
    world.mount(&mut waiting);
    for n in 0..100 {
        let _ = world.exchange_id(&mut stranger(&format!("flood {n}"), 1), 0);
    }
    let claim = OpenClaim::Previous;
    assert!(world.open_as(&waiting, "o", 1, 3, 0, claim).is_ok());
}
