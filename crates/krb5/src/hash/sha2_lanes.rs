//! SHA-256 and SHA-512 (FIPS 180-4 sections 6.2.2 and 6.4.2) over rows: one message per lane of a
//! row.
//!
//! The two differ in the length of their words, their rotation counts and the number of rounds.

use super::rows::Row;

/// The parameters in which SHA-256 and SHA-512 differ.
pub(crate) trait Sha2Word: Copy + 'static {
    /// The rotations of the big sigma 0 and 1, FIPS 180-4 sections 4.1.2 and 4.1.3.
    const BIG: [[u32; 3]; 2];
    /// The rotations of the small sigma 0 and 1; the last is a shift.
    const SMALL: [[u32; 3]; 2];
    /// The round constants, in groups of 16.
    const CONSTANTS: &'static [[Self; 16]];
}

impl Sha2Word for u32 {
    const BIG: [[u32; 3]; 2] = [[2, 13, 22], [6, 11, 25]];
    const SMALL: [[u32; 3]; 2] = [[7, 18, 3], [17, 19, 10]];
    const CONSTANTS: &'static [[u32; 16]] = K256.as_chunks().0;
}

impl Sha2Word for u64 {
    const BIG: [[u32; 3]; 2] = [[28, 34, 39], [14, 18, 41]];
    const SMALL: [[u32; 3]; 2] = [[1, 8, 7], [19, 61, 6]];
    const CONSTANTS: &'static [[u64; 16]] = K512.as_chunks().0;
}

/// Runs 16 rounds. With `MORE`, extends the schedule for the next 16.
///
/// `words` is the block at first, then the last 16 words of the schedule. Between two groups a
/// caller may do other work in the same function, so that the processor has two independent
/// instruction streams.
#[inline(always)]
pub(crate) fn rounds<R: Row<Word: Sha2Word>, const MORE: bool>(
    state: &mut [R; 8],
    words: &mut [R; 16],
    constants: &[R::Word; 16],
) {
    eight::<R, MORE>(state, words, constants, 0);
    eight::<R, MORE>(state, words, constants, 8);
}

/// Runs eight rounds, after which the words of the state are back in their places.
#[inline(always)]
pub(crate) fn eight<R: Row<Word: Sha2Word>, const MORE: bool>(
    state: &mut [R; 8],
    words: &mut [R; 16],
    constants: &[R::Word; 16],
    first: usize,
) {
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    let mut differ = b.xor(c);
    (d, h, differ) = round([a, b, c, d, e, f, g], differ, sum::<R, MORE>(words, constants, first, h));
    (c, g, differ) = round([h, a, b, c, d, e, f], differ, sum::<R, MORE>(words, constants, first + 1, g));
    (b, f, differ) = round([g, h, a, b, c, d, e], differ, sum::<R, MORE>(words, constants, first + 2, f));
    (a, e, differ) = round([f, g, h, a, b, c, d], differ, sum::<R, MORE>(words, constants, first + 3, e));
    (h, d, differ) = round([e, f, g, h, a, b, c], differ, sum::<R, MORE>(words, constants, first + 4, d));
    (g, c, differ) = round([d, e, f, g, h, a, b], differ, sum::<R, MORE>(words, constants, first + 5, c));
    (f, b, differ) = round([c, d, e, f, g, h, a], differ, sum::<R, MORE>(words, constants, first + 6, b));
    (e, a, _) = round([b, c, d, e, f, g, h], differ, sum::<R, MORE>(words, constants, first + 7, a));
    *state = [a, b, c, d, e, f, g, h];
}

/// Adds the word and the constant of a round to `h`. With `MORE`, also extends the schedule.
#[inline(always)]
fn sum<R: Row<Word: Sha2Word>, const MORE: bool>(
    words: &mut [R; 16],
    constants: &[R::Word; 16],
    at: usize,
    h: R,
) -> R {
    let sum = h.add(words[at].add(h.fill(constants[at]))).hold();
    if MORE {
        extend(words, at);
    }
    sum
}

/// Returns the new `d` and `h`, and `a` XOR `b`. `sum` is h plus the word and the constant of the
/// round; `differ` is `b` XOR `c`.
#[inline(always)]
fn round<R: Row<Word: Sha2Word>>([a, b, c, d, e, f, g]: [R; 7], differ: R, sum: R) -> (R, R, R) {
    let t1 = sum.add(e.choose(f, g)).hold().add(big(e, 1)).hold();
    let (majority, differ) = a.majority_after(b, c, differ);
    (d.add(t1), t1.add(majority.add(big(a, 0)).hold()), differ)
}

#[inline(always)]
fn big<R: Row<Word: Sha2Word>>(x: R, which: usize) -> R {
    let [i, j, k] = R::Word::BIG[which];
    x.rotate_right(i).xor3(x.rotate_right(j), x.rotate_right(k))
}

#[inline(always)]
fn small<R: Row<Word: Sha2Word>>(x: R, which: usize) -> R {
    let [i, j, k] = R::Word::SMALL[which];
    x.rotate_right(i).xor3(x.rotate_right(j), x.shift_right(k))
}

/// Replaces a used word by the word for 16 rounds later.
#[inline(always)]
fn extend<R: Row<Word: Sha2Word>>(words: &mut [R; 16], at: usize) {
    let older = words[at].add(small(words[(at + 1) % 16], 0));
    words[at] = older.add(words[(at + 9) % 16]).add(small(words[(at + 14) % 16], 1));
}

/// Hashes `blocks` blocks of each lane. `columns` holds the transposed states.
///
/// # Safety
/// The processor has the instructions of `R`, and `blocks` blocks can be read behind the first
/// `R::LANES` pointers.
#[inline(always)]
#[allow(unsafe_code, reason = "kernels use intrinsics and raw pointers")]
pub(crate) unsafe fn compress<R: Row<Word: Sha2Word>, const N: usize>(
    columns: &mut [[R::Word; N]; 8],
    lanes: &[*const u8; N],
    blocks: usize,
) {
    const { assert!(R::LANES <= N) };
    // SAFETY: the caller guarantees the instructions; a column is at least as long as a row.
    let mut state = [unsafe { R::load(columns[0].as_ptr()) }; 8];
    for (row, column) in state.iter_mut().zip(columns.iter()) {
        // SAFETY: the same.
        *row = unsafe { R::load(column.as_ptr()) };
    }
    #[expect(clippy::expect_used, reason = "the number of groups is a constant above zero")]
    let (last, others) = R::Word::CONSTANTS.split_last().expect("four or five groups");
    for block in 0..blocks {
        // SAFETY: the caller guarantees the instructions and the bytes behind the pointers.
        let mut words = unsafe { R::read_block(lanes, 16 * size_of::<R::Word>() * block) };
        let before = state;
        rounds::<R, true>(&mut state, &mut words, &others[0]);
        rounds::<R, true>(&mut state, &mut words, &others[1]);
        rounds::<R, true>(&mut state, &mut words, &others[2]);
        if let [_, _, _, constants] = others {
            rounds::<R, true>(&mut state, &mut words, constants);
        }
        rounds::<R, false>(&mut state, &mut words, last);
        for (word, before) in state.iter_mut().zip(before) {
            *word = word.add(before);
        }
    }
    for (row, column) in state.iter().zip(columns) {
        // SAFETY: a column is at least as long as a row.
        unsafe { row.store(column.as_mut_ptr()) };
    }
}

/// The first 64 bits of the fractions of the cube roots of the first primes, FIPS 180-4 section
/// 4.2.3.
#[rustfmt::skip]
static K512: [u64; 80] = [
    0x428a_2f98_d728_ae22, 0x7137_4491_23ef_65cd, 0xb5c0_fbcf_ec4d_3b2f, 0xe9b5_dba5_8189_dbbc,
    0x3956_c25b_f348_b538, 0x59f1_11f1_b605_d019, 0x923f_82a4_af19_4f9b, 0xab1c_5ed5_da6d_8118,
    0xd807_aa98_a303_0242, 0x1283_5b01_4570_6fbe, 0x2431_85be_4ee4_b28c, 0x550c_7dc3_d5ff_b4e2,
    0x72be_5d74_f27b_896f, 0x80de_b1fe_3b16_96b1, 0x9bdc_06a7_25c7_1235, 0xc19b_f174_cf69_2694,
    0xe49b_69c1_9ef1_4ad2, 0xefbe_4786_384f_25e3, 0x0fc1_9dc6_8b8c_d5b5, 0x240c_a1cc_77ac_9c65,
    0x2de9_2c6f_592b_0275, 0x4a74_84aa_6ea6_e483, 0x5cb0_a9dc_bd41_fbd4, 0x76f9_88da_8311_53b5,
    0x983e_5152_ee66_dfab, 0xa831_c66d_2db4_3210, 0xb003_27c8_98fb_213f, 0xbf59_7fc7_beef_0ee4,
    0xc6e0_0bf3_3da8_8fc2, 0xd5a7_9147_930a_a725, 0x06ca_6351_e003_826f, 0x1429_2967_0a0e_6e70,
    0x27b7_0a85_46d2_2ffc, 0x2e1b_2138_5c26_c926, 0x4d2c_6dfc_5ac4_2aed, 0x5338_0d13_9d95_b3df,
    0x650a_7354_8baf_63de, 0x766a_0abb_3c77_b2a8, 0x81c2_c92e_47ed_aee6, 0x9272_2c85_1482_353b,
    0xa2bf_e8a1_4cf1_0364, 0xa81a_664b_bc42_3001, 0xc24b_8b70_d0f8_9791, 0xc76c_51a3_0654_be30,
    0xd192_e819_d6ef_5218, 0xd699_0624_5565_a910, 0xf40e_3585_5771_202a, 0x106a_a070_32bb_d1b8,
    0x19a4_c116_b8d2_d0c8, 0x1e37_6c08_5141_ab53, 0x2748_774c_df8e_eb99, 0x34b0_bcb5_e19b_48a8,
    0x391c_0cb3_c5c9_5a63, 0x4ed8_aa4a_e341_8acb, 0x5b9c_ca4f_7763_e373, 0x682e_6ff3_d6b2_b8a3,
    0x748f_82ee_5def_b2fc, 0x78a5_636f_4317_2f60, 0x84c8_7814_a1f0_ab72, 0x8cc7_0208_1a64_39ec,
    0x90be_fffa_2363_1e28, 0xa450_6ceb_de82_bde9, 0xbef9_a3f7_b2c6_7915, 0xc671_78f2_e372_532b,
    0xca27_3ece_ea26_619c, 0xd186_b8c7_21c0_c207, 0xeada_7dd6_cde0_eb1e, 0xf57d_4f7f_ee6e_d178,
    0x06f0_67aa_7217_6fba, 0x0a63_7dc5_a2c8_98a6, 0x113f_9804_bef9_0dae, 0x1b71_0b35_131c_471b,
    0x28db_77f5_2304_7d84, 0x32ca_ab7b_40c7_2493, 0x3c9e_be0a_15c9_bebc, 0x431d_67c4_9c10_0d4c,
    0x4cc5_d4be_cb3e_42b6, 0x597f_299c_fc65_7e2a, 0x5fcb_6fab_3ad6_faec, 0x6c44_198c_4a47_5817,
];

/// The first 32 bits of the same numbers, section 4.2.2.
pub(crate) static K256: [u32; 64] = {
    let mut constants = [0; 64];
    let mut at = 0;
    while at < constants.len() {
        constants[at] = (K512[at] >> 32) as u32;
        at += 1;
    }
    constants
};
