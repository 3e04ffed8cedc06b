//! Opens wrap tokens of the peer, RFC 4121 sections 4.2.4 to 4.2.6.2.

use std::ops::Range;

use crate::{
    ContextKeys, Cpu, Run, Segments, TokenError, WRAP_HEADROOM,
    batch_hmac::{Message, With, batch_hmac},
    cipher::{BLOCK, CIPHER_STATE, UNIT},
    cts, fused,
    fused::FusedProgress,
    hash::DIGEST_MAX,
    keys::{KeyedSuite, SuiteKeys, with_suite},
    single,
    suite::{Aes128Sha1, Aes128Sha256, Aes256Sha1, Aes256Sha384, Suite},
    token::{HEADER_LEN, Header, begins_with, parse_wrap, same},
    wrap::{WINDOW, window},
};

/// The fewest units that are decrypted and hashed in tiles. A shorter token is decrypted as a whole
/// and hashed then, since it stays in the second-level cache. 80 units are 5 KiB: a READ of 4 KiB
/// with its headers.
const UNITS_MIN: usize = 80;

/// One wrap token of the peer to open in place.
#[derive(Debug)]
pub struct UnwrapMessage<'a> {
    /// The keys of the context.
    pub keys: &'a ContextKeys,
    /// The token, without any bytes behind it. Afterwards it holds the plaintext at
    /// [`Unwrapped::plain`]. If the token is refused, its content is undefined, but contains no
    /// decrypted data.
    pub token: Segments<'a>,
    /// The plaintext's range and the sequence number, or the error; set by [`unwrap`].
    pub result: Result<Unwrapped, TokenError>,
}

/// The result of opening an authentic token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unwrapped {
    /// The range of the plaintext in the token.
    pub plain: Range<usize>,
    /// The sender's sequence number.
    pub sequence: u64,
    /// Whether the token was encrypted. A peer may send a wrap token that is only signed; callers
    /// that need privacy must refuse it.
    pub sealed: bool,
}

/// Opens each token of a batch. Tokens of one enctype are processed together. Does not allocate.
pub fn unwrap(batch: &mut [UnwrapMessage<'_>]) {
    unwrap_with(&mut Run::default(), batch);
}

/// Opens each token of a batch as [`unwrap`] does, with the settings of `run`.
pub fn unwrap_with(run: &mut Run<'_>, batch: &mut [UnwrapMessage<'_>]) {
    for message in batch.iter_mut() {
        message.result = lay_out(message.keys, &mut message.token);
    }
    if let [message] = batch
        && message.open_alone(run.cpu)
    {
        return run.worked(message.token.len());
    }
    let mut rest = batch;
    while !rest.is_empty() {
        let (window, later) = rest.split_at_mut(window(rest.iter().map(|message| message.token.len())));
        open::<Aes128Sha1>(run, window);
        open::<Aes256Sha1>(run, window);
        open::<Aes128Sha256>(run, window);
        open::<Aes256Sha384>(run, window);
        for message in window.iter_mut().filter(|message| message.result == Err(TokenError::BadIntegrity)) {
            message.refuse();
        }
        rest = later;
    }
}

/// Checks the whole header and undoes the rotation. Afterwards all lengths are valid.
fn lay_out(context: &ContextKeys, token: &mut Segments<'_>) -> Result<Unwrapped, TokenError> {
    let body_len = token.len().checked_sub(HEADER_LEN).ok_or(TokenError::Malformed)?;
    let header = parse_wrap(context.direction, &header_of(token))?;
    let mac_len = context.enctype().mac_len();
    let (start, overhead) = if header.sealed {
        (WRAP_HEADROOM, BLOCK + header.ec + HEADER_LEN + mac_len)
    } else if header.ec == mac_len {
        (HEADER_LEN, mac_len)
    } else {
        return Err(TokenError::Malformed);
    };
    let plain_len = body_len.checked_sub(overhead).ok_or(TokenError::Malformed)?;
    // RRC may exceed the length, RFC 4121 section 4.2.5. The body is not empty.
    token.rotate_left(HEADER_LEN, header.rrc % body_len);
    Ok(Unwrapped { plain: start..start + plain_len, sequence: header.sequence, sealed: header.sealed })
}

fn header_of(token: &Segments<'_>) -> Header {
    let mut header = [0; HEADER_LEN];
    token.read(0, &mut header);
    header
}

impl<'a> UnwrapMessage<'a> {
    /// Opens the token on the path for a single short message. Returns whether it took that path.
    fn open_alone(&mut self, cpu: Cpu) -> bool {
        if !self.result.as_ref().is_ok_and(|opened| opened.sealed) {
            return false;
        }
        let Some(genuine) =
            with_suite!(self.keys.suite(), keys => single::open_if_short(cpu, keys, &mut self.token))
        else {
            return false;
        };
        let end = self.token.len() - self.keys.enctype().mac_len();
        if !genuine || !same_header(&self.token, end) {
            self.refuse();
        }
        true
    }

    /// Refuses the token and clears it, so that callers cannot use unauthenticated data by mistake.
    fn refuse(&mut self) {
        self.result = Err(TokenError::BadIntegrity);
        self.token.clear();
    }

    /// Returns the keys if they are of this suite, the token, and its encrypted range; `None` if
    /// the token is already refused.
    fn parts<'b, S: KeyedSuite>(&'b mut self) -> Option<TokenParts<'b, 'a, S>> {
        let keys = S::of(self.keys.suite())?;
        let sealed = self.result.as_ref().ok()?.sealed;
        let end = self.token.len() - S::ENCTYPE.mac_len();
        Some(TokenParts {
            keys,
            token: &mut self.token,
            range: HEADER_LEN..end,
            sealed,
            result: &mut self.result,
        })
    }
}

/// A token that has not been refused.
struct TokenParts<'b, 'a, S: Suite> {
    keys: &'b SuiteKeys<S>,
    token: &'b mut Segments<'a>,
    range: Range<usize>,
    sealed: bool,
    result: &'b mut Result<Unwrapped, TokenError>,
}

/// Opens the tokens of one enctype.
fn open<S: KeyedSuite>(run: &mut Run<'_>, window: &mut [UnwrapMessage<'_>]) {
    if !window.iter().any(|message| S::of(message.keys.suite()).is_some()) {
        return;
    }
    let mut progress = [const { FusedProgress::<S>::NEW }; WINDOW];
    if S::ENCTYPE.encrypts_then_macs() {
        // RFC 8009 section 5: verify the checksum before decrypting.
        verify(run, window, &progress, &CIPHER_STATE);
        decrypt(run, window, &progress);
    } else {
        // RFC 3962 section 6: the checksum covers the plaintext.
        together(run, window, &mut progress);
        decrypt(run, window, &progress);
        verify(run, window, &progress, &[]);
    }
    for message in window {
        if let Some(TokenParts { token, range, sealed: true, result, .. }) = message.parts::<S>()
            && !same_header(token, range.end)
        {
            *result = Err(TokenError::BadIntegrity);
        }
    }
}

/// Decrypts and hashes whole units in one pass, if the suite supports this.
fn together<S: KeyedSuite>(
    run: &mut Run<'_>,
    window: &mut [UnwrapMessage<'_>],
    progress: &mut [FusedProgress<S>],
) {
    let messages = window.iter_mut().zip(progress).filter_map(|(message, progress)| {
        let TokenParts { keys, token, range: Range { start, end }, sealed: true, .. } =
            message.parts::<S>()?
        else {
            return None;
        };
        // The last two blocks are swapped, so they are left out.
        let units = ((end - start).div_ceil(BLOCK) - 2) * BLOCK / UNIT;
        if units < UNITS_MIN {
            return None;
        }
        progress.begin(keys.open_mac.inner);
        Some(fused::Message { keys: &keys.open, token, start, units, progress })
    });
    fused::open(run, messages);
}

/// Decrypts the rest of the sealed tokens that have not been refused.
fn decrypt<S: KeyedSuite>(
    run: &mut Run<'_>,
    window: &mut [UnwrapMessage<'_>],
    progress: &[FusedProgress<S>],
) {
    for (message, progress) in window.iter_mut().zip(progress) {
        if let Some(TokenParts { keys, token, range, sealed: true, .. }) = message.parts::<S>() {
            cts::decrypt::<S>(run, &keys.open, token, range, progress.done, progress.chain);
        }
    }
}

/// Refuses tokens with a wrong checksum. For sealed tokens the checksum also covers `prefix`.
fn verify<S: KeyedSuite>(
    run: &mut Run<'_>,
    window: &mut [UnwrapMessage<'_>],
    progress: &[FusedProgress<S>],
    prefix: &[u8],
) {
    let messages = window.iter_mut().zip(progress).filter_map(|(message, progress)| {
        let TokenParts { keys, token, range, sealed, result } = message.parts::<S>()?;
        let (from, len) = (range.start + progress.done, range.len() - progress.done);
        let covered = if sealed {
            Message { key: &keys.open_mac, start: progress.start(0), prefix, from, len, suffix: None }
        } else {
            let suffix = Some(signed_header(header_of(token)));
            Message { key: &keys.open_sign, start: None, prefix: &[], from, len, suffix }
        };
        Some((covered, With { data: token, with: (range.end, result) }))
    });
    batch_hmac(run, messages, |With { data: token, with: (end, result) }, digest| {
        let mut mac = [0; DIGEST_MAX];
        let (mac, _) = mac.split_at_mut(S::ENCTYPE.mac_len());
        token.read(end, mac);
        if !begins_with(digest, mac) {
            *result = Err(TokenError::BadIntegrity);
        }
    });
}

/// Compares the encrypted copy of the header, which ends at `end`, with the header in front. RRC is
/// not compared: it may change on the way, and the copy was made before it was set (RFC 4121
/// section 4.2.4).
fn same_header(token: &Segments<'_>, end: usize) -> bool {
    let mut front = header_of(token);
    let mut copy = [0; HEADER_LEN];
    token.read(end - HEADER_LEN, &mut copy);
    front[6..8].fill(0);
    copy[6..8].fill(0);
    same(&front, &copy)
}

/// Returns the header as a checksum without encryption covers it: EC and RRC are 0, RFC 4121
/// section 4.2.4.
fn signed_header(mut header: Header) -> Header {
    header[4..8].fill(0);
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Enctype, ProtocolKey, Role, keys::AnySuite};

    fn context(enctype: Enctype, role: Role) -> ContextKeys {
        ContextKeys::new(enctype, ProtocolKey::InitiatorKey(&[5; 16]), role).expect("the right length")
    }

    /// Seals with a filler. `inner_ec` is the EC in the encrypted copy of the header.
    fn seal_with_filler(plain: &[u8], ec: u16, inner_ec: u16) -> Vec<u8> {
        let context = context(Enctype::Aes128CtsHmacSha1_96, Role::Initiator);
        let AnySuite::Aes128Sha1(keys) = context.suite() else { unreachable!("enctype 17") };
        let mut header = crate::token::sealed_header(context.direction, 9);
        header[4..6].copy_from_slice(&inner_ec.to_be_bytes());
        let filler = vec![0xff; usize::from(ec)];
        let mut body = [&[1; BLOCK][..], plain, &filler, &header].concat();
        let mac = keys.seal_mac.mac(&[&body]);
        let message = cts::Plain {
            key: &keys.seal,
            range: 0..body.len(),
            token: &mut Segments::from(&mut body),
            done: 0,
            chain: [0; BLOCK],
        };
        cts::encrypt::<Aes128Sha1>(&mut Run::new(Cpu::Portable), [message].into_iter());
        header[4..6].copy_from_slice(&ec.to_be_bytes());
        [&header[..], &body, &mac[..Aes128Sha1::ENCTYPE.mac_len()]].concat()
    }

    fn open_one(context: &ContextKeys, token: &mut [u8]) -> Result<Unwrapped, TokenError> {
        let mut batch =
            [UnwrapMessage { keys: context, token: token.into(), result: Err(TokenError::Malformed) }];
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
        // Kc of the initiator's seal usage. Only peers send such tokens, so this side has no key
        // for it.
        let derived =
            crate::derive::derive::<Aes128Sha256>(&padded([5; 16]), 24, crate::derive::KeyPurpose::Checksum);
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
