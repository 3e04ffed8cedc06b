//! The cipher and the hash of each enctype.

use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit, array::Array, consts::U16};
use zeroize::{Zeroize, ZeroizeOnDrop};

#[cfg(target_arch = "x86_64")]
use crate::simd;
use crate::{
    Cpu, Enctype,
    hash::{Hash, Sha1, Sha256, Sha384},
    keys::{AnySuite, SuiteKeys},
    portable,
};

/// One AES block as the `aes` crate defines it.
pub(crate) type Block = aes::Block;
/// The length of an AES block in bytes.
pub(crate) const BLOCK: usize = 16;
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

/// A message that is hashed and encrypted unit by unit. A unit is one block of the hash.
pub(crate) struct FusedLane<'l, S: Suite> {
    pub(crate) keys: &'l RoundKeys,
    pub(crate) chain: &'l mut [u8; BLOCK],
    pub(crate) state: &'l mut <S::Hash as Hash>::State,
    pub(crate) data: &'l mut [u8],
}

/// The algorithms of one enctype.
pub(crate) trait Suite: Sized + 'static {
    type Encrypt: Encrypt;
    type Decrypt: Decrypt;
    type Hash: Hash;
    const ENCTYPE: Enctype;

    /// Sets up a key for encryption from the first [`Enctype::key_len`] bytes.
    fn encrypt_key(key: &[u8; 32]) -> Key<Self::Encrypt>;
    /// Sets up a key for decryption from the first [`Enctype::key_len`] bytes.
    fn decrypt_key(key: &[u8; 32]) -> Key<Self::Decrypt>;
    /// Returns the keys if they are of this enctype.
    fn of(suite: &AnySuite) -> Option<&SuiteKeys<Self>>;

    /// Encrypts the first `blocks` blocks of each of up to [`LANES`] lanes.
    fn encrypt<'l>(cpu: Cpu, lanes: impl Iterator<Item = CbcLane<'l, Self::Encrypt>>, blocks: usize);
    /// Decrypts blocks. `chain` is the ciphertext block before them, and is set to their last one.
    fn decrypt(cpu: Cpu, key: &Key<Self::Decrypt>, chain: &mut [u8; BLOCK], blocks: &mut [[u8; BLOCK]]);
    /// Returns whether a batch of this many messages is hashed and encrypted in one pass.
    fn fuses(cpu: Cpu, messages: usize) -> bool;
    /// Hashes and encrypts the first `units` hash blocks of each lane, in the order that the
    /// enctype requires. Call it only if [`Suite::fuses`] returns true.
    fn seal<'l>(cpu: Cpu, lanes: impl Iterator<Item = FusedLane<'l, Self>>, units: usize);
}

macro_rules! suite {
    ($name:ident, $enctype:ident, $encrypt:ident, $decrypt:ident, $rounds:literal, $hash:ident, $fuses:ident $seal:ident) => {
        pub(crate) struct $name;

        impl Suite for $name {
            type Encrypt = aes::$encrypt;
            type Decrypt = aes::$decrypt;
            type Hash = $hash;
            const ENCTYPE: Enctype = Enctype::$enctype;

            fn encrypt_key(key: &[u8; 32]) -> Key<Self::Encrypt> {
                Key { library: set_up(key), rounds: RoundKeys::encrypting(&key[..Self::ENCTYPE.key_len()]) }
            }

            fn decrypt_key(key: &[u8; 32]) -> Key<Self::Decrypt> {
                Key { library: set_up(key), rounds: RoundKeys::decrypting(&key[..Self::ENCTYPE.key_len()]) }
            }

            fn of(suite: &AnySuite) -> Option<&SuiteKeys<Self>> {
                if let AnySuite::$name(keys) = suite { Some(keys) } else { None }
            }

            fn encrypt<'l>(
                cpu: Cpu,
                lanes: impl Iterator<Item = CbcLane<'l, Self::Encrypt>>,
                blocks: usize,
            ) {
                match cpu {
                    #[cfg(target_arch = "x86_64")]
                    Cpu::Avx512 | Cpu::Avx2 | Cpu::AesNi => {
                        let lanes = lanes.map(|CbcLane { key, chain, data }| simd::CbcLane {
                            keys: &key.rounds,
                            chain,
                            data,
                        });
                        simd::encrypt::<$rounds>(cpu, lanes, blocks);
                    }
                    _ => portable::encrypt(lanes, blocks),
                }
            }

            fn decrypt(
                cpu: Cpu,
                key: &Key<Self::Decrypt>,
                chain: &mut [u8; BLOCK],
                blocks: &mut [[u8; BLOCK]],
            ) {
                match cpu {
                    #[cfg(target_arch = "x86_64")]
                    Cpu::Avx512 | Cpu::Avx2 | Cpu::AesNi => {
                        simd::decrypt::<$rounds>(cpu, &key.rounds, chain, blocks);
                    }
                    _ => portable::decrypt(&key.library, chain, blocks),
                }
            }

            suite!($fuses $seal $rounds);
        }
    };
    ($fuses:ident $seal:ident $rounds:literal) => {
        fn fuses(cpu: Cpu, messages: usize) -> bool {
            #[cfg(target_arch = "x86_64")]
            return simd::$fuses(cpu, messages);
            #[cfg(not(target_arch = "x86_64"))]
            return { let _ = (cpu, messages); false };
        }

        fn seal<'l>(cpu: Cpu, lanes: impl Iterator<Item = FusedLane<'l, Self>>, units: usize) {
            #[cfg(target_arch = "x86_64")]
            simd::$seal::<$rounds>(cpu, lanes.map(simd::SealLane::from), units);
            #[cfg(not(target_arch = "x86_64"))]
            let _ = (cpu, lanes, units);
        }
    };
}

suite!(Aes128Sha1, Aes128CtsHmacSha1_96, Aes128Enc, Aes128Dec, 10, Sha1, fuses seal);
suite!(Aes256Sha1, Aes256CtsHmacSha1_96, Aes256Enc, Aes256Dec, 14, Sha1, fuses seal);
suite!(Aes128Sha256, Aes128CtsHmacSha256_128, Aes128Enc, Aes128Dec, 10, Sha256, fuses_sha256 seal_sha256);
suite!(Aes256Sha384, Aes256CtsHmacSha384_192, Aes256Enc, Aes256Dec, 14, Sha384, fuses_sha384 seal_sha384);

/// Makes a cipher from as many bytes of the key as it needs.
fn set_up<C: KeyInit>(key: &[u8; 32]) -> C {
    let mut exact = Array::<u8, C::KeySize>::default();
    for (to, from) in exact.iter_mut().zip(key) {
        *to = *from;
    }
    let cipher = C::new(&exact);
    exact.as_mut_slice().zeroize();
    cipher
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
    fn decrypting(key: &[u8]) -> Self {
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
