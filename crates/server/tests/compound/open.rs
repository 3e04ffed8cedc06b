//! OPEN, OPEN_DOWNGRADE and CLOSE (RFC 8881 sections 18.16, 18.18, 18.2).

use crate::helper::*;
use nfs4::Nfsstat4::*;
use nfs4::*;

const READ: u32 = OPEN4_SHARE_ACCESS_READ;
const WRITE: u32 = OPEN4_SHARE_ACCESS_WRITE;
const BOTH: u32 = OPEN4_SHARE_ACCESS_BOTH;

fn exclusive(verifier: u8) -> Openflag4<'static> {
    let attributes = Creatverfattr { cva_verf: [verifier; 8], cva_attrs: mode(0o400) };
    Openflag4::OPEN4_CREATE(Createhow4::EXCLUSIVE4_1(attributes))
}

#[test]
fn unchecked4_opens_an_existing_file_and_truncates_it_on_request() // RFC 8881 section 18.16.3
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    client.make_file("export", "f", b"12345");
    let reply = client.at("export", vec![open_create("f", BOTH), getattr(&[FATTR4_SIZE])]).ok();
    let change = &reply.opened().cinfo;
    assert_eq!(change.before, change.after, "nothing was created");
    assert_eq!(reply.attributes().size, Some(5));
    let cut = fattr(AttributeValues { size: Some(0), mode: Some(0o600), ..Default::default() });
    let how = Openflag4::OPEN4_CREATE(Createhow4::UNCHECKED4(cut));
    let ops = vec![open_how(how, by_name("f"), BOTH, 0, b"o2"), getattr(&[FATTR4_SIZE, FATTR4_MODE])];
    let reply = client.at("export", ops).ok();
    assert_eq!(reply.opened().attrset, Bitmap4::of(&[FATTR4_SIZE]));
    assert_eq!((reply.attributes().size, reply.attributes().mode), (Some(0), Some(0o644)));
}

#[test]
fn a_new_file_changes_its_directory_and_has_its_attributes() // RFC 8881 section 18.16.4
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let reply = client.at("export", vec![open_create("new", BOTH), getattr(&[FATTR4_MODE])]).ok();
    assert_ne!(reply.opened().cinfo.before, reply.opened().cinfo.after);
    assert_eq!(reply.opened().attrset, Bitmap4::of(&[FATTR4_MODE]));
    assert_eq!(reply.opened().delegation, OpenDelegation4::OPEN_DELEGATE_NONE);
    assert_eq!(reply.attributes().mode, Some(0o644));
}

#[test]
fn guarded4_refuses_an_existing_name() // RFC 8881 section 18.16.3
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let how = || Openflag4::OPEN4_CREATE(Createhow4::GUARDED4(mode(0o600)));
    client.at("export", vec![open_how(how(), by_name("f"), BOTH, 0, b"o")]).ok();
    client.at("export", vec![open_how(how(), by_name("f"), BOTH, 0, b"o")]).expect(NFS4ERR_EXIST);
    client.make_directory("export", "d");
    client.at("export", vec![open_how(how(), by_name("d"), READ, 0, b"o")]).expect(NFS4ERR_EXIST);
}

#[test]
// RFC 8881 section 18.16.3
fn an_exclusive_create_is_recognised_when_repeated_even_after_a_restart() {
    let backend = memory();
    let server = Setup::with_exports(vec![export("/export", &backend)]).start();
    let mut client = Client::new(&server);
    let reply =
        client.at("export", vec![open_how(exclusive(0xf3), by_name("f"), BOTH, 0, b"o"), getfh()]).ok();
    let attrset = reply.opened().attrset;
    assert!(attrset.contains(FATTR4_TIME_ACCESS_SET) && attrset.contains(FATTR4_MODE));
    let first = reply.fh(0);
    let setup = Setup { epoch: 2, ..Setup::with_exports(vec![export("/export", &backend)]) };
    let server = setup.start();
    let mut client = Client::new(&server);
    let reply =
        client.at("export", vec![open_how(exclusive(0xf3), by_name("f"), BOTH, 0, b"o"), getfh()]).ok();
    assert_eq!(reply.fh(0), first);
    client.at("export", vec![open_how(exclusive(2), by_name("f"), BOTH, 0, b"o")]).expect(NFS4ERR_EXIST);
    let old = Openflag4::OPEN4_CREATE(Createhow4::EXCLUSIVE4([5; 8]));
    client.at("export", vec![open_how(old, by_name("g"), BOTH, 0, b"o")]).ok();
}

#[test]
fn an_exclusive_create_sets_only_attributes_in_suppattr_exclcreat() // RFC 8881 section 5.8.1.14
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let reply = client.at("export", vec![getattr(&[FATTR4_SUPPATTR_EXCLCREAT])]).ok();
    let allowed = reply.attributes().suppattr_exclcreat.unwrap();
    assert!(allowed.contains(FATTR4_MODE) && !allowed.contains(FATTR4_TIME_MODIFY_SET));
    let time = Some(Settime4::Default(TimeHow4::SET_TO_SERVER_TIME4));
    let cva_attrs = fattr(AttributeValues { time_modify_set: time, ..Default::default() });
    let create = Creatverfattr { cva_verf: [1; 8], cva_attrs };
    let how = Openflag4::OPEN4_CREATE(Createhow4::EXCLUSIVE4_1(create));
    client.at("export", vec![open_how(how, by_name("f"), BOTH, 0, b"o")]).expect(NFS4ERR_INVAL);
}

#[test]
fn only_regular_files_are_opened() // RFC 8881 section 18.16.3
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    client.make_directory("export", "d");
    client.at("export", vec![create(Createtype4::NF4LNK(bytes(b"x")), "l", mode(0o777))]).ok();
    client.at("export", vec![create(Createtype4::NF4FIFO, "p", mode(0o666))]).ok();
    let cases = [("d", NFS4ERR_ISDIR), ("l", NFS4ERR_SYMLINK), ("p", NFS4ERR_WRONG_TYPE)];
    for (name, status) in cases {
        client.at("export", vec![open(name, READ)]).expect(status);
        client.at("export", vec![open_create(name, READ)]).expect(status);
        let claim = open_how(NOCREATE, OpenClaim4::CLAIM_FH, READ, 0, b"o");
        client.at(&format!("export/{name}"), vec![claim]).expect(status);
    }
    client.at("export", vec![open("nothing", READ)]).expect(NFS4ERR_NOENT);
    client.make_file("export", "f", b"");
    client.at("export/f", vec![open("x", READ)]).expect(NFS4ERR_NOTDIR);
}

#[test]
fn the_open_file_becomes_the_current_filehandle_with_its_stateid() // RFC 8881 section 16.2.3.1.2
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let ops = vec![
        open_create("f", BOTH),
        write(Stateid4::CURRENT, 0, b"data"),
        read(Stateid4::CURRENT, 0, 10),
        close(Stateid4::CURRENT),
        read(Stateid4::CURRENT, 0, 10),
    ];
    let reply = client.at("export", ops).expect(NFS4ERR_BAD_STATEID);
    assert!(reply.results.iter().any(|result| matches!(result,
        NfsResop4::OP_READ(Read4Res::NFS4_OK(ok)) if &*ok.data == b"data")));
    client.at("export/f", vec![read(Stateid4::CURRENT, 0, 1)]).expect(NFS4ERR_BAD_STATEID);
}

#[test]
fn a_saved_stateid_comes_back_with_its_filehandle() // RFC 8881 section 16.2.3.1.2
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    client.make_file("export", "f", b"data");
    let restore = NfsArgop4::OP_RESTOREFH;
    let ops = vec![open("f", READ), savefh(), put_root(), restore, read(Stateid4::CURRENT, 0, 9)];
    assert_eq!(data(client.at("export", ops).ok().last()).0, b"data");
}

#[test]
fn claim_fh_opens_the_current_filehandle_and_creates_nothing() // RFC 8881 section 18.16.3
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    client.make_file("export", "f", b"data");
    let claim = |how| open_how(how, OpenClaim4::CLAIM_FH, READ, 0, b"o");
    let reply = client.at("export/f", vec![claim(NOCREATE), read(Stateid4::CURRENT, 0, 4)]).ok();
    assert_eq!(data(reply.last()).0, b"data");
    let how = Openflag4::OPEN4_CREATE(Createhow4::UNCHECKED4(mode(0o600)));
    client.at("export/f", vec![claim(how)]).expect(NFS4ERR_INVAL);
    let previous = OpenClaim4::CLAIM_DELEG_PREV_FH;
    client.at("export/f", vec![open_how(NOCREATE, previous, READ, 0, b"o")]).expect(NFS4ERR_RECLAIM_BAD);
}

#[test]
fn wants_are_answered_with_a_reason() // RFC 8881 section 18.16.3
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    client.make_file("export", "f", b"");
    let why = |client: &mut Client<'_>, want: u32| {
        let reply = client.at("export", vec![open("f", READ | want)]).ok();
        match &reply.opened().delegation {
            OpenDelegation4::OPEN_DELEGATE_NONE_EXT(none) => Some(none.discriminant()),
            OpenDelegation4::OPEN_DELEGATE_NONE => None,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(why(&mut client, 0), None);
    // A client without a backchannel could not be asked to return it.
    let refused = Some(WhyNoDelegation4::WND4_RESOURCE);
    assert_eq!(why(&mut client, OPEN4_SHARE_ACCESS_WANT_READ_DELEG), refused);
    assert_eq!(why(&mut client, OPEN4_SHARE_ACCESS_WANT_ANY_DELEG), refused);
    let unwanted = Some(WhyNoDelegation4::WND4_NOT_WANTED);
    assert_eq!(why(&mut client, OPEN4_SHARE_ACCESS_WANT_NO_DELEG), unwanted);
    let cancelled = Some(WhyNoDelegation4::WND4_CANCELLED);
    assert_eq!(why(&mut client, OPEN4_SHARE_ACCESS_WANT_CANCEL), cancelled);
    for access in [0, 0x600, 4, 0x8000_0001] {
        client.at("export", vec![open("f", access)]).expect(NFS4ERR_INVAL);
    }
    client.at("export", vec![open_how(NOCREATE, by_name("f"), READ, 4, b"o")]).expect(NFS4ERR_INVAL);
}

#[test]
fn share_reservations_hold_against_opens_and_anonymous_stateids() // RFC 8881 sections 9.7 and 9.1.2
{
    let server = Setup::default().start();
    let mut alice = Client::new(&server);
    alice.make_file("export", "f", b"data");
    let deny = open_how(NOCREATE, by_name("f"), BOTH, OPEN4_SHARE_DENY_BOTH, b"o");
    let stateid = alice.at("export", vec![deny]).ok().opened().stateid;
    let mut other = Client::with(&server, b"other", sys(ALICE), FORE);
    other.at("export", vec![open("f", READ)]).expect(NFS4ERR_SHARE_DENIED);
    other.at("export/f", vec![read(Stateid4::ANONYMOUS, 0, 4)]).expect(NFS4ERR_LOCKED);
    other.at("export/f", vec![write(Stateid4::ANONYMOUS, 0, b"x")]).expect(NFS4ERR_LOCKED);
    other.at("export/f", vec![write(Stateid4::READ_BYPASS, 0, b"x")]).expect(NFS4ERR_LOCKED);
    other.at("export/f", vec![read(Stateid4::READ_BYPASS, 0, 4)]).ok();
    let cut = || fattr(AttributeValues { size: Some(0), ..Default::default() });
    other.at("export/f", vec![setattr(Stateid4::ANONYMOUS, cut())]).expect(NFS4ERR_LOCKED);
    alice.at("export/f", vec![close(stateid)]).ok();
    other.at("export/f", vec![write(Stateid4::ANONYMOUS, 0, b"x")]).ok();
    // Truncation by OPEN respects share reservations as well.
    let deny = open_how(NOCREATE, by_name("f"), READ, OPEN4_SHARE_DENY_WRITE, b"o");
    alice.at("export", vec![deny]).ok();
    let how = Openflag4::OPEN4_CREATE(Createhow4::UNCHECKED4(cut()));
    let cut = open_how(how, by_name("f"), READ, 0, b"o");
    other.at("export", vec![cut]).expect(NFS4ERR_SHARE_DENIED);
}

#[test]
fn an_open_is_widened_without_the_mode_that_its_file_has_by_now() // RFC 8881 section 9.9
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let how = Openflag4::OPEN4_CREATE(Createhow4::GUARDED4(mode(0o444)));
    let reply = client.at("export", vec![open_how(how, by_name("f"), WRITE, 0, b"o"), getfh()]).ok();
    let (fh, first) = (reply.fh(0), reply.opened().stateid);
    let second = client.at("export", vec![open_how(NOCREATE, by_name("f"), READ, 0, b"o")]).ok();
    let second = second.opened().stateid;
    assert_eq!((second.other, second.seqid), (first.other, first.seqid + 1));
    client.run(vec![put(&fh), write(second, 0, b"x"), read(second, 0, 1)]).ok();
    // Another owner gets the access of the mode.
    let other = open_how(NOCREATE, by_name("f"), WRITE, 0, b"another");
    client.at("export", vec![other]).expect(NFS4ERR_ACCESS);
}

#[test]
// RFC 8881 sections 2.10.8.3 and 9.1.2: session IDs and owners may travel in clear.
fn users_that_share_an_owner_get_only_the_access_of_the_mode() {
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let fh = client.make_file("export", "f", b"data");
    client.security = sys(BOB);
    client.at("export", vec![open("f", READ)]).ok();
    client.security = sys(ALICE);
    let stateid = client.at("export", vec![open("f", WRITE)]).ok().opened().stateid;
    client.run(vec![put(&fh), write(stateid, 0, b"D")]).ok();
    client.security = sys(BOB);
    client.run(vec![put(&fh), read(stateid, 0, 4)]).ok();
    client.run(vec![put(&fh), write(stateid, 0, b"x")]).expect(NFS4ERR_ACCESS);
    let cut = fattr(AttributeValues { size: Some(0), ..Default::default() });
    let how = Openflag4::OPEN4_CREATE(Createhow4::UNCHECKED4(cut));
    client.at("export", vec![open_how(how, by_name("f"), READ, 0, b"owner")]).expect(NFS4ERR_ACCESS);
    let reply = client.run(vec![put(&fh), getattr(&[FATTR4_SIZE])]).ok();
    assert_eq!(reply.attributes().size, Some(4));
}

#[test]
fn read_and_write_need_the_access_of_their_open() // RFC 8881 section 9.1.2
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let fh = client.make_file("export", "f", b"data");
    let stateid = client.at("export", vec![open("f", BOTH)]).ok().opened().stateid;
    let downgrade = NfsArgop4::OP_OPEN_DOWNGRADE(OpenDowngrade4Args {
        open_stateid: stateid,
        seqid: 0,
        share_access: READ,
        share_deny: 0,
    });
    // Only the access of an earlier OPEN can be restored: there was no OPEN for READ alone.
    client.run(vec![put(&fh), downgrade.clone()]).expect(NFS4ERR_INVAL);
    let stateid = client.at("export", vec![open("f", READ)]).ok().opened().stateid;
    let NfsArgop4::OP_OPEN_DOWNGRADE(mut args) = downgrade else { panic!() };
    args.open_stateid = stateid;
    let reply = client.run(vec![put(&fh), NfsArgop4::OP_OPEN_DOWNGRADE(args)]).ok();
    let NfsResop4::OP_OPEN_DOWNGRADE(OpenDowngrade4Res::NFS4_OK(ok)) = reply.last() else { panic!() };
    let stateid = ok.open_stateid;
    client.run(vec![put(&fh), read(stateid, 0, 4)]).ok();
    client.run(vec![put(&fh), write(stateid, 0, b"x")]).expect(NFS4ERR_OPENMODE);
    let stale = Stateid4 { seqid: 1, ..stateid };
    client.run(vec![put(&fh), read(stale, 0, 4)]).expect(NFS4ERR_OLD_STATEID);
    let elsewhere = client.make_file("export", "g", b"");
    client.run(vec![put(&elsewhere), read(stateid, 0, 4)]).expect(NFS4ERR_BAD_STATEID);
}

#[test]
fn a_read_only_export_is_read_only() // RFC 8881 section 15.1.4.10
{
    let backend = memory();
    let writable = Setup::with_exports(vec![export("/export", &backend)]).start();
    Client::new(&writable).make_file("export", "f", b"data");
    let locked = on_terms(export("/export", &backend), |rule| rule.read_only = true);
    let server = Setup::with_exports(vec![locked]).start();
    let mut client = Client::new(&server);
    client.at("export", vec![open("f", READ), read(Stateid4::CURRENT, 0, 4)]).ok();
    client.at("export", vec![open_create("f", READ)]).ok();
    for op in [
        open("f", WRITE),
        open_create("new", READ),
        mkdir("d"),
        remove("f"),
        setattr(Stateid4::ANONYMOUS, mode(0o777)),
    ] {
        client.at("export", vec![op]).expect(NFS4ERR_ROFS);
    }
    client.at("export/f", vec![write(Stateid4::ANONYMOUS, 0, b"x")]).expect(NFS4ERR_ROFS);
    let reply = client.at("export/f", vec![NfsArgop4::OP_ACCESS(Access4Args { access: 0x3f })]).ok();
    let NfsResop4::OP_ACCESS(Access4Res::NFS4_OK(ok)) = reply.last() else { panic!() };
    assert_eq!(ok.access, ACCESS4_READ);
}

#[test]
fn permissions_are_the_callers() // RFC 8881 section 18.16.4
{
    let server = Setup::default().start();
    let mut alice = Client::new(&server);
    alice.make_file("export", "f", b"data");
    alice.make_directory("export", "d");
    let mut bob = Client::with(&server, b"bob", sys(BOB), FORE);
    bob.at("export", vec![open("f", WRITE)]).expect(NFS4ERR_ACCESS);
    bob.at("export/d", vec![open_create("x", BOTH)]).expect(NFS4ERR_ACCESS);
    bob.at("export/f", vec![write(Stateid4::ANONYMOUS, 0, b"x")]).expect(NFS4ERR_ACCESS);
    let mut root = Client::with(&server, b"root", sys(0), FORE);
    root.at("export", vec![open("f", WRITE)]).expect(NFS4ERR_ACCESS);
    root.make_file("export", "squashed", b"");
    let reply = root.at("export/squashed", vec![getattr(&[FATTR4_OWNER])]).ok();
    assert_eq!(reply.attributes().owner.as_deref(), Some(&b"65534"[..]));
}

#[test]
fn open_accepts_exactly_the_arguments_in_open_arguments() // RFC 9754
{
    use OpenArgsOpenClaim4::*;
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    client.minor = 2;
    let fh = client.make_file("export", "f", b"12345");
    let reply = client.run(vec![put(&fh), getattr(&[FATTR4_OPEN_ARGUMENTS])]).ok();
    let told = reply.attributes().open_arguments.unwrap();
    let cur = OpenClaimDelegateCur4 { delegate_stateid: Stateid4::ANONYMOUS, file: bytes(b"f") };
    let claims = [
        (OPEN_ARGS_OPEN_CLAIM_NULL, by_name("f")),
        (OPEN_ARGS_OPEN_CLAIM_PREVIOUS, OpenClaim4::CLAIM_PREVIOUS(OpenDelegationType4::OPEN_DELEGATE_NONE)),
        (OPEN_ARGS_OPEN_CLAIM_DELEGATE_CUR, OpenClaim4::CLAIM_DELEGATE_CUR(cur)),
        (OPEN_ARGS_OPEN_CLAIM_DELEGATE_PREV, OpenClaim4::CLAIM_DELEGATE_PREV(bytes(b"f"))),
        (OPEN_ARGS_OPEN_CLAIM_FH, OpenClaim4::CLAIM_FH),
        (OPEN_ARGS_OPEN_CLAIM_DELEG_CUR_FH, OpenClaim4::CLAIM_DELEG_CUR_FH(Stateid4::ANONYMOUS)),
        (OPEN_ARGS_OPEN_CLAIM_DELEG_PREV_FH, OpenClaim4::CLAIM_DELEG_PREV_FH),
    ];
    for (number, claim) in claims {
        let by_name = matches!(number as u32, 0 | 2 | 3);
        let place = if by_name { vec![put_root(), lookup("export")] } else { vec![put(&fh)] };
        let open = open_how(NOCREATE, claim, 1, 0, b"owner");
        let reply = client.run([place, vec![open]].concat());
        let refused = matches!(reply.status, NFS4ERR_NOTSUPP | NFS4ERR_INVAL | NFS4ERR_RECLAIM_BAD);
        assert_eq!(told.oa_open_claim.contains(number as u32), !refused, "{number}: {}", reply.status);
    }
    let set = || mode(0o644);
    let ways = [
        Createhow4::UNCHECKED4(set()),
        Createhow4::GUARDED4(set()),
        Createhow4::EXCLUSIVE4([1; 8]),
        Createhow4::EXCLUSIVE4_1(Creatverfattr { cva_verf: [2; 8], cva_attrs: set() }),
    ];
    for (number, how) in ways.into_iter().enumerate() {
        let name = format!("new{number}");
        let open = open_how(Openflag4::OPEN4_CREATE(how), by_name(&name), 3, 0, b"owner");
        client.at("export", vec![open]).ok();
        assert!(told.oa_create_mode.contains(number as u32));
    }
    let other = client.make_file("export", "other", b"");
    for access in 1..=3 {
        for deny in 0..=3 {
            // One at a time, since the owner's own open counts as well.
            let open = open_how(NOCREATE, by_name("other"), access, deny, b"owner");
            let stateid = client.at("export", vec![open]).ok().opened().stateid;
            client.run(vec![put(&other), close(stateid)]).ok();
            assert!(told.oa_share_access.contains(access) && told.oa_share_deny.contains(deny));
        }
    }
    for (want, number) in [(3, 3), (4, 4), (5, 5)] {
        client.at("export", vec![open_how(NOCREATE, by_name("f"), 1 | want << 8, 0, b"owner")]).ok();
        assert!(told.oa_share_access_want.contains(number));
    }
    assert_eq!(told.oa_share_access_want.len(), 3);
}
