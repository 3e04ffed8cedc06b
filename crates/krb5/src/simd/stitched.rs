//! A few messages: SHA-1 instructions interleaved with AES instructions of CBC chains.
//!
//! Both have a long latency, and run on different units of the core.

use std::arch::x86_64::*;

use super::lanes::Pointers;
use crate::cipher::{BLOCK, UNIT};

/// The most messages that are interleaved; with more, registers run out.
pub(super) const GROUP: usize = 4;

/// Hashes `units` units of `N` lanes, starting with lane `first`, then encrypts them.
///
/// # Safety
/// The processor has AES-NI, the SHA instructions and SSE4.1. These lanes exist, and each has a
/// key, a chain and `units` units.
#[target_feature(enable = "aes,sha,ssse3,sse4.1")]
pub(super) unsafe fn seal<const R: usize, const N: usize>(
    lanes: &Pointers,
    first: usize,
    hashes: &mut [Option<&mut [u32; 5]>],
    units: usize,
) {
    // SAFETY: the caller guarantees the pointers; keys are aligned.
    unsafe {
        let keys: [*const __m128i; N] = std::array::from_fn(|n| lanes.keys[first + n].cast());
        let mut chain: [__m128i; N] = std::array::from_fn(|n| _mm_loadu_si128(lanes.chain[first + n].cast()));
        let order = _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f);
        let (mut abcd, mut e) = ([_mm_setzero_si128(); N], [_mm_setzero_si128(); N]);
        for (n, hash) in hashes.iter().take(N).enumerate() {
            let [a, b, c, d, last] = hash.as_deref().copied().unwrap_or_default().map(|word| word as i32);
            abcd[n] = _mm_set_epi32(a, b, c, d);
            e[n] = _mm_set_epi32(last, 0, 0, 0);
        }
        for unit in 0..units {
            let at: [*mut __m128i; N] = std::array::from_fn(|n| lanes.at[first + n].add(unit * UNIT).cast());
            let (abcd_before, e_before) = (abcd, e);
            let mut w = [[order; UNIT / BLOCK]; N];
            // Four rounds of SHA-1. A unit has twenty of these, five in each AES block.
            macro_rules! four {
                ($i:literal, $kind:literal) => {
                    for n in 0..N {
                        if $i < 4 {
                            w[n][$i % 4] = _mm_shuffle_epi8(_mm_loadu_si128(at[n].add($i % 4)), order);
                        } else {
                            let mixed = _mm_sha1msg1_epu32(w[n][$i % 4], w[n][($i + 1) % 4]);
                            let mixed = _mm_xor_si128(mixed, w[n][($i + 2) % 4]);
                            w[n][$i % 4] = _mm_sha1msg2_epu32(mixed, w[n][($i + 3) % 4]);
                        }
                        let sum = if $i == 0 {
                            _mm_add_epi32(e[n], w[n][0])
                        } else {
                            _mm_sha1nexte_epu32(e[n], w[n][$i % 4])
                        };
                        e[n] = abcd[n];
                        abcd[n] = _mm_sha1rnds4_epu32::<$kind>(abcd[n], sum);
                    }
                };
            }
            // One AES block, with five times four rounds of SHA-1 between its rounds.
            macro_rules! block {
                ($block:literal, $($i:literal)*) => {
                    for n in 0..N {
                        let plain = _mm_xor_si128(_mm_loadu_si128(at[n].add($block)), _mm_load_si128(keys[n]));
                        chain[n] = _mm_xor_si128(chain[n], plain);
                    }
                    let mut round = 1;
                    $(
                        four!($i, $block);
                        let until = 1 + (R - 1) * ($i % 5 + 1) / 5;
                        while round < until {
                            for n in 0..N {
                                chain[n] = _mm_aesenc_si128(chain[n], _mm_load_si128(keys[n].add(round)));
                            }
                            round += 1;
                        }
                    )*
                    for n in 0..N {
                        chain[n] = _mm_aesenclast_si128(chain[n], _mm_load_si128(keys[n].add(R)));
                        _mm_storeu_si128(at[n].add($block), chain[n]);
                    }
                };
            }
            block!(0, 0 1 2 3 4);
            block!(1, 5 6 7 8 9);
            block!(2, 10 11 12 13 14);
            block!(3, 15 16 17 18 19);
            for n in 0..N {
                e[n] = _mm_sha1nexte_epu32(e[n], e_before[n]);
                abcd[n] = _mm_add_epi32(abcd[n], abcd_before[n]);
            }
        }
        for (n, hash) in hashes.iter_mut().take(N).enumerate() {
            _mm_storeu_si128(lanes.chain[first + n].cast(), chain[n]);
            let words = [
                _mm_extract_epi32::<3>(abcd[n]),
                _mm_extract_epi32::<2>(abcd[n]),
                _mm_extract_epi32::<1>(abcd[n]),
                _mm_extract_epi32::<0>(abcd[n]),
                _mm_extract_epi32::<3>(e[n]),
            ];
            if let Some(hash) = hash {
                **hash = words.map(|word| word as u32);
            }
        }
    }
}
