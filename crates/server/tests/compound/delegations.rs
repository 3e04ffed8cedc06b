//! Delegations on the wire: grant by OPEN, recall and return.

use crate::helper::*;
use nfs4::*;
use orthrus_server::engine::{Delegations, NfsConfig};
use std::time::Duration;

const READ: u32 = OPEN4_SHARE_ACCESS_READ;
const WRITE: u32 = OPEN4_SHARE_ACCESS_WRITE;
const BOTH: u32 = OPEN4_SHARE_ACCESS_BOTH;

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
// RFC 8881 sections 10.4 and 18.16.4
fn every_conflict_recalls_a_delegation_for_reading_and_waits_for_it() {
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
// RFC 8881 sections 10.4 and 10.4.3
fn a_delegation_for_writing_is_recalled_for_whoever_looks_as_well() {
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

/// Returns change and size as another client sees them. The holder answers CB_GETATTR with `says`,
/// which gets the file's change attribute.
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
fn getattr_reports_the_holders_attributes() // RFC 8881 section 10.4.3
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
            // Repeated on the other connection, at a later time.
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
fn a_client_without_a_backchannel_gets_none() // RFC 8881 section 10.2
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    client.make_file("export", "f", b"");
    let reply = client.at("export", vec![open("f", READ)]).ok();
    assert_eq!(delegation(&reply), &OpenDelegation4::OPEN_DELEGATE_NONE);
}

#[test]
fn a_delegation_gives_another_user_only_the_access_of_the_files_mode() // RFC 8881 section 10.4
{
    let server = Setup::default().start();
    let mut pair = Pair::new(&server);
    let (stateid, _) = pair.delegate(BOTH);
    pair.a.security = sys(BOB);
    pair.a.run(vec![put(&pair.fh), read(stateid, 0, 1)]).ok();
    pair.a.run(vec![put(&pair.fh), write(stateid, 0, b"x")]).expect(Nfsstat4::NFS4ERR_ACCESS);
}

#[test]
fn conflicting_operations_do_not_wait_for_an_expired_delegation_holder() // RFC 8881 section 8.4.3
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

/// Removes the file of a delegation without opens, and returns the stateid of the delegation.
fn remove_delegated(pair: &mut Pair<'_>, access: u32) -> Stateid4 {
    let (stateid, open) = pair.delegate(access);
    pair.a.run(vec![put(&pair.fh), close(open)]).ok();
    pair.a.at("export", vec![remove("f")]).ok();
    stateid
}

#[test]
fn a_delegation_of_a_file_without_a_name_is_returned() // RFC 8881 section 10.4
{
    for access in [READ, BOTH] {
        let server = Setup::default().start();
        let mut pair = Pair::new(&server);
        let stateid = remove_delegated(&mut pair, access);
        // As Linux returns it: if GETATTR failed, DELEGRETURN would not run.
        let ask = || getattr(&[FATTR4_CHANGE, FATTR4_SIZE]);
        pair.b.run(vec![put(&pair.fh), getattr(&[FATTR4_TYPE])]).expect(Nfsstat4::NFS4ERR_STALE);
        let reply = pair.a.run(vec![put(&pair.fh), ask(), delegreturn(stateid)]).ok();
        assert_eq!(reply.attributes().size, Some(4));
        pair.a.run(vec![put(&pair.fh), ask()]).expect(Nfsstat4::NFS4ERR_STALE);
    }
}

#[test]
fn opens_under_a_delegation_move_to_the_server_without_a_name() // RFC 8881 section 10.4.1
{
    for access in [READ, BOTH] {
        let server = Setup::default().start();
        let mut pair = Pair::new(&server);
        let stateid = remove_delegated(&mut pair, access);
        let claim = |claim, access, owner| open_how(NOCREATE, claim, access, 0, owner);
        let own = || OpenClaim4::CLAIM_DELEG_CUR_FH(stateid);
        let open = pair.a.run(vec![put(&pair.fh), claim(own(), access, b"o")]).ok().opened().stateid;
        if access == READ {
            pair.a.run(vec![put(&pair.fh), claim(own(), WRITE, b"w")]).expect(Nfsstat4::NFS4ERR_BAD_STATEID);
        } else {
            pair.a.run(vec![put(&pair.fh), write(open, 0, b"DATA")]).ok();
        }
        pair.a
            .run(vec![put(&pair.fh), claim(OpenClaim4::CLAIM_FH, READ, b"n")])
            .expect(Nfsstat4::NFS4ERR_STALE);
        pair.a.security = sys(BOB);
        pair.a.run(vec![put(&pair.fh), claim(own(), READ, b"bob")]).expect(Nfsstat4::NFS4ERR_STALE);
        pair.a.security = sys(ALICE);
        pair.a.run(vec![put(&pair.fh), delegreturn(stateid)]).ok();
        let reply = pair.a.run(vec![put(&pair.fh), read(open, 0, 4), close(open)]).ok();
        let NfsResop4::OP_READ(Read4Res::NFS4_OK(ok)) = &reply.results[2] else { panic!() };
        assert_eq!(ok.data.to_ascii_lowercase(), b"data");
    }
}
