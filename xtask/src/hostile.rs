//! `cargo xtask hostile`: floods by a peer without credentials, each next to an honest load of each
//! flavor.

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Part of the honest throughput that a flood must leave.
const REMAINS_MIN: f64 = 2.0 / 3.0;
/// Memory that a flood may cost the server, in KiB: 256 MiB beyond `input_bytes_max` of
/// docs/limits.md.
const MEMORY_MAX_KIB: u64 = (256 + 256) << 10;

/// Arguments of `cargo xtask hostile`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only these floods; `--list` names them.
    #[arg(value_name = "FLOOD")]
    floods: Vec<String>,
    /// List the floods and stop.
    #[arg(long)]
    list: bool,
    /// Flavors of the honest load.
    #[arg(long, value_delimiter = ',', default_value = "sys,krb5,krb5i,krb5p")]
    flavors: Vec<String>,
    /// Seconds of each phase: idle machine, flood, and threads that burn the flood's processor
    /// time.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Repetitions of the three phases.
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    /// Write all figures here, a JSON object a line.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Runs the floods, prints a line for each and says which break the bar.
///
/// # Errors
/// When an honest client loses something, its throughput falls below the bar, or the server takes
/// too much memory.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.list {
        return list();
    }
    ensure!(arguments.seconds > 0.0 && arguments.seconds <= 600.0, "--seconds is between 0 and 600");
    steps::cargo(&["build", "--quiet", "--release", "--package", "orthrus"])?;
    let folder = tempfile::tempdir()?;
    let result = folder.path().join("rows");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let status = cargo
        .args(["test", "--quiet", "--package", "e2e", "--test", "hostile", "--", "--nocapture"])
        .current_dir(steps::root())
        .env("ORTHRUS", steps::target().join("release/orthrus"))
        .envs((!arguments.floods.is_empty()).then(|| ("ORTHRUS_HOSTILE_FLOODS", arguments.floods.join(","))))
        .env("ORTHRUS_HOSTILE_FLAVORS", arguments.flavors.join(","))
        .env("ORTHRUS_HOSTILE_PHASE_MS", format!("{:.0}", arguments.seconds * 1000.0))
        .env("ORTHRUS_HOSTILE_ROUNDS", arguments.rounds.to_string())
        .env("ORTHRUS_HOSTILE_RESULT", &result)
        .status()
        .context("cargo test did not start")?;
    if let Some(path) = &arguments.json {
        std::fs::copy(&result, path).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    ensure!(status.success(), "the floods ended early: see above");
    judge(&rows(&result)?)
}

fn list() -> anyhow::Result<()> {
    steps::cargo(&["run", "--quiet", "--package", "e2e", "--example", "floods"])
}

fn rows(path: &Path) -> anyhow::Result<Vec<Value>> {
    let text = std::fs::read_to_string(path).context("no flood ran: does one of the names exist?")?;
    Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

fn judge(rows: &[Value]) -> anyhow::Result<()> {
    let broken: Vec<String> = rows.iter().filter_map(complaint).collect();
    println!("\n{} rows, {} within the bar", rows.len(), rows.len() - broken.len());
    broken.iter().for_each(|line| println!("{line}"));
    if broken.is_empty() { Ok(()) } else { bail!("{} of {} floods break the bar", broken.len(), rows.len()) }
}

/// Describes the problem of a row, if it has one.
fn complaint(row: &Value) -> Option<String> {
    let name = format!("{} beside {}", row["flood"].as_str()?, row["flavor"].as_str()?);
    let mut wrong = Vec::new();
    let remains = row["remains"].as_f64().unwrap_or(0.0);
    if remains < REMAINS_MIN {
        wrong.push(format!("{remains:.2} of the throughput remains, {REMAINS_MIN:.2} wanted"));
    }
    let [before, peak] = [0, 1].map(|at| row["rss_kib"][at].as_u64().unwrap_or(u64::MAX));
    if peak.saturating_sub(before) > MEMORY_MAX_KIB {
        wrong.push(format!("the server grew by {} MiB", peak.saturating_sub(before) >> 10));
    }
    let losses = row["losses"].as_array().into_iter().flatten();
    wrong.extend(losses.filter_map(|loss| loss.as_str().map(str::to_owned)));
    (!wrong.is_empty()).then(|| format!("{name}: {}", wrong.join("; ")))
}

#[cfg(test)]
mod unit {
    use super::complaint;
    use serde_json::json;

    #[test]
    fn a_row_within_the_bar_has_no_complaint_and_others_name_each_fault() {
        let row = json!({ "flood": "null", "flavor": "sys", "remains": 0.7, "rss_kib": [1000, 2000, 900], "losses": [] });
        assert_eq!(complaint(&row), None);
        let row = json!({ "flood": "null", "flavor": "sys", "remains": 0.5, "rss_kib": [1000, 600_000, 900], "losses": ["a lock"] });
        let text = complaint(&row).expect("it breaks the bar");
        for part in ["null beside sys", "0.50", "584 MiB", "a lock"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
