//! READDIR (RFC 8881 section 18.23).

use crate::helper::*;
use nfs4::Nfsstat4::*;
use nfs4::*;
use std::collections::BTreeMap;
use vfs::{Backend, Caller, NewObject, SecFlavor, SetAttributes};

fn readdir(cookie: u64, cookieverf: Verifier4, dircount: u32, maxcount: u32, ask: &[u32]) -> Op {
    let attr_request = Bitmap4::of(ask);
    NfsArgop4::OP_READDIR(Readdir4Args { cookie, cookieverf, dircount, maxcount, attr_request })
}

fn listed(reply: &Reply) -> &Readdir4Resok<'static> {
    match reply.last() {
        NfsResop4::OP_READDIR(Readdir4Res::NFS4_OK(ok)) => ok,
        other => panic!("{other:?}"),
    }
}

/// Lists a directory to its end in replies of `maxcount` bytes. Returns names with fileids.
fn list_all(
    client: &mut Client<'_>,
    path: &str,
    maxcount: u32,
    ask: &[u32],
) -> (BTreeMap<String, u64>, usize) {
    let (mut cookie, mut verifier, mut names, mut calls) = (0, [0; 8], BTreeMap::new(), 0);
    loop {
        let reply = client.at(path, vec![readdir(cookie, verifier, 0, maxcount, ask)]).ok();
        calls += 1;
        let ok = listed(&reply);
        let mut encoded = xdr::Encoder::new();
        encoded.value(ok);
        assert!(encoded.len() <= maxcount as usize, "{} > {maxcount}", encoded.len());
        verifier = ok.cookieverf;
        for entry in &ok.reply.entries {
            let values = decode_fattr4(&entry.attrs, Purpose::Learn, &attributes::KNOWN).unwrap();
            let name = String::from_utf8(entry.name.to_vec()).unwrap();
            assert!(names.insert(name, values.fileid.unwrap_or(0)).is_none(), "a name came twice");
            assert!(i64::try_from(entry.cookie).is_ok(), "lseek(2) of a client refuses {:x}", entry.cookie);
            cookie = entry.cookie;
        }
        if ok.reply.eof {
            return (names, calls);
        }
    }
}

#[test]
fn every_entry_comes_once_however_small_the_replies() // RFC 8881 section 18.23.3
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    for number in 0..100 {
        client.make_file("export", &format!("file-{number}"), b"");
    }
    let all = [FATTR4_RDATTR_ERROR, FATTR4_TYPE, FATTR4_FILEID, FATTR4_SIZE, FATTR4_OWNER];
    for (maxcount, ask) in [(300, &all[..]), (4096, &all), (1 << 20, &all), (300, &[FATTR4_FILEID])] {
        let (names, calls) = list_all(&mut client, "export", maxcount, ask);
        assert_eq!(names.len(), 100);
        assert_eq!(calls > 1, maxcount <= 4096, "{maxcount}: {calls}");
        assert!(names.values().all(|fileid| *fileid > 2));
    }
}

#[test]
fn an_empty_directory_ends_at_once() // RFC 8881 section 18.23.3
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let reply = client.at("export", vec![readdir(0, [0; 8], 0, 4096, &[])]).ok();
    assert!(listed(&reply).reply.eof && listed(&reply).reply.entries.is_empty());
}

#[test]
fn dircount_limits_names_but_gives_one_entry_at_least() // RFC 8881 section 18.23.3
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    ["a", "b", "c"].iter().for_each(|name| drop(client.make_file("export", name, b"")));
    let reply = client.at("export", vec![readdir(0, [0; 8], 1, 4096, &[])]).ok();
    assert_eq!((listed(&reply).reply.entries.len(), listed(&reply).reply.eof), (1, false));
}

#[test]
fn a_reply_too_small_for_one_entry_is_an_error() // RFC 8881 section 18.23.3
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    client.make_file("export", "a-name-of-some-length", b"");
    for maxcount in [0, 8, 16, 40] {
        client.at("export", vec![readdir(0, [0; 8], 0, maxcount, &[])]).expect(NFS4ERR_TOOSMALL);
    }
}

#[test]
fn a_client_that_keeps_no_cookie_verifier_lists_all() // RFC 7530 section 16.24.4
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    for number in 0..100 {
        client.make_file("export", &format!("file-{number}"), b"");
    }
    let fh = client.fh_of("export");
    // As libnfs asks, in NFSv4.0, and in smaller parts.
    let old = Client40::new(&server);
    let ask = [FATTR4_TYPE, FATTR4_SIZE, FATTR4_FILEID, FATTR4_MODE, FATTR4_OWNER];
    let mut run: [Box<dyn FnMut(Vec<Op>) -> Reply + '_>; 2] =
        [Box::new(|ops| old.run(ops)), Box::new(|ops| client.run(ops))];
    for (which, maxcount) in [(0, 300), (0, 1024), (0, 8192), (1, 300), (1, 8192)] {
        let (mut cookie, mut names) = (0, BTreeMap::new());
        loop {
            let reply = run[which](vec![put(&fh), readdir(cookie, [0; 8], maxcount, maxcount, &ask)]).ok();
            let ok = listed(&reply);
            names.extend(ok.reply.entries.iter().map(|entry| (entry.name.to_vec(), ())));
            cookie = ok.reply.entries.last().map_or(cookie, |entry| entry.cookie);
            if ok.reply.eof {
                break;
            }
        }
        assert_eq!(names.len(), 100, "{maxcount}");
    }
}

#[test]
fn cookies_are_checked() // RFC 8881 section 18.23.3
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    for cookie in [1, 2] {
        client.at("export", vec![readdir(cookie, [0; 8], 0, 4096, &[])]).expect(NFS4ERR_BAD_COOKIE);
    }
    client.at("export", vec![readdir(5, *b"whatever", 0, 4096, &[])]).expect(NFS4ERR_NOT_SAME);
}

#[test]
fn only_directories_are_listed_and_write_only_attributes_refused() // RFC 8881 section 18.23.3
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    client.make_file("export", "f", b"");
    client.at("export/f", vec![readdir(0, [0; 8], 0, 4096, &[])]).expect(NFS4ERR_NOTDIR);
    let ask = [FATTR4_TIME_ACCESS_SET];
    client.at("export", vec![readdir(0, [0; 8], 0, 4096, &ask)]).expect(NFS4ERR_INVAL);
}

#[test]
fn a_pseudo_directory_shows_exports_with_their_own_attributes() // RFC 8881 section 5.8.2.23
{
    let server = Setup::with_exports(vec![export("/a", &memory()), export("/b/c", &memory())]).start();
    let mut client = Client::new(&server);
    let ask = [FATTR4_FSID, FATTR4_FILEID, FATTR4_MOUNTED_ON_FILEID];
    let reply = client.at("", vec![readdir(0, [0; 8], 0, 4096, &ask)]).ok();
    let entries = &listed(&reply).reply.entries;
    assert_eq!(entries.len(), 2);
    for entry in entries {
        let values = decode_fattr4(&entry.attrs, Purpose::Learn, &attributes::KNOWN).unwrap();
        let crosses = &*entry.name == b"a";
        assert_eq!(values.fsid.unwrap().major != 0, crosses);
        assert_eq!(values.fileid != values.mounted_on_fileid, crosses);
    }
    assert_eq!(list_all(&mut client, "", 100, &ask).0.len(), 2);
}

#[test]
fn exports_on_the_root_of_another_are_listed_with_it() // RFC 8881 section 7.3
{
    let outer = memory();
    let server = Setup::with_exports(vec![
        export("/", &outer),
        export("/inner", &memory()),
        export("/deep/er", &memory()),
    ])
    .start();
    let mut client = Client::new(&server);
    (0..20).for_each(|number| drop(client.make_file("", &format!("f{number}"), b"")));
    for maxcount in [120, 4096] {
        let (names, _) = list_all(&mut client, "", maxcount, &[FATTR4_FILEID, FATTR4_TYPE]);
        assert_eq!(names.len(), 22);
        assert!(names.contains_key("inner") && names.contains_key("deep"));
    }
}

#[test]
fn names_behind_many_hidden_ones_are_listed() // RFC 8881 section 18.23.3
{
    let outer = memory();
    // More than the first two batches hold.
    const NESTED: usize = 1200;
    let names: Vec<String> = (0..NESTED).map(|number| format!("nested-{number:04}")).collect();
    let mut exports = vec![export("/", &outer)];
    exports.extend(names.iter().map(|name| export(&format!("/{name}"), &memory())));
    let root = outer.root();
    for name in names.iter().map(String::as_bytes).chain([&b"seen"[..]]) {
        let set = SetAttributes { mode: Some(0o755), ..SetAttributes::default() };
        outer.create(&Caller::root(), &root, name, NewObject::Directory, &set).unwrap();
    }
    let server = Setup::with_exports(exports).start();
    let mut client = Client::new(&server);
    for maxcount in [100, 120, 4096] {
        let (listed, _) = list_all(&mut client, "", maxcount, &[FATTR4_FILEID]);
        assert!(listed.contains_key("seen") && names.iter().all(|name| listed.contains_key(name)));
    }
    client.at("", vec![readdir(0, [0; 8], 0, 40, &[])]).expect(NFS4ERR_TOOSMALL);
    // Earlier versions gave fileids with the highest bit: a listing goes on after an upgrade.
    let reply = client.at("", vec![readdir(1 << 63, [0; 8], 0, 1 << 18, &[FATTR4_MOUNTED_ON_FILEID])]).ok();
    let fileids: Vec<u64> = listed(&reply)
        .reply
        .entries
        .iter()
        .filter_map(|entry| {
            decode_fattr4(&entry.attrs, Purpose::Learn, &attributes::KNOWN).unwrap().mounted_on_fileid
        })
        .collect();
    assert_eq!(fileids.len(), NESTED);
    let reply = client.at("", vec![readdir(1 << 63 | fileids[19], [0; 8], 0, 1 << 18, &[])]).ok();
    assert_eq!(listed(&reply).reply.entries.len(), NESTED - 20);
}

#[test]
// RFC 8881 sections 2.6.3.1 and 18.23.3
fn an_export_closed_to_the_flavor_is_listed_with_its_error() {
    let private = for_flavors(export("/private", &memory()), &[SecFlavor::Krb5p]);
    let server = Setup::with_exports(vec![private, export("/public", &memory())]).start();
    let mut client = Client::new(&server);
    let error_of = |client: &mut Client<'_>, ask: &[u32]| {
        let reply = client.at("", vec![readdir(0, [0; 8], 0, 4096, ask)]).ok();
        let entries = listed(&reply).reply.entries.clone();
        let private = entries.into_iter().find(|entry| &*entry.name == b"private").unwrap();
        let values = decode_fattr4(&private.attrs, Purpose::Learn, &attributes::KNOWN).unwrap();
        (values.rdattr_error, values.present().len())
    };
    assert_eq!(error_of(&mut client, &[FATTR4_RDATTR_ERROR, FATTR4_TYPE]), (Some(NFS4ERR_WRONGSEC), 1));
    let own = [FATTR4_RDATTR_ERROR, FATTR4_MOUNTED_ON_FILEID];
    assert_eq!(error_of(&mut client, &own), (Some(NFS4_OK), 2));
    assert_eq!(error_of(&mut client, &[FATTR4_TYPE]), (None, 1));
}
