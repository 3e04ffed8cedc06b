//! Runs all tests and counts them: passed, failed, and skipped with the reason.
//!
//! CI shares its machine. A test that fails in the crowd runs once more by itself: it passes there
//! and counts as unsteady, with its name in the summary, or it fails for good.

use crate::outcome::CiOutcome;
use anyhow::{Context, bail};
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitStatus, Stdio};

/// The most tests that may need a second run; more of them point at a defect, or at a machine that
/// proves nothing.
const UNSTEADY_MAX: usize = 5;

/// Guests with the Linux client at once, beside the other tests. Each has one processor and a GiB
/// of memory, and waits for leases, tickets and timeouts more than half of the time.
const GUESTS: &str = "2";

/// Sums over all test programs of a run.
#[derive(Default)]
struct TestTally {
    passed: u64,
    failed: u64,
    /// Test programs that began and gave no result yet; one that a signal ends never does.
    unfinished: u64,
    /// Names of the tests that failed.
    failures: Vec<String>,
    /// Output of the tests that failed.
    messages: Vec<String>,
    /// A test that cannot run here passes, and prints a line `skipped: REASON`.
    skipped: Vec<String>,
    section: OutputPart,
    /// Lines to show; a run beside another one keeps them until it ends.
    kept: Option<Vec<String>>,
}

/// Parts of the output of a test program.
#[derive(Default, Clone, Copy, PartialEq)]
enum OutputPart {
    #[default]
    Results,
    /// Output of the tests that passed. It is not shown: expected panics would bury real ones.
    Successes,
    Failures,
}

impl TestTally {
    /// Takes in a line, and returns whether to show it.
    fn take(&mut self, line: &str) -> bool {
        self.section = match line {
            "successes:" => OutputPart::Successes,
            "failures:" => OutputPart::Failures,
            _ if line.starts_with("test result: ") => OutputPart::Results,
            _ => self.section,
        };
        if self.section == OutputPart::Failures {
            self.messages.push(line.to_owned());
        }
        if let Some(reason) = line.trim().strip_prefix("skipped: ") {
            self.skipped.push(reason.to_owned());
        }
        if let Some(name) = line.strip_prefix("test ").and_then(|line| line.strip_suffix(" ... FAILED")) {
            self.failures.push(name.to_owned());
        }
        if line.starts_with("running ") && (line.ends_with(" tests") || line.ends_with(" test")) {
            self.unfinished += 1;
        }
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.unfinished = self.unfinished.saturating_sub(1);
            let count = |what: &str| {
                let before = counts.split(what).next().unwrap_or_default();
                before.split_whitespace().last().and_then(|number| number.parse::<u64>().ok()).unwrap_or(0)
            };
            self.passed += count(" passed");
            self.failed += count(" failed");
        }
        self.section != OutputPart::Successes
    }

    fn show(&mut self, line: String) {
        match &mut self.kept {
            Some(kept) => kept.push(line),
            None => println!("{line}"),
        }
    }

    /// Takes in the sums of a run that has ended.
    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.unfinished += other.unfinished;
        self.failures.extend(other.failures);
        self.messages.extend(other.messages);
        self.skipped.extend(other.skipped);
    }
}

/// Runs the tests of the whole workspace against the release build of the program.
///
/// # Errors
/// When a test fails twice, when more than [`UNSTEADY_MAX`] fail, when a test program ends without
/// a result, or when no test ran.
pub(crate) fn run() -> anyhow::Result<CiOutcome> {
    let mut tally = TestTally::default();
    let status = cargo_test(&[], &["--test-threads", GUESTS], &mut tally)?;
    let unsteady = if status.success() { Vec::new() } else { repeat(&mut tally, status)? };
    if tally.passed == 0 {
        bail!("no test ran");
    }
    let skipped = tally.skipped.len() as u64;
    println!("\n{} passed, {} failed, {skipped} skipped", tally.passed.saturating_sub(skipped), tally.failed);
    unsteady.iter().for_each(|name| println!("unsteady: {name} failed beside other tests and passed alone"));
    match tally.skipped.is_empty() {
        true => Ok(CiOutcome::Passed),
        false => Ok(CiOutcome::Skipped(format!("{skipped} tests: {}", tally.skipped.join("; ")))),
    }
}

/// Runs the failed tests of `first` once more, one at a time, and returns their names if all of
/// them pass.
fn repeat(first: &mut TestTally, status: ExitStatus) -> anyhow::Result<Vec<String>> {
    let failures = std::mem::take(&mut first.failures);
    if first.unfinished > 0 {
        bail!("{} test programs ended without a result; cargo test ended with {status}", first.unfinished);
    }
    if failures.is_empty() || failures.len() as u64 != first.failed || failures.len() > UNSTEADY_MAX {
        bail!("{} tests failed; cargo test ended with {status}", first.failed);
    }
    println!("\n{} tests failed; each runs once more by itself", failures.len());
    let mut arguments = vec!["--exact", "--test-threads", "1"];
    arguments.extend(failures.iter().map(String::as_str));
    let mut again = TestTally::default();
    let status = cargo_test(&arguments, &arguments, &mut again)?;
    if !status.success() || again.passed < failures.len() as u64 {
        bail!("failed twice: {}\n{}", again.failures.join(", "), again.messages.join("\n"));
    }
    first.passed += first.failed;
    first.failed = 0;
    Ok(failures)
}

/// Runs the tests of the workspace with the arguments `own`, and beside them those with the Linux
/// client with `guests`: both wait more than they compute. Returns the status of a run that failed,
/// if there is one.
fn cargo_test(own: &[&str], guests: &[&str], tally: &mut TestTally) -> anyhow::Result<ExitStatus> {
    const WORKSPACE: &[&str] = &["--workspace"];
    const LINUX: &[&str] = &["--workspace", "--test", "linux_client"];
    for targets in [WORKSPACE, LINUX] {
        let built = cargo(targets).arg("--no-run").status().context("cargo test did not start")?;
        if !built.success() {
            return Ok(built);
        }
    }
    let mut beside = TestTally { kept: Some(Vec::new()), ..TestTally::default() };
    let (workspace, linux) = std::thread::scope(|scope| {
        let linux = scope.spawn(|| run_tests(LINUX, guests, &mut beside));
        (run_tests(WORKSPACE, own, tally), linux.join())
    });
    beside.kept.iter().flatten().for_each(|line| println!("{line}"));
    tally.add(beside);
    let linux = linux.map_err(|_| anyhow::anyhow!("the output of the Linux client was not read"))??;
    let workspace = workspace?;
    Ok(if workspace.success() { linux } else { workspace })
}

/// `cargo test` of some targets, against the release build of the program.
fn cargo(targets: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["test", "--locked", "--no-fail-fast"]).args(targets);
    let program = steps::target().join("release/orthrus");
    // Upgrades here are to the same version; `cargo xtask upgrade` builds another one, which takes
    // minutes.
    command.env("ORTHRUS", &program).env("ORTHRUS_NEXT", program).current_dir(steps::root());
    command
}

fn run_tests(targets: &[&str], arguments: &[&str], tally: &mut TestTally) -> anyhow::Result<ExitStatus> {
    let mut command = cargo(targets);
    command.args(["--", "--show-output"]).args(arguments);
    let mut child = command.stdout(Stdio::piped()).spawn().context("cargo test did not start")?;
    let output = child.stdout.take().context("cargo test has no output")?;
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        if tally.take(&line) {
            tally.show(line);
        }
    }
    Ok(child.wait()?)
}

#[cfg(test)]
mod unit {
    use super::TestTally;

    #[test]
    fn results_of_all_programs_are_added_and_skips_keep_their_reasons() {
        let mut tally = TestTally::default();
        for line in [
            "running 5 tests",
            "test a ... ok",
            "test b::c ... FAILED",
            "skipped: no root",
            "running 1 test",
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured",
            "failures:",
            "thread 'b::c' panicked",
            "test result: FAILED. 4 passed; 2 failed; 1 ignored",
        ] {
            assert!(tally.take(line));
        }
        assert_eq!((tally.passed, tally.failed, tally.unfinished), (7, 2, 0));
        assert_eq!(tally.failures, ["b::c"]);
        assert_eq!(tally.skipped, ["no root"]);
        assert_eq!(tally.messages, ["failures:", "thread 'b::c' panicked"]);
    }

    #[test]
    fn the_output_of_successes_is_counted_and_not_shown() {
        let mut tally = TestTally::default();
        let lines =
            ["test a ... ok", "successes:", "thread 'a' panicked", "skipped: no root", "test result: ok."];
        assert_eq!(lines.map(|line| tally.take(line)), [true, false, false, false, true]);
        assert_eq!(tally.skipped, ["no root"]);
    }
}
