//! Extended attributes (RFC 8276).

use crate::helper::*;
use nfs4::Nfsstat4::*;
use nfs4::SetxattrOption4::*;
use nfs4::*;

fn client(server: &Server) -> Client<'_> {
    let mut client = Client::new(server);
    client.minor = 2;
    client
}

#[track_caller]
fn value(reply: &Reply) -> Vec<u8> {
    match reply.last() {
        NfsResop4::OP_GETXATTR(Getxattr4Res::NFS4_OK(value)) => value.to_vec(),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn names(reply: &Reply) -> (Vec<Vec<u8>>, u64, bool) {
    match reply.last() {
        NfsResop4::OP_LISTXATTRS(Listxattrs4Res::NFS4_OK(ok)) => {
            (ok.lxr_names.iter().map(|name| name.to_vec()).collect(), ok.lxr_cookie, ok.lxr_eof)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_value_is_set_read_listed_and_removed() // RFC 8276 section 8.4
{
    let server = Setup::default().start();
    let mut client = client(&server);
    let fh = client.make_file("export", "f", b"");
    client.run(vec![put(&fh), get_xattr(b"a")]).expect(NFS4ERR_NOXATTR);
    let change = client.run(vec![put(&fh), getattr(&[FATTR4_CHANGE])]).ok().attributes().change.unwrap();
    let reply = client.run(vec![put(&fh), set_xattr(SETXATTR4_EITHER, b"a/b", b"value")]).ok();
    let NfsResop4::OP_SETXATTR(Setxattr4Res::NFS4_OK(info)) = reply.last() else { panic!() };
    assert_eq!(info.before, change);
    assert!(info.after > change);
    assert_eq!(value(&client.run(vec![put(&fh), get_xattr(b"a/b")]).ok()), b"value");
    assert_eq!(
        names(&client.run(vec![put(&fh), list_xattrs(0, 1000)]).ok()),
        (vec![b"a/b".to_vec()], 1, true)
    );
    let reply = client.run(vec![put(&fh), remove_xattr(b"a/b")]).ok();
    assert!(matches!(reply.last(), NfsResop4::OP_REMOVEXATTR(Removexattr4Res::NFS4_OK(_))));
    client.run(vec![put(&fh), remove_xattr(b"a/b")]).expect(NFS4ERR_NOXATTR);
    assert_eq!(names(&client.run(vec![put(&fh), list_xattrs(0, 1000)]).ok()), (vec![], 0, true));
}

#[test]
fn creating_and_replacing_are_told_apart() // RFC 8276 section 8.4.2.3
{
    let server = Setup::default().start();
    let mut client = client(&server);
    let fh = client.make_file("export", "f", b"");
    let cases = [
        (SETXATTR4_REPLACE, NFS4ERR_NOXATTR),
        (SETXATTR4_CREATE, NFS4_OK),
        (SETXATTR4_CREATE, NFS4ERR_EXIST),
        (SETXATTR4_REPLACE, NFS4_OK),
        (SETXATTR4_EITHER, NFS4_OK),
    ];
    for (how, status) in cases {
        client.run(vec![put(&fh), set_xattr(how, b"a", b"x")]).expect(status);
    }
}

#[test]
fn names_and_values_have_bounds() // RFC 8276 sections 8.3 and 8.4.2.3
{
    let server = Setup::default().start();
    let mut client = client(&server);
    let fh = client.make_file("export", "f", b"");
    let cases: [(&[u8], usize, Nfsstat4); 7] = [
        (b"", 1, NFS4ERR_INVAL),
        (&[0xff], 1, NFS4ERR_INVAL),
        (b"a\0b", 1, NFS4ERR_BADCHAR),
        (&[b'n'; 251], 1, NFS4ERR_NAMETOOLONG),
        (&[b'n'; 250], 1, NFS4_OK),
        (b"a", 65_537, NFS4ERR_XATTR2BIG),
        (b"a", 65_536, NFS4_OK),
    ];
    for (name, length, status) in cases {
        client.run(vec![put(&fh), set_xattr(SETXATTR4_EITHER, name, &vec![3; length])]).expect(status);
    }
    assert_eq!(value(&client.run(vec![put(&fh), get_xattr(b"a")]).ok()).len(), 65_536);
    let fore = ChannelAttrs4 { ca_maxresponsesize: 4096, ..FORE };
    let mut small = Client::with(&server, b"small", sys(ALICE), fore);
    small.minor = 2;
    small.run(vec![put(&fh), get_xattr(b"a")]).expect(NFS4ERR_REP_TOO_BIG);
}

#[test]
fn a_long_list_comes_in_parts() // RFC 8276 section 8.4.3.3
{
    let server = Setup::default().start();
    let mut client = client(&server);
    let fh = client.make_file("export", "f", b"");
    let all: Vec<Vec<u8>> = (100..200).map(|n| format!("name-{n}").into_bytes()).collect();
    for name in &all {
        client.run(vec![put(&fh), set_xattr(SETXATTR4_EITHER, name, b"x")]).ok();
    }
    let (mut got, mut cookie) = (Vec::new(), 0);
    loop {
        let (more, next, eof) = names(&client.run(vec![put(&fh), list_xattrs(cookie, 100)]).ok());
        assert!((1..=7).contains(&more.len()), "a name takes 12 bytes, the rest 16");
        got.extend(more);
        cookie = next;
        if eof {
            break;
        }
    }
    assert_eq!(got, all);
    client.run(vec![put(&fh), list_xattrs(0, 27)]).expect(NFS4ERR_TOOSMALL);
    client.run(vec![put(&fh), list_xattrs(0, 15)]).expect(NFS4ERR_TOOSMALL);
    client.run(vec![put(&fh), list_xattrs(101, 100)]).expect(NFS4ERR_BAD_COOKIE);
    client.run(vec![put(&fh), list_xattrs(u64::MAX, 100)]).expect(NFS4ERR_BAD_COOKIE);
    assert_eq!(names(&client.run(vec![put(&fh), list_xattrs(100, 16)]).ok()), (vec![], 100, true));
}

#[test]
fn extended_attributes_need_the_permissions_of_the_data() // RFC 8276 section 8.5
{
    let server = Setup::default().start();
    let mut alice = client(&server);
    let fh = alice.make_file("export", "f", b"");
    alice.run(vec![put(&fh), set_xattr(SETXATTR4_EITHER, b"a", b"x")]).ok();
    let ask = |client: &mut Client<'_>| {
        let reply = client.run(vec![put(&fh), NfsArgop4::OP_ACCESS(Access4Args { access: 0x1c0 })]).ok();
        let NfsResop4::OP_ACCESS(Access4Res::NFS4_OK(ok)) = reply.last() else { panic!() };
        (ok.supported, ok.access)
    };
    assert_eq!(ask(&mut alice), (0x1c0, 0x1c0));
    let mut bob = Client::with(&server, b"bob", sys(BOB), FORE);
    assert_eq!(ask(&mut bob), (0, 0), "there are no such bits in 4.1");
    bob.minor = 2;
    assert_eq!(ask(&mut bob), (0x1c0, ACCESS4_XAREAD | ACCESS4_XALIST));
    assert_eq!(value(&bob.run(vec![put(&fh), get_xattr(b"a")]).ok()), b"x");
    bob.run(vec![put(&fh), set_xattr(SETXATTR4_EITHER, b"a", b"y")]).expect(NFS4ERR_ACCESS);
    bob.run(vec![put(&fh), remove_xattr(b"a")]).expect(NFS4ERR_ACCESS);
    alice.run(vec![put(&fh), setattr(Stateid4::ANONYMOUS, mode(0o600))]).ok();
    bob.run(vec![put(&fh), get_xattr(b"a")]).expect(NFS4ERR_ACCESS);
}

#[test]
fn the_pseudo_file_system_and_read_only_exports_take_none() // RFC 8276 section 8.2
{
    let closed = on_terms(export("/closed", &memory()), |rule| rule.read_only = true);
    let server = Setup::with_exports(vec![closed]).start();
    let mut client = client(&server);
    client.at("", vec![get_xattr(b"a")]).expect(NFS4ERR_NOTSUPP);
    client.at("", vec![list_xattrs(0, 100)]).expect(NFS4ERR_NOTSUPP);
    client.at("closed", vec![list_xattrs(0, 100)]).ok();
    client.at("closed", vec![set_xattr(SETXATTR4_EITHER, b"a", b"x")]).expect(NFS4ERR_ROFS);
    client.at("closed", vec![remove_xattr(b"a")]).expect(NFS4ERR_ROFS);
    let support = |client: &mut Client<'_>, path| {
        client.at(path, vec![getattr(&[FATTR4_XATTR_SUPPORT])]).ok().attributes().xattr_support
    };
    assert_eq!((support(&mut client, ""), support(&mut client, "closed")), (Some(false), Some(true)));
}
