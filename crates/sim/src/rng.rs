//! The one source of random numbers. A seed always gives the same ones.

use rng::SplitMix64;
use std::time::Duration;

/// A generator of random numbers, with the draws that a simulation needs.
#[derive(Clone, Debug)]
pub(crate) struct Rng(SplitMix64);

impl Rng {
    /// Makes a generator from a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64(seed ^ 0x6f72_7468_7275_7321))
    }

    /// Splits off another generator, whose draws do not affect those of this one.
    pub(crate) fn split(&mut self) -> Self {
        Self(SplitMix64(self.next()))
    }

    /// Draws a number of 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0.draw()
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
    fn a_seed_of_an_earlier_version_keeps_its_meaning() {
        let mut rng = Rng::new(1);
        assert_eq!([rng.next(), rng.next()], [0x0168_6327_ab8a_0e58, 0x430b_55e5_ba75_dedd]);
    }

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
