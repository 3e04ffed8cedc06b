//! Everything that must pass before a change lands, in the order in which it fails fastest.

use crate::generated_page::PageTask;
use crate::outcome::CiOutcome;
use crate::{exposure, fuzz, licences, limits, protocol, tests, tidy};
use anyhow::bail;
use std::time::{Duration, Instant};

/// Arguments of `cargo xtask ci`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Run only the steps with these names.
    steps: Vec<String>,
    /// List the steps and stop.
    #[arg(long)]
    list: bool,
}

struct CiStep {
    name: &'static str,
    what: &'static str,
    run: fn() -> anyhow::Result<CiOutcome>,
}

const STEPS: &[CiStep] = &[
    CiStep { name: "format", what: "rustfmt finds nothing to change", run: format },
    CiStep {
        name: "codegen",
        what: "the generated wire types and pages of the documentation are current",
        run: codegen,
    },
    CiStep { name: "tidy", what: "language, names and dependencies follow CONTRIBUTING", run: tidy },
    CiStep { name: "licences", what: "every dependency has an allowed licence", run: licences },
    CiStep {
        name: "units",
        what: "systemd-analyze security: 2.5 at most, and docs/hardening.md explains each exception",
        run: exposure::check,
    },
    CiStep { name: "clippy", what: "clippy finds nothing, warnings are errors", run: clippy },
    CiStep { name: "build", what: "the program builds for release", run: build },
    CiStep {
        name: "test",
        what: "all tests: units, conformance, end to end, Linux client, browser",
        run: test,
    },
    CiStep { name: "fuzz", what: "each fuzz target runs for a bounded time", run: fuzz },
];

/// Runs the steps and prints a line for each.
///
/// # Errors
/// When a step fails; the steps behind it still run, so that one run shows all that is wrong.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.list {
        STEPS.iter().for_each(|step| println!("{:10} {}", step.name, step.what));
        return Ok(());
    }
    if let Some(unknown) = arguments.steps.iter().find(|name| STEPS.iter().all(|step| step.name != **name)) {
        bail!("no step {unknown:?}; `cargo xtask ci --list` names them");
    }
    let chosen =
        |step: &&CiStep| arguments.steps.is_empty() || arguments.steps.iter().any(|name| name == step.name);
    let lines: Vec<(bool, String)> = STEPS.iter().filter(chosen).map(timed).collect();
    println!();
    lines.iter().for_each(|(_, line)| println!("{line}"));
    let failed = lines.iter().filter(|(good, _)| !good).count();
    if failed > 0 {
        bail!("{failed} of {} steps failed", lines.len());
    }
    Ok(())
}

fn timed(step: &CiStep) -> (bool, String) {
    println!("\n=== {}: {}", step.name, step.what);
    let start = Instant::now();
    let result = (step.run)();
    let took = show(start.elapsed());
    match result {
        Ok(CiOutcome::Passed) => (true, format!("passed   {:10} {took}", step.name)),
        Ok(CiOutcome::Skipped(why)) => (true, format!("skipped  {:10} {took}  {why}", step.name)),
        Err(error) => (false, format!("FAILED   {:10} {took}  {error:#}", step.name)),
    }
}

fn show(time: Duration) -> String {
    format!("{:3}:{:02}", time.as_secs() / 60, time.as_secs() % 60)
}

fn format() -> anyhow::Result<CiOutcome> {
    steps::cargo(&["fmt", "--all", "--check"]).map(|()| CiOutcome::Passed)
}

fn codegen() -> anyhow::Result<CiOutcome> {
    steps::cargo(&["run", "--quiet", "--locked", "--package", "xdrgen", "--", "--check"])?;
    limits::run(PageTask::Check)?;
    protocol::run(PageTask::Check).map(|()| CiOutcome::Passed)
}

fn tidy() -> anyhow::Result<CiOutcome> {
    tidy::run(&tidy::Arguments::default()).map(|()| CiOutcome::Passed)
}

fn licences() -> anyhow::Result<CiOutcome> {
    licences::check().map(|()| CiOutcome::Passed)
}

fn clippy() -> anyhow::Result<CiOutcome> {
    steps::cargo(&["clippy", "--quiet", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"])
        .map(|()| CiOutcome::Passed)
}

fn build() -> anyhow::Result<CiOutcome> {
    steps::cargo(&["build", "--quiet", "--locked", "--release", "--package", "orthrus"])
        .map(|()| CiOutcome::Passed)
}

fn test() -> anyhow::Result<CiOutcome> {
    tests::run()
}

fn fuzz() -> anyhow::Result<CiOutcome> {
    fuzz::run(&fuzz::Arguments::for_ci()).map(|()| CiOutcome::Passed)
}
