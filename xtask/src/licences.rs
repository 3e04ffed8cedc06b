//! Checks the licences of all dependencies, and advisories where the machine can.

use anyhow::{Context, bail};
use serde_json::Value;
use std::process::Command;

/// Licences that go with "MIT OR Apache-2.0".
const ALLOWED: &[&str] = &[
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
    "0BSD",
    "CC0-1.0",
    "BlueOak-1.0.0",
];

/// Checks every package of the lock file.
///
/// # Errors
/// Names the packages whose licence is not allowed, and the findings of cargo-deny.
pub(crate) fn check() -> anyhow::Result<()> {
    let refused = refused_packages()?;
    if !refused.is_empty() {
        bail!("licences that are not allowed:\n  {}", refused.join("\n  "));
    }
    println!("licences: all allowed");
    if !steps::have("cargo-deny", "--version") {
        println!("advisories: skipped, cargo-deny is not installed (cargo install cargo-deny)");
        return Ok(());
    }
    if !steps::have("cargo-deny", "fetch") {
        println!("advisories: skipped, the advisory database cannot be reached from this machine");
        return Ok(());
    }
    steps::run(Command::new("cargo").args(["deny", "check", "advisories"]))
}

fn refused_packages() -> anyhow::Result<Vec<String>> {
    let output = Command::new("cargo")
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(steps::root())
        .output()
        .context("cargo metadata did not start")?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    Ok(packages
        .iter()
        .filter(|package| !package["license"].as_str().is_some_and(allowed))
        .map(|package| format!("{} {}: {}", package["name"], package["version"], package["license"]))
        .collect())
}

/// Returns whether an SPDX expression can be satisfied with allowed licences.
fn allowed(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ").replace(['(', ')'], "");
    expression.split(" AND ").all(|all| all.split(" OR ").any(|one| ALLOWED.contains(&one.trim())))
}

#[cfg(test)]
mod tests {
    use super::allowed;

    #[test]
    fn one_allowed_licence_of_an_or_suffices_and_an_and_needs_all() {
        assert!(allowed("MIT OR GPL-3.0"));
        assert!(allowed("MIT/Apache-2.0"));
        assert!(allowed("(MIT OR Apache-2.0) AND Unicode-3.0"));
        assert!(!allowed("GPL-3.0"));
        assert!(!allowed("MIT AND GPL-3.0"));
    }
}
