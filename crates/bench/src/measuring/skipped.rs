//! Skipped cases and variants, and their reasons.

use super::{Case, Record};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Characters of a reason that a cell of a table has room for.
const BRIEF_MAX: usize = 40;

/// The text in a cell of a case whose variant was abandoned before.
const VARIANT_SKIPPED: &str = "left out";

/// The text in a cell without a case.
const NOTHING: &str = "–";

/// A request without an answer. If a variant's first case ends so, the variant is tried again with
/// the next case; after other errors it is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoAnswer(pub Duration);

impl fmt::Display for NoAnswer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "no answer in {} s", self.0.as_secs())
    }
}

impl std::error::Error for NoAnswer {}

/// A variant that could not be measured, or one of its cases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// The variant, by its name in the settings.
    #[serde(rename = "side")]
    pub variant: String,
    /// The case's group; none where the whole variant is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Why, as part of a sentence without its full stop.
    pub reason: String,
}

impl Missing {
    /// Notes that a whole variant is skipped.
    pub fn variant(variant: &str, reason: impl Into<String>) -> Self {
        Self { variant: variant.to_owned(), group: None, reason: reason.into() }
    }

    /// Notes that one case is skipped.
    pub fn case(case: &Case, reason: impl Into<String>) -> Self {
        Self { variant: case.variant.clone(), group: Some(case.group.clone()), reason: reason.into() }
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
    /// Returns whether a variant is left out for the rest of the run.
    pub fn is_skipped(&self, variant: &str) -> bool {
        self.skipped.iter().any(|missing| missing.variant == variant && missing.group.is_none())
    }

    /// Returns why a case has failed, if it has.
    pub fn failure(&self, group: &str, variant: &str) -> Option<&Missing> {
        self.skipped
            .iter()
            .find(|missing| missing.variant == variant && missing.group.as_deref() == Some(group))
    }

    /// Returns the text in place of a case's missing figures.
    pub fn blank(&self, group: &str, variant: &str) -> String {
        match self.failure(group, variant) {
            Some(missing) => missing.brief(),
            None if self.is_skipped(variant) => VARIANT_SKIPPED.to_owned(),
            None => NOTHING.to_owned(),
        }
    }

    /// Returns sentences on the skipped cases; cases of a variant with the same reason share one.
    pub fn skipped_sentences(&self) -> Vec<String> {
        let mut told: Vec<(&Missing, Vec<&str>)> = Vec::new();
        for missing in &self.skipped {
            let same = |(other, _): &&mut (&Missing, Vec<&str>)| {
                other.variant == missing.variant
                    && other.reason == missing.reason
                    && other.group.is_some() == missing.group.is_some()
            };
            match told.iter_mut().find(same) {
                Some((_, groups)) => groups.extend(missing.group.as_deref()),
                None => told.push((missing, missing.group.as_deref().into_iter().collect())),
            }
        }
        let sentence = |(missing, groups): (&Missing, Vec<&str>)| {
            let Missing { variant, reason, .. } = missing;
            match groups.as_slice() {
                [] => format!("{variant} was left out: {reason}."),
                groups => format!("{variant} has no figures for {}: {reason}.", groups.join("; ")),
            }
        };
        let again = |missing: &Missing| {
            let case = missing.group.as_ref().map_or(String::new(), |group| format!("{group}, "));
            format!("{case}{} had failed before this run went on: {}.", missing.variant, missing.reason)
        };
        told.into_iter().map(sentence).chain(self.tried_again.iter().map(again)).collect()
    }

    /// Clears the skipped cases, so that they are tried again; the record keeps the earlier
    /// failure.
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
        let brief = |reason: &str| Missing::variant("sys", reason).brief();
        assert_eq!(brief("client 2 of 8: no answer in 20 s"), "no answer in 20 s");
        assert_eq!(brief("WRITE: NFS4ERR_NOSPC (the server is full); make room"), "NFS4ERR_NOSPC");
        assert_eq!(brief(&"long ".repeat(20)), "failed");
        assert_eq!(brief(""), "failed");
    }
}
