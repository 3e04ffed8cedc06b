//! Connections and the backchannel.

use super::world::*;
use crate::*;
use nfs4::Nfsstat4;

#[test]
fn without_protection_a_sequence_associates_its_connection() {
    // RFC 8881 section 18.34.3
    let mut world = World::new();
    let mut client = world.ready("a");
    client.connection = 2;
    world.renew(&mut client);
    let bound = world.state.sessions().bind_conn_to_session(
        &client.caller(),
        &client.sessionid,
        ChannelDirection::BackOrBoth,
    );
    assert_eq!(bound, Ok(Bound::Both), "what SEQUENCE associated can still be bound");
}

#[test]
fn binding_again_changes_nothing_and_other_channels_are_refused() {
    // RFC 8881 section 18.34.3
    let mut world = World::new();
    let mut client = world.ready("a");
    client.connection = 2;
    let bind = |client: &TestClient, direction| {
        world.state.sessions().bind_conn_to_session(&client.caller(), &client.sessionid, direction)
    };
    assert_eq!(bind(&client, ChannelDirection::Fore), Ok(Bound::Fore));
    assert_eq!(bind(&client, ChannelDirection::Fore), Ok(Bound::Fore));
    assert_eq!(bind(&client, ChannelDirection::ForeOrBoth), Ok(Bound::Fore));
    assert_eq!(bind(&client, ChannelDirection::Back), Err(Nfsstat4::NFS4ERR_INVAL));
    assert_eq!(bind(&client, ChannelDirection::BackOrBoth), Err(Nfsstat4::NFS4ERR_INVAL));
    client.connection = 3;
    assert_eq!(bind(&client, ChannelDirection::Back), Ok(Bound::Back));
    client.sessionid[15] ^= 1;
    assert_eq!(bind(&client, ChannelDirection::Fore), Err(Nfsstat4::NFS4ERR_BADSESSION));
}

#[test]
fn the_backchannel_is_gone_with_its_connection_and_comes_back_with_another() {
    // RFC 8881 section 2.10.3.1
    let mut world = World::new();
    let mut client = world.ready("a");
    let key = world.key(&client);
    let call = world.state.callbacks().begin_callback(key).unwrap();
    assert_eq!(call.sessionid(), client.sessionid);
    assert_eq!((call.channel.connection, call.channel.program), (1, 0x4000_0000));
    world.state.callbacks().end_callback(call, CallbackEnd::Answered);
    world.state.sessions().connection_closed(1);
    assert_eq!(world.state.callbacks().begin_callback(key).unwrap_err(), NoBackChannel::Down);
    client.connection = 5;
    world
        .state
        .sessions()
        .bind_conn_to_session(&client.caller(), &client.sessionid, ChannelDirection::BackOrBoth)
        .unwrap();
    world
        .state
        .callbacks()
        .backchannel_ctl(&client.sessionid, 9, &vec![CallbackSecurity::None; 100])
        .unwrap();
    let call = world.state.callbacks().begin_callback(key).unwrap();
    assert_eq!((call.channel.connection, call.channel.program), (5, 9));
    world.state.callbacks().end_callback(call, CallbackEnd::Answered);
    let session = world.state.sessions().session(&client.sessionid).unwrap();
    assert_eq!(session.callback.lock().security.len(), 8);
}

#[test]
fn a_session_forgets_its_oldest_connection_rather_than_grow() {
    let limits = Limits { connections_per_session_max: 4, ..Limits::default() };
    let mut world = World::with(limits, boot(1, &[]));
    let mut client = world.ready("a");
    for connection in 10..1000 {
        client.connection = connection;
        world.renew(&mut client);
    }
    assert_eq!(world.state.sessions.connection_lens(), (4, 4));
    (1..1000).for_each(|connection| world.state.sessions().connection_closed(connection));
    assert_eq!(world.state.sessions.connection_lens(), (0, 0));
}

#[test]
fn connections_that_only_carry_requests_do_not_displace_the_one_that_carries_callbacks() {
    let limits = Limits { connections_per_session_max: 4, ..Limits::default() };
    let mut world = World::with(limits, boot(1, &[]));
    let mut client = world.ready("a");
    for connection in 10..20 {
        client.connection = connection;
        world.renew(&mut client);
    }
    let bind = |client: &TestClient, direction| {
        world.state.sessions().bind_conn_to_session(&client.caller(), &client.sessionid, direction)
    };
    for connection in 20..30 {
        client.connection = connection;
        assert_eq!(bind(&client, ChannelDirection::Fore), Ok(Bound::Fore));
    }
    let key = world.key(&client);
    let call = world.state.callbacks().begin_callback(key).unwrap();
    assert_eq!(call.channel.connection, 1, "it is the oldest");
}
