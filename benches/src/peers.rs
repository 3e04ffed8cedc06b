//! The server's processor time beside NFS-Ganesha's: same machine, client, folder and realm, in
//! turns.

use super::cores::Cores;
use super::ganesha::{self, Ganesha};
use super::kerberos_site::{KerberosSite, make_export};
use super::load::TransferKind::{Read, Write};
use super::load::{self, FILE_SIZE, LoadedSessions, METADATA, rate_unit};
use super::output::{BenchFigure, BenchOutput, Floor};
use super::{Skipped, stopped};
use bench::Flavor;
use bench::measuring::{ClientLayout, Load, Sample, Transfer, compare};
use bench::native::BenchTarget;
use realm::RealmOptions;
use report::form::cpu_unit;
use std::net::TcpListener;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Interleaved rounds of each row.
const ROUNDS: u32 = 5;

/// The peer, and the file for the figures.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The server to compare with.
    #[arg(long, value_enum, default_value = "installed")]
    ganesha: ganesha::Which,
    /// Interleaved rounds of each row.
    #[arg(long, default_value_t = ROUNDS, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    #[command(flatten)]
    pub output: super::Arguments,
}

/// How long each counts.
const LENGTH: Duration = Duration::from_millis(500);

/// Depths, the largest first. Ganesha 4.3, with a sequence window of 32, leaves Kerberos calls
/// unanswered when several are in flight; 6.5 has a window of 512 and answers most. A row that
/// fails is measured again, for both servers, with the next depth; later rows start there.
const DEPTHS: [u32; 5] = [64, 8, 4, 2, 1];

/// The rows, in their order.
const LOADS: [(Load, &str); 5] = [
    (RANDOM_READ, "random read 4 KiB"),
    (load::random(Write, RANDOM_DEPTH), "random write 4 KiB"),
    (METADATA, "metadata mix"),
    (SEQUENTIAL_READ, "sequential read 1 MiB"),
    (load::sequential(Write, 8, 1 << 20), "sequential write 1 MiB"),
];

const RANDOM_DEPTH: u32 = 64;
const RANDOM_READ: Load = load::random(Read, RANDOM_DEPTH);
const SEQUENTIAL_READ: Load = load::sequential(Read, 8, 1 << 20);

/// Returns the bound on the ratio of a row.
fn floor(load: &Load, flavor: Flavor) -> Option<Floor> {
    match flavor {
        Flavor::Sys if *load == RANDOM_READ => Some(Floor::AtMost(0.5)),
        Flavor::Krb5p if *load == SEQUENTIAL_READ => Some(Floor::AtMost(1.0 / 3.0)),
        _ => None,
    }
}

/// Runs the benchmark.
///
/// # Errors
/// When realm or server do not work; Ganesha's failures become part of the table.
pub(crate) fn run(arguments: &Arguments, output: &mut BenchOutput, stop: &AtomicBool) -> anyhow::Result<()> {
    let package = match ganesha::Package::find(arguments.ganesha) {
        Ok(package) => package,
        Err(reason) => anyhow::bail!(Skipped(reason)),
    };
    let cores = Cores::choose()?;
    let site = KerberosSite::start(&RealmOptions::default())?;
    let work = private::temporary("orthrus-xtask-")?;
    let folder = package.folder()?;
    let export = folder.path().join("data");
    make_export(&export)?;
    let exported = [export.clone().into(), "--squash".into(), "none".into()];
    let server = site.serve(cores, work.path(), &exported, None)?;
    let free = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let ganesha =
        cores.on_server(|| Ganesha::start(&package, work.path(), &export, site.realm(), free, None))?;
    let servers = [
        site.target("orthrus", server.pid(), server.address(), "/data"),
        site.target(&package.name(), ganesha.pid(), free, "/data"),
    ];
    let mut peers = Peers { servers, rounds: arguments.rounds, length: LENGTH, stop };
    introduce(output, cores, (&package, folder.kind()), arguments.rounds);
    // After a failed row later ones do not try the larger depths again.
    let mut lower = 1;
    for flavor in Flavor::ALL {
        for (load, title) in LOADS {
            let mut measure = |depth: u32| {
                let random = matches!(load, Load::Transfer(Transfer { random: true, .. }));
                let mut name = format!("{} {title}", flavor.name());
                if random || depth < DEPTHS[0] {
                    name += &format!(", {depth} in flight");
                }
                let (ratio, floor) = (format!("{name}, ratio"), floor(&load, flavor));
                peers.row(output, &PeerRow { flavor, load: load.clone(), depth, name, ratio, floor })
            };
            let mut answered = measure(DEPTHS[0]);
            while let Some(depth) = DEPTHS.get(lower).filter(|_| !answered && !stopped(stop)) {
                answered = measure(*depth);
                lower += usize::from(!answered);
            }
            if stopped(stop) {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn introduce(
    output: &mut BenchOutput,
    cores: Cores,
    (package, lies_on): (&ganesha::Package, &str),
    rounds: u32,
) {
    output.note(&format!("peer: {}", package.name()));
    output.note(&format!(
        "{}; one folder on {lies_on}, exported by both; one realm; one connection",
        cores.describe()
    ));
    output.note(
        "in flight: 8 sequential requests, 1 of metadata, 64 random ones; fewer in a row of its own, for both servers, where the peer leaves RPCSEC_GSS calls unanswered",
    );
    output.note(ganesha::METADATA_REMARK);
    output.note(&format!(
        "server's processor time: median [interval] of {rounds} interleaved rounds of {:.1} s",
        LENGTH.as_secs_f64()
    ));
    println!();
}

/// Two servers under the same load, in turns.
pub(crate) struct Peers<'a> {
    /// The servers, the project's own first.
    pub servers: [BenchTarget; 2],
    /// Interleaved rounds of each row.
    pub rounds: u32,
    /// How long each counts in a round.
    pub length: Duration,
    /// Ends a round early.
    pub stop: &'a AtomicBool,
}

/// A load on both servers.
pub(crate) struct PeerRow {
    /// The flavor of both mounts.
    pub flavor: Flavor,
    /// The load of both mounts.
    pub load: Load,
    /// Slots of each session: the most requests that are in flight.
    pub depth: u32,
    /// The name of the load, and that of the row with the ratio of processor times.
    pub name: String,
    pub ratio: String,
    /// The bound on the ratio.
    pub floor: Option<Floor>,
}

impl Peers<'_> {
    /// Measures one row in turns; returns whether both servers answered. Each row has its own
    /// mounts: after a failure, mounts are not fit for the next row.
    pub(crate) fn row(&mut self, output: &mut BenchOutput, row: &PeerRow) -> bool {
        let layout = ClientLayout { slots: Some(row.depth), ..ClientLayout::ONE };
        let load = load::laid_out(row.load.clone(), layout);
        let mut both = self.servers.each_mut().map(|server| {
            LoadedSessions::prepare(server, "peers", (row.flavor, load.clone()), FILE_SIZE, self.stop)
        });
        let mut measured = [Vec::new(), Vec::new()];
        for round in 0..self.rounds {
            for (sessions, measured) in both.iter_mut().zip(&mut measured) {
                let Ok(loaded) = sessions else { continue };
                match loaded.repeat(round, self.length) {
                    Ok(one) => measured.extend(one),
                    Err(error) => *sessions = Err(error),
                }
            }
        }
        // The folder is temporary, so remaining files do no harm.
        let failures = both.map(|sessions| sessions.map(|sessions| drop(sessions.finish())).err());
        // A row that a server did not survive is compared where both do.
        let whole = failures.iter().all(Option::is_none);
        self.report(output, row, &measured, whole);
        for (server, failure) in self.servers.iter().zip(failures) {
            if let Some(reason) = failure {
                output.note(&format!("  {}: {} failed: {reason:#}", row.name, server.label));
            }
        }
        whole
    }

    fn report(&self, output: &mut BenchOutput, row: &PeerRow, measured: &[Vec<Sample>; 2], whole: bool) {
        let unit = load::unit(&row.load);
        let mut figures = Vec::new();
        for (server, measured) in self.servers.iter().zip(measured) {
            let cost = measured.iter().filter_map(|one| one.server_cost(unit));
            let name = format!("{}, {}", row.name, server.label);
            figures.push(BenchFigure::of(&server.label, &name, cpu_unit(unit), cost).brief());
            let rate = measured.iter().map(|one| one.rate(unit));
            figures.push(BenchFigure::of("", format!("{name}, rate"), rate_unit(unit), rate).brief());
        }
        let [own, peer] = measured;
        let ratio = compare(own, peer, |a, b| Some(a.server_cost(unit)? / b.server_cost(unit)?));
        let ratio = BenchFigure::new("ratio", &row.ratio, "", ratio.filter(|_| whole)).floor(row.floor);
        figures.push(ratio);
        output.line(&format!("{:42}", row.name), figures);
    }
}
