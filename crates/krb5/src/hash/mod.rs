//! The compression functions of the hashes, behind one trait.
//!
//! HMAC needs the state of a hash after one block. The hashers of the crates do not export it in a
//! form that can be wiped and copied cheaply; their block functions do.
//!
//! A hash of one message is a chain of dependent instructions. [`Hash::compress_columns`] processes
//! up to [`Hash::LANES`] messages in lock step, and picks the fastest kernel for their number:
//!
//! | module | kernels |
//! |---|---|
//! | `avx512` | rows of 512 and of 256 bits over many messages |
//! | `avx2` | rows of 256 bits |
//! | `scalar` | SHA-384 of one message in general-purpose registers |
//! | `sha_ni` | the SHA instructions, a few messages interleaved |
//! | this file | the block functions of the crates |

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
mod columns;
pub mod measure;
#[cfg(target_arch = "x86_64")]
pub(crate) mod rows;
#[cfg(target_arch = "x86_64")]
pub(crate) mod scalar;
#[cfg(target_arch = "x86_64")]
pub(crate) mod sha1_lanes;
#[cfg(target_arch = "x86_64")]
pub(crate) mod sha2_lanes;
#[cfg(target_arch = "x86_64")]
pub(crate) mod sha_ni;
#[cfg(test)]
mod tests;
mod units;
#[cfg(target_arch = "x86_64")]
mod x86;

use zeroize::Zeroize;

use crate::Cpu;
pub(crate) use columns::{Columns, StateColumns};
#[cfg(target_arch = "x86_64")]
pub(crate) use units::Maker;
pub(crate) use units::Units;

/// The longest block of the hashes in bytes.
pub(crate) const BLOCK_MAX: usize = 128;
/// The longest digest of the hashes in bytes.
pub(crate) const DIGEST_MAX: usize = 48;
/// The most messages that a hash processes at once.
pub(crate) const LANES_MAX: usize = 16;

/// A Merkle-Damgard hash with big-endian words and length.
pub(crate) trait Hash {
    /// The chaining value of one message.
    type State: Copy + Zeroize + Send + Sync;
    /// The transposed chaining values of [`Hash::LANES`] messages.
    type Columns: StateColumns<Self::State>;
    /// The chaining value before the first block.
    const INITIAL: Self::State;
    /// The length of a block in bytes.
    const BLOCK: usize;
    /// The length of the digest in bytes.
    const DIGEST: usize;
    /// The length in bytes of the message length at the end of the padding.
    const LENGTH: usize;
    /// The most messages that the hash processes at once.
    const LANES: usize;

    /// Hashes whole blocks; a remainder is ignored.
    fn compress(state: &mut Self::State, blocks: &[u8]);

    /// Hashes the first `blocks` blocks of each lane. Column `n` is the state of lane `n`; columns
    /// behind the last lane are overwritten.
    ///
    /// # Panics
    /// If there are more than [`Hash::LANES`] lanes, or one is shorter than `blocks` blocks.
    fn compress_columns(units: Units, columns: &mut Self::Columns, lanes: &[&[u8]], blocks: usize);

    /// Does the same with the kernel of this name. Returns whether it supports this number of
    /// lanes.
    fn compress_by(way: &str, columns: &mut Self::Columns, lanes: &[&[u8]], blocks: usize) -> bool;

    /// Returns the number of lanes that are worth filling.
    fn lanes_max(units: Units) -> usize {
        units.lanes_max(Self::LANES)
    }

    /// Writes the digest to the front of `out`, which holds [`DIGEST_MAX`] bytes.
    fn digest(state: &Self::State, out: &mut [u8; DIGEST_MAX]);
}

/// Implements a hash by its words, the block function of its crate, and its kernels on x86-64.
macro_rules! hash {
    ($name:ident, [$word:ty; $words:literal], $library:path, $ways:ident, lanes $lanes:literal, block $block:literal,
     digest $digest:literal, length $length:literal, $initial:expr) => {
        pub(crate) struct $name;

        impl Hash for $name {
            type State = [$word; $words];
            type Columns = Columns<$word, $words, $lanes>;
            const INITIAL: Self::State = $initial;
            const BLOCK: usize = $block;
            const DIGEST: usize = $digest;
            const LENGTH: usize = $length;
            const LANES: usize = $lanes;

            #[inline]
            fn compress(state: &mut Self::State, blocks: &[u8]) {
                $library(state, blocks.as_chunks().0);
            }

            fn compress_columns(units: Units, columns: &mut Self::Columns, lanes: &[&[u8]], blocks: usize) {
                #[cfg(target_arch = "x86_64")]
                if let Some(way) = units.$ways(lanes.len())
                    && x86::$ways(way, units, &mut columns.0, lanes, blocks)
                {
                    return;
                }
                by_the_library::<Self>(columns, lanes, blocks);
            }

            fn compress_by(way: &str, columns: &mut Self::Columns, lanes: &[&[u8]], blocks: usize) -> bool {
                #[cfg(target_arch = "x86_64")]
                if let Some(way) = x86::Way::named(way) {
                    return x86::$ways(way, Units::of(Cpu::Avx512), &mut columns.0, lanes, blocks);
                }
                false
            }

            fn digest(state: &Self::State, out: &mut [u8; DIGEST_MAX]) {
                write_words(state.iter().map(|word| word.to_be_bytes()), out);
            }
        }
    };
}

hash!(
    Sha1, [u32; 5], sha1::block_api::compress, sha1, lanes 16, block 64, digest 20, length 8,
    [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0]
);
hash!(
    Sha256, [u32; 8], sha2::block_api::compress256, sha256, lanes 16, block 64, digest 32, length 8,
    [
        0x6a09_e667,
        0xbb67_ae85,
        0x3c6e_f372,
        0xa54f_f53a,
        0x510e_527f,
        0x9b05_688c,
        0x1f83_d9ab,
        0x5be0_cd19,
    ]
);
hash!(
    Sha384, [u64; 8], sha2::block_api::compress512, sha512, lanes 8, block 128, digest 48, length 16,
    [
        0xcbbb_9d5d_c105_9ed8,
        0x629a_292a_367c_d507,
        0x9159_015a_3070_dd17,
        0x152f_ecd8_f70e_5939,
        0x6733_2667_ffc0_0b31,
        0x8eb4_4a87_6858_1511,
        0xdb0c_2e0d_64f9_8fa7,
        0x47b5_481d_befa_4fa4,
    ]
);

/// Writes words until either side ends: SHA-384 drops the last two of its eight words.
fn write_words<const N: usize>(words: impl Iterator<Item = [u8; N]>, out: &mut [u8; DIGEST_MAX]) {
    for (bytes, word) in out.as_chunks_mut().0.iter_mut().zip(words) {
        *bytes = word;
    }
}

/// Compresses by the block functions of the crates. A single lane is hashed in one call. Several
/// lanes are interleaved block by block, so that the processor overlaps their work.
fn by_the_library<H: Hash>(columns: &mut H::Columns, lanes: &[&[u8]], blocks: usize) {
    let mut states = [H::INITIAL; LANES_MAX];
    let states = &mut states[..lanes.len()];
    for (n, state) in states.iter_mut().enumerate() {
        *state = columns.get(n);
    }
    let step = if lanes.len() == 1 { blocks.max(1) } else { 1 };
    for at in (0..blocks).step_by(step) {
        for (state, lane) in states.iter_mut().zip(lanes) {
            H::compress(state, &lane[at * H::BLOCK..(at + step) * H::BLOCK]);
        }
    }
    for (n, state) in states.iter_mut().enumerate() {
        columns.put(n, state);
        state.zeroize();
    }
}
