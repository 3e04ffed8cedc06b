//! SHA-1 and SHA-256 by the SHA instructions, with `N` messages interleaved: the other messages
//! hide the latency of several cycles of each instruction.
#![allow(unsafe_code, reason = "kernels use intrinsics and raw pointers")]

use core::arch::x86_64::*;

use super::sha2_lanes::K256;

/// Hashes `blocks` blocks of `N` messages with SHA-1.
///
/// # Safety
/// The processor has SHA, SSSE3 and SSE4.1; `64 * blocks` bytes can be read behind each pointer.
#[target_feature(enable = "sha,ssse3,sse4.1")]
pub(super) unsafe fn sha1<const N: usize>(states: &mut [[u32; 5]; N], lanes: [*const u8; N], blocks: usize) {
    let order = _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f);
    let mut abcd = [_mm_setzero_si128(); N];
    let mut last = [_mm_setzero_si128(); N];
    for n in 0..N {
        let [a, b, c, d, e] = states[n].map(|word| word as i32);
        abcd[n] = _mm_set_epi32(a, b, c, d);
        last[n] = _mm_set_epi32(e, 0, 0, 0);
    }
    for block in 0..blocks {
        let (before, last_before) = (abcd, last);
        let mut words = [[_mm_setzero_si128(); 4]; N];
        let mut previous = abcd;
        // Four rounds. `$group` selects the function and the constant of the group of 20 rounds.
        macro_rules! four {
            ($i:expr, $group:literal) => {
                for n in 0..N {
                    let w = &mut words[n];
                    let next = if $i < 4 {
                        let bytes =
                            // SAFETY: the caller guarantees `blocks` blocks behind each pointer.
                            unsafe { _mm_loadu_si128(lanes[n].add(64 * block + 16 * ($i % 4)).cast()) };
                        _mm_shuffle_epi8(bytes, order)
                    } else {
                        let old = _mm_sha1msg1_epu32(w[$i % 4], w[($i + 1) % 4]);
                        _mm_sha1msg2_epu32(_mm_xor_si128(old, w[($i + 2) % 4]), w[($i + 3) % 4])
                    };
                    w[$i % 4] = next;
                    let e = if $i == 0 {
                        _mm_add_epi32(last[n], next)
                    } else {
                        _mm_sha1nexte_epu32(previous[n], next)
                    };
                    previous[n] = abcd[n];
                    abcd[n] = _mm_sha1rnds4_epu32::<$group>(abcd[n], e);
                }
            };
        }
        macro_rules! group {
            ($first:expr, $group:literal) => {
                four!($first, $group);
                four!($first + 1, $group);
                four!($first + 2, $group);
                four!($first + 3, $group);
                four!($first + 4, $group);
            };
        }
        group!(0, 0);
        group!(5, 1);
        group!(10, 2);
        group!(15, 3);
        for n in 0..N {
            last[n] = _mm_sha1nexte_epu32(previous[n], last_before[n]);
            abcd[n] = _mm_add_epi32(abcd[n], before[n]);
        }
    }
    for n in 0..N {
        let words = [
            _mm_extract_epi32::<3>(abcd[n]),
            _mm_extract_epi32::<2>(abcd[n]),
            _mm_extract_epi32::<1>(abcd[n]),
            _mm_extract_epi32::<0>(abcd[n]),
            _mm_extract_epi32::<3>(last[n]),
        ];
        states[n] = words.map(|word| word as u32);
    }
}

/// Hashes `blocks` blocks of `N` messages with SHA-256.
///
/// # Safety
/// The processor has SHA, SSSE3 and SSE4.1; `64 * blocks` bytes can be read behind each pointer.
#[target_feature(enable = "sha,ssse3,sse4.1")]
pub(crate) unsafe fn sha256<const N: usize>(
    states: &mut [[u32; 8]; N],
    lanes: [*const u8; N],
    blocks: usize,
) {
    let order = _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203);
    // SAFETY: this function has the same requirements.
    let (mut abef, mut cdgh) = unsafe { sha256_rows(states) };
    for block in 0..blocks {
        let (abef_before, cdgh_before) = (abef, cdgh);
        let mut words = [[_mm_setzero_si128(); 4]; N];
        // Four rounds, two per instruction.
        macro_rules! four {
            ($i:expr) => {
                // SAFETY: four of the 64 constants, $i is below 16.
                let constants = unsafe { _mm_loadu_si128(K256.as_ptr().add(4 * $i).cast()) };
                for n in 0..N {
                    let w = &mut words[n];
                    let next = if $i < 4 {
                        let bytes =
                            // SAFETY: the caller guarantees `blocks` blocks behind each pointer.
                            unsafe { _mm_loadu_si128(lanes[n].add(64 * block + 16 * ($i % 4)).cast()) };
                        _mm_shuffle_epi8(bytes, order)
                    } else {
                        let old = _mm_sha256msg1_epu32(w[$i % 4], w[($i + 1) % 4]);
                        let middle = _mm_alignr_epi8::<4>(w[($i + 3) % 4], w[($i + 2) % 4]);
                        _mm_sha256msg2_epu32(_mm_add_epi32(old, middle), w[($i + 3) % 4])
                    };
                    w[$i % 4] = next;
                    let sum = _mm_add_epi32(next, constants);
                    cdgh[n] = _mm_sha256rnds2_epu32(cdgh[n], abef[n], sum);
                    abef[n] = _mm_sha256rnds2_epu32(abef[n], cdgh[n], _mm_shuffle_epi32::<0x0e>(sum));
                }
            };
        }
        four!(0);
        four!(1);
        four!(2);
        four!(3);
        four!(4);
        four!(5);
        four!(6);
        four!(7);
        four!(8);
        four!(9);
        four!(10);
        four!(11);
        four!(12);
        four!(13);
        four!(14);
        four!(15);
        for n in 0..N {
            abef[n] = _mm_add_epi32(abef[n], abef_before[n]);
            cdgh[n] = _mm_add_epi32(cdgh[n], cdgh_before[n]);
        }
    }
    // SAFETY: this function has the same requirements.
    *states = unsafe { sha256_states(&abef, &cdgh) };
}

/// Returns the states in the layout of the SHA instructions.
///
/// # Safety
/// The processor has SSE4.1.
#[inline]
#[target_feature(enable = "sse4.1")]
pub(crate) unsafe fn sha256_rows<const N: usize>(states: &[[u32; 8]; N]) -> ([__m128i; N], [__m128i; N]) {
    let words = |n: usize| states[n].map(|word| word as i32);
    let abef = std::array::from_fn(|n| {
        let [a, b, _, _, e, f, _, _] = words(n);
        _mm_set_epi32(a, b, e, f)
    });
    let cdgh = std::array::from_fn(|n| {
        let [_, _, c, d, _, _, g, h] = words(n);
        _mm_set_epi32(c, d, g, h)
    });
    (abef, cdgh)
}

/// Returns the states in their usual order.
///
/// # Safety
/// The processor has SSE4.1.
#[inline]
#[target_feature(enable = "sse4.1")]
pub(crate) unsafe fn sha256_states<const N: usize>(
    abef: &[__m128i; N],
    cdgh: &[__m128i; N],
) -> [[u32; 8]; N] {
    std::array::from_fn(|n| {
        let words = [
            _mm_extract_epi32::<3>(abef[n]),
            _mm_extract_epi32::<2>(abef[n]),
            _mm_extract_epi32::<3>(cdgh[n]),
            _mm_extract_epi32::<2>(cdgh[n]),
            _mm_extract_epi32::<1>(abef[n]),
            _mm_extract_epi32::<0>(abef[n]),
            _mm_extract_epi32::<1>(cdgh[n]),
            _mm_extract_epi32::<0>(cdgh[n]),
        ];
        words.map(|word| word as u32)
    })
}
