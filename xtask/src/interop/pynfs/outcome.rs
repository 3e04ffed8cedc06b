//! The outcome of each test, read from the suite's list of results.

use anyhow::{Context, bail};

/// The outcome of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TestOutcome {
    Passed,
    Failed,
    /// Passed, but not in the best way.
    Warned,
    /// The server lacks a feature that is optional.
    Unsupported,
    /// Not run, because a test that it depends on did not pass.
    Skipped,
}

impl TestOutcome {
    const ALL: [Self; 5] = [Self::Passed, Self::Failed, Self::Warned, Self::Unsupported, Self::Skipped];

    /// The word in tables and in files of expectations.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Warned => "warned",
            Self::Unsupported => "unsupported",
            Self::Skipped => "skipped",
        }
    }

    /// Reads such a word.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.name() == name)
    }

    /// Reads the suite's own word.
    fn from_suite(word: &str) -> Option<Self> {
        match word {
            "PASS" => Some(Self::Passed),
            "FAILURE" => Some(Self::Failed),
            "WARNING" => Some(Self::Warned),
            "UNSUPPORTED" => Some(Self::Unsupported),
            "OMIT" => Some(Self::Skipped),
            _ => None,
        }
    }
}

/// One test's line, with the lines below it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TestResult {
    /// The test's code, such as `EID5`.
    pub code: String,
    /// The test's function, such as `st_exchange_id.testSupported`.
    pub name: String,
    /// The outcome that the suite printed.
    pub outcome: TestOutcome,
    /// The message of the suite; empty if the test passed.
    pub message: String,
}

/// Everything that the list says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Listing {
    /// In the suite's order.
    pub results: Vec<TestResult>,
    /// The reason why the suite could not remove its files.
    pub warning: Option<String>,
}

/// Parses the output of the suite: a list between two lines of asterisks, then a summary.
///
/// # Errors
/// When the list is missing or contradicts the summary.
pub(super) fn parse(text: &str) -> anyhow::Result<Listing> {
    let is_rule = |line: &&str| line.len() > 10 && line.bytes().all(|byte| byte == b'*');
    let mut lines = text.lines().skip_while(|line| !is_rule(line)).skip(1);
    let mut results: Vec<TestResult> = Vec::new();
    for line in lines.by_ref().take_while(|line| !is_rule(line)) {
        match head(line) {
            Some(result) => results.push(result),
            None => {
                let last = results.last_mut().with_context(|| format!("no test stands before {line:?}"))?;
                if !last.message.is_empty() {
                    last.message.push(' ');
                }
                last.message.push_str(line.trim());
            }
        }
    }
    let rest = lines.collect::<Vec<_>>().join("\n");
    let summary = rest.split("Of those: ").nth(1).and_then(|rest| rest.lines().next());
    check(&results, summary.context("the suite came to no summary")?)?;
    let warning = rest.split("WARNING: ").nth(1);
    let warning = warning.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    Ok(Listing { results, warning })
}

/// Reads `CODE module.function : WORD`.
fn head(line: &str) -> Option<TestResult> {
    if line.starts_with(' ') {
        return None;
    }
    let (left, word) = line.rsplit_once(" : ")?;
    let mut words = left.split_whitespace();
    let (code, name) = (words.next()?.to_owned(), words.next()?.to_owned());
    Some(TestResult { code, name, outcome: TestOutcome::from_suite(word.trim())?, message: String::new() })
}

/// Compares with `1 Skipped, 2 Failed, 3 Warned, 4 Passed`.
fn check(results: &[TestResult], summary: &str) -> anyhow::Result<()> {
    let count = |outcomes: &[TestOutcome]| results.iter().filter(|r| outcomes.contains(&r.outcome)).count();
    let ours = format!(
        "{} Skipped, {} Failed, {} Warned, {} Passed",
        count(&[TestOutcome::Skipped]),
        count(&[TestOutcome::Failed]),
        count(&[TestOutcome::Warned, TestOutcome::Unsupported]),
        count(&[TestOutcome::Passed])
    );
    if ours != summary.trim() {
        bail!("the suite counts {}, its list has {ours}", summary.trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "INFO   :test.env:Created client
**************************************************
ABC1     st_abc.testOne                                           : PASS
ABC2b    st_abc.testTwo                                           : FAILURE
           OP_X should return NFS4_OK, instead got
           NFS4ERR_Y : really
ABC3     st_abc.testThree                                         : OMIT
           Dependency ABC2b st_abc.testTwo had status FAILURE.
ABC4     st_abc.testFour                                          : UNSUPPORTED
           no such thing
**************************************************
Command line asked for 4 of 264 tests
Of those: 1 Skipped, 1 Failed, 1 Warned, 1 Passed

WARNING: could not clean testdir due to:
Setting mode on b'bar' failed
";

    #[test]
    fn each_test_has_its_outcome_and_the_lines_below_it() {
        let listing = parse(TEXT).unwrap();
        let seen: Vec<_> =
            listing.results.iter().map(|r| (r.code.as_str(), r.outcome, r.message.as_str())).collect();
        assert_eq!(
            seen,
            [
                ("ABC1", TestOutcome::Passed, ""),
                ("ABC2b", TestOutcome::Failed, "OP_X should return NFS4_OK, instead got NFS4ERR_Y : really"),
                ("ABC3", TestOutcome::Skipped, "Dependency ABC2b st_abc.testTwo had status FAILURE."),
                ("ABC4", TestOutcome::Unsupported, "no such thing"),
            ]
        );
        assert_eq!(listing.results[1].name, "st_abc.testTwo");
        assert_eq!(listing.warning.unwrap(), "could not clean testdir due to: Setting mode on b'bar' failed");
    }

    #[test]
    fn a_list_that_its_summary_contradicts_is_not_believed() {
        let error = parse(&TEXT.replace("1 Passed", "2 Passed")).unwrap_err();
        assert!(error.to_string().contains("its list has"), "{error}");
    }

    #[test]
    fn a_suite_that_broke_off_has_no_result() {
        for text in ["", "Initialization failed, no tests run.", TEXT.split("Of those").next().unwrap()] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}
