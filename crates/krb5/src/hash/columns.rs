//! Transposed states of many messages: for each word, the words of all lanes, as rows are loaded.

use zeroize::Zeroize;

/// The states of several messages, one per column.
pub(crate) trait StateColumns<S>: Default + Zeroize {
    /// Sets the state of a lane.
    fn put(&mut self, lane: usize, state: &S);
    /// Returns the state of a lane.
    fn get(&self, lane: usize) -> S;
}

/// States of `WORDS` words of `LANES` messages.
#[repr(align(64))]
pub(crate) struct Columns<W, const WORDS: usize, const LANES: usize>(pub(super) [[W; LANES]; WORDS]);

impl<W: Copy + Default, const WORDS: usize, const LANES: usize> Default for Columns<W, WORDS, LANES> {
    fn default() -> Self {
        Self([[W::default(); LANES]; WORDS])
    }
}

impl<W: Zeroize, const WORDS: usize, const LANES: usize> Zeroize for Columns<W, WORDS, LANES> {
    fn zeroize(&mut self) {
        self.0.zeroize();
    }
}

impl<W, const WORDS: usize, const LANES: usize> StateColumns<[W; WORDS]> for Columns<W, WORDS, LANES>
where
    W: Copy + Default + Zeroize,
{
    #[inline]
    fn put(&mut self, lane: usize, state: &[W; WORDS]) {
        for (row, &word) in self.0.iter_mut().zip(state) {
            row[lane] = word;
        }
    }

    #[inline]
    fn get(&self, lane: usize) -> [W; WORDS] {
        let mut state = [W::default(); WORDS];
        for (word, row) in state.iter_mut().zip(&self.0) {
            *word = row[lane];
        }
        state
    }
}
