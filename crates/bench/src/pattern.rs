//! The contents of the file that is measured: any eight bytes say where in which file they belong.
//!
//! A server that is fast because it returns the wrong bytes is found out at the first read. Word
//! `n` is `seed + n * STEP` modulo 2^64, so filling and checking are one addition for each word.

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
const WORD: usize = 8;

/// The pattern of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern(pub u64);

impl Pattern {
    fn word(self, offset: u64) -> u64 {
        self.0.wrapping_add((offset / WORD as u64).wrapping_mul(STEP))
    }

    /// Fills `data` with the pattern from `offset`. Offset and length are multiples of 8.
    pub fn fill(self, offset: u64, data: &mut [u8]) {
        let mut word = self.word(offset);
        for place in data.as_chunks_mut::<WORD>().0 {
            *place = word.to_le_bytes();
            word = word.wrapping_add(STEP);
        }
    }

    /// Returns the offset of the first word of `data`, read at `offset`, that differs from the
    /// pattern.
    pub fn mismatch(self, offset: u64, data: &[u8]) -> Option<u64> {
        let mut word = self.word(offset);
        // Without an early end the loop is a few vector instructions; where it failed is only asked
        // then.
        let mut difference = 0;
        for found in data.as_chunks::<WORD>().0 {
            difference |= u64::from_le_bytes(*found) ^ word;
            word = word.wrapping_add(STEP);
        }
        if difference == 0 { None } else { self.find(offset, data) }
    }

    #[cold]
    fn find(self, offset: u64, data: &[u8]) -> Option<u64> {
        let offsets = (offset..).step_by(WORD);
        let mut words = offsets.zip(data.as_chunks::<WORD>().0);
        words.find(|(at, found)| u64::from_le_bytes(**found) != self.word(*at)).map(|(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filled_data_matches_at_its_own_offset_only() {
        let mut data = vec![0; 4096];
        Pattern(7).fill(8192, &mut data);
        assert_eq!(Pattern(7).mismatch(8192, &data), None);
        assert_eq!(Pattern(7).mismatch(0, &data), Some(0));
        assert_eq!(Pattern(8).mismatch(8192, &data), Some(8192));
        let mut part = vec![0; 8];
        Pattern(7).fill(8192 + 4088, &mut part);
        assert_eq!(part, data[4088..]);
    }

    #[test]
    fn a_single_wrong_bit_is_found_where_it_is() {
        let mut data = vec![0; 1 << 20];
        Pattern(1).fill(0, &mut data);
        data[777_777] ^= 1;
        assert_eq!(Pattern(1).mismatch(0, &data), Some(777_776));
    }
}
