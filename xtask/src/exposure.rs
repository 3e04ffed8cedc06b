//! The exposure of the packaged units, as `systemd-analyze security` computes it, and that
//! docs/hardening.md explains each exception.

use crate::outcome::CiOutcome;
use anyhow::{Context, bail};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Page with the reason for each exception.
const PAGE: &str = "docs/hardening.md";

/// The highest exposure of a unit, in tenths of a point.
const EXPOSURE_MAX: u32 = 25;

/// A row of `systemd-analyze security --json`.
#[derive(Deserialize)]
struct CheckedSetting {
    name: String,
    description: Option<String>,
    /// Points; absent or zero if the unit denies it.
    exposure: Option<String>,
}

impl CheckedSetting {
    fn is_exception(&self) -> bool {
        let points = self.exposure.as_ref().and_then(|points| points.parse::<f64>().ok());
        points.is_some_and(|points| points > 0.0)
    }
}

/// Prints the exceptions and the exposure of each unit.
///
/// # Errors
/// A unit exposes more than allowed, or an exception has no reason.
pub(crate) fn check() -> anyhow::Result<CiOutcome> {
    if !steps::have("systemd-analyze", "--version") {
        return Ok(CiOutcome::Skipped("systemd-analyze is missing (apt install systemd)".to_owned()));
    }
    let page = std::fs::read_to_string(steps::root().join(PAGE)).context(PAGE)?;
    let mut unexplained = Vec::new();
    for unit in units()? {
        let name = unit.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for setting in exceptions(&unit)? {
            let points = setting.exposure.as_deref().unwrap_or_default();
            println!("{points}  {}: {}", setting.name, setting.description.as_deref().unwrap_or_default());
            if !is_explained(&page, &setting.name) {
                unexplained.push(format!("{name}: {}", setting.name));
            }
        }
        println!("{}\n", overall(&unit)?);
    }
    match unexplained.is_empty() {
        true => Ok(CiOutcome::Passed),
        false => bail!("{PAGE} has no reason for {}", unexplained.join(", ")),
    }
}

fn units() -> anyhow::Result<Vec<PathBuf>> {
    let folder = steps::root().join("packaging/systemd");
    let entries = std::fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let mut units: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    units.retain(|path| path.extension().is_some_and(|extension| extension == "service"));
    units.sort();
    Ok(units)
}

fn exceptions(unit: &Path) -> anyhow::Result<Vec<CheckedSetting>> {
    let text = analyze(unit, &["--json=short"])?;
    let mut settings: Vec<CheckedSetting> = serde_json::from_str(&text).context("systemd-analyze --json")?;
    settings.retain(CheckedSetting::is_exception);
    Ok(settings)
}

/// Returns the line with the sum.
fn overall(unit: &Path) -> anyhow::Result<String> {
    let text = analyze(unit, &[&format!("--threshold={EXPOSURE_MAX}")])?;
    text.lines().last().map(str::to_owned).context("systemd-analyze printed nothing")
}

fn analyze(unit: &Path, options: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new("systemd-analyze");
    command.args(["security", "--offline=true", "--no-pager"]).args(options).arg(unit);
    let output = command.output().context("systemd-analyze did not start")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        bail!(
            "{} exposes more than allowed: {}{error}",
            unit.display(),
            text.lines().last().unwrap_or_default()
        );
    }
    Ok(text)
}

/// Returns whether a table of the page has a row for the setting; `|` is escaped there.
fn is_explained(page: &str, setting: &str) -> bool {
    page.contains(&format!("| `{}` |", setting.replace('|', r"\|")))
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn each_unit_is_within_its_exposure_and_each_exception_has_a_reason() {
        if let CiOutcome::Skipped(reason) = check().expect("the units and the page are right") {
            println!("skipped: {reason}");
        }
    }

    #[test]
    fn the_unit_lets_the_server_enter_its_sandbox_and_runs_no_other_program() {
        let path = steps::root().join("packaging/systemd/orthrus.service");
        let unit = std::fs::read_to_string(path).expect("it is there");
        let values = |key: &'static str| unit.lines().filter_map(move |line| line.strip_prefix(key));
        let calls: Vec<_> = values("SystemCallFilter=").flat_map(str::split_whitespace).collect();
        for call in ["seccomp", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"] {
            assert!(calls.contains(&call), "{call} is denied: {calls:?}");
        }
        // A minimal system has no /bin/kill.
        let mut programs = values("ExecStart=").chain(values("ExecReload="));
        assert!(programs.all(|program| program.starts_with("/usr/bin/orthrus ")));
    }

    #[test]
    fn a_reason_belongs_to_the_whole_name_of_a_setting() {
        let page = r"| `CAP_(A\|B)` | `1` | why |";
        assert!(is_explained(page, "CAP_(A|B)"));
        assert!(!is_explained(page, "CAP_(A"));
    }
}
