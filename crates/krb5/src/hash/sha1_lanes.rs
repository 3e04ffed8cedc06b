//! SHA-1 (FIPS 180-4 section 6.1.2) over rows: one message per lane of a row.

use super::rows::Row;

/// A group of 20 rounds with the same function and constant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    /// Rounds 0 to 19.
    Choose,
    /// Rounds 20 to 39.
    ParityLow,
    /// Rounds 40 to 59.
    Majority,
    /// Rounds 60 to 79.
    ParityHigh,
}

impl Group {
    const fn constant(self) -> u32 {
        match self {
            Group::Choose => 0x5a82_7999,
            Group::ParityLow => 0x6ed9_eba1,
            Group::Majority => 0x8f1b_bcdc,
            Group::ParityHigh => 0xca62_c1d6,
        }
    }
}

/// Runs the 20 rounds of a group and extends the schedule for the next group.
///
/// `words` is the block at first, then the last 16 words of the schedule. Between two groups a
/// caller may do other work in the same function, so that the processor has two independent
/// instruction streams.
#[inline(always)]
pub(crate) fn rounds<R: Row<Word = u32>>(state: &mut [R; 5], words: &mut [R; 16], group: Group) {
    let first = 20 * group as usize;
    let constant = state[0].fill(group.constant());
    five(state, words, group, constant, first);
    five(state, words, group, constant, first + 5);
    five(state, words, group, constant, first + 10);
    five(state, words, group, constant, first + 15);
}

/// Runs five rounds, after which the words of the state are back in their places.
#[inline(always)]
fn five<R: Row<Word = u32>>(
    state: &mut [R; 5],
    words: &mut [R; 16],
    group: Group,
    constant: R,
    first: usize,
) {
    let [mut a, mut b, mut c, mut d, mut e] = *state;
    (b, e) = round(a, b, c, d, e, word(words, first), group, constant);
    (a, d) = round(e, a, b, c, d, word(words, first + 1), group, constant);
    (e, c) = round(d, e, a, b, c, word(words, first + 2), group, constant);
    (d, b) = round(c, d, e, a, b, word(words, first + 3), group, constant);
    (c, a) = round(b, c, d, e, a, word(words, first + 4), group, constant);
    *state = [a, b, c, d, e];
}

/// Returns the new values of `b` and `e`.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "the state stays in registers under the names of FIPS 180-4")]
fn round<R: Row<Word = u32>>(a: R, b: R, c: R, d: R, e: R, word: R, group: Group, constant: R) -> (R, R) {
    let mixed = match group {
        Group::Choose => b.choose(c, d),
        Group::Majority => b.majority(c, d),
        Group::ParityLow | Group::ParityHigh => b.xor3(c, d),
    };
    // Add the operand that depends on the previous round last.
    let early = e.add(word.add(constant)).hold().add(mixed).hold();
    (b.rotate_right(2), early.add(a.rotate_right(27)))
}

/// Returns word `t` of the schedule. From the 17th on it replaces the word 16 places before.
#[inline(always)]
fn word<R: Row<Word = u32>>(words: &mut [R; 16], t: usize) -> R {
    let at = t % 16;
    if t >= 16 {
        let older = words[at].xor3(words[(t + 2) % 16], words[(t + 8) % 16]);
        words[at] = older.xor(words[(t + 13) % 16]).rotate_right(31);
    }
    words[at]
}

/// Hashes `blocks` blocks of each lane. `columns` holds the transposed states.
///
/// # Safety
/// The processor has the instructions of `R`, and `64 * blocks` bytes can be read behind the first
/// `R::LANES` pointers.
#[inline(always)]
#[allow(unsafe_code, reason = "kernels use intrinsics and raw pointers")]
pub(crate) unsafe fn compress<R: Row<Word = u32>, const N: usize>(
    columns: &mut [[u32; N]; 5],
    lanes: &[*const u8; N],
    blocks: usize,
) {
    const { assert!(R::LANES <= N) };
    // SAFETY: the caller guarantees the instructions; a column is at least as long as a row.
    let mut state = [unsafe { R::load(columns[0].as_ptr()) }; 5];
    for (row, column) in state.iter_mut().zip(columns.iter()) {
        // SAFETY: the same.
        *row = unsafe { R::load(column.as_ptr()) };
    }
    for block in 0..blocks {
        // SAFETY: the caller guarantees the instructions and the bytes behind the pointers.
        let mut words = unsafe { R::read_block(lanes, 64 * block) };
        let before = state;
        rounds(&mut state, &mut words, Group::Choose);
        rounds(&mut state, &mut words, Group::ParityLow);
        rounds(&mut state, &mut words, Group::Majority);
        rounds(&mut state, &mut words, Group::ParityHigh);
        for (word, before) in state.iter_mut().zip(before) {
            *word = word.add(before);
        }
    }
    for (row, column) in state.iter().zip(columns) {
        // SAFETY: a column is at least as long as a row.
        unsafe { row.store(column.as_mut_ptr()) };
    }
}
