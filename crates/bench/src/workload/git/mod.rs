//! The file system operations of git, without git: clone, status, checkout, commit and gc on a
//! small repository whose files come from a seed, or on one with the files of another.
//!
//! As in git, files that must appear complete are written under another name (`index.lock`,
//! `tmp_pack`) and renamed; status looks at every file and lists every folder; gc reads the loose
//! objects, writes a pack and removes them.

mod shape;
mod turn;

use anyhow::Result;
use std::time::{Duration, Instant};

use super::{Conditions, LoadTally};
use crate::Tree;
pub use crate::counters::Counters;
use crate::counters::count_phase;
pub use shape::RepositoryShape;

/// Works with repositories, one after the other, until the time is over; each begins and ends with
/// an empty folder, so the last one runs over.
///
/// # Errors
/// The server's error, and data that differs from the written data.
pub fn run(
    tree: &mut dyn Tree,
    repository: &RepositoryShape,
    conditions: &Conditions<'_>,
    tally: &mut LoadTally,
) -> Result<Counters> {
    let start = Instant::now();
    let mut work = turn::TreeWork { tree, tally, counters: Counters::new() };
    loop {
        work.turn(repository)?;
        if start.elapsed() >= conditions.length || conditions.stopped() {
            return Ok(work.counters);
        }
    }
}

impl turn::TreeWork<'_> {
    fn count(&mut self, phase: &'static str, bytes: usize, latency: Duration) {
        self.tally.count(bytes, latency);
        count_phase(&mut self.counters, phase, 1, latency);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::pattern::Pattern;
    use crate::workload::fake::FakeEndpoint;
    use std::sync::atomic::AtomicBool;

    /// Does all that git does once with the files of a repository.
    pub(crate) fn leaves_nothing(known: &crate::KnownRepository) -> Counters {
        let mut fake = FakeEndpoint::new();
        let (_, counters) = turn(&mut fake, &RepositoryShape::of(known, 1)).unwrap();
        assert!(fake.files.is_empty() && fake.folders.is_empty(), "{:?}", fake.files.keys());
        counters
    }

    fn once(fake: &mut FakeEndpoint, seed: u64) -> Result<(LoadTally, Counters)> {
        turn(fake, &RepositoryShape::draw(seed))
    }

    fn turn(fake: &mut FakeEndpoint, repository: &RepositoryShape) -> Result<(LoadTally, Counters)> {
        let stop = AtomicBool::new(false);
        let conditions =
            Conditions { file_size: 0, pattern: Pattern(0), length: Duration::ZERO, stop: &stop };
        let mut tally = LoadTally::default();
        let counters = run(fake, repository, &conditions, &mut tally)?;
        Ok((tally, counters))
    }

    #[test]
    fn a_turn_does_all_that_git_does_and_leaves_nothing() {
        let mut fake = FakeEndpoint::new();
        let (tally, counters) = once(&mut fake, 1).unwrap();
        assert!(fake.files.is_empty() && fake.folders.is_empty(), "{:?}", fake.files.keys());
        for phase in ["clone", "status", "checkout", "commit", "gc", "remove"] {
            assert!(counters[&format!("{phase}_operations")] > 5, "{phase}: {counters:?}");
        }
        assert_eq!(tally.operations, tally.latencies.len());
        assert!(tally.bytes > 500_000, "{}", tally.bytes);
    }

    #[test]
    fn a_seed_draws_the_same_and_another_draws_something_else() {
        let operations = |seed| once(&mut FakeEndpoint::new(), seed).unwrap().0;
        assert_eq!(operations(1).bytes, operations(1).bytes);
        assert_ne!(operations(1).bytes, operations(2).bytes);
    }

    #[test]
    fn an_object_that_is_not_what_was_written_ends_the_run() {
        let mut fake = FakeEndpoint::new();
        fake.rotten = Some(5);
        let error = once(&mut fake, 1).unwrap_err().to_string();
        assert!(error.contains("objects/") && error.contains("not what was written"), "{error}");
    }
}
