//! SHA-1 and AES of sixteen messages in one pass, with AVX-512.
//!
//! SHA-1 over sixteen lanes fills both units for 512-bit integers. AES uses only one of them, and
//! its rounds have a long latency. So a few AES rounds follow every round of SHA-1, and the
//! processor executes them in the gaps. A block of SHA-1 is four blocks of AES, so both advance in
//! the same steps.
//!
//! There is no such function for opening: decryption is not serial, and is fastest message by
//! message.

use std::{arch::x86_64::*, ops::Range};

use super::lanes::{KeysAbreast, Pointers};
use crate::{
    cipher::{BLOCK, LANES, UNIT},
    hash::avx512::hold,
};

/// The rounds of SHA-1, FIPS 180-4 section 6.1.
const ROUNDS: usize = 80;
/// The number of lanes of a register.
const FOUR: usize = 4;

/// A unit of four lanes in four registers: one lane each, or one block of each lane.
type Square = [__m512i; FOUR];

/// Returns the AES steps that follow a round of SHA-1. Four blocks have `rounds` steps each, and
/// the whitening.
#[inline(always)]
fn due(round: usize, rounds: usize) -> Range<usize> {
    let steps = FOUR * (rounds + 1);
    round * steps / ROUNDS..(round + 1) * steps / ROUNDS
}

/// Hashes `units` units of each lane, then encrypts them.
///
/// # Safety
/// The processor has AVX-512 and VAES; every lane has a key, a chain and `units` units.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,aes")]
pub(super) unsafe fn seal<const R: usize>(
    lanes: &Pointers,
    states: &mut [Option<&mut [u32; 5]>],
    units: usize,
) {
    // SAFETY: the caller guarantees the pointers; keys are interleaved by lane and aligned.
    let work = |keys: *const u8| unsafe {
        let mut hash = load_states(states);
        let zero = _mm512_setzero_si512();
        let mut encrypt = EncryptFour::<R> { keys, state: [zero; FOUR], groups: [[zero; FOUR]; FOUR] };
        for g in 0..FOUR {
            encrypt.state[g] = super::avx512::gather(four(g).map(|lane| lanes.chain[lane].cast()));
        }
        for unit in 0..units {
            // Without this barrier the compiler loads all keys here and runs out of registers.
            std::arch::asm!("/* {0} */", inout(reg) encrypt.keys, options(nostack, preserves_flags));
            for g in 0..FOUR {
                let [a, b, c, d] = four(g).map(|lane| lanes.at[lane].add(unit * UNIT));
                encrypt.groups[g] = turn(square(a, b, c, d));
            }
            let words = words(&encrypt.groups);
            sha1(&mut hash, words, &mut encrypt);
            for g in 0..FOUR {
                let [a, b, c, d] = turn(encrypt.groups[g]);
                _mm512_storeu_si512(lanes.at[FOUR * g].add(unit * UNIT).cast(), a);
                _mm512_storeu_si512(lanes.at[FOUR * g + 1].add(unit * UNIT).cast(), b);
                _mm512_storeu_si512(lanes.at[FOUR * g + 2].add(unit * UNIT).cast(), c);
                _mm512_storeu_si512(lanes.at[FOUR * g + 3].add(unit * UNIT).cast(), d);
            }
        }
        for g in 0..FOUR {
            super::avx512::scatter(encrypt.state[g], four(g).map(|lane| lanes.chain[lane].cast()));
        }
        store_states(&hash, states);
    };
    // SAFETY: the caller guarantees the keys.
    unsafe { KeysAbreast::with(lanes, LANES, R, work) }
}

/// Encrypts four blocks of sixteen lanes.
struct EncryptFour<const R: usize> {
    keys: *const u8,
    state: Square,
    /// The plaintext by group of lanes; the ciphertext replaces it.
    groups: [Square; FOUR],
}

impl<const R: usize> EncryptFour<R> {
    /// Runs the AES steps that follow a round of SHA-1, and returns `word`, the result of the
    /// round.
    ///
    /// This is not a closure: it must be inlined into its caller, eighty times, or registers spill.
    ///
    /// # Safety
    /// The caller is a function for AVX-512 and VAES, and `keys` points to keys interleaved by
    /// lane.
    #[inline(always)]
    unsafe fn round(&mut self, round: usize, word: __m512i) -> __m512i {
        for step in due(round, R) {
            let (block, round) = (step / (R + 1), step % (R + 1));
            for g in 0..FOUR {
                let (state, block) = (&mut self.state[g], &mut self.groups[g][block]);
                // SAFETY: this function has the same requirements; keys are interleaved by lane.
                unsafe {
                    let key = self.keys.add(round * KeysAbreast::ROUND + g * FOUR * BLOCK);
                    let key = _mm512_load_si512(key.cast());
                    if round == 0 {
                        *state = _mm512_ternarylogic_epi64::<0x96>(*state, *block, key);
                    } else if round < R {
                        *state = _mm512_aesenc_epi128(*state, key);
                    } else {
                        *state = _mm512_aesenclast_epi128(*state, key);
                        *block = *state;
                    }
                }
            }
        }
        // SAFETY: this function has the same requirements.
        unsafe { hold_all(word, &mut self.state) }
    }
}

/// Returns the word of SHA-1 unchanged. It keeps the AES instructions between two rounds of SHA-1:
/// the compiler, which ignores their latency, would move them behind all rounds.
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn hold_all(mut word: __m512i, [a, b, c, d]: &mut Square) -> __m512i {
    // SAFETY: the assembly is empty.
    unsafe {
        std::arch::asm!(
            "/* {0} {1} {2} {3} {4} */",
            inout(zmm_reg) word,
            inout(zmm_reg) *a,
            inout(zmm_reg) *b,
            inout(zmm_reg) *c,
            inout(zmm_reg) *d,
            options(nostack, nomem, preserves_flags)
        );
    }
    word
}

/// Reads one unit of each of four lanes.
///
/// # Safety
/// The caller is a function for AVX-512; the pointers are valid for a unit.
#[inline(always)]
unsafe fn square(a: *const u8, b: *const u8, c: *const u8, d: *const u8) -> Square {
    // SAFETY: the caller guarantees the pointers.
    unsafe {
        [
            _mm512_loadu_si512(a.cast()),
            _mm512_loadu_si512(b.cast()),
            _mm512_loadu_si512(c.cast()),
            _mm512_loadu_si512(d.cast()),
        ]
    }
}

/// Returns the lanes of a group.
#[inline(always)]
fn four(group: usize) -> [usize; FOUR] {
    [0, 1, 2, 3].map(|n| FOUR * group + n)
}

/// Returns the position of a lane's word in a register of SHA-1.
fn column(lane: usize) -> usize {
    lane % FOUR * FOUR + lane / FOUR
}

#[target_feature(enable = "avx512f")]
fn load_states(states: &[Option<&mut [u32; 5]>]) -> [__m512i; 5] {
    let mut columns = [[0u32; LANES]; 5];
    for (lane, state) in states.iter().enumerate() {
        for (word, column_words) in state.iter().flat_map(|state| state.iter()).zip(&mut columns) {
            column_words[column(lane)] = *word;
        }
    }
    // SAFETY: sixteen words fill a register.
    columns.map(|words| unsafe { _mm512_loadu_si512(words.as_ptr().cast()) })
}

#[target_feature(enable = "avx512f")]
fn store_states(hash: &[__m512i; 5], states: &mut [Option<&mut [u32; 5]>]) {
    for (n, words) in hash.iter().enumerate() {
        let mut columns = [0u32; LANES];
        // SAFETY: sixteen words fill a register.
        unsafe { _mm512_storeu_si512(columns.as_mut_ptr().cast(), *words) };
        for (lane, state) in states.iter_mut().enumerate() {
            if let Some(state) = state {
                state[n] = columns[column(lane)];
            }
        }
    }
}

/// Transposes four lanes of four blocks into four blocks of four lanes, or back.
///
/// # Safety
/// The caller is a function for AVX-512.
#[inline(always)]
unsafe fn turn([a, b, c, d]: Square) -> Square {
    // SAFETY: this is inlined into the caller.
    unsafe {
        let (ab_low, cd_low) = (_mm512_shuffle_i32x4::<0x44>(a, b), _mm512_shuffle_i32x4::<0x44>(c, d));
        let (ab_high, cd_high) = (_mm512_shuffle_i32x4::<0xee>(a, b), _mm512_shuffle_i32x4::<0xee>(c, d));
        [
            _mm512_shuffle_i32x4::<0x88>(ab_low, cd_low),
            _mm512_shuffle_i32x4::<0xdd>(ab_low, cd_low),
            _mm512_shuffle_i32x4::<0x88>(ab_high, cd_high),
            _mm512_shuffle_i32x4::<0xdd>(ab_high, cd_high),
        ]
    }
}

/// Extracts the words of SHA-1 from blocks: one register per word, in the order of [`column`].
///
/// # Safety
/// The caller is a function for AVX-512.
#[inline(always)]
unsafe fn words(groups: &[Square; FOUR]) -> [__m512i; 16] {
    // SAFETY: this is inlined into the caller.
    unsafe {
        let order = _mm512_broadcast_i32x4(_mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203));
        let mut words = [_mm512_setzero_si512(); 16];
        for block in 0..FOUR {
            let a = _mm512_shuffle_epi8(groups[0][block], order);
            let b = _mm512_shuffle_epi8(groups[1][block], order);
            let c = _mm512_shuffle_epi8(groups[2][block], order);
            let d = _mm512_shuffle_epi8(groups[3][block], order);
            let (ab_low, ab_high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
            let (cd_low, cd_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
            words[4 * block] = _mm512_unpacklo_epi64(ab_low, cd_low);
            words[4 * block + 1] = _mm512_unpackhi_epi64(ab_low, cd_low);
            words[4 * block + 2] = _mm512_unpacklo_epi64(ab_high, cd_high);
            words[4 * block + 3] = _mm512_unpackhi_epi64(ab_high, cd_high);
        }
        words
    }
}

/// Hashes one block of each lane, with AES steps after each round.
#[inline(always)]
fn sha1<const R: usize>(hash: &mut [__m512i; 5], mut w: [__m512i; 16], encrypt: &mut EncryptFour<R>) {
    // SAFETY: only functions for processors with AVX-512 call this one, and it is inlined into
    // them.
    unsafe {
        let [mut a, mut b, mut c, mut d, mut e] = *hash;
        macro_rules! round {
            ($t:expr) => {{
                const T: usize = $t;
                if T >= 16 {
                    let mixed =
                        _mm512_ternarylogic_epi32::<0x96>(w[(T + 13) % 16], w[(T + 8) % 16], w[(T + 2) % 16]);
                    w[T % 16] = _mm512_rol_epi32::<1>(_mm512_xor_si512(mixed, w[T % 16]));
                }
                let (f, k) = match T / 20 {
                    0 => (_mm512_ternarylogic_epi32::<0xca>(b, c, d), 0x5a82_7999),
                    1 => (_mm512_ternarylogic_epi32::<0x96>(b, c, d), 0x6ed9_eba1),
                    2 => (_mm512_ternarylogic_epi32::<0xe8>(b, c, d), 0x8f1b_bcdcu32 as i32),
                    _ => (_mm512_ternarylogic_epi32::<0x96>(b, c, d), 0xca62_c1d6u32 as i32),
                };
                let early = _mm512_add_epi32(_mm512_add_epi32(e, w[T % 16]), _mm512_set1_epi32(k));
                // Add the operand that depends on the previous round last.
                let early = hold(_mm512_add_epi32(hold(early), f));
                let sum = _mm512_add_epi32(early, _mm512_rol_epi32::<5>(a));
                (e, d, c, b, a) = (d, c, _mm512_rol_epi32::<30>(b), a, encrypt.round(T, sum));
            }};
        }
        macro_rules! ten {
            ($($t:literal)*) => { $(
                round!($t * 10);
                round!($t * 10 + 1);
                round!($t * 10 + 2);
                round!($t * 10 + 3);
                round!($t * 10 + 4);
                round!($t * 10 + 5);
                round!($t * 10 + 6);
                round!($t * 10 + 7);
                round!($t * 10 + 8);
                round!($t * 10 + 9);
            )* };
        }
        ten!(0 1 2 3 4 5 6 7);
        for (sum, word) in hash.iter_mut().zip([a, b, c, d, e]) {
            *sum = _mm512_add_epi32(*sum, word);
        }
    }
}
