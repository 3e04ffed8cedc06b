//! Defence against DNS rebinding. A page of another site can have its own name resolved to an
//! address of this machine, but its browser still sends that name.

use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::{HOST, HeaderMap};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::IpAddr;

/// Answers requests that were meant for this machine, by an IP address, `localhost` or its host
/// name; others get status 421.
pub(crate) async fn only_this_machine(request: Request, next: Next) -> Response {
    let target = request.uri().authority().map(|authority| authority.as_str());
    let meant = target.is_none_or(names_this_machine) && header_names_this_machine(request.headers());
    match meant {
        true => next.run(request).await,
        false => {
            let said = "ask by an IP address, localhost or this machine's host name\n";
            (StatusCode::MISDIRECTED_REQUEST, said).into_response()
        }
    }
}

/// Returns whether the Host header names this machine, or is missing, which browsers never leave
/// out. A second one must not hide the first.
fn header_names_this_machine(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) => true,
        (Some(host), None) => host.to_str().is_ok_and(names_this_machine),
        (Some(_), Some(_)) => false,
    }
}

fn names_this_machine(host: &str) -> bool {
    let host = without_port(host.trim());
    let host = host.strip_suffix('.').unwrap_or(host);
    let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let own = || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    literal.parse::<IpAddr>().is_ok()
        || host.eq_ignore_ascii_case("localhost")
        || !host.is_empty() && host.eq_ignore_ascii_case(own().trim())
}

/// Removes the port. The colons of an IPv6 address stand in brackets.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !port.contains(']') => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn named(hosts: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(HOST, HeaderValue::from_bytes(host.as_bytes()).unwrap());
        }
        header_names_this_machine(&headers)
    }

    #[test]
    fn a_page_of_another_site_is_told_by_the_name_that_its_browser_sends() {
        let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let own = own.trim();
        for good in [
            "127.0.0.1",
            "127.0.0.1:9049",
            "[::1]:9049",
            "[::1]",
            "192.0.2.7:80",
            "localhost",
            "LocalHost:9049",
            "localhost.",
            " localhost ",
            &format!("{}:9049", own.to_uppercase()),
        ] {
            assert!(named(&[good]), "{good}");
        }
        for bad in [
            "attacker.example",
            "attacker.example:9049",
            "127.0.0.1.attacker.example",
            "localhost.attacker.example",
            &format!("{own}.attacker.example"),
            "",
            ":9049",
            "127.0.0.1:x",
            "[::1]x:1",
            "\u{e9}",
        ] {
            assert!(!named(&[bad]), "{bad}");
        }
        assert!(named(&[]));
        assert!(!named(&["localhost", "attacker.example"]) && !named(&["localhost", "localhost"]));
    }
}
