//! Hostile records, which no correct client sends.

use crate::client::{Client, SERVICES, init_call, plain_call};
use crate::server::{CONNECTION, Host, token};
use krb5::Enctype;
use orthrus_server::dispatch::Action;
use proptest::prelude::*;
use rpc::{OpaqueAuth, ReplyHeader};

const ETYPE: Enctype = Enctype::Aes256CtsHmacSha384_192;

/// Sends one record. It must cause at most one reply, well-formed and no longer than the call
/// allows, or a closed connection.
fn survives(host: &mut Host, record: Vec<u8>) -> Result<(), TestCaseError> {
    let bound = record.len() + 512;
    let replies = host.tick(vec![(CONNECTION, record)]);
    prop_assert!(replies.len() <= 1);
    for (_, action) in replies {
        if let Action::Send(reply) = action {
            prop_assert!(reply.len() <= bound);
            prop_assert!(ReplyHeader::parse(&reply[4..]).is_ok());
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn random_bytes_are_survived(record in prop::collection::vec(any::<u8>(), 0..500)) {
        survives(&mut Host::new(), record)?;
    }

    #[test]
    fn random_credentials_verifiers_and_arguments_are_survived(
        flavor in prop_oneof![0u32..8, any::<u32>()],
        version in 0u8..3,
        credential in prop::collection::vec(prop_oneof![Just(0u8), Just(1), any::<u8>()], 0..60),
        verifier in prop::collection::vec(any::<u8>(), 0..60),
        arguments in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..200),
        target in (prop_oneof![Just(100_003u32), any::<u32>()], 3u32..6, 0u32..3),
    ) {
        let credential = [&[0, 0, 0, version], &credential[..]].concat();
        let credential = OpaqueAuth { flavor, body: &credential };
        let record = plain_call(5, target, &credential, &OpaqueAuth::gss(&verifier), &arguments);
        survives(&mut Host::new(), record)?;
    }

    #[test]
    fn a_call_with_any_byte_changed_is_never_run_with_changed_arguments(
        service in prop::sample::select(&SERVICES[1..]),
        place in any::<prop::sample::Index>(),
        change in 1u8..,
    ) {
        let mut host = Host::new();
        let mut client = Client::establish(&mut host, ETYPE, "alice@TEST");
        let mut record = client.call(service, b"the arguments...");
        let at = place.index(record.len());
        record[at] ^= change;
        survives(&mut host, record)?;
        // A change of the padding or of a filler without protection may pass; changed arguments may
        // not.
        prop_assert!(host.seen().iter().all(|seen| seen.args == b"the arguments..."));
        client.exchange(&mut host, service, b"next");
    }

    #[test]
    fn a_truncated_call_is_never_run(
        service in prop::sample::select(&SERVICES[1..]),
        place in any::<prop::sample::Index>(),
    ) {
        let mut host = Host::new();
        let mut client = Client::establish(&mut host, ETYPE, "alice@TEST");
        let mut record = client.call(service, b"the arguments...");
        record.truncate(place.index(record.len()));
        survives(&mut host, record)?;
        prop_assert!(host.seen().is_empty());
    }

    #[test]
    fn a_mutated_init_is_survived(place in any::<prop::sample::Index>(), to in any::<u8>(), cut in any::<prop::sample::Index>()) {
        let mut host = Host::new();
        let mut record = init_call(&token(ETYPE, "alice@TEST"));
        let at = place.index(record.len());
        record[at] = to;
        record.truncate(cut.index(record.len() + 1).max(1));
        survives(&mut host, record)?;
        prop_assert!(host.server.rpcsec().unwrap().contexts().len() <= 1);
    }

    #[test]
    fn a_body_of_one_call_is_of_no_use_in_another(service in prop::sample::select(&SERVICES[1..])) {
        let mut host = Host::new();
        let mut client = Client::establish(&mut host, ETYPE, "alice@TEST");
        let (first, second) = (client.call(service, b"1111"), client.call(service, b"2222"));
        let body_at = 4 * 6 + 8 + 36 + 8 + client.keys.mic_len();
        let moved = [&second[..body_at], &first[body_at..]].concat();
        survives(&mut host, moved)?;
        prop_assert!(host.seen().is_empty());
    }
}
