//! The compression functions of the hashes, behind one trait.
//!
//! HMAC needs the state of a hash after one block, and the library's hashers do not hand it out in a form
//! that can be wiped and copied cheaply; its block functions do.

use zeroize::Zeroize;

/// The longest block of a hash that is used, in bytes.
pub(crate) const BLOCK_MAX: usize = 128;
/// The longest digest of a hash that is used, in bytes.
pub(crate) const DIGEST_MAX: usize = 48;

/// A Merkle-Damgard hash with big-endian words and length.
pub(crate) trait Hash {
    /// The chaining value.
    type State: Copy + Zeroize + Send + Sync;
    /// The chaining value before the first block.
    const INITIAL: Self::State;
    /// The length of a block in bytes.
    const BLOCK: usize;
    /// The length of the digest in bytes.
    const DIGEST: usize;
    /// The length in bytes of the message length that ends the padding.
    const LENGTH: usize;

    /// Takes whole blocks in; a remainder is not looked at.
    fn compress(state: &mut Self::State, blocks: &[u8]);

    /// Writes the digest to the front of `out`, which holds [`DIGEST_MAX`] bytes.
    fn digest(state: &Self::State, out: &mut [u8; DIGEST_MAX]);
}

pub(crate) struct Sha1;
pub(crate) struct Sha256;
pub(crate) struct Sha384;

impl Hash for Sha1 {
    type State = [u32; 5];
    const INITIAL: Self::State = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    const BLOCK: usize = 64;
    const DIGEST: usize = 20;
    const LENGTH: usize = 8;

    #[inline]
    fn compress(state: &mut Self::State, blocks: &[u8]) {
        sha1::block_api::compress(state, blocks.as_chunks().0);
    }

    fn digest(state: &Self::State, out: &mut [u8; DIGEST_MAX]) {
        write_words(state.iter().map(|word| word.to_be_bytes()), out);
    }
}

impl Hash for Sha256 {
    type State = [u32; 8];
    const INITIAL: Self::State = [
        0x6a09_e667,
        0xbb67_ae85,
        0x3c6e_f372,
        0xa54f_f53a,
        0x510e_527f,
        0x9b05_688c,
        0x1f83_d9ab,
        0x5be0_cd19,
    ];
    const BLOCK: usize = 64;
    const DIGEST: usize = 32;
    const LENGTH: usize = 8;

    #[inline]
    fn compress(state: &mut Self::State, blocks: &[u8]) {
        sha2::block_api::compress256(state, blocks.as_chunks().0);
    }

    fn digest(state: &Self::State, out: &mut [u8; DIGEST_MAX]) {
        write_words(state.iter().map(|word| word.to_be_bytes()), out);
    }
}

impl Hash for Sha384 {
    type State = [u64; 8];
    const INITIAL: Self::State = [
        0xcbbb_9d5d_c105_9ed8,
        0x629a_292a_367c_d507,
        0x9159_015a_3070_dd17,
        0x152f_ecd8_f70e_5939,
        0x6733_2667_ffc0_0b31,
        0x8eb4_4a87_6858_1511,
        0xdb0c_2e0d_64f9_8fa7,
        0x47b5_481d_befa_4fa4,
    ];
    const BLOCK: usize = 128;
    const DIGEST: usize = 48;
    const LENGTH: usize = 16;

    #[inline]
    fn compress(state: &mut Self::State, blocks: &[u8]) {
        sha2::block_api::compress512(state, blocks.as_chunks().0);
    }

    fn digest(state: &Self::State, out: &mut [u8; DIGEST_MAX]) {
        write_words(state.iter().map(|word| word.to_be_bytes()), out);
    }
}

/// Writes words until one side ends: SHA-384 drops the last two of its eight.
fn write_words<const N: usize>(words: impl Iterator<Item = [u8; N]>, out: &mut [u8; DIGEST_MAX]) {
    for (bytes, word) in out.as_chunks_mut().0.iter_mut().zip(words) {
        *bytes = word;
    }
}
