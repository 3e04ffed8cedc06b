//! The life of contexts: expiry, eviction, renewal.

use crate::client::{Client, NONE, PRIVACY, denied};
use crate::server::{CONNECTION, Host, LIFETIME};
use krb5::Enctype;
use orthrus_server::dispatch::{Action, ReplySink};
use orthrus_server::rpcsec::RpcsecLimits;
use orthrus_server::tenants::{LimitRule, LimitRules, LimitSubjects, LimitedTenants, TenantLimits};
use rpc::{AuthStat, ConnectionId, Denied};
use std::convert::Infallible;
use std::sync::Arc;
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
fn contexts_in_use_that_expire_soon_are_counted() {
    let mut host = Host::new();
    let mut alice = Client::establish(&mut host, ETYPE, "alice@TEST");
    alice.exchange(&mut host, NONE, b"used");
    host.advance(LIFETIME / 2);
    Client::establish(&mut host, ETYPE, "bob@TEST");
    let expiring =
        |host: &Host, within| host.server.rpcsec().unwrap().contexts().expiring(host.server.now(), within);
    assert_eq!(expiring(&host, LIFETIME), 1, "alice may have logged out");
    alice.exchange(&mut host, NONE, b"again");
    let second = Duration::from_secs(1);
    assert_eq!(
        [LIFETIME / 2 - second, LIFETIME / 2, LIFETIME - second, LIFETIME].map(|time| expiring(&host, time)),
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

/// A server where bob has 3 contexts, 10 operations in a second, or both.
fn with_limits_for_bob(contexts: Option<usize>, operations: Option<u64>) -> Host {
    let limits =
        TenantLimits { contexts_max: contexts, operations_max: operations, ..TenantLimits::default() };
    let subjects = LimitSubjects::Principals(vec!["bob@*".into()]);
    let tenants = Arc::<LimitedTenants>::default();
    tenants.apply(LimitRules { rules: vec![LimitRule { subjects, limits }], ..LimitRules::default() });
    Host::with_tenants(RpcsecLimits { window_size: 4096, ..RpcsecLimits::default() }, tenants)
}

#[test]
fn a_principal_with_more_contexts_than_it_may_have_loses_the_least_used() {
    let mut host = with_limits_for_bob(Some(3), None);
    let mut alice: Vec<_> = (0..5).map(|_| Client::establish(&mut host, ETYPE, "alice@TEST")).collect();
    let mut used = Client::establish(&mut host, ETYPE, "bob@TEST");
    used.exchange(&mut host, NONE, b"used");
    let mut bobs: Vec<_> = (0..9).map(|_| Client::establish(&mut host, ETYPE, "bob@TEST")).collect();
    assert_eq!(host.server.rpcsec().unwrap().contexts().len(), 5 + 3);
    assert_eq!(host.count("contexts_evicted"), 7);
    assert!(!is_gone(&mut host, &mut used) && !is_gone(&mut host, &mut bobs[8]));
    assert!(alice.iter_mut().all(|client| !is_gone(&mut host, client)));
}

/// Records for how long connections are paused.
#[derive(Default)]
struct Pauses(Vec<Duration>);

impl ReplySink<Infallible> for Pauses {
    fn reply(&mut self, _: ConnectionId, _: Action) {}

    fn throttle(&mut self, connection: ConnectionId, time: Duration) {
        assert_eq!(connection, CONNECTION);
        self.0.push(time);
    }
}

#[test]
fn a_principal_over_its_rate_is_paused_and_others_are_not() {
    let mut host = with_limits_for_bob(None, Some(10));
    for (principal, pauses) in [("alice@TEST", 0), ("bob@TEST", 10)] {
        let mut client = Client::establish(&mut host, ETYPE, principal);
        let mut sink = Pauses::default();
        // A burst of one second is free.
        for _ in 0..20 {
            let record = client.call(NONE, b"read");
            host.tick_into(vec![(CONNECTION, record)], &mut sink);
        }
        assert_eq!(sink.0.len(), pauses, "{principal}");
        assert!(sink.0.is_sorted() && sink.0.iter().all(|time| *time <= Duration::from_secs(1)));
    }
    let throttled: Duration = host.server.tenants().throttled().map(|(_, _, time)| time).sum();
    assert_eq!(throttled, Duration::from_secs(1), "the waits of calls in flight overlap");
    host.advance(Duration::from_secs(10));
    let mut sink = Pauses::default();
    let mut client = Client::establish(&mut host, ETYPE, "bob@TEST");
    let record = client.call(NONE, b"read");
    host.tick_into(vec![(CONNECTION, record)], &mut sink);
    assert!(sink.0.is_empty(), "a pause is over");
}

#[test]
fn contexts_in_use_outlive_a_flood_of_unused_contexts() {
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
fn contexts_that_never_carried_a_call_go_in_a_minute() {
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
    // A user who has logged out leaves a program behind, and no ticket for a new context.
    host.advance(Duration::from_secs(1800));
    sweep(&host);
    used.exchange(&mut host, PRIVACY, b"half an hour later");
}

#[test]
fn idle_contexts_go_once_a_quarter_of_the_table_is_taken() {
    let mut host = small();
    let mut clients: Vec<_> =
        (0..2).map(|n| Client::establish(&mut host, ETYPE, &format!("user{n}@TEST"))).collect();
    let [idle, active] = &mut clients[..] else { panic!("two of eight") };
    for client in [&mut *idle, &mut *active] {
        client.exchange(&mut host, NONE, b"used");
    }
    for _ in 0..2 {
        host.advance(Duration::from_secs(299));
        active.exchange(&mut host, PRIVACY, b"now and then");
    }
    sweep(&host);
    assert!(is_gone(&mut host, idle));
    active.exchange(&mut host, PRIVACY, b"it stays");
    Client::establish(&mut host, ETYPE, "user0@TEST").exchange(&mut host, PRIVACY, b"anew");
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
