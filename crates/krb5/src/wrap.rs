//! Sealed wrap tokens, RFC 4121 section 4.2.6.2.
//!
//! ```text
//! header | encrypted { confounder | plaintext | copy of the header } | checksum
//! ```

use crate::{
    ContextKeys,
    cipher::{BLOCK, Suite},
    cts,
    keys::{AnySuite, SuiteKeys},
    token::{HEADER_LEN, sealed_header},
};

/// How many bytes a token has before its plaintext: the header and the confounder.
pub const WRAP_HEADROOM: usize = HEADER_LEN + BLOCK;

/// The cipher state that the checksum of RFC 8009 section 5 covers before the ciphertext: zeros, as each
/// token is encrypted on its own.
pub(crate) const CIPHER_STATE: [u8; BLOCK] = [0; BLOCK];

/// Plaintext to seal, in place.
#[derive(Debug)]
pub struct WrapMessage<'a> {
    /// The context's keys.
    pub keys: &'a ContextKeys,
    /// The sequence number of the token, the sender's next.
    pub sequence: u64,
    /// Random bytes, drawn for this message alone.
    pub confounder: [u8; 16],
    /// The plaintext lies from `start + WRAP_HEADROOM` to the end. Afterwards the token lies from `start` to the
    /// end, which is [`ContextKeys::wrap_trailer_len`] bytes further.
    pub buffer: &'a mut Vec<u8>,
    /// Where the token begins.
    pub start: usize,
}

/// Seals each message of a batch.
///
/// A batch with 16 messages or more of one enctype is the fastest, whosever keys they use. Nothing is allocated
/// when the buffers have room for the trailers.
///
/// # Panics
/// If a buffer ends before `start + WRAP_HEADROOM`.
pub fn wrap(batch: &mut [WrapMessage<'_>]) {
    for message in batch.iter_mut() {
        message.lay_out();
    }
    seal(batch, |suite| if let AnySuite::Aes128Sha1(keys) = suite { Some(&**keys) } else { None });
    seal(batch, |suite| if let AnySuite::Aes256Sha1(keys) = suite { Some(&**keys) } else { None });
    seal(batch, |suite| if let AnySuite::Aes128Sha256(keys) = suite { Some(&**keys) } else { None });
    seal(batch, |suite| if let AnySuite::Aes256Sha384(keys) = suite { Some(&**keys) } else { None });
}

impl WrapMessage<'_> {
    /// Puts everything in its place that is not computed from the plaintext.
    fn lay_out(&mut self) {
        let header = sealed_header(self.keys.direction, self.sequence);
        let (front, _) = self.buffer[self.start..]
            .split_first_chunk_mut::<WRAP_HEADROOM>()
            .expect("the caller leaves WRAP_HEADROOM bytes before the plaintext");
        front[..HEADER_LEN].copy_from_slice(&header);
        front[HEADER_LEN..].copy_from_slice(&self.confounder);
        let token_len = self.buffer.len() + self.keys.wrap_trailer_len();
        self.buffer.extend_from_slice(&header);
        self.buffer.resize(token_len, 0);
    }

    /// Returns what is encrypted, and the place of the checksum.
    fn parts(&mut self) -> (&mut [u8], &mut [u8]) {
        let mac_len = self.keys.enctype().mac_len();
        let body = &mut self.buffer[self.start + HEADER_LEN..];
        body.split_at_mut(body.len() - mac_len)
    }
}

/// Encrypts and signs the messages of one enctype, those that `pick` finds keys for.
fn seal<S: Suite>(batch: &mut [WrapMessage<'_>], pick: impl Fn(&AnySuite) -> Option<&SuiteKeys<S>>) {
    if !S::ENCTYPE.encrypts_then_macs() {
        sign(batch, &pick, &[]);
    }
    cts::encrypt(batch.iter_mut().filter_map(|message| {
        let keys = pick(&message.keys.suite)?;
        Some((&keys.seal, message.parts().0))
    }));
    if S::ENCTYPE.encrypts_then_macs() {
        sign(batch, &pick, &CIPHER_STATE);
    }
}

/// Puts the checksums of what the parts to encrypt hold now, with `prefix` before it.
fn sign<S: Suite>(
    batch: &mut [WrapMessage<'_>],
    pick: &impl Fn(&AnySuite) -> Option<&SuiteKeys<S>>,
    prefix: &[u8],
) {
    for message in batch {
        let Some(keys) = pick(&message.keys.suite) else { continue };
        let (body, mac) = message.parts();
        let digest = keys.seal_mac.mac(&[prefix, body]);
        mac.copy_from_slice(&digest[..mac.len()]);
    }
}
