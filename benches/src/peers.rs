//! The server's processor time beside NFS-Ganesha's: same machine, client, folder and realm, in
//! turns.

use super::cores::Cores;
use super::ganesha::{self, Ganesha};
use super::kerberos_site::KerberosSite;
use super::load_target::{LoadTarget, TargetLoad, rate_unit};
use super::output::{BenchOutput, Floor};
use super::{RunEnd, stopped};
use bench::measuring::{Interval, Sample, compare};
use bench::workload::TransferShape;
use bench::{Endpoint, ExportMount, Flavor, Unit};
use realm::Enctypes;
use report::form::cpu_unit;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
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

/// Bytes of the file that is read and written.
const FILE_SIZE: u64 = 64 << 20;

/// Depths, the largest first. Ganesha 4.3, with a sequence window of 32, leaves Kerberos calls
/// unanswered when several are in flight; 6.5 has a window of 512 and answers most. A row that
/// fails is measured again, for both servers, with the next depth; later rows start there.
const DEPTHS: [u32; 5] = [64, 8, 4, 2, 1];

/// The rows, in their order.
const LOADS: [(TargetLoad, &str); 5] = [
    (RANDOM_READ, "random read 4 KiB"),
    (TargetLoad::random(true, RANDOM_DEPTH), "random write 4 KiB"),
    (TargetLoad::Metadata, "metadata mix"),
    (SEQUENTIAL_READ, "sequential read 1 MiB"),
    (TargetLoad::sequential(true, 8, 1 << 20), "sequential write 1 MiB"),
];

const RANDOM_DEPTH: usize = 64;
const RANDOM_READ: TargetLoad = TargetLoad::random(false, RANDOM_DEPTH);
const SEQUENTIAL_READ: TargetLoad = TargetLoad::sequential(false, 8, 1 << 20);

/// Returns the bound on the ratio of a row.
fn floor(load: TargetLoad, flavor: Flavor) -> Option<Floor> {
    match flavor {
        Flavor::Sys if load == RANDOM_READ => Some(Floor::AtMost(0.5)),
        Flavor::Krb5p if load == SEQUENTIAL_READ => Some(Floor::AtMost(1.0 / 3.0)),
        _ => None,
    }
}

/// One of the servers.
struct PeerServer<'a> {
    name: String,
    load_target: LoadTarget<'a>,
}

/// Runs the benchmark.
///
/// # Errors
/// When realm or server do not work; Ganesha's failures become part of the table.
pub(crate) fn run(
    arguments: &Arguments,
    output: &mut BenchOutput,
    stop: &AtomicBool,
) -> anyhow::Result<RunEnd> {
    let package = match ganesha::Package::find(arguments.ganesha) {
        Ok(package) => package,
        Err(reason) => return Ok(RunEnd::Skipped(reason)),
    };
    let cores = Cores::choose()?;
    let site = KerberosSite::start(Enctypes::default())?;
    let work = private::temporary("orthrus-xtask-")?;
    let folder = package.folder()?;
    let export = folder.path().join("data");
    std::fs::create_dir(&export)?;
    std::fs::set_permissions(&export, std::fs::Permissions::from_mode(0o777))?;
    let exported = [export.clone().into(), "--squash".into(), "none".into()];
    let server = site.serve(cores, work.path(), &exported)?;
    let free = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let ganesha =
        cores.on_server(|| Ganesha::start(&package, work.path(), &export, site.realm(), free, None))?;
    let load_target = |pid, address| LoadTarget { site: &site, pid, address, file_size: FILE_SIZE, stop };
    let peers = [
        PeerServer { name: "orthrus".to_owned(), load_target: load_target(server.pid(), server.address()) },
        PeerServer { name: package.name(), load_target: load_target(ganesha.pid(), free) },
    ];
    introduce(output, cores, (&package, folder.kind()), arguments.rounds);
    let mut lower = 1;
    for flavor in Flavor::ALL {
        let rounds = arguments.rounds;
        let mut run = PeerRun { peers: &peers, flavor, rounds, stop, lower, output: &mut *output };
        run.flavor();
        lower = run.lower;
        if stopped(stop) {
            return Ok(RunEnd::Interrupted);
        }
    }
    Ok(RunEnd::Complete)
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
    println!("\n{:42} {:>14} {:>14}   {:24}", "", "orthrus", package.name(), "ratio");
}

/// The rows of one flavor.
struct PeerRun<'a> {
    peers: &'a [PeerServer<'a>; 2],
    flavor: Flavor,
    rounds: u32,
    stop: &'a AtomicBool,
    /// The index in [`DEPTHS`] after a failed row; later rows do not try the larger depths again.
    lower: usize,
    output: &'a mut BenchOutput,
}

/// A server's mount, or why there is none.
type PeerMount = Result<ExportMount, String>;

impl PeerRun<'_> {
    fn flavor(&mut self) {
        for (load, title) in LOADS {
            if self.row(load, title, DEPTHS[0]) {
                continue;
            }
            while let Some(depth) = DEPTHS.get(self.lower).filter(|_| !stopped(self.stop)) {
                if self.row(load, title, *depth) {
                    break;
                }
                self.lower += 1;
            }
        }
    }

    /// Measures one row in turns; returns whether both servers answered. Each row has its own
    /// mounts: after a failure, mounts are not fit for the next row.
    fn row(&mut self, load: TargetLoad, title: &str, depth: u32) -> bool {
        if stopped(self.stop) {
            return true;
        }
        let mut sides = self.peers.each_ref().map(|peer| self.mount(peer, depth));
        let mut measured = [Vec::new(), Vec::new()];
        for round in 0..self.rounds {
            for ((peer, side), measured) in self.peers.iter().zip(&mut sides).zip(&mut measured) {
                let Ok(mount) = side else { continue };
                match peer.load_target.repeat(mount, load, round, LENGTH) {
                    Ok(one) => measured.extend(one),
                    Err(error) => *side = Err(format!("{error:#}")),
                }
            }
        }
        let random = matches!(load, TargetLoad::Transfer(TransferShape { random: true, .. }));
        let mut name = format!("{} {title}", self.flavor.name());
        if random || depth < DEPTHS[0] {
            name += &format!(", {depth} in flight");
        }
        self.report(load, &name, &measured, &sides);
        for side in sides.iter_mut().flatten() {
            // The folder is temporary, so remaining files do no harm.
            let _ = side.finish();
        }
        sides.iter().all(Result::is_ok)
    }

    fn mount(&self, peer: &PeerServer<'_>, depth: u32) -> PeerMount {
        self.try_mount(peer, depth).map_err(|error| format!("{error:#}"))
    }

    fn try_mount(&self, peer: &PeerServer<'_>, depth: u32) -> anyhow::Result<ExportMount> {
        let mut options = peer.load_target.options(self.flavor)?;
        options.slots_max = depth;
        peer.load_target.mount("/data", self.flavor, options)
    }

    fn report(&mut self, load: TargetLoad, name: &str, measured: &[Vec<Sample>; 2], sides: &[PeerMount; 2]) {
        let unit = load.unit();
        let each = measured
            .each_ref()
            .map(|measured| Interval::of(measured.iter().filter_map(|one| one.server_cost(unit))));
        for ((peer, spread), measured) in self.peers.iter().zip(&each).zip(measured) {
            let Some(spread) = spread else { continue };
            self.output.interval(&format!("{name}, {}", peer.name), cpu_unit(unit), *spread, None);
            if let Some(rate) = Interval::of(measured.iter().map(|one| one.rate(unit))) {
                self.output.interval(&format!("{name}, {}, rate", peer.name), rate_unit(unit), rate, None);
            }
        }
        let [own, peer] = measured;
        // A row that a server did not survive is compared where both do.
        let whole = sides.iter().all(Result::is_ok);
        let ratio = compare(own, peer, |a, b| Some(a.server_cost(unit)? / b.server_cost(unit)?));
        let ratio = ratio.filter(|_| whole);
        let shown = each.map(|spread| spread.map_or("-".to_owned(), |spread| show(spread.median, unit)));
        let [shown_own, shown_peer] = shown;
        let mut line = format!("{name:42} {shown_own:>14} {shown_peer:>14}   ");
        if let Some(ratio) = ratio {
            let floor = floor(load, self.flavor);
            self.output.interval(&format!("{name}, ratio"), "ratio", ratio, floor);
            line += &format!("{:5.3} [{:.3} to {:.3}]", ratio.median, ratio.low, ratio.high);
            line += &floor.map(|floor| format!("   {}", floor.verdict(ratio.median))).unwrap_or_default();
        }
        println!("{line}");
        for (peer, side) in self.peers.iter().zip(sides) {
            if let Err(reason) = side {
                self.output.note(&format!("  {name}: {} failed: {reason}", peer.name));
            }
        }
    }
}

fn show(cost: f64, unit: Unit) -> String {
    match unit {
        Unit::MegabytesPerSecond => format!("{cost:.3} s/GB"),
        Unit::OperationsPerSecond => format!("{cost:.2} µs/op"),
    }
}
