//! `cargo xtask read-plus`: a Linux client that sends READ_PLUS.

use anyhow::{Context, bail};
use std::process::Command;

/// The exit status of `scripts/read-plus.sh` where it cannot run; the script prints the reason.
const SKIPPED: i32 = 77;

/// Builds the server and has a guest under QEMU read sparse files from it.
///
/// # Errors
/// When a checksum is wrong, or the server has counted too few READ_PLUS operations.
pub(crate) fn run() -> anyhow::Result<()> {
    steps::cargo(&["build", "--quiet", "--package", "orthrus"])?;
    let script = steps::root().join("scripts/read-plus.sh");
    let status = Command::new(&script).arg(steps::target().join("debug/orthrus")).status();
    let status = status.with_context(|| format!("{} did not start", script.display()))?;
    match status.code() {
        Some(0 | SKIPPED) => Ok(()),
        _ => bail!("READ_PLUS failed: see above"),
    }
}
