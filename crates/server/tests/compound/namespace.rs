//! Filehandles, names, exports and the pseudo file system (RFC 8881 sections 4, 7, 14).

use crate::helper::*;
use crate::waiting::Site;
use nfs4::Nfsstat4::*;
use nfs4::*;

fn two_exports() -> Server {
    Setup::with_exports(vec![export("/data/one", &memory()), export("/data/two", &memory())]).start()
}

#[test]
fn the_pseudo_file_system_leads_to_the_exports() // RFC 8881 section 7.3
{
    let server = two_exports();
    let mut client = Client::new(&server);
    let ids = [FATTR4_FSID, FATTR4_TYPE, FATTR4_FILEID, FATTR4_MOUNTED_ON_FILEID];
    let fsid_of = |client: &mut Client<'_>, path: &str| {
        let reply = client.at(path, vec![getattr(&ids)]).ok();
        let attributes = reply.attributes();
        assert_eq!(attributes.r#type, Some(NfsFtype4::NF4DIR));
        let crosses = attributes.fileid != attributes.mounted_on_fileid;
        (attributes.fsid.unwrap().major, crosses)
    };
    assert_eq!(fsid_of(&mut client, ""), (0, false));
    assert_eq!(fsid_of(&mut client, "data"), (0, false));
    let one = fsid_of(&mut client, "data/one");
    let two = fsid_of(&mut client, "data/two");
    assert!(one.0 != two.0 && one.1 && two.1, "{one:?} {two:?}");
    client.at("data/three", vec![]).expect(NFS4ERR_NOENT);
}

#[test]
fn filehandles_are_put_and_got_and_the_public_one_is_the_roots()
// RFC 8881 sections 18.8, 18.19, 18.20 and 18.21
{
    let server = two_exports();
    let mut client = Client::new(&server);
    let one = client.fh_of("data/one");
    let reply =
        client.run(vec![put(&one), getfh(), put_root(), getfh(), NfsArgop4::OP_PUTPUBFH, getfh()]).ok();
    assert_eq!(reply.fh(0), one);
    assert_ne!(reply.fh(1), one);
    assert_eq!(reply.fh(1), reply.fh(2));
    client.run(vec![getfh()]).expect(NFS4ERR_NOFILEHANDLE);
    client.run(vec![put(&one[1..]), getfh()]).expect(NFS4ERR_BADHANDLE);
    client.run(vec![put(&[0; NFS4_FHSIZE as usize])]).expect(NFS4ERR_BADHANDLE);
}

#[test]
fn lookupp_leads_out_of_an_export_and_ends_at_the_root() // RFC 8881 section 18.14.3
{
    let server = two_exports();
    let mut client = Client::new(&server);
    client.make_directory("data/one", "sub");
    let (root, data, one) = (client.fh_of(""), client.fh_of("data"), client.fh_of("data/one"));
    let up = || NfsArgop4::OP_LOOKUPP;
    let reply = client.at("data/one/sub", vec![up(), getfh(), up(), getfh(), up(), getfh()]).ok();
    assert_eq!([reply.fh(0), reply.fh(1), reply.fh(2)], [one, data, root]);
    client.run(vec![put_root(), up()]).expect(NFS4ERR_NOENT);
}

#[test]
fn an_export_may_lie_on_the_root_of_another() // RFC 8881 section 7.3
{
    let outer = memory();
    let server = Setup::with_exports(vec![export("/", &outer), export("/inner", &memory())]).start();
    let mut client = Client::new(&server);
    client.make_file("inner", "in", b"1");
    client.make_file("", "out", b"2");
    client.at("in", vec![]).expect(NFS4ERR_NOENT);
    let inner = client.fh_of("inner");
    assert_ne!(client.fh_of(""), inner);
    client.run(vec![put_root(), remove("inner")]).expect(NFS4ERR_ACCESS);
    client.run(vec![put_root(), mkdir("inner")]).expect(NFS4ERR_EXIST);
    client.run(vec![put_root(), savefh(), rename("out", "inner")]).expect(NFS4ERR_XDEV);
    client.run(vec![put_root(), open_create("inner", 1)]).expect(NFS4ERR_ISDIR);
    let up = client.run(vec![put(&inner), NfsArgop4::OP_LOOKUPP, getfh()]).ok().fh(0);
    assert_eq!(up, client.fh_of(""));
}

#[test]
fn the_pseudo_file_system_does_not_change() // RFC 8881 section 7.3
{
    let server = two_exports();
    let mut client = Client::new(&server);
    for op in [mkdir("x"), remove("one"), setattr(Stateid4::ANONYMOUS, mode(0o777))] {
        client.at("data", vec![op]).expect(NFS4ERR_ROFS);
    }
    client.at("data", vec![open_create("x", 2)]).expect(NFS4ERR_ROFS);
    client.at("data", vec![open("x", 1)]).expect(NFS4ERR_NOENT);
    client.at("data", vec![open("one", 1)]).expect(NFS4ERR_ISDIR);
    client.at("data", vec![read(Stateid4::ANONYMOUS, 0, 1)]).expect(NFS4ERR_ISDIR);
    let everything = NfsArgop4::OP_ACCESS(Access4Args { access: 0x3f });
    let reply = client.at("data", vec![everything]).ok();
    let NfsResop4::OP_ACCESS(Access4Res::NFS4_OK(ok)) = reply.last() else { panic!() };
    assert_eq!(ok.access, ACCESS4_READ | ACCESS4_LOOKUP);
}

#[test]
fn an_export_that_does_not_admit_the_client_is_not_there() // RFC 8881 section 7.7
{
    let closed = for_network(export("/closed", &memory()), "10.0.0.0/8");
    let id = closed.id;
    let root = closed.backend.root();
    let server = Setup::with_exports(vec![closed, export("/open", &memory())]).start();
    let mut client = Client::new(&server);
    client.at("closed", vec![]).expect(NFS4ERR_NOENT);
    let key = FilehandleKey::new([9; 16]);
    let fh = Filehandle { export: id, object: root.as_bytes() }.encode(&key).unwrap();
    client.run(vec![put(&fh)]).expect(NFS4ERR_STALE);
}

#[test]
fn a_forged_filehandle_is_bad_whatever_it_says() // RFC 8881 section 15.1.2.1
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let fh = client.make_file("export", "f", b"x");
    for bit in 0..fh.len() * 8 {
        let mut forged = fh.clone();
        forged[bit / 8] ^= 1 << (bit % 8);
        client.run(vec![put(&forged)]).expect(NFS4ERR_BADHANDLE);
    }
    client.run(vec![put(&fh[..fh.len() - 1])]).expect(NFS4ERR_BADHANDLE);
    client.run(vec![put(&[])]).expect(NFS4ERR_BADHANDLE);
    client.run(vec![put(&[0; 200])]).expect(NFS4ERR_BADXDR);
    let key = FilehandleKey::new([9; 16]);
    let gone = Filehandle { export: 4711, object: b"x" }.encode(&key).unwrap();
    client.run(vec![put(&gone)]).expect(NFS4ERR_STALE);
}

#[test]
fn a_removed_object_is_stale() // RFC 8881 section 4.2.2
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let fh = client.make_file("export", "f", b"x");
    client.at("export", vec![remove("f")]).ok();
    client.run(vec![put(&fh), getattr(&[FATTR4_SIZE])]).expect(NFS4ERR_STALE);
}

#[test]
fn operations_that_need_a_filehandle_say_so() // RFC 8881 section 15.1.2.5
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let ops =
        [getfh(), savefh(), lookup("a"), NfsArgop4::OP_LOOKUPP, getattr(&[1]), open("a", 1), remove("a")];
    for op in ops {
        client.run(vec![op]).expect(NFS4ERR_NOFILEHANDLE);
    }
    client.run(vec![put_root(), NfsArgop4::OP_RESTOREFH]).expect(NFS4ERR_NOFILEHANDLE);
    client.at("export", vec![link("a")]).expect(NFS4ERR_NOFILEHANDLE);
    client.at("export", vec![rename("a", "b")]).expect(NFS4ERR_NOFILEHANDLE);
}

#[test]
fn a_saved_filehandle_comes_back() // RFC 8881 sections 18.27 and 18.28
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let export = client.fh_of("export");
    let reply = client.at("export", vec![savefh(), put_root(), NfsArgop4::OP_RESTOREFH, getfh()]).ok();
    assert_eq!(reply.fh(0), export);
    client.run(vec![NfsArgop4::OP_PUTPUBFH, getfh()]).ok();
}

#[test]
fn names_that_cannot_be_are_refused_everywhere() // RFC 8881 section 14.5
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    client.make_file("export", "there", b"");
    let long = "n".repeat(256);
    let cases = [
        ("", NFS4ERR_INVAL),
        (".", NFS4ERR_BADNAME),
        ("..", NFS4ERR_BADNAME),
        ("a/b", NFS4ERR_BADNAME),
        ("a\0", NFS4ERR_BADNAME),
        (&long, NFS4ERR_NAMETOOLONG),
    ];
    for (name, status) in cases {
        for op in [lookup(name), mkdir(name), remove(name), open(name, 1), open_create(name, 1)] {
            client.at("export", vec![op]).expect(status);
        }
        client.at("export", vec![savefh(), rename("there", name)]).expect(status);
        client.at("export", vec![savefh(), rename(name, "there")]).expect(status);
        client.at("export/there", vec![savefh(), put_root(), lookup("export"), link(name)]).expect(status);
    }
    let name = "\u{e9}\u{1f600} and blanks ";
    client.at("export", vec![mkdir(name), put_root(), lookup("export"), lookup(name)]).ok();
}

#[test]
fn names_that_are_not_utf8_are_served_as_they_are() // RFC 8881 section 14.4
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let (one, two) = (bytes(b"gr\xfcn"), bytes(b"gr\xfcner"));
    let how = Openflag4::OPEN4_CREATE(Createhow4::GUARDED4(mode(0o644)));
    let stateid = {
        let create = open_how(how, OpenClaim4::CLAIM_NULL(one.clone()), 3, 0, b"owner");
        client.at("export", vec![create]).ok().opened().stateid
    };
    let fh = client.at("export", vec![lookup_bytes(&one), getfh()]).ok().fh(0);
    client.run(vec![put(&fh), close(stateid)]).ok();
    let rename = NfsArgop4::OP_RENAME(Rename4Args { oldname: one.clone(), newname: two.clone() });
    client.at("export", vec![savefh(), rename]).ok();
    let link = NfsArgop4::OP_LINK(Link4Args { newname: one.clone() });
    client.run(vec![put(&fh), savefh(), put_root(), lookup("export"), link]).ok();
    let ask = Bitmap4::of(&[FATTR4_FILEID]);
    let list =
        Readdir4Args { cookie: 0, cookieverf: [0; 8], dircount: 4096, maxcount: 4096, attr_request: ask };
    let reply = client.at("export", vec![NfsArgop4::OP_READDIR(list)]).ok();
    let NfsResop4::OP_READDIR(Readdir4Res::NFS4_OK(ok)) = reply.last() else { panic!() };
    let mut names: Vec<&[u8]> = ok.reply.entries.iter().map(|entry| &*entry.name).collect();
    names.sort_unstable();
    assert_eq!(names, [&*one, &*two]);
    for target in [one, two] {
        client.at("export", vec![NfsArgop4::OP_REMOVE(Remove4Args { target })]).ok();
    }
}

#[test]
fn lookup_tells_files_and_links_from_directories() // RFC 8881 section 18.13.3
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    client.make_file("export", "file", b"");
    let symlink = Createtype4::NF4LNK(bytes(b"file"));
    client.at("export", vec![create(symlink, "link", mode(0o777))]).ok();
    client.at("export/file/x", vec![]).expect(NFS4ERR_NOTDIR);
    client.at("export/link/x", vec![]).expect(NFS4ERR_SYMLINK);
    client.at("export/file", vec![NfsArgop4::OP_LOOKUPP]).expect(NFS4ERR_NOTDIR);
}

#[test]
fn the_case_of_names_is_kept_and_matters() // RFC 8881 section 14.4
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    client.make_directory("export", "MiXed");
    client.at("export/MiXed", vec![]).ok();
    client.at("export", vec![lookup("mixed")]).expect(NFS4ERR_NOENT);
    client.make_directory("export", "mixed");
    assert_ne!(client.fh_of("export/mixed"), client.fh_of("export/MiXed"));
    // One letter, composed and decomposed: two names.
    client.make_directory("export", "\u{fc}");
    client.at("export", vec![lookup("u\u{308}")]).expect(NFS4ERR_NOENT);
}

#[test]
fn a_name_whose_object_cannot_be_found_out_is_left_alone() // RFC 8881 section 10.4.4
{
    let site = Site::new();
    let (mut client, ..) = site.client();
    site.disk.set_blind(true);
    client.at("export", vec![remove("f")]).expect(NFS4ERR_IO);
    client.at("export", vec![savefh(), rename("f", "g")]).expect(NFS4ERR_IO);
    site.disk.set_blind(false);
    client.at("export", vec![savefh(), rename("f", "g"), remove("g")]).ok();
}
