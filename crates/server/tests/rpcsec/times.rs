//! The time of calls. The clock of these tests moves by a microsecond with each reading, so the
//! elapsed time is the number of readings, and each stage that is timed alone takes one.

use crate::client::{COMPOUND, Client, INTEGRITY, NONE, PRIVACY, SERVICES, encoded, plain_call};
use crate::server::{CONNECTION, Host};
use crate::waiting::{Elsewhere, execute_and_sync, host};
use krb5::Enctype;
use orthrus_server::dispatch::Engine;
use orthrus_server::metrics::{Kind, Stage};
use rpc::{AuthSys, OpaqueAuth};
use std::time::Duration;

const ETYPE: Enctype = Enctype::Aes256CtsHmacSha384_192;
const LOOK: Duration = Duration::from_micros(1);
const NOTHING: Duration = Duration::ZERO;

/// The kinds of [`SERVICES`].
const KINDS: [Kind; 3] = [Kind::Krb5, Kind::Krb5i, Kind::Krb5p];

fn sys() -> Vec<u8> {
    let body = encoded(&AuthSys::new(77, b"host", 1000, 100, &[4, 5]));
    plain_call(1, COMPOUND, &OpaqueAuth::sys(&body), &OpaqueAuth::NONE, b"args")
}

fn new_host() -> (Host, Client) {
    let mut host = Host::new();
    let client = Client::establish(&mut host, ETYPE, "alice@TEST");
    host.move_by_looks(1000);
    (host, client)
}

/// Returns the time of queue, unwrap, execute and wrap.
fn stages<E: Engine>(host: &Host<E>, kind: Kind) -> [Duration; 4] {
    Stage::ALL.map(|stage| host.server.metrics().times.spent(kind, stage))
}

fn calls<E: Engine>(host: &Host<E>) -> [u64; 5] {
    Kind::ALL.map(|kind| host.server.metrics().times.calls(kind))
}

#[test]
fn a_tick_of_sys_is_timed_by_one_look_and_has_nothing_to_unwrap_or_wrap() {
    let (mut host, _) = new_host();
    let begun = calls(&host);
    assert_eq!(host.tick(vec![(CONNECTION, sys()), (CONNECTION, sys())]).len(), 2);
    assert_eq!(stages(&host, Kind::Sys), [NOTHING, NOTHING, LOOK, NOTHING]);
    assert_eq!(calls(&host), [2, 0, 0, 0, begun[4]]);
}

#[test]
fn each_service_has_its_header_or_body_checked_and_its_reply_protected() // RFC 2203 section 5.3.2
{
    for (service, kind) in SERVICES.into_iter().zip(KINDS) {
        let (mut host, mut client) = new_host();
        let requests = (0..3).map(|_| (CONNECTION, client.call(service, b"args"))).collect();
        assert_eq!(host.tick(requests).len(), 3);
        // Reading headers, and running: two readings.
        assert_eq!(stages(&host, kind), [NOTHING, LOOK, 2 * LOOK, LOOK], "{kind:?}");
        assert_eq!(host.server.metrics().times.calls(kind), 3);
        assert_eq!(stages(&host, Kind::Sys), [NOTHING; 4]);
    }
}

#[test]
fn in_a_mixed_tick_each_kind_has_its_part_and_all_parts_are_the_whole() {
    let (mut host, mut client) = new_host();
    let mut requests = vec![(CONNECTION, sys())];
    for service in [NONE, INTEGRITY, PRIVACY] {
        requests.extend([(CONNECTION, client.call(service, &[7; 4096])), (CONNECTION, sys())]);
    }
    let (before, others) = (host.now(), stages(&host, Kind::Other));
    assert_eq!(host.tick(requests).len(), 7);
    // The first reading begins the tick.
    let passed = host.now() - before - LOOK;
    assert_eq!(stages(&host, Kind::Other), others);
    let all = [Kind::Sys, Kind::Krb5, Kind::Krb5i, Kind::Krb5p].map(|kind| stages(&host, kind));
    let sum: Duration = all.iter().flatten().sum();
    // Shared time is rounded down to nanoseconds.
    assert!(sum <= passed && passed - sum < Duration::from_nanos(50), "{sum:?} of {passed:?}: {all:?}");
    let [sys, krb5, krb5i, krb5p] = all;
    assert_eq!([sys[1], sys[3]], [NOTHING; 2]);
    for kind in [krb5, krb5i, krb5p] {
        assert!(kind[1..].iter().all(|time| *time > NOTHING), "{kind:?}");
    }
    // A third of checking headers, and only their own bodies.
    assert!(krb5[1] < LOOK && krb5i[1] > LOOK && krb5p[1] > LOOK, "{all:?}");
    // Signing a body is more work than signing a verifier.
    assert!(krb5[3] * 10 < krb5i[3] && krb5p[3] > LOOK, "{all:?}");
}

#[test]
fn calls_wait_from_their_arrival_on() {
    let (mut host, mut client) = new_host();
    host.arrived(host.now() - Duration::from_millis(3));
    let requests =
        vec![(CONNECTION, sys()), (CONNECTION, sys()), (CONNECTION, client.call(PRIVACY, b"args"))];
    host.tick(requests);
    assert_eq!(stages(&host, Kind::Sys)[0], Duration::from_millis(6));
    assert_eq!(stages(&host, Kind::Krb5p)[0], Duration::from_millis(3));
}

#[test]
fn a_call_that_was_away_has_waited_for_its_thread_and_its_shard_and_run_on_the_thread() {
    let (mut host, mut client) = host();
    let mut elsewhere = Elsewhere::with_room(1);
    host.tick_into(vec![(CONNECTION, client.call(PRIVACY, b"slow"))], &mut elsewhere);
    assert_eq!(stages(&host, Kind::Krb5p), [NOTHING; 4]);
    host.advance(Duration::from_secs(2));
    host.move_by_looks(1_000_000);
    let completed = execute_and_sync(&host.server, elsewhere.deferred.remove(0));
    host.move_by_looks(0);
    host.advance(Duration::from_secs(5));
    host.take_completed(completed);
    host.tick_into(Vec::new(), &mut elsewhere);
    let [queue, unwrap, execute, wrap] = stages(&host, Kind::Krb5p);
    assert_eq!((unwrap, wrap), (NOTHING, NOTHING));
    assert_eq!(execute, Duration::from_millis(1));
    // The second reading by the thread moved the clock as well.
    assert_eq!(queue, Duration::from_secs(7) + Duration::from_millis(1));
    assert_eq!(host.server.metrics().times.calls(Kind::Krb5p), 1);
}
