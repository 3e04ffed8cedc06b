//! Rules for clients by name: calls wait for names off the shards, and other exports are served
//! meanwhile.

use crate::helper::*;
use crate::waiting::try_bytes;
use nfs4::Nfsstat4::*;
use nfs4::*;
use std::cell::Cell;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use vfs::{Export, ExportRule, NamedClients, RuleClient, SecFlavor, Squash};

const NOW: Duration = Duration::from_secs(100);
const DOWN: u8 = 0;
const MEMBER: u8 = 1;
const STRANGER: u8 = 2;

/// A name whose directory answers as a test says. An answer is known from the first wait on.
#[derive(Debug, Default)]
struct NameGate {
    answer: AtomicU8,
    known: AtomicU8,
    waits: AtomicUsize,
}

impl NameGate {
    fn answers(&self, answer: u8) {
        self.answer.store(answer, SeqCst);
        self.known.store(DOWN, SeqCst);
    }
}

impl fmt::Display for NameGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("*.example.org")
    }
}

impl NamedClients for NameGate {
    fn contains(&self, _: IpAddr, _: Duration) -> Option<bool> {
        match self.known.load(SeqCst) {
            DOWN => None,
            known => Some(known == MEMBER),
        }
    }

    fn resolve(&self, _: IpAddr, _: Duration, left: &Cell<Duration>) -> bool {
        self.waits.fetch_add(1, SeqCst);
        let answer = self.answer.load(SeqCst);
        self.known.store(answer, SeqCst);
        if answer == DOWN {
            left.set(Duration::ZERO);
        }
        answer != DOWN
    }
}

/// A server with /open for all and /named for clients with a name.
fn site() -> (Server, Arc<NameGate>) {
    let directory = Arc::new(NameGate::default());
    let rule = ExportRule {
        clients: vec![RuleClient::Named(directory.clone())],
        flavors: SecFlavor::ALL.to_vec(),
        ..ExportRule::default()
    };
    let named = export("/named", &memory()).with_rule(rule);
    (Setup::with_exports(vec![export("/open", &memory()), named]).start(), directory)
}

#[test]
fn a_call_waits_for_the_name_of_its_client_on_a_thread_that_may_block() {
    let (server, directory) = site();
    let client = Client::new(&server);
    directory.answers(MEMBER);
    // NFSv4.0 needs no slot.
    let compound = |names: &[&str]| {
        let lookups = names.iter().map(|name| lookup(name));
        encode(0, &[vec![put_root()], lookups.collect(), vec![getfh()]].concat())
    };
    let waiting = try_bytes(&client, compound(&["named"])).waits();
    assert_eq!(directory.waits.load(SeqCst), 0, "a shard does not wait");
    try_bytes(&client, compound(&["open"])).answered(NFS4_OK);
    assert_eq!(waiting.resume(&client).status, NFS4_OK);
    assert_eq!(directory.waits.load(SeqCst), 1);
    // The name is known now.
    try_bytes(&client, compound(&["named"])).answered(NFS4_OK);

    // No thread has room, or the directory is down.
    directory.answers(DOWN);
    for retry in [true, false] {
        let waiting = try_bytes(&client, compound(&["named"])).waits();
        let reply = if retry { waiting.resume(&client) } else { waiting.decline(&client) };
        assert_eq!(reply.status, NFS4ERR_DELAY);
    }
    try_bytes(&client, compound(&["open"])).answered(NFS4_OK);
}

#[test]
fn a_directory_that_is_down_neither_admits_a_client_nor_refuses_it() // RFC 8881 section 15.1.1.3
{
    let (server, directory) = site();
    let mut client = Client::new(&server);
    directory.answers(MEMBER);
    let fh = client.make_file("named", "f", b"data");
    let data = |client: &mut Client<'_>| client.run(vec![put(&fh), read(Stateid4::ANONYMOUS, 0, 4)]);
    data(&mut client).ok();
    directory.answers(DOWN);
    data(&mut client).expect(NFS4ERR_DELAY);
    client.at("named", vec![getfh()]).expect(NFS4ERR_DELAY);
    client.at("", vec![NfsArgop4::OP_SECINFO(Secinfo4Args { name: bytes(b"named") })]).expect(NFS4ERR_DELAY);
    client.at("open", vec![open_create("f", 3)]).ok();
    directory.answers(STRANGER);
    data(&mut client).expect(NFS4ERR_STALE);
    client.at("named", vec![getfh()]).expect(NFS4ERR_NOENT);
    directory.answers(MEMBER);
    data(&mut client).ok();
}

#[test]
fn a_new_client_waits_if_only_its_name_could_admit_it()
// RFC 8881 sections 18.35 and 18.36, RFC 7530 section 16.33
{
    let directory = Arc::new(NameGate::default());
    let rule = ExportRule { clients: vec![RuleClient::Named(directory.clone())], ..ExportRule::default() };
    let server = Setup::with_exports(vec![export("/named", &memory()).with_rule(rule)]).start();
    for (answer, status) in
        [(DOWN, NFS4ERR_DELAY), (STRANGER, NFS4ERR_CLID_INUSE), (MEMBER, NFS4_OK), (DOWN, NFS4ERR_DELAY)]
    {
        directory.answers(answer);
        let security = krb5(SecFlavor::Krb5p, "alice", ALICE);
        let new = exchange_id(b"new", StateProtect4A::SP4_NONE);
        server.call(&security, 1, NOW, 1, &[new]).expect(status);
        server.call(&security, 1, NOW, 0, &[setclientid(b"new", [1; 8])]).expect(status);
    }
    // Where a network admits it, no name is needed.
    let (server, directory) = site();
    Client::new(&server);
    assert_eq!(directory.waits.load(SeqCst), 0);
}

#[test]
fn a_listing_leaves_out_exports_of_which_nothing_is_known() // RFC 8881 section 18.23
{
    let (server, directory) = site();
    let mut client = Client::new(&server);
    let mut names = || {
        let attr_request = Bitmap4::of(&[FATTR4_FILEID]);
        let args = Readdir4Args { cookie: 0, cookieverf: [0; 8], dircount: 0, maxcount: 4096, attr_request };
        let reply = client.at("", vec![NfsArgop4::OP_READDIR(args)]).ok();
        let NfsResop4::OP_READDIR(Readdir4Res::NFS4_OK(ok)) = reply.last() else { panic!() };
        let entries = ok.reply.entries.iter();
        let mut names: Vec<_> =
            entries.map(|entry| String::from_utf8_lossy(&entry.name).into_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(names(), ["open"]);
    directory.answers(MEMBER);
    assert_eq!(names(), ["named", "open"]);
    directory.answers(STRANGER);
    assert_eq!(names(), ["open"]);
}

#[test]
fn the_first_rule_that_names_the_client_sets_its_terms() {
    let here = |network: &str| RuleClient::Network(network.parse().unwrap());
    let terms = |clients| ExportRule {
        clients: vec![clients],
        flavors: SecFlavor::ALL.to_vec(),
        ..ExportRule::default()
    };
    // The clients of these tests are at 192.0.2.1.
    let backend = memory();
    let export = |path: &str, rules| Export { rules, ..export(path, &backend) };
    let all = ExportRule { squash: Squash::All, anon_uid: 77, ..terms(RuleClient::Any) };
    let exports = vec![
        export("/rw", vec![ExportRule { squash: Squash::None, ..terms(here("192.0.2.0/24")) }, all.clone()]),
        export("/ro", vec![ExportRule { read_only: true, ..terms(here("192.0.2.1")) }, all.clone()]),
        export("/all", vec![ExportRule { read_only: true, ..terms(here("10.0.0.0/8")) }, all]),
    ];
    let server = Setup::with_exports(exports).start();
    let mut root = Client::with(&server, b"root", sys(0), FORE);
    root.make_file("rw", "f", b"data");
    let mut owner = |path: &str| {
        let reply = root.at(path, vec![getattr(&[FATTR4_OWNER])]).ok();
        reply.attributes().owner.unwrap().to_vec()
    };
    assert_eq!(owner("rw/f"), b"0");
    root.at("ro", vec![open_create("g", 3)]).expect(NFS4ERR_ROFS);
    root.at("ro/f", vec![setattr(Stateid4::ANONYMOUS, mode(0o600))]).expect(NFS4ERR_ROFS);
    root.at("ro", vec![open("f", 3)]).expect(NFS4ERR_ROFS);
    let everything = NfsArgop4::OP_ACCESS(Access4Args { access: 0x3f });
    let reply = root.at("ro/f", vec![everything]).ok();
    let NfsResop4::OP_ACCESS(Access4Res::NFS4_OK(ok)) = reply.last() else { panic!() };
    assert_eq!(ok.access & (ACCESS4_MODIFY | ACCESS4_EXTEND), 0);
    root.make_file("all", "of-all", b"");
    let mut owner = |path: &str| {
        let reply = root.at(path, vec![getattr(&[FATTR4_OWNER])]).ok();
        reply.attributes().owner.unwrap().to_vec()
    };
    assert_eq!(owner("all/of-all"), b"77");
    let refused = server.nfs.refusals();
    assert!(refused.contains(&("read_only", 3)), "{refused:?}");
}
