//! Ticket caches in MIT's file format, version 4.
//!
//! rpc.gssd looks for a cache with a valid ticket-granting ticket of the realm before it uses one.
//! A node has none, so [`TicketCache::encode`] adds an entry of that name without a usable key or
//! ticket. An entry of the kind "configuration" marks the file as the agent's.

/// Largest ticket cache, in bytes.
pub const TICKET_CACHE_MAX: usize = 1 << 20;

/// The realm of configuration entries.
const CONFIGURATION: &str = "X-CACHECONF:";
/// The configuration key of caches that an agent writes.
const MARK: &str = "orthrus-grants";
/// The encryption type of the entry without a key: 18.
const NO_KEY_ENCTYPE: u16 = 18;

/// One ticket with its session key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedTicket {
    /// The components of the service's principal.
    pub server: Vec<String>,
    /// The end of the ticket, in seconds since 1970.
    pub ends: u64,
    /// The start of the ticket, in seconds since 1970.
    pub starts: u64,
    /// The time until which it can be renewed, in seconds since 1970; 0 if it cannot.
    pub renewable: u64,
    bytes: Vec<u8>,
}

/// The tickets of one principal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TicketCache {
    /// The components of the client's principal.
    pub client: Vec<String>,
    /// The realm of the client's principal.
    pub realm: String,
    /// The tickets without configuration entries.
    pub tickets: Vec<CachedTicket>,
    /// Whether an agent wrote the file.
    pub marked: bool,
}

impl TicketCache {
    /// Parses a file; `None` if it is damaged or of another version.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes.strip_prefix(&[5, 4])?;
        let header = usize::from(u16_of(&mut rest)?);
        take(&mut rest, header)?;
        let (realm, client) = principal(&mut rest)?;
        let mut cache = Self { client, realm, tickets: Vec::new(), marked: false };
        while !rest.is_empty() {
            let start = rest;
            principal(&mut rest)?;
            let (realm, server) = principal(&mut rest)?;
            u16_of(&mut rest)?;
            data(&mut rest)?;
            // Authentication, start, end and limit of renewal.
            let times: Vec<u32> = (0..4).map(|_| u32_of(&mut rest)).collect::<Option<_>>()?;
            // Whether the session key is of a second ticket, and the flags.
            take(&mut rest, 5)?;
            for _ in 0..2 {
                // Addresses, then authorization data.
                for _ in 0..u32_of(&mut rest)? {
                    u16_of(&mut rest)?;
                    data(&mut rest)?;
                }
            }
            data(&mut rest)?;
            data(&mut rest)?;
            let bytes = start.get(..start.len() - rest.len())?.to_vec();
            let [_, starts, ends, renewable] = *times.first_chunk::<4>()?;
            let (starts, ends, renewable) = (starts.into(), ends.into(), renewable.into());
            if realm == CONFIGURATION {
                cache.marked |= server.get(1).is_some_and(|key| key == MARK);
            } else {
                cache.tickets.push(CachedTicket { server, ends, starts, renewable, bytes });
            }
        }
        Some(cache)
    }

    /// Returns the earliest end of a ticket, in seconds since 1970; 0 without tickets.
    pub fn ends(&self) -> u64 {
        self.tickets.iter().map(|ticket| ticket.ends).min().unwrap_or(0)
    }

    /// Returns the ticket-granting ticket of the client's realm.
    pub fn granting(&self) -> Option<&CachedTicket> {
        self.tickets.iter().find(|ticket| ticket.server == ["krbtgt", self.realm.as_str()])
    }

    /// Returns the client's principal with its realm.
    pub fn principal(&self) -> String {
        format!("{}@{}", self.client.join("/"), self.realm)
    }

    /// Adds the tickets of another cache of the same principal. Of two tickets for one service the
    /// later one stays.
    pub fn merge(&mut self, other: &Self) {
        for ticket in &other.tickets {
            match self.tickets.iter_mut().find(|own| own.server == ticket.server) {
                Some(own) if own.ends >= ticket.ends => {}
                Some(own) => *own = ticket.clone(),
                None => self.tickets.push(ticket.clone()),
            }
        }
    }

    /// Returns a marked file with the tickets, for rpc.gssd and programs of the user.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![5, 4, 0, 0];
        let client: Vec<&str> = self.client.iter().map(String::as_str).collect();
        put_principal(&mut bytes, &self.realm, &client);
        let entry = |bytes: &mut Vec<u8>, realm: &str, server: [&str; 2], times: [u32; 4], ticket: &[u8]| {
            put_principal(bytes, &self.realm, &client);
            put_principal(bytes, realm, &server);
            bytes.extend_from_slice(&NO_KEY_ENCTYPE.to_be_bytes());
            put_data(bytes, &[0; 32]);
            times.iter().for_each(|time| bytes.extend_from_slice(&time.to_be_bytes()));
            bytes.extend_from_slice(&[0; 5 + 4 + 4]);
            put_data(bytes, ticket);
            put_data(bytes, b"");
        };
        entry(&mut bytes, CONFIGURATION, ["krb5_ccache_conf_data", MARK], [0; 4], b"1");
        let ends = self.tickets.iter().map(|ticket| ticket.ends).max().unwrap_or(0);
        let ends = u32::try_from(ends).unwrap_or(u32::MAX);
        if !self.tickets.iter().any(|ticket| ticket.server.first().is_some_and(|name| name == "krbtgt")) {
            entry(&mut bytes, &self.realm, ["krbtgt", &self.realm], [0, 0, ends, 0], b"none");
        }
        self.tickets.iter().for_each(|ticket| bytes.extend_from_slice(&ticket.bytes));
        bytes
    }
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}

fn u16_of(rest: &mut &[u8]) -> Option<u16> {
    Some(u16::from_be_bytes(*take(rest, 2)?.first_chunk()?))
}

fn u32_of(rest: &mut &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(*take(rest, 4)?.first_chunk()?))
}

fn data<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u32_of(rest)? as usize;
    take(rest, length)
}

fn principal(rest: &mut &[u8]) -> Option<(String, Vec<String>)> {
    let _name_type = u32_of(rest)?;
    let count = u32_of(rest)?;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
    let realm = text(data(rest)?)?;
    let parts = (0..count).map(|_| text(data(rest)?)).collect::<Option<Vec<_>>>()?;
    Some((realm, parts))
}

fn put_data(bytes: &mut Vec<u8>, data: &[u8]) {
    bytes.extend_from_slice(&u32::try_from(data.len()).unwrap_or(0).to_be_bytes());
    bytes.extend_from_slice(data);
}

/// The name type of principals: KRB_NT_PRINCIPAL (RFC 4120 section 6.2).
const NAME_TYPE: u32 = 1;

fn put_principal(bytes: &mut Vec<u8>, realm: &str, parts: &[&str]) {
    bytes.extend_from_slice(&NAME_TYPE.to_be_bytes());
    bytes.extend_from_slice(&u32::try_from(parts.len()).unwrap_or(0).to_be_bytes());
    put_data(bytes, realm.as_bytes());
    parts.iter().for_each(|part| put_data(bytes, part.as_bytes()));
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn cache() -> TicketCache {
        cache_of("alice", 500)
    }

    /// Returns a ticket of a user of the realm R.
    pub(crate) fn cache_of(user: &str, ends: u32) -> TicketCache {
        let mut bytes = Vec::new();
        put_principal(&mut bytes, "R", &[user]);
        put_principal(&mut bytes, "R", &["nfs", "s"]);
        bytes.extend_from_slice(&18_u16.to_be_bytes());
        put_data(&mut bytes, b"key");
        [1_u32, 2, ends, 4].iter().for_each(|time| bytes.extend_from_slice(&time.to_be_bytes()));
        bytes.extend_from_slice(&[0; 13]);
        put_data(&mut bytes, b"ticket");
        put_data(&mut bytes, b"");
        let server = vec!["nfs".to_owned(), "s".to_owned()];
        let tickets = vec![CachedTicket { server, ends: ends.into(), starts: 2, renewable: 4, bytes }];
        TicketCache { client: vec![user.to_owned()], realm: "R".into(), tickets, marked: false }
    }

    #[test]
    fn an_encoded_cache_is_marked_and_has_an_entry_that_gssd_looks_for() {
        let read = TicketCache::parse(&cache().encode()).unwrap();
        assert!(read.marked);
        assert_eq!((read.client, read.realm.as_str()), (vec!["alice".to_owned()], "R"));
        let names: Vec<_> = read.tickets.iter().map(|ticket| ticket.server.join("/")).collect();
        assert_eq!(names, ["krbtgt/R", "nfs/s"]);
        assert!(read.tickets.iter().all(|ticket| ticket.ends == 500));
        assert_eq!(read.tickets.get(1), cache().tickets.first(), "the ticket itself is unchanged");
    }

    #[test]
    fn no_prefix_and_no_changed_byte_is_misread_with_a_panic() {
        let whole = cache().encode();
        for length in 0..whole.len() {
            let parsed = TicketCache::parse(&whole[..length]);
            // A file may end after any entry.
            assert!(parsed.is_none_or(|cache| cache.tickets.len() < 2), "{length}");
        }
        for at in 0..whole.len() {
            for value in [0, 0x7f, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = value;
                let _ = TicketCache::parse(&bytes);
            }
        }
    }

    #[test]
    fn the_later_of_two_tickets_for_a_service_stays() {
        let (mut both, mut later) = (cache(), cache());
        later.tickets[0].ends = 600;
        both.merge(&later);
        assert_eq!((both.tickets.len(), both.ends()), (1, 600));
        both.merge(&cache());
        assert_eq!(both.ends(), 600);
        later.tickets[0].server[1] = "t".into();
        both.merge(&later);
        assert_eq!(both.tickets.len(), 2);
    }
}
