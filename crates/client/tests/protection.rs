//! RPCSEC_GSS of the client, checked with the keys of the other side.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use gss::Established;
use krb5::{ContextKeys, Enctype, ProtocolKey, Role};
use orthrus_client::{
    Damage, Error, GssCall, GssContext, Head, Protection, ProtectionError, RawConnection, RpcError,
};
use proptest::prelude::*;
use rpc::gss::{GssCredential, RpcGssServiceT};
use rpc::{Accepted, AuthStat, CallHeader, Denied, Message, OpaqueAuth};
use rpcsec::{BodyError, Channel};
use xdr::{Decoder, Encoder};

use RpcGssServiceT::{rpc_gss_svc_integrity, rpc_gss_svc_none, rpc_gss_svc_privacy};

const SERVICES: [RpcGssServiceT; 3] = [rpc_gss_svc_none, rpc_gss_svc_integrity, rpc_gss_svc_privacy];
const HANDLE: &[u8] = b"handle of sixteen";

fn keys(enctype: Enctype, role: Role) -> ContextKeys {
    ContextKeys::new(enctype, ProtocolKey::AcceptorSubkey(&vec![7; enctype.key_len()]), role)
        .expect("the key has the right length")
}

fn context(enctype: Enctype) -> Arc<GssContext> {
    lasting(enctype, Duration::from_secs(3600))
}

/// Returns a context with this lifetime.
fn lasting(enctype: Enctype, lifetime: Duration) -> Arc<GssContext> {
    let established = Established {
        delegated_through: Vec::new(),
        forwarded: None,
        token: Vec::new(),
        principal: "nfs/server@REALM".to_owned(),
        keys: keys(enctype, Role::Initiator),
        enctype: enctype.etype(),
        lifetime,
        send_sequence: 99,
    };
    Arc::new(GssContext::new(established, HANDLE.to_vec(), 128))
}

fn call(record: &[u8]) -> CallHeader<'_> {
    match Message::parse(record) {
        Ok(Message::Call(call)) => call,
        other => panic!("not a call: {other:?}"),
    }
}

/// Verifies a call as a server does. Returns the arguments, or the part that is wrong.
fn accept(keys: &ContextKeys, record: &[u8]) -> Result<Vec<u8>, &'static str> {
    let head = call(record);
    let credential = GssCredential::parse(head.credential.body).map_err(|_| "credential")?;
    keys.verify(head.signed, head.verifier.body).map_err(|_| "verifier")?;
    let channel = Channel { keys, service: credential.service, sequence: credential.sequence };
    match channel.open(record, head.arguments_at) {
        Ok(arguments) => Ok(arguments.into_owned()),
        Err(BodyError::Token(_)) => Err("token"),
        Err(BodyError::Sequence { .. }) => Err("sequence"),
        Err(BodyError::Malformed(_) | BodyError::NotSealed) => Err("body"),
    }
}

/// Builds a server's reply; `sequence` is that of the call.
fn reply(keys: &ContextKeys, xid: u32, sequence: u32, service: RpcGssServiceT, results: &[u8]) -> Vec<u8> {
    let mut encoder = Encoder::new();
    let verifier = keys.mic(5, &sequence.to_be_bytes());
    Accepted::Success.encode(&mut encoder, xid, &OpaqueAuth::gss(&verifier));
    Channel { keys, service, sequence }.seal(
        &mut encoder,
        || 6,
        [1; 16],
        |encoder| {
            encoder.raw(results);
        },
    );
    encoder.into_vec()
}

fn sealed(call: GssCall, arguments: &[u8]) -> Vec<u8> {
    let record = Head::nfs(1, 1, Protection::Gss(call)).record(arguments).expect("there are random bytes");
    let length = u32::from_be_bytes(*record.first_chunk().expect("a mark")) & 0x7fff_ffff;
    assert_eq!(length as usize, record.len() - 4);
    record[4..].to_vec()
}

/// Sends a call to a server that replies once with the result of `answer`.
fn exchange(head: &Head, answer: impl FnOnce(&[u8]) -> Vec<u8> + Send) -> Result<Vec<u8>, Error> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let wait = Duration::from_secs(10);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (stream, _) = listener.accept().expect("the client connects");
            let mut connection = RawConnection::from_stream(stream, 1 << 20);
            let record = connection.receive_record(wait).expect("it sends").expect("in time");
            connection.send_record(&answer(&record)).expect("the client waits");
        });
        let mut connection = RawConnection::connect(&[address], wait, 1 << 20).expect("it listens");
        head.call(&mut connection, b"arguments...", wait).map(|body| body.bytes().to_vec())
    })
}

#[test]
fn the_acceptor_understands_every_service_of_every_enctype() {
    // RFC 2203 section 5.3.1, RFC 4121 section 4.2
    for enctype in Enctype::ALL {
        let (context, acceptor) = (context(enctype), keys(enctype, Role::Acceptor));
        for service in SERVICES {
            for length in [0, 4, 16, 100, 4096] {
                let arguments = vec![3; length];
                let record = sealed(GssCall::new(context.clone(), service), &arguments);
                assert_eq!(accept(&acceptor, &record), Ok(arguments), "{enctype} {service}");
            }
        }
    }
}

#[test]
fn sequence_numbers_rise_by_one() {
    // RFC 2203 section 5.3.1
    let context = context(Enctype::Aes256CtsHmacSha1_96);
    let numbers: Vec<_> = (0..3).map(|_| GssCall::new(context.clone(), rpc_gss_svc_none).sequence).collect();
    assert_eq!(numbers, [1, 2, 3]);
}

#[test]
fn damage_is_found_where_it_was_done() {
    let (context, acceptor) =
        (context(Enctype::Aes128CtsHmacSha256_128), keys(Enctype::Aes128CtsHmacSha256_128, Role::Acceptor));
    let damaged = |service, change: &dyn Fn(&mut GssCall)| {
        let mut call = GssCall::new(context.clone(), service);
        change(&mut call);
        accept(&acceptor, &sealed(call, b"arguments..."))
    };
    for service in SERVICES {
        assert_eq!(damaged(service, &|call| call.damage = Damage::Verifier), Err("verifier"));
        assert_eq!(damaged(service, &|call| call.gss_version = 2), Err("credential"));
    }
    assert_eq!(damaged(rpc_gss_svc_integrity, &|call| call.damage = Damage::Body), Err("token"));
    assert_eq!(damaged(rpc_gss_svc_privacy, &|call| call.damage = Damage::Body), Err("token"));
    for service in [rpc_gss_svc_integrity, rpc_gss_svc_privacy] {
        assert_eq!(damaged(service, &|call| call.body_sequence += 1), Err("sequence"));
    }
}

#[test]
fn a_handle_of_any_length_can_be_sent() {
    let context = context(Enctype::Aes256CtsHmacSha1_96);
    let mut call = GssCall::new(context, rpc_gss_svc_privacy);
    call.handle = Some(vec![9; 3000]);
    let record = sealed(call, b"arguments...");
    let mut decoder = Decoder::new(&record[24..]);
    decoder.u32().expect("the flavor");
    assert_eq!(decoder.opaque(4000).expect("the credential").len(), 20 + 3000);
}

#[test]
fn a_genuine_reply_is_opened() {
    // RFC 2203 section 5.3.3
    for service in SERVICES {
        let enctype = Enctype::Aes256CtsHmacSha384_192;
        let call = GssCall::new(context(enctype), service);
        let sequence = call.sequence;
        let head = Head::nfs(8, 1, Protection::Gss(call));
        let acceptor = keys(enctype, Role::Acceptor);
        let results = exchange(&head, |_| reply(&acceptor, 8, sequence, service, b"results!"));
        assert_eq!(results.expect("it is genuine"), b"results!");
    }
}

#[test]
fn a_reply_that_is_not_genuine_is_refused() {
    // RFC 2203 section 5.3.3.2
    let enctype = Enctype::Aes256CtsHmacSha1_96;
    let acceptor = keys(enctype, Role::Acceptor);
    let opened = |service, answer: &(dyn Fn(u32) -> Vec<u8> + Sync)| {
        let call = GssCall::new(context(enctype), service);
        let sequence = call.sequence;
        match exchange(&Head::nfs(8, 1, Protection::Gss(call)), |_| answer(sequence)) {
            Err(Error::Protection(fault)) => fault,
            other => panic!("not refused: {other:?}"),
        }
    };
    for service in SERVICES {
        let other_call = opened(service, &|sequence| {
            let mut record = reply(&acceptor, 8, sequence, service, b"results!");
            let forged = acceptor.mic(5, &(sequence + 1).to_be_bytes());
            record[20..20 + forged.len()].copy_from_slice(&forged);
            record
        });
        assert_eq!(other_call, ProtectionError::Verifier);
    }
    for service in [rpc_gss_svc_integrity, rpc_gss_svc_privacy] {
        let flipped = opened(service, &|sequence| {
            let mut record = reply(&acceptor, 8, sequence, service, b"results!");
            *record.last_mut().expect("it is not empty") ^= 1;
            record
        });
        assert_eq!(flipped, ProtectionError::Integrity);
        let bare = opened(service, &|sequence| reply(&acceptor, 8, sequence, rpc_gss_svc_none, b"xyz"));
        assert_eq!(bare, ProtectionError::Body);
    }
}

#[test]
fn a_reply_to_another_call_is_refused() {
    // RFC 2203 section 5.3.3.2: the numbers in the verifier and in the body are both the call's
    let enctype = Enctype::Aes128CtsHmacSha1_96;
    let acceptor = keys(enctype, Role::Acceptor);
    for service in [rpc_gss_svc_integrity, rpc_gss_svc_privacy] {
        let call = GssCall::new(context(enctype), service);
        let sequence = call.sequence;
        let head = Head::nfs(8, 1, Protection::Gss(call));
        let refused = exchange(&head, |_| {
            let mut record = reply(&acceptor, 8, sequence + 1, service, b"results!");
            let genuine = acceptor.mic(5, &sequence.to_be_bytes());
            record[20..20 + genuine.len()].copy_from_slice(&genuine);
            record
        });
        assert!(matches!(refused, Err(Error::Protection(ProtectionError::Sequence))), "{refused:?}");
    }
}

#[test]
fn a_context_is_renewed_before_it_expires_and_not_again_at_once() {
    // RFC 2203 section 5.3.3.3. The renewed context expires with the same ticket.
    let life = |lifetime: u64| {
        let context = lasting(Enctype::Aes128CtsHmacSha1_96, Duration::from_secs(lifetime));
        let began = context.expires().expect("soon") - Duration::from_secs(lifetime);
        let is_worn = |second| context.is_worn(began + Duration::from_secs(second));
        (0..=lifetime + 1).find(|second| is_worn(*second)).expect("it ends")
    };
    assert_eq!([3600, 60, 30, 10, 2, 0].map(life), [3570, 30, 15, 5, 1, 1]);
}

#[test]
fn a_late_reply_to_an_earlier_call_is_none_to_this_one() {
    // RFC 5531 section 9
    let reply = |xid, results: &[u8]| {
        let mut encoder = Encoder::new();
        Accepted::Success.encode(&mut encoder, xid, &OpaqueAuth::NONE);
        encoder.raw(results);
        encoder.into_vec()
    };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let (address, wait) = (listener.local_addr().expect("it is bound"), Duration::from_secs(10));
    let mut connection = RawConnection::connect(&[address], wait, 1 << 20).expect("it listens");
    let (stream, _) = listener.accept().expect("the client connects");
    let mut server = RawConnection::from_stream(stream, 1 << 20);
    for (xid, results) in [(7, b"late"), (8, b"here")] {
        server.send_record(&reply(xid, results)).expect("the client reads");
    }
    let head = Head::nfs(8, 1, Protection::Plain { flavor: 0, body: Arc::default() });
    let body = head.call(&mut connection, b"", wait).expect("the second is its reply");
    assert_eq!(body.bytes(), b"here");
}

#[test]
fn a_denial_says_why() {
    // RFC 5531 section 9
    let call = GssCall::new(context(Enctype::Aes128CtsHmacSha1_96), rpc_gss_svc_none);
    let denied = exchange(&Head::nfs(8, 1, Protection::Gss(call)), |_| {
        let mut encoder = Encoder::new();
        Denied::Auth(AuthStat::RPCSEC_GSS_CTXPROBLEM).encode(&mut encoder, 8);
        encoder.into_vec()
    });
    let expected = RpcError::Auth(AuthStat::RPCSEC_GSS_CTXPROBLEM);
    assert!(matches!(denied, Err(Error::Rpc(found)) if found == expected), "{denied:?}");
}

proptest! {
    #[test]
    fn no_reply_makes_the_client_panic(bytes: Vec<u8>, service in 0..3_usize, head: bool) {
        let enctype = Enctype::Aes128CtsHmacSha1_96;
        let call = GssCall::new(context(enctype), SERVICES[service]);
        let genuine = keys(enctype, Role::Acceptor).mic(5, &call.sequence.to_be_bytes());
        let mut encoder = Encoder::new();
        if head {
            Accepted::Success.encode(&mut encoder, 8, &OpaqueAuth::gss(&genuine));
        }
        encoder.raw(&bytes);
        let reply = encoder.into_vec();
        if !reply.is_empty() {
            let result = exchange(&Head::nfs(8, 1, Protection::Gss(call)), move |_| reply);
            prop_assert!(result.is_err() || service == 0);
        }
    }
}
