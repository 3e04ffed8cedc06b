//! Slots of the backchannel, and its flags in SEQUENCE.

use super::world::*;
use crate::*;
use nfs4::{
    SEQ4_STATUS_BACKCHANNEL_FAULT, SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRED, SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRING,
    SEQ4_STATUS_CB_PATH_DOWN, SEQ4_STATUS_CB_PATH_DOWN_SESSION,
};

/// sr_status_flags of the client's next SEQUENCE.
fn flags(world: &mut World, client: &mut TestClient) -> u32 {
    let begun = world.begin(client);
    let flags = begun.reply.status_flags;
    world.state.sessions().finish(begun.token, None);
    flags
}

fn bind(world: &World, client: &TestClient) {
    let direction = ChannelDirection::BackOrBoth;
    world.state.sessions().bind_conn_to_session(&client.caller(), &client.sessionid, direction).unwrap();
}

#[test]
fn callbacks_at_once_have_slots_of_their_own_and_each_slot_counts() {
    // RFC 8881 section 2.10.6.1
    let mut world = World::new();
    let client = world.ready("a");
    let key = world.key(&client);
    let calls: Vec<BackCall> = (0..8).map(|_| world.state.callbacks().begin_callback(key).unwrap()).collect();
    let places: Vec<(u32, u32)> = calls.iter().map(|call| (call.slotid, call.sequenceid)).collect();
    assert_eq!(places, (0..8).map(|slot| (slot, 1)).collect::<Vec<_>>());
    assert_eq!(
        world.state.callbacks().begin_callback(key).unwrap_err(),
        NoBackChannel::Busy,
        "CHANNEL has 8 slots"
    );
    for (call, end) in
        calls.into_iter().zip([CallbackEnd::Answered, CallbackEnd::Unknown].into_iter().cycle())
    {
        world.state.callbacks().end_callback(call, end);
    }
    let again = [
        world.state.callbacks().begin_callback(key).unwrap(),
        world.state.callbacks().begin_callback(key).unwrap(),
    ];
    assert_eq!((again[0].slotid, again[0].sequenceid), (0, 2));
    assert_eq!((again[1].slotid, again[1].sequenceid), (1, 1), "nobody knows whether the client saw it");
    assert_eq!(again[1].highest_slotid, 1);
    again.into_iter().for_each(|call| world.state.callbacks().end_callback(call, CallbackEnd::Answered));
}

#[test]
fn a_callback_goes_on_by_another_connection_of_its_session() {
    // RFC 8881 section 2.10.6.2
    let mut world = World::new();
    let mut client = world.ready("a");
    client.connection = 2;
    bind(&world, &client);
    let mut call = world.state.callbacks().begin_callback(world.key(&client)).unwrap();
    assert_eq!(call.channel.connection, 1);
    world.state.sessions().connection_closed(1);
    assert!(world.state.callbacks().redirect_callback(&mut call));
    assert_eq!((call.channel.connection, call.sequenceid), (2, 1));
    world.state.sessions().connection_closed(2);
    assert!(!world.state.callbacks().redirect_callback(&mut call));
    world.state.callbacks().end_callback(call, CallbackEnd::Unknown);
}

#[test]
fn status_flags_report_a_callback_path_that_is_down_until_it_is_up_again() {
    // RFC 8881 section 18.46.3
    let mut world = World::new();
    let mut client = world.ready("a");
    assert_eq!(flags(&mut world, &mut client), 0);
    let mut second = TestClient { connection: 7, ..TestClient::new("a") };
    (second.clientid, second.sequenceid) = (client.clientid, client.sequenceid);
    world.create_session(&mut second).unwrap();
    world.state.sessions().connection_closed(1);
    client.connection = 9;
    assert_eq!(flags(&mut world, &mut client), SEQ4_STATUS_CB_PATH_DOWN_SESSION);
    world.state.sessions().connection_closed(7);
    let both = SEQ4_STATUS_CB_PATH_DOWN | SEQ4_STATUS_CB_PATH_DOWN_SESSION;
    assert_eq!(flags(&mut world, &mut client), both);
    bind(&world, &client);
    assert_eq!(flags(&mut world, &mut client), 0);
    assert_eq!(flags(&mut world, &mut second), SEQ4_STATUS_CB_PATH_DOWN_SESSION);
}

#[test]
fn a_connection_that_does_not_answer_carries_no_callbacks_until_it_is_bound_again() {
    // RFC 8881 section 18.34.3
    let mut world = World::new();
    let mut client = world.ready("a");
    let key = world.key(&client);
    let call = world.state.callbacks().begin_callback(key).unwrap();
    world.state.callbacks().callback_unanswered(&call);
    world.state.callbacks().end_callback(call, CallbackEnd::Unknown);
    assert_eq!(world.state.callbacks().begin_callback(key).unwrap_err(), NoBackChannel::Down);
    assert_ne!(flags(&mut world, &mut client) & SEQ4_STATUS_CB_PATH_DOWN, 0);
    bind(&world, &client);
    assert_eq!(flags(&mut world, &mut client), 0);
    let call = world.state.callbacks().begin_callback(key).unwrap();
    assert_eq!(call.sequenceid, 1);
    world.state.callbacks().end_callback(call, CallbackEnd::Answered);
}

#[test]
fn a_backchannel_is_tried_once_each_time_it_comes_up_and_only_after_a_sequence() {
    // RFC 8881 section 2.10.6.3: before its first SEQUENCE the client may not know the session.
    let mut world = World::new();
    let mut client = TestClient::new("a");
    world.mount(&mut client);
    let probe = CallbackTask::Probe { sessionid: client.sessionid };
    assert_eq!(world.state.take_callbacks(), []);
    world.renew(&mut client);
    world.renew(&mut client);
    assert_eq!(world.state.take_callbacks(), [probe]);
    world.state.sessions().connection_closed(1);
    bind(&world, &client);
    world.renew(&mut client);
    assert_eq!(world.state.take_callbacks(), [probe]);
}

#[test]
fn a_session_without_a_backchannel_has_nothing_to_say_of_it() {
    // RFC 8881 section 18.36.3
    let mut world = World::new();
    let mut client = TestClient::new("a");
    world.exchange_id(&mut client, 0).unwrap();
    let args = CreateSession { flags: 0, ..client.create_args() };
    let ok = world.state.create_session(world.now, &client.caller(), &args, 1).unwrap();
    client.sessionid = ok.sessionid;
    assert_eq!(flags(&mut world, &mut client), 0);
    assert_eq!(world.state.callbacks().begin_callback(world.key(&client)).unwrap_err(), NoBackChannel::Down);
}

#[test]
fn slots_about_which_client_and_server_disagree_are_used_no_more_and_without_any_there_is_a_fault() {
    // RFC 8881 section 18.46.3
    let mut world = World::new();
    let mut client = world.ready("a");
    let key = world.key(&client);
    for slot in 0..8 {
        assert_eq!(flags(&mut world, &mut client), 0);
        let call = world.state.callbacks().begin_callback(key).unwrap();
        assert_eq!(call.slotid, slot);
        world.state.callbacks().end_callback(call, CallbackEnd::Misordered);
    }
    assert_eq!(flags(&mut world, &mut client), SEQ4_STATUS_BACKCHANNEL_FAULT);
    assert_eq!(world.state.callbacks().begin_callback(key).unwrap_err(), NoBackChannel::Busy);
}

#[test]
fn a_client_adds_to_the_ways_by_which_it_is_called_back() {
    // RFC 8881 sections 18.33.3 and 18.36.3
    let mut world = World::new();
    let mut client = TestClient::new("a");
    world.exchange_id(&mut client, 0).unwrap();
    let sys = CallbackSecurity::Sys { machine: b"m".to_vec(), uid: 1, gid: 2 };
    let args = CreateSession { callback_security: Vec::new(), ..client.create_args() };
    client.sessionid = world.state.create_session(world.now, &client.caller(), &args, 1).unwrap().sessionid;
    let key = world.key(&client);
    assert_eq!(
        world.state.callbacks().begin_callback(key).unwrap_err(),
        NoBackChannel::Down,
        "none is offered"
    );
    let none = CallbackSecurity::None;
    for (list, expected) in [
        (vec![none.clone()], vec![none.clone()]),
        (vec![sys.clone()], vec![sys.clone(), none.clone()]),
        (vec![], vec![sys.clone(), none.clone()]),
        (vec![none.clone()], vec![none.clone(), sys.clone()]),
    ] {
        world.state.callbacks().backchannel_ctl(&client.sessionid, 5, &list).unwrap();
        let call = world.state.callbacks().begin_callback(key).unwrap();
        assert_eq!((call.channel.program, &call.channel.security), (5, &expected));
        world.state.callbacks().end_callback(call, CallbackEnd::Answered);
    }
}

#[test]
fn status_flags_report_the_end_of_the_backchannels_contexts() {
    // RFC 8881 section 18.46.3
    let mut world = World::new();
    let mut client = world.ready("a");
    let lease = world.state.limits().lease;
    let gss = |expires| CallbackSecurity::Gss {
        service: 1,
        handle_from_server: vec![1],
        handle_from_client: vec![2],
        expires,
    };
    let end = world.now + 2 * lease;
    world.state.callbacks().backchannel_ctl(&client.sessionid, 5, &[gss(world.now), gss(end)]).unwrap();
    assert_eq!(flags(&mut world, &mut client), 0, "one of them lasts");
    world.now += lease;
    assert_eq!(flags(&mut world, &mut client), SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRING);
    world.now = end;
    assert_eq!(flags(&mut world, &mut client), SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRED);
    world.state.callbacks().backchannel_ctl(&client.sessionid, 5, &[gss(end + 2 * lease)]).unwrap();
    assert_eq!(flags(&mut world, &mut client), 0);
    let call = world.state.callbacks().begin_callback(world.key(&client)).unwrap();
    world.state.callbacks().callback_contexts_lost(&call);
    world.state.callbacks().end_callback(call, CallbackEnd::Unknown);
    assert_eq!(flags(&mut world, &mut client), SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRED, "destroyed or evicted");
}
