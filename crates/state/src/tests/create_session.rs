//! CREATE_SESSION and the ends of sessions and clients.

use super::world::*;
use crate::*;
use nfs4::Nfsstat4;

fn exchanged(world: &mut World, name: &str) -> TestClient {
    let mut client = TestClient::new(name);
    world.exchange_id(&mut client, 0).unwrap();
    client
}

fn create(world: &mut World, client: &TestClient, args: &CreateSession) -> Result<CreateSessionOk> {
    let random = world.random();
    world.state.create_session(world.now, &client.caller(), args, random)
}

#[test]
fn a_retry_gets_the_same_session() {
    // RFC 8881 section 18.36.4
    let mut world = World::new();
    let client = exchanged(&mut world, "a");
    let first = create(&mut world, &client, &client.create_args()).unwrap();
    assert_eq!(first.sequence, client.sequenceid);
    assert_eq!(create(&mut world, &client, &client.create_args()), Ok(first));
    assert_eq!(world.state.counts().sessions, 1);
}

#[test]
fn a_sequence_id_that_is_neither_the_last_nor_the_next_is_misordered() {
    // RFC 8881 section 18.36.4
    let mut world = World::new();
    let client = exchanged(&mut world, "a");
    for wrong in [
        client.sequenceid.wrapping_add(1),
        client.sequenceid.wrapping_sub(1),
        client.sequenceid.wrapping_sub(2),
    ] {
        let args = CreateSession { sequence: wrong, ..client.create_args() };
        assert_eq!(create(&mut world, &client, &args), Err(Nfsstat4::NFS4ERR_SEQ_MISORDERED));
    }
    create(&mut world, &client, &client.create_args()).unwrap();
}

#[test]
fn a_session_without_room_is_tried_anew_with_the_same_sequence_number() {
    // RFC 8881 section 15.1.1.3
    let mut world = World::with(Limits { reply_cache_max: 64 << 10, ..Limits::default() }, boot(1, &[]));
    world.pass(100);
    let refused = (0..1000).find_map(|number| {
        let mut client = exchanged(&mut world, &format!("{number}"));
        match create(&mut world, &client, &client.create_args()) {
            Ok(made) => {
                client.sessionid = made.sessionid;
                world.renew(&mut client);
                None
            }
            Err(status) => Some((client, status)),
        }
    });
    let (client, status) = refused.expect("memory is bounded");
    assert_eq!(status, Nfsstat4::NFS4ERR_DELAY);
    assert_eq!(create(&mut world, &client, &client.create_args()), Err(Nfsstat4::NFS4ERR_DELAY));
    // The sessions of the others become idle.
    world.pass(40);
    let made = create(&mut world, &client, &client.create_args()).unwrap();
    assert_eq!(create(&mut world, &client, &client.create_args()), Ok(made));
}

#[test]
fn a_failure_is_cached_too_and_does_not_confirm() {
    // RFC 8881 section 18.36.4
    let mut world = World::new();
    let client = exchanged(&mut world, "a");
    let small = ChannelAttrs { response_size: 20, ..CHANNEL };
    let args = CreateSession { fore: small, ..client.create_args() };
    for _ in 0..2 {
        assert_eq!(create(&mut world, &client, &args), Err(Nfsstat4::NFS4ERR_TOOSMALL));
    }
    let next = CreateSession { sequence: client.sequenceid.wrapping_add(1), ..client.create_args() };
    let mut again = TestClient::new("a");
    assert_eq!(world.exchange_id(&mut again, 0x4000_0000), Err(Nfsstat4::NFS4ERR_NOENT));
    create(&mut world, &client, &next).unwrap();
}

#[test]
fn arguments_may_be_corrected_with_the_same_sequence_id() {
    // RFC 8881 section 18.36.4: a retry fails again; one that differs is no retry
    let mut world = World::new();
    let client = exchanged(&mut world, "a");
    let wrong = CreateSession { flags: 1 << 9, ..client.create_args() };
    assert_eq!(create(&mut world, &client, &wrong), Err(Nfsstat4::NFS4ERR_INVAL));
    let first = create(&mut world, &client, &client.create_args()).unwrap();
    assert_eq!(create(&mut world, &client, &wrong), Ok(first));
    assert_eq!(world.state.counts().sessions, 1);
}

#[test]
fn a_backchannel_that_carries_no_callback_is_too_small_whether_it_is_wanted_now_or_not() {
    // RFC 8881 section 18.36.3
    let mut world = World::new();
    let client = exchanged(&mut world, "a");
    for small in [
        ChannelAttrs { request_size: 10, ..CHANNEL },
        ChannelAttrs { response_size: 10, ..CHANNEL },
        ChannelAttrs { operations: 1, ..CHANNEL },
    ] {
        for flags in [0, 2] {
            let args = CreateSession { flags, back: small, ..client.create_args() };
            assert_eq!(create(&mut world, &client, &args), Err(Nfsstat4::NFS4ERR_TOOSMALL));
        }
    }
    create(&mut world, &client, &client.create_args()).unwrap();
}

#[test]
fn a_client_id_of_an_earlier_start_is_stale() {
    // RFC 8881 section 18.36.4
    let mut world = World::new();
    let mut client = world.ready("a");
    let mut restarted = World::with(Limits::default(), boot(2, &[]));
    assert_eq!(restarted.create_session(&mut client), Err(Nfsstat4::NFS4ERR_STALE_CLIENTID));
    assert_eq!(restarted.sequence(&client, client.args()).unwrap_err(), Nfsstat4::NFS4ERR_BADSESSION);
}

#[test]
fn only_its_principal_confirms_a_client_id() {
    // RFC 8881 section 18.36.4
    let mut world = World::new();
    let client = exchanged(&mut world, "a");
    let thief = TestClient { principal: Principal::new("sys:9"), ..TestClient::new("a") };
    assert_eq!(create(&mut world, &thief, &client.create_args()), Err(Nfsstat4::NFS4ERR_CLID_INUSE));
    create(&mut world, &client, &client.create_args()).unwrap();
}

#[test]
fn channels_are_negotiated_down_and_never_up() {
    // RFC 8881 section 18.36.3
    let limits = Limits {
        slots_max: 4,
        request_size_max: 5000,
        response_cached_max: 600,
        operations_max: 8,
        ..Limits::default()
    };
    let mut world = World::with(limits, boot(1, &[]));
    let client = exchanged(&mut world, "a");
    let fore = ChannelAttrs { header_pad_size: 12, response_size: 3000, ..CHANNEL };
    let ok = create(&mut world, &client, &CreateSession { fore, flags: 7, ..client.create_args() }).unwrap();
    assert_eq!((ok.fore.header_pad_size, ok.fore.requests, ok.fore.operations), (0, 4, 8));
    assert_eq!((ok.fore.request_size, ok.fore.response_size, ok.fore.response_cached), (5000, 3000, 600));
    assert_eq!((ok.back.requests, ok.back.operations), (CHANNEL.requests, CHANNEL.operations));
    assert_eq!(ok.flags, 2, "a backchannel, but neither persistence nor RDMA");
}

#[test]
fn unknown_flags_are_refused() {
    // RFC 8881 section 18.36.3
    let mut world = World::new();
    let client = exchanged(&mut world, "a");
    let args = CreateSession { flags: 8, ..client.create_args() };
    assert_eq!(create(&mut world, &client, &args), Err(Nfsstat4::NFS4ERR_INVAL));
}

#[test]
fn a_destroyed_session_is_gone_and_a_client_without_sessions_can_go() {
    // RFC 8881 sections 18.37 and 18.50
    let mut world = World::new();
    let mut client = world.ready("a");
    let stateid = world.open(&client, "o", 1, 3, 0).unwrap();
    let key = world.key(&client);
    assert_eq!(
        world.state.destroy_clientid(&client.caller(), client.clientid),
        Err(Nfsstat4::NFS4ERR_CLIENTID_BUSY)
    );
    let begun = world.begin(&mut client);
    world
        .state
        .sessions()
        .destroy_session(&client.caller(), &client.sessionid, Some(&client.sessionid))
        .unwrap();
    world.state.sessions().finish(begun.token, Some(b"reply"));
    assert_eq!(world.sequence(&client, client.args()).unwrap_err(), Nfsstat4::NFS4ERR_BADSESSION);
    assert_eq!(
        world.state.destroy_clientid(&client.caller(), client.clientid),
        Err(Nfsstat4::NFS4ERR_CLIENTID_BUSY)
    );
    world.state.close(key, &stateid, &1).unwrap();
    world.state.destroy_clientid(&client.caller(), client.clientid).unwrap();
    assert_eq!(
        world.state.destroy_clientid(&client.caller(), client.clientid),
        Err(Nfsstat4::NFS4ERR_STALE_CLIENTID)
    );
    assert_eq!(world.state.counts(), Counts::default());
}

#[test]
fn a_session_with_other_running_slots_is_not_destroyed() {
    // RFC 8881 section 18.37.3
    let mut world = World::new();
    let mut client = world.ready("a");
    let begun = world.begin(&mut client);
    let destroyed = world.state.sessions().destroy_session(&client.caller(), &client.sessionid, None);
    assert_eq!(destroyed, Err(Nfsstat4::NFS4ERR_DELAY));
    world.state.sessions().finish(begun.token, None);
    world.state.sessions().destroy_session(&client.caller(), &client.sessionid, None).unwrap();
}

#[test]
fn the_reply_cache_of_a_destroyed_session_is_given_back() {
    let mut world = World::new();
    let mut client = world.ready("a");
    let begun = world.begin(&mut client);
    world.state.sessions().finish(begun.token, Some(&[0; 500]));
    assert_eq!(world.state.counts().reply_cache, 500);
    assert!(world.state.counts().session_memory >= 500);
    world.state.sessions().destroy_session(&client.caller(), &client.sessionid, None).unwrap();
    assert_eq!((world.state.counts().reply_cache, world.state.counts().session_memory), (0, 0));
}
