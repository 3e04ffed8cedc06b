//! HMAC (RFC 2104). It keeps the two keyed hash states, so that a message needs no key set-up.

use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::hash::{BLOCK_MAX, DIGEST_MAX, Hash};

/// A key, stored as the hash states after the inner and the outer pad.
pub(crate) struct HmacKey<H: Hash> {
    pub(crate) inner: H::State,
    pub(crate) outer: H::State,
}

impl<H: Hash> HmacKey<H> {
    /// Sets up a key. Keys in this crate are never longer than a block.
    pub(crate) fn new(key: &[u8]) -> Self {
        debug_assert!(key.len() <= H::BLOCK);
        Self { inner: padded::<H>(key, 0x36), outer: padded::<H>(key, 0x5c) }
    }

    /// Starts a message with an empty inner hash.
    pub(crate) fn begin(&self) -> Hmac<'_, H> {
        self.go_on(self.inner, H::BLOCK as u64)
    }

    /// Continues from `state`, which covers `length` bytes in whole blocks, the block of the key
    /// included.
    pub(crate) fn go_on(&self, state: H::State, length: u64) -> Hmac<'_, H> {
        Hmac { key: self, state, pending: [0; 2 * BLOCK_MAX], used: 0, length }
    }

    /// Computes the digest of the concatenated parts.
    pub(crate) fn mac(&self, parts: &[&[u8]]) -> Digest {
        let total: usize = parts.iter().map(|part| part.len()).sum();
        if total + 1 + H::LENGTH <= SHORT {
            return self.mac_short(parts, (H::BLOCK + total) as u64);
        }
        let mut hmac = self.begin();
        for part in parts {
            hmac.update(part);
        }
        hmac.finish()
    }

    /// Hashes parts that fit into one buffer with their padding. `length` counts their bytes and
    /// the block of the key.
    fn mac_short(&self, parts: &[&[u8]], length: u64) -> Digest {
        let mut buffer = [0; SHORT];
        let mut used = 0;
        for part in parts {
            buffer[used..used + part.len()].copy_from_slice(part);
            used += part.len();
        }
        let blocks = pad_zeros::<H>(&mut buffer, used, length);
        let mut state = self.inner;
        H::compress(&mut state, &buffer[..blocks * H::BLOCK]);
        self.outer(&state)
    }

    /// Applies the outer hash to the inner one (RFC 2104 section 2).
    fn outer(&self, inner: &H::State) -> Digest {
        let mut digest = [0; DIGEST_MAX];
        H::digest(inner, &mut digest);
        let mut block = [0; BLOCK_MAX];
        block[..H::DIGEST].copy_from_slice(&digest[..H::DIGEST]);
        pad_zeros::<H>(&mut block, H::DIGEST, (H::BLOCK + H::DIGEST) as u64);
        let mut outer = self.outer;
        H::compress(&mut outer, &block[..H::BLOCK]);
        H::digest(&outer, &mut digest);
        digest
    }
}

/// The number of bytes, with padding, up to which [`Hmac`] and its buffering are skipped. Verifiers
/// and most headers of calls are shorter.
const SHORT: usize = 2 * BLOCK_MAX;

impl<H: Hash> Drop for HmacKey<H> {
    fn drop(&mut self) {
        self.inner.zeroize();
        self.outer.zeroize();
    }
}

impl<H: Hash> ZeroizeOnDrop for HmacKey<H> {}

fn padded<H: Hash>(key: &[u8], pad: u8) -> H::State {
    let mut block = [pad; BLOCK_MAX];
    for (byte, key) in block.iter_mut().zip(key) {
        *byte ^= key;
    }
    let mut state = H::INITIAL;
    H::compress(&mut state, &block[..H::BLOCK]);
    block.zeroize();
    state
}

/// A digest. Only its first `H::DIGEST` bytes are used, and tokens use fewer.
pub(crate) type Digest = [u8; DIGEST_MAX];

/// A message that is being hashed.
pub(crate) struct Hmac<'k, H: Hash> {
    key: &'k HmacKey<H>,
    state: H::State,
    /// A buffer of two blocks, since padding may take two.
    pending: [u8; 2 * BLOCK_MAX],
    /// The number of bytes in `pending`: always less than a block.
    used: usize,
    /// The bytes hashed and pending, with the block of the key.
    length: u64,
}

impl<H: Hash> Hmac<'_, H> {
    /// Hashes more bytes of the message.
    pub(crate) fn update(&mut self, mut data: &[u8]) {
        self.length += data.len() as u64;
        if self.used > 0 {
            let (now, later) = data.split_at(data.len().min(H::BLOCK - self.used));
            self.pending[self.used..self.used + now.len()].copy_from_slice(now);
            self.used += now.len();
            data = later;
            if self.used < H::BLOCK {
                return;
            }
            H::compress(&mut self.state, &self.pending[..H::BLOCK]);
            self.used = 0;
        }
        let (blocks, rest) = data.split_at(data.len() - data.len() % H::BLOCK);
        H::compress(&mut self.state, blocks);
        self.pending[..rest.len()].copy_from_slice(rest);
        self.used = rest.len();
    }

    /// Pads the message and returns its digest.
    pub(crate) fn finish(mut self) -> Digest {
        let blocks = pad::<H>(&mut self.pending, self.used, self.length);
        H::compress(&mut self.state, &self.pending[..blocks * H::BLOCK]);
        self.key.outer(&self.state)
    }
}

/// Pads a message whose last `used` bytes are in the buffer: one bit, zeros, the length in bits.
/// Returns the number of blocks; the buffer must have space for them.
pub(crate) fn pad<H: Hash>(buffer: &mut [u8], used: usize, length: u64) -> usize {
    let end = (used + 1 + H::LENGTH).div_ceil(H::BLOCK) * H::BLOCK;
    buffer[used..end].fill(0);
    pad_zeros::<H>(buffer, used, length)
}

/// Pads like [`pad`] in a buffer that has only zeros behind the message.
fn pad_zeros<H: Hash>(buffer: &mut [u8], used: usize, length: u64) -> usize {
    let blocks = (used + 1 + H::LENGTH).div_ceil(H::BLOCK);
    let end = blocks * H::BLOCK;
    buffer[used] = 0x80;
    buffer[end - 8..end].copy_from_slice(&(length * 8).to_be_bytes());
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{Sha1, Sha256, Sha384};
    use hmac::{KeyInit, Mac};

    fn agrees<H: Hash, M: Mac + KeyInit>() {
        let data: Vec<u8> = (0..1000u32).map(|i| (i * 7) as u8).collect();
        let key = HmacKey::<H>::new(&data[3..27]);
        for length in 0..data.len() {
            let mut theirs = <M as KeyInit>::new_from_slice(&data[3..27]).expect("any length");
            theirs.update(&data[..length]);
            let theirs = theirs.finalize().into_bytes();
            let cut = length * 5 / 7;
            let ours = key.mac(&[&data[..cut / 3], &data[cut / 3..cut], &data[cut..length]]);
            assert_eq!(ours[..H::DIGEST], theirs[..], "length {length}");
        }
    }

    #[test]
    fn the_states_kept_give_the_digests_of_the_library_for_every_length() {
        // RFC 2104 section 4
        agrees::<Sha1, hmac::Hmac<sha1::Sha1>>();
        agrees::<Sha256, hmac::Hmac<sha2::Sha256>>();
        agrees::<Sha384, hmac::Hmac<sha2::Sha384>>();
    }
}
