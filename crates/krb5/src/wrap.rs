//! Sealed wrap tokens, RFC 4121 section 4.2.6.2.
//!
//! ```text
//! header | encrypted { confounder | plaintext | copy of the header } | checksum
//! ```

use crate::{
    ContextKeys,
    cipher::{BLOCK, Suite},
    cts,
    hash::Hash,
    hmac::{Message, mac_each},
    keys::{SuiteKeys, with_suite},
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
/// Messages of one context are worked on together: 16 of them are the fastest. Nothing is allocated when the
/// buffers have room for the trailers.
///
/// # Panics
/// If a buffer ends before `start + WRAP_HEADROOM`.
pub fn wrap(batch: &mut [WrapMessage<'_>]) {
    for message in batch.iter_mut() {
        message.lay_out();
    }
    for window in batch.chunks_mut(WINDOW) {
        for first in 0..window.len() {
            let (earlier, later) = window.split_at_mut(first);
            let Some(context) = later.first().map(|message| message.keys) else { continue };
            if !earlier.iter().any(|message| message.is_of(context)) {
                with_suite!(&context.suite, keys => seal(context, keys, later));
            }
        }
    }
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

    fn is_of(&self, context: &ContextKeys) -> bool {
        std::ptr::eq(self.keys, context)
    }

    /// Returns what is encrypted, and the place of the checksum.
    fn parts(&mut self) -> (&mut [u8], &mut [u8]) {
        let mac_len = self.keys.enctype().mac_len();
        let body = &mut self.buffer[self.start + HEADER_LEN..];
        body.split_at_mut(body.len() - mac_len)
    }
}

/// Encrypts and signs the messages of a context.
fn seal<S: Suite>(context: &ContextKeys, keys: &SuiteKeys<S>, batch: &mut [WrapMessage<'_>]) {
    let mut messages = batch.iter_mut().filter(|message| message.is_of(context));
    if let (Some(only), None) = (messages.next(), messages.next()) {
        seal_one(keys, only);
    } else if S::ENCTYPE.encrypts_then_macs() {
        encrypt(context, keys, batch);
        sign(context, keys, batch, &CIPHER_STATE);
    } else {
        sign(context, keys, batch, &[]);
        encrypt(context, keys, batch);
    }
}

/// Encrypts and signs a message on its way: hashing costs little beside a chain of blocks.
fn seal_one<S: Suite>(keys: &SuiteKeys<S>, message: &mut WrapMessage<'_>) {
    let (body, mac) = message.parts();
    let mut hmac = keys.seal_mac.begin();
    let mut hashed = 0;
    if S::ENCTYPE.encrypts_then_macs() {
        hmac.update(&CIPHER_STATE);
        // The last two blocks are swapped in the end, so they are hashed in the end.
        let settled = (body.len() / BLOCK * BLOCK).saturating_sub(2 * BLOCK);
        cts::encrypt_one(&keys.seal, body, S::Hash::BLOCK, |data, at| {
            // Whole blocks of the hash; the first is shorter by the cipher state.
            let end = at.min(settled).saturating_sub(BLOCK);
            if let Some(next) = data.get(hashed..end) {
                hmac.update(next);
                hashed = end;
            }
        });
    } else {
        cts::encrypt_one(&keys.seal, body, S::Hash::BLOCK, |data, at| {
            // What is encrypted next, and the rest when no other block follows.
            if at >= hashed {
                let end = at + S::Hash::BLOCK;
                hashed = if end > data.len() / BLOCK * BLOCK { data.len() } else { end };
                hmac.update(&data[at..hashed]);
            }
        });
    }
    hmac.update(&body[hashed..]);
    let digest = hmac.finish();
    mac.copy_from_slice(&digest[..mac.len()]);
}

fn encrypt<S: Suite>(context: &ContextKeys, keys: &SuiteKeys<S>, batch: &mut [WrapMessage<'_>]) {
    let messages = batch.iter_mut().filter(|message| message.is_of(context));
    cts::encrypt(&keys.seal, messages.map(|message| message.parts().0));
}

/// Puts the checksums of `prefix` and of what the messages hold now.
fn sign<S: Suite>(context: &ContextKeys, keys: &SuiteKeys<S>, batch: &mut [WrapMessage<'_>], prefix: &[u8]) {
    let messages = batch.iter_mut().filter(|message| message.is_of(context)).map(|message| {
        let (body, mac) = message.parts();
        (Message { key: &keys.seal_mac, prefix, data: body, suffix: None }, mac)
    });
    mac_each(messages, |mac, digest| mac.copy_from_slice(&digest[..mac.len()]));
}
