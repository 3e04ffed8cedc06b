//! The server's processor time beside NFS-Ganesha's: same machine, client, folder and realm, in turns.

use super::cores::Cores;
use super::ganesha::Ganesha;
use super::output::{Floor, Output};
use super::site::Site;
use super::{End, stopped};
use anyhow::Context;
use bench::workload::{self, Conditions};
use bench::{Endpoint, Flavor, Measurement, Mount, Pattern, Spread, Unit, Workload, cpu};
use realm::Enctypes;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Interleaved rounds of each row.
const ROUNDS: u32 = 5;

/// How long each counts, and runs before it counts.
const LENGTH: Duration = Duration::from_millis(500);
const LEAD_IN: Duration = Duration::from_millis(100);

/// Bytes of the file that is read and written.
const FILE_SIZE: u64 = 64 << 20;

/// The most requests in flight. Ganesha leaves Kerberos calls unanswered when several are in flight; why, these rows
/// do not show (its sequence window is 32 wide). A row that fails so is measured again, for both servers, with the
/// next depth that is left, and later rows go on from there.
const DEPTHS: [u32; 5] = [64, 8, 4, 2, 1];

/// The rows, in their order.
const WORKLOADS: [(Workload, &str); 5] = [
    (Workload::RandomReadDepth64, "random read 4 KiB"),
    (Workload::RandomWriteDepth64, "random write 4 KiB"),
    (Workload::Metadata, "metadata mix"),
    (Workload::SequentialRead, "sequential read 1 MiB"),
    (Workload::SequentialWrite, "sequential write 1 MiB"),
];

/// What is asked of the ratio of a row.
fn floor(workload: Workload, flavor: Flavor) -> Option<Floor> {
    match (workload, flavor) {
        (Workload::RandomReadDepth64, Flavor::Sys) => Some(Floor::AtMost(0.5)),
        (Workload::SequentialRead, Flavor::Krb5p) => Some(Floor::AtMost(1.0 / 3.0)),
        _ => None,
    }
}

/// One of the servers.
struct Peer {
    name: &'static str,
    pid: u32,
    address: SocketAddr,
}

/// Runs the benchmark.
///
/// # Errors
/// When realm or server do not work; Ganesha's failures become part of the table.
pub fn run(output: &mut Output, stop: &AtomicBool) -> anyhow::Result<End> {
    if let Some(reason) = Ganesha::missing() {
        return Ok(End::Skipped(reason));
    }
    let cores = Cores::choose()?;
    let site = Site::start(Enctypes::default())?;
    let work = tempfile::tempdir()?;
    let folder = tempfile::Builder::new().prefix("orthrus-peers-").tempdir_in("/dev/shm")?;
    let export = folder.path().join("data");
    std::fs::create_dir(&export)?;
    std::fs::set_permissions(&export, std::fs::Permissions::from_mode(0o777))?;
    let arguments = [export.clone().into(), "--squash".into(), "none".into()];
    let server = site.serve(cores, work.path(), &arguments)?;
    let free = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let ganesha = cores.on_server(|| Ganesha::start(work.path(), &export, site.realm(), free, None))?;
    let peers = [
        Peer { name: "orthrus", pid: server.pid(), address: server.address() },
        Peer { name: "ganesha", pid: ganesha.pid(), address: free },
    ];
    introduce(output, cores);
    let mut lower = 1;
    for flavor in Flavor::ALL {
        let mut run = Run { site: &site, peers: &peers, flavor, stop, lower, output: &mut *output };
        run.flavor();
        lower = run.lower;
        if stopped(stop) {
            return Ok(End::Interrupted);
        }
    }
    Ok(End::Complete)
}

fn introduce(output: &mut Output, cores: Cores) {
    output.note(&format!("peer: {}", Ganesha::version()));
    output.note(&format!(
        "{}; one folder on tmpfs, exported by both; one realm; one connection",
        cores.describe()
    ));
    output.note(
        "in flight: 8 sequential requests, 1 of metadata, 64 random ones; fewer in a row of its own, for both servers, where Ganesha leaves RPCSEC_GSS calls unanswered",
    );
    output.note(&format!(
        "server's processor time: median [least to most] of {ROUNDS} interleaved rounds of {:.1} s",
        LENGTH.as_secs_f64()
    ));
    println!("\n{:42} {:>14} {:>14}   {:24}", "", "orthrus", "ganesha", "ratio");
}

/// The rows of one flavor.
struct Run<'a> {
    site: &'a Site,
    peers: &'a [Peer; 2],
    flavor: Flavor,
    stop: &'a AtomicBool,
    /// Where in [`DEPTHS`] a row that failed goes on; what did not work for one row is not tried for the next.
    lower: usize,
    output: &'a mut Output,
}

/// A server's mount, or why there is none.
type Side = Result<Mount, String>;

impl Run<'_> {
    fn flavor(&mut self) {
        for (workload, title) in WORKLOADS {
            if self.row(workload, title, DEPTHS[0]) {
                continue;
            }
            while let Some(depth) = DEPTHS.get(self.lower).filter(|_| !stopped(self.stop)) {
                if self.row(workload, title, *depth) {
                    break;
                }
                self.lower += 1;
            }
        }
    }

    /// Measures one row in turns and says whether no server failed. Each row has mounts of its own: what a failure
    /// leaves is not fit to measure the next with.
    fn row(&mut self, workload: Workload, title: &str, depth: u32) -> bool {
        if stopped(self.stop) {
            return true;
        }
        let mut sides = self.peers.each_ref().map(|peer| self.mount(peer, depth));
        let mut measured = [Vec::new(), Vec::new()];
        for round in 0..ROUNDS {
            for ((peer, side), measured) in self.peers.iter().zip(&mut sides).zip(&mut measured) {
                let Ok(mount) = side else { continue };
                match self.repeat(peer, mount, workload, round) {
                    Ok(one) => measured.extend(one),
                    Err(error) => *side = Err(format!("{error:#}")),
                }
            }
        }
        let random = matches!(workload, Workload::RandomReadDepth64 | Workload::RandomWriteDepth64);
        let mut name = format!("{} {title}", self.flavor.name());
        if random || depth < DEPTHS[0] {
            name += &format!(", {depth} in flight");
        }
        self.report(workload, &name, &measured, &sides);
        for side in sides.iter_mut().flatten() {
            // The folder is temporary; what stays in it does no harm.
            let _ = side.finish();
        }
        sides.iter().all(Result::is_ok)
    }

    fn mount(&self, peer: &Peer, depth: u32) -> Side {
        self.try_mount(peer, depth).map_err(|error| format!("{error:#}"))
    }

    fn try_mount(&self, peer: &Peer, depth: u32) -> anyhow::Result<Mount> {
        let flavor: client::Flavor = self.flavor.name().parse().map_err(anyhow::Error::msg)?;
        let mut options = self.site.options(peer.address, flavor);
        options.slots_max = depth;
        let folder = format!("{}-{}-{}", peer.name, self.flavor.name(), unique());
        let mut mount = Mount::connect(options, "/data", &folder)?;
        mount.prepare()?;
        let cpu = || cpu::of_process(peer.pid);
        workload::fill(&mut mount, &self.conditions(LENGTH, &cpu)).context("preparing the file")?;
        Ok(mount)
    }

    fn repeat(
        &self,
        peer: &Peer,
        mount: &mut Mount,
        workload: Workload,
        round: u32,
    ) -> anyhow::Result<Option<Measurement>> {
        let cpu = || cpu::of_process(peer.pid);
        // The first time, caches, slots and the allocator settle.
        let lead_in = if round == 0 { LENGTH / 2 } else { LEAD_IN };
        workload::repeat(workload, 0, mount, &self.conditions(lead_in, &cpu))?;
        workload::repeat(workload, round, mount, &self.conditions(LENGTH, &cpu))
    }

    fn conditions<'a>(
        &'a self,
        length: Duration,
        server_cpu: &'a dyn Fn() -> Option<Duration>,
    ) -> Conditions<'a> {
        let pattern = Pattern(0x7065_6572 + self.flavor as u64);
        Conditions { file_size: FILE_SIZE, pattern, length, stop: self.stop, server_cpu }
    }

    fn report(
        &mut self,
        workload: Workload,
        name: &str,
        measured: &[Vec<Measurement>; 2],
        sides: &[Side; 2],
    ) {
        let unit = workload.unit();
        let each =
            measured.each_ref().map(|measured| Spread::of(measured.iter().filter_map(|one| cost(one, unit))));
        for ((peer, spread), measured) in self.peers.iter().zip(&each).zip(measured) {
            let Some(spread) = spread else { continue };
            self.output.spread(&format!("{name}, {}", peer.name), cost_unit(unit), *spread, None);
            if let Some(rate) = Spread::of(measured.iter().map(|one| one.rate(unit))) {
                let unit = if unit == Unit::MegabytesPerSecond { "MB/s" } else { "1/s" };
                self.output.spread(&format!("{name}, {}, rate", peer.name), unit, rate, None);
            }
        }
        let [own, peer] = measured;
        // A row that a server did not survive is compared where both do.
        let whole = sides.iter().all(Result::is_ok);
        let rounds = own.iter().zip(peer).filter(|_| whole);
        let ratio = Spread::of(rounds.filter_map(|(a, b)| Some(cost(a, unit)? / cost(b, unit)?)));
        let shown = each.map(|spread| spread.map_or("-".to_owned(), |spread| show(spread.median, unit)));
        let [shown_own, shown_peer] = shown;
        let mut line = format!("{name:42} {shown_own:>14} {shown_peer:>14}   ");
        if let Some(ratio) = ratio {
            let floor = floor(workload, self.flavor);
            self.output.spread(&format!("{name}, ratio"), "ratio", ratio, floor);
            line += &format!("{:5.3} [{:.3} to {:.3}]", ratio.median, ratio.min, ratio.max);
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

fn cost(one: &Measurement, unit: Unit) -> Option<f64> {
    Some(one.per_work(unit, one.server_cpu_seconds?))
}

fn cost_unit(unit: Unit) -> &'static str {
    match unit {
        Unit::MegabytesPerSecond => "s/GB",
        Unit::OperationsPerSecond => "µs",
    }
}

fn show(cost: f64, unit: Unit) -> String {
    match unit {
        Unit::MegabytesPerSecond => format!("{cost:.3} s/GB"),
        Unit::OperationsPerSecond => format!("{cost:.2} µs/op"),
    }
}

/// A number for each folder: one that a failure left behind is not used again.
fn unique() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
