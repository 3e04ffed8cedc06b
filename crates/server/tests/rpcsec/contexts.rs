//! The life of contexts: expiry, eviction, renewal.

use crate::client::{Client, NONE, PRIVACY, denied};
use crate::server::{Host, LIFETIME};
use krb5::Enctype;
use orthrus_server::rpcsec::RpcsecLimits;
use rpc::{AuthStat, Denied};
use std::time::Duration;

const ETYPE: Enctype = Enctype::Aes128CtsHmacSha256_128;

const GONE: Denied = Denied::Auth(AuthStat::RPCSEC_GSS_CREDPROBLEM);

fn small() -> Host {
    Host::with_limits(RpcsecLimits { contexts_max: 8, window_size: 64, ..RpcsecLimits::default() })
}

fn is_gone(host: &mut Host, client: &mut Client) -> bool {
    let record = client.call(NONE, b"data");
    let reply = host.answer(record).unwrap();
    match rpc::ReplyHeader::parse(&reply) {
        Ok(rpc::ReplyHeader::Denied { .. }) => denied(&reply) == GONE,
        _ => false,
    }
}

#[test]
fn a_context_ends_with_its_ticket_and_the_client_renews_it() // RFC 2203 section 5.3.3.3
{
    let mut host = Host::new();
    let mut client = Client::establish(&mut host, ETYPE, "alice@TEST");
    host.advance(LIFETIME - Duration::from_secs(1));
    client.exchange(&mut host, PRIVACY, b"last");
    host.advance(Duration::from_secs(1));
    assert!(is_gone(&mut host, &mut client));
    assert_eq!(host.count("contexts_expired"), 1);
    Client::establish(&mut host, ETYPE, "alice@TEST").exchange(&mut host, PRIVACY, b"anew");
}

#[test]
fn expired_contexts_go_without_being_asked_for() {
    let mut host = Host::new();
    for _ in 0..100 {
        Client::establish(&mut host, ETYPE, "alice@TEST");
    }
    host.advance(LIFETIME);
    Client::establish(&mut host, ETYPE, "bob@TEST");
    for _ in 0..16 {
        host.server.housekeeping();
    }
    assert_eq!(host.server.rpcsec().unwrap().contexts().len(), 1);
    assert_eq!(host.count("contexts_expired"), 100);
}

#[test]
fn contexts_that_expire_soon_are_counted() {
    let mut host = Host::new();
    Client::establish(&mut host, ETYPE, "alice@TEST");
    host.advance(LIFETIME / 2);
    Client::establish(&mut host, ETYPE, "bob@TEST");
    let now = host.server.now();
    let expiring = |after| host.server.rpcsec().unwrap().contexts().expiring(now + after);
    let second = Duration::from_secs(1);
    assert_eq!(
        [LIFETIME / 2 - second, LIFETIME / 2, LIFETIME - second, LIFETIME].map(expiring),
        [0, 1, 1, 2]
    );
}

#[test]
fn there_are_never_more_contexts_than_the_limit() {
    let mut host = small();
    for _ in 0..100 {
        Client::establish(&mut host, ETYPE, "alice@TEST");
        assert!(host.server.rpcsec().unwrap().contexts().len() <= 8);
    }
    assert_eq!(host.count("contexts_evicted"), 92);
}

#[test]
fn contexts_in_use_outlive_a_flood_of_contexts_that_nobody_uses() {
    let mut host = small();
    let mut client = Client::establish(&mut host, ETYPE, "alice@TEST");
    client.exchange(&mut host, NONE, b"used");
    for _ in 0..50 {
        host.advance(Duration::from_secs(1));
        Client::establish(&mut host, ETYPE, "bob@TEST");
    }
    client.exchange(&mut host, NONE, b"used");
}

#[test]
fn the_context_used_longest_ago_makes_room_first() {
    let mut host = small();
    let mut clients: Vec<_> = (0..8).map(|_| Client::establish(&mut host, ETYPE, "alice@TEST")).collect();
    for client in clients.iter_mut().rev() {
        host.advance(Duration::from_secs(1));
        client.exchange(&mut host, NONE, b"used");
    }
    Client::establish(&mut host, ETYPE, "bob@TEST");
    assert!(is_gone(&mut host, &mut clients[7]));
    assert!(clients[..7].iter_mut().all(|client| !is_gone(&mut host, client)));
}

#[test]
fn a_flood_of_used_contexts_by_one_principal_takes_no_context_of_others() {
    let mut host = small();
    let mut quiet = Client::establish(&mut host, ETYPE, "alice@TEST");
    quiet.exchange(&mut host, NONE, b"used");
    let mut unused = Client::establish(&mut host, ETYPE, "carol@TEST");
    for _ in 0..50 {
        host.advance(Duration::from_secs(1));
        Client::establish(&mut host, ETYPE, "bob@TEST").exchange(&mut host, NONE, b"used");
    }
    quiet.exchange(&mut host, NONE, b"used");
    assert!(!is_gone(&mut host, &mut unused));
}

#[test]
fn principals_with_as_many_contexts_lose_those_used_longest_ago() {
    let mut host = small();
    let names = ["alice@TEST", "bob@TEST"];
    let mut clients: Vec<_> = (0..8).map(|n| Client::establish(&mut host, ETYPE, names[n % 2])).collect();
    for client in &mut clients {
        host.advance(Duration::from_secs(1));
        client.exchange(&mut host, NONE, b"used");
    }
    Client::establish(&mut host, ETYPE, "carol@TEST");
    assert!(is_gone(&mut host, &mut clients[0]));
    assert!(clients[1..].iter_mut().all(|client| !is_gone(&mut host, client)));
}

fn sweep(host: &Host) {
    (0..16).for_each(|_| host.server.housekeeping());
}

#[test]
fn contexts_that_are_not_used_go_in_minutes() {
    let mut host = Host::new();
    for _ in 0..100 {
        Client::establish(&mut host, ETYPE, "alice@TEST");
    }
    let mut used = Client::establish(&mut host, ETYPE, "alice@TEST");
    used.exchange(&mut host, NONE, b"used");
    let len = |host: &Host| host.server.rpcsec().unwrap().contexts().len();
    host.advance(Duration::from_secs(59));
    sweep(&host);
    assert_eq!(len(&host), 101);
    host.advance(Duration::from_secs(1));
    sweep(&host);
    assert_eq!(len(&host), 1, "the one that has carried a call");
    for _ in 0..10 {
        host.advance(Duration::from_secs(230));
        sweep(&host);
        used.exchange(&mut host, PRIVACY, b"now and then");
    }
    host.advance(Duration::from_secs(301));
    sweep(&host);
    assert_eq!(len(&host), 0);
    assert!(is_gone(&mut host, &mut used));
    Client::establish(&mut host, ETYPE, "alice@TEST").exchange(&mut host, PRIVACY, b"anew");
}

#[test]
fn a_handle_that_was_never_given_names_nothing() // RFC 2203 section 5.3.3.3
{
    let mut host = Host::new();
    let mut client = Client::establish(&mut host, ETYPE, "alice@TEST");
    for handle in [vec![0; 16], vec![], vec![1; 15], vec![1; 17], vec![2; 380]] {
        let honest = std::mem::replace(&mut client.handle, handle);
        assert!(is_gone(&mut host, &mut client));
        client.handle = honest;
    }
    assert_eq!(host.count("unknown_handles"), 5);
}
