//! Limits of single tenants, clients and groups of files.

use super::tenants::{kerberos, stranger};
use super::world::{TestClient, World, boot};
use crate::{Limits, LockMode, Locker, OpenClaim, Quotas, StateQuota, TenantName};
use nfs4::Nfsstat4;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

/// Limits that a test may change: of the tenant `gss:bob@R`, of clients at 198.51.100.7, and of
/// files below ten.
#[derive(Debug, Default)]
struct TestQuotas(Mutex<[StateQuota; 3]>);

impl TestQuotas {
    fn set(&self, bob: StateQuota, clients: StateQuota, files: StateQuota) {
        *self.0.lock().unwrap() = [bob, clients, files];
    }

    fn quota(&self, at: usize, applies: bool) -> StateQuota {
        if applies { self.0.lock().unwrap()[at] } else { StateQuota::default() }
    }
}

impl Quotas for TestQuotas {
    fn of_tenant(&self, tenant: &TenantName) -> StateQuota {
        self.quota(0, *tenant == TenantName::Principal(b"gss:bob@R".as_slice().into()))
    }

    fn of_client(&self, address: IpAddr) -> StateQuota {
        self.quota(1, address == IpAddr::from([198, 51, 100, 7]))
    }

    fn group_of(&self, view: u64) -> u64 {
        u64::from(view >= 10)
    }

    fn of_group(&self, group: u64) -> StateQuota {
        self.quota(2, group == 0)
    }
}

fn world(limits: Limits) -> (World, Arc<TestQuotas>) {
    let quotas = Arc::<TestQuotas>::default();
    let given = quotas.clone();
    let world = World::with_state(limits, boot(1, &[]), |state| {
        state.with_views(|file| u64::from(*file)).with_quotas(given)
    });
    (world, quotas)
}

fn ready(world: &mut World, mut client: TestClient, name: &str) -> TestClient {
    client.name = name.into();
    world.mount(&mut client);
    let key = world.key(&client);
    world.state.reclaim_complete(world.now, key, false).unwrap();
    client
}

/// Opens files until that is refused, `most` at most.
fn open_all(world: &mut World, client: &TestClient, files: std::ops::Range<u32>) -> usize {
    let mut open = |file: u32| world.open(client, &format!("o {file}"), file, 3, 0);
    let refused = files.clone().map(&mut open).position(|opened| opened.is_err());
    refused.unwrap_or(files.len())
}

#[test]
fn a_principal_has_its_limits_over_all_of_its_clients() {
    let (mut world, quotas) = world(Limits::default());
    let few = StateQuota { sessions_max: Some(3), opens_max: Some(20), locks_max: Some(10) };
    quotas.set(few, StateQuota::default(), StateQuota::default());
    let bobs = ["bob 1", "bob 2"].map(|name| ready(&mut world, kerberos("bob"), name));
    let alice = ready(&mut world, kerberos("alice"), "alice");
    assert_eq!(open_all(&mut world, &bobs[0], 10..25), 15);
    assert_eq!(open_all(&mut world, &bobs[1], 30..99), 5);
    assert_eq!(open_all(&mut world, &alice, 100..150), 50);
    let mut second = ready(&mut world, kerberos("bob"), "bob 3");
    assert_eq!(world.create_session(&mut second), Err(Nfsstat4::NFS4ERR_NOSPC), "a fourth session");
    let open = world.open(&bobs[0], "o 10", 10, 3, 0);
    assert_eq!(open, Err(Nfsstat4::NFS4ERR_NOSPC));
    quotas.set(StateQuota { opens_max: Some(21), ..few }, StateQuota::default(), StateQuota::default());
    let open = world.open(&bobs[0], "one more", 10, 3, 0).unwrap();
    let mut locker = Locker::New { open_stateid: open, owner: b"bob" };
    let mut locks = 0;
    while let Ok(stateid) = world.lock(&bobs[0], locker, 10, LockMode::Write, (2 * locks, 1)) {
        locker = Locker::Existing(stateid);
        locks += 1;
    }
    assert!((6..=10).contains(&locks), "{locks}");
}

#[test]
fn a_client_has_the_limits_of_its_address_instead_of_the_usual_ones() {
    let limits = Limits { sessions_per_client_max: 2, opens_per_client_max: 1000, ..Limits::default() };
    let (mut world, quotas) = world(limits);
    let few = StateQuota { sessions_max: Some(4), opens_max: Some(10), locks_max: None };
    quotas.set(StateQuota::default(), few, StateQuota::default());
    let mut limited = ready(&mut world, stranger("limited", 7), "limited");
    let mut other = ready(&mut world, stranger("other", 8), "other");
    // A user of a client leaves some of its opens to others.
    let opens = open_all(&mut world, &limited, 10..99);
    assert!((5..10).contains(&opens), "{opens}");
    assert_eq!(open_all(&mut world, &other, 100..200), 100);
    let sessions = |world: &mut World, client: &mut TestClient| {
        1 + (0..9).take_while(|_| world.create_session(client).is_ok()).count()
    };
    assert_eq!((sessions(&mut world, &mut limited), sessions(&mut world, &mut other)), (4, 2));
}

#[test]
fn a_group_of_files_has_limits_for_all_of_its_users() {
    let (mut world, quotas) = world(Limits::default());
    let few = StateQuota { sessions_max: None, opens_max: Some(6), locks_max: Some(10) };
    quotas.set(StateQuota::default(), StateQuota::default(), few);
    let [a, b] = [1, 2].map(|n| ready(&mut world, stranger("", n), &format!("client {n}")));
    assert_eq!(open_all(&mut world, &a, 0..4), 4);
    assert_eq!(open_all(&mut world, &b, 4..9), 2);
    assert_eq!(open_all(&mut world, &b, 10..20), 10, "other files have no limit");
    let key = world.key(&a);
    let open = world.open(&a, "o 0", 0, 1, 0).expect("the owner's open is there");
    let mut locker = Locker::New { open_stateid: open, owner: b"a" };
    let mut locked = 0;
    let mut last = None;
    while let Ok(stateid) = world.lock(&a, locker, 0, LockMode::Write, (2 * locked, 1)) {
        locker = Locker::Existing(stateid);
        last = Some(stateid);
        locked += 1;
    }
    assert!((6..=10).contains(&locked), "{locked}");
    let unlocked = world.state.locku(key, &last.unwrap(), &0, 0, u64::MAX).unwrap();
    let locker = Locker::Existing(unlocked);
    assert!(world.lock(&a, locker, 0, LockMode::Write, (0, 1)).is_ok(), "unlocking makes room");
}

#[test]
fn released_state_makes_room_and_reclaims_are_not_refused() {
    // RFC 8881 section 8.4.2.1
    let (mut world, quotas) = world(Limits::default());
    let one = StateQuota { sessions_max: None, opens_max: Some(1), locks_max: None };
    quotas.set(StateQuota::default(), StateQuota::default(), one);
    let client = ready(&mut world, stranger("", 1), "client");
    for round in 0..3 {
        let stateid = world.open(&client, "o", round, 3, 0).unwrap();
        assert_eq!(world.open(&client, "p", 9, 3, 0), Err(Nfsstat4::NFS4ERR_NOSPC));
        let key = world.key(&client);
        world.state.close(key, &stateid, &round).unwrap();
    }
    let mut client = TestClient::new("a");
    let mut world = World::with_state(Limits::default(), boot(2, &[b"a"]), |state| state.with_quotas(quotas));
    world.mount(&mut client);
    for file in 0..3 {
        world.open_as(&client, "o", file, 1, 0, OpenClaim::Previous).unwrap();
    }
}
