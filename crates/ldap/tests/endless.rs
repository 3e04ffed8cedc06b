//! A directory that does not end a search.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use identity::IdentitySource as _;
use orthrus_ldap::{Bind, LdapSettings, LdapSource, Schema};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::Duration;

/// Starts a server that answers a search with entries until the client hangs up, with a pause
/// before each. Returns the failure of a lookup.
fn failure(pause: Duration, timeout: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("ldap://{}", listener.local_addr().unwrap());
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 1024];
        assert!(stream.read(&mut request).unwrap() > 5);
        // A SearchResultEntry without attributes (RFC 4511 section 4.5.2), with the number of the
        // request in a message of less than 128 bytes.
        assert_eq!(request[2..4], [2, 1]);
        let entry = [0x30, 12, 2, 1, request[4], 0x64, 7, 4, 3, b'c', b'n', b'=', 0x30, 0];
        let entries = if pause.is_zero() { entry.repeat(100) } else { entry.to_vec() };
        while stream.write_all(&entries).is_ok() {
            std::thread::sleep(pause);
        }
    });
    let source = LdapSource::open(LdapSettings {
        servers: vec![server],
        starttls: false,
        insecure: true,
        ca: None,
        certificate: None,
        key: None,
        bind: Bind::Anonymous,
        user_base: "dc=t".into(),
        group_base: "dc=t".into(),
        schema: Schema::rfc2307(),
        timeout,
    });
    let failure = source.unwrap().uid("u").unwrap_err().to_string();
    answering.join().unwrap();
    failure
}

#[test]
fn a_search_with_too_many_entries_is_no_answer() {
    let failure = failure(Duration::ZERO, Duration::from_secs(60));
    assert!(failure.contains("more than 65536 entries"), "{failure}");
}

#[test]
fn a_search_that_goes_on_slowly_is_no_answer() {
    let failure = failure(Duration::from_millis(5), Duration::from_millis(100));
    assert!(failure.contains("longer than 1s") || failure.contains("timeout"), "{failure}");
}
