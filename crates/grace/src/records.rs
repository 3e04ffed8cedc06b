//! The records of clients that may reclaim: an object for each member and epoch.
//!
//! The object `rec-EPOCH:NODE`, with the epoch in 16 hexadecimal digits, has a key for each client.
//! The key is the client's owner, with escapes for bytes that are no printable ASCII. The value is
//! the keyed hash of the principal that created the client, in 32 hexadecimal digits. For a client
//! that has not reclaimed everything yet, a blank and the epoch in which its state was released
//! follow.
//!
//! The state of a client lies in the sessions of its gateway with the metadata servers. As long as
//! these sessions exist, they protect it, whatever epochs have passed. When they end, the grace
//! period of that epoch alone protects it. [`Sessions`] has the rules.

use crate::NodeId;

/// Bytes of a client owner: the protocol's limit, and room for the mark of NFSv4.0.
const OWNER_MAX: usize = 2048;
/// Bytes of a key, with escapes.
const KEY_MAX: usize = 3 * OWNER_MAX;

/// Returns the name of the object with the clients of a member in an epoch.
pub fn record_object(epoch: u64, node: &NodeId) -> String {
    format!("rec-{epoch:016x}:{node}")
}

/// The reason why an entry is no record of a client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientRecordError {
    /// The key is no owner with escapes.
    #[error("the key {0:?} is no client of this program")]
    Key(String),
    /// The value is no hash.
    #[error("the value of {0:?} is no hash of a principal")]
    Value(String),
}

/// A client in an object of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientRecord {
    /// The `co_ownerid` of the client.
    pub owner: Vec<u8>,
    /// The keyed hash of the principal that created it.
    pub principal: [u8; 16],
    /// The epoch in which its state was released, until it has reclaimed everything. 0 for state
    /// that others can have had since: the client must not reclaim it, and may not know yet.
    pub released: Option<u64>,
}

/// The protection of the state that a former instance has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseProtection {
    /// The epoch of the grace period that is; `None` outside of one.
    pub grace: Option<u64>,
    /// Whether all sessions of the former instance existed until they were ended in this period.
    pub sessions_intact: bool,
}

impl ClientRecord {
    /// Returns the key of an owner.
    pub fn key(owner: &[u8]) -> Vec<u8> {
        let mut key = Vec::with_capacity(owner.len());
        for byte in owner {
            if byte.is_ascii_graphic() && *byte != b'%' || *byte == b' ' {
                key.push(*byte);
            } else {
                key.extend(format!("%{byte:02x}").into_bytes());
            }
        }
        key
    }

    /// Returns the value of a record.
    pub fn value(principal: [u8; 16], released: Option<u64>) -> Vec<u8> {
        let mark = released.map_or(String::new(), |epoch| format!(" {epoch:016x}"));
        let principal = principal.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        (principal + &mark).into_bytes()
    }

    /// Reads an entry.
    ///
    /// # Errors
    /// See [`ClientRecordError`].
    pub fn decode(key: &[u8], value: &[u8]) -> Result<Self, ClientRecordError> {
        let shown = || String::from_utf8_lossy(key).chars().take(64).collect::<String>();
        let owner = (key.len() <= KEY_MAX).then(|| unescape(key)).flatten();
        let owner = owner.filter(|owner| owner.len() <= OWNER_MAX && Self::key(owner) == key);
        let owner = owner.ok_or_else(|| ClientRecordError::Key(shown()))?;
        let (principal, released) = read_value(value)
            .filter(|(principal, released)| Self::value(*principal, *released) == value)
            .ok_or_else(|| ClientRecordError::Value(shown()))?;
        Ok(Self { owner, principal, released })
    }

    /// Returns whether the client may reclaim: nobody else can have had its state since.
    pub fn may_reclaim(&self, protection: &ReleaseProtection) -> bool {
        match self.released {
            None => protection.grace.is_some() && protection.sessions_intact,
            released => released == protection.grace,
        }
    }

    /// Returns the record after the state was released in an epoch.
    pub fn released_in(self, epoch: u64, protection: &ReleaseProtection) -> Self {
        let released = Some(if self.may_reclaim(protection) { epoch } else { 0 });
        Self { released, ..self }
    }
}

/// Reads a value: a principal, and the epoch of a mark.
fn read_value(value: &[u8]) -> Option<([u8; 16], Option<u64>)> {
    let text = std::str::from_utf8(value).ok()?;
    let (principal, released) = match text.split_once(' ') {
        Some((principal, mark)) => (principal, Some(u64::from_str_radix(mark, 16).ok()?)),
        None => (text, None),
    };
    Some((u128::from_str_radix(principal, 16).ok()?.to_be_bytes(), released))
}

fn unescape(key: &[u8]) -> Option<Vec<u8>> {
    let mut owner = Vec::with_capacity(key.len());
    let mut rest = key;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            owner.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        owner.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = after;
    }
    Some(owner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_owner_has_a_key_of_its_own_that_is_read_back() {
        let all_bytes: Vec<u8> = (0..=255).collect();
        for owner in [&b"Linux NFSv4.2 host"[..], b"", b"%41", b"\0NFSv4.0\0x", &all_bytes, &[0xff; 1024]] {
            for released in [None, Some(17)] {
                let (key, value) = (ClientRecord::key(owner), ClientRecord::value([0xa1; 16], released));
                assert!(key.iter().chain(&value).all(|byte| (b' '..=b'~').contains(byte)));
                let read = ClientRecord::decode(&key, &value).unwrap();
                assert_eq!(read, ClientRecord { owner: owner.to_vec(), principal: [0xa1; 16], released });
            }
        }
        assert_eq!(ClientRecord::key(b"host%1"), b"host%251");
    }

    #[test]
    fn entries_that_this_program_does_not_write_are_refused() {
        let good = ClientRecord::value([1; 16], None);
        let keys: [&[u8]; 6] = [b"%", b"%4", b"%zz", b"%41", b"\xff", &[b'x'; KEY_MAX + 1]];
        for key in keys {
            let error = ClientRecord::decode(key, &good).unwrap_err();
            assert!(matches!(&error, ClientRecordError::Key(_)) && error.to_string().len() < 300, "{error}");
        }
        let marks = ["", "1", "zzzzzzzzzzzzzzzz", "00000000000000001", "+000000000000001"];
        let marked = marks.map(|mark| [&good[..], b" ", mark.as_bytes()].concat());
        let values: [&[u8]; 5] = [b"", b"::ffff:10.0.0.1-(4:name)", &[b'g'; 32], &[b'A'; 32], &[b'0'; 33]];
        for value in values.into_iter().chain(marked.iter().map(|value| &value[..])) {
            let read = ClientRecord::decode(b"name", value);
            assert!(matches!(read, Err(ClientRecordError::Value(_))), "{value:?}");
        }
    }

    #[test]
    fn state_is_protected_by_its_sessions_and_then_by_the_period_in_which_they_ended() {
        // RFC 8881 section 8.4.3
        let record = |released| ClientRecord { owner: b"a".to_vec(), principal: [0; 16], released };
        let protection = |grace, sessions_intact| ReleaseProtection { grace, sessions_intact };
        assert!(record(None).may_reclaim(&protection(Some(9), true)));
        assert!(!record(None).may_reclaim(&protection(Some(9), false)));
        assert!(!record(None).may_reclaim(&protection(None, true)));
        assert!(record(Some(9)).may_reclaim(&protection(Some(9), false)));
        assert!(!record(Some(9)).may_reclaim(&protection(Some(10), true)));
        assert!(!record(Some(9)).may_reclaim(&protection(None, true)));
        assert!(!record(Some(0)).may_reclaim(&protection(None, true)));
        let after =
            |released, grace, intact| record(released).released_in(9, &protection(grace, intact)).released;
        assert_eq!(after(None, Some(9), true), Some(9));
        assert_eq!(after(None, Some(9), false), Some(0));
        assert_eq!(after(Some(7), Some(9), true), Some(0));
    }

    #[test]
    fn the_object_of_a_member_is_named_as_in_the_design() {
        // ganesha-rados-cluster-design(8)
        let node = "gw1".parse().unwrap();
        assert_eq!(record_object(0x1f, &node), "rec-000000000000001f:gw1");
    }
}
