//! Numbers that a seed draws: every run and every flavor draws the same.

/// The generator SplitMix64.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SplitMix64(pub u64);

impl SplitMix64 {
    /// Returns the next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below a bound.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Fills whole words of eight bytes: nothing that compresses.
    pub(crate) fn fill(&mut self, data: &mut [u8]) {
        data.as_chunks_mut::<8>().0.iter_mut().for_each(|word| *word = self.next().to_le_bytes());
    }
}
