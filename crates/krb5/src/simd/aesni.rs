//! AES-NI: one block per register, several chains interleaved.

use std::arch::x86_64::*;

use super::lanes::Pointers;
use crate::cipher::{BLOCK, RoundKeys};

/// The number of blocks decrypted at once.
const ABREAST: usize = 8;

/// Encrypts `blocks` blocks of `N` lanes, starting with lane `first`.
///
/// # Safety
/// The processor has AES-NI; every lane has a key, a chain and `blocks` blocks.
#[target_feature(enable = "aes,sse4.1")]
pub(super) unsafe fn encrypt<const R: usize, const N: usize>(lanes: &Pointers, first: usize, blocks: usize) {
    // Entries behind the last lane repeat the first lane of this group.
    let place = |n: usize| if first + n < lanes.count { first + n } else { first };
    let at: [*mut u8; N] = std::array::from_fn(|n| lanes.at[place(n)]);
    let keys: [*const __m128i; N] = std::array::from_fn(|n| lanes.keys[place(n)].cast());
    // SAFETY: the caller guarantees the pointers; keys are aligned.
    unsafe {
        let mut state: [__m128i; N] = std::array::from_fn(|n| _mm_loadu_si128(lanes.chain[place(n)].cast()));
        for block in 0..blocks {
            for n in 0..N {
                let plain = _mm_loadu_si128(at[n].add(block * BLOCK).cast());
                let whitened = _mm_xor_si128(plain, _mm_load_si128(keys[n]));
                state[n] = _mm_xor_si128(state[n], whitened);
            }
            for round in 1..R {
                for n in 0..N {
                    state[n] = _mm_aesenc_si128(state[n], _mm_load_si128(keys[n].add(round)));
                }
            }
            for n in 0..N {
                state[n] = _mm_aesenclast_si128(state[n], _mm_load_si128(keys[n].add(R)));
            }
            for n in 0..N {
                _mm_storeu_si128(at[n].add(block * BLOCK).cast(), state[n]);
            }
        }
        for n in 0..N {
            _mm_storeu_si128(lanes.chain[place(n)].cast(), state[n]);
        }
    }
}

/// Decrypts `blocks` blocks at `at`. `chain` is the ciphertext block before them.
///
/// # Safety
/// The processor has AES-NI; `at` is valid for `blocks` blocks.
#[target_feature(enable = "aes,sse4.1")]
pub(super) unsafe fn decrypt<const R: usize>(
    keys: &RoundKeys,
    chain: &[u8; BLOCK],
    mut at: *mut u8,
    mut blocks: usize,
) {
    let keys: *const __m128i = keys.0.as_ptr().cast();
    // SAFETY: the caller guarantees the pointer; there are R + 1 keys, and they are aligned.
    unsafe {
        let mut before = _mm_loadu_si128(chain.as_ptr().cast());
        while blocks >= ABREAST {
            before = some::<R, ABREAST>(keys, before, at);
            at = at.add(ABREAST * BLOCK);
            blocks -= ABREAST;
        }
        for _ in 0..blocks {
            before = some::<R, 1>(keys, before, at);
            at = at.add(BLOCK);
        }
    }
}

/// Decrypts `N` blocks and returns the last block of ciphertext.
///
/// # Safety
/// The same as [`decrypt`].
#[target_feature(enable = "aes,sse4.1")]
unsafe fn some<const R: usize, const N: usize>(
    keys: *const __m128i,
    mut before: __m128i,
    at: *mut u8,
) -> __m128i {
    // SAFETY: the caller guarantees the pointers.
    unsafe {
        let at: *mut __m128i = at.cast();
        let first = _mm_load_si128(keys);
        let mut state: [__m128i; N] =
            std::array::from_fn(|n| _mm_xor_si128(_mm_loadu_si128(at.add(n)), first));
        for round in 1..R {
            let key = _mm_load_si128(keys.add(round));
            for state in &mut state {
                *state = _mm_aesdec_si128(*state, key);
            }
        }
        let last = _mm_load_si128(keys.add(R));
        for (n, state) in state.iter().enumerate() {
            let cipher = _mm_loadu_si128(at.add(n));
            _mm_storeu_si128(at.add(n), _mm_xor_si128(_mm_aesdeclast_si128(*state, last), before));
            before = cipher;
        }
        before
    }
}
