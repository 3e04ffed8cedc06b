//! Blocks, keys and lanes of AES.

use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, consts::U16};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// One AES block as the `aes` crate defines it.
pub(crate) type Block = aes::Block;
/// The length of an AES block in bytes.
pub(crate) const BLOCK: usize = 16;
/// The cipher state that the checksum of RFC 8009 section 5 covers before the ciphertext. It is
/// zero, as each token is encrypted independently.
pub(crate) const CIPHER_STATE: [u8; BLOCK] = [0; BLOCK];
/// The maximum number of messages in progress at once.
pub(crate) const LANES: usize = 16;
/// The number of bytes that hash and cipher process together: one block of SHA-1, four blocks of
/// AES.
pub(crate) const UNIT: usize = 64;

/// An encryption key of the `aes` crate.
pub(crate) trait Encrypt: BlockCipherEncrypt<BlockSize = U16> + Send + Sync {}
impl<T: BlockCipherEncrypt<BlockSize = U16> + Send + Sync> Encrypt for T {}

/// A decryption key of the `aes` crate.
pub(crate) trait Decrypt: BlockCipherDecrypt<BlockSize = U16> + Send + Sync {}
impl<T: BlockCipherDecrypt<BlockSize = U16> + Send + Sync> Decrypt for T {}

/// A key in two forms: for the `aes` crate, and as round keys for the code in `simd`.
pub(crate) struct Key<L> {
    pub(crate) library: L,
    pub(crate) rounds: RoundKeys,
}

/// The round keys in the order of their use, wiped on drop. Entries behind the last round are
/// zeros.
#[repr(C, align(64))]
pub(crate) struct RoundKeys(pub(crate) [[u8; BLOCK]; RoundKeys::MAX]);

/// A message during CBC encryption.
pub(crate) struct CbcLane<'l, L> {
    pub(crate) key: &'l Key<L>,
    /// The previous block of ciphertext, or the IV.
    pub(crate) chain: &'l mut [u8; BLOCK],
    /// The data behind that block.
    pub(crate) data: &'l mut [u8],
}

impl RoundKeys {
    /// The most round keys: a key of 256 bits takes 14 rounds, FIPS 197 section 5.
    pub(crate) const MAX: usize = 15;

    /// Expands a key of 16 or 32 bytes, FIPS 197 section 5.2.
    pub(crate) fn encrypting(key: &[u8]) -> Self {
        const WORD: usize = 4;
        let length = key.len() / WORD;
        let mut words = [[0; WORD]; 4 * Self::MAX];
        words.as_flattened_mut()[..key.len()].copy_from_slice(key);
        let mut constant = 1u8;
        for at in length..4 * (length + 7) {
            let mut word = words[at - 1];
            if at % length == 0 {
                word.rotate_left(1);
                word = substituted(word);
                word[0] ^= constant;
                constant = (constant << 1) ^ (0x1b * (constant >> 7));
            } else if length > 6 && at % length == 4 {
                word = substituted(word);
            }
            for (byte, before) in word.iter_mut().zip(words[at - length]) {
                *byte ^= before;
            }
            words[at] = word;
        }
        let mut keys = Self([[0; BLOCK]; Self::MAX]);
        keys.0.as_flattened_mut().copy_from_slice(words.as_flattened());
        words.as_flattened_mut().zeroize();
        keys
    }

    /// Expands a key of 16 or 32 bytes for the equivalent inverse cipher, FIPS 197 section 5.3.5.
    pub(crate) fn decrypting(key: &[u8]) -> Self {
        let mut keys = Self::encrypting(key);
        let rounds = key.len() / 4 + 6;
        keys.0[..=rounds].reverse();
        for key in &mut keys.0[1..rounds] {
            let mut block: Block = (*key).into();
            aes::hazmat::inv_mix_columns(&mut block);
            *key = block.into();
            block.as_mut_slice().zeroize();
        }
        keys
    }
}

/// Applies the S-box to a word without a table lookup: runs an AES round over four copies of the
/// word, then undoes the mixing.
fn substituted([a, b, c, d]: [u8; 4]) -> [u8; 4] {
    let mut block: Block = [a, b, c, d, a, b, c, d, a, b, c, d, a, b, c, d].into();
    aes::hazmat::cipher_round(&mut block, &Block::default());
    aes::hazmat::inv_mix_columns(&mut block);
    let word = [block[0], block[1], block[2], block[3]];
    block.as_mut_slice().zeroize();
    word
}

impl Drop for RoundKeys {
    fn drop(&mut self) {
        self.0.as_flattened_mut().zeroize();
    }
}

impl ZeroizeOnDrop for RoundKeys {}
