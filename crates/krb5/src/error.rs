//! Errors of keys and tokens.

use thiserror::Error;

/// The reason why a [`ContextKeys`](crate::ContextKeys) could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    /// The length of the key, in bytes, does not match its enctype.
    #[error("an {enctype} key has {expected} bytes, not {actual}")]
    Length {
        /// The enctype of the context.
        enctype: crate::Enctype,
        /// The key length of the enctype in bytes.
        expected: usize,
        /// The length of the given key in bytes.
        actual: usize,
    },
}

/// The reason why a token of the peer is refused.
///
/// Every failure of a decryption or of a checksum is [`TokenError::BadIntegrity`]: a sender that
/// can tell these causes apart has an oracle. The other variants depend only on the visible header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TokenError {
    /// The token is shorter than its kind allows, its header violates RFC 4121 section 4.2.6, or
    /// its EC reaches outside the token.
    #[error("the token is malformed")]
    Malformed,
    /// The token claims to come from this side of the context: it was reflected.
    #[error("the token was sent by this side")]
    Reflected,
    /// The token uses the ticket's key where the acceptor's subkey is due, or the other way round.
    #[error("the token uses the other key of the context")]
    WrongKey,
    /// The checksum is wrong, or the token was changed on the way.
    #[error("the token's checksum is wrong")]
    BadIntegrity,
}
