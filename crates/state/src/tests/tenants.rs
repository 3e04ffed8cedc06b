//! Common resources are divided among principals and addresses, so that a flood by one of them
//! costs it its own share.

use super::world::*;
use crate::*;
use nfs4::Nfsstat4;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// A stranger by AUTH_SYS.
pub(super) fn stranger(name: &str, last: u8) -> TestClient {
    let address = IpAddr::from([198, 51, 100, last]);
    TestClient { principal: Principal::new("sys:4242"), address, ..TestClient::new(name) }
}

/// A user by RPCSEC_GSS, from the strangers' first address.
pub(super) fn kerberos(name: &str) -> TestClient {
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
            world.state.sessions().finish(begun.token, Some(&[0; 2048]));
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
    // For four and a half leases the attacker renews its clients and takes everything that becomes
    // free.
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
fn a_session_is_charged_for_cached_replies_and_not_for_its_limits() {
    // RFC 8881 section 2.10.6.1.3
    let mut world = World::new();
    let mut client = world.ready("a");
    let idle = world.state.counts().session_memory;
    assert!(idle < 8 * 1024, "{idle}");
    let begun = world.begin(&mut client);
    world.state.sessions().finish(begun.token, Some(&[0; 2048]));
    assert_eq!(world.state.counts().session_memory, idle, "room for one reply is counted from the beginning");
    for slotid in 1..8 {
        let args = Sequence { slotid, highest_slotid: slotid, sequenceid: 1, ..client.args() };
        let Ok(Sequenced::Execute(begun)) = world.sequence(&client, args) else { panic!() };
        world.state.sessions().finish(begun.token, Some(&[0; 2048]));
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
                Ok(Sequenced::Execute(begun)) => world.state.sessions().finish(begun.token, Some(&[0; 2048])),
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
    world.state.sessions().finish(begun.token, Some(&[0; 2048]));
    let mut other = world.ready("other");
    let begun = world.begin(&mut other);
    assert_eq!(begun.reply.target_highest_slotid, 7, "the other's share is untouched");
    world.state.sessions().finish(begun.token, None);
}

#[test]
fn replies_are_dropped_on_slots_above_the_highest_slot_of_the_client() {
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
    world.state.sessions().finish(begun.token, None);
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
    // RFC 8881 section 2.10.6.1.3: the connection may be broken, and the client about to repeat its
    // request
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
    let mut waiting = stranger("waiting", 1);
    let principal = Some(hash_of(&waiting.caller()));
    let prior_clients = vec![PriorClient { owner: b"waiting".to_vec(), principal }];
    let mut world = World::with(limits, Boot { prior_clients, ..boot(2, &[]) });
    world.mount(&mut waiting);
    for n in 0..100 {
        let _ = world.exchange_id(&mut stranger(&format!("flood {n}"), 1), 0);
    }
    let claim = OpenClaim::Previous;
    assert!(world.open_as(&waiting, "o", 1, 3, 0, claim).is_ok());
}

/// Opens files until that is refused, as several clients of one tenant.
fn open_all(world: &mut World, clients: &[TestClient]) -> usize {
    let mut opened = 0;
    for (n, client) in clients.iter().enumerate() {
        while world.open(client, &format!("o {n} {opened}"), opened as u32, 1, 0).is_ok() {
            opened += 1;
        }
    }
    opened
}

#[test]
fn a_user_with_many_clients_leaves_opens_to_others() {
    let limits = Limits { opens_max: 1000, opens_per_client_max: 500, ..Limits::default() };
    let mut world = World::with(limits, boot(1, &[]));
    let ready = |world: &mut World, name: &str, user: &str| {
        let mut client = kerberos(user);
        client.name = name.into();
        world.mount(&mut client);
        let key = world.key(&client);
        world.state.reclaim_complete(world.now, key, false).unwrap();
        client
    };
    let bobs: Vec<_> = (0..4).map(|n| ready(&mut world, &format!("bob {n}"), "bob")).collect();
    let taken = open_all(&mut world, &bobs);
    assert!((450..=510).contains(&taken), "half of all: {taken}");
    let alice = [ready(&mut world, "alice", "alice")];
    let left = open_all(&mut world, &alice);
    assert!(left >= 100, "{left}");
    let carol = [ready(&mut world, "carol", "carol")];
    assert!(open_all(&mut world, &carol) >= 50);
    assert_eq!(world.open(&bobs[0], "again", 9999, 1, 0), Err(Nfsstat4::NFS4ERR_NOSPC));
}

#[test]
fn a_user_of_a_machine_leaves_opens_and_locks_of_its_client_to_the_others() {
    let limits = Limits { opens_per_client_max: 100, locks_per_client_max: 100, ..Limits::default() };
    let mut world = World::with(limits, boot(1, &[]));
    let machine = world.ready("machine");
    let as_user = |user: &str| {
        let sessionid = machine.sessionid;
        TestClient { sessionid, principal: Principal::new(user), ..TestClient::new("machine") }
    };
    let (greedy, modest) = (as_user("sys:1"), as_user("sys:2"));
    let first = world.open(&greedy, "first", 7777, 1, 0).unwrap();
    let greedy = [greedy];
    let taken = open_all(&mut world, &greedy);
    assert!((45..=55).contains(&taken), "{taken}");
    let open = world.open(&modest, "m", 1, 3, 0).unwrap();
    let mut locked = 0;
    let mut locker = Locker::New { open_stateid: first, owner: b"greedy" };
    while let Ok(stateid) = world.lock(&greedy[0], locker, 7777, LockMode::Read, (2 * locked, 1)) {
        locker = Locker::Existing(stateid);
        locked += 1;
    }
    assert!((40..=55).contains(&locked), "{locked}");
    world
        .lock(&modest, Locker::New { open_stateid: open, owner: b"modest" }, 1, LockMode::Write, (0, 9))
        .unwrap();
}

#[test]
fn opens_of_before_a_restart_are_reclaimed_despite_newer_opens_of_others() {
    // RFC 8881 section 8.4.2.1
    let limits = Limits { opens_max: 10, ..Limits::default() };
    let (mut a, mut b) = (TestClient::new("a"), stranger("b", 1));
    let prior_clients = [&a, &b]
        .map(|client| PriorClient { owner: client.name.clone(), principal: Some(hash_of(&client.caller())) });
    let mut world = World::with(limits, Boot { prior_clients: prior_clients.into(), ..boot(2, &[]) });
    world.mount(&mut a);
    world.mount(&mut b);
    for file in 0..3 {
        world.open_as(&b, "o", file, 1, 0, OpenClaim::Previous).unwrap();
    }
    for file in 0..7 {
        world.open_as(&a, "o", file, 1, 0, OpenClaim::Previous).unwrap();
    }
}

#[test]
fn expired_clients_give_way_before_an_open_is_refused() {
    // RFC 8881 section 8.4.3
    let limits = Limits { opens_max: 10, ..Limits::default() };
    let mut world = World::with(limits, boot(1, &[]));
    let mut gone = Vec::new();
    for n in 0..4 {
        gone.push(world.ready(&format!("gone {n}")));
        world.open(&gone[n], "o", n as u32, 3, 0).unwrap();
        world.pass(1);
    }
    world.pass(59);
    let alive = world.ready("alive");
    for file in 10..14 {
        world.open(&alive, "o", file, 3, 0).unwrap();
    }
    let is_there = |world: &World, client: &TestClient| {
        world.state.sessions().client_of_session(&client.sessionid).is_ok()
    };
    assert!(!is_there(&world, &gone[0]), "the one whose lease ran out first");
    assert!(is_there(&world, &gone[2]) && is_there(&world, &gone[3]), "no more than it takes");
}

#[test]
fn expired_clients_give_way_before_a_lock_is_refused() {
    // RFC 8881 section 8.4.3
    let mut world = World::with(Limits { locks_max: 12, ..Limits::default() }, boot(1, &[]));
    let mut gone = Vec::new();
    for n in 0..3 {
        gone.push(world.ready(&format!("gone {n}")));
        let open = world.open(&gone[n], "o", n as u32, 3, 0).unwrap();
        let locker = Locker::New { open_stateid: open, owner: b"p" };
        world.lock(&gone[n], locker, n as u32, LockMode::Write, (0, 9)).unwrap();
        world.pass(1);
    }
    let alive = world.ready("alive");
    let open = world.open(&alive, "o", 10, 3, 0).unwrap();
    let locker = Locker::New { open_stateid: open, owner: b"p" };
    let early = world.lock(&alive, locker, 10, LockMode::Write, (0, 9));
    assert_eq!(early, Err(LockError::Status(Nfsstat4::NFS4ERR_DELAY)), "all have leases");
    world.pass(59);
    world.lock(&alive, locker, 10, LockMode::Write, (0, 9)).unwrap();
    let is_there = |client: &TestClient| world.state.sessions().client_of_session(&client.sessionid).is_ok();
    assert_eq!(gone.iter().map(is_there).collect::<Vec<_>>(), [false, true, true]);
}

#[test]
fn a_tenant_beyond_its_share_does_not_end_the_courtesy_of_others() {
    // RFC 8881 section 8.4.3
    let limits = Limits { opens_max: 100, ..Limits::default() };
    let mut world = World::with(limits, boot(1, &[]));
    let slept = world.ready("slept");
    let open = world.open(&slept, "o", 1, 3, 0).unwrap();
    world.pass(61);
    let mut greedy = stranger("greedy", 1);
    world.mount(&mut greedy);
    let key = world.key(&greedy);
    world.state.reclaim_complete(world.now, key, false).unwrap();
    let greedy = [greedy];
    assert!(open_all(&mut world, &greedy) >= 40);
    world.state.expire(world.now);
    let key = world.key(&slept);
    assert!(world.state.access(key, &open, &1, 3).is_ok());
}
