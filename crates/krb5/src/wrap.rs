//! Sealed wrap tokens, RFC 4121 section 4.2.6.2.
//!
//! ```text
//! header | encrypted { confounder | plaintext | copy of the header } | checksum
//! ```

use crate::{
    ContextKeys,
    cipher::{Aes128Sha1, Aes128Sha256, Aes256Sha1, Aes256Sha384, BLOCK, Suite},
    cts,
    hmac::{Message, mac_each},
    token::{HEADER_LEN, sealed_header},
};

/// How many bytes a token has before its plaintext: the header and the confounder.
pub const WRAP_HEADROOM: usize = HEADER_LEN + BLOCK;

/// The cipher state that the checksum of RFC 8009 section 5 covers before the ciphertext: zeros, as each
/// token is encrypted on its own.
pub(crate) const CIPHER_STATE: [u8; BLOCK] = [0; BLOCK];

/// How many messages are sorted by context at once: each is compared with those before it.
const WINDOW: usize = 64;

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
/// Messages of one context are encrypted together, 16 of them are the fastest; messages of one enctype are signed
/// together. Nothing is allocated when the buffers have room for the trailers.
///
/// # Panics
/// If a buffer ends before `start + WRAP_HEADROOM`.
pub fn wrap(batch: &mut [WrapMessage<'_>]) {
    for message in batch.iter_mut() {
        message.lay_out();
    }
    seal::<Aes128Sha1>(batch);
    seal::<Aes256Sha1>(batch);
    seal::<Aes128Sha256>(batch);
    seal::<Aes256Sha384>(batch);
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

/// Encrypts and signs the messages of one enctype.
fn seal<S: Suite>(batch: &mut [WrapMessage<'_>]) {
    if S::ENCTYPE.encrypts_then_macs() {
        encrypt::<S>(batch);
        sign::<S>(batch, &CIPHER_STATE);
    } else {
        sign::<S>(batch, &[]);
        encrypt::<S>(batch);
    }
}

/// Encrypts, the messages of each context together.
fn encrypt<S: Suite>(batch: &mut [WrapMessage<'_>]) {
    for window in batch.chunks_mut(WINDOW) {
        for first in 0..window.len() {
            let (earlier, later) = window.split_at_mut(first);
            let Some(context) = later.first().map(|message| message.keys) else { continue };
            let Some(keys) = S::of(&context.suite) else { continue };
            if earlier.iter().any(|message| std::ptr::eq(message.keys, context)) {
                continue;
            }
            let same = later.iter_mut().filter(|message| std::ptr::eq(message.keys, context));
            cts::encrypt(&keys.seal, same.map(|message| message.parts().0));
        }
    }
}

/// Puts the checksums of `prefix` and of what the messages hold now.
fn sign<S: Suite>(batch: &mut [WrapMessage<'_>], prefix: &[u8]) {
    let messages = batch.iter_mut().filter_map(|message| {
        let keys = S::of(&message.keys.suite)?;
        let (body, mac) = message.parts();
        Some((Message { key: &keys.seal_mac, prefix, data: body, suffix: None }, mac))
    });
    mac_each(messages, |mac, digest| mac.copy_from_slice(&digest[..mac.len()]));
}
