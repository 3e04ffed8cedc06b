//! SETCLIENTID, SETCLIENTID_CONFIRM and RENEW.

use super::*;
use nfs4::Nfsstat4::*;

#[test]
fn a_client_is_of_use_when_it_is_confirmed() {
    // RFC 7530 section 16.34.5, third case
    let mut world = World::new();
    let client = ConfirmedClient::new("a");
    let set = client.set(&mut world).unwrap();
    assert_ne!(set.confirm, [0; 8]);
    assert!(world.state.v40().client_of_id_40(world.now, &root(), set.clientid).is_err());
    let wrong = SetclientidOk { confirm: [9; 8], ..set };
    assert_eq!(client.confirm(&world, wrong), Err(NFS4ERR_STALE_CLIENTID));
    let stranger = ConfirmedClient { principal: Principal::new("sys:7"), ..ConfirmedClient::new("a") };
    assert_eq!(stranger.confirm(&world, set), Err(NFS4ERR_CLID_INUSE));
    assert_eq!(client.confirm(&world, set), Ok(()));
    assert!(world.state.v40().client_of_id_40(world.now, &root(), set.clientid).is_ok());
    // Second case: the answer was lost.
    assert_eq!(client.confirm(&world, set), Ok(()));
    assert_eq!(stranger.confirm(&world, set), Err(NFS4ERR_CLID_INUSE));
}

#[test]
fn an_unconfirmed_record_is_replaced_by_the_next() {
    // RFC 7530 section 16.33.5, last case
    let mut world = World::new();
    let client = ConfirmedClient::new("a");
    let first = client.set(&mut world).unwrap();
    let second = client.set(&mut world).unwrap();
    assert_ne!(first.clientid, second.clientid);
    assert_ne!(first.confirm, second.confirm);
    assert_eq!(client.confirm(&world, first), Err(NFS4ERR_STALE_CLIENTID));
    assert_eq!(client.confirm(&world, second), Ok(()));
    assert_eq!(world.state.counts().clients, 1);
}

#[test]
fn an_update_of_the_callback_keeps_the_client_id_and_its_state() {
    // RFC 7530 sections 16.33.5, second case, and 16.34.5, first case
    let mut world = World::new();
    let client = ConfirmedClient::ready(&mut world, "a");
    client.open(&mut world, 1, OpenClaim::New).unwrap();
    let before = SetclientidOk { clientid: client.clientid, confirm: [0; 8] };
    let first = client.set(&mut world).unwrap();
    let second = client.set(&mut world).unwrap();
    assert_eq!((first.clientid, second.clientid), (before.clientid, before.clientid));
    assert_ne!(first.confirm, second.confirm);
    assert_eq!(client.confirm(&world, first), Err(NFS4ERR_STALE_CLIENTID), "the second took its place");
    assert_eq!(client.confirm(&world, second), Ok(()));
    assert_eq!(client.confirm(&world, second), Ok(()));
    assert_eq!(world.state.counts().opens, 1);
}

#[test]
fn a_restarted_client_loses_its_old_state_when_it_confirms() {
    // RFC 7530 sections 16.33.5, third and fourth case, and 16.34.5
    let mut world = World::new();
    let client = ConfirmedClient::ready(&mut world, "a");
    let stateid = client.open(&mut world, 1, OpenClaim::New).unwrap();
    let mut again = ConfirmedClient { verifier: [2; 8], ..ConfirmedClient::new("a") };
    let first = again.set(&mut world).unwrap();
    let second = again.set(&mut world).unwrap();
    assert!(first.clientid != second.clientid && second.clientid != client.clientid);
    assert_eq!(again.confirm(&world, first), Err(NFS4ERR_STALE_CLIENTID));
    assert_eq!(world.state.counts().opens, 1, "nothing is lost before");
    assert_eq!(again.confirm(&world, second), Ok(()));
    again.clientid = second.clientid;
    assert_eq!(world.state.counts().opens, 0);
    assert_eq!(world.state.v40().client_of_id_40(world.now, &root(), client.clientid), Err(NFS4ERR_EXPIRED));
    assert_eq!(world.state.v40().client_of_stateid_40(world.now, &root(), &stateid), Err(NFS4ERR_EXPIRED));
    assert_eq!(world.state.v40().owner_of_open(world.now, &root(), &stateid).err(), Some(NFS4ERR_EXPIRED));
    again.key(&world);
}

#[test]
fn another_principal_gets_the_name_of_a_client_only_when_that_has_nothing_or_no_lease() {
    // RFC 7530 section 16.33.5, first case
    let mut world = World::new();
    let client = ConfirmedClient::ready(&mut world, "a");
    let other = ConfirmedClient { principal: Principal::new("gss:b@R"), ..ConfirmedClient::new("a") };
    client.open(&mut world, 1, OpenClaim::New).unwrap();
    assert_eq!(other.set(&mut world), Err(NFS4ERR_CLID_INUSE));
    world.pass(59);
    assert_eq!(other.set(&mut world), Err(NFS4ERR_CLID_INUSE));
    world.pass(2);
    assert!(other.set(&mut world).is_ok());
    assert_eq!(world.state.counts().opens, 0);
    let idle = ConfirmedClient::ready(&mut world, "b");
    assert!(
        ConfirmedClient { principal: Principal::new("gss:b@R"), ..ConfirmedClient::new("b") }
            .set(&mut world)
            .is_ok()
    );
    assert_eq!(world.state.v40().client_of_id_40(world.now, &root(), idle.clientid), Err(NFS4ERR_EXPIRED));
}

#[test]
fn clients_of_4_0_and_of_4_1_with_one_name_are_two() {
    // RFC 8881 section 2.4.1: a server may compare them, and does not have to
    let mut world = World::new();
    let old = ConfirmedClient::ready(&mut world, "a");
    let new = world.ready("a");
    assert_eq!(world.state.counts().clients, 2);
    assert_ne!(old.clientid, new.clientid);
    // An id of the one is none of the other.
    assert!(world.state.v40().client_of_id_40(world.now, &root(), new.clientid).is_err());
    let foreign = SetclientidOk { clientid: new.clientid, confirm: [0; 8] };
    assert_eq!(old.confirm(&world, foreign), Err(NFS4ERR_STALE_CLIENTID));
    let stateid = world.open(&new, "o", 1, 1, 0).unwrap();
    assert_eq!(
        world.state.v40().client_of_stateid_40(world.now, &root(), &stateid),
        Err(NFS4ERR_BAD_STATEID)
    );
    let mut taken = TestClient { clientid: old.clientid, sequenceid: 1, ..TestClient::new("a") };
    assert_eq!(world.create_session(&mut taken), Err(NFS4ERR_STALE_CLIENTID));
    assert_eq!(world.state.destroy_clientid(&taken.caller(), old.clientid), Err(NFS4ERR_STALE_CLIENTID));
    // The name under which the one is kept is no co_ownerid.
    let mut imposter = TestClient::new("\0NFSv4.0\0a");
    assert_eq!(world.exchange_id(&mut imposter, 0), Err(NFS4ERR_INVAL));
}

#[test]
fn ids_that_were_never_given_out_are_stale_and_those_of_clients_that_are_gone_expired() {
    // RFC 7530 sections 9.1.1 and 13.1.5.3
    let mut world = World::with(Limits::default(), boot(5, &[]));
    let client = ConfirmedClient::ready(&mut world, "a");
    let look = |world: &World, id| world.state.v40().client_of_id_40(world.now, &root(), id);
    for id in [0, 1, client.clientid ^ 1 << 32, client.clientid ^ 1, u64::MAX] {
        assert_eq!(look(&world, id), Err(NFS4ERR_STALE_CLIENTID), "{id:x}");
    }
    world.pass(61);
    world.state.expire(world.now);
    assert_eq!(look(&world, client.clientid), Err(NFS4ERR_EXPIRED));
    assert_eq!(client.renew(&world), Err(NFS4ERR_EXPIRED));
}

#[test]
fn renew_accepts_the_clients_principal_and_principals_with_opens() {
    // RFC 7530 section 16.28.5
    let mut world = World::new();
    let client = ConfirmedClient::ready(&mut world, "a");
    let user = ConfirmedClient {
        principal: Principal::new("gss:u@R"),
        clientid: client.clientid,
        ..ConfirmedClient::new("a")
    };
    assert_eq!(client.renew(&world), Ok(()));
    assert_eq!(user.renew(&world), Err(NFS4ERR_ACCESS));
    let stateid = user.open(&mut world, 1, OpenClaim::New).unwrap();
    assert_eq!(user.renew(&world), Ok(()));
    let key = client.key(&world);
    world.state.with(|state, effects| state.opens().close(key, &stateid, &1, effects)).unwrap();
    assert_eq!(user.renew(&world), Err(NFS4ERR_ACCESS));
}
