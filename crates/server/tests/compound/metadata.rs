//! CREATE, READLINK, LINK, RENAME, REMOVE (RFC 8881 sections 18.4, 18.24, 18.9, 18.26, 18.25).

use crate::helper::*;
use nfs4::Nfsstat4::*;
use nfs4::*;

fn type_of(client: &mut Client<'_>, path: &str) -> Option<NfsFtype4> {
    client.at(path, vec![getattr(&[FATTR4_TYPE])]).ok().attributes().r#type
}

#[test]
fn everything_but_regular_files_is_created() // RFC 8881 section 18.4.3
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let cases = [
        ("d", Createtype4::NF4DIR, NfsFtype4::NF4DIR),
        ("l", Createtype4::NF4LNK(bytes(b"to/where")), NfsFtype4::NF4LNK),
        ("s", Createtype4::NF4SOCK, NfsFtype4::NF4SOCK),
        ("p", Createtype4::NF4FIFO, NfsFtype4::NF4FIFO),
    ];
    for (name, objtype, kind) in cases {
        let reply = client.at("export", vec![create(objtype.clone(), name, mode(0o700)), getfh()]).ok();
        assert_eq!(reply.fh(0), client.fh_of(&format!("export/{name}")));
        assert_eq!(type_of(&mut client, &format!("export/{name}")), Some(kind));
        client.at("export", vec![create(objtype, name, mode(0o700))]).expect(NFS4ERR_EXIST);
    }
    let device = Createtype4::NF4BLK(Specdata4 { specdata1: 1, specdata2: 2 });
    client.at("export", vec![create(device, "b", mode(0o600))]).expect(NFS4ERR_PERM);
    let regular = Createtype4::Default(NfsFtype4::NF4REG);
    client.at("export", vec![create(regular, "r", mode(0o600))]).expect(NFS4ERR_BADTYPE);
    client.make_file("export", "file", b"");
    client.at("export/file", vec![mkdir("x")]).expect(NFS4ERR_NOTDIR);
    let size = fattr(AttributeValues { size: Some(1), ..Default::default() });
    client.at("export", vec![create(Createtype4::NF4DIR, "z", size)]).expect(NFS4ERR_INVAL);
}

#[test]
fn a_link_is_read_as_it_was_made() // RFC 8881 section 18.24.3
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let target = "\u{e4}/../\u{7}with anything".as_bytes();
    let make = |target: &[u8], name| create(Createtype4::NF4LNK(bytes(target)), name, mode(0o777));
    client.at("export", vec![make(target, "l")]).ok();
    let reply = client.at("export/l", vec![NfsArgop4::OP_READLINK]).ok();
    let NfsResop4::OP_READLINK(Readlink4Res::NFS4_OK(ok)) = reply.last() else { panic!() };
    assert_eq!(&*ok.link, target);
    client.at("export", vec![make(b"", "e")]).expect(NFS4ERR_INVAL);
    client.at("export", vec![make(b"a\0b", "e")]).expect(NFS4ERR_INVAL);
    client.at("export", vec![make(&[b'x'; 5000], "e")]).expect(NFS4ERR_NAMETOOLONG);
    client.at("export", vec![NfsArgop4::OP_READLINK]).expect(NFS4ERR_WRONG_TYPE);
    client.at("", vec![NfsArgop4::OP_READLINK]).expect(NFS4ERR_WRONG_TYPE);
}

#[test]
fn a_file_gets_a_second_name() // RFC 8881 section 18.9.3
{
    let server = Setup::with_exports(vec![export("/a", &memory()), export("/b", &memory())]).start();
    let mut client = Client::new(&server);
    let fh = client.make_file("a", "f", b"x");
    let a = client.fh_of("a");
    let reply = client.run(vec![put(&fh), savefh(), put(&a), link("g")]).ok();
    let NfsResop4::OP_LINK(Link4Res::NFS4_OK(ok)) = reply.last() else { panic!() };
    assert_ne!(ok.cinfo.before, ok.cinfo.after);
    assert_eq!(client.fh_of("a/g"), fh);
    let reply = client.at("a/g", vec![getattr(&[FATTR4_NUMLINKS])]).ok();
    assert_eq!(reply.attributes().numlinks, Some(2));
    client.run(vec![put(&fh), savefh(), put(&a), link("g")]).expect(NFS4ERR_EXIST);
    let b = client.fh_of("b");
    client.run(vec![put(&fh), savefh(), put(&b), link("g")]).expect(NFS4ERR_XDEV);
    client.run(vec![put(&a), savefh(), link("h")]).expect(NFS4ERR_ISDIR);
    client.run(vec![put(&fh), savefh(), put(&fh), link("h")]).expect(NFS4ERR_NOTDIR);
}

#[test]
fn a_name_moves_and_replaces() // RFC 8881 section 18.26.3
{
    let server = Setup::with_exports(vec![export("/a", &memory()), export("/b", &memory())]).start();
    let mut client = Client::new(&server);
    let f = client.make_file("a", "f", b"f");
    client.make_file("a", "g", b"g");
    let d = client.make_directory("a", "d");
    let (a, b) = (client.fh_of("a"), client.fh_of("b"));
    let reply = client.run(vec![put(&a), savefh(), rename("f", "g")]).ok();
    let NfsResop4::OP_RENAME(Rename4Res::NFS4_OK(ok)) = reply.last() else { panic!() };
    assert_ne!(ok.source_cinfo.before, ok.target_cinfo.after);
    assert_eq!(client.fh_of("a/g"), f);
    client.at("a/f", vec![]).expect(NFS4ERR_NOENT);
    client.run(vec![put(&a), savefh(), put(&d), rename("g", "moved")]).ok();
    assert_eq!(client.fh_of("a/d/moved"), f);
    client.run(vec![put(&d), savefh(), put(&b), rename("moved", "x")]).expect(NFS4ERR_XDEV);
    client.run(vec![put(&a), savefh(), rename("nothing", "x")]).expect(NFS4ERR_NOENT);
    client.run(vec![put(&a), savefh(), put(&d), rename("d", "inside")]).expect(NFS4ERR_INVAL);
    client.make_directory("a", "e");
    client.run(vec![put(&a), savefh(), rename("e", "d")]).expect(NFS4ERR_NOTEMPTY);
    client.run(vec![put_root(), savefh(), put(&a), rename("a", "x")]).expect(NFS4ERR_XDEV);
}

#[test]
fn a_name_is_removed_and_directories_only_when_empty() // RFC 8881 section 18.25.3
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    client.make_directory("export", "d");
    client.make_file("export/d", "f", b"");
    client.at("export", vec![remove("d")]).expect(NFS4ERR_NOTEMPTY);
    let reply = client.at("export/d", vec![remove("f")]).ok();
    let NfsResop4::OP_REMOVE(Remove4Res::NFS4_OK(ok)) = reply.last() else { panic!() };
    assert!(!ok.cinfo.atomic && ok.cinfo.before != ok.cinfo.after);
    client.at("export", vec![remove("d")]).ok();
    client.at("export", vec![remove("d")]).expect(NFS4ERR_NOENT);
    client.make_file("export", "f", b"");
    client.at("export/f", vec![remove("x")]).expect(NFS4ERR_NOTDIR);
}

#[test]
fn an_open_file_outlives_its_name() // RFC 8881 section 18.25.4
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let fh = client.make_file("export", "f", b"data");
    let stateid = client.at("export", vec![open("f", 3)]).ok().opened().stateid;
    client.at("export", vec![remove("f")]).ok();
    let reply = client.run(vec![put(&fh), write(stateid, 4, b"!"), read(stateid, 0, 9)]).ok();
    assert_eq!(data(reply.last()).0, b"data!");
    let commit = NfsArgop4::OP_COMMIT(Commit4Args { offset: 0, count: 0 });
    client.run(vec![put(&fh), commit.clone()]).ok();
    let cut = AttributeValues { size: Some(2), ..AttributeValues::default() };
    client.run(vec![put(&fh), setattr(stateid, fattr(cut))]).ok();
    // Linux asks for attributes before it closes, in the same COMPOUND: if GETATTR failed, CLOSE
    // would not run and the open would remain.
    let ask = || getattr(&[FATTR4_SIZE, FATTR4_NUMLINKS]);
    let reply = client.run(vec![put(&fh), ask(), close(stateid)]).ok();
    assert_eq!((reply.attributes().size, reply.attributes().numlinks), (Some(2), Some(0)));
    assert_eq!(server.nfs.counts().opens, 0);
    client.run(vec![put(&fh), ask()]).expect(NFS4ERR_STALE);
    client.run(vec![put(&fh), commit]).expect(NFS4ERR_STALE);
}

#[test]
fn an_open_file_without_a_name_is_truncated_with_its_times() // RFC 8881 section 18.30
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let fh = client.make_file("export", "f", b"data");
    let stateid = client.at("export", vec![open("f", 3)]).ok().opened().stateid;
    client.at("export", vec![remove("f")]).ok();
    // ftruncate() of Linux sends the time of the server.
    let now = Settime4::Default(TimeHow4::SET_TO_SERVER_TIME4);
    let past = Settime4::SET_TO_CLIENT_TIME4(Nfstime4 { seconds: 1, nseconds: 0 });
    for (size, time, set) in [(3, now, true), (2, past, false)] {
        let both =
            AttributeValues { size: Some(size), time_modify_set: Some(time), ..AttributeValues::default() };
        let reply = client.run(vec![put(&fh), setattr(stateid, fattr(both))]).ok();
        let NfsResop4::OP_SETATTR(done) = reply.last() else { panic!() };
        let times = done.attrsset.contains(FATTR4_TIME_MODIFY_SET);
        assert_eq!((done.attrsset.contains(FATTR4_SIZE), times), (true, set));
        let reply = client.run(vec![put(&fh), getattr(&[FATTR4_SIZE])]).ok();
        assert_eq!(reply.attributes().size, Some(size));
    }
    let both = AttributeValues { size: Some(1), mode: Some(0o600), ..AttributeValues::default() };
    client.run(vec![put(&fh), setattr(stateid, fattr(both))]).expect(NFS4ERR_STALE);
}

#[test]
fn a_writer_that_does_not_own_a_file_truncates_it_with_its_time() // RFC 8881 section 18.30.4
{
    let server = Setup::default().start();
    let mut alice = Client::new(&server);
    let mut bob = Client::with(&server, b"bob", sys(BOB), FORE);
    let fh = alice.make_file("export", "f", b"data");
    alice.run(vec![put(&fh), setattr(Stateid4::ANONYMOUS, mode(0o666))]).ok();
    let stateid = bob.at("export", vec![open("f", 3)]).ok().opened().stateid;
    let now = Some(Settime4::Default(TimeHow4::SET_TO_SERVER_TIME4));
    let attrsset = |reply: &Reply| match reply.last() {
        NfsResop4::OP_SETATTR(done) => done.attrsset,
        other => panic!("{other:?}"),
    };
    let both = Bitmap4::of(&[FATTR4_SIZE, FATTR4_TIME_MODIFY_SET]);
    for stateid in [stateid, Stateid4::ANONYMOUS] {
        let cut = AttributeValues { size: Some(2), time_modify_set: now, ..AttributeValues::default() };
        let reply = bob.run(vec![put(&fh), setattr(stateid, fattr(cut))]).ok();
        assert_eq!(attrsset(&reply), both);
    }
    // A change to the present size is the time alone.
    let time = AttributeValues { time_modify_set: now, ..AttributeValues::default() };
    bob.run(vec![put(&fh), setattr(Stateid4::ANONYMOUS, fattr(time))]).ok();
    let cut = AttributeValues { size: Some(1), mode: Some(0o600), ..AttributeValues::default() };
    let reply = bob.run(vec![put(&fh), setattr(Stateid4::ANONYMOUS, fattr(cut))]).expect(NFS4ERR_PERM);
    assert_eq!(attrsset(&reply), Bitmap4::of(&[FATTR4_SIZE]), "it was set before the mode");
}

#[test]
fn a_removed_file_stays_for_clients_that_have_it_open() // RFC 8881 section 4.2.3
{
    let server = Setup::default().start();
    let (mut alice, mut bob) = (Client::new(&server), Client::with(&server, b"bob", sys(ALICE), FORE));
    let fh = alice.make_file("export", "f", b"data");
    let stateid = alice.at("export", vec![open("f", 1)]).ok().opened().stateid;
    bob.at("export", vec![remove("f")]).ok();
    alice.run(vec![put(&fh), getattr(&[FATTR4_SIZE])]).ok();
    bob.run(vec![put(&fh), getattr(&[FATTR4_SIZE])]).expect(NFS4ERR_STALE);
    alice.run(vec![put(&fh), close(stateid)]).ok();
}
