//! A few messages of RFC 8009: SHA-2 of the previous ciphertext, interleaved with AES of CBC
//! chains.
//!
//! The hash covers the ciphertext, so it runs one unit behind the cipher.

use std::arch::x86_64::*;

use super::{aesni, lanes::Pointers};
use crate::{
    cipher::BLOCK,
    hash::{
        Hash, Sha384,
        rows::Row,
        scalar::Row1x64,
        sha_ni,
        sha2_lanes::{K256, Sha2Word, eight},
    },
};

/// Encrypts `units` units of 64 bytes of `N` lanes, starting with lane `first`, and hashes the
/// ciphertext with SHA-256.
///
/// # Safety
/// The processor has AES-NI, the SHA instructions and SSE4.1. These lanes exist, and each has a
/// key, a chain and `units` units.
#[target_feature(enable = "aes,sha,ssse3,sse4.1")]
pub(super) unsafe fn seal_sha256<const R: usize, const N: usize>(
    lanes: &Pointers,
    first: usize,
    hashes: &mut [Option<&mut [u32; 8]>],
    units: usize,
) {
    const UNIT: usize = 64;
    if units == 0 {
        return;
    }
    let mut states = [[0; 8]; N];
    for (state, hash) in states.iter_mut().zip(hashes.iter()) {
        *state = hash.as_deref().copied().unwrap_or_default();
    }
    // SAFETY: the caller guarantees the pointers; keys are aligned. The hash reads only units that
    // the cipher has finished.
    unsafe {
        aesni::encrypt::<R, N>(lanes, first, UNIT / BLOCK);
        let keys: [*const __m128i; N] = std::array::from_fn(|n| lanes.keys[first + n].cast());
        let mut chain: [__m128i; N] = std::array::from_fn(|n| _mm_loadu_si128(lanes.chain[first + n].cast()));
        let order = _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203);
        let (mut abef, mut cdgh) = sha_ni::sha256_rows(&states);
        for unit in 1..units {
            let at: [*mut __m128i; N] = std::array::from_fn(|n| lanes.at[first + n].add(unit * UNIT).cast());
            let (abef_before, cdgh_before) = (abef, cdgh);
            let mut w = [[order; UNIT / BLOCK]; N];
            // Four rounds of SHA-256. A unit has sixteen of these, four in each AES block.
            macro_rules! four {
                ($i:expr) => {
                    let constants = _mm_loadu_si128(K256.as_ptr().add(4 * $i).cast());
                    for n in 0..N {
                        let w = &mut w[n];
                        if $i < 4 {
                            // Read the previous unit.
                            let cipher = _mm_loadu_si128(at[n].sub(UNIT / BLOCK).add($i % 4));
                            w[$i % 4] = _mm_shuffle_epi8(cipher, order);
                        } else {
                            let old = _mm_sha256msg1_epu32(w[$i % 4], w[($i + 1) % 4]);
                            let middle = _mm_alignr_epi8::<4>(w[($i + 3) % 4], w[($i + 2) % 4]);
                            w[$i % 4] = _mm_sha256msg2_epu32(_mm_add_epi32(old, middle), w[($i + 3) % 4]);
                        }
                        let sum = _mm_add_epi32(w[$i % 4], constants);
                        cdgh[n] = _mm_sha256rnds2_epu32(cdgh[n], abef[n], sum);
                        abef[n] = _mm_sha256rnds2_epu32(abef[n], cdgh[n], _mm_shuffle_epi32::<0x0e>(sum));
                    }
                };
            }
            // One AES block, with four times four rounds of SHA-256 between its rounds.
            macro_rules! block {
                ($block:literal) => {
                    for n in 0..N {
                        let plain =
                            _mm_xor_si128(_mm_loadu_si128(at[n].add($block)), _mm_load_si128(keys[n]));
                        chain[n] = _mm_xor_si128(chain[n], plain);
                    }
                    let mut round = 1;
                    block!($block, round, 0);
                    block!($block, round, 1);
                    block!($block, round, 2);
                    block!($block, round, 3);
                    for n in 0..N {
                        chain[n] = _mm_aesenclast_si128(chain[n], _mm_load_si128(keys[n].add(R)));
                        _mm_storeu_si128(at[n].add($block), chain[n]);
                    }
                };
                ($block:literal, $round:ident, $part:literal) => {
                    four!(4 * $block + $part);
                    while $round < 1 + (R - 1) * ($part + 1) / 4 {
                        for n in 0..N {
                            chain[n] = _mm_aesenc_si128(chain[n], _mm_load_si128(keys[n].add($round)));
                        }
                        $round += 1;
                    }
                };
            }
            block!(0);
            block!(1);
            block!(2);
            block!(3);
            for n in 0..N {
                abef[n] = _mm_add_epi32(abef[n], abef_before[n]);
                cdgh[n] = _mm_add_epi32(cdgh[n], cdgh_before[n]);
            }
        }
        for n in 0..N {
            _mm_storeu_si128(lanes.chain[first + n].cast(), chain[n]);
        }
        states = sha_ni::sha256_states(&abef, &cdgh);
        let last = std::array::from_fn(|n| lanes.at[first + n].add((units - 1) * UNIT).cast_const());
        sha_ni::sha256::<N>(&mut states, last, 1);
    }
    for (state, hash) in states.iter().zip(hashes) {
        if let Some(hash) = hash {
            **hash = *state;
        }
    }
}

/// Encrypts `units` units of 128 bytes of the first lane with a key of 256 bits, and hashes the
/// ciphertext with SHA-384.
///
/// # Safety
/// The processor has AES-NI, BMI1 and BMI2; the lane has a key, a chain and `units` units.
#[target_feature(enable = "aes,sse4.1,bmi1,bmi2")]
pub(super) unsafe fn seal_sha384(lanes: &Pointers, hash: &mut [u64; 8], units: usize) {
    const UNIT: usize = 128;
    /// The number of rounds of AES-256.
    const ROUNDS: usize = 14;
    if units == 0 {
        return;
    }
    // SAFETY: the caller guarantees the pointers; keys are aligned. The hash reads only units that
    // the cipher has finished.
    unsafe {
        aesni::encrypt::<ROUNDS, 1>(lanes, 0, UNIT / BLOCK);
        let keys: *const __m128i = lanes.keys[0].cast();
        let mut chain = _mm_loadu_si128(lanes.chain[0].cast());
        let mut state = hash.map(|word| Row1x64::load(&word));
        for unit in 1..units {
            let at: *mut __m128i = lanes.at[0].add(unit * UNIT).cast();
            let before = state;
            let mut words = Row1x64::read_block(&[at.cast::<u8>().sub(UNIT)], 0);
            // One AES block after eight rounds of SHA-384. The loop is short, so that it fits into
            // the cache of decoded instructions.
            #[expect(clippy::expect_used, reason = "the number of groups is a constant above zero")]
            let (last, groups) = u64::CONSTANTS.split_last().expect("five groups");
            for (group, constants) in groups.iter().enumerate() {
                for half in [0, 1] {
                    eight::<Row1x64, true>(&mut state, &mut words, constants, 8 * half);
                    let at = at.add(2 * group + half);
                    chain = _mm_xor_si128(chain, _mm_xor_si128(_mm_loadu_si128(at), _mm_load_si128(keys)));
                    for round in 1..ROUNDS {
                        chain = _mm_aesenc_si128(chain, _mm_load_si128(keys.add(round)));
                    }
                    chain = _mm_aesenclast_si128(chain, _mm_load_si128(keys.add(ROUNDS)));
                    _mm_storeu_si128(at, chain);
                    (state[0], chain) = state[0].hold_with(chain);
                }
            }
            eight::<Row1x64, false>(&mut state, &mut words, last, 0);
            eight::<Row1x64, false>(&mut state, &mut words, last, 8);
            for (word, before) in state.iter_mut().zip(before) {
                *word = word.add(before);
            }
        }
        _mm_storeu_si128(lanes.chain[0].cast(), chain);
        for (word, row) in hash.iter_mut().zip(state) {
            row.store(word);
        }
        let last = lanes.at[0].add((units - 1) * UNIT).cast_const();
        Sha384::compress(hash, std::slice::from_raw_parts(last, UNIT));
    }
}
