//! `cargo xtask soak`: many clients that come, work and go, for minutes, against the program as it
//! ships.

use anyhow::{Context, ensure};
use bench::Environment;
use serde_json::Value;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The longest soak, in minutes.
const MINUTES_MAX: f64 = 24.0 * 60.0;

/// Arguments of `cargo xtask soak`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How long the clients work, in minutes.
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// Client sessions at once.
    #[arg(long, default_value_t = 1000)]
    sessions: usize,
    /// Write samples, figures and judgements here.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Runs the soak of the end-to-end tests for long, and shows its samples as they are taken.
///
/// # Errors
/// When a judgement does not hold, or the soak cannot run.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let minutes = arguments.minutes;
    ensure!(minutes > 0.0 && minutes <= MINUTES_MAX, "between 0 and {MINUTES_MAX} minutes, not {minutes}");
    ensure!(arguments.sessions > 0, "there have to be sessions");
    steps::cargo(&["build", "--quiet", "--release", "--package", "orthrus"])?;
    steps::cargo(&["test", "--quiet", "--package", "e2e", "--test", "soak", "--no-run"])?;
    let (date, machine) = (date()?, machine());
    println!("cargo xtask soak, {date}\n{machine}");
    let folder = private::temporary("orthrus-xtask-")?;
    let (progress, result) = (folder.path().join("progress"), folder.path().join("result.json"));
    println!(
        "{} sessions for {minutes} minutes, and up to two minutes until all is gone",
        arguments.sessions
    );
    let mut child = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["test", "--quiet", "--package", "e2e", "--test", "soak", "--", "--nocapture"])
        .env("ORTHRUS", steps::target().join("release/orthrus"))
        .env("ORTHRUS_SOAK_SECONDS", format!("{}", (minutes * 60.0).ceil() as u64))
        .env("ORTHRUS_SOAK_SESSIONS", arguments.sessions.to_string())
        .env("ORTHRUS_SOAK_PROGRESS", &progress)
        .env("ORTHRUS_SOAK_JSON", &result)
        .current_dir(steps::root())
        .spawn()
        .context("cargo test did not start")?;
    let mut shown = 0;
    let status = loop {
        let ended = child.try_wait()?;
        shown = show(&progress, shown)?;
        if let Some(status) = ended {
            break status;
        }
        std::thread::sleep(Duration::from_millis(500));
    };
    if let (Some(path), true) = (&arguments.json, result.exists()) {
        let mut all: Value = serde_json::from_str(&std::fs::read_to_string(&result)?)?;
        all["date"] = date.into();
        all["machine"] = machine.into();
        all["sessions"] = arguments.sessions.into();
        all["minutes"] = minutes.into();
        let text = format!("{all:#}\n");
        std::fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    ensure!(status.success(), "the soak found something");
    ensure!(result.exists(), "the soak was skipped: see above");
    Ok(())
}

/// Returns the time, for the head of a result.
pub(crate) fn date() -> anyhow::Result<String> {
    let date = Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ"]).output()?;
    Ok(String::from_utf8_lossy(&date.stdout).trim().to_owned())
}

/// Returns the machine and its load, for the head of a result.
pub(crate) fn machine() -> String {
    let here = Environment::of_this_machine();
    let cores = std::thread::available_parallelism().map_or(here.cores, usize::from);
    let memory = here.memory_bytes >> 30;
    format!("{}, {cores} cores, {memory} GiB of memory, Linux {}", here.processor, here.kernel)
}

/// Prints the bytes that a file has gained.
fn show(path: &Path, from: u64) -> anyhow::Result<u64> {
    let Ok(mut file) = std::fs::File::open(path) else { return Ok(from) };
    file.seek(SeekFrom::Start(from))?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    print!("{text}");
    Ok(from + text.len() as u64)
}
