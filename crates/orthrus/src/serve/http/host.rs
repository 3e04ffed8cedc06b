//! Defence against DNS rebinding. A page of another site can have its own name resolved to an
//! address of this machine, but its browser still sends that name.

use crate::serve::kerberos::Keys;
use crate::serve::web::TlsFiles;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{HOST, HeaderMap};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::IpAddr;
use std::sync::Arc;
use vfs::ServerAddress;

/// The names of this machine: its host name, those that clients use by the configuration, and those
/// of its keys, which no stranger's site has. Kerberos uses names with their domain, and the host
/// name often has none. An endpoint with TLS has the names of its certificate, too.
#[derive(Clone)]
pub(crate) struct OwnNames {
    names: Arc<[String]>,
    certificate: Option<Arc<TlsFiles>>,
}

impl OwnNames {
    /// Takes the names from the key `addresses` and the keytab.
    pub(crate) fn new(addresses: &[ServerAddress], keys: Option<&Keys>) -> Self {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let of_clients = addresses.iter().filter_map(|address| match address {
            ServerAddress::Host(name) => Some(name.clone()),
            ServerAddress::Address(_) => None,
        });
        let of_keys = keys.map(Keys::hosts).unwrap_or_default();
        let names = [host.trim().to_owned()].into_iter().chain(of_clients).chain(of_keys);
        Self { names: names.filter(|name| !name.is_empty()).collect(), certificate: None }
    }

    /// Adds the names of a certificate.
    pub(crate) fn with_certificate(self, certificate: Arc<TlsFiles>) -> Self {
        Self { certificate: Some(certificate), ..self }
    }

    /// Returns the host name, with its domain if one of the names has it.
    pub(crate) fn longest_of_host(&self) -> &str {
        let Some((host, others)) = self.names.split_first() else { return "localhost" };
        let has_domain =
            |name: &&String| name.split_once('.').is_some_and(|(first, _)| first.eq_ignore_ascii_case(host));
        others.iter().find(has_domain).unwrap_or(host)
    }

    /// Returns whether the Host header names this machine, or is missing, which browsers never
    /// leave out. A second one must not hide the first.
    fn have_header(&self, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(HOST).iter();
        match (hosts.next(), hosts.next()) {
            (None, _) => true,
            (Some(host), None) => host.to_str().is_ok_and(|host| self.have(host)),
            (Some(_), Some(_)) => false,
        }
    }

    fn have(&self, host: &str) -> bool {
        let host = without_port(host.trim());
        let host = host.strip_suffix('.').unwrap_or(host);
        let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        literal.parse::<IpAddr>().is_ok()
            || host.eq_ignore_ascii_case("localhost")
            || self.names.iter().any(|own| own.eq_ignore_ascii_case(host))
            || self.certificate.as_ref().is_some_and(|certificate| certificate.is_for(host))
    }
}

/// Answers requests that were meant for this machine, by an IP address, `localhost` or one of its
/// names; others get status 421.
pub(crate) async fn only_this_machine(
    State(names): State<OwnNames>,
    request: Request,
    next: Next,
) -> Response {
    let target = request.uri().authority().map(|authority| authority.as_str());
    let meant = target.is_none_or(|target| names.have(target)) && names.have_header(request.headers());
    match meant {
        true => next.run(request).await,
        false => {
            let said = "ask by an IP address, localhost, this machine's host name, a name among \
                        `addresses`, or one of a key in its keytab or of its certificate\n";
            (StatusCode::MISDIRECTED_REQUEST, said).into_response()
        }
    }
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
        let addresses = ["nfs1.example.org", "10.0.0.1"].map(|text| text.parse().unwrap());
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(HOST, HeaderValue::from_bytes(host.as_bytes()).unwrap());
        }
        OwnNames::new(&addresses, None).have_header(&headers)
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
            "NFS1.example.org:9049",
            &format!("{}:9049", own.to_uppercase()),
        ] {
            assert!(named(&[good]), "{good}");
        }
        for bad in [
            "attacker.example",
            "attacker.example:9049",
            "127.0.0.1.attacker.example",
            "localhost.attacker.example",
            "nfs1",
            "nfs1.attacker.example",
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

    #[test]
    fn links_have_the_host_name_with_its_domain_where_it_is_known() {
        let longest = |names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            OwnNames { names, certificate: None }.longest_of_host().to_owned()
        };
        assert_eq!(longest(&["nfs1"]), "nfs1");
        assert_eq!(longest(&["nfs1", "files.example.org", "NFS1.example.org"]), "NFS1.example.org");
        assert_eq!(longest(&["nfs1.example.org", "other"]), "nfs1.example.org");
    }
}
