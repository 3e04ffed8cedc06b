//! Reads the names and times of tickets in a credential cache file (MIT's format 4). Keys are not
//! kept.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::der;

/// The largest cache that is read, in bytes.
const CACHE_BYTES_MAX: u64 = 4 << 20;

/// A ticket in a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TicketTimes {
    /// The service, such as `krbtgt/EXAMPLE.ORG@EXAMPLE.ORG`.
    pub server: String,
    /// The encryption type of the session key.
    pub etype: u16,
    /// The encryption type of the service's key, or 0.
    pub ticket_etype: u32,
    /// The version of the service's key, or 0.
    pub kvno: u32,
    /// The start of its validity, in seconds since 1970.
    pub starts: i64,
    /// The end of its validity, in seconds since 1970.
    pub ends: i64,
}

/// A cache and its tickets, without the library's own notes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CacheContent {
    /// The client, such as `alice@EXAMPLE.ORG`.
    pub principal: String,
    /// The tickets in the order of the file.
    pub tickets: Vec<TicketTimes>,
}

impl CacheContent {
    /// Reads a file.
    ///
    /// # Errors
    /// Errors of reading the file; `InvalidData` if it is not a cache of format 4.
    pub(crate) fn read(path: &Path) -> std::io::Result<Self> {
        let mut bytes = Vec::new();
        std::fs::File::open(path)?.take(CACHE_BYTES_MAX).read_to_end(&mut bytes)?;
        parse(&bytes)
            .ok_or_else(|| std::io::Error::new(std::io::ErrorKind::InvalidData, "not a cache of format 4"))
    }

    /// Returns the client's realm.
    pub(crate) fn realm(&self) -> &str {
        self.principal.rsplit_once('@').map_or("", |(_, realm)| realm)
    }

    /// Returns the ticket-granting ticket of the client's realm.
    pub(crate) fn granting(&self) -> Option<&TicketTimes> {
        let name = format!("krbtgt/{0}@{0}", self.realm());
        self.tickets.iter().rfind(|ticket| ticket.server == name)
    }
}

/// Returns the path of a cache's file: `FILE:PATH` or a path; `None` for other kinds.
pub(crate) fn file_of(name: &str) -> Option<PathBuf> {
    match name.split_once(':') {
        Some(("FILE" | "WRFILE", path)) => Some(path.into()),
        Some(_) if !name.starts_with('/') => None,
        _ => Some(name.into()),
    }
}

struct CacheReader<'a>(&'a [u8]);

impl<'a> CacheReader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    fn number<const N: usize>(&mut self) -> Option<u32> {
        Some(self.take(N)?.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
    }

    fn data(&mut self) -> Option<&'a [u8]> {
        let length = self.number::<4>()?;
        self.take(length as usize)
    }

    fn principal(&mut self) -> Option<String> {
        self.number::<4>()?;
        let count = self.number::<4>()?;
        let realm = String::from_utf8_lossy(self.data()?).into_owned();
        let mut parts = Vec::new();
        for _ in 0..count {
            parts.push(String::from_utf8_lossy(self.data()?).into_owned());
        }
        Some(format!("{}@{realm}", parts.join("/")))
    }

    fn ticket(&mut self) -> Option<TicketTimes> {
        self.principal()?;
        let server = self.principal()?;
        let etype = self.number::<2>()?;
        self.data()?;
        let (_, starts, ends, _) =
            (self.number::<4>()?, self.number::<4>()?, self.number::<4>()?, self.number::<4>()?);
        self.take(5)?;
        for _ in 0..2 {
            for _ in 0..self.number::<4>()? {
                self.number::<2>()?;
                self.data()?;
            }
        }
        let (ticket_etype, kvno) = sealed_with(self.data()?).unwrap_or_default();
        self.data()?;
        let etype = u16::try_from(etype).unwrap_or(0);
        Some(TicketTimes { server, etype, ticket_etype, kvno, starts: starts.into(), ends: ends.into() })
    }
}

/// Returns the encryption type and the key version of a ticket (RFC 4120 section 5.3).
fn sealed_with(ticket: &[u8]) -> Option<(u32, u32)> {
    let (0x61, content, _) = der::read(ticket)? else { return None };
    let (0x30, fields, _) = der::read(content)? else { return None };
    let sealed = der::field(fields, 3)?;
    let number = |bytes: &[u8]| bytes.iter().fold(0u32, |sum, byte| sum << 8 | u32::from(*byte));
    Some((number(der::field(sealed, 0)?), der::field(sealed, 1).map_or(0, number)))
}

fn parse(bytes: &[u8]) -> Option<CacheContent> {
    let mut reader = CacheReader(bytes.strip_prefix(&[5, 4])?);
    let header = reader.number::<2>()?;
    reader.take(header as usize)?;
    let principal = reader.principal()?;
    let mut tickets = Vec::new();
    while !reader.0.is_empty() {
        let ticket = reader.ticket()?;
        if !ticket.server.ends_with("@X-CACHECONF:") {
            tickets.push(ticket);
        }
    }
    Some(CacheContent { principal, tickets })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_caches_are_errors() {
        let huge = b"\x05\x04\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff";
        for bytes in [&b""[..], b"\x05\x03", b"\x05\x04\0\0", huge] {
            assert_eq!(parse(bytes), None);
        }
    }

    #[test]
    fn names_of_caches_are_paths_or_not() {
        assert_eq!(file_of("FILE:/tmp/a"), Some("/tmp/a".into()));
        assert_eq!(file_of("/tmp/a:b"), Some("/tmp/a:b".into()));
        assert_eq!(file_of("KEYRING:persistent:0"), None);
    }
}
