//! One message alone: SHA-1 by its instructions in the waits of a chain of AES blocks.

use std::arch::x86_64::*;

use super::lanes::Pointers;
use crate::cipher::{BLOCK, UNIT};

/// Hashes `units` units of the first lane and encrypts them then.
///
/// # Safety
/// The processor has AES-NI, the SHA instructions and SSE4.1; the lane has a key, a chain and `units` units.
#[target_feature(enable = "aes,sha,ssse3,sse4.1")]
pub(super) unsafe fn seal<const R: usize>(lanes: &Pointers, hash: &mut [u32; 5], units: usize) {
    // SAFETY: the caller vouches for the pointers; keys are aligned.
    unsafe {
        let keys: *const __m128i = lanes.keys[0].cast();
        let mut chain = _mm_loadu_si128(lanes.chain[0].cast());
        let order = _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f);
        let [a, b, c, d, e] = hash.map(|word| word as i32);
        let mut abcd = _mm_set_epi32(a, b, c, d);
        let mut e0 = _mm_set_epi32(e, 0, 0, 0);
        for unit in 0..units {
            let at: *mut __m128i = lanes.at[0].add(unit * UNIT).cast();
            let plain: [__m128i; UNIT / BLOCK] = std::array::from_fn(|n| _mm_loadu_si128(at.add(n)));
            let mut w = plain.map(|bytes| _mm_shuffle_epi8(bytes, order));
            let (abcd_before, e_before) = (abcd, e0);
            let mut e1;
            // Four rounds of SHA-1: twenty of these, five behind each other in each block of AES.
            macro_rules! four {
                ($i:literal, $kind:literal, $e:ident, $other:ident) => {
                    if $i >= 4 {
                        let mixed = _mm_sha1msg1_epu32(w[$i % 4], w[($i + 1) % 4]);
                        let mixed = _mm_xor_si128(mixed, w[($i + 2) % 4]);
                        w[$i % 4] = _mm_sha1msg2_epu32(mixed, w[($i + 3) % 4]);
                    }
                    $e = if $i == 0 { _mm_add_epi32($e, w[0]) } else { _mm_sha1nexte_epu32($e, w[$i % 4]) };
                    $other = abcd;
                    abcd = _mm_sha1rnds4_epu32::<$kind>(abcd, $e);
                };
            }
            // A block of AES with five times four rounds of SHA-1 between its rounds.
            macro_rules! block {
                ($n:literal, $([$i:literal $e:ident $other:ident])*) => {
                    chain = _mm_xor_si128(chain, _mm_xor_si128(plain[$n], _mm_load_si128(keys)));
                    let mut round = 1;
                    $(
                        four!($i, $n, $e, $other);
                        let until = 1 + (R - 1) * ($i % 5 + 1) / 5;
                        while round < until {
                            chain = _mm_aesenc_si128(chain, _mm_load_si128(keys.add(round)));
                            round += 1;
                        }
                    )*
                    chain = _mm_aesenclast_si128(chain, _mm_load_si128(keys.add(R)));
                    _mm_storeu_si128(at.add($n), chain);
                };
            }
            block!(0, [0 e0 e1] [1 e1 e0] [2 e0 e1] [3 e1 e0] [4 e0 e1]);
            block!(1, [5 e1 e0] [6 e0 e1] [7 e1 e0] [8 e0 e1] [9 e1 e0]);
            block!(2, [10 e0 e1] [11 e1 e0] [12 e0 e1] [13 e1 e0] [14 e0 e1]);
            block!(3, [15 e1 e0] [16 e0 e1] [17 e1 e0] [18 e0 e1] [19 e1 e0]);
            e0 = _mm_sha1nexte_epu32(e0, e_before);
            abcd = _mm_add_epi32(abcd, abcd_before);
        }
        _mm_storeu_si128(lanes.chain[0].cast(), chain);
        let words = [
            _mm_extract_epi32::<3>(abcd),
            _mm_extract_epi32::<2>(abcd),
            _mm_extract_epi32::<1>(abcd),
            _mm_extract_epi32::<0>(abcd),
            _mm_extract_epi32::<3>(e0),
        ];
        *hash = words.map(|word| word as u32);
    }
}
