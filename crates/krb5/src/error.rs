//! What can be wrong with a key or a token.

use thiserror::Error;

/// Why a [`ContextKeys`](crate::ContextKeys) could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    /// The key is not as long as its enctype says; both lengths in bytes.
    #[error("an {enctype} key has {expected} bytes, not {actual}")]
    Length {
        /// The enctype that was asked for.
        enctype: crate::Enctype,
        /// The length of its keys.
        expected: usize,
        /// The length of the key given.
        actual: usize,
    },
}

/// Why a token of the peer is refused.
///
/// Whatever a decryption or a checksum may have failed on is [`TokenError::BadIntegrity`]: a sender
/// who can tell those causes apart has an oracle. The other variants follow from the visible header
/// alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TokenError {
    /// The token is shorter than its kind can be, or the header is not one of RFC 4121 section
    /// 4.2.6, or its EC reaches outside the token.
    #[error("the token is malformed")]
    Malformed,
    /// The token claims to come from our own side: a reflected token.
    #[error("the token was sent by this side")]
    Reflected,
    /// The token uses the ticket's key where the acceptor's subkey is due, or the other way round.
    #[error("the token uses the other key of the context")]
    WrongKey,
    /// The checksum is wrong, or the token is not what was sent.
    #[error("the token's checksum is wrong")]
    BadIntegrity,
}
