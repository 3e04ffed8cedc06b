//! Results beside expectations: a table, the tests that did not pass with their reasons, and the
//! unexpected outcomes.

use super::checkout;
use super::expect::Expectations;
use super::outcome::{TestOutcome, TestResult};
use super::suite::PynfsSuite;
use super::{FlavorRun, SuiteFlavor};
use serde_json::{Value, json};

/// The report on runs of one suite.
pub(super) struct SuiteReport<'a> {
    suite: PynfsSuite,
    expectations: &'a Expectations,
    runs: &'a [FlavorRun],
    /// All tests were run: an expectation without a result is a mistake.
    whole: bool,
}

impl<'a> SuiteReport<'a> {
    /// Compares runs with the expectations.
    pub(super) fn new(
        suite: PynfsSuite,
        expectations: &'a Expectations,
        runs: &'a [FlavorRun],
        whole: bool,
    ) -> Self {
        Self { suite, expectations, runs, whole }
    }

    /// How many results, of all flavors, are not as expected.
    pub(super) fn unexpected(&self) -> usize {
        self.runs.iter().map(|run| self.surprises(run).len()).sum()
    }

    /// Prints all of it.
    pub(super) fn print(&self) {
        print_lines("", self.merged(|run| self.reasons(run)));
        print_lines("UNEXPECTED: ", self.merged(|run| self.surprises(run)));
        println!(
            "\n{:8}{:>8}{:>8}{:>8}{:>8}{:>12}{:>8}",
            "", "passed", "failed", "warned", "skipped", "unexpected", "time"
        );
        for run in self.runs {
            println!(
                "{:8}{:8}{:8}{:8}{:8}{:12}{:6} s",
                run.flavor.name(),
                run.count(&[TestOutcome::Passed]),
                run.count(&[TestOutcome::Failed]),
                run.count(&[TestOutcome::Warned, TestOutcome::Unsupported]),
                run.count(&[TestOutcome::Skipped]),
                self.surprises(run).len(),
                run.took.as_secs(),
            );
        }
    }

    /// The same as a value.
    pub(super) fn json(&self, commit: &str) -> Value {
        let flavors: Vec<Value> = self.runs.iter().map(|run| self.json_of(run)).collect();
        json!({
            "suite": format!("pynfs {}", self.suite.name()), "commit": commit, "expected_commit": checkout::COMMIT,
            "unexpected": self.unexpected(), "flavors": flavors,
        })
    }

    fn json_of(&self, run: &FlavorRun) -> Value {
        let test = |result: &TestResult| {
            let expected = self.expectations.of(&result.code, run.flavor);
            json!({
                "code": result.code, "name": result.name, "outcome": result.outcome.name(),
                "message": result.message, "expected": self.is_expected(result, run.flavor),
                "reason": expected.map(|expected| &expected.reason),
            })
        };
        json!({
            "flavor": run.flavor.name(), "seconds": run.took.as_secs(),
            "passed": run.count(&[TestOutcome::Passed]), "failed": run.count(&[TestOutcome::Failed]),
            "warned": run.count(&[TestOutcome::Warned, TestOutcome::Unsupported]), "skipped": run.count(&[TestOutcome::Skipped]),
            "unexpected": self.surprises(run), "tests": run.results.iter().map(test).collect::<Vec<_>>(),
        })
    }

    fn is_expected(&self, result: &TestResult, flavor: SuiteFlavor) -> bool {
        let expected =
            self.expectations.of(&result.code, flavor).map_or(TestOutcome::Passed, |one| one.outcome);
        result.outcome == expected
    }

    /// Lines of all runs, each once with the flavors that it is about, in the order in which they
    /// come up first.
    fn merged(&self, lines: impl Fn(&FlavorRun) -> Vec<String>) -> Vec<(String, Vec<&'static str>)> {
        let mut merged: Vec<(String, Vec<&'static str>)> = Vec::new();
        for run in self.runs {
            for line in lines(run) {
                match merged.iter_mut().find(|(known, _)| *known == line) {
                    Some((_, flavors)) => flavors.push(run.flavor.name()),
                    None => merged.push((line, vec![run.flavor.name()])),
                }
            }
        }
        merged
    }

    /// A line for each test that was expected not to pass and did not.
    fn reasons(&self, run: &FlavorRun) -> Vec<String> {
        let as_expected = run.results.iter().filter(|result| self.is_expected(result, run.flavor));
        as_expected
            .filter_map(|result| {
                let expected = self.expectations.of(&result.code, run.flavor)?;
                Some(format!("{:8} {:12} {}", result.code, expected.outcome.name(), expected.reason))
            })
            .collect()
    }

    fn surprises(&self, run: &FlavorRun) -> Vec<String> {
        let unlike = run.results.iter().filter(|result| !self.is_expected(result, run.flavor));
        let mut lines: Vec<String> = unlike.map(|result| self.surprise(result, run.flavor)).collect();
        let ran = |code: &str| run.results.iter().any(|result| result.code == code);
        if self.whole {
            let absent = self.expectations.codes(run.flavor).filter(|code| !ran(code));
            lines.extend(absent.map(|code| format!("{code} is expected, but the suite has no such test")));
        }
        lines.extend(run.warning.iter().cloned());
        lines
    }

    fn surprise(&self, result: &TestResult, flavor: SuiteFlavor) -> String {
        let expected = self.expectations.of(&result.code, flavor).map_or("passed", |one| one.outcome.name());
        let (code, name, outcome) = (&result.code, &result.name, result.outcome.name());
        let message = if result.message.is_empty() { String::new() } else { format!(": {}", result.message) };
        format!("{code} ({name}) {outcome}, expected {expected}{message}")
    }
}

fn print_lines(before: &str, lines: Vec<(String, Vec<&'static str>)>) {
    for (line, flavors) in lines {
        println!("{before}{line} ({})", flavors.join(", "));
    }
}

impl FlavorRun {
    fn count(&self, outcomes: &[TestOutcome]) -> usize {
        self.results.iter().filter(|result| outcomes.contains(&result.outcome)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn run(results: &[(&str, TestOutcome)]) -> FlavorRun {
        let result = |(code, outcome): &(&str, TestOutcome)| TestResult {
            code: (*code).to_owned(),
            name: "st.test".to_owned(),
            outcome: *outcome,
            message: String::new(),
        };
        let results = results.iter().map(result).collect();
        FlavorRun { flavor: SuiteFlavor::Sys, results, warning: None, took: Duration::ZERO }
    }

    fn unexpected(results: &[(&str, TestOutcome)], whole: bool) -> usize {
        let expectations = Expectations::parse("A failed why\nB skipped/krb5 why\n").unwrap();
        SuiteReport::new(PynfsSuite::Minor1, &expectations, &[run(results)], whole).unexpected()
    }

    #[test]
    fn a_pass_where_a_failure_was_expected_counts_as_much_as_a_failure() {
        assert_eq!(unexpected(&[("A", TestOutcome::Failed), ("C", TestOutcome::Passed)], true), 0);
        assert_eq!(unexpected(&[("A", TestOutcome::Passed), ("C", TestOutcome::Failed)], true), 2);
        assert_eq!(unexpected(&[("A", TestOutcome::Skipped)], true), 1);
    }

    #[test]
    fn an_expectation_without_its_test_counts_only_when_all_were_run() {
        assert_eq!(unexpected(&[("C", TestOutcome::Passed)], true), 1);
        assert_eq!(unexpected(&[("C", TestOutcome::Passed)], false), 0);
    }

    #[test]
    fn a_suite_that_could_not_clean_up_is_a_surprise() {
        let expectations = Expectations::parse("").unwrap();
        let runs = [FlavorRun { warning: Some("could not clean".to_owned()), ..run(&[]) }];
        assert_eq!(SuiteReport::new(PynfsSuite::Minor1, &expectations, &runs, true).unexpected(), 1);
    }
}
