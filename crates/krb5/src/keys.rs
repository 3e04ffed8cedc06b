//! The derived keys of one security context.

use std::sync::OnceLock;
use zeroize::Zeroizing;

use crate::{
    Enctype, KeyError,
    cipher::Key,
    derive::{KeyPurpose, derive},
    hmac::HmacKey,
    protocol_key::ProtocolKey,
    suite::{Aes128Sha1, Aes128Sha256, Aes256Sha1, Aes256Sha384, Suite},
    token::{Direction, HEADER_LEN, Role},
};

/// The key usage numbers of RFC 4121 section 2.
mod usage {
    pub(super) const ACCEPTOR_SEAL: u32 = 22;
    pub(super) const ACCEPTOR_SIGN: u32 = 23;
    pub(super) const INITIATOR_SEAL: u32 = 24;
    pub(super) const INITIATOR_SIGN: u32 = 25;
}

/// All keys of one context for both directions: about 3 KiB on the heap, wiped on drop.
///
/// Any number of threads may use it at once.
pub struct ContextKeys {
    enctype: Enctype,
    suite: OnceLock<AnySuite>,
    pub(crate) direction: Direction,
    role: Role,
    /// The key that the others are derived from, for the next process of a server.
    protocol_key: Zeroizing<[u8; 32]>,
}

/// The keys by enctype.
pub(crate) enum AnySuite {
    Aes128Sha1(Box<SuiteKeys<Aes128Sha1>>),
    Aes256Sha1(Box<SuiteKeys<Aes256Sha1>>),
    Aes128Sha256(Box<SuiteKeys<Aes128Sha256>>),
    Aes256Sha384(Box<SuiteKeys<Aes256Sha384>>),
}

impl AnySuite {
    fn new(enctype: Enctype, key: &[u8; 32], role: Role) -> Self {
        match enctype {
            Enctype::Aes128CtsHmacSha1_96 => Self::Aes128Sha1(SuiteKeys::new(key, role)),
            Enctype::Aes256CtsHmacSha1_96 => Self::Aes256Sha1(SuiteKeys::new(key, role)),
            Enctype::Aes128CtsHmacSha256_128 => Self::Aes128Sha256(SuiteKeys::new(key, role)),
            Enctype::Aes256CtsHmacSha384_192 => Self::Aes256Sha384(SuiteKeys::new(key, role)),
        }
    }
}

/// Evaluates the same expression for each variant of a suite.
macro_rules! with_suite {
    ($suite:expr, $keys:ident => $body:expr) => {
        match $suite {
            $crate::keys::AnySuite::Aes128Sha1($keys) => $body,
            $crate::keys::AnySuite::Aes256Sha1($keys) => $body,
            $crate::keys::AnySuite::Aes128Sha256($keys) => $body,
            $crate::keys::AnySuite::Aes256Sha384($keys) => $body,
        }
    };
}
pub(crate) use with_suite;

/// A suite that finds its keys in those of a context.
pub(crate) trait KeyedSuite: Suite {
    /// Returns the keys if they are of this enctype.
    fn of(suite: &AnySuite) -> Option<&SuiteKeys<Self>>;
}

macro_rules! keyed {
    ($($name:ident)+) => { $(
        impl KeyedSuite for $name {
            fn of(suite: &AnySuite) -> Option<&SuiteKeys<Self>> {
                if let AnySuite::$name(keys) = suite { Some(keys) } else { None }
            }
        }
    )+ };
}

keyed!(Aes128Sha1 Aes256Sha1 Aes128Sha256 Aes256Sha384);

/// The keys of one enctype.
pub(crate) struct SuiteKeys<S: Suite> {
    /// Ke and Ki of our seal usage: seal our messages.
    pub(crate) seal: Key<S::Encrypt>,
    pub(crate) seal_mac: HmacKey<S::Hash>,
    /// Kc of our sign usage: signs our messages.
    pub(crate) sign: HmacKey<S::Hash>,
    /// Ke and Ki of the peer's seal usage: open its messages.
    pub(crate) open: Key<S::Decrypt>,
    pub(crate) open_mac: HmacKey<S::Hash>,
    /// Kc of the peer's seal usage: checks wrap tokens of the peer that are not sealed.
    pub(crate) open_sign: HmacKey<S::Hash>,
    /// Kc of the peer's sign usage: checks its signatures.
    pub(crate) verify: HmacKey<S::Hash>,
}

impl<S: Suite> SuiteKeys<S> {
    fn new(key: &[u8; 32], role: Role) -> Box<Self> {
        let acceptor = (usage::ACCEPTOR_SEAL, usage::ACCEPTOR_SIGN);
        let initiator = (usage::INITIATOR_SEAL, usage::INITIATOR_SIGN);
        let ((our_seal, our_sign), (peer_seal, peer_sign)) = match role {
            Role::Acceptor => (acceptor, initiator),
            Role::Initiator => (initiator, acceptor),
        };
        let mac = |usage, purpose| {
            let (derived, len) = derive::<S>(key, usage, purpose);
            HmacKey::new(derived.split_at(len).0)
        };
        Box::new(Self {
            seal: S::encrypt_key(&derive::<S>(key, our_seal, KeyPurpose::Encryption).0),
            seal_mac: mac(our_seal, KeyPurpose::Integrity),
            sign: mac(our_sign, KeyPurpose::Checksum),
            open: S::decrypt_key(&derive::<S>(key, peer_seal, KeyPurpose::Encryption).0),
            open_mac: mac(peer_seal, KeyPurpose::Integrity),
            open_sign: mac(peer_seal, KeyPurpose::Checksum),
            verify: mac(peer_sign, KeyPurpose::Checksum),
        })
    }
}

impl ContextKeys {
    /// Derives the keys of a context from its protocol key.
    ///
    /// # Errors
    /// [`KeyError::Length`] if the key does not have [`Enctype::key_len`] bytes.
    pub fn new(enctype: Enctype, key: ProtocolKey<'_>, role: Role) -> Result<Self, KeyError> {
        let keys = Self::underived(enctype, key, role)?;
        keys.suite();
        Ok(keys)
    }

    /// As [`ContextKeys::new`], but derives the keys at their first use: clients wait while a
    /// server restores the contexts of the process before, and use few of them at once.
    ///
    /// # Errors
    /// As [`ContextKeys::new`].
    pub fn underived(enctype: Enctype, key: ProtocolKey<'_>, role: Role) -> Result<Self, KeyError> {
        let (expected, actual) = (enctype.key_len(), key.bytes().len());
        if actual != expected {
            return Err(KeyError::Length { enctype, expected, actual });
        }
        let mut padded = Zeroizing::new([0; 32]);
        padded.iter_mut().zip(key.bytes()).for_each(|(to, byte)| *to = *byte);
        let direction = Direction::new(role, key);
        Ok(Self { enctype, suite: OnceLock::new(), direction, role, protocol_key: padded })
    }

    /// Returns the derived keys.
    pub(crate) fn suite(&self) -> &AnySuite {
        self.suite.get_or_init(|| AnySuite::new(self.enctype, &self.protocol_key, self.role))
    }

    /// Returns the protocol key that [`ContextKeys::new`] was given.
    pub fn protocol_key(&self) -> ProtocolKey<'_> {
        let key = self.protocol_key.split_at(self.enctype.key_len()).0;
        if self.direction.has_acceptor_subkey() {
            ProtocolKey::AcceptorSubkey(key)
        } else {
            ProtocolKey::InitiatorKey(key)
        }
    }

    /// Returns the enctype of the context's key.
    pub fn enctype(&self) -> Enctype {
        self.enctype
    }

    /// Returns the length of a MIC token in bytes: 28, 32 or 40.
    pub fn mic_len(&self) -> usize {
        HEADER_LEN + self.enctype().mac_len()
    }

    /// Returns the number of bytes that [`wrap`](crate::wrap()) appends behind the plaintext: 28,
    /// 32 or 40.
    ///
    /// A sealed token is longer than its plaintext by this number and
    /// [`WRAP_HEADROOM`](crate::WRAP_HEADROOM).
    pub fn wrap_trailer_len(&self) -> usize {
        HEADER_LEN + self.enctype().mac_len()
    }
}

impl std::fmt::Debug for ContextKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ContextKeys")
            .field("enctype", &self.enctype())
            .field("role", &self.role)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_derived_at_their_first_use_where_that_is_wanted() {
        // RFC 3961 section 5.3
        for enctype in Enctype::ALL {
            let key = vec![7; enctype.key_len()];
            let protocol_key = ProtocolKey::AcceptorSubkey(&key);
            let keys = ContextKeys::underived(enctype, protocol_key, Role::Acceptor).unwrap();
            assert_eq!((keys.enctype(), keys.protocol_key().bytes()), (enctype, &*key));
            assert!(keys.suite.get().is_none(), "{}", enctype.name());
            let peer = ContextKeys::new(enctype, protocol_key, Role::Initiator).unwrap();
            assert_eq!(keys.verify(b"data", &peer.mic(1, b"data")), Ok(1));
            let short = ProtocolKey::AcceptorSubkey(&key[1..]);
            assert!(ContextKeys::underived(enctype, short, Role::Acceptor).is_err());
        }
    }
}
