//! The cipher and the hash of each enctype.

use aes::cipher::{KeyInit, array::Array};
use zeroize::Zeroize;

#[cfg(target_arch = "x86_64")]
use crate::simd;
use crate::{
    Cpu, Enctype,
    cipher::{BLOCK, CbcLane, Decrypt, Encrypt, Key, RoundKeys},
    hash::{Hash, Sha1, Sha256, Sha384},
    portable,
};

/// A message that is hashed and encrypted unit by unit. A unit is one block of the hash.
pub(crate) struct FusedLane<'l, S: Suite> {
    pub(crate) keys: &'l RoundKeys,
    pub(crate) chain: &'l mut [u8; BLOCK],
    pub(crate) state: &'l mut <S::Hash as Hash>::State,
    pub(crate) data: &'l mut [u8],
}

#[cfg(target_arch = "x86_64")]
impl<'l, S: Suite> From<FusedLane<'l, S>> for simd::SealLane<'l, <S::Hash as Hash>::State> {
    fn from(FusedLane { keys, chain, state, data }: FusedLane<'l, S>) -> Self {
        Self { cbc: simd::CbcLane { keys, chain, data }, state }
    }
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

    /// Encrypts the first `blocks` blocks of each of up to [`LANES`](crate::cipher::LANES) lanes.
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
