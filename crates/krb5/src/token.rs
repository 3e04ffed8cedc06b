//! The headers of RFC 4121 section 4.2.6.
//!
//! ```text
//! octet   0..1    2      3       4..5   6..7   8..15
//! MIC     04 04   flags  ff      ff ff  ff ff  SND_SEQ   then the checksum
//! Wrap    05 04   flags  ff      EC     RRC    SND_SEQ   then the body
//! ```

use subtle::ConstantTimeEq;

use crate::{TokenError, hmac::Digest, protocol_key::ProtocolKey};

/// The length of a token's header in bytes.
pub(crate) const HEADER_LEN: usize = 16;

/// The length of the longest MIC token in bytes.
pub const MIC_TOKEN_MAX: usize = HEADER_LEN + 24;

const TOK_ID_MIC: [u8; 2] = [0x04, 0x04];
const TOK_ID_WRAP: [u8; 2] = [0x05, 0x04];
const FILLER: u8 = 0xff;

// RFC 4121 section 4.2.2.
const SENT_BY_ACCEPTOR: u8 = 1;
const SEALED: u8 = 2;
const ACCEPTOR_SUBKEY: u8 = 4;

/// A header in its wire format.
pub(crate) type Header = [u8; HEADER_LEN];

/// The side of the context that this process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The side that requests the context: an NFS client, or a server on its backchannel.
    Initiator,
    /// The side that accepts the context: an NFS server.
    Acceptor,
}

/// The flags that this side sets, and the flags that it expects from the peer.
#[derive(Clone, Copy)]
pub(crate) struct Direction {
    send: u8,
    receive: u8,
}

impl Direction {
    pub(crate) fn new(role: Role, key: ProtocolKey<'_>) -> Self {
        let subkey = match key {
            ProtocolKey::AcceptorSubkey(_) => ACCEPTOR_SUBKEY,
            ProtocolKey::InitiatorKey(_) => 0,
        };
        match role {
            Role::Initiator => Self { send: subkey, receive: subkey | SENT_BY_ACCEPTOR },
            Role::Acceptor => Self { send: subkey | SENT_BY_ACCEPTOR, receive: subkey },
        }
    }

    /// Returns whether the context's key is the acceptor's subkey.
    pub(crate) fn has_acceptor_subkey(self) -> bool {
        self.send & ACCEPTOR_SUBKEY != 0
    }

    /// Checks that the peer sent the token, with the expected key. Unknown bits are ignored,
    /// section 4.2.2.
    fn check(self, flags: u8) -> Result<(), TokenError> {
        let wrong = flags ^ self.receive;
        if wrong & SENT_BY_ACCEPTOR != 0 {
            Err(TokenError::Reflected)
        } else if wrong & ACCEPTOR_SUBKEY != 0 {
            Err(TokenError::WrongKey)
        } else {
            Ok(())
        }
    }
}

/// Returns the header of a MIC token that we send.
pub(crate) fn mic_header(direction: Direction, sequence: u64) -> Header {
    let [a, b] = TOK_ID_MIC;
    with_sequence([a, b, direction.send, FILLER, FILLER, FILLER, FILLER, FILLER], sequence)
}

/// Returns the header of a sealed wrap token that we send: EC 0, RRC 0.
pub(crate) fn sealed_header(direction: Direction, sequence: u64) -> Header {
    let [a, b] = TOK_ID_WRAP;
    with_sequence([a, b, direction.send | SEALED, FILLER, 0, 0, 0, 0], sequence)
}

fn with_sequence(start: [u8; 8], sequence: u64) -> Header {
    let mut header = [0; HEADER_LEN];
    header[..8].copy_from_slice(&start);
    header[8..].copy_from_slice(&sequence.to_be_bytes());
    header
}

/// Splits a MIC token of the peer into header, checksum and sequence number.
pub(crate) fn parse_mic(direction: Direction, token: &[u8]) -> Result<(&Header, &[u8], u64), TokenError> {
    let (header, mac) = token.split_first_chunk::<HEADER_LEN>().ok_or(TokenError::Malformed)?;
    let &[a, b, flags, f0, f1, f2, f3, f4, ..] = header;
    if [a, b] != TOK_ID_MIC || [f0, f1, f2, f3, f4] != [FILLER; 5] {
        return Err(TokenError::Malformed);
    }
    direction.check(flags)?;
    Ok((header, mac, sequence_of(header)))
}

/// The decoded header of a wrap token of the peer.
pub(crate) struct WrapHeader {
    pub(crate) sealed: bool,
    /// Extra count: the length of the filler if sealed, else the length of the checksum, in bytes.
    pub(crate) ec: usize,
    /// Right rotation count in bytes, as sent. Any value is allowed, section 4.2.5.
    pub(crate) rrc: usize,
    pub(crate) sequence: u64,
}

/// Parses the header of a wrap token of the peer.
pub(crate) fn parse_wrap(direction: Direction, token: &[u8]) -> Result<WrapHeader, TokenError> {
    let header = token.first_chunk::<HEADER_LEN>().ok_or(TokenError::Malformed)?;
    let &[a, b, flags, filler, ec0, ec1, rrc0, rrc1, ..] = header;
    if [a, b] != TOK_ID_WRAP || filler != FILLER {
        return Err(TokenError::Malformed);
    }
    direction.check(flags)?;
    Ok(WrapHeader {
        sealed: flags & SEALED != 0,
        ec: u16::from_be_bytes([ec0, ec1]).into(),
        rrc: u16::from_be_bytes([rrc0, rrc1]).into(),
        sequence: sequence_of(header),
    })
}

/// Returns whether a digest begins with the checksum of a token.
pub(crate) fn begins_with(digest: &Digest, mac: &[u8]) -> bool {
    digest.split_at_checked(mac.len()).is_some_and(|(front, _)| same(front, mac))
}

/// Compares two checksums in constant time. It compares words, since a comparison of single bytes
/// takes longer than hashing a block.
pub(crate) fn same(a: &[u8], b: &[u8]) -> bool {
    let (words, rest) = a.as_chunks::<4>();
    let (other_words, other_rest) = b.as_chunks::<4>();
    let words = words.iter().zip(other_words).map(|(a, b)| u32::from_ne_bytes(*a) ^ u32::from_ne_bytes(*b));
    let rest = rest.iter().zip(other_rest).map(|(a, b)| u32::from(a ^ b));
    // Accumulates all differing bits, so that there is one test at the end.
    let different = words.chain(rest).fold(0, |different, bits| different | bits);
    bool::from(different.ct_eq(&0)) && a.len() == b.len()
}

fn sequence_of(header: &Header) -> u64 {
    let mut sequence = [0; 8];
    sequence.copy_from_slice(&header[8..]);
    u64::from_be_bytes(sequence)
}

/// A MIC token, held inline: at most [`MIC_TOKEN_MAX`] bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MicToken {
    bytes: [u8; MIC_TOKEN_MAX],
    len: u8,
}

impl MicToken {
    /// The empty token: the initial value in a [`MicMessage`](crate::MicMessage) for
    /// [`get_mic`](crate::get_mic).
    pub const EMPTY: Self = Self { bytes: [0; MIC_TOKEN_MAX], len: 0 };

    /// Sets the token to the header and the first [`Enctype::mac_len`](crate::Enctype::mac_len)
    /// bytes of a digest.
    #[inline]
    pub(crate) fn put(&mut self, header: &Header, digest: &Digest, mac_len: usize) {
        let (front, rest) = self.bytes.split_at_mut(HEADER_LEN);
        front.copy_from_slice(header);
        // Digests are written in words, and store forwarding is slow if they are read in other
        // sizes.
        let words = digest.as_chunks::<4>().0.iter().enumerate();
        for (to, (n, word)) in rest.as_chunks_mut().0.iter_mut().zip(words) {
            *to = if 4 * n < mac_len { *word } else { [0; 4] };
        }
        self.len = (HEADER_LEN + mac_len) as u8;
    }
}

impl Default for MicToken {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl AsRef<[u8]> for MicToken {
    fn as_ref(&self) -> &[u8] {
        self.bytes.split_at(usize::from(self.len)).0
    }
}

impl std::ops::Deref for MicToken {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_ref()
    }
}

impl std::fmt::Debug for MicToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("MicToken").field(&self.as_ref()).finish()
    }
}
