//! Rows of words: a vector register that holds the same word of many messages, one per lane.
#![allow(unsafe_code, reason = "kernels use intrinsics and raw pointers")]

/// A row of words, one per lane.
///
/// A row exists only if the processor has the instructions of its type: [`Row::load`] and
/// [`Row::read_block`] require this from their caller. So the methods of an existing row are safe.
pub(crate) trait Row: Copy {
    /// The word of one lane.
    type Word: Copy;
    /// The number of lanes.
    const LANES: usize;

    /// Loads a row from memory.
    ///
    /// # Safety
    /// The processor has the instructions of this type, and `LANES` words can be read at `from`.
    unsafe fn load(from: *const Self::Word) -> Self;

    /// Stores the row in memory.
    ///
    /// # Safety
    /// `LANES` words can be written at `to`.
    unsafe fn store(self, to: *mut Self::Word);

    /// Reads the block of 16 words at offset `at` of each lane's pointer, and transposes it: row
    /// `n` holds word `n` of every lane, in native byte order.
    ///
    /// # Safety
    /// The processor has the instructions of this type, `lanes` has `LANES` pointers, and 16 words
    /// can be read at offset `at` of each of them.
    unsafe fn read_block(lanes: &[*const u8], at: usize) -> [Self; 16];

    /// Returns a row with `word` in each lane. `self` only proves that the processor has the
    /// instructions.
    fn fill(self, word: Self::Word) -> Self;

    /// Returns the same row. The compiler does not reorder sums across it, so that the operand that
    /// depends on the previous round can be added last.
    fn hold(self) -> Self;

    /// Adds each lane without carry into the next.
    fn add(self, other: Self) -> Self;
    /// Rotates each lane right by `bits`.
    fn rotate_right(self, bits: u32) -> Self;
    /// Shifts each lane right by `bits`, filling with zeros.
    fn shift_right(self, bits: u32) -> Self;
    /// XORs each lane of two rows.
    fn xor(self, other: Self) -> Self;
    /// XORs each lane of three rows.
    fn xor3(self, b: Self, c: Self) -> Self;
    /// Takes the bits of `yes` where this row has ones, else the bits of `no`: Ch of FIPS 180-4.
    fn choose(self, yes: Self, no: Self) -> Self;
    /// Takes the majority of three bits: Maj of FIPS 180-4.
    fn majority(self, b: Self, c: Self) -> Self;
    /// Computes the majority; `b_xor_c` is the second result of the previous round. The `c` of this
    /// round was `b` then, so implementations that gain from it return this row XOR `b`.
    #[inline(always)]
    fn majority_after(self, b: Self, c: Self, b_xor_c: Self) -> (Self, Self) {
        (self.majority(b, c), b_xor_c)
    }
}
