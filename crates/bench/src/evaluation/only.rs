//! A part of an evaluation: the cases with a given text in their names.

use crate::measuring::{Case, Evaluation, Record};
use anyhow::Result;
use std::sync::atomic::AtomicBool;

/// Selects the cases of another evaluation whose group contains the text, in any letter case.
pub struct Only<'a> {
    inner: &'a mut dyn Evaluation,
    text: String,
    /// Number of offered cases, and of selected ones.
    seen: (usize, usize),
}

impl<'a> Only<'a> {
    /// Selects from the cases of `inner`.
    pub fn new(inner: &'a mut dyn Evaluation, text: &str) -> Self {
        Self { inner, text: text.to_lowercase(), seen: (0, 0) }
    }

    /// Returns whether any case was passed on.
    pub fn has_matched(&self) -> bool {
        self.seen.1 > 0
    }
}

impl Evaluation for Only<'_> {
    fn next(&mut self, record: &Record) -> Option<Vec<Case>> {
        loop {
            let mut cases = self.inner.next(record)?;
            self.seen.0 += cases.len();
            cases.retain(|case| case.group.to_lowercase().contains(&self.text));
            self.seen.1 += cases.len();
            if !cases.is_empty() {
                return Some(cases);
            }
        }
    }

    /// Assumes that the same fraction of the remaining cases matches.
    fn to_come(&self, record: &Record) -> usize {
        self.inner.to_come(record) * self.seen.1 / self.seen.0.max(1)
    }

    fn copies(&self, stop: &AtomicBool) -> Result<u64> {
        self.inner.copies(stop)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{OntapClimb, quick};
    use super::*;
    use crate::measuring::Settings;

    #[test]
    fn only_the_cases_whose_names_contain_the_text_are_measured() {
        let settings = Settings::new(1, 1.0, 1 << 20, vec!["sys".to_owned(), "krb5p".to_owned()]);
        let record = Record::begin("quick", "", settings.clone());
        let groups = |evaluation: &mut dyn Evaluation, text: &str| {
            let mut only = Only::new(evaluation, text);
            let groups: Vec<String> =
                std::iter::from_fn(|| only.next(&record)).map(|cases| cases[0].group.clone()).collect();
            assert_eq!(only.has_matched(), !groups.is_empty());
            groups
        };
        let found = groups(&mut quick(&settings, 1), "random READ");
        assert_eq!(found, ["Random read, 4 KiB, 64 in flight", "Random read, 4 KiB, one at a time"]);
        assert!(groups(&mut quick(&settings, 1), "nothing").is_empty());
        assert_eq!(groups(&mut OntapClimb::new(&[1], &[]), "8 KiB sequential writes").len(), 1);
    }
}
