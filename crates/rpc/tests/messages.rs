//! Headers, credentials and protected bodies.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use orthrus_rpc::gss::{self, CredentialError, GssCredential, InitRes, RpcGssProcT, RpcGssServiceT};
use orthrus_rpc::{
    Accepted, AuthStat, AuthSys, CallError, CallHeader, Denied, Message, OpaqueAuth, ReplyHeader, generated,
};
use proptest::prelude::*;
use xdr::{Decode, Decoder, Encode, Encoder};

fn encoded(value: &impl Encode) -> Vec<u8> {
    let mut encoder = Encoder::new();
    value.encode(&mut encoder);
    encoder.into_vec()
}

fn call(credential: &OpaqueAuth<'_>, verifier: &OpaqueAuth<'_>) -> Vec<u8> {
    let mut encoder = Encoder::new();
    CallHeader::encode_signed(&mut encoder, 7, (100_003, 4, 1), credential);
    verifier.encode(&mut encoder);
    encoder.raw(b"args");
    encoder.into_vec()
}

#[test]
fn a_call_header_borrows_from_its_record() // RFC 5531 section 9
{
    let record = call(&OpaqueAuth { flavor: 6, body: b"cred" }, &OpaqueAuth { flavor: 6, body: b"verifier" });
    let Ok(Message::Call(header)) = Message::parse(&record) else { panic!("no call") };
    assert_eq!((header.xid, header.program, header.version, header.procedure), (7, 100_003, 4, 1));
    assert_eq!((header.credential.body, header.verifier.body), (&b"cred"[..], &b"verifier"[..]));
    assert_eq!(header.signed, &record[..6 * 4 + 12]);
    assert_eq!(&record[header.arguments_at..], b"args");
}

#[test]
fn generated_decoders_read_handwritten_encodings() {
    let body = encoded(&AuthSys::new(1, b"host", 1000, 100, &[4, 5, 6]));
    let record = call(&OpaqueAuth::sys(&body), &OpaqueAuth::NONE);
    let message = generated::RpcMsg::decode(&mut Decoder::new(&record)).unwrap();
    let generated::RpcMsgBody::CALL(call) = message.body else { panic!("no call") };
    assert_eq!((call.rpcvers, call.prog, call.vers, call.proc), (2, 100_003, 4, 1));
    let parms = generated::AuthsysParms::decode(&mut Decoder::new(&call.cred.body)).unwrap();
    assert_eq!((parms.uid, parms.gid, parms.gids), (1000, 100, vec![4, 5, 6]));

    let result =
        InitRes { handle: b"handle", gss_major: 1, gss_minor: 2, seq_window: 3, gss_token: b"token" };
    let bytes = encoded(&result);
    let by_grammar = generated::RpcGssInitRes::decode(&mut Decoder::new(&bytes)).unwrap();
    assert_eq!(encoded(&by_grammar), bytes);
    assert_eq!(InitRes::decode(&mut Decoder::new(&bytes)), Ok(result));
}

#[test]
fn a_credential_of_401_bytes_is_a_bad_credential() // RFC 5531 section 8.2
{
    let long = [0; 401];
    let record = call(&OpaqueAuth::sys(&long), &OpaqueAuth::NONE);
    let Err(CallError::Auth { xid: 7, status: AuthStat::AUTH_BADCRED, .. }) = Message::parse(&record) else {
        panic!("{:?}", Message::parse(&record))
    };
    let record = call(&OpaqueAuth::sys(&long[..400]), &OpaqueAuth::gss(&long));
    assert!(matches!(
        Message::parse(&record),
        Err(CallError::Auth { xid: 7, status: AuthStat::AUTH_BADVERF, .. })
    ));
}

#[test]
fn another_rpc_version_can_be_answered() // RFC 5531 section 9
{
    let mut record = call(&OpaqueAuth::NONE, &OpaqueAuth::NONE);
    record[11] = 3;
    assert_eq!(Message::parse(&record), Err(CallError::RpcVersion { xid: 7, version: 3 }));
}

#[test]
fn seventeen_groups_or_a_long_name_are_no_auth_sys_credential() // RFC 5531 appendix A
{
    let good = AuthSys::new(0, &[b'x'; 300], 1, 2, &[9; 20]);
    assert_eq!((good.machine_name.len(), good.gids().len()), (255, 16));
    let body = encoded(&good);
    assert_eq!(AuthSys::parse(&body), Ok(good));
    assert!(AuthSys::parse(&[&body[..], &[0; 4]].concat()).is_err());
    let mut many = body.clone();
    let count_at = body.len() - 16 * 4 - 1;
    many[count_at] = 17;
    many.extend([0; 4]);
    assert!(AuthSys::parse(&many).is_err());
}

#[test]
fn every_form_of_reply_survives_the_way() // RFC 5531 section 9
{
    let verifier = OpaqueAuth::gss(b"mic!!");
    let forms = [
        Accepted::Success,
        Accepted::ProgUnavail,
        Accepted::ProgMismatch { low: 4, high: 4 },
        Accepted::ProcUnavail,
        Accepted::GarbageArgs,
        Accepted::SystemErr,
    ];
    for form in forms {
        let mut encoder = Encoder::new();
        form.encode(&mut encoder, 9, &verifier);
        let (record, results_at) = (encoder.as_slice(), encoder.len());
        let parsed = ReplyHeader::parse(record).unwrap();
        assert_eq!(parsed, ReplyHeader::Accepted { xid: 9, verifier, status: form, results_at });
    }
    for form in [Denied::RpcMismatch { low: 2, high: 2 }, Denied::Auth(AuthStat::RPCSEC_GSS_CTXPROBLEM)] {
        let mut encoder = Encoder::new();
        form.encode(&mut encoder, 9);
        assert_eq!(ReplyHeader::parse(encoder.as_slice()), Ok(ReplyHeader::Denied { xid: 9, why: form }));
    }
}

#[test]
fn a_gss_credential_is_checked_for_its_version_first() // RFC 2203 section 5.1
{
    let credential = GssCredential {
        procedure: RpcGssProcT::RPCSEC_GSS_DATA,
        sequence: 17,
        service: RpcGssServiceT::rpc_gss_svc_privacy,
        handle: b"a handle",
    };
    let body = encoded(&credential);
    assert_eq!(GssCredential::parse(&body), Ok(credential));
    assert_eq!(GssCredential::parse(&[0, 0, 0, 2]), Err(CredentialError::Version(2)));
    let longer = [&body[..], &[0; 4]].concat();
    assert!(matches!(GssCredential::parse(&longer), Err(CredentialError::Malformed(_))));
    let mut no_service = body;
    no_service[15] = 0;
    assert!(matches!(GssCredential::parse(&no_service), Err(CredentialError::Malformed(_))));
    no_service[7] = RpcGssProcT::RPCSEC_GSS_INIT as u8;
    assert!(GssCredential::parse(&no_service).is_ok());
}

#[test]
fn bodies_are_found_where_they_lie() // RFC 2203 sections 5.3.2.2 and 5.3.2.3
{
    let mut encoder = Encoder::from_vec(b"head".to_vec());
    let length_at = gss::begin_body(&mut encoder);
    encoder.u32(5).raw(b"datadata");
    gss::end_body(&mut encoder, length_at);
    let record = encoder.opaque(b"mic").as_slice();
    let (body, sequence) = gss::integrity_body(record, 4).unwrap();
    assert_eq!(sequence, 5);
    assert_eq!(&record[body.data()], b"datadata");
    assert_eq!(&record[body.checksum], b"mic");

    let mut encoder = Encoder::from_vec(b"head".to_vec());
    let length_at = gss::begin_body(&mut encoder);
    encoder.raw(b"token");
    gss::end_body(&mut encoder, length_at);
    let record = encoder.as_slice();
    assert_eq!(record.len(), 16);
    assert_eq!(&record[gss::privacy_body(record, 4).unwrap()], b"token");
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_parsed_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..600), at in 0usize..700) {
        let _ = ReplyHeader::parse(&bytes);
        let _ = AuthSys::parse(&bytes);
        let _ = GssCredential::parse(&bytes);
        let _ = InitRes::decode(&mut Decoder::new(&bytes));
        let _ = gss::init_argument(&bytes, 100);
        if let Ok(Message::Call(header)) = Message::parse(&bytes) {
            prop_assert!(header.arguments_at <= bytes.len());
        }
        if let Ok((body, _)) = gss::integrity_body(&bytes, at) {
            prop_assert!(body.data().len() <= bytes.len() && bytes.get(body.checksum).is_some());
        }
        if let Ok(token) = gss::privacy_body(&bytes, at) {
            prop_assert!(bytes.get(token).is_some());
        }
    }

    #[test]
    fn a_mutated_call_is_parsed_or_refused(at in 0usize..60, to in any::<u8>(), keep in 0usize..70) {
        let mut record = call(&OpaqueAuth::gss(b"some credential"), &OpaqueAuth::gss(b"some verifier"));
        if let Some(byte) = record.get_mut(at) {
            *byte = to;
        }
        record.truncate(keep);
        let _ = Message::parse(&record);
    }
}
