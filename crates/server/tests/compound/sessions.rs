//! Sessions and exactly-once semantics (RFC 8881 sections 2.10 and 16.2).

use crate::helper::*;
use nfs4::Nfsstat4::*;
use nfs4::*;
use orthrus_server::engine::NfsConfig;
use std::time::Duration;

const NOW: Duration = Duration::from_secs(100);

#[test]
fn a_client_gets_an_id_a_session_and_a_root() // RFC 8881 sections 18.35, 18.36, 18.46
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let reply = client.run(vec![put_root(), getfh()]).ok();
    assert_eq!(reply.results.len(), 3);
    assert_eq!(reply.outcome.operations, 3);
}

#[test]
fn the_tag_is_echoed() // RFC 8881 section 16.2.3
{
    let server = Setup::default().start();
    let reply = server.call(&sys(ALICE), 1, NOW, 1, &[]).ok();
    assert_eq!(&reply.bytes[..12], [0, 0, 0, 0, 0, 0, 0, 3, b't', b'a', b'g', 0]);
}

#[test]
fn a_tag_that_is_not_utf8_is_invalid() // RFC 8881 section 16.2.3
{
    let server = Setup::default().start();
    let mut args = xdr::Encoder::new();
    args.opaque(&[0xff, 0xfe]).u32(1).u32(0);
    server.call_bytes(&sys(ALICE), 1, NOW, args.as_slice()).expect(NFS4ERR_INVAL);
}

#[test]
// RFC 8881 section 2.7, RFC 7530 section 15.2.3
fn only_minor_versions_that_are_configured_are_spoken() {
    let server = Setup::default().start();
    server.call(&sys(ALICE), 1, NOW, 0, &[put_root()]).ok();
    let config = NfsConfig { nfs40: false, ..NfsConfig::default() };
    let server = Setup { config, ..Setup::default() }.start();
    for minor in [0, 3, u32::MAX] {
        let reply = server.call(&sys(ALICE), 1, NOW, minor, &[put_root()]);
        assert!(reply.expect(NFS4ERR_MINOR_VERS_MISMATCH).results.is_empty());
    }
    server.call(&sys(ALICE), 1, NOW, 2, &[]).ok();
}

#[test]
fn an_operation_outside_a_session_is_refused() // RFC 8881 section 18.46.3
{
    let server = Setup::default().start();
    let reply = server.call(&sys(ALICE), 1, NOW, 1, &[put_root(), getfh()]);
    assert_eq!(reply.expect(NFS4ERR_OP_NOT_IN_SESSION).results.len(), 1);
}

#[test]
// RFC 8881 sections 18.35.3, 18.36.3, 18.37.3, 18.50.3
fn session_operations_without_sequence_stand_alone() {
    let server = Setup::default().start();
    let alone = [
        exchange_id(b"c", StateProtect4A::SP4_NONE),
        create_session(1, 1, FORE),
        NfsArgop4::OP_DESTROY_SESSION(DestroySession4Args { dsa_sessionid: [0; 16] }),
        NfsArgop4::OP_DESTROY_CLIENTID(DestroyClientid4Args { dca_clientid: 1 }),
        bind([0; 16]),
    ];
    for op in alone {
        server.call(&sys(ALICE), 1, NOW, 1, &[op, put_root()]).expect(NFS4ERR_NOT_ONLY_OP);
    }
}

#[test]
fn a_megabyte_of_callback_security_is_not_decoded() // RFC 8881 section 18.36.1
{
    let server = Setup::default().start();
    let NfsArgop4::OP_CREATE_SESSION(args) = create_session(1, 1, FORE) else { panic!("it is one") };
    let csa_sec_parms = vec![CallbackSecParms4::AUTH_NONE; 250_000];
    let op = NfsArgop4::OP_CREATE_SESSION(CreateSession4Args { csa_sec_parms, ..args });
    // A list of some entries would be followed by NFS4ERR_STALE_CLIENTID.
    server.call(&sys(ALICE), 1, NOW, 1, &[op]).expect(NFS4ERR_BADXDR);
}

fn bind(session: Sessionid4) -> Op {
    NfsArgop4::OP_BIND_CONN_TO_SESSION(BindConnToSession4Args {
        bctsa_sessid: session,
        bctsa_dir: ChannelDirFromClient4::CDFC4_FORE,
        bctsa_use_conn_in_rdma_mode: false,
    })
}

#[test]
fn sequence_stands_first_and_once() // RFC 8881 section 18.46.3
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let again = client.sequence_again();
    let reply = client.run(vec![put_root(), again]);
    assert_eq!(reply.expect(NFS4ERR_SEQUENCE_POS).results.len(), 3);
}

#[test]
fn a_connection_is_bound_only_alone() // RFC 8881 section 18.34.3
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let session = client.session;
    client.run(vec![bind(session)]).expect(NFS4ERR_NOT_ONLY_OP);
    server.call(&client.security, 2, NOW, 1, &[bind(session)]).ok();
    server.call(&client.security, 2, NOW, 1, &[bind([9; 16])]).expect(NFS4ERR_BADSESSION);
}

#[test]
fn an_unknown_operation_is_illegal_and_ends_the_compound() // RFC 8881 section 18.52
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    for number in [0_u32, 2, 76, 10_044, u32::MAX] {
        let mut args = xdr::Encoder::new();
        args.opaque(b"").u32(1).u32(3).value(&client.next_sequence()).u32(number).u32(24);
        let reply = server.call_bytes(&client.security, 1, NOW, args.as_slice());
        assert_eq!(reply.expect(NFS4ERR_OP_ILLEGAL).results.len(), 2);
    }
}

#[test]
fn an_operation_of_4_2_is_illegal_in_4_1() // RFC 8881 section 2.7
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let seek = || {
        NfsArgop4::OP_SEEK(Seek4Args {
            sa_stateid: Stateid4::ANONYMOUS,
            sa_offset: 0,
            sa_what: DataContent4::NFS4_CONTENT_DATA,
        })
    };
    client.run(vec![seek()]).expect(NFS4ERR_OP_ILLEGAL);
    client.minor = 2;
    client.run(vec![seek()]).expect(NFS4ERR_NOFILEHANDLE);
}

#[test]
fn operations_of_4_2_are_illegal_in_4_1_and_missing_ones_are_not_supported() // RFC 7862 section 13
{
    use NfsOpnum4::*;
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let lacks = [OP_COPY_NOTIFY, OP_LAYOUTERROR, OP_LAYOUTSTATS, OP_WRITE_SAME].map(|opnum| opnum as u32);
    for number in OP_ALLOCATE as u32..=OP_REMOVEXATTR as u32 {
        let in_4_2 = if lacks.contains(&number) { NFS4ERR_NOTSUPP } else { NFS4ERR_NOFILEHANDLE };
        for (minor, expected) in [(1, NFS4ERR_OP_ILLEGAL), (2, in_4_2)] {
            let mut args = encode(minor, &[client.next_sequence(), savefh()]);
            // SAVEFH consists only of its number.
            args.truncate(args.len() - 4);
            args.extend_from_slice(&number.to_be_bytes());
            let reply = server.call_bytes(&client.security, client.connection, client.now, &args);
            assert_eq!(reply.outcome.status, expected, "operation {number} in 4.{minor}");
        }
    }
}

#[test]
fn operations_of_4_0_are_not_supported() // RFC 8881 section 17
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    client.run(vec![NfsArgop4::OP_RENEW(Renew4Args { clientid: 1 })]).expect(NFS4ERR_NOTSUPP);
}

#[test]
fn arguments_that_end_early_are_bad_xdr() // RFC 8881 section 15.1.1.1
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let args = encode(1, &[client.next_sequence(), put_root(), lookup("a-long-name")]);
    let reply = server.call_bytes(&client.security, 1, NOW, &args[..args.len() - 8]);
    assert_eq!(reply.expect(NFS4ERR_BADXDR).results.len(), 3);
    server.call_bytes(&client.security, 1, NOW, &args[..7]).expect(NFS4ERR_BADXDR);
    server.call_bytes(&client.security, 1, NOW, &[]).expect(NFS4ERR_BADXDR);
}

#[test]
fn a_compound_that_announces_more_operations_than_it_has_is_bad_xdr() // RFC 8881 section 15.1.1.1
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let mut args = xdr::Encoder::new();
    args.opaque(b"").u32(1).u32(3).value(&client.next_sequence()).value(&put_root());
    let reply = server.call_bytes(&client.security, 1, NOW, args.as_slice());
    assert_eq!(reply.expect(NFS4ERR_BADXDR).results.len(), 3);
}

#[test]
fn more_operations_than_agreed_are_refused_before_any_runs() // RFC 8881 section 18.46.3
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let most = usize::try_from(client.fore.ca_maxoperations).unwrap();
    client.run(vec![put_root(); most - 1]).ok();
    let reply = client.run(vec![put_root(); most]).expect(NFS4ERR_TOO_MANY_OPS);
    assert_eq!(reply.results.len(), 1);
    client.sequence -= 1;
    let reply = client.run(vec![put_root(); 1000]).expect(NFS4ERR_TOO_MANY_OPS);
    assert_eq!(reply.results.len(), 1);
}

#[test]
fn a_request_larger_than_agreed_is_refused() // RFC 8881 section 18.46.3
{
    let server = Setup::default().start();
    let fore = ChannelAttrs4 { ca_maxrequestsize: 4096, ..FORE };
    let mut client = Client::with(&server, b"small", sys(ALICE), fore);
    client.at("export", vec![write(Stateid4::ANONYMOUS, 0, &[0; 8192])]).expect(NFS4ERR_REQ_TOO_BIG);
}

#[test]
fn a_sequence_whose_own_result_may_not_be_cached_is_refused_without_using_the_slot()
// RFC 8881 section 2.10.6.4
{
    let server = Setup::default().start();
    let fore = ChannelAttrs4 { ca_maxresponsesize_cached: 10, ..FORE };
    let mut client = Client::with(&server, b"client", sys(ALICE), fore);
    client.cache_this = true;
    client.run(vec![]).expect(NFS4ERR_REP_TOO_BIG_TO_CACHE);
    client.sequence -= 1;
    client.cache_this = false;
    client.run(vec![put_root()]).ok();
}

#[test]
fn set_ssv_is_refused_since_no_client_has_an_ssv() // RFC 8881 section 18.47.3
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let args = SetSsv4Args { ssa_ssv: bytes(&[1; 32]), ssa_digest: bytes(&[2; 32]) };
    client.run(vec![NfsArgop4::OP_SET_SSV(args)]).expect(NFS4ERR_INVAL);
}

#[test]
// RFC 8881 section 18.35.3, RFC 7862 section 14.1
fn a_flag_of_4_2_in_exchange_id_is_unknown_to_4_1() {
    let server = Setup::default().start();
    let NfsArgop4::OP_EXCHANGE_ID(args) = exchange_id(b"c", StateProtect4A::SP4_NONE) else { panic!() };
    let op = NfsArgop4::OP_EXCHANGE_ID(ExchangeId4Args { eia_flags: EXCHGID4_FLAG_SUPP_FENCE_OPS, ..args });
    server.call(&sys(ALICE), 1, NOW, 1, std::slice::from_ref(&op)).expect(NFS4ERR_INVAL);
    server.call(&sys(ALICE), 1, NOW, 2, &[op]).ok();
}

#[test]
fn a_replayed_request_gets_the_cached_reply_and_is_not_run_again() // RFC 8881 section 2.10.6.1.3
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    client.cache_this = true;
    let first = client.at("export", vec![mkdir("once"), getfh()]).ok();
    client.sequence -= 1;
    let second = client.at("export", vec![mkdir("once"), getfh()]).ok();
    assert!(!first.outcome.replayed && second.outcome.replayed);
    assert_eq!(first.bytes, second.bytes);
}

#[test]
fn a_replayed_error_is_the_same_error() // RFC 8881 section 2.10.6.1.3
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    client.cache_this = true;
    let first = client.at("export", vec![remove("nothing")]).expect(NFS4ERR_NOENT);
    client.make_directory_elsewhere();
    client.sequence -= 1;
    let second = client.at("export", vec![remove("nothing")]).expect(NFS4ERR_NOENT);
    assert!(second.outcome.replayed);
    assert_eq!(first.bytes, second.bytes);
}

impl Client<'_> {
    /// Changes the directory from another session, without touching this one's slot.
    fn make_directory_elsewhere(&self) {
        let mut other = Client::with(self.server, b"other", sys(ALICE), FORE);
        other.at("export", vec![mkdir("nothing")]).ok();
    }
}

#[test]
// RFC 8881 section 2.10.6.1.3.1
fn a_different_request_on_the_same_slot_and_sequence_is_a_false_retry() {
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    client.cache_this = true;
    client.at("export", vec![mkdir("a")]).ok();
    client.sequence -= 1;
    client.at("export", vec![mkdir("b")]).expect(NFS4ERR_SEQ_FALSE_RETRY);
}

#[test]
fn a_retry_by_another_principal_does_not_get_the_reply() // RFC 8881 section 2.10.6.1.3.1
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    client.cache_this = true;
    client.at("export", vec![mkdir("a")]).ok();
    client.sequence -= 1;
    client.security = sys(BOB);
    client.at("export", vec![mkdir("a")]).expect(NFS4ERR_SEQ_FALSE_RETRY);
}

#[test]
fn a_retry_of_an_uncached_reply_gets_retry_uncached_rep() // RFC 8881 section 2.10.6.1.3
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    client.at("export", vec![mkdir("a")]).ok();
    client.sequence -= 1;
    client.at("export", vec![mkdir("a")]).expect(NFS4ERR_RETRY_UNCACHED_REP);
}

#[test]
fn sequences_out_of_order_and_unknown_sessions_are_refused() // RFC 8881 section 2.10.6.1
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    client.sequence += 5;
    client.run(vec![]).expect(NFS4ERR_SEQ_MISORDERED);
    client.session = [3; 16];
    client.run(vec![]).expect(NFS4ERR_BADSESSION);
}

#[test]
fn a_session_is_destroyed_last_in_its_own_compound() // RFC 8881 section 18.37.3
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let destroy = |session| NfsArgop4::OP_DESTROY_SESSION(DestroySession4Args { dsa_sessionid: session });
    let session = client.session;
    client.run(vec![destroy(session), put_root()]).expect(NFS4ERR_NOT_ONLY_OP);
    client.run(vec![destroy(session)]).ok();
    client.run(vec![]).expect(NFS4ERR_BADSESSION);
    let clientid = client.clientid;
    let destroy = NfsArgop4::OP_DESTROY_CLIENTID(DestroyClientid4Args { dca_clientid: clientid });
    server.call(&sys(ALICE), 1, NOW, 1, &[destroy]).ok();
    assert_eq!(server.nfs.counts().clients, 0);
}

#[test]
fn ssv_is_not_offered() // RFC 8881 section 18.35.3
{
    let server = Setup::default().start();
    let ops = || StateProtectOps4 { spo_must_enforce: Bitmap4::EMPTY, spo_must_allow: Bitmap4::EMPTY };
    let ssv = StateProtect4A::SP4_SSV(SsvSpParms4 {
        ssp_ops: ops(),
        ssp_hash_algs: vec![],
        ssp_encr_algs: vec![],
        ssp_window: 1,
        ssp_num_gss_handles: 1,
    });
    let reply = server.call(&sys(ALICE), 1, NOW, 1, &[exchange_id(b"c", ssv)]);
    reply.expect(NFS4ERR_ENCR_ALG_UNSUPP);
}

#[test]
fn reclaim_complete_comes_once() // RFC 8881 section 18.51.4
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    client.run(vec![reclaim_complete()]).expect(NFS4ERR_COMPLETE_ALREADY);
}

#[test]
fn a_directory_delegation_is_unavailable() // RFC 8881 section 18.39
{
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    let get = NfsArgop4::OP_GET_DIR_DELEGATION(GetDirDelegation4Args {
        gdda_signal_deleg_avail: false,
        gdda_notification_types: Bitmap4::EMPTY,
        gdda_child_attr_delay: Nfstime4 { seconds: 0, nseconds: 0 },
        gdda_dir_attr_delay: Nfstime4 { seconds: 0, nseconds: 0 },
        gdda_child_attributes: Bitmap4::EMPTY,
        gdda_dir_attributes: Bitmap4::EMPTY,
    });
    let reply = client.at("export", vec![get, getfh()]).ok();
    let unavailable = GetDirDelegation4ResNonFatal::GDD4_UNAVAIL(false);
    let expected = NfsResop4::OP_GET_DIR_DELEGATION(GetDirDelegation4Res::NFS4_OK(unavailable));
    assert!(reply.results.contains(&expected), "{:?}", reply.results);
}

/// How often two clients with one client owner were noted.
fn rivals(server: &Server) -> u64 {
    let refusals = server.nfs.refusals();
    refusals.iter().find(|(rule, _)| *rule == "client_owner").expect("the rule").1
}

#[test]
// RFC 8881 section 18.35.4, case 5
fn machines_with_one_client_owner_are_noted_when_the_first_comes_back_and_restarts_are_not() {
    let server = Setup::default().start();
    let boot = |number: u8| {
        let NfsArgop4::OP_EXCHANGE_ID(mut args) = exchange_id(b"localhost", StateProtect4A::SP4_NONE) else {
            panic!()
        };
        args.eia_clientowner.co_verifier = [number; 8];
        let reply = server.call(&sys(ALICE), 1, NOW, 1, &[NfsArgop4::OP_EXCHANGE_ID(args)]).ok();
        let NfsResop4::OP_EXCHANGE_ID(ExchangeId4Res::NFS4_OK(id)) = reply.last() else { panic!() };
        let create = create_session(id.eir_clientid, id.eir_sequenceid, FORE);
        server.call(&sys(ALICE), 1, NOW, 1, &[create]).ok();
        rivals(&server)
    };
    assert_eq!([1, 2, 3].map(boot), [0; 3], "a machine that starts again and again");
    assert_eq!([1, 2, 3, 4, 2].map(boot), [1, 2, 3, 3, 4]);
    // Linux gives up its state with a verifier of ones, and comes back.
    assert_eq!([9, 0xff, 9].map(boot), [4; 3]);
}

#[test]
// RFC 8881 section 18.35.4, case 3
fn a_client_owner_that_another_principals_client_keeps_is_noted() {
    let server = Setup::default().start();
    let mut client = Client::new(&server);
    client.at("export", vec![open_create("f", 3)]).ok();
    let other = [exchange_id(b"client", StateProtect4A::SP4_NONE)];
    server.call(&sys(BOB), 2, NOW, 1, &other).expect(NFS4ERR_CLID_INUSE);
    assert_eq!(rivals(&server), 1);
}
