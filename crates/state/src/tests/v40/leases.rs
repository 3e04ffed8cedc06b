//! Leases, restarts and the statuses of old stateids.

use super::*;
use nfs4::Nfsstat4::*;

/// As the record of a client stands on stable storage.
fn name_of(name: &str) -> Vec<u8> {
    [b"\0NFSv4.0\0", name.as_bytes()].concat()
}

#[test]
fn every_operation_that_names_the_client_renews_its_lease() {
    // RFC 7530 section 9.5
    let mut world = World::new();
    let client = ConfirmedClient::ready(&mut world, "a");
    let stateid = client.open(&mut world, 1, OpenClaim::New).unwrap();
    let key = client.key(&world);
    world.state.with(|state, effects| state.opens().close(key, &stateid, &1, effects)).unwrap();
    let (idle, alive) =
        (ConfirmedClient::ready(&mut world, "idle"), ConfirmedClient::ready(&mut world, "alive"));
    let held = alive.open(&mut world, 2, OpenClaim::New).unwrap();
    for _ in 0..3 {
        world.pass(40);
        client.renew(&world).unwrap();
        world.state.v40().client_of_stateid_40(world.now, &root(), &held).unwrap();
        world.state.expire(world.now);
    }
    assert!(world.state.v40().client_of_id_40(world.now, &root(), client.clientid).is_ok());
    assert!(world.state.v40().client_of_id_40(world.now, &root(), alive.clientid).is_ok());
    assert_eq!(world.state.v40().client_of_id_40(world.now, &root(), idle.clientid), Err(NFS4ERR_EXPIRED));
}

#[test]
fn a_silent_client_keeps_its_state_until_another_client_needs_it() {
    // RFC 7530 section 9.6.3.1
    let mut world = World::new();
    let client = ConfirmedClient::ready(&mut world, "a");
    let stateid = client.open(&mut world, 1, OpenClaim::New).unwrap();
    world.pass(3600);
    world.state.expire(world.now);
    assert!(
        world.state.v40().client_of_stateid_40(world.now, &root(), &stateid).is_ok(),
        "it has come back in time"
    );
    world.pass(3600);
    assert!(world.state.free_expired(world.now, 1));
    assert_eq!(world.state.v40().client_of_stateid_40(world.now, &root(), &stateid), Err(NFS4ERR_EXPIRED));
}

#[test]
fn stateids_of_earlier_starts_are_stale_made_up_ones_bad_and_zero_is_no_wild_card() {
    // RFC 7530 sections 9.1.4.2 and 9.1.4.4
    let mut world = World::with(Limits::default(), boot(5, &[]));
    let client = ConfirmedClient::ready(&mut world, "a");
    let stateid = client.open(&mut world, 1, OpenClaim::New).unwrap();
    let look = |stateid: Stateid4| world.state.v40().client_of_stateid_40(world.now, &root(), &stateid).err();
    let with_epoch = |epoch: u32| {
        let mut other = stateid.other;
        other[..4].copy_from_slice(&epoch.to_be_bytes());
        Stateid4 { other, ..stateid }
    };
    assert_eq!(look(stateid), None);
    assert_eq!(look(with_epoch(4)), Some(NFS4ERR_STALE_STATEID));
    assert_eq!(look(with_epoch(6)), Some(NFS4ERR_BAD_STATEID));
    assert_eq!(look(with_epoch(0)), Some(NFS4ERR_BAD_STATEID));
    assert_eq!(look(Stateid4 { seqid: 0, ..stateid }), Some(NFS4ERR_OLD_STATEID));
    for special in [Stateid4::ANONYMOUS, Stateid4::READ_BYPASS, Stateid4::CURRENT, Stateid4::INVALID] {
        assert_eq!(look(special), Some(NFS4ERR_BAD_STATEID));
    }
}

#[test]
fn a_client_is_recorded_when_it_opens_something_and_forgotten_when_it_goes() {
    // RFC 7530 section 9.6.3.4
    let mut world = World::new();
    let client = ConfirmedClient::ready(&mut world, "a");
    let key = client.key(&world);
    assert!(!world.state.v40().is_recorded_40(key));
    world.state.with(|state, effects| state.v40().record_client_40(key, effects));
    assert!(world.state.v40().is_recorded_40(key));
    assert_eq!(world.records(), [recorded(name_of("a"))]);
    // The next incarnation is the same client.
    let mut again = ConfirmedClient { verifier: [2; 8], ..ConfirmedClient::new("a") };
    again.mount(&mut world);
    assert!(world.state.v40().is_recorded_40(again.key(&world)));
    assert_eq!(world.records(), []);
    world.pass(61);
    world.state.expire(world.now);
    assert_eq!(world.records(), [Effect::ForgetClient { owner: name_of("a") }]);
}

#[test]
fn a_client_with_a_revoked_open_is_not_recorded_before_its_next_incarnation() {
    // RFC 7530 section 9.6.3.4: NFSv4.0 has no FREE_STATEID.
    let mut world = World::new();
    let client = ConfirmedClient::ready(&mut world, "a");
    let key = client.key(&world);
    let record = |world: &World, key| {
        assert!(!world.state.v40().is_recorded_40(key));
        world.state.with(|state, effects| state.v40().record_client_40(key, effects));
    };
    record(&world, key);
    let stateid = client.open(&mut world, 1, OpenClaim::New).unwrap();
    world.records();
    world.state.with(|state, effects| state.leases().revoke(stateid.other, effects)).unwrap();
    assert_eq!(world.records(), [Effect::ForgetClient { owner: name_of("a") }]);
    record(&world, key);
    assert_eq!(world.records(), []);
    let mut again = ConfirmedClient { verifier: [2; 8], ..ConfirmedClient::new("a") };
    again.mount(&mut world);
    record(&world, again.key(&world));
    assert_eq!(world.records(), [recorded(name_of("a"))]);
}

#[test]
fn after_a_restart_recorded_clients_reclaim_and_the_others_wait() {
    // RFC 7530 section 9.6.2
    let mut world = World::with(Limits::default(), boot(2, &[&name_of("a"), &name_of("b")]));
    let (a, c) = (ConfirmedClient::ready(&mut world, "a"), ConfirmedClient::ready(&mut world, "c"));
    assert_eq!(a.open(&mut world, 1, OpenClaim::New), Err(NFS4ERR_GRACE));
    assert_eq!(c.open(&mut world, 1, OpenClaim::Previous), Err(NFS4ERR_RECLAIM_BAD));
    assert!(a.open(&mut world, 1, OpenClaim::Previous).is_ok());
    world.pass(66);
    a.renew(&world).unwrap();
    world.state.expire(world.now);
    assert_eq!(world.records(), [Effect::ForgetClient { owner: name_of("b") }, Effect::GraceEnded]);
    assert_eq!(a.open(&mut world, 2, OpenClaim::Previous), Err(NFS4ERR_NO_GRACE));
    assert!(a.open(&mut world, 2, OpenClaim::New).is_ok(), "there is no RECLAIM_COMPLETE to wait for");
}

#[test]
fn a_client_that_reclaims_nothing_is_forgotten_with_the_grace_period_and_recorded_anew() {
    // RFC 7530 section 9.6.3.4
    let mut world = World::with(Limits::default(), boot(2, &[&name_of("a")]));
    let client = ConfirmedClient::ready(&mut world, "a");
    let key = client.key(&world);
    assert!(world.state.v40().is_recorded_40(key));
    world.pass(59);
    client.renew(&world).unwrap();
    world.pass(2);
    world.state.expire(world.now);
    assert_eq!(world.records(), [Effect::ForgetClient { owner: name_of("a") }, Effect::GraceEnded]);
    assert!(!world.state.v40().is_recorded_40(key));
}

#[test]
fn a_stranger_does_not_renew_a_lease_and_has_no_use_of_a_client_that_is_silent() {
    // RFC 7530 section 9.5
    let mut world = World::new();
    let client = ConfirmedClient::ready(&mut world, "a");
    let stateid = client.open(&mut world, 1, OpenClaim::New).unwrap();
    let user = Principal::new("gss:user@R");
    let address = [198, 51, 100, 1].into();
    let far = Caller { address, principal: &user, ..root() };
    let near = Caller { principal: &user, ..root() };
    let id = client.clientid;
    world.pass(59);
    assert!(world.state.v40().client_of_id_40(world.now, &far, id).is_ok(), "a user with another address");
    assert!(world.state.v40().client_of_stateid_40(world.now, &far, &stateid).is_ok());
    assert!(world.state.v40().owner_of_open(world.now, &far, &stateid).is_ok());
    world.pass(2);
    assert_eq!(world.state.v40().client_of_id_40(world.now, &far, id), Err(NFS4ERR_EXPIRED));
    assert_eq!(world.state.v40().client_of_stateid_40(world.now, &far, &stateid), Err(NFS4ERR_EXPIRED));
    assert_eq!(world.state.v40().owner_of_open(world.now, &far, &stateid).err(), Some(NFS4ERR_EXPIRED));
    assert_eq!(world.state.v40().renew_40(world.now, &far, id), Err(NFS4ERR_ACCESS));
    // A user at the client's own address does.
    assert!(world.state.v40().client_of_id_40(world.now, &near, id).is_ok());
    world.pass(59);
    assert!(world.state.v40().client_of_stateid_40(world.now, &far, &stateid).is_ok());
}

#[test]
fn an_auth_sys_caller_does_not_keep_a_dead_kerberos_client_alive_from_its_own_address() {
    // RFC 7530 section 9.5
    let mut world = World::new();
    let principal = Principal::new("gss:alice@R");
    let alice = Caller { principal: &principal, protection: Protection::Privacy, ..root() };
    let (random, now) = (world.random(), world.now);
    let args = Setclientid { id: b"a", verifier: [1; 8] };
    let set = world
        .state
        .with(|state, effects| state.v40().setclientid(now, &alice, &args, random, effects))
        .unwrap();
    let confirm = |state: &shared::TestState, effects: &mut Effects<u64>| {
        state.v40().setclientid_confirm(now, &alice, set.clientid, set.confirm, effects)
    };
    world.state.with(confirm).unwrap();
    let key = world.state.v40().client_of_id_40(now, &alice, set.clientid).unwrap();
    world.state.v40().state_owner(now, key, OwnerKind::Lock, b"l").unwrap();
    let release = |caller: &Caller<'_>, now| {
        world.state.v40().client_of_id_40(now, caller, set.clientid)?;
        world.state.with(|state, effects| state.v40().release_lockowner(key, caller, b"l", effects))
    };
    assert_eq!(release(&root(), now), Err(NFS4ERR_STALE_CLIENTID));
    let late = now + std::time::Duration::from_secs(61);
    assert_eq!(release(&root(), late), Err(NFS4ERR_EXPIRED));
    assert_eq!(release(&alice, late), Ok(()));
}

#[test]
fn users_by_auth_sys_of_a_client_that_kerberos_created_renew_its_lease_and_release_lock_owners() {
    // RFC 7530 section 9.5: Linux with a keytab creates the client of a sec=sys mount by its
    // machine's principal.
    let mut world = World::new();
    let principal = Principal::new("gss:host@R");
    let machine = Caller { principal: &principal, protection: Protection::Integrity, ..root() };
    let (random, now) = (world.random(), world.now);
    let args = Setclientid { id: b"a", verifier: [1; 8] };
    let set = world
        .state
        .with(|state, effects| state.v40().setclientid(now, &machine, &args, random, effects))
        .unwrap();
    let confirm = |state: &shared::TestState, effects: &mut Effects<u64>| {
        state.v40().setclientid_confirm(now, &machine, set.clientid, set.confirm, effects)
    };
    world.state.with(confirm).unwrap();
    let client = ConfirmedClient { clientid: set.clientid, ..ConfirmedClient::new("a") };
    let stateid = client.open(&mut world, 1, OpenClaim::New).unwrap();
    let key = world.state.v40().client_of_id_40(world.now, &root(), set.clientid).unwrap();
    world.state.v40().state_owner(world.now, key, OwnerKind::Lock, b"l").unwrap();
    let address = [198, 51, 100, 1].into();
    let far = Caller { address, ..root() };
    let release = |caller: &Caller<'_>| {
        world.state.with(|state, effects| state.v40().release_lockowner(key, caller, b"l", effects))
    };
    assert_eq!(release(&far), Err(NFS4ERR_STALE_CLIENTID));
    assert_eq!(release(&root()), Ok(()));
    for _ in 0..3 {
        world.pass(40);
        world.state.v40().client_of_stateid_40(world.now, &root(), &stateid).unwrap();
    }
    world.pass(61);
    assert_eq!(world.state.v40().client_of_stateid_40(world.now, &far, &stateid), Err(NFS4ERR_EXPIRED));
}

#[test]
fn stateids_do_not_tell_of_each_other() {
    // RFC 7530 section 9.1.4
    let mut world = World::new();
    let client = ConfirmedClient::ready(&mut world, "a");
    let all: Vec<Stateid4> =
        (0..100).map(|file| client.open(&mut world, file, OpenClaim::New).unwrap()).collect();
    let place = |stateid: &Stateid4| u64::from_be_bytes(stateid.other[4..].try_into().unwrap());
    let steps: std::collections::BTreeSet<u64> =
        all.windows(2).map(|pair| place(&pair[1]).wrapping_sub(place(&pair[0]))).collect();
    assert_eq!(steps.len(), 99);
    for bit in 32..96 {
        let mut other = all[0].other;
        other[bit / 8] ^= 1 << (bit % 8);
        let forged = Stateid4 { other, ..all[0] };
        let found = world.state.v40().client_of_stateid_40(world.now, &root(), &forged);
        assert_eq!(found, Err(NFS4ERR_BAD_STATEID), "{bit}");
    }
}

#[test]
fn a_revoked_open_gets_admin_revoked() // RFC 7530 section 13.1.5.1
{
    let mut world = World::new();
    let client = ConfirmedClient::ready(&mut world, "a");
    let stateid = client.open(&mut world, 1, OpenClaim::New).unwrap();
    world.state.with(|state, effects| state.leases().revoke(stateid.other, effects)).unwrap();
    let v40 = || world.state.v40();
    let found = v40().client_of_stateid_40(world.now, &root(), &stateid);
    assert_eq!(found, Err(NFS4ERR_ADMIN_REVOKED));
    assert_eq!(v40().owner_of_open(world.now, &root(), &stateid).err(), Some(NFS4ERR_ADMIN_REVOKED));
}
