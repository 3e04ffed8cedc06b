//! The sender of a request, its protection, and the operations of its COMPOUND.

use std::net::IpAddr;
use std::sync::Arc;

/// Names the principal of a request as the RPC layer proved it.
///
/// Two requests come from one principal when these bytes are equal: the server puts the flavor
/// class in front (for example `sys:1000` or `gss:alice@REALM`), so that an AUTH_SYS caller never
/// equals a Kerberos one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Principal(pub Arc<[u8]>);

impl Principal {
    /// Makes a principal from its name.
    pub fn new(name: impl AsRef<[u8]>) -> Self {
        Self(Arc::from(name.as_ref()))
    }

    /// Whether RPCSEC_GSS proved it; any caller can claim one of AUTH_SYS.
    pub(crate) fn is_proved(&self) -> bool {
        self.0.starts_with(b"gss:")
    }
}

/// Says how well a request was protected on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protection {
    /// AUTH_NONE or AUTH_SYS: anybody can claim anything.
    None,
    /// RPCSEC_GSS with service none: the header is authenticated only.
    Authentication,
    /// RPCSEC_GSS with service integrity.
    Integrity,
    /// RPCSEC_GSS with service privacy.
    Privacy,
}

/// Describes the sender of one request.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// The connection that the request came over, unique for the life of the process.
    pub connection: u64,
    /// The address that the connection comes from.
    pub address: IpAddr,
    /// The principal of the RPC.
    pub principal: &'a Principal,
    /// The protection of the RPC.
    pub protection: Protection,
}

/// A set of operation numbers below 128, such as the operations of a COMPOUND or spo_must_enforce.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpSet(pub u128);

impl OpSet {
    /// Returns the words of a `bitmap4`, without empty ones at the end.
    pub fn words(self) -> Vec<u32> {
        let mut words: Vec<u32> = (0..4).map(|i| (self.0 >> (32 * i)) as u32).collect();
        while words.last() == Some(&0) {
            words.pop();
        }
        words
    }

    /// Adds an operation; numbers of 128 or more are dropped.
    pub fn insert(&mut self, operation: u32) {
        self.0 |= 1u128.checked_shl(operation).unwrap_or(0);
    }

    /// Returns whether the operation is in the set.
    pub fn contains(self, operation: u32) -> bool {
        self.0 & 1u128.checked_shl(operation).unwrap_or(0) != 0
    }

    /// Returns the intersection of both sets.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns whether nothing is in the set.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<u32> for OpSet {
    fn from_iter<T: IntoIterator<Item = u32>>(operations: T) -> Self {
        let mut set = Self::default();
        operations.into_iter().for_each(|operation| set.insert(operation));
        set
    }
}
