//! Sessions, slots and repairs, against a peer that follows the script of the test.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod peer;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nfs4::{NfsArgop4, NfsOpnum4, Nfsstat4, Stateid4};
use orthrus_client::{
    CallOptions, Client, Compound, Error, Reply, StateProtection, Ticket, TransportError, read_result,
};
use peer::{Answer, Peer, has};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

const READ: NfsOpnum4 = NfsOpnum4::OP_READ;

fn read(client: &mut Client, offset: u64) -> Result<Reply, Error> {
    let ticket = submit(client, offset);
    client.wait(ticket)
}

/// Returns slot and sequence id of each READ that the peer has seen.
fn slots(peer: &Peer) -> Vec<(u32, u32)> {
    peer.sequences_with(READ).iter().map(|(_, it)| (it.sa_slotid, it.sa_sequenceid)).collect()
}

fn submit(client: &mut Client, offset: u64) -> Ticket {
    let options = CallOptions { tag: offset, ..CallOptions::default() };
    client.submit_read(b"file", Stateid4::ANONYMOUS, offset, 16, options).expect("there is room")
}

/// Returns a script that uses `first` for the first COMPOUND with `operation`.
fn once(operation: NfsOpnum4, first: Answer) -> impl FnMut(&peer::SeenRequest) -> Answer + Send {
    let mut first = Some(first);
    move |seen| {
        let now = if has(seen, operation) { first.take() } else { None };
        now.unwrap_or(Answer::Normal)
    }
}

#[test]
fn a_session_is_made_used_and_ended() {
    // RFC 8881 section 2.10.1
    let peer = Peer::start(|_| Answer::Normal);
    let mut client = peer.client();
    let reply = read(&mut client, 5).expect("the peer answers");
    assert_eq!(*read_result(&reply).expect("it succeeded").data, [5; 16]);
    client.close().expect("the peer lets it end");
    let seen = peer.seen.lock().expect("no test panicked with it");
    let operations: Vec<_> =
        seen.iter().map(|(_, compound)| compound.argarray.last().map(|op| op.discriminant())).collect();
    let expected = [
        NfsOpnum4::OP_EXCHANGE_ID,
        NfsOpnum4::OP_CREATE_SESSION,
        NfsOpnum4::OP_RECLAIM_COMPLETE,
        NfsOpnum4::OP_READ,
        NfsOpnum4::OP_DESTROY_SESSION,
        NfsOpnum4::OP_DESTROY_CLIENTID,
    ];
    assert_eq!(operations, expected.map(Some));
    assert!(seen.iter().all(|(connection, _)| *connection == 0), "all on one connection");
}

#[test]
fn a_callback_that_arrives_where_a_reply_was_expected_is_answered() {
    // RFC 8881 section 2.10.3.1: a server may use the backchannel as soon as it has one, and it
    // numbers its own calls.
    for operation in [NfsOpnum4::OP_EXCHANGE_ID, NfsOpnum4::OP_CREATE_SESSION, READ] {
        let peer = Peer::start(once(operation, Answer::CallBack));
        let mut options = peer.options();
        options.backchannel = true;
        let mut client = Client::connect(options).expect("the peer makes a session");
        for offset in 0..2 {
            read(&mut client, offset).expect("the peer answers");
        }
        client.close().expect("the peer lets it end");
        assert_eq!(peer.replies.load(Ordering::SeqCst), 1, "{operation}");
    }
}

#[test]
fn requests_one_after_the_other_use_one_slot_with_rising_sequence_ids() {
    // RFC 8881 section 2.10.6.1
    let peer = Peer::start(|_| Answer::Normal);
    let mut client = peer.client();
    for offset in 0..4 {
        read(&mut client, offset).expect("the peer answers");
    }
    assert_eq!(slots(&peer), [(0, 2), (0, 3), (0, 4), (0, 5)]);
}

#[test]
fn many_requests_are_at_the_server_at_once_and_the_rest_waits_for_slots() {
    // RFC 8881 section 2.10.6.1
    let peer = Peer::start(|_| Answer::Normal);
    let mut options = peer.options().connections(3);
    options.slots_max = 8;
    let mut client = Client::connect(options).expect("the peer makes a session");
    for offset in 0..100 {
        submit(&mut client, offset);
    }
    let mut done = Vec::new();
    while done.len() < 100 {
        assert_ne!(client.poll(Duration::from_secs(10), &mut done).expect("sockets work"), 0);
    }
    for completion in done {
        let reply = completion.result.expect("the peer answers");
        assert_eq!(*read_result(&reply).expect("it succeeded").data, [completion.tag as u8; 16]);
    }
    let used = peer.sequences_with(READ);
    assert!(used.iter().all(|(_, it)| it.sa_slotid < 8 && it.sa_highest_slotid >= it.sa_slotid));
    assert!((0..3).all(|connection| used.iter().filter(|(it, _)| *it == connection).count() > 20));
}

#[test]
fn a_request_is_repeated_in_its_slot_after_the_connection_was_cut() {
    // RFC 8881 section 2.10.6.2
    let peer = Peer::start(once(NfsOpnum4::OP_REMOVE, Answer::ExecuteAndClose));
    let mut client = peer.client();
    client.remove(b"directory", b"name").expect("it is repeated");
    let [(0, first), (1, second)] = peer.sequences_with(NfsOpnum4::OP_REMOVE)[..] else {
        panic!("it is sent twice")
    };
    assert_eq!(first, second);
    assert!(first.sa_cachethis, "the reply of what changes something has to be kept");
    let statistics = client.statistics();
    assert_eq!((statistics.calls_repeated, statistics.reconnects), (1, 1));
    read(&mut client, 0).expect("the slot goes on");
    assert_eq!(peer.sequences_with(READ)[0].1.sa_sequenceid, first.sa_sequenceid + 1);
}

#[test]
fn all_requests_in_flight_are_repeated_after_the_connection_was_cut() {
    // RFC 8881 section 2.10.6.2
    let mut reads = 0;
    let peer = Peer::start(move |seen| {
        reads += u32::from(has(seen, READ));
        if reads == 10 {
            Answer::Close
        } else if reads < 10 && has(seen, READ) {
            Answer::Silence
        } else {
            Answer::Normal
        }
    });
    let mut client = peer.client();
    let tickets: Vec<_> = (0..20).map(|offset| submit(&mut client, offset)).collect();
    for (offset, ticket) in tickets.into_iter().enumerate() {
        let reply = client.wait(ticket).expect("it is repeated");
        assert_eq!(*read_result(&reply).expect("it succeeded").data, [offset as u8; 16]);
    }
    assert_eq!(client.outstanding(), 0);
}

#[test]
fn a_request_without_an_answer_times_out_and_keeps_its_slot() {
    // RFC 8881 section 2.10.6.2
    let peer = Peer::start(once(READ, Answer::Silence));
    let mut options = peer.options();
    options.call_timeout = Duration::from_millis(200);
    let mut client = Client::connect(options).expect("the peer makes a session");
    let start = Instant::now();
    assert!(matches!(read(&mut client, 0), Err(Error::Timeout)));
    assert!(start.elapsed() >= Duration::from_millis(200));
    read(&mut client, 1).expect("the peer answers");
    assert_eq!(slots(&peer), [(0, 2), (1, 1)]);
}

#[test]
fn a_call_that_waits_in_vain_leaves_its_place_to_the_next_one() {
    // RFC 8881 section 2.10.6.1
    let next = |seen: &peer::SeenRequest| {
        seen.1.argarray.iter().any(|op| matches!(op, NfsArgop4::OP_READ(read) if read.offset == 2))
    };
    let peer = Peer::start(move |seen| match seen.0 {
        0 if has(seen, READ) => Answer::Silence,
        1 if next(seen) => Answer::Silence,
        _ => Answer::Normal,
    });
    let mut options = peer.options();
    options.slots_max = 2;
    let mut client = Client::connect(options).expect("the peer makes a session");
    // The third one waits, and so does a late one behind it.
    let tickets = [0, 1, 3].map(|offset| submit(&mut client, offset));
    let short = CallOptions { timeout: Some(Duration::from_millis(20)), ..CallOptions::default() };
    let late = client.submit_read(b"file", Stateid4::ANONYMOUS, 9, 16, short).expect("there is room");
    assert!(matches!(client.wait(late), Err(Error::Timeout)), "no slot is free");
    let next = submit(&mut client, 2);
    client.cut_connection(0);
    for ticket in tickets {
        client.wait(ticket).expect("the peer answers");
    }
    // One slot is free, and the next call has the other one.
    client.flush().expect("there are random bytes");
    client.cut_connection(0);
    let reply = client.wait(next).expect("the peer answers");
    assert_eq!(*read_result(&reply).expect("it succeeded").data, [2; 16]);
    let tickets = [4, 5].map(|offset| submit(&mut client, offset));
    for ticket in tickets {
        client.wait(ticket).expect("the peer answers");
    }
    let used: Vec<_> = slots(&peer).iter().rev().take(2).map(|(slot, _)| *slot).collect();
    assert_eq!((used, client.outstanding()), (vec![1, 0], 0));
}

#[test]
fn a_late_answer_frees_the_slot() {
    // RFC 8881 section 2.10.6.1
    let peer = Peer::start(once(READ, Answer::Late(Duration::from_millis(300))));
    let mut options = peer.options();
    options.call_timeout = Duration::from_millis(100);
    let mut client = Client::connect(options).expect("the peer makes a session");
    assert!(matches!(read(&mut client, 0), Err(Error::Timeout)));
    let mut done = Vec::new();
    while client.outstanding() > 0 {
        client.poll(Duration::from_millis(50), &mut done).expect("sockets work");
    }
    assert!(done.is_empty(), "the caller has been told already");
    read(&mut client, 0).expect("the peer answers");
    assert_eq!(slots(&peer), [(0, 2), (0, 3)]);
}

#[test]
fn a_sequence_that_was_refused_did_not_use_the_sequence_id_up() {
    // RFC 8881 section 18.46.3
    let peer = Peer::start(once(READ, Answer::Refuse(Nfsstat4::NFS4ERR_REQ_TOO_BIG)));
    let mut client = peer.client();
    assert!(read(&mut client, 0).is_err_and(|error| error.is(Nfsstat4::NFS4ERR_REQ_TOO_BIG)));
    read(&mut client, 0).expect("the peer answers");
    assert_eq!(slots(&peer), [(0, 2), (0, 2)]);
}

#[test]
fn a_request_whose_first_copy_still_runs_is_sent_again_in_its_slot_and_no_other_takes_its_place() {
    // RFC 8881 section 2.10.6.2
    let peer = Peer::start(once(READ, Answer::Refuse(Nfsstat4::NFS4ERR_DELAY)));
    let mut client = peer.client();
    let tickets = [5, 6].map(|offset| submit(&mut client, offset));
    for (offset, ticket) in [5, 6].into_iter().zip(tickets) {
        let reply = client.wait(ticket).expect("it is sent again");
        assert_eq!(*read_result(&reply).expect("it succeeded").data, [offset; 16]);
    }
    assert_eq!(slots(&peer), [(0, 2), (1, 1), (0, 2)]);
    assert_eq!(client.statistics().delays, 1);
}

#[test]
fn a_slot_with_a_false_retry_goes_on_with_the_next_sequence_id() {
    // RFC 8881 section 18.46.3
    let peer = Peer::start(once(READ, Answer::Refuse(Nfsstat4::NFS4ERR_SEQ_FALSE_RETRY)));
    let mut client = peer.client();
    assert!(read(&mut client, 0).is_err_and(|error| error.is(Nfsstat4::NFS4ERR_SEQ_FALSE_RETRY)));
    read(&mut client, 0).expect("the peer answers");
    assert_eq!(slots(&peer), [(0, 2), (0, 3)]);
}

#[test]
fn blocking_helpers_wait_while_the_server_asks_them_to() {
    // RFC 8881 section 15.1.1.3
    let peer = Peer::start(once(NfsOpnum4::OP_REMOVE, Answer::Refuse(Nfsstat4::NFS4ERR_GRACE)));
    let mut client = peer.client();
    client.remove(b"directory", b"name").expect("it is tried again");
    assert_eq!(peer.sequences_with(NfsOpnum4::OP_REMOVE).len(), 2);
}

#[test]
fn a_submitted_call_that_the_server_puts_off_is_made_again() {
    let peer = Peer::start(once(READ, Answer::Refuse(Nfsstat4::NFS4ERR_GRACE)));
    let mut client = peer.client();
    let ticket = submit(&mut client, 7);
    let again = |compound: &mut Compound| {
        compound.putfh(b"file").read(Stateid4::ANONYMOUS, 7, 16);
    };
    let data = client.conclude(ticket, again, |reply| Ok(read_result(reply)?.data.to_vec()));
    assert_eq!(data.expect("it is tried again"), [7; 16]);
    assert_eq!(client.statistics().delays, 1);
}

#[test]
fn a_stopped_client_does_not_wait_until_a_server_in_its_grace_period_is_ready() {
    let stop = Arc::new(AtomicBool::new(false));
    let (stopping, mut refused) = (stop.clone(), 0);
    let peer = Peer::start(move |seen| {
        // A client that goes on asks more often than that.
        if !has(seen, NfsOpnum4::OP_REMOVE) || refused > 200 {
            return Answer::Normal;
        }
        refused += 1;
        stopping.store(true, Ordering::Relaxed);
        Answer::Refuse(Nfsstat4::NFS4ERR_GRACE)
    });
    let mut options = peer.options();
    options.stop = Some(stop);
    let mut client = Client::connect(options).expect("the peer makes a session");
    let removed = client.remove(b"directory", b"name");
    assert!(removed.is_err_and(|error| error.is(Nfsstat4::NFS4ERR_GRACE)));
}

#[test]
fn a_lost_result_of_a_read_is_read_again_with_a_new_sequence_id() {
    // RFC 8881 section 2.10.6.1.3
    let peer = Peer::start(once(READ, Answer::Refuse(Nfsstat4::NFS4ERR_RETRY_UNCACHED_REP)));
    let mut client = peer.client();
    read(&mut client, 3).expect("it is read again");
    assert_eq!(slots(&peer), [(0, 2), (0, 3)]);
}

#[test]
fn the_servers_target_is_honoured() {
    // RFC 8881 section 18.46.3
    let peer = Peer::start(|_| Answer::Target(1));
    let mut client = peer.client();
    let last = (0..30).map(|offset| submit(&mut client, offset)).last().expect("there are thirty");
    client.wait_all().expect("sockets work");
    client.wait(last).expect("the peer answers");
    assert_eq!(client.slots(), 2);
    assert!(peer.sequences_with(READ).iter().all(|(_, it)| it.sa_slotid < 2));
}

#[test]
fn a_connection_that_is_not_bound_is_bound_and_the_request_repeated() {
    // RFC 8881 sections 2.10.3.1 and 18.34
    let peer = Peer::start(once(READ, Answer::Refuse(Nfsstat4::NFS4ERR_CONN_NOT_BOUND_TO_SESSION)));
    let mut client = peer.client();
    read(&mut client, 0).expect("it is bound");
    let seen = peer.seen.lock().expect("no test panicked with it");
    let last: Vec<_> =
        seen.iter().rev().take(2).map(|(_, it)| it.argarray.last().map(|op| op.discriminant())).collect();
    assert_eq!(last, [Some(READ), Some(NfsOpnum4::OP_BIND_CONN_TO_SESSION)]);
}

#[test]
fn all_requests_of_a_connection_that_is_not_bound_are_repeated() {
    // RFC 8881 section 2.10.3.1
    let (status, mut refused) = (Nfsstat4::NFS4ERR_CONN_NOT_BOUND_TO_SESSION, 0);
    let peer = Peer::start(move |seen| {
        refused += u32::from(has(seen, READ));
        match refused {
            1 if has(seen, READ) => Answer::RefuseTogether(status),
            2 if has(seen, READ) => Answer::Refuse(status),
            _ => Answer::Normal,
        }
    });
    let mut client = peer.client();
    let tickets = [0, 1].map(|offset| submit(&mut client, offset));
    for ticket in tickets {
        client.wait(ticket).expect("it is repeated");
    }
}

#[test]
fn further_connections_of_a_protected_client_are_bound() {
    // RFC 8881 section 2.10.8.3
    let peer = Peer::start(|_| Answer::Normal);
    let mut options = peer.options().connections(3);
    options.state_protection = StateProtection::MachineCredential;
    let client = Client::connect(options).expect("the peer makes a session");
    assert!(client.session().protected);
    let seen = peer.seen.lock().expect("no test panicked with it");
    let bound: Vec<_> =
        seen.iter().filter(|seen| has(seen, NfsOpnum4::OP_BIND_CONN_TO_SESSION)).map(|(it, _)| *it).collect();
    assert_eq!(bound, [1, 2]);
}

#[test]
fn a_lost_session_is_made_anew() {
    // RFC 8881 section 8.4.2.1
    let peer = Peer::start(once(READ, Answer::Refuse(Nfsstat4::NFS4ERR_BADSESSION)));
    let mut client = peer.client();
    assert!(read(&mut client, 0).is_err_and(|error| error.is_session_lost()));
    client.recover().expect("the peer makes a session");
    client.finish_reclaim().expect("the peer agrees");
    read(&mut client, 0).expect("the peer answers");
    assert_eq!(peer.sequences_with(READ)[1].1.sa_sequenceid, 2);
}

#[test]
fn calls_fail_when_the_server_stays_away() {
    let peer = Peer::start(|seen| if has(seen, READ) { Answer::Close } else { Answer::Normal });
    let mut options = peer.options();
    options.reconnect_max = Duration::ZERO;
    // The peer accepts connections at any time; only its port goes away.
    options.connect_timeout = Duration::from_millis(100);
    let mut client = Client::connect(options).expect("the peer makes a session");
    client.set_addresses(vec!["127.0.0.1:1".parse().expect("an address")]);
    let failed = read(&mut client, 0).expect_err("nobody answers");
    assert!(matches!(failed, Error::Transport(TransportError::GaveUp(_))), "{failed}");
}

#[test]
fn the_lease_is_renewed_while_nothing_else_is_sent() {
    // RFC 8881 section 8.3
    let peer = Peer::start(|_| Answer::Normal);
    let mut client = peer.client();
    client.set_lease(Duration::from_millis(60));
    let end = Instant::now() + Duration::from_millis(300);
    let mut done = Vec::new();
    while Instant::now() < end {
        client.poll(Duration::from_millis(10), &mut done).expect("sockets work");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(done.is_empty());
    assert!(peer.sequences_with(NfsOpnum4::OP_SEQUENCE).len() >= 4);
}

#[test]
fn the_lease_is_renewed_while_a_call_that_timed_out_keeps_its_slot() {
    // RFC 8881 section 8.3
    let peer = Peer::start(once(READ, Answer::Silence));
    let mut options = peer.options();
    options.call_timeout = Duration::from_millis(50);
    let mut client = Client::connect(options).expect("the peer makes a session");
    assert!(matches!(read(&mut client, 0), Err(Error::Timeout)));
    client.set_lease(Duration::from_millis(60));
    let (sent, end) = (peer.sequences_with(NfsOpnum4::OP_SEQUENCE).len(), Instant::now() + PATIENCE);
    while peer.sequences_with(NfsOpnum4::OP_SEQUENCE).len() == sent {
        assert!(Instant::now() < end, "the lease would end");
        client.poll(Duration::from_millis(10), &mut Vec::new()).expect("sockets work");
    }
}

#[test]
fn a_call_outside_of_a_session_is_misuse() {
    let peer = Peer::start(|_| Answer::Normal);
    let mut client = peer.client();
    assert!(matches!(client.submit(orthrus_client::Compound::sessionless(1)), Err(Error::Misuse(_))));
}
