//! Locations of file systems on this and other servers (RFC 8881 section 11.1.2).

use crate::pseudo_path::normalised;
use std::{
    fmt,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    str::FromStr,
};

/// The port that a location without a port means (RFC 8881 section 11.16).
const NFS_PORT: u16 = 2049;
/// Longest DNS name in bytes (RFC 1035 section 2.3.4).
const HOST_NAME_MAX: usize = 253;
/// Longest label of a DNS name in bytes.
const LABEL_MAX: usize = 63;
/// Bytes of one fs_locations attribute. Linux reads the attribute, with the headers of its reply,
/// into a page of 4 KiB and fails if it is longer.
pub const LOCATIONS_BYTES_MAX: usize = 3072;

/// The reason why a text is not a location or a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocationError {
    /// No path behind the server.
    #[error(
        "{0:?} is not a location; write \"host:/path\", with the path that clients mount (example: \
         \"server.example.org:/data\", \"192.0.2.7:/data\", \"[2001:db8::7]:/data\")"
    )]
    NoPath(String),
    /// The path behind the server cannot be one.
    #[error(
        "location {0:?}: the path must have no name \".\" or \"..\", none above 255 bytes, at most 64 names"
    )]
    Path(String),
    /// Neither a host name nor an address.
    #[error(
        "{0:?} is not a server; write a host name, an IPv4 address or an IPv6 address (example: \
         \"server.example.org\", \"192.0.2.7\", \"[2001:db8::7]\")"
    )]
    Server(String),
    /// A port behind a host name.
    #[error(
        "{0:?}: NFSv4 cannot tell clients a port with a host name (RFC 8881 section 11.16); write an \
         address with the port, or use port 2049"
    )]
    PortOfName(String),
}

/// A server in a location: a host name, or an address that may have a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ServerAddress {
    /// A DNS name, which clients look up. The port is 2049.
    Host(String),
    /// An address and a port.
    Address(SocketAddr),
}

impl ServerAddress {
    /// Returns the server as fs_location4 has it: a host name, or an address as universal address
    /// (RFC 5665 section 5.2.3) whose port is left out if it is 2049.
    pub fn on_the_wire(&self) -> String {
        match self {
            Self::Host(name) => name.clone(),
            Self::Address(address) if address.port() == NFS_PORT => address.ip().to_string(),
            Self::Address(address) => {
                let [high, low] = address.port().to_be_bytes();
                format!("{}.{high}.{low}", address.ip())
            }
        }
    }
}

impl FromStr for ServerAddress {
    type Err = LocationError;

    fn from_str(text: &str) -> Result<Self, LocationError> {
        if let Some(address) = address(text) {
            return Ok(Self::Address(address));
        }
        if is_host_name(text) {
            return Ok(Self::Host(text.to_owned()));
        }
        match text.rsplit_once(':') {
            Some((name, port)) if is_host_name(name) && port.parse::<u16>().is_ok() => {
                Err(LocationError::PortOfName(text.to_owned()))
            }
            _ => Err(LocationError::Server(text.to_owned())),
        }
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(name) => f.write_str(name),
            Self::Address(address) if address.port() != NFS_PORT => address.fmt(f),
            Self::Address(SocketAddr::V6(address)) => write!(f, "[{}]", address.ip()),
            Self::Address(address) => address.ip().fmt(f),
        }
    }
}

/// Parses an address with or without a port. IPv6 addresses may have brackets, and with a port they
/// must.
fn address(text: &str) -> Option<SocketAddr> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return (address.port() != 0).then_some(address);
    }
    let bracketed = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let address = match bracketed {
        Some(inner) => IpAddr::V6(inner.parse::<Ipv6Addr>().ok()?),
        None => text.parse::<IpAddr>().ok()?,
    };
    Some(SocketAddr::new(address, NFS_PORT))
}

/// Returns whether a text is a DNS name. The last label is not a number, so that no name reads as
/// an address (RFC 1123 section 2.1).
fn is_host_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=LABEL_MAX).contains(&label.len())
            && label.bytes().all(good)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let name = text.strip_suffix('.').unwrap_or(text);
    let is_number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
    name.len() <= HOST_NAME_MAX
        && name.split('.').all(is_label)
        && !name.rsplit('.').next().is_some_and(is_number)
}

/// A place where a file system is: a server, and the path in its namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    /// The server that has it.
    pub server: ServerAddress,
    /// The path that clients mount there, normalised: "/" or "/a/b".
    pub path: String,
}

impl FromStr for Location {
    type Err = LocationError;

    fn from_str(text: &str) -> Result<Self, LocationError> {
        // A path may hold ":/", a server cannot.
        let (server, path) = text.split_once(":/").ok_or_else(|| LocationError::NoPath(text.to_owned()))?;
        let path = normalised(&format!("/{path}")).ok_or_else(|| LocationError::Path(text.to_owned()))?;
        Ok(Self { server: server.parse()?, path })
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.server, self.path)
    }
}

/// The servers that have a file system under one path: fs_location4 (RFC 8881 section 11.16).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocationGroup<'l> {
    /// The servers as fs_location4 has them. An empty text means the address of the call.
    pub servers: Vec<String>,
    /// The path in their namespaces.
    pub path: &'l str,
}

/// Returns the names of a path as pathname4 has them; none for "/".
pub fn path_names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|name| !name.is_empty())
}

/// Groups locations for fs_locations, in their order: neighbours with the same path share an
/// fs_location4. A file system at `own_path` of this server comes first, under the server's
/// `addresses`; without addresses, as the address of the call if there are other locations.
pub fn group_locations<'l>(
    own_path: Option<&'l str>,
    addresses: &[ServerAddress],
    others: &'l [Location],
) -> Vec<LocationGroup<'l>> {
    let mut groups: Vec<LocationGroup<'l>> = Vec::new();
    if let Some(path) = own_path {
        let named: Vec<String> = addresses.iter().map(ServerAddress::on_the_wire).collect();
        if !named.is_empty() {
            groups.push(LocationGroup { servers: named, path });
        } else if !others.is_empty() {
            groups.push(LocationGroup { servers: vec![String::new()], path });
        }
    }
    for Location { server, path } in others {
        let server = server.on_the_wire();
        match groups.last_mut() {
            Some(last) if last.path == path => last.servers.push(server),
            _ => groups.push(LocationGroup { servers: vec![server], path }),
        }
    }
    groups
}

/// Returns the bytes of fs_locations4 for a file system at `root`.
pub(crate) fn locations_size(root: &str, groups: &[LocationGroup<'_>]) -> usize {
    let opaque = |bytes: usize| 4 + bytes.next_multiple_of(4);
    let path = |path: &str| 4 + path_names(path).map(|name| opaque(name.len())).sum::<usize>();
    let group = |group: &LocationGroup<'_>| {
        4 + group.servers.iter().map(|server| opaque(server.len())).sum::<usize>() + path(group.path)
    };
    path(root) + 4 + groups.iter().map(group).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(text: &str) -> Location {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn a_location_is_a_server_and_a_path() {
        for (text, wire, path) in [
            ("a.example.org:/x", "a.example.org", "/x"),
            ("a.example.org.:/", "a.example.org.", "/"),
            ("192.0.2.7:/a//b/", "192.0.2.7", "/a/b"),
            ("[2001:db8::7]:/a:/b", "2001:db8::7", "/a:/b"),
            ("2001:db8::7:/x", "2001:db8::7", "/x"),
        ] {
            let location = location(text);
            assert_eq!((location.server.on_the_wire().as_str(), location.path.as_str()), (wire, path));
        }
    }

    #[test]
    fn a_port_is_part_of_a_universal_address() // RFC 5665 section 5.2.3.4, RFC 8881 section 11.16
    {
        for (text, wire) in [
            ("192.0.2.7:2050:/x", "192.0.2.7.8.2"),
            ("192.0.2.7:2049:/x", "192.0.2.7"),
            ("[2001:db8::7]:80:/x", "2001:db8::7.0.80"),
        ] {
            assert_eq!(location(text).server.on_the_wire(), wire);
            assert_eq!(location(&location(text).to_string()), location(text));
        }
        assert!(matches!("a.example.org:2050:/x".parse::<Location>(), Err(LocationError::PortOfName(_))));
    }

    #[test]
    fn a_malformed_location_is_refused_with_the_form() {
        let long = format!("{}.org:/x", "a".repeat(64));
        for text in ["", "/x", "host", "host:x", "10.0.0.1", ":/x", "a b:/x", "-a:/x", "a..b:/x", &long] {
            let error = text.parse::<Location>().expect_err(text);
            assert!(matches!(error, LocationError::NoPath(_) | LocationError::Server(_)), "{error}");
        }
        // Such a name would read as a universal address.
        assert!(matches!("1.2.3.4.8.1:/x".parse::<Location>(), Err(LocationError::Server(_))));
        assert!(matches!("10.0.0.1:0:/x".parse::<Location>(), Err(LocationError::Server(_))));
        assert!(matches!("host:/a/../b".parse::<Location>(), Err(LocationError::Path(_))));
    }

    #[test]
    fn neighbours_with_one_path_share_an_entry_in_their_order() {
        let all = ["a.org:/x", "b.org:/x", "c.org:/y", "d.org:/x"].map(location);
        let groups = group_locations(None, &[], &all);
        let shown: Vec<_> = groups.iter().map(|group| (group.servers.join(" "), group.path)).collect();
        assert_eq!(shown, [("a.org b.org".into(), "/x"), ("c.org".into(), "/y"), ("d.org".into(), "/x")]);
    }

    #[test]
    fn a_present_file_system_is_first_at_its_own_server() // RFC 8881 section 11.16
    {
        let others = [location("b.org:/y")];
        let own = ["10.0.0.1".parse().unwrap(), "10.0.1.1".parse().unwrap()];
        let servers = |groups: Vec<LocationGroup<'_>>| {
            groups.into_iter().map(|group| group.servers).collect::<Vec<_>>()
        };
        assert_eq!(servers(group_locations(Some("/x"), &[], &[])), Vec::<Vec<String>>::new());
        assert_eq!(servers(group_locations(Some("/x"), &own, &[])), [["10.0.0.1", "10.0.1.1"]]);
        assert_eq!(servers(group_locations(Some("/x"), &[], &others)), [[""], ["b.org"]]);
    }
}
