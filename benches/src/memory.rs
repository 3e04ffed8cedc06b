//! The memory of an idle server and of an idle connection.

use super::cores::Cores;
use super::kerberos_site::KerberosSite;
use super::output::{BenchFigure, BenchOutput, Floor};
use super::{Skipped, stopped};
use anyhow::{Context, bail};
use client::{Client, Flavor};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use realm::RealmOptions;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Idle connections, each with a context, a client and a session of its own.
const CONNECTIONS: usize = 2000;

/// How long the server is left alone before its memory is read: housekeeping runs once a second.
const SETTLE: Duration = Duration::from_secs(4);

/// Resident memory of the idle program at most, in MiB.
const IDLE_FLOOR: f64 = 50.0;

/// Resident memory of each idle connection at most, in KiB.
const CONNECTION_FLOOR: f64 = 64.0;

/// Measures the server idle, with the connections, and after they were cut.
pub(crate) fn run(output: &mut BenchOutput, stop: &AtomicBool) -> anyhow::Result<()> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if hard < CONNECTIONS as u64 + 100 {
        bail!(Skipped(format!("only {hard} files may be open at once (ulimit -Hn)")));
    }
    setrlimit(Resource::RLIMIT_NOFILE, soft.max(hard.min(65_536)), hard)?;
    let cores = Cores::choose()?;
    let site = KerberosSite::start(&RealmOptions::default())?;
    let work = private::temporary("orthrus-xtask-")?;
    let folder = work.path().join("data");
    std::fs::create_dir(&folder)?;
    // The clients do nothing after their set-up, not even renew a lease.
    let server =
        site.serve(cores, work.path(), &[folder.into(), "--lease-time".into(), "600".into()], None)?;
    output.note("one export of a folder, four flavors, one shard; figures are VmRSS of the server's process");

    std::thread::sleep(SETTLE);
    let idle = resident(server.pid())?;
    let figure = |row: &'static str, unit, value| BenchFigure::once("", row, unit, value);
    output.line("idle", [figure("idle", "MiB", idle as f64 / 1024.0).floor(Floor::AtMost(IDLE_FLOOR))]);

    let options = site.options(server.address(), Flavor::Krb5p);
    let mut clients = Vec::new();
    for number in 0..CONNECTIONS {
        if stopped(stop) {
            return Ok(());
        }
        clients.push(Client::connect(options.clone()).with_context(|| format!("connection {number}"))?);
    }
    std::thread::sleep(SETTLE);
    let full = resident(server.pid())?;
    let each = full.saturating_sub(idle) as f64 / CONNECTIONS as f64;
    let slots = clients.first().map_or(0, Client::slots);
    output.note(&format!(
        "each of {CONNECTIONS} connections: krb5p, a context and a session of {slots} slots of its own"
    ));
    let with = figure("with idle connections", "MiB", full as f64 / 1024.0);
    output.line(&format!("with {CONNECTIONS} idle connections"), [with]);
    let each = figure("each idle connection", "KiB", each).floor(Floor::AtMost(CONNECTION_FLOOR));
    output.line("each idle connection", [each]);

    drop(clients);
    std::thread::sleep(SETTLE);
    let after = resident(server.pid())? as f64 / 1024.0;
    // Their leases still run.
    output.line("after they were cut", [figure("after they were cut", "MiB", after)]);
    Ok(())
}

fn resident(pid: u32) -> anyhow::Result<u64> {
    bench::resident_kib(pid).context("the server is gone")
}
