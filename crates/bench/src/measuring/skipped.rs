//! What could not be measured, and how that is told.

use super::{Case, Record};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Characters of a reason that a cell of a table has room for.
const BRIEF_MAX: usize = 40;

/// What a cell says of a case whose side was given up before it.
const SIDE_SKIPPED: &str = "left out";

/// What a cell says where nothing was asked for.
const NOTHING: &str = "–";

/// A request that was not answered. A side whose first case meets it is tried again with the next
/// case, which other errors of a side that never came to measure anything do not earn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoAnswer(pub Duration);

impl fmt::Display for NoAnswer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "no answer in {} s", self.0.as_secs())
    }
}

impl std::error::Error for NoAnswer {}

/// A side that could not be measured, or one of its cases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Which side.
    pub side: String,
    /// The case's group; none where the whole side is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Why, as part of a sentence without its full stop.
    pub reason: String,
}

impl Missing {
    /// Leaves a whole side out.
    pub fn side(side: &str, reason: impl Into<String>) -> Self {
        Self { side: side.to_owned(), group: None, reason: reason.into() }
    }

    /// Leaves one case out.
    pub fn case(case: &Case, reason: impl Into<String>) -> Self {
        Self { side: case.side.clone(), group: Some(case.group.clone()), reason: reason.into() }
    }

    /// Returns the reason in the few words that a cell has room for: the innermost cause, without
    /// its cure.
    pub fn brief(&self) -> String {
        let told = self.reason.split([';', '(']).next().unwrap_or_default().trim();
        let cause = told.rsplit(": ").next().unwrap_or_default();
        let fits = !cause.is_empty() && cause.chars().count() <= BRIEF_MAX;
        if fits { cause.to_owned() } else { "failed".to_owned() }
    }
}

impl Record {
    /// Says whether a side is left out for the rest of the run.
    pub fn is_skipped(&self, side: &str) -> bool {
        self.skipped.iter().any(|missing| missing.side == side && missing.group.is_none())
    }

    /// Returns why a case has failed, if it has.
    pub fn failure(&self, group: &str, side: &str) -> Option<&Missing> {
        self.skipped.iter().find(|missing| missing.side == side && missing.group.as_deref() == Some(group))
    }

    /// Returns what stands in the place of a case's figures where there are none.
    pub fn blank(&self, group: &str, side: &str) -> String {
        match self.failure(group, side) {
            Some(missing) => missing.brief(),
            None if self.is_skipped(side) => SIDE_SKIPPED.to_owned(),
            None => NOTHING.to_owned(),
        }
    }

    /// Says in sentences what is left out, the cases of a side with the same reason in one.
    pub fn skipped_sentences(&self) -> Vec<String> {
        let mut told: Vec<(&Missing, Vec<&str>)> = Vec::new();
        for missing in &self.skipped {
            let same = |(other, _): &&mut (&Missing, Vec<&str>)| {
                other.side == missing.side
                    && other.reason == missing.reason
                    && other.group.is_some() == missing.group.is_some()
            };
            match told.iter_mut().find(same) {
                Some((_, groups)) => groups.extend(missing.group.as_deref()),
                None => told.push((missing, missing.group.as_deref().into_iter().collect())),
            }
        }
        let sentence = |(missing, groups): (&Missing, Vec<&str>)| {
            let Missing { side, reason, .. } = missing;
            match groups.as_slice() {
                [] => format!("{side} was left out: {reason}."),
                groups => format!("{side} has no figures for {}: {reason}.", groups.join("; ")),
            }
        };
        let again = |missing: &Missing| {
            let case = missing.group.as_ref().map_or(String::new(), |group| format!("{group}, "));
            format!("{case}{} had failed before this run went on: {}.", missing.side, missing.reason)
        };
        told.into_iter().map(sentence).chain(self.tried_again.iter().map(again)).collect()
    }

    /// Forgets what was left out, so that it is tried again; that it failed before stays known.
    pub(super) fn try_again(&mut self) {
        for missing in std::mem::take(&mut self.skipped) {
            if !self.tried_again.contains(&missing) {
                self.tried_again.push(missing);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_has_the_innermost_cause() {
        let brief = |reason: &str| Missing::side("sys", reason).brief();
        assert_eq!(brief("client 2 of 8: no answer in 20 s"), "no answer in 20 s");
        assert_eq!(brief("WRITE: NFS4ERR_NOSPC (the server is full); make room"), "NFS4ERR_NOSPC");
        assert_eq!(brief(&"long ".repeat(20)), "failed");
        assert_eq!(brief(""), "failed");
    }
}
