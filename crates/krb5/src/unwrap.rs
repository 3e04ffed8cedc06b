//! Opening wrap tokens of the peer, RFC 4121 sections 4.2.4 to 4.2.6.2.

use std::ops::Range;

use subtle::ConstantTimeEq;

use crate::{
    ContextKeys, Enctype, TokenError, WRAP_HEADROOM,
    cipher::{Aes128Sha1, Aes128Sha256, Aes256Sha1, Aes256Sha384, BLOCK, Suite},
    cts,
    hmac::{Message, mac_each},
    token::{HEADER_LEN, Header, parse_wrap},
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

/// Opens each token of a batch; the checksums of one enctype are computed together.
pub fn unwrap(batch: &mut [UnwrapMessage<'_>]) {
    for message in batch.iter_mut() {
        message.result = lay_out(message.keys, message.token);
    }
    open::<Aes128Sha1>(batch);
    open::<Aes256Sha1>(batch);
    open::<Aes128Sha256>(batch);
    open::<Aes256Sha384>(batch);
    for message in batch.iter_mut() {
        if message.result == Err(TokenError::BadIntegrity) {
            // Callers cannot use by mistake what was never authenticated.
            message.token.fill(0);
        }
    }
}

/// Checks all that the header says and undoes the rotation: afterwards every length is known to be right.
fn lay_out(context: &ContextKeys, token: &mut [u8]) -> Result<Unwrapped, TokenError> {
    let header = parse_wrap(context.direction, token)?;
    let body = &mut token[HEADER_LEN..];
    let mac_len = context.enctype().mac_len();
    let (start, overhead) = if header.sealed {
        (WRAP_HEADROOM, BLOCK + header.ec + HEADER_LEN + mac_len)
    } else if header.ec == mac_len {
        (HEADER_LEN, mac_len)
    } else {
        return Err(TokenError::Malformed);
    };
    let plain_len = body.len().checked_sub(overhead).ok_or(TokenError::Malformed)?;
    // Counts beyond the length are allowed, RFC 4121 section 4.2.5; the body is not empty.
    body.rotate_left(header.rrc % body.len());
    Ok(Unwrapped { plain: start..start + plain_len, sequence: header.sequence, sealed: header.sealed })
}

/// Opens the tokens of one enctype.
fn open<S: Suite>(batch: &mut [UnwrapMessage<'_>]) {
    if S::ENCTYPE.encrypts_then_macs() {
        // RFC 8009 section 5: nothing is decrypted before its checksum is found right.
        verify::<S>(batch, &CIPHER_STATE);
        decrypt::<S>(batch);
    } else {
        // RFC 3962 section 6: the checksum is of the plaintext.
        decrypt::<S>(batch);
        verify::<S>(batch, &[]);
    }
    for message in batch.iter_mut().filter(|message| S::of(&message.keys.suite).is_some()) {
        if message
            .result
            .as_ref()
            .is_ok_and(|opened| opened.sealed && !same_header(message.token, S::ENCTYPE))
        {
            message.result = Err(TokenError::BadIntegrity);
        }
    }
}

/// Decrypts the sealed tokens that are not refused yet.
fn decrypt<S: Suite>(batch: &mut [UnwrapMessage<'_>]) {
    for message in batch {
        let (Some(keys), Ok(Unwrapped { sealed: true, .. })) = (S::of(&message.keys.suite), &message.result)
        else {
            continue;
        };
        let end = message.token.len() - S::ENCTYPE.mac_len();
        cts::decrypt(&keys.open, &mut message.token[HEADER_LEN..end]);
    }
}

/// Refuses the tokens whose checksum is wrong; what is sealed is covered behind `prefix`.
fn verify<S: Suite>(batch: &mut [UnwrapMessage<'_>], prefix: &[u8]) {
    let messages = batch.iter_mut().filter_map(|message| {
        let keys = S::of(&message.keys.suite)?;
        let sealed = message.result.as_ref().ok()?.sealed;
        let (header, body) = message.token.split_first_chunk::<HEADER_LEN>()?;
        let (data, mac) = body.split_at(body.len() - S::ENCTYPE.mac_len());
        let covered = if sealed {
            Message { key: &keys.open_mac, prefix, data, suffix: None }
        } else {
            Message { key: &keys.open_sign, prefix: &[], data, suffix: Some(signed_header(header)) }
        };
        Some((covered, (mac, &mut message.result)))
    });
    mac_each(messages, |(mac, result), digest| {
        if !bool::from(digest[..mac.len()].ct_eq(mac)) {
            *result = Err(TokenError::BadIntegrity);
        }
    });
}

/// Compares the encrypted copy of the header with the one in front. RRC is not compared: it may change on the
/// way, and the copy was made before it was set (RFC 4121 section 4.2.4).
fn same_header(token: &[u8], enctype: Enctype) -> bool {
    let Some((front, body)) = token.split_first_chunk::<HEADER_LEN>() else { return false };
    let Some(copy) = body[..body.len() - enctype.mac_len()].last_chunk::<HEADER_LEN>() else { return false };
    (copy[..6].ct_eq(&front[..6]) & copy[8..].ct_eq(&front[8..])).into()
}

/// Returns the header as it is covered by a checksum without encryption: EC and RRC are 0, RFC 4121 section 4.2.4.
fn signed_header(header: &Header) -> Header {
    let mut signed = *header;
    signed[4..8].fill(0);
    signed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Role, keys::AnySuite};

    fn context(enctype: Enctype, role: Role) -> ContextKeys {
        ContextKeys::new(enctype, &[5; 16], role, false).expect("the right length")
    }

    /// Seals with a filler, and with `inner_ec` in the copy of the header.
    fn seal_with_filler(plain: &[u8], ec: u16, inner_ec: u16) -> Vec<u8> {
        let context = context(Enctype::Aes128CtsHmacSha1_96, Role::Initiator);
        let AnySuite::Aes128Sha1(keys) = &context.suite else { unreachable!("enctype 17") };
        let mut header = crate::token::sealed_header(context.direction, 9);
        header[4..6].copy_from_slice(&inner_ec.to_be_bytes());
        let filler = vec![0xff; usize::from(ec)];
        let mut body = [&[1; BLOCK][..], plain, &filler, &header].concat();
        let mac = keys.seal_mac.mac(&[&body]);
        cts::encrypt(&keys.seal, [&mut body[..]]);
        header[4..6].copy_from_slice(&ec.to_be_bytes());
        [&header[..], &body, &mac[..Aes128Sha1::ENCTYPE.mac_len()]].concat()
    }

    fn open_one(context: &ContextKeys, token: &mut [u8]) -> Result<Unwrapped, TokenError> {
        let mut batch = [UnwrapMessage { keys: context, token, result: Err(TokenError::Malformed) }];
        unwrap(&mut batch);
        batch[0].result.clone()
    }

    #[test]
    fn a_filler_is_cut_off() {
        // RFC 4121 section 4.2.6.2: EC counts the filler behind the plaintext.
        let acceptor = context(Enctype::Aes128CtsHmacSha1_96, Role::Acceptor);
        for ec in [0, 1, 15, 16, 300] {
            let mut token = seal_with_filler(b"plaintext", ec, ec);
            let opened = open_one(&acceptor, &mut token).expect("a filler is allowed");
            assert_eq!(&token[opened.plain], b"plaintext");
        }
    }

    #[test]
    fn an_ec_that_differs_from_its_sealed_copy_is_refused() {
        // RFC 4121 section 4.2.4
        let acceptor = context(Enctype::Aes128CtsHmacSha1_96, Role::Acceptor);
        let mut token = seal_with_filler(b"plaintext", 8, 0);
        assert_eq!(open_one(&acceptor, &mut token), Err(TokenError::BadIntegrity));
    }

    fn sign_only(plain: &[u8], rrc: u16) -> Vec<u8> {
        let context = context(Enctype::Aes128CtsHmacSha256_128, Role::Initiator);
        let mut header = crate::token::sealed_header(context.direction, 9);
        header[2] &= !2;
        // Kc of the initiator's seal usage: only peers send such tokens, so no key of ours is for it.
        let derived =
            crate::derive::derive::<Aes128Sha256>(&padded([5; 16]), 24, crate::derive::Purpose::Checksum);
        let key = crate::hmac::HmacKey::<<Aes128Sha256 as Suite>::Hash>::new(&derived.0[..derived.1]);
        let mac = key.mac(&[plain, &header]);
        let mac_len = Aes128Sha256::ENCTYPE.mac_len();
        header[4..6].copy_from_slice(&(mac_len as u16).to_be_bytes());
        header[6..8].copy_from_slice(&rrc.to_be_bytes());
        let mut body = [plain, &mac[..mac_len]].concat();
        let count = usize::from(rrc) % body.len();
        body.rotate_right(count);
        [&header[..], &body].concat()
    }

    fn padded(key: [u8; 16]) -> [u8; 32] {
        let mut padded = [0; 32];
        padded[..16].copy_from_slice(&key);
        padded
    }

    #[test]
    fn a_token_that_is_only_signed_says_so_whatever_its_rotation() {
        // RFC 4121 sections 4.2.4 and 4.2.5; Windows rotates by the length of the checksum.
        let acceptor = context(Enctype::Aes128CtsHmacSha256_128, Role::Acceptor);
        for rrc in [0, 1, 16, 25, 26, 4000, u16::MAX] {
            let mut token = sign_only(b"plaintext", rrc);
            let opened = open_one(&acceptor, &mut token).expect("a signature that holds");
            assert!(!opened.sealed);
            assert_eq!(&token[opened.plain], b"plaintext");
        }
    }

    #[test]
    fn every_bit_flip_of_a_token_that_is_only_signed_is_refused() {
        // RFC 4121 section 4.2.4; the rotation is not signed.
        let acceptor = context(Enctype::Aes128CtsHmacSha256_128, Role::Acceptor);
        let token = sign_only(b"plaintext", 0);
        for bit in 0..token.len() * 8 {
            let mut forged = token.clone();
            forged[bit / 8] ^= 0x80 >> (bit % 8);
            let rotation = usize::from(u16::from_be_bytes([forged[6], forged[7]]));
            if rotation == 0 || rotation % (token.len() - HEADER_LEN) != 0 {
                assert!(open_one(&acceptor, &mut forged).is_err(), "bit {bit}");
            }
        }
    }
}
