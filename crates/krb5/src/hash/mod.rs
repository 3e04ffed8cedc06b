//! The compression functions of the hashes, behind one trait.
//!
//! HMAC needs the state of a hash after one block, and the library's hashers do not hand it out in a form
//! that can be wiped and copied cheaply; its block functions do.
//!
//! A hash waits for itself most of the time; many messages at once do not. [`Hash::compress_columns`] takes up to
//! [`Hash::LANES`] of them in lock step and picks the fastest way for their number:
//!
//! | | sets |
//! |---|---|
//! | `avx512` | rows of 512 and of 256 bits over many messages |
//! | `avx2` | rows of 256 bits |
//! | `scalar` | SHA-384 of one message in ordinary registers |
//! | `sha_ni` | the SHA instructions, a few messages in turn |
//! | this file | the libraries' block functions |

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
mod columns;
pub mod measure;
#[cfg(target_arch = "x86_64")]
pub(crate) mod rows;
#[cfg(target_arch = "x86_64")]
mod scalar;
#[cfg(target_arch = "x86_64")]
pub(crate) mod sha1_lanes;
#[cfg(target_arch = "x86_64")]
pub(crate) mod sha2_lanes;
#[cfg(target_arch = "x86_64")]
mod sha_ni;
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

/// The longest block of a hash that is used, in bytes.
pub(crate) const BLOCK_MAX: usize = 128;
/// The longest digest of a hash that is used, in bytes.
pub(crate) const DIGEST_MAX: usize = 48;
/// The most messages that any hash takes at once.
pub(crate) const LANES_MAX: usize = 16;

/// A message on its way: the blocks to take in next, and the state that takes them.
pub(crate) struct HashLane<'a, S> {
    pub(crate) state: &'a mut S,
    pub(crate) data: &'a [u8],
}

/// A Merkle-Damgard hash with big-endian words and length.
pub(crate) trait Hash {
    /// The chaining value.
    type State: Copy + Zeroize + Send + Sync;
    /// The chaining values of [`Hash::LANES`] messages, turned.
    type Columns: StateColumns<Self::State>;
    /// The chaining value before the first block.
    const INITIAL: Self::State;
    /// The length of a block in bytes.
    const BLOCK: usize;
    /// The length of the digest in bytes.
    const DIGEST: usize;
    /// The length in bytes of the message length that ends the padding.
    const LENGTH: usize;
    /// The most messages that are taken at once.
    const LANES: usize;

    /// Takes whole blocks in; a remainder is not looked at.
    fn compress(state: &mut Self::State, blocks: &[u8]);

    /// Takes in the first `blocks` blocks of each lane; column `n` is the state of lane `n`, and what stands in
    /// the columns behind the last lane is not kept.
    ///
    /// # Panics
    /// If there are more than [`Hash::LANES`] lanes, or one is shorter.
    fn compress_columns(units: Units, columns: &mut Self::Columns, lanes: &[&[u8]], blocks: usize);

    /// The same by a way of this name; returns whether it is open for so many lanes.
    fn compress_by(way: &str, columns: &mut Self::Columns, lanes: &[&[u8]], blocks: usize) -> bool;

    /// Takes in the first `blocks` blocks of each of 1 to [`Hash::lanes_max`] lanes.
    fn compress_lanes(cpu: Cpu, lanes: &mut [HashLane<'_, Self::State>], blocks: usize) {
        let mut columns = Self::Columns::default();
        let mut data: [&[u8]; LANES_MAX] = [&[]; LANES_MAX];
        for (n, lane) in lanes.iter().enumerate() {
            columns.put(n, lane.state);
            data[n] = lane.data;
        }
        Self::compress_columns(Units::of(cpu), &mut columns, &data[..lanes.len()], blocks);
        for (n, lane) in lanes.iter_mut().enumerate() {
            *lane.state = columns.get(n);
        }
        columns.zeroize();
    }

    /// Returns how many lanes are worth filling.
    fn lanes_max(units: Units) -> usize;

    /// Writes the digest to the front of `out`, which holds [`DIGEST_MAX`] bytes.
    fn digest(state: &Self::State, out: &mut [u8; DIGEST_MAX]);
}

pub(crate) struct Sha1;
pub(crate) struct Sha256;
pub(crate) struct Sha384;

impl Hash for Sha1 {
    type State = [u32; 5];
    type Columns = Columns<u32, 5, 16>;
    const INITIAL: Self::State = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    const BLOCK: usize = 64;
    const DIGEST: usize = 20;
    const LENGTH: usize = 8;
    const LANES: usize = 16;

    #[inline]
    fn compress(state: &mut Self::State, blocks: &[u8]) {
        sha1::block_api::compress(state, blocks.as_chunks().0);
    }

    fn compress_columns(units: Units, columns: &mut Self::Columns, lanes: &[&[u8]], blocks: usize) {
        #[cfg(target_arch = "x86_64")]
        if let Some(way) = units.sha1(lanes.len())
            && x86::sha1(way, units, &mut columns.0, lanes, blocks)
        {
            return;
        }
        by_the_library::<Self>(columns, lanes, blocks);
    }

    fn compress_by(way: &str, columns: &mut Self::Columns, lanes: &[&[u8]], blocks: usize) -> bool {
        #[cfg(target_arch = "x86_64")]
        if let Some(way) = x86::Way::named(way) {
            return x86::sha1(way, Units::of(Cpu::Avx512), &mut columns.0, lanes, blocks);
        }
        false
    }

    fn lanes_max(units: Units) -> usize {
        units.lanes_max::<Self>()
    }

    fn digest(state: &Self::State, out: &mut [u8; DIGEST_MAX]) {
        write_words(state.iter().map(|word| word.to_be_bytes()), out);
    }
}

impl Hash for Sha256 {
    type State = [u32; 8];
    type Columns = Columns<u32, 8, 16>;
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
    const LANES: usize = 16;

    #[inline]
    fn compress(state: &mut Self::State, blocks: &[u8]) {
        sha2::block_api::compress256(state, blocks.as_chunks().0);
    }

    fn compress_columns(units: Units, columns: &mut Self::Columns, lanes: &[&[u8]], blocks: usize) {
        #[cfg(target_arch = "x86_64")]
        if let Some(way) = units.sha256(lanes.len())
            && x86::sha256(way, units, &mut columns.0, lanes, blocks)
        {
            return;
        }
        by_the_library::<Self>(columns, lanes, blocks);
    }

    fn compress_by(way: &str, columns: &mut Self::Columns, lanes: &[&[u8]], blocks: usize) -> bool {
        #[cfg(target_arch = "x86_64")]
        if let Some(way) = x86::Way::named(way) {
            return x86::sha256(way, Units::of(Cpu::Avx512), &mut columns.0, lanes, blocks);
        }
        false
    }

    fn lanes_max(units: Units) -> usize {
        units.lanes_max::<Self>()
    }

    fn digest(state: &Self::State, out: &mut [u8; DIGEST_MAX]) {
        write_words(state.iter().map(|word| word.to_be_bytes()), out);
    }
}

impl Hash for Sha384 {
    type State = [u64; 8];
    type Columns = Columns<u64, 8, 8>;
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
    const LANES: usize = 8;

    #[inline]
    fn compress(state: &mut Self::State, blocks: &[u8]) {
        sha2::block_api::compress512(state, blocks.as_chunks().0);
    }

    fn compress_columns(units: Units, columns: &mut Self::Columns, lanes: &[&[u8]], blocks: usize) {
        #[cfg(target_arch = "x86_64")]
        if let Some(way) = units.sha512(lanes.len())
            && x86::sha512(way, units, &mut columns.0, lanes, blocks)
        {
            return;
        }
        by_the_library::<Self>(columns, lanes, blocks);
    }

    fn compress_by(way: &str, columns: &mut Self::Columns, lanes: &[&[u8]], blocks: usize) -> bool {
        #[cfg(target_arch = "x86_64")]
        if let Some(way) = x86::Way::named(way) {
            return x86::sha512(way, Units::of(Cpu::Avx512), &mut columns.0, lanes, blocks);
        }
        false
    }

    fn lanes_max(units: Units) -> usize {
        units.lanes_max::<Self>()
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

/// Compresses by the libraries: a lane that is alone goes all at once, several go block by block in turn, since the
/// processor finds work in the next while one waits.
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
