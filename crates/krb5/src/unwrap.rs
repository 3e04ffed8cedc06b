//! Opening wrap tokens of the peer, RFC 4121 sections 4.2.4 to 4.2.6.2.

use std::ops::Range;

use subtle::ConstantTimeEq;

use crate::{
    ContextKeys, TokenError, WRAP_HEADROOM,
    cipher::{BLOCK, Suite},
    cts,
    keys::{SuiteKeys, with_suite},
    token::{HEADER_LEN, Header, WrapHeader, parse_wrap},
    wrap::CIPHER_STATE,
};

/// A wrap token of the peer to open, in place.
#[derive(Debug)]
pub struct UnwrapMessage<'a> {
    /// The context's keys.
    pub keys: &'a ContextKeys,
    /// The token, and nothing behind it. Afterwards it holds the plaintext at [`Unwrapped::plain`]; if the
    /// token is refused, its content is not defined and holds nothing that was decrypted.
    pub token: &'a mut [u8],
    /// The result.
    pub result: Result<Unwrapped, TokenError>,
}

/// A token that proved genuine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unwrapped {
    /// Where the plaintext lies in the token's bytes.
    pub plain: Range<usize>,
    /// The sender's sequence number.
    pub sequence: u64,
    /// Whether the token was encrypted. A peer may send a wrap token that is only signed: who needs privacy
    /// refuses it.
    pub sealed: bool,
}

/// Opens each token of a batch.
pub fn unwrap(batch: &mut [UnwrapMessage<'_>]) {
    for message in batch {
        message.result = with_suite!(&message.keys.suite, keys => open(message.keys, keys, message.token));
    }
}

fn open<S: Suite>(
    context: &ContextKeys,
    keys: &SuiteKeys<S>,
    token: &mut [u8],
) -> Result<Unwrapped, TokenError> {
    let header = parse_wrap(context.direction, token)?;
    let body = &mut token[HEADER_LEN..];
    let mac_len = S::ENCTYPE.mac_len();
    // All lengths first: nothing below reaches outside.
    let overhead = if header.sealed { BLOCK + header.ec + HEADER_LEN + mac_len } else { mac_len };
    let plain_len = body.len().checked_sub(overhead).ok_or(TokenError::Malformed)?;
    if !header.sealed && header.ec != mac_len {
        return Err(TokenError::Malformed);
    }
    // Counts beyond the length are allowed, RFC 4121 section 4.2.5; the body is not empty.
    body.rotate_left(header.rrc % body.len());
    let (covered, mac) = body.split_at_mut(body.len() - mac_len);
    let (genuine, start) = if header.sealed {
        (decrypt(keys, &header, covered, mac), WRAP_HEADROOM)
    } else {
        (verify(keys, &header, covered, mac), HEADER_LEN)
    };
    if !genuine {
        // Callers cannot use by mistake what was never authenticated.
        covered.fill(0);
        return Err(TokenError::BadIntegrity);
    }
    let plain = start..start + plain_len;
    Ok(Unwrapped { plain, sequence: header.sequence, sealed: header.sealed })
}

/// Decrypts and tells whether checksum and header are right, in a time that does not tell which is wrong.
fn decrypt<S: Suite>(keys: &SuiteKeys<S>, header: &WrapHeader, covered: &mut [u8], mac: &[u8]) -> bool {
    let right = if S::ENCTYPE.encrypts_then_macs() {
        // RFC 8009 section 5: compared before anything is decrypted.
        let digest = keys.open_mac.mac(&[&CIPHER_STATE, covered]);
        if !bool::from(digest[..mac.len()].ct_eq(mac)) {
            return false;
        }
        cts::decrypt(&keys.open, covered);
        subtle::Choice::from(1)
    } else {
        // RFC 3962 section 6: the checksum is of the plaintext.
        cts::decrypt(&keys.open, covered);
        keys.open_mac.mac(&[covered])[..mac.len()].ct_eq(mac)
    };
    let Some(copy) = covered.last_chunk::<HEADER_LEN>() else { return false };
    (right & same_header(copy, &header.bytes)).into()
}

/// Compares the encrypted copy of the header with the one in front. RRC is not compared: it may change on the
/// way, and the copy was made before it was set (RFC 4121 section 4.2.4).
fn same_header(copy: &Header, front: &Header) -> subtle::Choice {
    copy[..6].ct_eq(&front[..6]) & copy[8..].ct_eq(&front[8..])
}

/// Checks a token that is only signed: the checksum covers the plaintext, then the header with EC and RRC 0.
fn verify<S: Suite>(keys: &SuiteKeys<S>, header: &WrapHeader, covered: &[u8], mac: &[u8]) -> bool {
    let mut signed = header.bytes;
    signed[4..8].fill(0);
    keys.open_sign.mac(&[covered, &signed])[..mac.len()].ct_eq(mac).into()
}
