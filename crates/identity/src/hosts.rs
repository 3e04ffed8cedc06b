//! Hosts and netgroups of the system's name service.

use crate::SourceError;
use crate::client_name::is_host_name;
use crate::netgroups;
use dns_lookup::{AddrInfoHints, LookupError, LookupErrorKind};
use std::net::{IpAddr, SocketAddr};

/// A directory of hosts. Lookups may block.
pub trait HostSource: Send + Sync {
    /// Returns the name that the directory has for an address, `None` if there is none. The owner
    /// of the address chooses it, so it proves nothing alone.
    fn name(&self, address: IpAddr) -> Result<Option<String>, SourceError>;
    /// Returns the addresses of a host; none if it does not exist.
    fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, SourceError>;
    /// Returns whether a netgroup has a host or an address.
    fn in_netgroup(&self, netgroup: &str, host: &str) -> Result<bool, SourceError>;
}

/// Looks up hosts with getnameinfo and getaddrinfo, and netgroups with innetgr.
#[derive(Clone, Copy, Debug, Default)]
pub struct NssHosts;

impl HostSource for NssHosts {
    fn name(&self, address: IpAddr) -> Result<Option<String>, SourceError> {
        let address = SocketAddr::new(address.to_canonical(), 0);
        match dns_lookup::getnameinfo(&address, nix::libc::NI_NAMEREQD) {
            Ok((name, _)) => {
                Ok(Some(name.trim_end_matches('.').to_owned()).filter(|name| is_host_name(name)))
            }
            Err(error) => absent_or_failed(&address.ip().to_string(), error).map(|()| None),
        }
    }

    fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, SourceError> {
        // One kind of socket, so that each address comes once.
        let hints = AddrInfoHints { socktype: nix::libc::SOCK_STREAM, ..AddrInfoHints::default() };
        match dns_lookup::getaddrinfo(Some(host), None, Some(hints)) {
            Ok(found) => Ok(found.flatten().map(|found| found.sockaddr.ip().to_canonical()).collect()),
            Err(error) => absent_or_failed(host, error).map(|()| Vec::new()),
        }
    }

    fn in_netgroup(&self, netgroup: &str, host: &str) -> Result<bool, SourceError> {
        netgroups::has_host(netgroup, host).ok_or_else(|| SourceError {
            what: format!("netgroup {netgroup}"),
            why: "it does not exist, or its directory does not answer".to_owned(),
        })
    }
}

/// Tells the absence of a name or address from a failure.
fn absent_or_failed(what: &str, error: LookupError) -> Result<(), SourceError> {
    match error.kind() {
        LookupErrorKind::NoName | LookupErrorKind::NoData => Ok(()),
        _ => Err(SourceError { what: what.to_owned(), why: std::io::Error::from(error).to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn localhost_is_known_both_ways_and_a_made_up_name_is_not() {
        let loopback: IpAddr = [127, 0, 0, 1].into();
        assert!(NssHosts.addresses("localhost").unwrap().contains(&loopback));
        assert_eq!(NssHosts.name(loopback).unwrap().as_deref(), Some("localhost"));
    }

    #[test]
    fn an_unknown_netgroup_is_a_failure_and_not_an_answer() {
        let error = NssHosts.in_netgroup("no-such-netgroup-here", "localhost").unwrap_err();
        assert!(error.to_string().contains("no-such-netgroup-here"), "{error}");
    }
}
