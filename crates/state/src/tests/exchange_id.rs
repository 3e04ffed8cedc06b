//! EXCHANGE_ID, case by case.

use super::world::*;
use crate::*;
use nfs4::Nfsstat4;
use std::collections::BTreeSet;
use std::time::Duration;

const UPDATE: u32 = 0x4000_0000;
const CONFIRMED_R: u32 = 0x8000_0000;
const USE_NON_PNFS: u32 = 0x0001_0000;
/// The flags SUPP_MOVED_REFER and SUPP_MOVED_MIGR.
const SUPP_MOVED: u32 = 3;

#[test]
fn a_new_owner_gets_an_unconfirmed_client_id() {
    // RFC 8881 section 18.35.4, case 1
    let mut world = World::new();
    let ok = world.exchange_id(&mut TestClient::new("a"), 0x103).unwrap();
    // The server refers and migrates (section 18.35.3), whatever the client supports.
    assert_eq!(ok.flags, USE_NON_PNFS | SUPP_MOVED);
    let other = world.exchange_id(&mut TestClient::new("b"), 0).unwrap();
    assert_ne!(ok.clientid, other.clientid);
}

#[test]
fn the_same_request_on_a_confirmed_record_returns_it_again() {
    // RFC 8881 section 18.35.4, case 2
    let mut world = World::new();
    let mut client = world.ready("a");
    let (clientid, sequenceid) = (client.clientid, client.sequenceid);
    let ok = world.exchange_id(&mut client, 0).unwrap();
    assert_eq!(ok.clientid, clientid);
    assert_eq!(ok.flags & CONFIRMED_R, CONFIRMED_R);
    assert_eq!(ok.sequenceid, sequenceid);
    world.renew(&mut client);
}

#[test]
fn another_principal_is_refused_while_the_client_holds_state() {
    // RFC 8881 section 18.35.4, case 3
    let mut world = World::new();
    let client = world.ready("a");
    world.open(&client, "o", 1, 3, 0).unwrap();
    let mut thief =
        TestClient { principal: Principal::new("sys:99"), verifier: [9; 8], ..TestClient::new("a") };
    assert_eq!(world.exchange_id(&mut thief, 0), Err(Nfsstat4::NFS4ERR_CLID_INUSE));
    assert_eq!(world.state.counts().opens, 1);
}

#[test]
fn another_principal_replaces_a_client_without_state_or_lease() {
    // RFC 8881 section 18.35.4, case 3
    let mut world = World::new();
    let client = world.ready("a");
    let mut other = TestClient { principal: Principal::new("sys:99"), ..TestClient::new("a") };
    let ok = world.exchange_id(&mut other, 0).unwrap();
    assert_ne!(ok.clientid, client.clientid);
    assert_eq!(
        world.state.sessions().client_of_session(&client.sessionid),
        Err(Nfsstat4::NFS4ERR_BADSESSION)
    );

    let holder = world.ready("b");
    world.open(&holder, "o", 1, 3, 0).unwrap();
    world.pass(61);
    let mut other = TestClient { principal: Principal::new("sys:99"), ..TestClient::new("b") };
    world.exchange_id(&mut other, 0).unwrap();
    assert_eq!((world.state.counts().opens, world.closed()), (0, 1));
}

#[test]
fn an_unconfirmed_record_is_replaced() {
    // RFC 8881 section 18.35.4, case 4
    let mut world = World::new();
    let mut client = TestClient::new("a");
    let first = world.exchange_id(&mut client, 0).unwrap();
    let second = world.exchange_id(&mut client, 0).unwrap();
    assert_ne!(first.clientid, second.clientid);
    assert_eq!(world.state.counts().clients, 1);
    client.clientid = first.clientid;
    assert_eq!(world.create_session(&mut client), Err(Nfsstat4::NFS4ERR_STALE_CLIENTID));
}

#[test]
fn a_restarted_client_keeps_its_old_state_until_it_confirms_the_new() {
    // RFC 8881 section 18.35.4, case 5
    let mut world = World::new();
    let mut old = world.ready("a");
    world.open(&old, "o", 1, 3, 0).unwrap();
    let mut new = TestClient { verifier: [2; 8], ..TestClient::new("a") };
    let ok = world.exchange_id(&mut new, 0).unwrap();
    assert_eq!(ok.flags & CONFIRMED_R, 0);
    assert_eq!(world.state.counts().opens, 1);
    world.renew(&mut old);
    world.create_session(&mut new).unwrap();
    assert_eq!((world.state.counts().opens, world.closed()), (0, 1));
    assert_eq!(world.sequence(&old, old.args()).unwrap_err(), Nfsstat4::NFS4ERR_BADSESSION);
    assert_eq!(world.state.counts().clients, 1);
}

#[test]
fn an_update_needs_a_confirmed_record_its_verifier_and_its_principal() {
    // RFC 8881 section 18.35.4, cases 6 to 9
    let mut world = World::new();
    let mut unknown = TestClient::new("a");
    assert_eq!(world.exchange_id(&mut unknown, UPDATE), Err(Nfsstat4::NFS4ERR_NOENT));
    world.exchange_id(&mut unknown, 0).unwrap();
    assert_eq!(world.exchange_id(&mut unknown, UPDATE), Err(Nfsstat4::NFS4ERR_NOENT));
    let mut client = world.ready("a");
    let ok = world.exchange_id(&mut client, UPDATE).unwrap();
    assert_eq!((ok.clientid, ok.flags & UPDATE), (client.clientid, 0));
    let mut restarted = TestClient { verifier: [2; 8], ..TestClient::new("a") };
    assert_eq!(world.exchange_id(&mut restarted, UPDATE), Err(Nfsstat4::NFS4ERR_NOT_SAME));
    let mut stranger = TestClient { principal: Principal::new("sys:5"), ..TestClient::new("a") };
    assert_eq!(world.exchange_id(&mut stranger, UPDATE), Err(Nfsstat4::NFS4ERR_PERM));
}

#[test]
fn the_sequence_of_sessions_begins_where_a_signed_number_can_follow() {
    // RFC 8881 section 18.35.4: any number will do
    let mut world = World::new();
    for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        let ok = world.exchange_id(&mut TestClient::new(name), 0).unwrap();
        assert!(ok.sequenceid <= 1 << 31, "{}", ok.sequenceid);
    }
}

#[test]
fn unknown_flags_and_an_owner_that_is_too_long_are_refused() {
    // RFC 8881 section 18.35.3
    let mut world = World::new();
    for flags in [0x8, 0x0200_0000, CONFIRMED_R] {
        assert_eq!(world.exchange_id(&mut TestClient::new("a"), flags), Err(Nfsstat4::NFS4ERR_INVAL));
    }
    let mut long = TestClient::new(&"x".repeat(1025));
    assert_eq!(world.exchange_id(&mut long, 0), Err(Nfsstat4::NFS4ERR_INVAL));
    assert_eq!(world.state.counts().clients, 0);
}

#[test]
fn client_ids_do_not_repeat() {
    // RFC 8881 section 18.35.3
    let mut world = World::new();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..10_000 {
        assert!(seen.insert(world.exchange_id(&mut TestClient::new("a"), 0).unwrap().clientid));
    }
}

#[test]
fn client_ids_do_not_tell_of_each_other_and_those_of_an_earlier_start_are_stale() {
    // RFC 8881 section 18.35.3
    let ids = |epoch, hash_key| {
        let mut world = World::with(Limits::default(), Boot { hash_key, ..boot(epoch, &[]) });
        (0..200)
            .map(|n| world.exchange_id(&mut TestClient::new(&n.to_string()), 0).unwrap().clientid)
            .collect()
    };
    let (first, second): (Vec<u64>, Vec<u64>) = (ids(1, [7; 16]), ids(2, [8; 16]));
    let steps =
        |ids: &[u64]| ids.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect::<BTreeSet<_>>();
    assert_eq!((steps(&first).len(), steps(&second).len()), (199, 199), "no two steps are the same");
    let halves: BTreeSet<u64> = first.iter().flat_map(|id| [id >> 32, id & 0xffff_ffff]).collect();
    assert!(halves.len() > 398, "both halves differ");
    let mut world = World::with(Limits::default(), Boot { hash_key: [8; 16], ..boot(2, &[]) });
    for clientid in first {
        let mut client = TestClient { clientid, ..TestClient::new("a") };
        assert_eq!(world.create_session(&mut client), Err(Nfsstat4::NFS4ERR_STALE_CLIENTID));
    }
}

#[test]
fn a_client_id_is_destroyed_by_its_creator_alone() {
    // RFC 8881 section 18.50.3
    let mut world = World::new();
    let alice = TestClient {
        principal: Principal::new("gss:alice@R"),
        protection: Protection::Privacy,
        ..TestClient::new("a")
    };
    for mut client in [alice, TestClient::new("b")] {
        world.exchange_id(&mut client, 0).unwrap();
        for name in ["sys:4242", "gss:bob@R"] {
            let principal = Principal::new(name);
            let stranger = Caller { principal: &principal, ..client.caller() };
            let status = world.state.destroy_clientid(&stranger, client.clientid);
            assert_eq!(status, Err(Nfsstat4::NFS4ERR_WRONG_CRED));
        }
        world.create_session(&mut client).unwrap();
        let caller = client.caller();
        world.state.sessions().destroy_session(&caller, &client.sessionid, None).unwrap();
        assert_eq!(world.state.destroy_clientid(&caller, client.clientid), Ok(()));
    }
}

#[test]
fn a_stranger_with_the_owner_takes_nothing_from_a_client_that_is_about_to_confirm() {
    // RFC 8881 section 18.35.4, case 4: between the principals that send an owner
    let mut world = World::new();
    let mut client = TestClient { protection: Protection::Integrity, ..TestClient::new("a") };
    client.principal = Principal::new("gss:host/a@R");
    let elsewhere = |n: u8| TestClient { address: [198, 51, 100, n].into(), ..TestClient::new("a") };
    let bob = TestClient { principal: Principal::new("gss:bob@R"), ..TestClient::machine("a") };
    for mut stranger in [elsewhere(1), elsewhere(2), bob] {
        world.exchange_id(&mut stranger, 0).unwrap();
        world.exchange_id(&mut client, 0).unwrap();
        world.exchange_id(&mut stranger, 0).unwrap();
        world.create_session(&mut client).unwrap();
        let key = world.key(&client);
        world.state.reclaim_complete(world.now, key, false).unwrap();
        world.open(&client, "o", 1, 3, 0).unwrap();
        // The stranger's earlier client id does not replace the client either.
        assert_eq!(world.create_session(&mut stranger), Err(Nfsstat4::NFS4ERR_CLID_INUSE));
        assert_eq!(world.exchange_id(&mut stranger, 0), Err(Nfsstat4::NFS4ERR_CLID_INUSE));
        assert_eq!(world.state.counts().opens, 1);
        world
            .state
            .with(|state, effects| state.leases().expire(world.now + Duration::from_secs(100_000), effects));
    }
}

#[test]
fn a_proved_principal_keeps_its_owner_against_auth_sys_even_with_nothing_open() {
    // RFC 8881 section 18.35.4, case 3: a server may
    let mut world = World::new();
    let mut client = TestClient { protection: Protection::Authentication, ..TestClient::new("a") };
    client.principal = Principal::new("gss:alice@R");
    world.mount(&mut client);
    let mut stranger = TestClient { connection: 2, ..TestClient::new("a") };
    assert_eq!(world.exchange_id(&mut stranger, 0), Err(Nfsstat4::NFS4ERR_CLID_INUSE));
    world.renew(&mut client);
    world.pass(61);
    assert!(world.exchange_id(&mut stranger, 0).is_ok(), "its lease is over");
}
