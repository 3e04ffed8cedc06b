//! The server beside NFS-Ganesha's Ceph back end: one directory of CephFS, one cluster, one
//! library, in turns.

use super::cores::Cores;
use super::ganesha::{self, Ganesha, GaneshaExport, Package};
use super::kerberos_site::KerberosSite;
use super::load;
use super::load::TransferKind::{Read, Write};
use super::names::churn::Crowd;
use super::output::{BenchFigure, BenchOutput, Floor};
use super::peers::{PeerRow, Peers};
use super::{Skipped, stopped};
use anyhow::Context;
use bench::measuring::Load;
use bench::{Flavor, ServerProbe, ServerProcess};
use miniceph::{MiniCeph, MiniCephError, MiniCephOptions};
use realm::RealmOptions;
use std::ffi::OsString;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// The peer, and how often.
#[derive(clap::Args)]
pub(crate) struct CephArguments {
    /// The server to compare with.
    #[arg(long, value_enum, default_value = "15")]
    ganesha: ganesha::Which,
    /// Interleaved rounds of each row.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    #[command(flatten)]
    pub output: super::Arguments,
}

/// How long each counts.
const LENGTH: Duration = Duration::from_millis(500);
/// The directory that both servers export.
pub(crate) const PATH: &str = "/data";
/// The size of that directory.
pub(crate) const SIZE: u64 = 64 << 30;
/// Requests in flight of random rows, and of sequential ones.
const DEPTHS: [u32; 2] = [64, 8];
/// The rows in their order. Files fit the caches of both libraries.
const LOADS: [(Load, &str); 5] = [
    (load::random(Read, DEPTHS[0]), "random read 4 KiB"),
    (load::random(Write, DEPTHS[0]), "random write 4 KiB"),
    (load::sequential(Read, DEPTHS[1], 1 << 20), "sequential read 1 MiB"),
    (load::sequential(Write, DEPTHS[1], 1 << 20), "sequential write 1 MiB"),
    (load::METADATA, "metadata mix"),
];
/// Clients and requests of each for creates.
const CREATES: [(usize, usize); 3] = [(1, 1), (2, 4), (8, 8)];

/// Returns the bound on the ratio of a row.
fn floor(load: &Load, flavor: Flavor) -> Option<Floor> {
    match flavor {
        Flavor::Sys if *load == LOADS[0].0 => Some(Floor::AtMost(0.5)),
        Flavor::Krb5p if *load == LOADS[2].0 => Some(Floor::AtMost(0.25)),
        _ => None,
    }
}

/// Runs the benchmark.
///
/// # Errors
/// When cluster, realm or server do not work; Ganesha's failures become part of the table.
pub(crate) fn run(
    arguments: &CephArguments,
    output: &mut BenchOutput,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let package = Package::find(arguments.ganesha).map_err(Skipped)?;
    if !package.has_ceph() {
        anyhow::bail!(Skipped(format!(
            "{} has no back end for Ceph; apt-get install nfs-ganesha-ceph",
            package.name()
        )));
    }
    let cores = Cores::choose()?;
    let site = KerberosSite::start(&RealmOptions::default())?;
    let work = private::temporary("orthrus-xtask-")?;
    let cluster = start_cluster(stop)?;
    cluster.make_directory(PATH.trim_start_matches('/'), SIZE)?;
    let program = with_libraries(&package, work.path())?;
    let stable = start_gateway(&site, cores, &program, (work.path(), "stable"), &cluster)?;
    let free = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let configuration = cluster.configuration();
    let export = GaneshaExport::Ceph { configuration: &configuration, path: PATH };
    let peer = cores.on_server(|| Ganesha::start(&package, work.path(), export, site.realm(), free, None))?;
    let servers = [
        site.target("orthrus", stable.pid(), stable.address(), "/data"),
        site.target(&package.name(), peer.pid(), free, "/data"),
    ];
    introduce(output, cores, &package, arguments.rounds);
    let mut peers = Peers { servers, rounds: arguments.rounds, length: LENGTH, stop };
    for flavor in [Flavor::Sys, Flavor::Krb5p] {
        for (load, title) in LOADS {
            let name = format!("{} {title}", flavor.name());
            let (ratio, floor) = (format!("{name}, ratio"), floor(&load, flavor));
            let row = PeerRow { flavor, load: load.clone(), depth: DEPTHS[0], name, ratio, floor };
            peers.row(output, &row);
            if stopped(stop) {
                return Ok(());
            }
        }
    }
    output.note("creates: each request in flight makes files, one after the other, in one directory; all ends wherever the kernel puts them");
    let sides = [("orthrus", stable.pid(), stable.address()), (&*package.name(), peer.pid(), free)];
    for (clients, depth) in CREATES {
        let mut crowds = Vec::new();
        for (name, _, address) in sides {
            let options = site.options(address, Flavor::Sys);
            let crowd = Crowd::connect(&options, "", &["/data".to_owned()], (clients, depth))?;
            crowds.push(crowd.only_creating(&format!("{name}-{}", clients * depth)));
        }
        let mut rounds = [Vec::new(), Vec::new()];
        for _ in 0..arguments.rounds {
            for (((_, pid, _), crowd), rounds) in sides.iter().zip(&mut crowds).zip(&mut rounds) {
                rounds.push(creates(*pid, crowd)?);
                if stopped(stop) {
                    return Ok(());
                }
            }
        }
        report_creates(output, &sides.map(|(name, ..)| name), clients * depth, &rounds);
    }
    Ok(())
}

/// Starts the cluster where this process runs: on the client's core.
///
/// # Errors
/// `Skipped` with the package where Ceph is not installed; `Interrupted` after a signal.
pub(crate) fn start_cluster(stop: &AtomicBool) -> anyhow::Result<MiniCeph> {
    match MiniCeph::start_unless(&MiniCephOptions::default(), stop) {
        Err(error @ MiniCephError::Missing { .. }) => Err(Skipped(error.to_string()).into()),
        cluster => Ok(cluster?),
    }
}

/// Writes a script that starts the program with the libraries of the package, if it has its own:
/// both servers then use one libcephfs.
fn with_libraries(package: &Package, work: &Path) -> anyhow::Result<PathBuf> {
    let program = super::kerberos_site::program()?;
    let Some(command) = package.with_libraries(&program) else { return Ok(program) };
    let words: Vec<String> = command.iter().map(|word| format!("'{}'", word.to_string_lossy())).collect();
    let script = work.join("orthrus");
    std::fs::write(&script, format!("#!/bin/sh\nexec {} \"$@\"\n", words.join(" ")))?;
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755))?;
    Ok(script)
}

/// Starts the program with the export `/data`, on the server's core and with one thread that
/// serves.
pub(crate) fn start_gateway(
    site: &KerberosSite,
    cores: Cores,
    program: &Path,
    (work, name): (&Path, &str),
    cluster: &MiniCeph,
) -> anyhow::Result<ServerProcess> {
    let mut arguments: Vec<OsString> =
        ["--ceph", PATH, "--ceph-user", "admin", "--squash", "none", "--shards", "1"]
            .map(OsString::from)
            .to_vec();
    arguments.extend(["--ceph-conf".into(), cluster.configuration().into()]);
    arguments.extend(bench::flavor_arguments(true));
    arguments.extend(["--listen", "127.0.0.1:0", "--keytab"].map(OsString::from));
    arguments.push(site.realm().server_keytab().into());
    arguments.extend(["--state-dir".into(), work.join(name).into()]);
    cores.on_server(|| ServerProcess::start(program, arguments, &site.environment()))
}

fn introduce(output: &mut BenchOutput, cores: Cores, package: &Package, rounds: u32) {
    output.note(&format!("peer: {}, with the libcephfs that Orthrus loads, too", package.name()));
    output.note(&format!(
        "{}; the cluster (monitor, OSD in memory, metadata server) on the client's core; one directory, exported by both; one realm; one connection",
        cores.describe()
    ));
    output.note("Orthrus waits for the metadata server's journal before it acknowledges a name (stable_names), NFS-Ganesha does not");
    output.note(&format!(
        "in flight: {} random requests, {} sequential ones, 1 of metadata; server's processor time: median of {rounds} interleaved rounds of {:.1} s",
        DEPTHS[0],
        DEPTHS[1],
        LENGTH.as_secs_f64()
    ));
    println!();
}

/// The creates of one round.
struct CreateRound {
    /// Files made in a second.
    rate: f64,
    /// Processor time of the server for each, in microseconds.
    cost: f64,
}

fn creates(pid: u32, crowd: &mut Crowd) -> anyhow::Result<CreateRound> {
    let probe = ServerProbe { pid: Some(pid), metrics: None };
    let (before, start) = (probe.snapshot(), Instant::now());
    let made = crowd.work(LENGTH)?.count() as f64;
    let (elapsed, work) = (start.elapsed(), probe.since(&before, "sys"));
    let cpu = work.cpu.context("the server is gone")?;
    Ok(CreateRound { rate: made / elapsed.as_secs_f64(), cost: cpu.as_secs_f64() * 1e6 / made })
}

fn report_creates(
    output: &mut BenchOutput,
    names: &[&str; 2],
    in_flight: usize,
    rounds: &[Vec<CreateRound>; 2],
) {
    let row = format!("creates, {in_flight} in flight");
    let mut figures = Vec::new();
    for (name, rounds) in names.iter().zip(rounds) {
        let cost = rounds.iter().map(|round| round.cost);
        figures.push(BenchFigure::of(*name, format!("{row}, {name}"), "µs", cost).brief());
        let rate = rounds.iter().map(|round| round.rate);
        figures.push(BenchFigure::of("", format!("{row}, {name}, rate"), "1/s", rate).brief());
    }
    let [own, peer] = rounds;
    let ratios = own.iter().zip(peer).map(|(own, peer)| own.rate / peer.rate);
    figures.push(BenchFigure::of("ratio", format!("{row}, ratio"), "", ratios).floor(Floor::AtLeast(1.0)));
    output.line(&row, figures);
}
