//! `cargo xtask read-plus`: a Linux client that sends READ_PLUS.

use anyhow::{Context, bail};
use std::process::Command;

/// The exit status of `scripts/read-plus.sh` where it cannot run; the script prints the reason.
const SKIPPED: i32 = 77;

/// Builds the server and has a guest under QEMU read sparse files from it.
///
/// # Errors
/// When a checksum is wrong, the server has counted too few READ_PLUS operations, or nothing can
/// run here.
pub(crate) fn run() -> anyhow::Result<()> {
    steps::cargo(&["build", "--quiet", "--package", "orthrus"])?;
    let script = steps::root().join("scripts/read-plus.sh");
    let status = Command::new(&script).arg(steps::target().join("debug/orthrus")).status();
    let status = status.with_context(|| format!("{} did not start", script.display()))?;
    judge(status.code())
}

fn judge(status: Option<i32>) -> anyhow::Result<()> {
    match status {
        Some(0) => Ok(()),
        Some(SKIPPED) => bail!("READ_PLUS was skipped: see above"),
        _ => bail!("READ_PLUS failed: see above"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_is_skipped_is_no_success() {
        judge(Some(0)).unwrap();
        assert!(judge(Some(SKIPPED)).unwrap_err().to_string().contains("skipped"));
        assert!(judge(Some(1)).is_err() && judge(None).is_err());
    }
}
