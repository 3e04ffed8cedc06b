//! Paths and commands of the repository that is measured.

use anyhow::{Context, bail};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(PathBuf::from).unwrap_or(here)
}

/// Returns the folder that cargo builds into.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |folder| root().join(folder))
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
    let status =
        command.current_dir(root()).status().with_context(|| format!("{command:?} did not start"))?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(())
}
