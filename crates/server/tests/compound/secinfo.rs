//! Positions at which a wrong flavor is reported, and at which it is not: each one of RFC 8881
//! section 2.6.3.1, and flavors by client.

use crate::helper::*;
use nfs4::Nfsstat4::*;
use nfs4::*;
use vfs::{Export, ExportRule, RuleClient, SecFlavor};

/// A weak client's filehandles of objects that it may not use: a directory and a file of
/// "/private".
struct Closed {
    server: Server,
    directory: Vec<u8>,
    file: Vec<u8>,
    inner: Vec<u8>,
}

/// Starts a server: "/open" and "/private/inner" accept any flavor, "/private" only krb5p and
/// krb5i.
fn closed() -> Closed {
    let flavors = vec![SecFlavor::Krb5p, SecFlavor::Krb5i];
    let private = for_flavors(export("/private", &memory()), &flavors);
    let inner = export("/private/inner", &memory());
    let server = Setup::with_exports(vec![export("/open", &memory()), private, inner]).start();
    let mut strong = Client::with(&server, b"strong", krb5(SecFlavor::Krb5p, "alice", ALICE), FORE);
    strong.make_directory("private", "d");
    let file = strong.make_file("private/d", "f", b"data");
    let (directory, inner) = (strong.fh_of("private/d"), strong.fh_of("private/inner"));
    Closed { server, directory, file, inner }
}

fn secinfo(name: &str) -> Op {
    NfsArgop4::OP_SECINFO(Secinfo4Args { name: bytes(name.as_bytes()) })
}

fn secinfo_no_name(style: SecinfoStyle4) -> Op {
    NfsArgop4::OP_SECINFO_NO_NAME(style)
}

fn no_name() -> [Op; 2] {
    [SecinfoStyle4::SECINFO_STYLE4_CURRENT_FH, SecinfoStyle4::SECINFO_STYLE4_PARENT].map(secinfo_no_name)
}

/// Returns the number of flavors in the last result, of SECINFO or SECINFO_NO_NAME.
fn told(reply: &Reply) -> usize {
    match reply.last() {
        NfsResop4::OP_SECINFO(Secinfo4Res::NFS4_OK(list)) => list.len(),
        NfsResop4::OP_SECINFO_NO_NAME(Secinfo4Res::NFS4_OK(list)) => list.len(),
        other => panic!("{other:?}"),
    }
}

/// Returns all ways to set the current filehandle to the directory.
fn puts(closed: &Closed) -> Vec<Vec<Op>> {
    let restore = NfsArgop4::OP_RESTOREFH;
    vec![
        vec![put(&closed.directory)],
        vec![put_root(), put(&closed.directory)],
        vec![put(&closed.directory), savefh(), put_root(), restore.clone()],
        vec![put(&closed.directory), savefh(), put(&closed.file), restore],
    ]
}

fn with(ops: &[Op], then: &[Op]) -> Vec<Op> {
    [ops, then].concat()
}

#[test]
fn nothing_after_a_put_filehandle_operation_or_another_one_is_no_reason_to_complain() {
    // RFC 8881 sections 2.6.3.1.1.1, 2.6.3.1.1.2 and 2.6.3.1.1.6
    let closed = closed();
    let mut weak = Client::new(&closed.server);
    for ops in puts(&closed) {
        weak.run(ops.clone()).ok();
        weak.run(with(&ops, &[savefh()])).ok();
        weak.run(with(&ops, &[put_root(), getfh()])).ok();
        weak.run(with(&ops, &[NfsArgop4::OP_PUTPUBFH, getfh()])).ok();
        weak.run(with(&ops, &[savefh(), put_root(), getattr(&[FATTR4_TYPE])])).ok();
    }
}

#[test]
fn operations_by_name_return_wrongsec_for_the_directory_and_for_the_named_object() {
    // RFC 8881 section 2.6.3.1.1.3
    let closed = closed();
    let mut weak = Client::new(&closed.server);
    for ops in puts(&closed) {
        for op in [lookup("f"), open("f", 1), open_create("f", 2), open_create("new", 2)] {
            let reply = weak.run(with(&ops, std::slice::from_ref(&op))).expect(NFS4ERR_WRONGSEC);
            assert_eq!(reply.results.len(), ops.len() + 2, "{op:?} says it: {:?}", reply.results);
        }
    }
    let mut strong = Client::with(&closed.server, b"s", krb5(SecFlavor::Krb5i, "alice", ALICE), FORE);
    strong.run(vec![put(&closed.directory), lookup("new")]).expect(NFS4ERR_NOENT);
    // The object of the name may accept flavors that its directory does not.
    let private = strong.fh_of("private");
    weak.run(vec![put(&private), lookup("inner"), getfh()]).ok();
    weak.run(vec![put_root(), lookup("private")]).expect(NFS4ERR_WRONGSEC);
}

#[test]
fn lookupp_complains_of_the_directory_above() // RFC 8881 section 2.6.3.1.1.4
{
    let closed = closed();
    let mut weak = Client::new(&closed.server);
    for ops in puts(&closed) {
        let reply = weak.run(with(&ops, &[NfsArgop4::OP_LOOKUPP])).expect(NFS4ERR_WRONGSEC);
        assert_eq!(reply.results.len(), ops.len() + 2);
    }
    // Out of an export that accepts the flavor, into one that does not; and the other way round.
    weak.run(vec![put(&closed.inner), NfsArgop4::OP_LOOKUPP]).expect(NFS4ERR_WRONGSEC);
    let mut strong = Client::with(&closed.server, b"s", krb5(SecFlavor::Krb5p, "alice", ALICE), FORE);
    let private = strong.fh_of("private");
    weak.run(vec![put(&private), NfsArgop4::OP_LOOKUPP, getfh()]).ok();
}

#[test]
fn secinfo_is_answered_with_any_flavor() // RFC 8881 section 2.6.3.1.1.5
{
    let closed = closed();
    let mut weak = Client::new(&closed.server);
    for ops in puts(&closed) {
        assert_eq!(told(&weak.run(with(&ops, &[secinfo("f")])).ok()), 2);
        weak.run(with(&ops, &[secinfo("nothing")])).expect(NFS4ERR_NOENT);
        for style in no_name() {
            assert_eq!(told(&weak.run(with(&ops, std::slice::from_ref(&style))).ok()), 2);
            // It consumes the filehandle (section 2.6.3.1.1.8).
            weak.run(with(&ops, &[style, getfh()])).expect(NFS4ERR_NOFILEHANDLE);
        }
        weak.run(with(&ops, &[secinfo("f"), getattr(&[FATTR4_TYPE])])).expect(NFS4ERR_NOFILEHANDLE);
    }
    let parent = || no_name()[1].clone();
    assert_eq!(told(&weak.run(vec![put(&closed.inner), parent()]).ok()), 2);
    assert_eq!(told(&weak.run(vec![put(&closed.inner), no_name()[0].clone()]).ok()), 4);
    assert_eq!(told(&weak.at("", vec![secinfo("private")]).ok()), 2);
}

#[test]
fn before_anything_else_the_put_filehandle_operation_complains() // RFC 8881 section 2.6.3.1.1.7
{
    let closed = closed();
    let mut weak = Client::new(&closed.server);
    let others = [
        getfh(),
        getattr(&[FATTR4_TYPE]),
        NfsArgop4::OP_ACCESS(Access4Args { access: ACCESS4_READ }),
        NfsArgop4::OP_READDIR(Readdir4Args {
            cookie: 0,
            cookieverf: [0; 8],
            dircount: 100,
            maxcount: 4096,
            attr_request: Bitmap4::EMPTY,
        }),
        NfsArgop4::OP_NVERIFY(Nverify4Args { obj_attributes: mode(0o777) }),
        NfsArgop4::OP_READLINK,
        mkdir("new"),
        remove("f"),
        rename("f", "g"),
        link("g"),
        read(Stateid4::ANONYMOUS, 0, 4),
        write(Stateid4::ANONYMOUS, 0, b"data"),
        setattr(Stateid4::ANONYMOUS, mode(0o777)),
        open_how(NOCREATE, OpenClaim4::CLAIM_FH, 1, 0, b"o"),
        list_xattrs(0, 100),
    ];
    for ops in puts(&closed) {
        for op in &others {
            let reply = weak.run(with(&ops, std::slice::from_ref(op))).expect(NFS4ERR_WRONGSEC);
            assert_eq!(reply.results.len(), ops.len() + 1, "not {op:?}: {:?}", reply.results);
        }
    }
    let mut strong = Client::with(&closed.server, b"s", krb5(SecFlavor::Krb5p, "alice", ALICE), FORE);
    let reply = strong.run(vec![put(&closed.file), read(Stateid4::ANONYMOUS, 0, 9)]).ok();
    assert_eq!(data(reply.last()).0, b"data");
}

#[test]
// RFC 8881 sections 2.6.3.1.1 and 18.21.3, 18.20.3 (PUTROOTFH, PUTPUBFH)
fn the_root_is_no_exception() {
    let only = for_flavors(export("/", &memory()), &[SecFlavor::Krb5p]);
    let server = Setup::with_exports(vec![only]).start();
    let mut weak = Client::new(&server);
    for root in [put_root(), NfsArgop4::OP_PUTPUBFH] {
        let run = |weak: &mut Client<'_>, then: &[Op]| weak.run(with(std::slice::from_ref(&root), then));
        run(&mut weak, &[]).ok();
        run(&mut weak, &[savefh()]).ok();
        assert_eq!(told(&run(&mut weak, &[no_name()[0].clone()]).ok()), 1);
        for (op, results) in [(getfh(), 2), (mkdir("d"), 2), (lookup("d"), 3), (open_create("f", 2), 3)] {
            let reply = run(&mut weak, std::slice::from_ref(&op));
            let missing = matches!(op, NfsArgop4::OP_LOOKUP(_));
            let reply = reply.expect(if missing { NFS4ERR_NOENT } else { NFS4ERR_WRONGSEC });
            assert_eq!(reply.results.len(), results, "{op:?}");
        }
    }
}

#[test]
fn a_saved_filehandle_is_not_used_with_the_wrong_flavor_either() // RFC 8881 section 2.6.3.1.2
{
    let closed = closed();
    let mut weak = Client::new(&closed.server);
    weak.make_file("open", "g", b"here");
    let (open, g) = (weak.fh_of("open"), weak.fh_of("open/g"));
    let anonymous = (Stateid4::ANONYMOUS, Stateid4::ANONYMOUS);
    weak.run(vec![put(&closed.file), savefh(), put(&open), link("f")]).expect(NFS4ERR_XDEV);
    weak.run(vec![put(&closed.directory), savefh(), put(&open), rename("f", "f")]).expect(NFS4ERR_XDEV);
    weak.run(vec![put(&open), savefh(), put(&closed.directory), rename("g", "g")]).expect(NFS4ERR_WRONGSEC);
    weak.minor = 2;
    weak.run(vec![put(&closed.file), savefh(), put(&g), copy(anonymous, 0, 0, 0)]).expect(NFS4ERR_ACCESS);
    weak.run(vec![put(&g), savefh(), put(&closed.file), copy(anonymous, 0, 0, 0)]).expect(NFS4ERR_WRONGSEC);
    let reply = weak.run(vec![put(&g), read(Stateid4::ANONYMOUS, 0, 9)]).ok();
    assert_eq!(data(reply.last()).0, b"here");
}

#[test]
fn sys_from_an_unprivileged_port_is_the_wrong_flavor_everywhere() // RFC 8881 section 2.6.3.1
{
    let flavors = vec![SecFlavor::Sys, SecFlavor::Krb5i];
    let export = |path: &str| for_flavors(export(path, &memory()), &flavors);
    let only = for_flavors(export("/only"), &[SecFlavor::Sys]);
    let trusting = on_terms(export("/open"), |rule| rule.secure = false);
    let server = Setup::with_exports(vec![export("/both"), only, trusting]).start();
    let mut sys = Client::new(&server);
    let mut krb5i = Client::with(&server, b"k", krb5(SecFlavor::Krb5i, "alice", ALICE), FORE);
    for path in ["both", "only", "open"] {
        sys.make_file(path, "f", b"data");
    }
    let both = sys.fh_of("both/f");
    let by_sys = sys.at("both", vec![open("f", OPEN4_SHARE_ACCESS_READ)]).ok().opened().stateid;
    assert_eq!(told(&sys.at("", vec![secinfo("both")]).ok()), 2);

    // The same session, from a port that any program of the client's machine may use.
    *server.peer.lock().unwrap() = ([192, 0, 2, 1], 1024).into();
    for path in ["both", "only"] {
        sys.at(path, vec![getfh()]).expect(NFS4ERR_WRONGSEC);
    }
    // An open from before does not keep the access either.
    sys.run(vec![put(&both), read(by_sys, 0, 4)]).expect(NFS4ERR_WRONGSEC);
    sys.run(vec![put(&both), getattr(&[1])]).expect(NFS4ERR_WRONGSEC);
    // SECINFO returns only flavors that this caller may use: another one, or none.
    assert_eq!(told(&sys.at("", vec![secinfo("both")]).ok()), 1);
    assert_eq!(told(&sys.at("", vec![secinfo("only")]).ok()), 0);
    assert_eq!(told(&sys.at("", vec![secinfo("open")]).ok()), 2);
    sys.at("open/f", vec![getattr(&[1])]).ok();
    // Kerberos authenticates the caller, at any port.
    krb5i.at("both/f", vec![read(Stateid4::ANONYMOUS, 0, 4)]).ok();

    *server.peer.lock().unwrap() = ([192, 0, 2, 1], 1023).into();
    sys.run(vec![put(&both), read(by_sys, 0, 4)]).ok();
}

#[test]
fn flavors_go_by_the_rule_of_the_client() // RFC 8881 section 2.6.3.1: the policy is the server's
{
    // The clients of these tests are at 192.0.2.1.
    let terms = |clients: &str, flavors: &[SecFlavor]| {
        let clients = vec![RuleClient::Network(clients.parse().expect("a network"))];
        ExportRule { clients, flavors: flavors.to_vec(), ..ExportRule::default() }
    };
    let strict = |path: &str, network: &str| Export {
        rules: vec![
            terms(network, &[SecFlavor::Sys, SecFlavor::Krb5]),
            terms("0.0.0.0/0", &[SecFlavor::Krb5p]),
        ],
        ..export(path, &memory())
    };
    let server =
        Setup::with_exports(vec![strict("/here", "192.0.2.0/24"), strict("/there", "198.51.100.0/24")])
            .start();
    let mut weak = Client::new(&server);
    weak.make_file("here", "f", b"data");
    assert_eq!(told(&weak.at("", vec![secinfo("here")]).ok()), 2);
    weak.at("there", vec![getfh()]).expect(NFS4ERR_WRONGSEC);
    assert_eq!(told(&weak.at("", vec![secinfo("there")]).ok()), 1);
    let mut strong = Client::with(&server, b"s", krb5(SecFlavor::Krb5p, "alice", ALICE), FORE);
    strong.make_file("there", "f", b"data");
    strong.at("here", vec![getfh()]).expect(NFS4ERR_WRONGSEC);
    let there = strong.fh_of("there/f");
    weak.run(vec![put(&there), read(Stateid4::ANONYMOUS, 0, 4)]).expect(NFS4ERR_WRONGSEC);
}
