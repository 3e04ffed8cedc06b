//! Paths, commands and signals of the development programs, `xtask` and `benches`. Commands run at
//! the root of the repository.

use anyhow::{Context, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).map(PathBuf::from).unwrap_or(here)
}

/// Runs cargo with these arguments at the root.
///
/// # Errors
/// If cargo does not start or fails.
pub fn cargo<S: AsRef<OsStr>>(arguments: &[S]) -> anyhow::Result<()> {
    run(Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())).args(arguments))
}

/// Runs a command at the root.
///
/// # Errors
/// If the command does not start or fails; the message names it.
pub fn run(command: &mut Command) -> anyhow::Result<()> {
    let shown = format!("{command:?}");
    let status = command.current_dir(root()).status().with_context(|| format!("{shown} did not start"))?;
    if !status.success() {
        bail!("{shown} ended with {status}");
    }
    Ok(())
}

/// Returns whether a program can be started.
pub fn have(program: &str, probe: &str) -> bool {
    let found = Command::new(program)
        .arg(probe)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status();
    found.is_ok_and(|status| status.success())
}

/// Returns the folder that cargo builds into.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |folder| root().join(folder))
}

/// Returns a flag that SIGHUP, SIGINT and SIGTERM set, so that a command can clean up and end.
///
/// # Errors
/// If the signals cannot be caught.
pub fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, stop.clone()).context("signals cannot be caught")?;
    }
    Ok(stop)
}
