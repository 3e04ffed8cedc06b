//! The memory of an idle server, of an idle client, and of a client that holds a file open.

use super::ceph::{PATH, SIZE, start_cluster, start_gateway};
use super::cores::Cores;
use super::kerberos_site::{KerberosSite, make_export};
use super::output::{BenchFigure, BenchOutput, Floor};
use super::{Skipped, stopped};
use anyhow::{Context, bail};
use bench::ServerProcess;
use client::{Client, Flavor, OpenHow};
use miniceph::MiniCeph;
use nfs4::StableHow4::FILE_SYNC4;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use realm::RealmOptions;
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The clients, and the export.
#[derive(clap::Args)]
pub(crate) struct MemoryArguments {
    /// Clients, each with a connection, a context and a session of its own.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=30_000))]
    clients: u32,
    /// Export CephFS of a one-node cluster instead of a folder.
    #[arg(long)]
    ceph: bool,
    #[command(flatten)]
    pub output: super::Arguments,
}

/// Descriptors of this process besides one for each client.
const DESCRIPTORS: u64 = 100;
/// Bytes that each client reads of its file.
const READ: u32 = 4096;

/// How long the server is left alone before its memory is read: housekeeping runs once a second.
const SETTLE: Duration = Duration::from_secs(4);

/// Resident memory of the idle program at most, in MiB.
const IDLE_FLOOR: f64 = 50.0;

/// Resident memory of each idle client at most, in KiB.
const CLIENT_FLOOR: f64 = 64.0;

/// Measures the server idle, with the connections, and after they were cut.
pub(crate) fn run(
    arguments: &MemoryArguments,
    output: &mut BenchOutput,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let count = arguments.clients;
    if hard < u64::from(count) + DESCRIPTORS {
        bail!(Skipped(format!("only {hard} files may be open at once (ulimit -Hn)")));
    }
    setrlimit(Resource::RLIMIT_NOFILE, soft.max(hard.min(65_536)), hard)?;
    let cores = Cores::choose()?;
    let site = KerberosSite::start(&RealmOptions::default())?;
    let work = private::temporary("orthrus-xtask-")?;
    let cluster = arguments.ceph.then(|| start_cluster(stop)).transpose()?;
    let server = start(&site, cores, work.path(), cluster.as_ref())?;
    let kind = if arguments.ceph { "a directory of CephFS" } else { "a folder" };
    output
        .note(&format!("one export of {kind}, krb5p, one shard; figures are VmRSS of the server's process"));

    std::thread::sleep(SETTLE);
    let idle = resident(server.pid())?;
    let figure = |row: &'static str, unit, value| BenchFigure::once("", row, unit, value);
    output.line("idle", [figure("idle", "MiB", idle as f64 / 1024.0).floor(Floor::AtMost(IDLE_FLOOR))]);

    let options = site.options(server.address(), Flavor::Krb5p);
    let mut clients = Vec::new();
    for number in 0..count {
        if stopped(stop) {
            return Ok(());
        }
        clients.push(Client::connect(options.clone()).with_context(|| format!("connection {number}"))?);
    }
    std::thread::sleep(SETTLE);
    let full = resident(server.pid())?;
    let each = full.saturating_sub(idle) as f64 / f64::from(count);
    let slots = clients.first().map_or(0, Client::slots);
    output.note(&format!(
        "each of {count} clients: krb5p, a context and a session of {slots} slots of its own"
    ));
    let with = figure("with idle clients", "MiB", full as f64 / 1024.0);
    output.line(&format!("with {count} idle clients"), [with]);
    let each = figure("each idle client", "KiB", each).floor(Floor::AtMost(CLIENT_FLOOR));
    output.line("each idle client", [each]);

    if let Err(error) = open_files(&mut clients, stop) {
        output.note(&format!("with open files: not measured: {error:#}"));
        return Ok(());
    }
    if stopped(stop) {
        return Ok(());
    }
    std::thread::sleep(SETTLE);
    let open = resident(server.pid())?;
    let each = open.saturating_sub(idle) as f64 / f64::from(count);
    output.line(
        &format!("with {count} clients that hold a file open"),
        [figure("with open files", "MiB", open as f64 / 1024.0)],
    );
    output.line("each client with an open file", [figure("each with an open file", "KiB", each)]);

    drop(clients);
    std::thread::sleep(SETTLE);
    let after = resident(server.pid())? as f64 / 1024.0;
    // Their leases still run.
    output.line("after they were cut", [figure("after they were cut", "MiB", after)]);
    Ok(())
}

/// Starts the server with an export of the cluster or of a folder.
fn start(
    site: &KerberosSite,
    cores: Cores,
    work: &Path,
    cluster: Option<&MiniCeph>,
) -> anyhow::Result<ServerProcess> {
    if let Some(cluster) = cluster {
        cluster.make_directory(PATH.trim_start_matches('/'), SIZE)?;
        let program = super::kerberos_site::program()?;
        return start_gateway(site, cores, &program, (work, "state"), cluster);
    }
    let folder = work.join("data");
    make_export(&folder)?;
    // Without sys, the server need not look up the owner of each connection in a list of all. The
    // clients do nothing after their set-up, not even renew a lease.
    let fixed =
        ["--sec", "krb5p", "--shards", "1", "--lease-time", "600", "--listen", "127.0.0.1:0", "--keytab"];
    let mut arguments = vec![folder.into()];
    arguments.extend(fixed.map(OsString::from));
    arguments.push(site.realm().server_keytab().into());
    arguments.extend(["--state-dir".into(), work.join("state").into()]);
    let program = super::kerberos_site::program()?;
    cores.on_server(|| ServerProcess::start(&program, arguments, &site.environment()))
}

/// Opens one file for each client and reads from it.
fn open_files(clients: &mut [Client], stop: &AtomicBool) -> anyhow::Result<()> {
    let Some(first) = clients.first_mut() else { return Ok(()) };
    let file = first.open_path("/data/file", &OpenHow::create(0o666))?;
    first.write(&file.handle, file.stateid, 0, FILE_SYNC4, &[7; READ as usize])?;
    for client in clients {
        if stopped(stop) {
            return Ok(());
        }
        let file = client.open_path("/data/file", &OpenHow::read())?;
        client.read(&file.handle, file.stateid, 0, READ)?;
    }
    Ok(())
}

fn resident(pid: u32) -> anyhow::Result<u64> {
    bench::resident_kib(pid).context("the server is gone")
}
