//! Common mistakes of RPCSEC_GSS implementations, each as a test.

use crate::client::{
    CallParts, Client, ENCTYPES, INTEGRITY, NONE, NULL, PRIVACY, SERVICES, accepted, denied, encoded,
    init_call, plain_call,
};
use crate::server::{CONNECTION, Host, SHORTAGE, token};
use krb5::Enctype;
use orthrus_server::dispatch::Action;
use rpc::gss::{GssCredential, InitRes, RpcGssProcT};
use rpc::{Accepted, AuthStat, ConnectionId, Denied, MAXSEQ, OpaqueAuth};
use vfs::SecFlavor;
use xdr::{Decode, Decoder};

const ETYPE: Enctype = Enctype::Aes256CtsHmacSha1_96;

fn auth_error(status: AuthStat) -> Denied {
    Denied::Auth(status)
}

fn alice() -> (Host, Client) {
    let mut host = Host::new();
    let client = Client::establish(&mut host, ETYPE, "alice@TEST");
    (host, client)
}

#[test]
fn calls_of_every_enctype_and_service_are_answered_in_kind() // RFC 2203 section 5.3.3.2
{
    for enctype in ENCTYPES {
        let mut host = Host::new();
        let mut client = Client::establish(&mut host, enctype, "alice@TEST");
        for service in SERVICES {
            for length in [0, 4, 12, 16, 4096, 100_000] {
                client.exchange(&mut host, service, &vec![7; length]);
            }
        }
    }
}

#[test]
fn a_forged_header_does_not_move_the_window() // RFC 2203 section 5.3.3.3
{
    let (mut host, mut client) = alice();
    client.exchange(&mut host, NONE, b"1234");
    let parts = CallParts { sequence: 2_000_000, ..client.parts(NONE, b"evil") };
    let mut forged = client.sign(&parts);
    let mic_end = forged.len() - 4;
    forged[mic_end - 1] ^= 1;
    let reply = host.answer(forged).unwrap();
    assert_eq!(denied(&reply), auth_error(AuthStat::RPCSEC_GSS_CREDPROBLEM));
    assert_eq!(host.count("mic_failures"), 1);
    client.exchange(&mut host, NONE, b"1234");
    assert_eq!(host.seen().len(), 2);
}

#[test]
fn a_replayed_call_is_discarded_in_silence_and_its_connection_closed()
// RFC 2203 section 5.3.3.1, RFC 8881 section 2.9.2
{
    for service in SERVICES {
        let (mut host, mut client) = alice();
        let record = client.call(service, b"once");
        assert!(host.answer(record.clone()).is_some());
        assert!(host.is_closed_by(record));
        assert_eq!(host.count("window_drops"), 1);
        assert_eq!(host.seen().len(), 1);
        client.exchange(&mut host, service, b"next");
    }
}

#[test]
// RFC 2203 section 5.3.3.1
fn a_call_below_the_window_is_discarded_in_silence_and_one_at_its_edge_is_not() {
    let (mut host, mut client) = alice();
    client.sequence = 9_999;
    client.exchange(&mut host, NONE, b"high");
    client.sequence = 10_000 - client.window;
    client.exchange(&mut host, NONE, b"edge");
    client.sequence = 10_000 - client.window - 1;
    let below = client.call(NONE, b"deep");
    assert!(host.is_closed_by(below));
    assert_eq!(host.count("window_drops"), 1);
}

#[test]
fn calls_behind_a_discarded_call_are_left_for_the_resend() {
    let (mut host, mut client) = alice();
    let (first, second, third) =
        (client.call(NONE, b"1..."), client.call(NONE, b"2..."), client.call(NONE, b"3..."));
    assert!(host.answer(first.clone()).is_some());
    host.seen();
    let other = ConnectionId(2);
    let replies = host.tick(vec![(CONNECTION, first), (CONNECTION, second.clone()), (other, third)]);
    assert!(matches!(&replies[..], [(ConnectionId(2), Action::Send(_)), (CONNECTION, Action::Close)]));
    // The ignored one did not use up its number.
    assert!(host.answer(second).is_some());
    assert_eq!(host.seen().len(), 2);
}

#[test]
fn calls_may_overtake_each_other_over_the_whole_window() // RFC 2203 section 5.3.3.1
{
    let (mut host, mut client) = alice();
    assert!(client.window >= 4096);
    let mut records: Vec<_> = (0..client.window).map(|_| client.call(NONE, b"any.")).collect();
    records.reverse();
    let count = records.len();
    let requests = records.into_iter().zip((0..8).cycle()).map(|(record, id)| (ConnectionId(id), record));
    let replies = host.tick(requests.collect());
    assert_eq!(replies.len(), count);
    assert!(replies.iter().all(|(_, action)| matches!(action, Action::Send(_))));
    assert_eq!(host.count("window_drops"), 0);
}

#[test]
fn a_new_context_takes_the_first_numbers_in_any_order() // RFC 2203 section 5.3.3.1
{
    for start in [0, 1, MAXSEQ - 10] {
        let (mut host, mut client) = alice();
        for offset in [5u32, 3, 4, 0, 2, 1] {
            client.sequence = (start + offset).wrapping_sub(1);
            let parts = client.parts_at(start + offset, NONE);
            let reply = host.answer(client.sign(&parts)).expect("an answer");
            client.open(&reply, start + offset, NONE);
        }
    }
}

#[test]
fn the_number_in_a_protected_body_must_be_the_headers() // RFC 2203 sections 5.3.3.4.2 and 5.3.3.4.3
{
    for service in [INTEGRITY, PRIVACY] {
        let (mut host, mut client) = alice();
        let honest = client.parts(service, b"body");
        let parts = CallParts { body_sequence: honest.sequence + 1, ..honest };
        let reply = host.answer(client.sign(&parts)).unwrap();
        let (verifier, status, results) = accepted(&reply);
        assert_eq!((status, results.len()), (Accepted::GarbageArgs, 0));
        client.check_verifier(&verifier, parts.sequence);
        assert!(host.seen().is_empty());
    }
}

#[test]
fn a_number_above_maxseq_is_a_problem_of_the_context() // RFC 2203 section 5.3.3.3
{
    let (mut host, mut client) = alice();
    client.sequence = MAXSEQ - 1;
    client.exchange(&mut host, PRIVACY, b"last");
    for sequence in [MAXSEQ + 1, u32::MAX] {
        let parts = client.parts_at(sequence, PRIVACY);
        let reply = host.answer(client.sign(&parts)).unwrap();
        assert_eq!(denied(&reply), auth_error(AuthStat::RPCSEC_GSS_CTXPROBLEM));
    }
}

#[test]
fn the_service_belongs_to_the_call() // RFC 2203 section 5.3.1
{
    let (mut host, mut client) = alice();
    for service in [PRIVACY, NONE, INTEGRITY, NONE, PRIVACY] {
        client.exchange(&mut host, service, b"data");
    }
    let flavors: Vec<_> = host.seen().into_iter().map(|seen| seen.flavor).collect();
    use SecFlavor::{Krb5, Krb5i, Krb5p};
    assert_eq!(flavors, [Krb5p, Krb5, Krb5i, Krb5, Krb5p]);
}

#[test]
fn a_body_with_integrity_does_not_pass_for_privacy() // RFC 2203 section 5.3.3.4.3
{
    let (mut host, mut client) = alice();
    let parts = client.parts(PRIVACY, b"open");
    // The body of an integrity call under a header for privacy.
    let body = client.sign(&CallParts { service: INTEGRITY, ..parts.clone() });
    let head = client.sign(&parts);
    let at = 4 * 6 + 8 + 36 + 8 + client.keys.mic_len();
    let reply = host.answer([&head[..at], &body[at..]].concat()).unwrap();
    assert_eq!(accepted(&reply).1, Accepted::GarbageArgs);
    assert!(host.seen().is_empty());
}

#[test]
fn replies_are_verified_by_their_calls_number_even_in_one_batch() // RFC 2203 section 5.3.3.2
{
    let (mut host, mut alice) = alice();
    let mut bob = Client::establish(&mut host, ENCTYPES[3], "bob@TEST");
    let mut requests = Vec::new();
    let mut sent = Vec::new();
    for index in 0..48u32 {
        let service = SERVICES[index as usize % 3];
        let arguments = vec![index as u8; 4 * index as usize];
        let client = if index % 2 == 0 { &mut alice } else { &mut bob };
        requests.push((CONNECTION, client.call(service, &arguments)));
        sent.push((index % 2 == 0, client.sequence, service, arguments));
    }
    let replies = host.tick(requests);
    assert_eq!(replies.len(), sent.len());
    for ((_, action), (is_alice, sequence, service, arguments)) in replies.into_iter().zip(sent) {
        let Action::Send(reply) = action else { panic!("closed") };
        let client = if is_alice { &alice } else { &bob };
        assert_eq!(client.open(&reply[4..], sequence, service), arguments);
    }
}

#[test]
fn a_new_context_serves_any_connection_at_once() // RFC 2203 section 5.2.3.1
{
    let mut host = Host::new();
    let reply = host.answer(init_call(&token(ETYPE, "alice@TEST"))).unwrap();
    // This includes the client's check of the verifier over the window (RFC 2203 section 5.2.3.1).
    let mut client = Client::from_reply(&reply, ETYPE);
    let record = client.call(PRIVACY, b"data");
    let replies = host.tick(vec![(ConnectionId(99), record)]);
    assert!(matches!(&replies[..], [(ConnectionId(99), Action::Send(_))]));
}

#[test]
fn threads_and_connections_share_a_context_without_losing_calls() // RFC 2203 section 5.3.3.1
{
    const THREADS: usize = 4;
    let (host, mut client) = alice();
    let records: Vec<_> =
        (0..2000u32).map(|index| client.call(SERVICES[index as usize % 3], b"data")).collect();
    let server = &host.server;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let share: Vec<_> = records.iter().skip(thread).step_by(THREADS).cloned().collect();
            scope.spawn(move || {
                let mut scratch = orthrus_server::dispatch::Scratch::new();
                for batch in share.chunks(7) {
                    let connection = ConnectionId(thread as u64);
                    let peer = ([127, 0, 0, 1], 1000).into();
                    let requests = batch.iter().map(|record| (connection, peer, record.clone()));
                    let mut answered = 0;
                    server.tick(&mut scratch, requests, &mut |_: ConnectionId, action: Action| {
                        assert!(matches!(action, Action::Send(_)));
                        answered += 1;
                    });
                    assert_eq!(answered, batch.len());
                }
            });
        }
    });
    assert_eq!((host.seen().len(), host.count("window_drops")), (2000, 0));
}

#[test]
fn other_versions_are_rejected_credentials() // RFC 2203 section 5.3.3.3, erratum 4067
{
    let (mut host, mut client) = alice();
    for version in [0, 2, 3, 4, u32::MAX] {
        for procedure in [RpcGssProcT::RPCSEC_GSS_DATA, RpcGssProcT::RPCSEC_GSS_INIT] {
            let parts = CallParts { version, procedure, ..client.parts(NONE, b"data") };
            let reply = host.answer(client.sign(&parts)).unwrap();
            assert_eq!(denied(&reply), auth_error(AuthStat::AUTH_REJECTEDCRED));
        }
    }
}

#[test]
fn handles_are_random() // RFC 2203 section 5.2.3.1
{
    let mut host = Host::new();
    let handles: Vec<_> = (0..64).map(|_| Client::establish(&mut host, ETYPE, "alice@TEST").handle).collect();
    for (index, handle) in handles.iter().enumerate() {
        assert_eq!(handle.len(), 16);
        assert!(handles[..index].iter().all(|other| other[..8] != handle[..8] && other[8..] != handle[8..]));
    }
}

#[test]
fn a_token_of_128_kib_is_accepted_and_a_longer_one_is_not() // RFC 2203 section 5.2.2
{
    let mut host = Host::new();
    let mut long = token(ETYPE, "alice@TEST");
    long.resize(128 * 1024, 0);
    let reply = host.answer(init_call(&long)).unwrap();
    Client::from_reply(&reply, ETYPE).exchange(&mut host, INTEGRITY, b"data");
    long.push(0);
    let reply = host.answer(init_call(&long)).unwrap();
    assert_eq!(accepted(&reply).1, Accepted::GarbageArgs);
}

#[test]
fn a_credential_above_400_bytes_is_a_bad_credential() // RFC 5531 section 8.2
{
    let mut host = Host::new();
    let record = plain_call(1, NULL, &OpaqueAuth::gss(&[0; 404]), &OpaqueAuth::NONE, &[]);
    assert_eq!(denied(&host.answer(record).unwrap()), auth_error(AuthStat::AUTH_BADCRED));
}

#[test]
fn only_a_signed_destroy_destroys() // RFC 2203 section 5.4
{
    let (mut host, mut client) = alice();
    let mut unsigned = client.sign(&client.clone_destroy());
    let last = unsigned.len() - 1;
    unsigned[last] ^= 0x80;
    let reply = host.answer(unsigned).unwrap();
    assert_eq!(denied(&reply), auth_error(AuthStat::RPCSEC_GSS_CREDPROBLEM));
    client.exchange(&mut host, NONE, b"here");

    let bob = Client::establish(&mut host, ETYPE, "bob@TEST");
    let theirs = CallParts { handle: client.handle.clone(), ..client.destroy() };
    let reply = host.answer(Client { keys: other_keys(), ..bob }.sign(&theirs)).unwrap();
    assert_eq!(denied(&reply), auth_error(AuthStat::RPCSEC_GSS_CREDPROBLEM));

    let destroy = client.destroy();
    let reply = host.answer(client.sign(&destroy)).unwrap();
    assert!(client.open(&reply, destroy.sequence, NONE).is_empty());
    let late = client.call(NONE, b"late");
    assert_eq!(denied(&host.answer(late).unwrap()), auth_error(AuthStat::RPCSEC_GSS_CREDPROBLEM));
    assert_eq!(host.count("contexts_destroyed"), 1);
}

#[test]
fn a_replayed_destroy_is_no_destroy_and_its_procedure_must_be_null() // RFC 2203 section 5.4
{
    let (mut host, mut client) = alice();
    let parts = CallParts { target: crate::client::COMPOUND, ..client.destroy() };
    let reply = host.answer(client.sign(&parts)).unwrap();
    assert_eq!(denied(&reply), auth_error(AuthStat::AUTH_BADCRED));
    client.exchange(&mut host, NONE, b"here");
    let used = CallParts { sequence: client.sequence, ..client.destroy() };
    assert!(host.is_closed_by(client.sign(&used)));
    client.exchange(&mut host, NONE, b"here");
}

#[test]
fn a_context_is_never_half_open() // RFC 2203 section 5.2.2
{
    let (mut host, mut client) = alice();
    let parts = CallParts {
        target: NULL,
        procedure: RpcGssProcT::RPCSEC_GSS_CONTINUE_INIT,
        ..client.parts(NONE, &[])
    };
    let reply = host.answer(client.sign(&parts)).unwrap();
    assert_eq!(denied(&reply), auth_error(AuthStat::RPCSEC_GSS_CREDPROBLEM));
}

#[test]
fn a_refused_token_is_answered_with_a_status_and_leaves_nothing() // RFC 2203 section 5.2.3.1
{
    let mut host = Host::new();
    for (bad, minor) in [(&b"\x17rc4"[..], 42), (b"", 42), (b"\x12\xff\xfe", 42), (b"\x12eve@TEST", 0)] {
        let reply = host.answer(init_call(bad)).unwrap();
        let (verifier, status, results) = accepted(&reply);
        assert_eq!((verifier, status), (OpaqueAuth::NONE, Accepted::Success));
        let result = InitRes::decode(&mut Decoder::new(results)).unwrap();
        assert_ne!(result.gss_major, 0);
        assert_eq!((result.gss_minor, result.handle.len()), (minor, 0));
    }
    assert_eq!((host.count("contexts_refused"), host.count("contexts_created")), (4, 0));
    assert!(host.server.rpcsec().unwrap().contexts().is_empty());
}

#[test]
fn a_shortage_of_the_acceptor_does_not_blame_the_token() // RFC 5531 section 9
{
    let mut host = Host::new();
    let reply = host.answer(init_call(SHORTAGE.as_bytes())).unwrap();
    assert_eq!(accepted(&reply).1, Accepted::SystemErr);
    assert_eq!((host.count("contexts_delayed"), host.count("contexts_refused")), (1, 0));
}

#[test]
fn an_init_names_no_context_and_calls_nothing() // RFC 2203 section 5.2.2
{
    let (mut host, client) = alice();
    let credential = |handle| GssCredential {
        procedure: RpcGssProcT::RPCSEC_GSS_INIT,
        sequence: 0,
        service: NONE,
        handle,
    };
    let (named, unnamed) = (encoded(&credential(&client.handle)), encoded(&credential(&[])));
    for (body, target) in [(&named, NULL), (&unnamed, crate::client::COMPOUND)] {
        let record = plain_call(1, target, &OpaqueAuth::gss(body), &OpaqueAuth::NONE, &[0; 4]);
        assert_eq!(denied(&host.answer(record).unwrap()), auth_error(AuthStat::AUTH_BADCRED));
    }
}

#[test]
fn a_verifier_of_another_flavor_is_a_bad_verifier() // RFC 2203 section 5.3.1
{
    let (mut host, mut client) = alice();
    let parts = client.parts(NONE, b"data");
    let credential = GssCredential {
        procedure: parts.procedure,
        sequence: parts.sequence,
        service: NONE,
        handle: &parts.handle,
    };
    let record = plain_call(1, parts.target, &OpaqueAuth::gss(&encoded(&credential)), &OpaqueAuth::NONE, &[]);
    assert_eq!(denied(&host.answer(record).unwrap()), auth_error(AuthStat::AUTH_BADVERF));
}

fn other_keys() -> krb5::ContextKeys {
    krb5::ContextKeys::new(ETYPE, krb5::ProtocolKey::AcceptorSubkey(&[9; 32]), krb5::Role::Initiator).unwrap()
}

impl Client {
    fn parts_at(&mut self, sequence: u32, service: rpc::gss::RpcGssServiceT) -> CallParts {
        let before = std::mem::replace(&mut self.sequence, 0);
        let parts = self.parts(service, b"data");
        self.sequence = before;
        CallParts { sequence, body_sequence: sequence, ..parts }
    }

    fn clone_destroy(&self) -> CallParts {
        let mut copy = Client {
            keys: other_keys(),
            handle: self.handle.clone(),
            window: self.window,
            sequence: self.sequence,
        };
        copy.destroy()
    }
}
