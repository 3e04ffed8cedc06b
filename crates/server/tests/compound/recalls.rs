//! Recalls on the wire: their delivery, and the fate of delegations that are or are not returned.

use crate::helper::*;
use nfs4::*;
use orthrus_server::engine::NfsConfig;
use rpc::ConnectionId;
use state::PriorClient;
use std::time::Duration;

const READ: u32 = OPEN4_SHARE_ACCESS_READ;
const WRITE: u32 = OPEN4_SHARE_ACCESS_WRITE;
const BOTH: u32 = OPEN4_SHARE_ACCESS_BOTH;

#[test]
fn a_recall_names_the_open_that_it_must_not_overtake() // RFC 8881 section 2.10.6.3
{
    let server = Setup::default().start();
    let mut pair = Pair::new(&server);
    pair.delegate(READ);
    let (session, sequence) = (pair.a.session, pair.a.sequence);
    pair.b.at("export", vec![open("f", WRITE)]).expect(Nfsstat4::NFS4ERR_DELAY);
    let recall = pair.wire.one();
    assert_eq!((recall.connection, recall.place()), (11, (0, 2)));
    let calls = vec![ReferringCall4 { rc_sequenceid: sequence, rc_slotid: 0 }];
    let list = ReferringCallList4 { rcl_sessionid: session, rcl_referring_calls: calls };
    assert_eq!(recall.sequence().csa_referring_call_lists, [list]);
}

#[test]
// RFC 8881 section 2.10.6.2
fn a_recall_goes_on_when_its_connection_is_cut_and_when_the_client_comes_back() {
    let server = Setup::default().start();
    let mut pair = Pair::new(&server);
    let (stateid, _) = pair.delegate(READ);
    pair.a.bind(21);
    pair.b.at("export", vec![open("f", WRITE)]).expect(Nfsstat4::NFS4ERR_DELAY);
    let first = pair.wire.one();
    assert_eq!(first.connection, 11);
    server.nfs.connection_closed(ConnectionId(11));
    let second = pair.wire.one();
    assert_eq!((second.connection, second.place(), recalled(&second)), (21, first.place(), recalled(&first)));
    server.nfs.connection_closed(ConnectionId(21));
    server.nfs.housekeeping(pair.a.now + Duration::from_secs(1));
    assert!(pair.wire.take().is_empty(), "there is no way to the client");
    pair.a.connection = 31;
    assert_eq!(pair.a.status_flags(), SEQ4_STATUS_CB_PATH_DOWN | SEQ4_STATUS_CB_PATH_DOWN_SESSION);
    pair.a.bind(31);
    server.nfs.housekeeping(pair.a.now + Duration::from_secs(2));
    let third = pair.wire.one();
    assert_eq!((third.connection, third.place(), recalled(&third).0), (31, first.place(), stateid));
    server.answer(pair.a.now, &third, Nfsstat4::NFS4ERR_RETRY_UNCACHED_REP, Nfsstat4::NFS4_OK);
    let fourth = pair.wire.one();
    assert_eq!(fourth.place().1, first.place().1 + 1, "the first had arrived");
    server.answer_ok(pair.a.now, &fourth);
    pair.a.run(vec![put(&pair.fh), delegreturn(stateid)]).ok();
    pair.b.at("export", vec![open("f", WRITE)]).ok();
}

#[test]
// RFC 8881 section 18.46.3
fn a_connection_that_takes_over_a_callback_has_its_own_time_to_answer() {
    let server = Setup::default().start();
    let mut pair = Pair::new(&server);
    pair.delegate(READ);
    pair.a.bind(21);
    pair.b.at("export", vec![open("f", WRITE)]).expect(Nfsstat4::NFS4ERR_DELAY);
    let sent = pair.a.now;
    assert_eq!(pair.wire.one().connection, 11);
    server.nfs.housekeeping(sent + Duration::from_secs(9));
    server.nfs.connection_closed(ConnectionId(11));
    let second = pair.wire.one();
    assert_eq!(second.connection, 21);
    server.nfs.housekeeping(sent + Duration::from_secs(10));
    assert!(pair.wire.take().is_empty());
    pair.a.connection = 21;
    assert_eq!(pair.a.status_flags(), 0);
    server.nfs.housekeeping(sent + Duration::from_secs(19));
    assert_ne!(pair.a.status_flags() & SEQ4_STATUS_CB_PATH_DOWN, 0);
}

#[test]
// RFC 8881 section 18.46.3
fn a_recall_over_a_dead_connection_is_repeated_before_a_short_recall_time_is_over() {
    let limits = state::Limits { recall_time: Duration::from_secs(9), ..state::Limits::default() };
    let config = NfsConfig { limits, ..NfsConfig::default() };
    let server = Setup { config, ..Setup::default() }.start();
    let mut pair = Pair::new(&server);
    let (stateid, _) = pair.delegate(READ);
    pair.b.at("export", vec![open("f", WRITE)]).expect(Nfsstat4::NFS4ERR_DELAY);
    let sent = pair.a.now;
    pair.wire.one();
    pair.a.connection = 21;
    server.nfs.housekeeping(sent + Duration::from_secs(2));
    assert_eq!(pair.a.status_flags(), 0);
    server.nfs.housekeeping(sent + Duration::from_secs(3));
    assert_ne!(pair.a.status_flags() & SEQ4_STATUS_CB_PATH_DOWN, 0);
    pair.a.bind(21);
    server.nfs.housekeeping(sent + Duration::from_secs(4));
    let again = pair.wire.one();
    assert_eq!(again.connection, 21);
    server.answer_ok(pair.a.now, &again);
    pair.a.run(vec![put(&pair.fh), delegreturn(stateid)]).ok();
}

#[test]
fn a_recall_that_the_client_refuses_is_repeated() // RFC 8881 section 20.2.4
{
    let server = Setup::default().start();
    let mut pair = Pair::new(&server);
    let (stateid, _) = pair.delegate(READ);
    pair.b.at("export", vec![open("f", WRITE)]).expect(Nfsstat4::NFS4ERR_DELAY);
    for second in 1..4 {
        let recall = pair.wire.one();
        server.answer(pair.a.now, &recall, Nfsstat4::NFS4_OK, Nfsstat4::NFS4ERR_BAD_STATEID);
        assert!(pair.wire.take().is_empty());
        server.nfs.housekeeping(pair.a.now + Duration::from_secs(second));
    }
    server.answer_ok(pair.a.now, &pair.wire.one());
    server.nfs.housekeeping(pair.a.now + Duration::from_secs(5));
    assert!(pair.wire.take().is_empty());
    pair.a.run(vec![put(&pair.fh), delegreturn(stateid)]).ok();
}

#[test]
fn a_delegation_that_is_not_returned_is_revoked() // RFC 8881 sections 10.4.6 and 18.46.3
{
    let server = Setup::default().start();
    let mut pair = Pair::new(&server);
    let (stateid, _) = pair.delegate(READ);
    pair.b.at("export", vec![open("f", WRITE)]).expect(Nfsstat4::NFS4ERR_DELAY);
    server.answer_ok(pair.a.now, &pair.wire.one());
    for client in [&mut pair.a, &mut pair.b] {
        client.now += Duration::from_secs(59);
        client.status_flags();
        client.now += Duration::from_secs(1);
    }
    server.nfs.housekeeping(pair.a.now);
    pair.b.at("export", vec![open("f", WRITE)]).ok();
    let revoked = Nfsstat4::NFS4ERR_DELEG_REVOKED;
    pair.a.run(vec![put(&pair.fh), read(stateid, 0, 1)]).expect(revoked);
    pair.a.run(vec![put(&pair.fh), write(stateid, 0, b"x")]).expect(revoked);
    pair.a.run(vec![put(&pair.fh), delegreturn(stateid)]).expect(revoked);
    let under = open_how(NOCREATE, OpenClaim4::CLAIM_DELEG_CUR_FH(stateid), READ, 0, b"local");
    pair.a.run(vec![put(&pair.fh), under]).expect(revoked);
    assert_eq!(pair.a.status_flags(), SEQ4_STATUS_RECALLABLE_STATE_REVOKED);
    let test = NfsArgop4::OP_TEST_STATEID(TestStateid4Args { ts_stateids: vec![stateid] });
    match pair.a.run(vec![test]).ok().last() {
        NfsResop4::OP_TEST_STATEID(TestStateid4Res::NFS4_OK(ok)) => {
            assert_eq!(ok.tsr_status_codes, [revoked]);
        }
        other => panic!("{other:?}"),
    }
    pair.a.run(vec![NfsArgop4::OP_FREE_STATEID(FreeStateid4Args { fsa_stateid: stateid })]).ok();
    assert_eq!(pair.a.status_flags(), 0);
}

#[test]
fn local_opens_are_claimed_under_the_delegation_before_its_return() // RFC 8881 section 10.4.1
{
    let server = Setup::default().start();
    let mut pair = Pair::new(&server);
    let (stateid, first) = pair.delegate(BOTH);
    pair.a.run(vec![put(&pair.fh), close(first)]).ok();
    pair.b.at("export", vec![open("f", WRITE)]).expect(Nfsstat4::NFS4ERR_DELAY);
    let by_handle = open_how(NOCREATE, OpenClaim4::CLAIM_DELEG_CUR_FH(stateid), BOTH, 0, b"local");
    let reply = pair.a.run(vec![put(&pair.fh), by_handle]).ok();
    assert!(matches!(delegation(&reply), OpenDelegation4::OPEN_DELEGATE_NONE));
    let local = reply.opened().stateid;
    let file = bytes(b"f");
    let cur = OpenClaim4::CLAIM_DELEGATE_CUR(OpenClaimDelegateCur4 { delegate_stateid: stateid, file });
    pair.a.at("export", vec![open_how(NOCREATE, cur, READ, 0, b"local")]).ok();
    pair.a.run(vec![put(&pair.fh), delegreturn(stateid)]).ok();
    pair.b.at("export", vec![open("f", WRITE)]).ok();
    let local = Stateid4 { seqid: 0, ..local };
    pair.a.run(vec![put(&pair.fh), write(local, 0, b"late")]).ok();
    let prev = open_how(NOCREATE, OpenClaim4::CLAIM_DELEG_PREV_FH, READ, 0, b"local");
    pair.a.run(vec![put(&pair.fh), prev]).expect(Nfsstat4::NFS4ERR_RECLAIM_BAD);
}

#[test]
fn a_delegation_is_reclaimed_after_a_restart() // RFC 8881 section 10.2.1
{
    let backend = memory();
    let server = Setup::with_exports(vec![export("/export", &backend)]).start();
    let fh = Client::new(&server).make_file("export", "f", b"data");
    let exports = vec![export("/export", &backend)];
    let server = Setup {
        exports,
        prior_clients: vec![PriorClient { owner: b"a".to_vec(), principal: None }],
        epoch: 2,
        ..Setup::default()
    }
    .start();
    let wire = Wire::under(&server);
    let mut a = Client::called_back(&server, b"a", 11, vec![CallbackSecParms4::AUTH_NONE]);
    let claim = OpenClaim4::CLAIM_PREVIOUS(OpenDelegationType4::OPEN_DELEGATE_READ);
    let reply = a.run(vec![put(&fh), open_how(NOCREATE, claim, READ, 0, b"o")]).ok();
    let stateid = granted(&reply);
    server.answer_ok(a.now, &wire.one());
    a.run(vec![reclaim_complete()]).ok();
    a.run(vec![put(&fh), read(stateid, 0, 1)]).ok();
    let mut b = Client::delegated(&server, &wire, b"b", 12);
    b.run(vec![put(&fh), open_how(NOCREATE, OpenClaim4::CLAIM_FH, WRITE, 0, b"o")])
        .expect(Nfsstat4::NFS4ERR_DELAY);
    assert_eq!(recalled(&wire.one()), (stateid, fh));
}
