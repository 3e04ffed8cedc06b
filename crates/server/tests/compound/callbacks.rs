//! Callbacks: their content, and the effect of answers and of missing answers.

use crate::helper::*;
use nfs4::*;
use proptest::prelude::*;
use rpc::{AuthFlavor, AuthSys, ConnectionId};
use std::sync::atomic::Ordering;
use std::time::Duration;

fn none() -> Vec<CallbackSecParms4<'static>> {
    vec![CallbackSecParms4::AUTH_NONE]
}

#[test]
fn a_backchannel_is_tried_with_a_cb_sequence_as_the_client_asked_for_it()
// RFC 8881 sections 18.36.3 and 20.9
{
    let server = Setup::default().start();
    let wire = Wire::under(&server);
    let sys = AuthsysParms { stamp: 1, machinename: bytes(b"desk"), uid: 7, gid: 8, gids: vec![] };
    let mut client = Client::called_back(&server, b"a", 3, vec![CallbackSecParms4::AUTH_SYS(sys)]);
    assert!(wire.take().is_empty(), "the client may not know its session yet");
    client.run(vec![reclaim_complete()]).ok();
    let probe = wire.one();
    assert_eq!((probe.connection, probe.program, probe.args.minorversion), (3, 0x4000_0000, 1));
    assert_eq!(probe.credential.0, AuthFlavor::AUTH_SYS as u32);
    let credential = AuthSys::parse(&probe.credential.1).unwrap();
    assert_eq!((credential.machine_name, credential.uid, credential.gid), (&b"desk"[..], 7, 8));
    assert_eq!((probe.place(), probe.sequence().csa_sessionid), ((0, 1), client.session));
    assert!(probe.operation().is_none());
    server.answer_ok(client.now, &probe);
    assert_eq!(client.status_flags(), 0);
    assert!(wire.take().is_empty(), "once is enough");
}

#[test]
fn only_the_connection_that_was_called_can_answer_and_only_once() // RFC 8881 section 2.10.6.3
{
    let server = Setup::default().start();
    let wire = Wire::under(&server);
    let mut client = Client::called_back(&server, b"a", 3, none());
    client.run(vec![reclaim_complete()]).ok();
    let probe = wire.one();
    let record = answer(&probe, Nfsstat4::NFS4_OK, Nfsstat4::NFS4_OK);
    assert!(!server.nfs.callback_reply(ConnectionId(4), &record, client.now));
    assert!(!server.nfs.callback_reply(ConnectionId(3), &record[..3], client.now));
    assert!(server.nfs.callback_reply(ConnectionId(3), &record, client.now));
    assert!(!server.nfs.callback_reply(ConnectionId(3), &record, client.now));
}

#[test]
fn a_callback_without_an_answer_takes_the_path_down_until_the_connection_is_bound_again()
// RFC 8881 section 18.46.3
{
    let server = Setup::default().start();
    let wire = Wire::under(&server);
    let mut client = Client::called_back(&server, b"a", 3, none());
    client.run(vec![reclaim_complete()]).ok();
    wire.one();
    server.nfs.housekeeping(client.now + Duration::from_secs(9));
    assert_eq!(client.status_flags(), 0);
    server.nfs.housekeeping(client.now + Duration::from_secs(10));
    assert_eq!(client.status_flags(), SEQ4_STATUS_CB_PATH_DOWN | SEQ4_STATUS_CB_PATH_DOWN_SESSION);
    client.bind(3);
    assert_eq!(client.status_flags(), 0);
    let probe = wire.one();
    assert_eq!(probe.place(), (0, 1), "nobody knows whether the first was seen");
    server.answer(client.now, &probe, Nfsstat4::NFS4ERR_RETRY_UNCACHED_REP, Nfsstat4::NFS4_OK);
    let again = wire.one();
    assert_eq!(again.place(), (0, 2), "it had been seen");
    server.answer_ok(client.now, &again);
    assert_eq!(client.status_flags(), 0);
}

#[test]
// RFC 8881 section 2.10.6.2
fn a_callback_whose_connection_is_cut_is_repeated_in_its_slot_on_another() {
    let server = Setup::default().start();
    let wire = Wire::under(&server);
    let mut client = Client::called_back(&server, b"a", 3, none());
    client.bind(5);
    client.run(vec![reclaim_complete()]).ok();
    assert_eq!(wire.one().place(), (0, 1));
    server.nfs.connection_closed(ConnectionId(3));
    let again = wire.one();
    assert_eq!((again.connection, again.place()), (5, (0, 1)));
    server.nfs.connection_closed(ConnectionId(5));
    assert!(wire.take().is_empty());
    client.connection = 6;
    assert_eq!(client.status_flags(), SEQ4_STATUS_CB_PATH_DOWN | SEQ4_STATUS_CB_PATH_DOWN_SESSION);
}

#[test]
fn a_slot_that_the_client_counts_otherwise_is_given_up_for_another() // RFC 8881 section 20.9.3
{
    let server = Setup::default().start();
    let wire = Wire::under(&server);
    let mut client = Client::called_back(&server, b"a", 3, none());
    client.run(vec![reclaim_complete()]).ok();
    let mut probe = wire.one();
    for slot in 1..4 {
        server.answer(client.now, &probe, Nfsstat4::NFS4ERR_SEQ_MISORDERED, Nfsstat4::NFS4_OK);
        probe = wire.one();
        assert_eq!(probe.place(), (slot, 1));
    }
    server.answer(client.now, &probe, Nfsstat4::NFS4ERR_SEQ_MISORDERED, Nfsstat4::NFS4_OK);
    assert!(wire.take().is_empty(), "not for ever");
}

#[test]
fn a_client_that_refuses_or_cannot_be_reached_has_its_path_down() // RFC 8881 section 18.46.3
{
    for status in [Nfsstat4::NFS4ERR_BADSESSION, Nfsstat4::NFS4ERR_OP_NOT_IN_SESSION] {
        let server = Setup::default().start();
        let wire = Wire::under(&server);
        let mut client = Client::called_back(&server, b"a", 3, none());
        client.run(vec![reclaim_complete()]).ok();
        server.answer(client.now, &wire.one(), status, Nfsstat4::NFS4_OK);
        assert_ne!(client.status_flags() & SEQ4_STATUS_CB_PATH_DOWN, 0, "{status}");
    }
    let server = Setup::default().start();
    let wire = Wire::under(&server);
    wire.full.store(true, Ordering::Relaxed);
    let mut client = Client::called_back(&server, b"a", 3, none());
    client.run(vec![reclaim_complete()]).ok();
    assert_eq!(client.status_flags(), 0, "that nothing could be sent says nothing of the client");
}

#[test]
fn damaged_answers_are_no_answers_and_no_panic() // RFC 5531 section 9
{
    let server = Setup::default().start();
    let wire = Wire::under(&server);
    let mut client = Client::called_back(&server, b"a", 3, none());
    client.run(vec![reclaim_complete()]).ok();
    let mut probe = wire.one();
    let whole = answer(&probe, Nfsstat4::NFS4_OK, Nfsstat4::NFS4_OK);
    for cut in 4..whole.len() {
        let record = [&probe.xid.to_be_bytes(), &whole[4..cut]].concat();
        assert!(server.nfs.callback_reply(ConnectionId(3), &record, client.now));
        assert_ne!(client.status_flags() & SEQ4_STATUS_CB_PATH_DOWN, 0, "cut at {cut}");
        client.bind(3);
        client.status_flags();
        probe = wire.one();
    }
}

#[test]
fn a_recall_that_waited_for_a_slot_is_sent_though_the_slots_were_lost() // RFC 8881 section 10.4.5
{
    let server = Setup::default().start();
    let wire = Wire::under(&server);
    let mut a = Client::delegated(&server, &wire, b"a", 11);
    let mut b = Client::delegated(&server, &wire, b"b", 12);
    let mut make =
        |name: &str| a.at("export", vec![open_create(name, OPEN4_SHARE_ACCESS_BOTH), getfh()]).ok().fh(0);
    let contended = make("contended");
    let getattr_file: Vec<_> = (0..100).map(|n| make(&format!("f{n}"))).collect();
    // Each CB_GETATTR takes a slot, until one has to wait.
    let waits = |fh: &Vec<u8>| {
        b.run(vec![put(fh), getattr(&[FATTR4_SIZE])]).expect(Nfsstat4::NFS4ERR_DELAY);
        wire.take().is_empty()
    };
    assert!(getattr_file.iter().any(waits));
    b.at("export", vec![open("contended", OPEN4_SHARE_ACCESS_READ)]).expect(Nfsstat4::NFS4ERR_DELAY);
    assert!(wire.take().is_empty());
    // With its connection the client loses the CB_GETATTRs, and no answer is left to free a slot.
    server.nfs.connection_closed(ConnectionId(11));
    a.bind(13);
    server.nfs.housekeeping(a.now + Duration::from_secs(1));
    let recalled = |callback: &Callback| match callback.operation() {
        Some(NfsCbArgop4::OP_CB_RECALL(recall)) => recall.fh.to_vec() == contended,
        _ => false,
    };
    assert!(wire.take().iter().any(recalled));
}

#[test]
fn a_client_that_waits_for_a_lock_is_notified() // RFC 8881 sections 18.16.4 and 20.11
{
    let server = Setup::default().start();
    let wire = Wire::under(&server);
    let mut a = Client::delegated(&server, &wire, b"a", 11);
    let mut b = Client::delegated(&server, &wire, b"b", 12);
    let access = OPEN4_SHARE_ACCESS_BOTH | OPEN4_SHARE_ACCESS_WANT_NO_DELEG;
    let reply = a.at("export", vec![open_create("f", access), getfh()]).ok();
    assert_eq!(reply.opened().rflags, OPEN4_RESULT_LOCKTYPE_POSIX | OPEN4_RESULT_MAY_NOTIFY_LOCK);
    let (fh, open_a) = (reply.fh(0), reply.opened().stateid);
    let open_b = b.at("export", vec![open("f", access)]).ok().opened().stateid;
    let lock = |locktype, open_stateid, owner: &[u8]| {
        let lock_owner = StateOwner4 { clientid: 0, owner: bytes(owner) };
        let new = OpenToLockOwner4 { open_seqid: 0, open_stateid, lock_seqid: 0, lock_owner };
        let (offset, length, locker) = (0, 10, Locker4::TRUE(new));
        NfsArgop4::OP_LOCK(Lock4Args { locktype, reclaim: false, offset, length, locker })
    };
    a.run(vec![put(&fh), lock(NfsLockType4::WRITE_LT, open_a, b"x")]).ok();
    b.run(vec![put(&fh), lock(NfsLockType4::WRITE_LT, open_b, b"impatient")])
        .expect(Nfsstat4::NFS4ERR_DENIED);
    b.run(vec![put(&fh), lock(NfsLockType4::READW_LT, open_b, b"y")]).expect(Nfsstat4::NFS4ERR_DENIED);
    assert!(wire.take().is_empty());
    a.run(vec![put(&fh), close(open_a)]).ok();
    let told = wire.one();
    let Some(NfsCbArgop4::OP_CB_NOTIFY_LOCK(notice)) = told.operation() else { panic!("{told:?}") };
    let owner = StateOwner4 { clientid: b.clientid, owner: bytes(b"y") };
    assert_eq!((told.connection, notice.cnla_fh.to_vec(), &notice.cnla_lock_owner), (12, fh.clone(), &owner));
    server.answer(b.now, &told, Nfsstat4::NFS4_OK, Nfsstat4::NFS4ERR_SERVERFAULT);
    b.run(vec![put(&fh), lock(NfsLockType4::READW_LT, open_b, b"y")]).ok();
    assert!(wire.take().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_server_goes_on_after_any_answer_of_a_client(
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..6),
        cut in proptest::option::of(any::<proptest::sample::Index>()),
        size in any::<u64>(),
    ) // RFC 8881 section 20.1
    {
        let server = Setup::default().start();
        let wire = Wire::under(&server);
        let mut a = Client::delegated(&server, &wire, b"a", 11);
        let mut b = Client::delegated(&server, &wire, b"b", 12);
        let fh = a.at("export", vec![open_create("f", OPEN4_SHARE_ACCESS_BOTH), getfh()]).ok().fh(0);
        let look = || vec![put(&fh), getattr(&[FATTR4_SIZE, FATTR4_CHANGE])];
        b.run(look()).expect(Nfsstat4::NFS4ERR_DELAY);
        let asked = wire.one();
        let values = AttributeValues { change: Some(1), size: Some(size), ..AttributeValues::default() };
        let mut record = attributes_answer(&asked, values);
        for (index, value) in damage {
            // The XID stays, so that the record is an answer.
            let at = 4 + index.index(record.len() - 4);
            record[at] = value;
        }
        record.truncate(cut.map_or(record.len(), |cut| 4 + cut.index(record.len() - 4)));
        server.nfs.callback_reply(ConnectionId(11), &record, a.now);
        wire.take();
        // By then the holder has either lost its delegation or returned the size.
        b.run(look());
        for client in [&mut a, &mut b] {
            client.now += Duration::from_secs(59);
            client.status_flags();
            client.now += Duration::from_secs(1);
        }
        server.nfs.housekeeping(a.now);
        let status = b.at("export", vec![open("f", OPEN4_SHARE_ACCESS_READ)]).status;
        prop_assert!(matches!(status, Nfsstat4::NFS4_OK | Nfsstat4::NFS4ERR_DELAY), "{status}");
        for client in [&mut a, &mut b] {
            client.now += Duration::from_secs(59);
            client.status_flags();
            client.now += Duration::from_secs(2);
        }
        server.nfs.housekeeping(a.now);
        b.at("export", vec![open("f", OPEN4_SHARE_ACCESS_READ)]).ok();
    }
}
