//! SP4_MACH_CRED: only the machine credential is accepted.

use super::world::*;
use crate::*;
use nfs4::Nfsstat4;

const CREATE_SESSION: u32 = 43;

fn mounted(world: &mut World) -> TestClient {
    let mut client = TestClient::machine("a");
    world.mount(&mut client);
    complete_reclaims(world, &client);
    client
}

fn complete_reclaims(world: &mut World, client: &TestClient) {
    let key = world.key(client);
    world.state.reclaim_complete(world.now, key, false).unwrap();
}

/// A user of the same client machine.
fn user(client: &TestClient) -> TestClient {
    TestClient {
        principal: Principal::new("gss:alice@R"),
        protection: Protection::Privacy,
        protect: StateProtect::None,
        clientid: client.clientid,
        sequenceid: client.sequenceid,
        sessionid: client.sessionid,
        slot: client.slot,
        ..TestClient::new("a")
    }
}

#[test]
fn the_granted_lists_contain_only_supported_operations() {
    // RFC 8881 section 18.35.3
    let mut world = World::new();
    let all = OpSet(u128::MAX);
    let mut client = TestClient {
        protect: StateProtect::MachCred { must_enforce: all, must_allow: all },
        ..TestClient::machine("a")
    };
    let StateProtect::MachCred { must_enforce, must_allow } =
        world.exchange_id(&mut client, 0).unwrap().protect
    else {
        panic!("SP4_MACH_CRED was not granted")
    };
    for required in [7, 41, 42, 43, 44, 57] {
        assert!(must_enforce.contains(required));
    }
    assert!(!must_enforce.contains(25), "READ needs a filehandle");
    assert!(must_allow.contains(4) && must_allow.contains(14));
    assert!(!must_allow.contains(38), "all WRITEs of a Linux client would come with krb5i");
}

#[test]
fn it_needs_integrity_or_privacy() {
    // RFC 8881 section 18.35.3
    let mut world = World::new();
    for protection in [Protection::None, Protection::Authentication] {
        let mut client = TestClient { protection, ..TestClient::machine("a") };
        assert_eq!(world.exchange_id(&mut client, 0), Err(Nfsstat4::NFS4ERR_INVAL));
    }
}

#[test]
fn exchange_id_from_another_principal_finds_the_client_in_use() {
    // RFC 8881 section 18.35.3
    let mut world = World::new();
    mounted(&mut world);
    let mut thief = TestClient { verifier: [9; 8], ..TestClient::new("a") };
    assert_eq!(world.exchange_id(&mut thief, 0), Err(Nfsstat4::NFS4ERR_CLID_INUSE));
    let mut weak = TestClient {
        protection: Protection::Authentication,
        protect: StateProtect::None,
        ..TestClient::machine("a")
    };
    assert_eq!(world.exchange_id(&mut weak, 0), Err(Nfsstat4::NFS4ERR_CLID_INUSE));
    let mut same = TestClient::machine("a");
    world.exchange_id(&mut same, 0).unwrap();
    world.pass(61);
    world.exchange_id(&mut thief, 0).unwrap();
}

#[test]
fn connections_are_not_bound_by_themselves() {
    // RFC 8881 section 18.46.3
    let mut world = World::new();
    let mut client = mounted(&mut world);
    world.renew(&mut client);
    client.connection = 2;
    let refused = world.sequence(&client, client.args());
    assert_eq!(refused.unwrap_err(), Nfsstat4::NFS4ERR_CONN_NOT_BOUND_TO_SESSION);
    world
        .state
        .sessions()
        .bind_conn_to_session(&client.caller(), &client.sessionid, ChannelDirection::Back)
        .unwrap();
    let refused = world.sequence(&client, client.args());
    assert_eq!(refused.unwrap_err(), Nfsstat4::NFS4ERR_CONN_NOT_BOUND_TO_SESSION);
    client.connection = 3;
    world
        .state
        .sessions()
        .bind_conn_to_session(&client.caller(), &client.sessionid, ChannelDirection::ForeOrBoth)
        .unwrap();
    world.renew(&mut client);
    let alice = TestClient { connection: 3, slot: client.slot, ..user(&client) };
    assert!(world.sequence(&alice, alice.args()).is_ok(), "users send over bound connections");
}

#[test]
fn a_client_that_reclaims_may_do_so_over_each_of_its_connections() {
    // RFC 8881 sections 8.4.2.1 and 18.46.3
    let mut world = World::new();
    let mut client = TestClient::machine("a");
    world.mount(&mut client);
    client.connection = 2;
    world.renew(&mut client);
    let destroyed = world.state.sessions().destroy_session(&client.caller(), &client.sessionid, None);
    assert_eq!(destroyed, Err(Nfsstat4::NFS4ERR_CONN_NOT_BOUND_TO_SESSION));
    complete_reclaims(&mut world, &client);
    for connection in [2, 3] {
        client.connection = connection;
        let refused = world.sequence(&client, client.args());
        assert_eq!(refused.unwrap_err(), Nfsstat4::NFS4ERR_CONN_NOT_BOUND_TO_SESSION);
    }
}

#[test]
fn a_client_whose_reclaim_is_refused_opens_anew_over_each_of_its_connections() {
    // RFC 8881 sections 8.4.3 and 18.46.3
    let mut world = World::new();
    let mut client = TestClient::machine("a");
    world.mount(&mut client);
    let reclaimed = world.open_as(&client, "o", 1, 3, 0, OpenClaim::Previous);
    assert_eq!(reclaimed, Err(Nfsstat4::NFS4ERR_NO_GRACE));
    world.upgrade();
    complete_reclaims(&mut world, &client);
    client.connection = 2;
    for seconds in [0, 59] {
        world.upgrade();
        world.pass(seconds);
        world.renew(&mut client);
        world.open(&client, "o", 1, 3, 0).unwrap();
    }
    let destroyed = world.state.sessions().destroy_session(&client.caller(), &client.sessionid, None);
    assert_eq!(destroyed, Err(Nfsstat4::NFS4ERR_CONN_NOT_BOUND_TO_SESSION));
    world.pass(1);
    let refused = world.sequence(&client, client.args());
    assert_eq!(refused.unwrap_err(), Nfsstat4::NFS4ERR_CONN_NOT_BOUND_TO_SESSION);
}

#[test]
fn a_closed_connection_has_to_be_bound_again() {
    // RFC 8881 section 18.34.4
    let mut world = World::new();
    let client = mounted(&mut world);
    world.state.sessions().connection_closed(client.connection);
    let refused = world.sequence(&client, client.args());
    assert_eq!(refused.unwrap_err(), Nfsstat4::NFS4ERR_CONN_NOT_BOUND_TO_SESSION);
}

#[test]
fn only_the_protected_machine_principal_maintains_sessions() {
    // RFC 8881 sections 2.10.8.3, 18.34.3 and 18.37.3
    let mut world = World::new();
    let mut client = mounted(&mut world);
    let key = world.key(&client);
    let alice = user(&client);
    let weak = TestClient {
        protection: Protection::Authentication,
        principal: client.principal.clone(),
        ..user(&client)
    };
    for intruder in [&alice, &weak] {
        let caller = intruder.caller();
        let bound =
            world.state.sessions().bind_conn_to_session(&caller, &client.sessionid, ChannelDirection::Fore);
        assert_eq!(bound, Err(Nfsstat4::NFS4ERR_WRONG_CRED));
        let created = world.state.create_session(world.now, &caller, &intruder.create_args(), 1);
        assert_eq!(created, Err(Nfsstat4::NFS4ERR_WRONG_CRED));
        let destroyed = world.state.sessions().destroy_session(&caller, &client.sessionid, None);
        assert_eq!(destroyed, Err(Nfsstat4::NFS4ERR_WRONG_CRED));
        let destroyed = world.state.destroy_clientid(&caller, client.clientid);
        assert_eq!(destroyed, Err(Nfsstat4::NFS4ERR_WRONG_CRED));
        let ops: OpSet = [53, CREATE_SESSION].into_iter().collect();
        let forbidden = world.state.client(key).unwrap().forbids(&caller);
        assert!(!forbidden.and(ops).is_empty());
        let ops: OpSet = [53, 22, 25].into_iter().collect();
        assert!(forbidden.and(ops).is_empty());
        assert!(!world.state.clients().machine_may(key, &caller, 4));
    }
    let caller = client.caller();
    assert!(world.state.client(key).unwrap().forbids(&caller).is_empty());
    assert!(
        world.state.clients().machine_may(key, &caller, 4)
            && !world.state.clients().machine_may(key, &caller, 18)
    );
    world.create_session(&mut client).unwrap();
    world.state.sessions().destroy_session(&client.caller(), &client.sessionid, None).unwrap();
}

#[test]
fn a_session_is_not_destroyed_over_a_connection_that_is_not_bound() {
    // RFC 8881 section 18.37.3
    let mut world = World::new();
    let mut client = mounted(&mut world);
    client.connection = 2;
    let destroyed = world.state.sessions().destroy_session(&client.caller(), &client.sessionid, None);
    assert_eq!(destroyed, Err(Nfsstat4::NFS4ERR_CONN_NOT_BOUND_TO_SESSION));
}

#[test]
fn without_protection_nothing_is_forbidden() {
    // RFC 8881 section 18.35.3
    let mut world = World::new();
    let client = world.ready("a");
    let key = world.key(&client);
    let alice = user(&client);
    assert_eq!(world.state.client(key).unwrap().forbids(&alice.caller()), OpSet::default());
    assert!(!world.state.clients().machine_may(key, &client.caller(), 4));
}
