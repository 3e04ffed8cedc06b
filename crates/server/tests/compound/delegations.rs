//! Delegations on the wire: what OPEN grants, what recalls it, how it goes back.

use crate::helper::*;
use nfs4::*;
use rpc::ConnectionId;
use server::engine::{Delegations, NfsConfig};
use std::time::Duration;

const READ: u32 = OPEN4_SHARE_ACCESS_READ;
const WRITE: u32 = OPEN4_SHARE_ACCESS_WRITE;
const BOTH: u32 = OPEN4_SHARE_ACCESS_BOTH;

/// The delegation that an OPEN came with.
fn delegation(reply: &Reply) -> &OpenDelegation4<'static> {
    &reply.opened().delegation
}

/// Its stateid.
#[track_caller]
fn granted(reply: &Reply) -> Stateid4 {
    match delegation(reply) {
        OpenDelegation4::OPEN_DELEGATE_READ(read) => read.stateid,
        OpenDelegation4::OPEN_DELEGATE_WRITE(write) => write.stateid,
        other => panic!("{other:?}"),
    }
}

fn delegreturn(deleg_stateid: Stateid4) -> Op {
    NfsArgop4::OP_DELEGRETURN(Delegreturn4Args { deleg_stateid })
}

/// The stateid of the CB_RECALL in a callback.
#[track_caller]
fn recalled(callback: &Callback) -> (Stateid4, Vec<u8>) {
    match callback.operation() {
        Some(NfsCbArgop4::OP_CB_RECALL(recall)) => (recall.stateid, recall.fh.to_vec()),
        other => panic!("{other:?}"),
    }
}

/// A server, and two clients that can be called back; a file "f" that both may write.
struct Pair<'s> {
    server: &'s Server,
    wire: Wire,
    a: Client<'s>,
    b: Client<'s>,
    fh: Vec<u8>,
}

impl<'s> Pair<'s> {
    fn new(server: &'s Server) -> Self {
        let wire = Wire::under(server);
        let mut a = Client::delegated(server, &wire, b"a", 11);
        let b = Client::delegated(server, &wire, b"b", 12);
        let reply =
            a.at("export", vec![open_create("f", BOTH | OPEN4_SHARE_ACCESS_WANT_NO_DELEG), getfh()]).ok();
        let (fh, stateid) = (reply.fh(0), reply.opened().stateid);
        a.run(vec![put(&fh), write(stateid, 0, b"data"), close(stateid)]).ok();
        Self { server, wire, a, b, fh }
    }

    /// `a` opens the file and gets a delegation; it keeps the open.
    #[track_caller]
    fn delegate(&mut self, access: u32) -> (Stateid4, Stateid4) {
        let reply = self.a.at("export", vec![open("f", access)]).ok();
        (granted(&reply), reply.opened().stateid)
    }

    /// `b` runs this into `a`'s delegation, which is recalled and given back; then it works.
    #[track_caller]
    fn conflicts(&mut self, name: &str, stateid: Stateid4, ops: impl Fn(&[u8]) -> Vec<Op>) {
        let reply = self.b.at("export", ops(&self.fh));
        assert_eq!(reply.status, Nfsstat4::NFS4ERR_DELAY, "{name}: {:?}", reply.results);
        let recall = self.wire.one();
        assert_eq!(recalled(&recall), (stateid, self.fh.clone()), "{name}");
        self.server.answer_ok(self.a.now, &recall);
        self.b.at("export", ops(&self.fh)).expect(Nfsstat4::NFS4ERR_DELAY);
        assert!(self.wire.take().is_empty(), "{name}: it is recalled once");
        self.a.run(vec![put(&self.fh), delegreturn(stateid)]).ok();
        let reply = self.b.at("export", ops(&self.fh));
        assert_eq!(reply.status, Nfsstat4::NFS4_OK, "{name}: {:?}", reply.results);
    }
}

fn server_with(delegations: Delegations) -> Server {
    Setup { config: NfsConfig { delegations, ..NfsConfig::default() }, ..Setup::default() }.start()
}

#[test]
fn an_open_comes_with_a_delegation_that_reads_and_writes_by_its_stateid()
// RFC 8881 sections 18.16.3 and 18.6
{
    let server = Setup::default().start();
    let mut pair = Pair::new(&server);
    let (read_only, open) = pair.delegate(READ);
    assert!(matches!(
        delegation(&pair.a.at("export", vec![open_op_again()]).ok()),
        OpenDelegation4::OPEN_DELEGATE_NONE
    ));
    pair.a.run(vec![put(&pair.fh), close(open)]).ok();
    let reply = pair.a.run(vec![put(&pair.fh), read(read_only, 0, 10)]).ok();
    assert_eq!(data(reply.last()), (b"data".to_vec(), true));
    pair.a.run(vec![put(&pair.fh), write(read_only, 0, b"x")]).expect(Nfsstat4::NFS4ERR_OPENMODE);
    pair.a.run(vec![put(&pair.fh), delegreturn(read_only)]).ok();
    pair.a.run(vec![put(&pair.fh), read(read_only, 0, 10)]).expect(Nfsstat4::NFS4ERR_BAD_STATEID);
    let (both, _) = pair.delegate(WRITE | OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG);
    pair.a.run(vec![put(&pair.fh), write(both, 0, b"DA"), read(both, 0, 10)]).ok();
    let size = fattr(AttributeValues { size: Some(2), ..Default::default() });
    let reply = pair.a.run(vec![put(&pair.fh), setattr(both, size), read(both, 0, 10)]).ok();
    assert_eq!(data(reply.last()), (b"DA".to_vec(), true));
}

/// An OPEN of another owner of the same client.
fn open_op_again() -> Op {
    open_how(NOCREATE, by_name("f"), READ, 0, b"another")
}

#[test]
fn every_conflict_recalls_a_delegation_for_reading_and_waits_for_it() // RFC 8881 sections 10.4 and 18.16.4
{
    type Ops = fn(&[u8]) -> Vec<Op>;
    let conflicts: [(&str, Ops); 10] = [
        ("OPEN for writing", |_| vec![open("f", WRITE)]),
        ("OPEN that denies reading", |_| vec![open_how(NOCREATE, by_name("f"), READ, READ, b"o")]),
        ("OPEN that truncates", |_| {
            let how = Createhow4::UNCHECKED4(fattr(AttributeValues { size: Some(0), ..Default::default() }));
            vec![open_how(Openflag4::OPEN4_CREATE(how), by_name("f"), READ, 0, b"o")]
        }),
        ("SETATTR", |fh| vec![put(fh), setattr(Stateid4::ANONYMOUS, mode(0o600))]),
        ("SETATTR of the size", |fh| {
            let size = fattr(AttributeValues { size: Some(1), ..Default::default() });
            vec![put(fh), setattr(Stateid4::ANONYMOUS, size)]
        }),
        ("WRITE without an open", |fh| vec![put(fh), write(Stateid4::ANONYMOUS, 0, b"x")]),
        ("REMOVE", |_| vec![remove("f")]),
        ("RENAME of it", |_| vec![savefh(), rename("f", "g")]),
        ("RENAME over it", |_| vec![savefh(), rename("g", "f")]),
        ("LINK", |fh| vec![savefh(), put(fh), savefh(), put_root(), lookup("export"), link("h")]),
    ];
    for (name, ops) in conflicts {
        let server = Setup::default().start();
        let mut pair = Pair::new(&server);
        pair.b.make_file("export", if name == "RENAME over it" { "g" } else { "other" }, b"");
        assert!(pair.wire.take().is_empty());
        let (stateid, open) = pair.delegate(READ);
        if name.starts_with("OPEN that denies") {
            pair.a.run(vec![put(&pair.fh), close(open)]).ok();
        }
        pair.conflicts(name, stateid, ops);
    }
}

#[test]
fn a_delegation_for_writing_is_recalled_for_whoever_looks_as_well() // RFC 8881 sections 10.4 and 10.4.3
{
    type Ops = fn(&[u8]) -> Vec<Op>;
    let conflicts: [(&str, Ops); 4] = [
        ("OPEN", |_| vec![open("f", READ)]),
        ("READ without an open", |fh| vec![put(fh), read(Stateid4::ANONYMOUS, 0, 1)]),
        ("READ past locks", |fh| vec![put(fh), read(Stateid4::READ_BYPASS, 0, 1)]),
        ("REMOVE", |_| vec![remove("f")]),
    ];
    for (name, ops) in conflicts {
        let server = Setup::default().start();
        let mut pair = Pair::new(&server);
        let (stateid, _) = pair.delegate(BOTH);
        pair.b.run(vec![put(&pair.fh), getattr(&[FATTR4_TYPE, FATTR4_MODE])]).ok();
        pair.conflicts(name, stateid, ops);
    }
}

/// Change and size as a client sees them that has no delegation; the holder says of a changed file what `says` is.
fn looked(pair: &mut Pair<'_>, says: impl Fn(u64) -> AttributeValues<'static>) -> (u64, u64) {
    let look = |pair: &mut Pair<'_>| pair.b.run(vec![put(&pair.fh), getattr(&[FATTR4_CHANGE, FATTR4_SIZE])]);
    look(pair).expect(Nfsstat4::NFS4ERR_DELAY);
    let asked = pair.wire.one();
    let Some(NfsCbArgop4::OP_CB_GETATTR(args)) = asked.operation() else { panic!("{asked:?}") };
    assert_eq!(args.fh.to_vec(), pair.fh);
    assert_eq!(args.attr_request, Bitmap4::of(&[FATTR4_CHANGE, FATTR4_SIZE]));
    let own = pair.a.run(vec![put(&pair.fh), getattr(&[FATTR4_CHANGE])]).ok();
    let change = own.attributes().change.unwrap();
    pair.server.answer_attributes(pair.a.now, &asked, says(change));
    let reply = look(pair).ok();
    let values = reply.attributes();
    (values.change.unwrap(), values.size.unwrap())
}

#[test]
fn whoever_asks_for_attributes_gets_what_the_holder_says() // RFC 8881 section 10.4.3
{
    let server = Setup::default().start();
    let mut pair = Pair::new(&server);
    let (stateid, _) = pair.delegate(BOTH);
    let own = pair.a.run(vec![put(&pair.fh), getattr(&[FATTR4_CHANGE])]).ok();
    let granted = own.attributes().change.unwrap();
    let says = |change: u64, size: u64| AttributeValues {
        change: Some(change),
        size: Some(size),
        ..AttributeValues::default()
    };
    assert_eq!(looked(&mut pair, |_| says(granted, 4)), (granted, 4), "nothing has changed");
    let (first, size) = looked(&mut pair, |_| says(granted + 1, 1000));
    assert!(first > granted && size == 1000);
    let (second, size) = looked(&mut pair, |_| says(granted + 1, 2000));
    assert!(second > first && size == 2000);
    pair.a.run(vec![put(&pair.fh), write(stateid, 0, b"written back"), delegreturn(stateid)]).ok();
    let reply = pair.b.run(vec![put(&pair.fh), getattr(&[FATTR4_CHANGE, FATTR4_SIZE])]).ok();
    assert!(reply.attributes().change.unwrap() > second);
    assert_eq!(reply.attributes().size, Some(12));
    assert!(pair.wire.take().is_empty());
}

#[test]
fn a_holder_that_does_not_tell_attributes_has_its_delegation_recalled() // RFC 8881 section 10.4.3
{
    type Refuse = fn(&Server, Duration, &Callback);
    let refusals: [Refuse; 4] = [
        |server, now, asked| server.answer(now, asked, Nfsstat4::NFS4_OK, Nfsstat4::NFS4ERR_BADHANDLE),
        |server, now, asked| server.answer(now, asked, Nfsstat4::NFS4ERR_DELAY, Nfsstat4::NFS4_OK),
        |server, now, asked| server.answer_attributes(now, asked, AttributeValues::default()),
        |server, now, _| server.nfs.housekeeping(now + Duration::from_secs(10)),
    ];
    for (index, refuse) in refusals.into_iter().enumerate() {
        let server = Setup::default().start();
        let mut pair = Pair::new(&server);
        pair.delegate(BOTH);
        pair.a.bind(21);
        pair.b.run(vec![put(&pair.fh), getattr(&[FATTR4_SIZE])]).expect(Nfsstat4::NFS4ERR_DELAY);
        let mut asked = pair.wire.one();
        refuse(&server, pair.a.now, &asked);
        if index == 3 {
            // On the other connection as well, and at another time.
            asked = pair.wire.one();
            assert_eq!(asked.connection, 21);
            server.nfs.housekeeping(pair.a.now + Duration::from_secs(20));
            assert!(pair.wire.take().is_empty());
            pair.a.bind(21);
        }
        pair.b.run(vec![put(&pair.fh), getattr(&[FATTR4_SIZE])]).expect(Nfsstat4::NFS4ERR_DELAY);
        recalled(&pair.wire.one());
    }
}

#[test]
fn readers_and_the_holder_itself_do_not_disturb_a_delegation() // RFC 8881 section 10.4.1
{
    let server = Setup::default().start();
    let mut pair = Pair::new(&server);
    let (stateid, _) = pair.delegate(READ);
    let other = granted(&pair.b.at("export", vec![open("f", READ)]).ok());
    pair.b.run(vec![put(&pair.fh), getattr(&[FATTR4_SIZE]), read(Stateid4::ANONYMOUS, 0, 1)]).ok();
    assert!(pair.wire.take().is_empty());
    pair.b.run(vec![put(&pair.fh), delegreturn(other)]).ok();
    pair.a.run(vec![put(&pair.fh), setattr(Stateid4::ANONYMOUS, mode(0o666))]).ok();
    pair.a.at("export", vec![open("f", WRITE)]).ok();
    assert!(pair.wire.take().is_empty());
    pair.a.run(vec![put(&pair.fh), read(stateid, 0, 1)]).ok();
}

#[test]
fn wants_are_followed_as_far_as_the_configuration_lets_them() // RFC 8881 section 18.16.3
{
    use Delegations::{All, None, Read};
    let (want_read, want_write) = (OPEN4_SHARE_ACCESS_WANT_READ_DELEG, OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG);
    let want_any = OPEN4_SHARE_ACCESS_WANT_ANY_DELEG;
    let resource = OpenNoneDelegation4::WND4_RESOURCE(false);
    let no_writes = OpenNoneDelegation4::Default(WhyNoDelegation4::WND4_WRITE_DELEG_NOT_SUPP_FTYPE);
    let not_wanted = OpenNoneDelegation4::Default(WhyNoDelegation4::WND4_NOT_WANTED);
    let cancelled = OpenNoneDelegation4::Default(WhyNoDelegation4::WND4_CANCELLED);
    let cases = [
        (All, READ, Ok(false)),
        (All, WRITE, Err(Option::None)),
        (All, WRITE | want_any, Ok(true)),
        (All, BOTH, Ok(true)),
        (All, READ | want_read, Ok(false)),
        (All, BOTH | want_read, Ok(false)),
        (All, READ | want_write, Ok(true)),
        (All, READ | want_any, Ok(false)),
        (All, BOTH | want_any, Ok(true)),
        (All, READ | OPEN4_SHARE_ACCESS_WANT_NO_DELEG, Err(Some(not_wanted))),
        (All, READ | OPEN4_SHARE_ACCESS_WANT_CANCEL, Err(Some(cancelled))),
        (Read, READ, Ok(false)),
        (Read, BOTH, Err(Option::None)),
        (Read, BOTH | want_write, Err(Some(no_writes))),
        (Read, BOTH | want_any, Ok(false)),
        (None, READ, Err(Option::None)),
        (None, READ | want_any, Err(Some(resource))),
    ];
    for (config, access, expected) in cases {
        let server = server_with(config);
        let mut pair = Pair::new(&server);
        let reply = pair.a.at("export", vec![open("f", access)]).ok();
        let got = match delegation(&reply) {
            OpenDelegation4::OPEN_DELEGATE_READ(read) => Ok((false, read.recall)),
            OpenDelegation4::OPEN_DELEGATE_WRITE(write) => Ok((true, write.recall)),
            OpenDelegation4::OPEN_DELEGATE_NONE => Err(Option::None),
            OpenDelegation4::OPEN_DELEGATE_NONE_EXT(why) => Err(Some(*why)),
            other => panic!("{other:?}"),
        };
        assert_eq!(got, expected.map(|write| (write, false)), "{config:?} {access:#x}");
    }
}

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
fn a_recall_goes_on_when_its_connection_is_cut_and_when_the_client_comes_back() // RFC 8881 section 2.10.6.2
{
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
fn a_recall_that_the_client_does_not_know_what_to_do_with_is_said_again() // RFC 8881 section 20.2.4
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
fn what_is_not_given_back_is_revoked_and_of_no_use() // RFC 8881 sections 10.4.6 and 18.46.3
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
fn local_opens_are_told_under_the_delegation_before_it_goes_back() // RFC 8881 section 10.4.1
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
    let server = Setup { exports, prior_clients: vec![b"a".to_vec()], epoch: 2, ..Setup::default() }.start();
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

#[test]
fn a_client_without_a_backchannel_gets_none() // RFC 8881 section 10.2
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    client.make_file("export", "f", b"");
    let reply = client.at("export", vec![open("f", READ)]).ok();
    assert_eq!(delegation(&reply), &OpenDelegation4::OPEN_DELEGATE_NONE);
}

#[test]
fn another_user_has_by_a_delegation_what_the_files_mode_lets_him() // RFC 8881 section 10.4
{
    let server = Setup::default().start();
    let mut pair = Pair::new(&server);
    let (stateid, _) = pair.delegate(BOTH);
    pair.a.security = sys(BOB);
    pair.a.run(vec![put(&pair.fh), read(stateid, 0, 1)]).ok();
    pair.a.run(vec![put(&pair.fh), write(stateid, 0, b"x")]).expect(Nfsstat4::NFS4ERR_ACCESS);
}

#[test]
fn whose_lease_is_over_is_not_waited_for() // RFC 8881 section 8.4.3
{
    let away = Duration::from_secs(600);
    type Want = fn(&[u8]) -> Vec<Op>;
    let wants: [Want; 4] = [
        |_| vec![open("f", WRITE)],
        |fh| vec![put(fh), setattr(Stateid4::ANONYMOUS, mode(0o600))],
        |fh| vec![put(fh), getattr(&[FATTR4_SIZE])],
        |_| vec![remove("f")],
    ];
    for want in wants {
        let server = Setup::default().start();
        let mut pair = Pair::new(&server);
        let (deleg, open) = pair.delegate(BOTH);
        pair.a.run(vec![put(&pair.fh), close(open)]).ok();
        pair.a.now += away;
        pair.a.run(vec![put(&pair.fh), read(deleg, 0, 1)]).ok();
        pair.b.now = pair.a.now + away;
        pair.b.at("export", want(&pair.fh)).ok();
        pair.a.now = pair.b.now;
        pair.a.run(vec![]).expect(Nfsstat4::NFS4ERR_BADSESSION);
    }
}
