//! VAES in registers of 256 bits with two blocks each.

use std::arch::x86_64::*;

use super::{
    aesni,
    lanes::{KeysAbreast, Pointers},
};
use crate::cipher::{BLOCK, RoundKeys};

/// The number of registers decrypted at once.
const ABREAST: usize = 8;

/// Encrypts `blocks` blocks of `2 * G` lanes.
///
/// # Safety
/// The processor has AVX2 and VAES; every lane has a key, a chain and `blocks` blocks.
#[target_feature(enable = "avx2,vaes,aes")]
pub(super) unsafe fn encrypt<const R: usize, const G: usize>(lanes: &Pointers, blocks: usize) {
    // SAFETY: the caller guarantees the pointers; keys are interleaved by lane and aligned.
    let work = |keys: *const u8| unsafe {
        let key = |round: usize, g: usize| {
            _mm256_load_si256(keys.add(round * KeysAbreast::ROUND + g * 2 * BLOCK).cast())
        };
        let mut state: [__m256i; G] =
            std::array::from_fn(|g| pair(lanes.chain[2 * g].cast(), lanes.chain[2 * g + 1].cast()));
        for block in 0..blocks {
            let at = |lane: usize| lanes.at[lane].add(block * BLOCK);
            for g in 0..G {
                let whitened = _mm256_xor_si256(pair(at(2 * g), at(2 * g + 1)), key(0, g));
                state[g] = _mm256_xor_si256(state[g], whitened);
            }
            for round in 1..R {
                for g in 0..G {
                    state[g] = _mm256_aesenc_epi128(state[g], key(round, g));
                }
            }
            for g in 0..G {
                state[g] = _mm256_aesenclast_epi128(state[g], key(R, g));
            }
            for g in 0..G {
                part(state[g], at(2 * g), at(2 * g + 1));
            }
        }
        for g in 0..G {
            part(state[g], lanes.chain[2 * g].cast(), lanes.chain[2 * g + 1].cast());
        }
    };
    // SAFETY: the caller guarantees the keys.
    unsafe { KeysAbreast::with(lanes, 2 * G, R, work) }
}

/// Loads two blocks into one register.
///
/// # Safety
/// The processor has AVX2; both pointers are valid for a block.
#[target_feature(enable = "avx2")]
unsafe fn pair(low: *const u8, high: *const u8) -> __m256i {
    // SAFETY: the caller guarantees the pointers.
    unsafe { _mm256_loadu2_m128i(high.cast(), low.cast()) }
}

/// Stores the two blocks of a register.
///
/// # Safety
/// The processor has AVX2; both pointers are valid for a block.
#[target_feature(enable = "avx2")]
unsafe fn part(blocks: __m256i, low: *mut u8, high: *mut u8) {
    // SAFETY: the caller guarantees the pointers.
    unsafe { _mm256_storeu2_m128i(high.cast(), low.cast(), blocks) }
}

/// Decrypts `blocks` blocks at `at`. `chain` is the ciphertext block before them.
///
/// # Safety
/// The processor has AVX2 and VAES; `at` is valid for `blocks` blocks.
#[target_feature(enable = "avx2,vaes,aes")]
pub(super) unsafe fn decrypt<const R: usize>(
    keys: &RoundKeys,
    chain: &[u8; BLOCK],
    mut at: *mut u8,
    mut blocks: usize,
) {
    // SAFETY: the caller guarantees the pointer; there are R + 1 keys.
    unsafe {
        let round_keys: *const __m128i = keys.0.as_ptr().cast();
        let key = |round: usize| _mm256_broadcastsi128_si256(_mm_load_si128(round_keys.add(round)));
        let mut before = _mm256_broadcastsi128_si256(_mm_loadu_si128(chain.as_ptr().cast()));
        while blocks >= 2 * ABREAST {
            let place: *mut __m256i = at.cast();
            let mut state: [__m256i; ABREAST] =
                std::array::from_fn(|n| _mm256_xor_si256(_mm256_loadu_si256(place.add(n)), key(0)));
            for round in 1..R {
                let key = key(round);
                for state in &mut state {
                    *state = _mm256_aesdec_epi128(*state, key);
                }
            }
            for (n, state) in state.iter().enumerate() {
                let cipher = _mm256_loadu_si256(place.add(n));
                let chained = _mm256_permute2x128_si256::<0x21>(before, cipher);
                let plain = _mm256_xor_si256(_mm256_aesdeclast_epi128(*state, key(R)), chained);
                _mm256_storeu_si256(place.add(n), plain);
                before = cipher;
            }
            at = at.add(2 * ABREAST * BLOCK);
            blocks -= 2 * ABREAST;
        }
        let mut last = [0; BLOCK];
        _mm_storeu_si128(last.as_mut_ptr().cast(), _mm256_extracti128_si256::<1>(before));
        aesni::decrypt::<R>(keys, &last, at, blocks);
    }
}
