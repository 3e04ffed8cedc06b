//! Runs all tests and counts them: passed, failed, and skipped with the reason.

use crate::ci::Outcome;
use crate::steps;
use anyhow::{Context, bail};
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitStatus, Stdio};

/// What the runs of all test programs came to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: u64,
    failed: u64,
    /// A test that cannot run here passes, and prints a line `skipped: REASON`.
    skipped: Vec<String>,
}

impl Tally {
    fn take(&mut self, line: &str) {
        if let Some(reason) = line.trim().strip_prefix("skipped: ") {
            self.skipped.push(reason.to_owned());
        }
        if let Some(counts) = line.strip_prefix("test result: ") {
            let count = |what: &str| {
                let before = counts.split(what).next().unwrap_or_default();
                before.split_whitespace().last().and_then(|number| number.parse::<u64>().ok()).unwrap_or(0)
            };
            self.passed += count(" passed");
            self.failed += count(" failed");
        }
    }
}

/// Runs the tests of the whole workspace against the program as it was built for release, and those of whole programs once
/// more over the kernel's interface that is not the default.
///
/// # Errors
/// When one fails; when none ran.
pub fn run() -> anyhow::Result<Outcome> {
    let mut tally = Tally::default();
    let all = cargo_test(&["--workspace"], None, &mut tally)?;
    let other = cargo_test(&["--package", "e2e", "--test", "programs"], Some("uring"), &mut tally)?;
    let skipped = tally.skipped.len() as u64;
    println!("\n{} passed, {} failed, {skipped} skipped", tally.passed.saturating_sub(skipped), tally.failed);
    for status in [all, other] {
        if !status.success() || tally.failed > 0 {
            bail!("cargo test ended with {status}");
        }
    }
    if tally.passed == 0 {
        bail!("no test ran");
    }
    match tally.skipped.is_empty() {
        true => Ok(Outcome::Passed),
        false => Ok(Outcome::Skipped(format!("{skipped} tests: {}", tally.skipped.join("; ")))),
    }
}

fn cargo_test(which: &[&str], io: Option<&str>, tally: &mut Tally) -> anyhow::Result<ExitStatus> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["test", "--locked", "--no-fail-fast"]).args(which).args(["--", "--show-output"]);
    command.env("ORTHRUS", steps::target().join("release/orthrus")).envs(io.map(|io| ("ORTHRUS_IO", io)));
    let child = command.current_dir(steps::root()).stdout(Stdio::piped()).spawn();
    let mut child = child.context("cargo test did not start")?;
    let output = child.stdout.take().context("cargo test has no output")?;
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        tally.take(&line);
        println!("{line}");
    }
    Ok(child.wait()?)
}

#[cfg(test)]
mod unit {
    use super::Tally;

    #[test]
    fn results_of_all_programs_are_added_and_skips_keep_their_reasons() {
        let mut tally = Tally::default();
        for line in [
            "test a ... ok",
            "skipped: no root",
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured",
            "test result: FAILED. 4 passed; 2 failed; 1 ignored",
        ] {
            tally.take(line);
        }
        assert_eq!(tally, Tally { passed: 7, failed: 2, skipped: vec!["no root".to_owned()] });
    }
}
