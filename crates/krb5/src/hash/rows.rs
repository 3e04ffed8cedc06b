//! Rows of words: a vector register that holds the same word of many messages, one message a lane.
#![allow(unsafe_code)]

/// A row of words, one of each lane.
///
/// A row can only be made where the processor has the instructions that its type stands for:
/// [`Row::load`] and [`Row::read_block`] ask their caller for that. So whoever holds a row may
/// calculate with it.
pub(crate) trait Row: Copy {
    /// One lane of the row.
    type Word: Copy;
    /// How many lanes there are.
    const LANES: usize;

    /// Reads a row.
    ///
    /// # Safety
    /// The processor has the instructions of this type, and `LANES` words can be read at `from`.
    unsafe fn load(from: *const Self::Word) -> Self;

    /// Writes the row.
    ///
    /// # Safety
    /// `LANES` words can be written at `to`.
    unsafe fn store(self, to: *mut Self::Word);

    /// Reads the block of 16 words at `at` bytes behind each lane's pointer, and turns it: row `n`
    /// holds word `n` of every lane, in the machine's byte order.
    ///
    /// # Safety
    /// The processor has the instructions of this type, `lanes` has `LANES` pointers, and 16 words
    /// can be read `at` bytes behind each of them.
    unsafe fn read_block(lanes: &[*const u8], at: usize) -> [Self; 16];

    /// Returns a row with `word` in each lane; the row it is called on proves that there may be
    /// one.
    fn fill(self, word: Self::Word) -> Self;

    /// Returns the same row; the compiler does not change the order of a sum across it, so what
    /// waits for the round before can come last.
    fn hold(self) -> Self;

    /// Adds lane by lane, without carry between them.
    fn add(self, other: Self) -> Self;
    /// Rotates each lane.
    fn rotate_right(self, bits: u32) -> Self;
    /// Shifts each lane, zeros come in.
    fn shift_right(self, bits: u32) -> Self;
    /// Adds two rows without carries.
    fn xor(self, other: Self) -> Self;
    /// Adds three rows without carries.
    fn xor3(self, b: Self, c: Self) -> Self;
    /// Takes the bits of `yes` where this row has ones, else those of `no`: Ch of FIPS 180-4.
    fn choose(self, yes: Self, no: Self) -> Self;
    /// Takes the bits that two of three rows agree on: Maj of FIPS 180-4.
    fn majority(self, b: Self, c: Self) -> Self;
    /// The same, with `b_xor_c` as the call for the round before returned it: what is c now was b
    /// then, so where that saves work it returns this row and `b` added without carries.
    #[inline(always)]
    fn majority_after(self, b: Self, c: Self, b_xor_c: Self) -> (Self, Self) {
        (self.majority(b, c), b_xor_c)
    }
}
