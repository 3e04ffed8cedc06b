//! `cargo xtask cluster`: gateways of a cluster, and daemons of its file system, that fail.

use anyhow::{Context, bail, ensure};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

/// Runs the tests of failover and of the throw-away cluster.
///
/// # Errors
/// When a test fails, or cannot run here.
pub(crate) fn run() -> anyhow::Result<()> {
    steps::cargo(&["build", "--quiet", "--locked", "--release", "--package", "orthrus"])?;
    let mut skipped = test(&["--package", "e2e", "--test", "failover"])?;
    skipped.extend(test(&["--package", "orthrus-miniceph"])?);
    all_ran(skipped)
}

/// Runs tests to their end, and returns the reasons of those that cannot run here.
fn test(targets: &[&str]) -> anyhow::Result<Vec<String>> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.arg("test").args(targets);
    cargo.args(["--", "--include-ignored", "--nocapture", "--test-threads", "1"]);
    let shown = format!("{cargo:?}");
    let child = cargo.current_dir(steps::root()).stderr(Stdio::piped()).spawn();
    let mut child = child.with_context(|| format!("{shown} did not start"))?;
    let errors = child.stderr.take().context("cargo test has no standard error")?;
    let skipped = reasons(BufReader::new(errors), std::io::stderr())?;
    let status = child.wait()?;
    ensure!(status.success(), "{shown} ended with {status}");
    Ok(skipped)
}

/// Passes lines on, and returns the reasons of `skipped: REASON`. A test that cannot run here
/// prints such a line and passes.
fn reasons(mut input: impl BufRead, mut out: impl Write) -> std::io::Result<Vec<String>> {
    let (mut skipped, mut line) = (Vec::new(), Vec::new());
    while input.read_until(b'\n', &mut line)? > 0 {
        out.write_all(&line)?;
        let text = String::from_utf8_lossy(&line);
        skipped.extend(text.trim().strip_prefix("skipped: ").map(str::to_owned));
        line.clear();
    }
    skipped.dedup();
    Ok(skipped)
}

fn all_ran(skipped: Vec<String>) -> anyhow::Result<()> {
    if skipped.is_empty() {
        return Ok(());
    }
    bail!("not everything was tried: {}", skipped.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_with_skipped_tests_is_no_success() {
        let output = b"running 2 tests\nskipped: no root\nskipped: no root\n\xff\nok\n";
        let mut shown = Vec::new();
        let skipped = reasons(&output[..], &mut shown).unwrap();
        assert_eq!((shown.as_slice(), skipped.join(", ").as_str()), (&output[..], "no root"));
        assert!(all_ran(skipped).unwrap_err().to_string().contains("no root"));
        all_ran(Vec::new()).unwrap();
    }
}
