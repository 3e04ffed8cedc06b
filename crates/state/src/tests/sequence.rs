//! SEQUENCE: slots and the reply cache.

use super::world::*;
use crate::*;
use nfs4::Nfsstat4;

fn replay(sequenced: Result<Sequenced>) -> Vec<u8> {
    match sequenced {
        Ok(Sequenced::Replay(reply)) => reply.to_vec(),
        other => panic!("no replay: {other:?}"),
    }
}

#[test]
fn a_replayed_request_gets_the_cached_reply() {
    // RFC 8881 section 2.10.6.1
    let mut world = World::new();
    let mut client = world.ready("a");
    let args = client.args();
    let begun = world.begin(&mut client);
    assert_eq!((begun.reply.sessionid, begun.reply.sequenceid, begun.reply.slotid), (client.sessionid, 1, 0));
    world.state.sessions().finish(begun.token, Some(b"the reply"));
    assert_eq!(replay(world.sequence(&client, args)), b"the reply");
    assert_eq!(replay(world.sequence(&client, args)), b"the reply");
    world.renew(&mut client);
}

#[test]
fn a_different_request_on_the_same_slot_and_sequence_is_a_false_retry() {
    // RFC 8881 section 2.10.6.1.3.1
    let mut world = World::new();
    let mut client = world.ready("a");
    let args = client.args();
    let begun = world.begin(&mut client);
    world.state.sessions().finish(begun.token, Some(b"x"));
    let other = Sequence { fingerprint: 77, ..args };
    assert_eq!(world.sequence(&client, other).unwrap_err(), Nfsstat4::NFS4ERR_SEQ_FALSE_RETRY);
}

#[test]
fn another_principal_never_sees_a_cached_reply() {
    // RFC 8881 section 2.10.6.1.3.1
    let mut world = World::new();
    let mut client = world.ready("a");
    let args = client.args();
    let begun = world.begin(&mut client);
    world.state.sessions().finish(begun.token, Some(b"secret"));
    client.principal = Principal::new("sys:1000");
    assert_eq!(world.sequence(&client, args).unwrap_err(), Nfsstat4::NFS4ERR_SEQ_FALSE_RETRY);
}

#[test]
fn a_weaker_service_never_sees_a_cached_reply() {
    // RFC 8881 section 2.10.6.1.3.1
    let mut world = World::new();
    let mut client = world.ready("a");
    client.protection = Protection::Privacy;
    let args = client.args();
    let begun = world.begin(&mut client);
    world.state.sessions().finish(begun.token, Some(b"secret"));
    for weaker in [Protection::None, Protection::Authentication, Protection::Integrity] {
        client.protection = weaker;
        assert_eq!(world.sequence(&client, args).unwrap_err(), Nfsstat4::NFS4ERR_SEQ_FALSE_RETRY);
    }
    client.protection = Protection::Privacy;
    assert_eq!(replay(world.sequence(&client, args)), b"secret");
}

#[test]
fn a_retry_of_a_reply_that_was_not_cached_says_so() {
    // RFC 8881 section 2.10.6.1.3
    let mut world = World::new();
    let mut client = world.ready("a");
    let args = client.args();
    let begun = world.begin(&mut client);
    world.state.sessions().finish(begun.token, None);
    assert_eq!(world.sequence(&client, args).unwrap_err(), Nfsstat4::NFS4ERR_RETRY_UNCACHED_REP);
    let args = client.args();
    let begun = world.begin(&mut client);
    world.state.sessions().finish(begun.token, Some(&[0; 2049]));
    assert_eq!(world.sequence(&client, args).unwrap_err(), Nfsstat4::NFS4ERR_RETRY_UNCACHED_REP);
}

#[test]
fn a_retry_on_another_connection_waits_while_the_first_copy_runs() {
    // RFC 8881 section 2.10.6.2
    let mut world = World::new();
    let mut client = world.ready("a");
    let args = client.args();
    let begun = world.begin(&mut client);
    client.connection = 2;
    assert_eq!(world.sequence(&client, args).unwrap_err(), Nfsstat4::NFS4ERR_DELAY);
    let next = Sequence { sequenceid: args.sequenceid + 1, ..args };
    assert_eq!(world.sequence(&client, next).unwrap_err(), Nfsstat4::NFS4ERR_SEQ_MISORDERED);
    world.state.sessions().finish(begun.token, Some(b"done"));
    assert_eq!(replay(world.sequence(&client, args)), b"done");
}

#[test]
fn sequence_ids_out_of_order_are_refused_and_move_nothing() {
    // RFC 8881 section 18.46.3
    let mut world = World::new();
    let mut client = world.ready("a");
    for wrong in [0, 2, u32::MAX] {
        let args = Sequence { sequenceid: wrong, ..client.args() };
        assert_eq!(world.sequence(&client, args).unwrap_err(), Nfsstat4::NFS4ERR_SEQ_MISORDERED);
    }
    world.renew(&mut client);
    world.renew(&mut client);
    let old = Sequence { sequenceid: 1, ..client.args() };
    assert_eq!(world.sequence(&client, old).unwrap_err(), Nfsstat4::NFS4ERR_SEQ_MISORDERED);
    world.renew(&mut client);
}

#[test]
fn the_sequence_id_of_a_slot_wraps_to_zero() {
    // RFC 8881 section 2.10.6.1
    let mut world = World::new();
    let mut client = world.ready("a");
    world.renew(&mut client);
    world.state.sessions().session(&client.sessionid).unwrap().slots.lock(0).unwrap().sequence = u32::MAX;
    client.slot = 0;
    world.renew(&mut client);
    world.renew(&mut client);
}

#[test]
fn slots_beyond_the_table_or_above_the_highest_in_use_are_refused() {
    // RFC 8881 section 18.46.3
    let mut world = World::new();
    let client = world.ready("a");
    let beyond = Sequence { slotid: CHANNEL.requests, highest_slotid: CHANNEL.requests, ..client.args() };
    assert_eq!(world.sequence(&client, beyond).unwrap_err(), Nfsstat4::NFS4ERR_BADSLOT);
    let above = Sequence { slotid: 3, highest_slotid: 2, ..client.args() };
    assert_eq!(world.sequence(&client, above).unwrap_err(), Nfsstat4::NFS4ERR_BAD_HIGH_SLOT);
    let last =
        Sequence { slotid: CHANNEL.requests - 1, highest_slotid: CHANNEL.requests - 1, ..client.args() };
    let Ok(Sequenced::Execute(begun)) = world.sequence(&client, last) else {
        panic!("the last slot is refused")
    };
    assert_eq!(begun.reply.highest_slotid, CHANNEL.requests - 1);
    assert_eq!(begun.reply.target_highest_slotid, CHANNEL.requests - 1);
    world.state.sessions().finish(begun.token, None);
}

#[test]
fn a_request_beyond_the_channel_is_refused_without_using_the_slot() {
    // RFC 8881 section 2.10.6.4
    let mut world = World::new();
    let client = world.ready("a");
    let many = Sequence { operations: 17, ..client.args() };
    assert_eq!(world.sequence(&client, many).unwrap_err(), Nfsstat4::NFS4ERR_TOO_MANY_OPS);
    let big = Sequence { request_size: (1 << 20) + 1, ..client.args() };
    assert_eq!(world.sequence(&client, big).unwrap_err(), Nfsstat4::NFS4ERR_REQ_TOO_BIG);
    let long = Sequence { reply_min: CHANNEL.response_size + 1, ..client.args() };
    assert_eq!(world.sequence(&client, long).unwrap_err(), Nfsstat4::NFS4ERR_REP_TOO_BIG);
    let uncached = Sequence { reply_min: CHANNEL.response_cached + 1, ..client.args() };
    assert_eq!(world.sequence(&client, uncached).unwrap_err(), Nfsstat4::NFS4ERR_REP_TOO_BIG_TO_CACHE);
    world.sequence(&client, Sequence { cache_this: false, ..uncached }).unwrap();
    let mut client = world.ready("b");
    world.renew(&mut client);
}

#[test]
fn an_overloaded_server_asks_for_fewer_slots_and_still_serves_all() {
    // RFC 8881 section 2.10.6.1
    let mut world = World::new();
    let client = world.ready("a");
    let target_of = |world: &mut World, sequenceid| {
        let last = Sequence {
            slotid: CHANNEL.requests - 1,
            highest_slotid: CHANNEL.requests - 1,
            sequenceid,
            ..client.args()
        };
        let Ok(Sequenced::Execute(begun)) = world.sequence(&client, last) else {
            panic!("the last slot is refused")
        };
        world.state.sessions().finish(begun.token, None);
        begun.reply.target_highest_slotid
    };
    world.state.sessions().set_overloaded(true);
    assert_eq!(target_of(&mut world, 1), (CHANNEL.requests - 1) / 4);
    world.state.sessions().set_overloaded(false);
    assert_eq!(target_of(&mut world, 2), CHANNEL.requests - 1);
}

#[test]
fn slots_are_independent() {
    // RFC 8881 section 2.10.6.1
    let mut world = World::new();
    let mut client = world.ready("a");
    let zero = world.begin(&mut client);
    let one = Sequence { slotid: 1, highest_slotid: 1, sequenceid: 1, ..client.args() };
    let Ok(Sequenced::Execute(begun)) = world.sequence(&client, one) else { panic!("slot 1 is refused") };
    world.state.sessions().finish(begun.token, Some(b"one"));
    world.state.sessions().finish(zero.token, Some(b"zero"));
    assert_eq!(replay(world.sequence(&client, one)), b"one");
}

#[test]
fn an_unknown_session_is_refused() {
    // RFC 8881 section 18.46.3
    let mut world = World::new();
    let client = world.ready("a");
    for byte in 0..16 {
        let mut sessionid = client.sessionid;
        sessionid[byte] ^= 1;
        let args = Sequence { sessionid, ..client.args() };
        assert_eq!(world.sequence(&client, args).unwrap_err(), Nfsstat4::NFS4ERR_BADSESSION);
    }
}

#[test]
fn the_reply_cache_is_counted_as_slots_are_used_again() {
    let mut world = World::new();
    let mut client = world.ready("a");
    for size in [100, 2000, 7, 0] {
        let begun = world.begin(&mut client);
        world.state.sessions().finish(begun.token, Some(&vec![0; size]));
        assert_eq!(world.state.counts().reply_cache, size);
    }
}
