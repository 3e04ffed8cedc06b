//! Numbers that a seed draws, the same in each run: for workloads and tests, never for secrets.

/// The generator SplitMix64, with its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// Draws a number of 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Draws a number below a bound; 0 for a bound of 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(bound)) >> 64) as u64
    }

    /// Draws an index below a length; 0 for a length of 0.
    pub fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// Fills whole words of eight bytes: nothing that compresses. The rest keeps its bytes.
    pub fn fill(&mut self, data: &mut [u8]) {
        data.as_chunks_mut::<8>().0.iter_mut().for_each(|word| *word = self.draw().to_le_bytes());
    }

    /// Draws so many bytes.
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length.next_multiple_of(8)];
        self.fill(&mut bytes);
        bytes.truncate(length);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_the_published_numbers() {
        let mut random = SplitMix64(1_234_567);
        let drawn = [random.draw(), random.draw(), random.draw()];
        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn numbers_below_a_bound_reach_both_ends_and_nothing_beyond() {
        let mut random = SplitMix64(1);
        let drawn: Vec<u64> = (0..1000).map(|_| random.below(10)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&0), Some(&9)));
        assert_eq!((random.below(0), random.index(0), random.bytes(0)), (0, 0, Vec::new()));
    }

    #[test]
    fn bytes_have_any_length_and_go_on_with_the_next_words() {
        let (mut random, mut words) = (SplitMix64(5), SplitMix64(5));
        let expected: Vec<u8> = (0..2).flat_map(|_| words.draw().to_le_bytes()).collect();
        assert_eq!(random.bytes(13), expected[..13]);
        assert_eq!(random, words);
    }
}
