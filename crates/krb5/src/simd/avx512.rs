//! VAES in registers of 512 bits with four blocks each.

use std::arch::x86_64::*;

use super::lanes::{KeysAbreast, Pointers};
use crate::cipher::{BLOCK, RoundKeys};

/// The number of registers decrypted at once.
const ABREAST: usize = 8;

/// Encrypts `blocks` blocks of `4 * G` lanes.
///
/// # Safety
/// The processor has AVX-512 and VAES; every lane has a key, a chain and `blocks` blocks.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,aes")]
pub(super) unsafe fn encrypt<const R: usize, const G: usize>(lanes: &Pointers, blocks: usize) {
    // SAFETY: the caller guarantees the pointers; keys are interleaved by lane and aligned.
    let work = |keys: *const u8| unsafe {
        let key = |round: usize, g: usize| {
            _mm512_load_si512(keys.add(round * KeysAbreast::ROUND + g * 4 * BLOCK).cast())
        };
        let four = |g: usize| std::array::from_fn(|n| 4 * g + n);
        let mut state: [__m512i; G] =
            std::array::from_fn(|g| gather(four(g).map(|lane| lanes.chain[lane].cast())));
        for block in 0..blocks {
            let at = |lane: usize| lanes.at[lane].add(block * BLOCK);
            for g in 0..G {
                let plain = gather(four(g).map(at));
                state[g] = _mm512_ternarylogic_epi64::<0x96>(state[g], plain, key(0, g));
            }
            for round in 1..R {
                for g in 0..G {
                    state[g] = _mm512_aesenc_epi128(state[g], key(round, g));
                }
            }
            for g in 0..G {
                state[g] = _mm512_aesenclast_epi128(state[g], key(R, g));
            }
            for g in 0..G {
                scatter(state[g], four(g).map(at));
            }
        }
        for g in 0..G {
            scatter(state[g], four(g).map(|lane| lanes.chain[lane].cast()));
        }
    };
    // SAFETY: the caller guarantees the keys.
    unsafe { KeysAbreast::with(lanes, 4 * G, R, work) }
}

/// Loads four blocks into one register.
///
/// # Safety
/// The processor has AVX-512; each pointer is valid for a block.
#[target_feature(enable = "avx512f,avx512dq")]
pub(super) unsafe fn gather(at: [*mut u8; 4]) -> __m512i {
    // SAFETY: the caller guarantees the pointers.
    unsafe {
        let [a, b, c, d] = at.map(|at| _mm_loadu_si128(at.cast()));
        let blocks = _mm512_inserti32x4::<1>(_mm512_castsi128_si512(a), b);
        _mm512_inserti32x4::<3>(_mm512_inserti32x4::<2>(blocks, c), d)
    }
}

/// Stores the four blocks of a register.
///
/// # Safety
/// The processor has AVX-512; each pointer is valid for a block.
#[target_feature(enable = "avx512f,avx512dq")]
pub(super) unsafe fn scatter(blocks: __m512i, at: [*mut u8; 4]) {
    let [a, b, c, d] = at;
    // SAFETY: the caller guarantees the pointers.
    unsafe {
        _mm_storeu_si128(a.cast(), _mm512_castsi512_si128(blocks));
        _mm_storeu_si128(b.cast(), _mm512_extracti32x4_epi32::<1>(blocks));
        _mm_storeu_si128(c.cast(), _mm512_extracti32x4_epi32::<2>(blocks));
        _mm_storeu_si128(d.cast(), _mm512_extracti32x4_epi32::<3>(blocks));
    }
}

/// Decrypts `blocks` blocks at `at`. `chain` is the ciphertext block before them.
///
/// # Safety
/// The processor has AVX-512 and VAES; `at` is valid for `blocks` blocks.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,aes")]
pub(super) unsafe fn decrypt<const R: usize>(
    keys: &RoundKeys,
    chain: &[u8; BLOCK],
    at: *mut u8,
    blocks: usize,
) {
    const WORDS: usize = 8;
    let (mut at, mut blocks): (*mut i64, _) = (at.cast(), blocks);
    // SAFETY: the caller guarantees the pointer; there are R + 1 keys. Masked words are not
    // accessed.
    unsafe {
        let round_keys: *const __m128i = keys.0.as_ptr().cast();
        let key = |round: usize| _mm512_broadcast_i32x4(_mm_load_si128(round_keys.add(round)));
        let mut before = _mm512_broadcast_i32x4(_mm_loadu_si128(chain.as_ptr().cast()));
        while blocks >= 4 * ABREAST {
            let mut state: [__m512i; ABREAST] = std::array::from_fn(|n| {
                _mm512_xor_si512(_mm512_loadu_si512(at.add(n * WORDS).cast()), key(0))
            });
            for round in 1..R {
                for state in &mut state {
                    *state = _mm512_aesdec_epi128(*state, key(round));
                }
            }
            for (n, state) in state.iter().enumerate() {
                let place: *mut __m512i = at.add(n * WORDS).cast();
                let cipher = _mm512_loadu_si512(place);
                let plain = _mm512_aesdeclast_epi128(*state, key(R));
                let chained = _mm512_alignr_epi64::<6>(cipher, before);
                _mm512_storeu_si512(place, _mm512_xor_si512(plain, chained));
                before = cipher;
            }
            at = at.add(ABREAST * WORDS);
            blocks -= 4 * ABREAST;
        }
        while blocks > 0 {
            let now = blocks.min(4);
            let mask = ((1u16 << (2 * now)) - 1) as u8;
            let cipher = _mm512_maskz_loadu_epi64(mask, at);
            let mut state = _mm512_xor_si512(cipher, key(0));
            for round in 1..R {
                state = _mm512_aesdec_epi128(state, key(round));
            }
            let plain = _mm512_aesdeclast_epi128(state, key(R));
            let chained = _mm512_alignr_epi64::<6>(cipher, before);
            _mm512_mask_storeu_epi64(at, mask, _mm512_xor_si512(plain, chained));
            before = cipher;
            at = at.add(WORDS);
            blocks -= now;
        }
    }
}
