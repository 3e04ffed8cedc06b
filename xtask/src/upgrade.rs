//! `cargo xtask upgrade`: many upgrades in a row under load, with each flavor, to a next version
//! and back, with this project's client and with that of Linux.

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Seconds that the Linux client may take for each upgrade, and for its start.
const GUEST_SECONDS: usize = 20;
const GUEST_START_SECONDS: usize = 600;
/// The lab's exit status on a machine that cannot run it.
const CANNOT_RUN: i32 = 77;

/// UpgradeArguments of `cargo xtask upgrade`.
#[derive(clap::Args)]
pub(crate) struct UpgradeArguments {
    /// Upgrades in a row, with each flavor and each client.
    #[arg(long, default_value_t = 100)]
    rounds: usize,
    /// Decides what the clients do and when the upgrades come.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the pauses to this file as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Runs the upgrades with programs as they ship. Each takes about a second, with the Linux client
/// four.
///
/// # Errors
/// When a client has noticed more than a pause, or the upgrades cannot run.
pub(crate) fn run(arguments: &UpgradeArguments) -> anyhow::Result<()> {
    ensure!(arguments.rounds > 0, "there have to be rounds");
    let target = steps::target();
    let next = target.join("next");
    steps::cargo(&["build", "--quiet", "--release", "--package", "orthrus"])?;
    let mut build = cargo();
    build.args(["build", "--quiet", "--release", "--package", "orthrus", "--features", "next-version"]);
    build.arg("--target-dir").arg(&next).env("CARGO_BUILD_BUILD_DIR", &target);
    steps::run(&mut build)?;
    let programs = [target.join("release/orthrus"), next.join("release/orthrus")];
    let (date, machine) = (crate::soak::date()?, crate::soak::machine());
    let UpgradeArguments { rounds, seed, .. } = arguments;
    println!("cargo xtask upgrade --rounds {rounds} --seed {seed}, {date}\n{machine}");
    let folder = private::temporary("orthrus-xtask-")?;
    let result = folder.path().join("result.json");
    let mut test = cargo();
    test.args(["test", "--quiet", "--package", "e2e", "--test", "programs"]);
    test.args(["clients_of_every_flavor_work_through_upgrades", "--", "--nocapture"]);
    test.env("ORTHRUS", &programs[0]).env("ORTHRUS_NEXT", &programs[1]);
    test.env("ORTHRUS_UPGRADE_ROUNDS", rounds.to_string()).env("ORTHRUS_UPGRADE_SEED", seed.to_string());
    steps::run(test.env("ORTHRUS_UPGRADE_JSON", &result))?;
    ensure!(result.exists(), "the upgrades were skipped: see above");
    let linux = linux_client(arguments, &programs);
    if let Some(path) = &arguments.json {
        let flavors: Value = serde_json::from_str(&std::fs::read_to_string(&result)?)?;
        let all = serde_json::json!({
            "date": date, "machine": machine, "rounds": rounds, "seed": seed, "flavors": flavors,
        });
        write(path, &format!("{all:#}\n"))?;
    }
    linux
}

/// Runs the upgrades while programs of a Linux guest work with krb5p.
fn linux_client(arguments: &UpgradeArguments, [program, next]: &[PathBuf; 2]) -> anyhow::Result<()> {
    let UpgradeArguments { rounds, seed, .. } = arguments;
    let seconds = GUEST_START_SECONDS + rounds * GUEST_SECONDS;
    let mut lab = Command::new(steps::root().join("tests/linux/run.sh"));
    lab.arg("--orthrus").arg(program).env("ORTHRUS_NEXT", next);
    lab.args(["--time-limit", &seconds.to_string(), "--set", &format!("ROUNDS={rounds}")]);
    lab.args(["--set", &format!("SEED={seed}"), "--set", "FILES_IN_REPOSITORY=1", "upgrade"]);
    println!("the Linux client, krb5p over 8 connections:");
    let status = lab.status().context("the lab cannot be started")?;
    if status.code() == Some(CANNOT_RUN) {
        bail!("the Linux client was not tried, for the reason above");
    }
    ensure!(status.success(), "the upgrades with the Linux client failed: {status}");
    Ok(())
}

fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(steps::root());
    cargo
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))
}
