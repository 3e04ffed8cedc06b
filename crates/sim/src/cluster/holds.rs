//! The state that clients could be sure of, and the data that was acknowledged, for the checks.

use super::gateway::GRACE;
use std::collections::BTreeMap;
use std::time::Duration;

/// The time from a client's last renewal, within which it must be able to reclaim if its gateway
/// was never gone for long.
const RECLAIM_TIME_MAX: Duration = Duration::from_secs(35);

/// A lock or an open that excludes all others from a file.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    /// The client, and its life.
    pub(super) owner: (usize, u32),
    pub(super) file: usize,
    pub(super) from: Duration,
    /// Until when the client was sure of it; `None` while it is.
    pub(super) until: Option<Duration>,
}

/// All claims of a run, and the numbers in the files.
#[derive(Default)]
pub(super) struct Holds {
    all: Vec<Claim>,
    /// The highest number of a file that was acknowledged, and when.
    acknowledged: BTreeMap<usize, (u64, Duration)>,
    /// When the state of a member was lost last, by an eviction or a long absence.
    pub(super) excused: BTreeMap<usize, Duration>,
}

impl Holds {
    pub(super) fn begin(&mut self, claim: Claim) -> usize {
        self.all.push(claim);
        self.all.len() - 1
    }

    pub(super) fn end(&mut self, hold: usize, until: Duration) {
        let claim = &mut self.all[hold];
        claim.until = Some(until.max(claim.from));
    }

    /// Notes an acknowledged number; returns false if it was acknowledged before.
    pub(super) fn acknowledge(&mut self, file: usize, number: u64, now: Duration) -> bool {
        let last = self.acknowledged.entry(file).or_default();
        let is_new = number > last.0;
        if is_new {
            *last = (number, now);
        }
        is_new
    }

    /// Returns the number that a reading which was called at a time should have shown.
    pub(super) fn lost(&self, file: usize, number: u64, called: Duration) -> Option<u64> {
        let (last, at) = self.acknowledged.get(&file)?;
        (*last > number && *at < called).then_some(*last)
    }

    /// Returns whether a client that renewed its lease last at a time must be able to reclaim.
    pub(super) fn must_be_reclaimed(&self, node: usize, renewed: Duration, now: Duration) -> bool {
        let excused = self.excused.get(&node).is_some_and(|at| *at + GRACE >= renewed);
        !excused && now < renewed + RECLAIM_TIME_MAX
    }

    /// Returns the pairs of claims that contradict each other.
    pub(super) fn conflicts(&self) -> Vec<(Claim, Claim)> {
        let mut files: BTreeMap<usize, Vec<&Claim>> = BTreeMap::new();
        self.all.iter().for_each(|claim| files.entry(claim.file).or_default().push(claim));
        let mut conflicts = Vec::new();
        for claims in files.into_values() {
            for (at, claim) in claims.iter().enumerate() {
                let until = claim.until.unwrap_or(Duration::MAX);
                let later = claims.iter().skip(at + 1).take_while(|other| other.from < until);
                let other = later
                    .filter(|other| other.owner.0 != claim.owner.0)
                    .find(|other| other.until.is_none_or(|until| until > other.from));
                conflicts.extend(other.map(|other| ((*claim).clone(), (*other).clone())));
            }
        }
        conflicts
    }
}
