//! Flavors, SECINFO and the machine credential (RFC 8881 sections 2.6 and 2.10.8.3).

use crate::helper::*;
use nfs4::Nfsstat4::*;
use nfs4::*;
use vfs::SecFlavor;

const KRB5_OID: [u8; 9] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02];

/// Starts a server: "/open" accepts any flavor, "/private" only krb5p and krb5i.
fn server() -> Server {
    let flavors = vec![SecFlavor::Krb5p, SecFlavor::Krb5i];
    let private = for_flavors(export("/private", &memory()), &flavors);
    let mut krb5 = Client::with(
        Box::leak(Box::new(Setup::with_exports(vec![private.clone()]).start())),
        b"maker",
        krb5(SecFlavor::Krb5p, "alice", ALICE),
        FORE,
    );
    krb5.make_file("private", "f", b"data");
    krb5.make_directory("private", "d");
    Setup::with_exports(vec![export("/open", &memory()), private]).start()
}

fn secinfo(name: &str) -> Op {
    NfsArgop4::OP_SECINFO(Secinfo4Args { name: bytes(name.as_bytes()) })
}

fn secinfo_no_name(style: SecinfoStyle4) -> Op {
    NfsArgop4::OP_SECINFO_NO_NAME(style)
}

/// Returns the flavors of a SECINFO or SECINFO_NO_NAME as "sys", "krb5", "krb5i", "krb5p".
fn flavors(reply: &Reply) -> Vec<&'static str> {
    let list = reply.results.iter().find_map(|result| match result {
        NfsResop4::OP_SECINFO(Secinfo4Res::NFS4_OK(list)) => Some(list),
        NfsResop4::OP_SECINFO_NO_NAME(Secinfo4Res::NFS4_OK(list)) => Some(list),
        _ => None,
    });
    let name = |flavor: &Secinfo4<'_>| match flavor {
        Secinfo4::RPCSEC_GSS(info) => {
            assert_eq!((&*info.oid, info.qop), (&KRB5_OID[..], 0));
            match info.service {
                RpcGssSvcT::RPC_GSS_SVC_NONE => "krb5",
                RpcGssSvcT::RPC_GSS_SVC_INTEGRITY => "krb5i",
                RpcGssSvcT::RPC_GSS_SVC_PRIVACY => "krb5p",
            }
        }
        Secinfo4::Default(flavor) => {
            assert_eq!(*flavor, AUTH_SYS);
            "sys"
        }
    };
    list.expect("a SECINFO").iter().map(name).collect()
}

#[test]
fn shorter_reads_and_writes_are_offered_where_they_are_protected() {
    // RFC 8881 sections 5.8.2.20 and 5.8.2.21: maxread and maxwrite are the server's choice.
    let server = server();
    for (flavor, most) in
        [(SecFlavor::Krb5p, 128 << 10), (SecFlavor::Krb5i, 128 << 10), (SecFlavor::Krb5, 1 << 20)]
    {
        let mut client = Client::with(&server, flavor.name().as_bytes(), krb5(flavor, "alice", ALICE), FORE);
        let reply = client.at("open", vec![getattr(&[nfs4::FATTR4_MAXREAD, nfs4::FATTR4_MAXWRITE])]).ok();
        let offer = reply.attributes();
        assert_eq!((offer.maxread, offer.maxwrite), (Some(most), Some(most)), "{flavor:?}");
    }
}

#[test]
fn an_export_is_entered_only_with_its_flavors() // RFC 8881 section 2.6.3.1
{
    let server = server();
    let mut sys = Client::new(&server);
    sys.at("private", vec![getfh()]).expect(NFS4ERR_WRONGSEC);
    sys.at("open", vec![getfh()]).ok();
    for flavor in [SecFlavor::Krb5i, SecFlavor::Krb5p] {
        let mut client = Client::with(&server, flavor.name().as_bytes(), krb5(flavor, "alice", ALICE), FORE);
        client.at("private/f", vec![read(Stateid4::ANONYMOUS, 0, 4)]).ok();
    }
    let mut client = Client::with(&server, b"k", krb5(SecFlavor::Krb5, "alice", ALICE), FORE);
    client.at("private", vec![getfh()]).expect(NFS4ERR_WRONGSEC);
}

#[test]
// RFC 8881 section 2.6.3.1.1
fn a_filehandle_is_put_with_the_wrong_flavor_only_on_the_way_to_another() {
    let server = server();
    let mut krb5 = Client::with(&server, b"k", krb5(SecFlavor::Krb5p, "alice", ALICE), FORE);
    let (root, f) = (krb5.fh_of("private"), krb5.fh_of("private/f"));
    let mut sys = Client::new(&server);
    let wrong: [Vec<Op>; 7] = [
        vec![getfh()],
        vec![getattr(&[FATTR4_TYPE])],
        vec![read(Stateid4::ANONYMOUS, 0, 4)],
        vec![open_how(NOCREATE, OpenClaim4::CLAIM_FH, 1, 0, b"o")],
        vec![savefh(), getattr(&[FATTR4_TYPE])],
        vec![savefh(), open_how(NOCREATE, OpenClaim4::CLAIM_FH, 1, 0, b"o")],
        vec![savefh(), savefh(), remove("f")],
    ];
    for ops in wrong {
        let reply = sys.run([vec![put(&f)], ops].concat()).expect(NFS4ERR_WRONGSEC);
        assert_eq!(reply.results.len(), 2, "PUTFH says it: {:?}", reply.results);
    }
    // Before an operation by name, that operation reports the flavor.
    for op in [lookup("f"), open("f", 1), open_create("new", 2), NfsArgop4::OP_LOOKUPP] {
        let reply = sys.run(vec![put(&root), op.clone()]);
        let parent = matches!(op, NfsArgop4::OP_LOOKUPP);
        assert_eq!(reply.status, if parent { NFS4_OK } else { NFS4ERR_WRONGSEC });
        assert_eq!(reply.results.len(), 3);
    }
    // Before nothing, another filehandle, or a query for the flavors: no error.
    sys.run(vec![put(&f)]).ok();
    sys.run(vec![put(&f), savefh()]).ok();
    sys.run(vec![put(&f), put_root(), getfh()]).ok();
    sys.run(vec![put(&root), secinfo("f")]).ok();
    sys.run(vec![put(&f), secinfo_no_name(SecinfoStyle4::SECINFO_STYLE4_CURRENT_FH)]).ok();
    // A filehandle saved on the way cannot be restored.
    let restore = NfsArgop4::OP_RESTOREFH;
    sys.run(vec![put(&f), savefh(), put_root(), restore, getfh()]).expect(NFS4ERR_WRONGSEC);
}

#[test]
// RFC 8881 section 18.29.3
fn secinfo_tells_flavors_in_the_exports_order_and_consumes_the_filehandle() {
    let server = server();
    let mut client = Client::new(&server);
    assert_eq!(flavors(&client.at("", vec![secinfo("private")]).ok()), ["krb5p", "krb5i"]);
    assert_eq!(flavors(&client.at("", vec![secinfo("open")]).ok()), ["krb5p", "krb5i", "krb5", "sys"]);
    client.at("", vec![secinfo("private"), getfh()]).expect(NFS4ERR_NOFILEHANDLE);
    client.at("", vec![secinfo("nothing")]).expect(NFS4ERR_NOENT);
    client.at("", vec![secinfo("..")]).expect(NFS4ERR_BADNAME);
}

#[test]
fn secinfo_no_name_tells_of_the_filehandle_or_its_parent() // RFC 8881 section 18.45.3
{
    let server = server();
    let mut krb5 = Client::with(&server, b"k", krb5(SecFlavor::Krb5p, "alice", ALICE), FORE);
    let current = || secinfo_no_name(SecinfoStyle4::SECINFO_STYLE4_CURRENT_FH);
    let parent = || secinfo_no_name(SecinfoStyle4::SECINFO_STYLE4_PARENT);
    assert_eq!(flavors(&krb5.at("private/d", vec![current()]).ok()), ["krb5p", "krb5i"]);
    assert_eq!(flavors(&krb5.at("private/d", vec![parent()]).ok()), ["krb5p", "krb5i"]);
    assert_eq!(flavors(&krb5.at("private", vec![parent()]).ok()).len(), 4);
    krb5.at("private", vec![current(), getfh()]).expect(NFS4ERR_NOFILEHANDLE);
    krb5.at("", vec![parent()]).expect(NFS4ERR_NOENT);
    krb5.at("private/f", vec![parent()]).expect(NFS4ERR_NOTDIR);
}

#[test]
fn secinfo_lists_only_flavors_that_the_server_can_speak() // RFC 8881 section 18.29.3
{
    let mut setup = Setup::with_exports(vec![export("/open", &memory())]);
    setup.config.flavors = vec![SecFlavor::Sys];
    let server = setup.start();
    let mut client = Client::new(&server);
    assert_eq!(flavors(&client.at("", vec![secinfo("open")]).ok()), ["sys"]);
}

#[test]
fn the_pseudo_file_system_takes_each_flavor_that_leads_to_an_export() // RFC 8881 section 2.6.3.1
{
    let private = for_flavors(export("/a/private", &memory()), &[SecFlavor::Krb5p]);
    let server = Setup::with_exports(vec![private]).start();
    let mut krb5 = Client::with(&server, b"k", krb5(SecFlavor::Krb5p, "alice", ALICE), FORE);
    krb5.at("a", vec![getfh()]).ok();
    let mut sys = Client::new(&server);
    sys.run(vec![put_root(), getfh()]).expect(NFS4ERR_WRONGSEC);
    sys.run(vec![put_root(), lookup("a")]).expect(NFS4ERR_WRONGSEC);
    let current = secinfo_no_name(SecinfoStyle4::SECINFO_STYLE4_CURRENT_FH);
    assert_eq!(flavors(&sys.run(vec![put_root(), current]).ok()), ["krb5p"]);
}

#[test]
fn a_principal_without_account_is_nobody() // RFC 8881 section 5.9
{
    let server = Setup::default().start();
    let nobody =
        orthrus_server::security::Security::gss(SecFlavor::Krb5, "ghost@EXAMPLE.ORG".into(), false, None, 5);
    let mut client = Client::with(&server, b"ghost", nobody, FORE);
    client.make_file("export", "f", b"");
    let reply = client.at("export/f", vec![getattr(&[FATTR4_OWNER])]).ok();
    assert_eq!(reply.attributes().owner.as_deref(), Some(&b"65534"[..]));
}

/// Makes a client whose state belongs to its machine: the machine may send CLOSE for any user.
fn machine_client(server: &Server) -> Client<'_> {
    let machine = krb5(SecFlavor::Krb5i, "host/client", 65534);
    let protect = StateProtect4A::SP4_MACH_CRED(StateProtectOps4 {
        spo_must_enforce: Bitmap4::of(&[
            NfsOpnum4::OP_DESTROY_SESSION as u32,
            NfsOpnum4::OP_BIND_CONN_TO_SESSION as u32,
            NfsOpnum4::OP_BACKCHANNEL_CTL as u32,
            NfsOpnum4::OP_EXCHANGE_ID as u32,
        ]),
        spo_must_allow: Bitmap4::of(&[NfsOpnum4::OP_CLOSE as u32]),
    });
    let now = std::time::Duration::from_secs(100);
    let reply = server.call(&machine, 1, now, 1, &[exchange_id(b"machine", protect)]).ok();
    let NfsResop4::OP_EXCHANGE_ID(ExchangeId4Res::NFS4_OK(id)) = reply.last() else { panic!() };
    let StateProtect4R::SP4_MACH_CRED(ops) = &id.eir_state_protect else { panic!("{id:?}") };
    assert!(ops.spo_must_allow.contains(NfsOpnum4::OP_CLOSE as u32));
    let create = create_session(id.eir_clientid, id.eir_sequenceid, FORE);
    let clientid = id.eir_clientid;
    let reply = server.call(&machine, 1, now, 1, &[create]).ok();
    let NfsResop4::OP_CREATE_SESSION(CreateSession4Res::NFS4_OK(ok)) = reply.last() else { panic!() };
    let mut client = Client {
        server,
        security: machine,
        connection: 1,
        now,
        minor: 1,
        clientid,
        session: ok.csr_sessionid,
        sequence: 0,
        cache_this: false,
        fore: FORE,
    };
    client.run(vec![reclaim_complete()]).ok();
    client
}

#[test]
fn the_machine_credential_cleans_up_where_its_flavor_may_not_go() // RFC 8881 section 2.10.8.3
{
    let flavors = vec![SecFlavor::Krb5p];
    let private = for_flavors(export("/private", &memory()), &flavors);
    let server = Setup::with_exports(vec![private]).start();
    let mut client = machine_client(&server);
    let machine = client.security.clone();
    client.security = krb5(SecFlavor::Krb5p, "alice", ALICE);
    let reply = client.at("private", vec![open_create("f", 3), getfh()]).ok();
    let (fh, stateid) = (reply.fh(0), reply.opened().stateid);
    client.security = machine;
    let size = || getattr(&[FATTR4_SIZE]);
    client.run(vec![put(&fh), read(stateid, 0, 1)]).expect(NFS4ERR_WRONGSEC);
    client.run(vec![put(&fh), size(), read(stateid, 0, 1)]).expect(NFS4ERR_WRONGSEC);
    client
        .run(vec![put(&fh), size(), close(stateid), read(Stateid4::ANONYMOUS, 0, 1)])
        .expect(NFS4ERR_ACCESS);
    assert_eq!(server.nfs.counts().opens, 0);
}

#[test]
fn operations_in_spo_must_enforce_need_the_machine_credential() // RFC 8881 section 2.10.8.3
{
    let server = Setup::default().start();
    let mut client = machine_client(&server);
    let session = client.session;
    let destroy = || NfsArgop4::OP_DESTROY_SESSION(DestroySession4Args { dsa_sessionid: session });
    let machine = client.security.clone();
    client.security = krb5(SecFlavor::Krb5i, "alice", ALICE);
    client.run(vec![destroy()]).expect(NFS4ERR_WRONG_CRED);
    client.run(vec![exchange_id(b"machine", StateProtect4A::SP4_NONE)]).expect(NFS4ERR_WRONG_CRED);
    let control =
        BackchannelCtl4Args { bca_cb_program: 1, bca_sec_parms: vec![CallbackSecParms4::AUTH_NONE] };
    client.run(vec![NfsArgop4::OP_BACKCHANNEL_CTL(control)]).expect(NFS4ERR_WRONG_CRED);
    client.security = krb5(SecFlavor::Krb5, "host/client", 65534);
    client.run(vec![destroy()]).expect(NFS4ERR_WRONG_CRED);
    client.connection = 9;
    client.run(vec![put_root()]).expect(NFS4ERR_CONN_NOT_BOUND_TO_SESSION);
    client.connection = 1;
    client.sequence -= 1;
    client.security = machine;
    client.run(vec![destroy()]).ok();
}

#[test]
// RFC 8881 section 18.35.4, case 3
fn a_client_owner_in_use_is_not_taken_over_by_another_principal() {
    let server = Setup::default().start();
    let mut client = Client::with(&server, b"c", krb5(SecFlavor::Krb5i, "host/one", 65534), FORE);
    client.at("export", vec![open_create("f", 3)]).ok();
    let other = krb5(SecFlavor::Krb5i, "host/two", 65534);
    let now = client.now;
    let id = || [exchange_id(b"c", StateProtect4A::SP4_NONE)];
    server.call(&other, 2, now, 1, &id()).expect(NFS4ERR_CLID_INUSE);
    server.call(&sys(ALICE), 2, now, 1, &id()).expect(NFS4ERR_CLID_INUSE);
    server.call(&client.security, 2, now, 1, &id()).ok();
}

#[test]
// RFC 8881 section 2.10.8.1: only the RPC proves who sends
fn a_stateid_in_the_wrong_hands_opens_nothing() {
    let server = Setup::default().start();
    let mut alice = Client::with(&server, b"host", sys(ALICE), FORE);
    let private = AttributeValues { mode: Some(0o600), ..AttributeValues::default() };
    let how = Openflag4::OPEN4_CREATE(Createhow4::UNCHECKED4(fattr(private)));
    let reply = alice.at("export", vec![open_how(how, by_name("f"), 3, 0, b"owner"), getfh()]).ok();
    let (fh, stateid) = (reply.fh(0), reply.opened().stateid);
    alice.run(vec![put(&fh), write(stateid, 0, b"secret")]).ok();

    // Bob has read session and stateid off the wire, and uses them under his own identity.
    alice.security = sys(BOB);
    alice.run(vec![put(&fh), read(stateid, 0, 6)]).expect(NFS4ERR_ACCESS);
    alice.run(vec![put(&fh), write(stateid, 0, b"forged")]).expect(NFS4ERR_ACCESS);
    let size = AttributeValues { size: Some(0), ..AttributeValues::default() };
    alice.run(vec![put(&fh), setattr(stateid, fattr(size))]).expect(NFS4ERR_ACCESS);

    alice.security = sys(ALICE);
    alice.run(vec![put(&fh), setattr(Stateid4::ANONYMOUS, mode(0o000))]).ok();
    let reply = alice.run(vec![put(&fh), read(stateid, 0, 6)]).ok();
    assert_eq!(data(reply.last()).0, b"secret");
    alice.run(vec![put(&fh), setattr(Stateid4::ANONYMOUS, mode(0o604))]).ok();
    alice.security = sys(BOB);
    alice.run(vec![put(&fh), read(stateid, 0, 6)]).ok();
}
