//! The one source of random numbers. A seed always gives the same ones.

use std::time::Duration;

/// A generator of random numbers (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    /// Makes a generator from a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed ^ 0x6f72_7468_7275_7321)
    }

    /// Splits off another generator, whose draws do not affect those of this one.
    pub(crate) fn split(&mut self) -> Self {
        Self(self.next())
    }

    /// Draws a number of 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Draws a number below `end`; 0 for an `end` of 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % (end.max(1) as u64)).unwrap_or_default()
    }

    /// Draws a number from `start` to `end`, both included.
    pub(crate) fn between(&mut self, start: usize, end: usize) -> usize {
        start + self.below(end.saturating_sub(start) + 1)
    }

    /// Returns true once in `n` draws.
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Draws a time from `start` on and before `end`.
    pub(crate) fn time(&mut self, start: Duration, end: Duration) -> Duration {
        let span = u64::try_from(end.saturating_sub(start).as_nanos()).unwrap_or(u64::MAX);
        start + Duration::from_nanos(self.next() % span.max(1))
    }

    /// Draws a time between two numbers of milliseconds.
    pub(crate) fn millis(&mut self, start: u64, end: u64) -> Duration {
        self.time(Duration::from_millis(start), Duration::from_millis(end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_and_another_seed_others() {
        let draw = |seed| {
            let mut rng = Rng::new(seed);
            [(); 8].map(|()| rng.next())
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }
}
