//! The tests that are not expected to pass, and the reasons.
//!
//! One test a line: `CODE OUTCOME[/FLAVOR,…] REASON`. Empty lines and lines that begin with `#` are
//! ignored.

use super::SuiteFlavor;
use super::outcome::TestOutcome;
use anyhow::{Context, bail, ensure};
use clap::ValueEnum;

/// One line of the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Expectation {
    /// The code of the test.
    pub code: String,
    /// The expected outcome of the test.
    pub outcome: TestOutcome,
    /// The flavors that the expectation covers.
    flavors: Vec<SuiteFlavor>,
    /// Why, with the section that says so.
    pub reason: String,
}

/// A file of them.
#[derive(Debug)]
pub(super) struct Expectations(Vec<Expectation>);

impl Expectations {
    /// Reads a file.
    ///
    /// # Errors
    /// When a line is not as the module says, with its number; when two lines are about the same
    /// test in the same flavor.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let mut all: Vec<Expectation> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let one = expectation(line).with_context(|| format!("line {}", index + 1))?;
            let same = |other: &Expectation| {
                other.code == one.code && other.flavors.iter().any(|flavor| one.flavors.contains(flavor))
            };
            if all.iter().any(same) {
                bail!("line {}: {} stands there twice", index + 1, one.code);
            }
            all.push(one);
        }
        Ok(Self(all))
    }

    /// Adds the lines of another file, which replace those of the same tests.
    pub(super) fn override_by(&mut self, other: Self) {
        self.0.retain(|one| !other.0.iter().any(|new| new.code == one.code));
        self.0.extend(other.0);
    }

    /// Returns the expectation for a test; `None` if the test is expected to pass.
    pub(super) fn of(&self, code: &str, flavor: SuiteFlavor) -> Option<&Expectation> {
        self.0.iter().find(|one| one.code == code && one.flavors.contains(&flavor))
    }

    /// All codes that are named for a flavor.
    pub(super) fn codes(&self, flavor: SuiteFlavor) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |one| one.flavors.contains(&flavor)).map(|one| one.code.as_str())
    }
}

fn expectation(line: &str) -> anyhow::Result<Expectation> {
    let (code, rest) = line.split_once(char::is_whitespace).context("a code alone says nothing")?;
    let (what, reason) = rest.trim_start().split_once(char::is_whitespace).context("there is no reason")?;
    let (name, flavors) = match what.split_once('/') {
        None => (what, SuiteFlavor::value_variants().to_vec()),
        Some((name, flavors)) => {
            let read =
                |word| SuiteFlavor::from_str(word, false).ok().with_context(|| format!("no flavor {word:?}"));
            (name, flavors.split(',').map(read).collect::<anyhow::Result<_>>()?)
        }
    };
    let outcome = TestOutcome::from_name(name).with_context(|| format!("no outcome {name:?}"))?;
    ensure!(outcome != TestOutcome::Passed, "a test that passes needs no line");
    Ok(Expectation { code: code.to_owned(), outcome, flavors, reason: reason.trim().to_owned() })
}

#[cfg(test)]
mod tests {
    use super::super::suite::PynfsSuite;
    use super::*;

    #[test]
    fn a_line_has_a_code_an_outcome_flavors_and_a_reason() {
        let text =
            "# says nothing\n\nEID4 failed RFC 8881 section 18.35: so it is\nX1 skipped/krb5i,krb5p  why\n";
        let expectations = Expectations::parse(text).unwrap();
        let eid4 = expectations.of("EID4", SuiteFlavor::Krb5).unwrap();
        assert_eq!(
            (eid4.outcome, eid4.reason.as_str()),
            (TestOutcome::Failed, "RFC 8881 section 18.35: so it is")
        );
        assert!(expectations.of("X1", SuiteFlavor::Sys).is_none());
        assert_eq!(expectations.of("X1", SuiteFlavor::Krb5p).unwrap().outcome, TestOutcome::Skipped);
        assert_eq!(expectations.codes(SuiteFlavor::Sys).collect::<Vec<_>>(), ["EID4"]);
    }

    #[test]
    fn lines_of_a_second_file_replace_those_of_the_same_tests() {
        let mut expectations = Expectations::parse("A1 failed/krb5 one\nB1 failed two\n").unwrap();
        expectations.override_by(Expectations::parse("A1 warned three\nC1 failed four\n").unwrap());
        assert_eq!(expectations.codes(SuiteFlavor::Krb5).collect::<Vec<_>>(), ["B1", "A1", "C1"]);
        assert_eq!(expectations.of("A1", SuiteFlavor::Krb5).unwrap().outcome, TestOutcome::Warned);
    }

    #[test]
    fn a_malformed_expectation_is_an_error_with_its_line() {
        for (text, says) in [
            ("A1", "a code alone"),
            ("A1 failed", "no reason"),
            ("A1 broken why", "no outcome"),
            ("A1 failed/krb6 why", "no flavor"),
            ("A1 passed why", "needs no line"),
            ("\nA1 failed why\nA1 skipped/sys why", "line 3: A1 stands there twice"),
        ] {
            let error = format!("{:#}", Expectations::parse(text).unwrap_err());
            assert!(error.starts_with("line ") && error.contains(says), "{text:?}: {error}");
        }
    }

    #[test]
    fn the_files_in_the_repository_can_be_read() {
        for suite in [PynfsSuite::Minor0, PynfsSuite::Minor1, PynfsSuite::Minor2] {
            for path in [suite.expectations()].into_iter().chain(suite.ceph_expectations()) {
                Expectations::parse(&std::fs::read_to_string(steps::root().join(path)).unwrap()).unwrap();
            }
        }
    }
}
