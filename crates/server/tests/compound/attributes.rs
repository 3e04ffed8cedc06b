//! GETATTR, SETATTR, VERIFY, NVERIFY and ACCESS (RFC 8881 section 5).

use crate::helper::*;
use nfs4::Nfsstat4::*;
use nfs4::*;
use vfs::SecFlavor;

fn values(values: AttributeValues<'static>) -> Fattr4<'static> {
    fattr(values)
}

#[test]
fn every_supported_attribute_has_a_value() // RFC 8881 section 5.6
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    client.minor = 2;
    client.make_file("export", "f", b"12345");
    let mut readable: Vec<u32> = Vec::new();
    for path in ["", "export", "export/f"] {
        let reply = client.at(path, vec![getattr(&[FATTR4_SUPPORTED_ATTRS])]).ok();
        let supported = reply.attributes().supported_attrs.unwrap();
        assert!(nfs4::attributes::REQUIRED.is_subset_of(&supported));
        readable = supported.and(&nfs4::attributes::GETTABLE).iter().collect();
        let reply = client.at(path, vec![getattr(&readable)]).ok();
        let given = reply.attributes().present();
        for attribute in &readable {
            let optional = *attribute == FATTR4_TIME_CREATE;
            assert!(given.contains(*attribute) || optional, "{path}: {attribute}");
        }
    }
    let reply = client.at("export/f", vec![getattr(&readable)]).ok();
    let got = reply.attributes();
    assert_eq!(got.size, Some(5));
    assert_eq!(got.mode, Some(0o644));
    assert_eq!(got.owner.as_deref(), Some(&b"alice@example.org"[..]));
    assert_eq!(got.owner_group.as_deref(), Some(&b"alice@example.org"[..]));
    assert_eq!(got.lease_time, Some(60));
    assert_eq!(got.maxread, Some(1 << 20));
    assert_eq!(got.unique_handles, Some(true));
    assert_eq!(got.case_insensitive, Some(false));
    assert_eq!(got.xattr_support, Some(true));
    assert_eq!(got.fs_layout_types, Some(vec![]));
    assert_eq!(got.filehandle.as_deref(), Some(&*client.fh_of("export/f")));
    assert_eq!(got.rdattr_error, Some(NFS4_OK));
}

#[test]
fn attributes_that_hold_for_all_objects_match_the_servers_behaviour() // RFC 8881 section 5.8
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    client.minor = 2;
    client.make_file("export", "f", b"12345");
    let same = [
        FATTR4_FH_EXPIRE_TYPE,
        FATTR4_LINK_SUPPORT,
        FATTR4_SYMLINK_SUPPORT,
        FATTR4_NAMED_ATTR,
        FATTR4_UNIQUE_HANDLES,
        FATTR4_LEASE_TIME,
        FATTR4_CANSETTIME,
        FATTR4_CASE_INSENSITIVE,
        FATTR4_CASE_PRESERVING,
        FATTR4_CHOWN_RESTRICTED,
        FATTR4_HOMOGENEOUS,
        FATTR4_MAXFILESIZE,
        FATTR4_MAXNAME,
        FATTR4_MAXWRITE,
        FATTR4_NO_TRUNC,
        FATTR4_TIME_DELTA,
        FATTR4_FS_LAYOUT_TYPES,
        FATTR4_SUPPATTR_EXCLCREAT,
        FATTR4_FS_CHARSET_CAP,
    ];
    for path in ["", "export", "export/f"] {
        let reply = client.at(path, vec![getattr(&same)]).ok();
        let got = reply.attributes();
        let expected = AttributeValues {
            fh_expire_type: Some(FH4_PERSISTENT),
            link_support: Some(true),
            symlink_support: Some(true),
            named_attr: Some(false),
            unique_handles: Some(true),
            lease_time: Some(60),
            cansettime: Some(true),
            case_insensitive: Some(false),
            case_preserving: Some(true),
            chown_restricted: Some(true),
            homogeneous: Some(true),
            maxfilesize: Some(i64::MAX.unsigned_abs()),
            maxname: Some(255),
            maxwrite: Some(1 << 20),
            no_trunc: Some(true),
            time_delta: Some(Nfstime4 { seconds: 0, nseconds: 1 }),
            fs_layout_types: Some(vec![]),
            suppattr_exclcreat: got.suppattr_exclcreat,
            fs_charset_cap: Some(FSCHARSET_CAP4_CONTAINS_NON_UTF8),
            ..Default::default()
        };
        assert_eq!(got, expected, "{path:?}");
        let exclusive = got.suppattr_exclcreat.unwrap();
        assert!(exclusive.contains(FATTR4_SIZE) && !exclusive.contains(FATTR4_TIME_MODIFY_SET));
    }
}

#[test]
fn space_files_and_times_follow_what_is_written() // RFC 8881 sections 5.8.2.8 to 5.8.2.43
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let counts = [
        FATTR4_FILES_AVAIL,
        FATTR4_FILES_FREE,
        FATTR4_FILES_TOTAL,
        FATTR4_SPACE_AVAIL,
        FATTR4_SPACE_FREE,
        FATTR4_SPACE_TOTAL,
        FATTR4_MAXLINK,
    ];
    let before = client.at("export", vec![getattr(&counts)]).ok();
    client.make_file("export", "f", &[7; 300_000]);
    let after = client.at("export", vec![getattr(&counts)]).ok();
    let (before, after) = (before.attributes(), after.attributes());
    assert_eq!(after.files_free.unwrap(), before.files_free.unwrap() - 1);
    assert_eq!(after.files_avail, after.files_free);
    assert!(after.space_free.unwrap() <= before.space_free.unwrap() - 300_000);
    assert_eq!(after.space_avail, after.space_free);
    assert_eq!((after.files_total, after.space_total), (before.files_total, before.space_total));
    assert!(after.maxlink.unwrap() > 1);
    let of_file =
        [FATTR4_NUMLINKS, FATTR4_SPACE_USED, FATTR4_RAWDEV, FATTR4_TIME_ACCESS, FATTR4_TIME_METADATA];
    client.at("export/f", vec![savefh(), put_root(), lookup("export"), link("g")]).ok();
    let reply = client.at("export/f", vec![getattr(&of_file)]).ok();
    let got = reply.attributes();
    assert_eq!((got.numlinks, got.rawdev), (Some(2), Some(Specdata4 { specdata1: 0, specdata2: 0 })));
    assert!(got.space_used.unwrap() >= 300_000);
    assert!(got.time_access.is_some() && got.time_metadata.is_some());
}

#[test]
fn attributes_of_4_2_are_left_out_in_4_1() // RFC 7862 section 12.2
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let ask = [FATTR4_CHANGE_ATTR_TYPE, FATTR4_XATTR_SUPPORT, FATTR4_TYPE];
    let of_1 = client.at("export", vec![getattr(&ask)]).ok();
    assert_eq!(of_1.attributes().present(), Bitmap4::of(&[FATTR4_TYPE]));
    client.minor = 2;
    assert_eq!(client.at("export", vec![getattr(&ask)]).ok().attributes().present().len(), 3);
}

#[test]
fn unknown_attributes_are_left_out_and_write_only_ones_refused() // RFC 8881 sections 5.5 and 18.7.3
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let reply = client.at("export", vec![getattr(&[FATTR4_SACL, 90, 127, FATTR4_TYPE])]).ok();
    assert_eq!(reply.attributes().present(), Bitmap4::of(&[FATTR4_TYPE]));
    client.at("export", vec![getattr(&[FATTR4_TIME_MODIFY_SET])]).expect(NFS4ERR_INVAL);
    // Of NFSv4.2.
    let ask = [FATTR4_MODE_UMASK, FATTR4_TYPE];
    let reply = client.at("export", vec![getattr(&ask)]).ok();
    assert_eq!(reply.attributes().present(), Bitmap4::of(&[FATTR4_TYPE]));
    client.minor = 2;
    client.at("export", vec![getattr(&ask)]).expect(NFS4ERR_INVAL);
}

#[test]
fn an_owner_without_a_name_is_a_number() // RFC 8881 section 5.9
{
    let server = Setup::default().start();
    let mut client = Client::with(&server, b"bob", sys(BOB), FORE);
    client.make_file("export", "f", b"");
    let reply = client.at("export/f", vec![getattr(&[FATTR4_OWNER])]).ok();
    assert_eq!(reply.attributes().owner.as_deref(), Some(&b"1001"[..]));
}

#[test]
fn a_number_is_no_owner_where_kerberos_callers_have_a_name_for_it() // RFC 8881 section 5.9
{
    use orthrus_server::engine::NumericOwners::{Always, Nameless, Sys};
    let kerberos = [SecFlavor::Krb5, SecFlavor::Krb5i, SecFlavor::Krb5p];
    for rule in [Sys, Always, Nameless] {
        let mut setup = Setup::default();
        setup.config.numeric_owners = rule;
        let server = setup.start();
        for flavor in kerberos.into_iter().chain([SecFlavor::Sys]) {
            let security = match flavor {
                SecFlavor::Sys => sys(ALICE),
                flavor => krb5(flavor, "alice", ALICE),
            };
            let name = format!("{flavor}");
            let mut client = Client::with(&server, name.as_bytes(), security, FORE);
            client.make_file("export", &name, b"");
            let path = format!("export/{name}");
            let owner = |text: &[u8]| AttributeValues { owner: Some(bytes(text)), ..Default::default() };
            let group =
                |text: &[u8]| AttributeValues { owner_group: Some(bytes(text)), ..Default::default() };
            let mut set = |values: AttributeValues<'static>| {
                client.at(&path, vec![setattr(Stateid4::ANONYMOUS, fattr(values))]).status
            };
            let allowed = rule == Always || rule == Sys && flavor == SecFlavor::Sys;
            let expected = if allowed { NFS4_OK } else { NFS4ERR_BADOWNER };
            assert_eq!(set(owner(b"1000")), expected, "{rule:?} {flavor}");
            assert_eq!(set(group(b"1000")), expected, "{rule:?} {flavor}");
            // The name of the owner is always accepted.
            assert_eq!(set(owner(b"alice@example.org")), NFS4_OK);
            assert_eq!(set(group(b"alice@example.org")), NFS4_OK);
            // A number without a name is accepted, and the file system decides on its use.
            assert_ne!(set(owner(b"1001")), NFS4ERR_BADOWNER, "{rule:?} {flavor}");
            assert_ne!(set(group(b"1001")), NFS4ERR_BADOWNER, "{rule:?} {flavor}");
            // Entries of access control lists name users in the same way.
            let entry = |who: &[u8]| Nfsace4 {
                r#type: ACE4_ACCESS_ALLOWED_ACE_TYPE,
                flag: 0,
                access_mask: ACE4_READ_DATA,
                who: bytes(who),
            };
            let acl = |who: &[u8]| AttributeValues { acl: Some(vec![entry(who)]), ..Default::default() };
            assert_eq!(set(acl(b"1000")) == NFS4ERR_BADOWNER, !allowed, "{rule:?} {flavor}");
            assert_ne!(set(acl(b"1001")), NFS4ERR_BADOWNER, "{rule:?} {flavor}");
            // New objects follow the same rule for their owner.
            let made = client.at("export", vec![create_owned(&format!("{flavor}-made"), b"1000")]);
            assert_eq!(made.status, expected, "{rule:?} {flavor}");
        }
    }
}

fn create_owned(name: &str, owner: &[u8]) -> Op {
    let attributes = AttributeValues { owner: Some(bytes(owner)), ..Default::default() };
    create(Createtype4::NF4DIR, name, fattr(attributes))
}

#[test]
fn attributes_are_set_and_read_back() // RFC 8881 section 18.30.3
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    client.make_file("export", "f", b"12345");
    let time = Nfstime4 { seconds: -5, nseconds: 7 };
    let set = values(AttributeValues {
        size: Some(3),
        mode: Some(0o600),
        owner: Some(bytes(b"alice@example.org")),
        owner_group: Some(bytes(b"1000")),
        time_access_set: Some(Settime4::Default(TimeHow4::SET_TO_SERVER_TIME4)),
        time_modify_set: Some(Settime4::SET_TO_CLIENT_TIME4(time)),
        ..Default::default()
    });
    let mask = set.attrmask;
    let check = getattr(&[FATTR4_SIZE, FATTR4_MODE, FATTR4_TIME_MODIFY]);
    let reply = client.at("export/f", vec![setattr(Stateid4::ANONYMOUS, set), check]).ok();
    let attrsset = reply.results.iter().find_map(|result| match result {
        NfsResop4::OP_SETATTR(res) => Some(res.attrsset),
        _ => None,
    });
    assert_eq!(attrsset, Some(mask));
    let got = reply.attributes();
    assert_eq!((got.size, got.mode, got.time_modify), (Some(3), Some(0o600), Some(time)));
}

#[test]
fn attributes_that_cannot_be_set_are_refused() // RFC 8881 sections 5.5 and 18.30.3
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    client.make_file("export", "f", b"");
    let bad_time = Settime4::SET_TO_CLIENT_TIME4(Nfstime4 { seconds: 0, nseconds: 1_000_000_000 });
    let owner = |owner: &[u8]| AttributeValues { owner: Some(bytes(owner)), ..Default::default() };
    let cases = [
        (AttributeValues { hidden: Some(true), ..Default::default() }, NFS4ERR_ATTRNOTSUPP),
        (AttributeValues { fileid: Some(1), ..Default::default() }, NFS4ERR_INVAL),
        (AttributeValues { mode: Some(0o10000), ..Default::default() }, NFS4ERR_INVAL),
        (AttributeValues { time_modify_set: Some(bad_time), ..Default::default() }, NFS4ERR_INVAL),
        (owner(b"nobody-here@example.org"), NFS4ERR_BADOWNER),
        (owner(b"alice@elsewhere.org"), NFS4ERR_BADOWNER),
        (owner(b"\xff"), NFS4ERR_BADOWNER),
    ];
    for (set, status) in cases {
        let reply = client.at("export/f", vec![setattr(Stateid4::ANONYMOUS, values(set))]).expect(status);
        let NfsResop4::OP_SETATTR(res) = reply.last() else { panic!() };
        assert!(res.attrsset.is_empty());
    }
    // Programs learn that an argument is invalid; the log says which, and why.
    assert!(server.nfs.refusals().contains(&("owner", 3)), "{:?}", server.nfs.refusals());
    let short = Fattr4 { attrmask: Bitmap4::of(&[FATTR4_SIZE]), attr_vals: bytes(&[0; 4]) };
    client.at("export/f", vec![setattr(Stateid4::ANONYMOUS, short)]).expect(NFS4ERR_BADXDR);
}

#[test]
fn only_the_owner_changes_the_mode_and_only_writers_the_size() // RFC 8881 section 18.30.4
{
    let server = Setup::default().start();
    Client::new(&server).make_file("export", "f", b"12345");
    let mut bob = Client::with(&server, b"bob", sys(BOB), FORE);
    bob.at("export/f", vec![setattr(Stateid4::ANONYMOUS, mode(0o777))]).expect(NFS4ERR_PERM);
    let size = || values(AttributeValues { size: Some(0), ..Default::default() });
    bob.at("export/f", vec![setattr(Stateid4::ANONYMOUS, size())]).expect(NFS4ERR_ACCESS);
    bob.at("export", vec![setattr(Stateid4::ANONYMOUS, size())]).expect(NFS4ERR_WRONG_TYPE);
}

#[test]
fn the_mode_of_a_symbolic_link_stays_and_attrsset_says_so() // RFC 8881 section 18.30.3
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let link = Createtype4::NF4LNK(bytes(b"to"));
    client.at("export", vec![create(link, "l", mode(0o777))]).ok();
    let time = Settime4::SET_TO_CLIENT_TIME4(Nfstime4 { seconds: 5, nseconds: 0 });
    let values = |time| AttributeValues { mode: Some(0o755), time_modify_set: time, ..Default::default() };
    for (time, told) in [(None, vec![]), (Some(time), vec![FATTR4_TIME_MODIFY_SET])] {
        let reply = client.at("export/l", vec![setattr(Stateid4::ANONYMOUS, fattr(values(time)))]).ok();
        let NfsResop4::OP_SETATTR(result) = reply.last() else { panic!("{:?}", reply.results) };
        assert_eq!(result.attrsset, Bitmap4::of(&told));
    }
    let reply = client.at("export/l", vec![getattr(&[FATTR4_MODE, FATTR4_TIME_MODIFY])]).ok();
    let got = reply.attributes();
    assert_eq!((got.mode, got.time_modify.map(|time| time.seconds)), (Some(0o777), Some(5)));
}

#[test]
fn a_size_is_set_through_an_open_whatever_the_mode() // RFC 8881 section 18.30.4
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let how = Openflag4::OPEN4_CREATE(Createhow4::GUARDED4(mode(0o400)));
    let reply = client.at("export", vec![open_how(how, by_name("f"), 2, 0, b"o"), getfh()]).ok();
    let (fh, stateid) = (reply.fh(0), reply.opened().stateid);
    let size = || values(AttributeValues { size: Some(9), ..Default::default() });
    client.run(vec![put(&fh), setattr(Stateid4::ANONYMOUS, size())]).expect(NFS4ERR_ACCESS);
    let reply = client.run(vec![put(&fh), setattr(stateid, size()), getattr(&[FATTR4_SIZE])]).ok();
    assert_eq!(reply.attributes().size, Some(9));
    client.run(vec![put(&fh), close(stateid)]).ok();
    client.run(vec![put(&fh), setattr(stateid, size())]).expect(NFS4ERR_BAD_STATEID);
}

#[test]
fn attributes_are_compared() // RFC 8881 sections 18.15 and 18.31
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    client.make_file("export", "f", b"12345");
    let size = |size| values(AttributeValues { size: Some(size), mode: Some(0o644), ..Default::default() });
    let verify = |obj_attributes| NfsArgop4::OP_VERIFY(Verify4Args { obj_attributes });
    let nverify = |obj_attributes| NfsArgop4::OP_NVERIFY(Nverify4Args { obj_attributes });
    client.at("export/f", vec![verify(size(5)), nverify(size(6))]).ok();
    client.at("export/f", vec![verify(size(6))]).expect(NFS4ERR_NOT_SAME);
    client.at("export/f", vec![nverify(size(5))]).expect(NFS4ERR_SAME);
    let hidden = || values(AttributeValues { hidden: Some(false), ..Default::default() });
    client.at("export/f", vec![verify(hidden())]).expect(NFS4ERR_ATTRNOTSUPP);
    let error = || values(AttributeValues { rdattr_error: Some(NFS4_OK), ..Default::default() });
    client.at("export/f", vec![nverify(error())]).expect(NFS4ERR_INVAL);
}

#[test]
fn access_tells_what_the_caller_may_do() // RFC 8881 section 18.1.3
{
    let server = Setup::default().start();
    let mut alice = Client::new(&server);
    alice.make_file("export", "f", b"");
    alice.make_directory("export", "d");
    let ask = |client: &mut Client<'_>, path: &str| {
        let reply = client.at(path, vec![NfsArgop4::OP_ACCESS(Access4Args { access: 0x1ff })]).ok();
        let NfsResop4::OP_ACCESS(Access4Res::NFS4_OK(ok)) = reply.last() else { panic!() };
        (ok.supported, ok.access)
    };
    let changing = ACCESS4_MODIFY | ACCESS4_EXTEND;
    let (of_file, of_directory) = (0x2d, 0x1f);
    assert_eq!(ask(&mut alice, "export/f"), (of_file, ACCESS4_READ | changing));
    let all = ACCESS4_READ | ACCESS4_LOOKUP | changing | ACCESS4_DELETE;
    assert_eq!(ask(&mut alice, "export/d"), (of_directory, all));
    let mut bob = Client::with(&server, b"bob", sys(BOB), FORE);
    assert_eq!(ask(&mut bob, "export/f"), (of_file, ACCESS4_READ));
    assert_eq!(ask(&mut bob, "export/d"), (of_directory, ACCESS4_READ | ACCESS4_LOOKUP));
}

#[test]
fn a_failed_setattr_reports_the_attributes_that_it_has_set() // RFC 8881 section 18.30.3
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let reply = client.at("export", vec![open_create("f", 3), getfh()]).ok();
    let (fh, stateid) = (reply.fh(0), reply.opened().stateid);
    let both = || {
        let owner = Some(bytes(b"0"));
        fattr(AttributeValues { size: Some(77), owner, ..Default::default() })
    };
    for stateid in [stateid, Stateid4::ANONYMOUS] {
        let reply = client.run(vec![put(&fh), setattr(stateid, both())]).expect(NFS4ERR_PERM);
        let NfsResop4::OP_SETATTR(result) = reply.last() else { panic!() };
        assert_eq!(result.attrsset, Bitmap4::of(&[FATTR4_SIZE]));
    }
    let reply = client.run(vec![put(&fh), getattr(&[FATTR4_SIZE])]).ok();
    assert_eq!(reply.attributes().size, Some(77));
}

/// Returns the attributes that the last operation says it has set.
fn set_by(reply: &Reply) -> Bitmap4 {
    match reply.last() {
        NfsResop4::OP_SETATTR(done) => done.attrsset,
        NfsResop4::OP_CREATE(Create4Res::NFS4_OK(ok)) => ok.attrset,
        NfsResop4::OP_OPEN(Open4Res::NFS4_OK(ok)) => ok.attrset,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_time_of_creation_is_accepted_and_not_set() // RFC 8881 sections 5.7 and 18.30.3
{
    let server = Setup::default().start();
    let time_create = Some(Nfstime4 { seconds: 7, nseconds: 0 });
    let dated = |mode| values(AttributeValues { time_create, mode, ..Default::default() });
    let mode_alone = Bitmap4::of(&[FATTR4_MODE]);
    let ops = |dir: &str, opening: fn(Openflag4<'static>, &str) -> Op, file: &str| {
        let how = Openflag4::OPEN4_CREATE(Createhow4::UNCHECKED4(dated(Some(0o644))));
        [
            (create(Createtype4::NF4DIR, dir, dated(Some(0o755))), mode_alone),
            (opening(how, file), mode_alone),
            (setattr(Stateid4::ANONYMOUS, dated(None)), Bitmap4::default()),
        ]
    };
    for minor in 1..=2 {
        let mut client = Client::with(&server, &[minor as u8], sys(ALICE), FORE);
        client.minor = minor;
        let opening = |how, file: &str| open_how(how, by_name(file), 3, 0, b"owner");
        for (op, set) in ops(&format!("d{minor}"), opening, &format!("f{minor}")) {
            assert_eq!(set_by(&client.at("export", vec![op]).ok()), set);
        }
        let born = client.at(&format!("export/f{minor}"), vec![getattr(&[FATTR4_TIME_CREATE])]).ok();
        assert_ne!(born.attributes().time_create, time_create);
    }
    let client = Client40::new(&server);
    for op in
        [create(Createtype4::NF4DIR, "d0", dated(Some(0o755))), setattr(Stateid4::ANONYMOUS, dated(None))]
    {
        client.at("export", vec![op]).ok();
    }
    let how = Openflag4::OPEN4_CREATE(Createhow4::UNCHECKED4(dated(Some(0o644))));
    let reply = client.at("export", vec![client.open_op(how, by_name("f0"), 3, 0)]).ok();
    assert_eq!(set_by(&reply), mode_alone);
}
