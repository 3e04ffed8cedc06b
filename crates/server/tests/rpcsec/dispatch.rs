//! Programs, versions, procedures, and callers without Kerberos.

use crate::client::{
    COMPOUND, Client, INTEGRITY, NONE, NULL, PRIVACY, SERVICES, accepted, denied, encoded, init_call,
    plain_call,
};
use crate::server::{CONNECTION, Host, token};
use krb5::Enctype;
use orthrus_server::dispatch::{Action, ReplySink};
use rpc::{Accepted, AuthStat, AuthSys, ConnectionId, Denied, OpaqueAuth};
use std::time::Duration;
use vfs::SecFlavor;
use xdr::{Decode, Decoder};

const ETYPE: Enctype = Enctype::Aes128CtsHmacSha1_96;

fn sys_call(target: (u32, u32, u32), arguments: &[u8]) -> Vec<u8> {
    let body = encoded(&AuthSys::new(77, b"host", 1000, 100, &[4, 5]));
    plain_call(1, target, &OpaqueAuth::sys(&body), &OpaqueAuth::NONE, arguments)
}

#[test]
fn null_is_answered_whoever_asks() // RFC 8881 section 16.1
{
    let mut host = Host::new();
    for record in [sys_call(NULL, &[]), plain_call(1, NULL, &OpaqueAuth::NONE, &OpaqueAuth::NONE, &[])] {
        let reply = host.answer(record).unwrap();
        assert_eq!(accepted(&reply), (OpaqueAuth::NONE, Accepted::Success, &[][..]));
    }
    let mut client = Client::establish(&mut host, ETYPE, "alice@TEST");
    for service in SERVICES {
        let parts = crate::client::CallParts { target: NULL, ..client.parts(service, &[]) };
        let reply = host.answer(client.sign(&parts)).unwrap();
        assert!(client.open(&reply, parts.sequence, service).is_empty());
    }
}

#[test]
fn an_auth_sys_call_acts_as_its_credential_says() // RFC 5531 appendix A
{
    let mut host = Host::new();
    for _ in 0..2 {
        let reply = host.answer(sys_call(COMPOUND, b"args")).unwrap();
        assert_eq!(accepted(&reply), (OpaqueAuth::NONE, Accepted::Success, &b"args"[..]));
        let [seen] = &host.seen()[..] else { panic!("one call") };
        assert_eq!((seen.flavor, seen.uid, &seen.gids[..]), (SecFlavor::Sys, Some(1000), &[4, 5][..]));
        assert_eq!((&seen.principal, seen.request_size), (&None, sys_call(COMPOUND, b"args").len()));
    }
}

#[test]
fn an_unauthenticated_compound_is_too_weak() // RFC 8881 section 2.2.1
{
    let mut host = Host::new();
    let record = plain_call(1, COMPOUND, &OpaqueAuth::NONE, &OpaqueAuth::NONE, b"args");
    assert_eq!(denied(&host.answer(record).unwrap()), Denied::Auth(AuthStat::AUTH_TOOWEAK));
    assert!(host.seen().is_empty());
}

#[test]
fn other_programs_versions_and_procedures_are_unavailable() // RFC 5531 section 9
{
    let mut host = Host::new();
    let mut client = Client::establish(&mut host, ETYPE, "alice@TEST");
    for (target, expected) in [
        ((100_005, 3, 0), Accepted::ProgUnavail),
        ((100_003, 3, 0), Accepted::ProgMismatch { low: 4, high: 4 }),
        ((100_003, 5, 1), Accepted::ProgMismatch { low: 4, high: 4 }),
        ((100_003, 4, 2), Accepted::ProcUnavail),
    ] {
        assert_eq!(accepted(&host.answer(sys_call(target, &[])).unwrap()).1, expected);
        let parts = crate::client::CallParts { target, ..client.parts(PRIVACY, b"args") };
        let reply = host.answer(client.sign(&parts)).unwrap();
        let (verifier, status, _) = accepted(&reply);
        assert_eq!(status, expected);
        client.check_verifier(&verifier, parts.sequence);
    }
    let mut init = init_call(&token(ETYPE, "alice@TEST"));
    init[15] ^= 1;
    assert_eq!(accepted(&host.answer(init).unwrap()).1, Accepted::ProgUnavail);
    assert_eq!(host.count("contexts_created"), 1);
}

#[test]
fn another_rpc_version_is_denied() // RFC 5531 section 9
{
    let mut host = Host::new();
    let mut record = sys_call(NULL, &[]);
    record[11] = 3;
    assert_eq!(denied(&host.answer(record).unwrap()), Denied::RpcMismatch { low: 2, high: 2 });
}

#[test]
fn unknown_flavors_and_broken_credentials_are_bad_credentials() // RFC 5531 section 8.2
{
    let mut host = Host::new();
    for credential in [
        OpaqueAuth { flavor: 2, body: &[] },
        OpaqueAuth { flavor: 7, body: &[] },
        OpaqueAuth { flavor: 390_003, body: &[] },
        OpaqueAuth::sys(&[]),
        OpaqueAuth::sys(&[0; 8]),
        OpaqueAuth::sys(&[0; 24]),
        OpaqueAuth::gss(&[0, 0, 0, 1]),
    ] {
        let record = plain_call(1, COMPOUND, &credential, &OpaqueAuth::NONE, b"args");
        let reply = denied(&host.answer(record).unwrap());
        assert_eq!(reply, Denied::Auth(AuthStat::AUTH_BADCRED), "{credential:?}");
    }
    assert_eq!(host.count("auth_errors"), 7);
}

#[test]
fn a_server_without_a_keytab_rejects_kerberos() {
    let mut host = Host::without_kerberos();
    let reply = host.answer(init_call(&token(ETYPE, "alice@TEST"))).unwrap();
    assert_eq!(denied(&reply), Denied::Auth(AuthStat::AUTH_REJECTEDCRED));
    assert!(host.answer(sys_call(COMPOUND, b"args")).is_some());
}

#[test]
fn a_malformed_message_closes_the_connection_and_a_reply_is_dropped() // RFC 5531 section 9
{
    let mut host = Host::new();
    assert!(host.is_closed_by(vec![1, 2, 3]));
    assert!(host.is_closed_by(vec![0, 0, 0, 1, 0, 0, 0, 2]));
    assert!(host.is_closed_by(sys_call(NULL, &[])[..20].to_vec()));
    assert_eq!(host.count("malformed_records"), 3);
    assert_eq!(host.tick(vec![(CONNECTION, vec![0, 0, 0, 1, 0, 0, 0, 1])]), []);
    assert_eq!(host.count("unexpected_replies"), 1);
}

#[test]
fn principals_are_resolved_once_and_machines_are_recognised() {
    let mut host = Host::new();
    for (principal, uid, machine) in
        [("alice@TEST", Some(1000), false), ("host/client@TEST", None, true), ("carol@TEST", None, false)]
    {
        let mut client = Client::establish(&mut host, ETYPE, principal);
        client.exchange(&mut host, INTEGRITY, b"args");
        let [seen] = &host.seen()[..] else { panic!("one call") };
        assert_eq!((seen.uid, seen.machine), (uid, machine));
        assert_eq!(seen.principal.as_deref(), Some(principal));
    }
}

#[test]
fn the_announced_overhead_is_what_a_reply_takes_besides_its_results()
// RFC 8881 section 18.36.3, ca_maxresponsesize
{
    for enctype in crate::client::ENCTYPES {
        let mut host = Host::new();
        let mut client = Client::establish(&mut host, enctype, "alice@TEST");
        for service in SERVICES {
            for length in [0, 4, 8, 12, 1000] {
                let record = client.call(service, &vec![1; length]);
                let reply = host.answer(record).unwrap();
                assert_eq!(host.seen()[0].reply_overhead + length, reply.len(), "{enctype:?} {service}");
            }
        }
    }
    let mut host = Host::new();
    let reply = host.answer(sys_call(COMPOUND, b"args")).unwrap();
    assert_eq!(host.seen()[0].reply_overhead + 4, reply.len());
}

#[test]
fn replies_keep_the_order_of_their_calls() {
    let mut host = Host::new();
    let requests = (0..100u32).map(|index| {
        let mut record = sys_call(COMPOUND, &index.to_be_bytes());
        record[..4].copy_from_slice(&index.to_be_bytes());
        (CONNECTION, record)
    });
    let replies = host.tick(requests.collect());
    for (index, (_, action)) in replies.into_iter().enumerate() {
        let Action::Send(reply) = action else { panic!("closed") };
        assert_eq!(&reply[..4], &[0; 4], "room for the mark");
        assert_eq!(u32::decode(&mut Decoder::new(&reply[4..])), Ok(index as u32));
    }
    let mut client = Client::establish(&mut host, ETYPE, "alice@TEST");
    client.exchange(&mut host, NONE, b"args");
}

/// Counts replies and pauses.
#[derive(Default)]
struct Turns {
    replies: usize,
    pauses: usize,
}

impl<S> ReplySink<S> for Turns {
    fn reply(&mut self, _: ConnectionId, _: Action) {
        self.replies += 1;
    }

    fn pause(&mut self) -> Duration {
        self.pauses += 1;
        Duration::ZERO
    }
}

#[test]
fn others_have_their_turn_within_a_large_batch_and_a_small_one_is_not_held_up() {
    const LENGTH: usize = 64 << 10;
    let mut host = Host::new();
    let mut client = Client::establish(&mut host, ETYPE, "alice@TEST");
    for service in [NONE, INTEGRITY, PRIVACY] {
        let requests = (0..16).map(|_| (CONNECTION, client.call(service, &[1; LENGTH])));
        let mut turns = Turns::default();
        host.tick_into(requests.collect(), &mut turns);
        assert_eq!(turns.replies, 16);
        assert!(turns.pauses >= 4, "{service:?}: {} pauses in 2 MiB", turns.pauses);
        let mut turns = Turns::default();
        host.tick_into(vec![(CONNECTION, client.call(service, b"args"))], &mut turns);
        assert_eq!((turns.replies, turns.pauses), (1, 0));
    }
}
