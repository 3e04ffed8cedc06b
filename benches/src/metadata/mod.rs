//! Changes of names beside NFS-Ganesha's, beside a local program's and beside those of a bare TCP
//! server: their rate, and the server's processor time, by the number of requests in flight and of
//! directories.

mod local;

use super::disk::{FileSystem, ImageDisk};
use super::ganesha::{self, Ganesha, Package};
use super::kerberos_site::{KerberosSite, make_export, program};
use super::names::churn::Crowd;
use super::output::{BenchFigure, BenchOutput, Floor};
use super::{Skipped, stopped};
use bench::{Flavor, ServerProbe, ServerProcess};
use local::{LocalRound, change_locally, change_over_tcp};
use realm::RealmOptions;
use std::ffi::OsString;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// The peer, and the file system on which the names lie.
#[derive(clap::Args)]
pub(crate) struct MetadataArguments {
    /// The server to compare with.
    #[arg(long, value_enum, default_value = "6.5")]
    ganesha: ganesha::Which,
    /// The file system on which the names lie.
    #[arg(long, value_enum, default_value = "ext4")]
    file_system: FileSystem,
    /// Keep the file system in the directory of temporary files instead of memory.
    #[arg(long)]
    disk: bool,
    /// The flavors, such as `sys` or `sys,krb5p`.
    #[arg(long, value_delimiter = ',', default_value = "sys,krb5p")]
    flavors: Vec<Flavor>,
    /// Only the rows with so many requests in flight: 1, 8 or 64.
    #[arg(long)]
    in_flight: Option<usize>,
    /// Interleaved rounds of each row.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    #[command(flatten)]
    pub output: super::Arguments,
}

const LENGTH: Duration = Duration::from_millis(500);
const LEAD_IN: Duration = Duration::from_millis(100);
const DISK_SIZE: u64 = 1 << 30;
const DIRECTORIES: usize = 64;

/// Clients, requests that each has in flight, and directories.
const LOADS: [(usize, usize, usize); 5] =
    [(1, 1, 1), (2, 4, 1), (2, 4, DIRECTORIES), (8, 8, 1), (8, 8, DIRECTORIES)];

/// A server, or a local program.
struct ComparedSide {
    name: String,
    kind: ComparedKind,
}

enum ComparedKind {
    Server {
        pid: u32,
        address: SocketAddr,
        export: &'static str,
    },
    Local,
    /// A TCP server that only makes the changes. It has one request in flight.
    Bare {
        syncs: bool,
    },
}

impl ComparedKind {
    fn takes(&self, (clients, depth, _): (usize, usize, usize)) -> bool {
        clients * depth == 1 || !matches!(self, Self::Bare { .. })
    }
}

/// The changes of one round.
#[derive(Clone, Copy)]
struct Round {
    /// The number of changes a second.
    rate: f64,
    /// Processor time of the server for each change, in microseconds.
    cost: f64,
}

impl From<LocalRound> for Round {
    fn from(LocalRound { rate, cost }: LocalRound) -> Self {
        Self { rate, cost: cost.as_secs_f64() * 1e6 }
    }
}

/// A figure of a round.
type RoundFigure = fn(&Round) -> f64;

/// The indices of the sides.
const LOOSE: usize = 0;
const STABLE: usize = 1;
const LOCAL: usize = 2;
const BARE_LOOSE: usize = 3;
const BARE_STABLE: usize = 4;
const PEER: usize = 5;

/// Runs the benchmark.
///
/// # Errors
/// When the disk, the realm or a server does not work.
pub(crate) fn run(
    arguments: &MetadataArguments,
    output: &mut BenchOutput,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let package = Package::find(arguments.ganesha).map_err(Skipped)?;
    let site = KerberosSite::start(&RealmOptions::default())?;
    let work = private::temporary("orthrus-xtask-")?;
    let parent = if arguments.disk { std::env::temp_dir() } else { "/dev/shm".into() };
    let disk = ImageDisk::make(&parent, arguments.file_system, DISK_SIZE)?;
    for export in ["loose", "stable", "local", "data"] {
        make_export(&disk.path().join(export))?;
        for number in 0..DIRECTORIES {
            make_export(&disk.path().join(export).join(number.to_string()))?;
        }
    }
    let serve = configuration(&site, work.path(), &disk.path())?;
    let server = ServerProcess::start(&program()?, serve, &site.environment())?;
    let mut sides = vec![
        side("orthrus, stable_names off", server.pid(), server.address(), "/loose"),
        side("orthrus, stable_names on", server.pid(), server.address(), "/stable"),
        ComparedSide { name: "a local program that syncs each change".to_owned(), kind: ComparedKind::Local },
        bare("a bare TCP server, no syncs", false),
        bare("a bare TCP server that syncs each change", true),
    ];
    let free = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let exportable = arguments.file_system != FileSystem::Tmpfs || package.exports_tmpfs();
    let start = || Ganesha::start(&package, work.path(), &disk.path().join("data"), site.realm(), free, None);
    let peer = exportable.then(start).transpose()?;
    sides.extend(peer.as_ref().map(|peer| side(&package.name(), peer.pid(), free, "/data")));
    introduce(arguments, &package, exportable, output);
    let mut sys_rates = Vec::new();
    let chosen = |(clients, depth, _): &(usize, usize, usize)| {
        arguments.in_flight.is_none_or(|in_flight| in_flight == clients * depth)
    };
    for flavor in arguments.flavors.iter().copied() {
        for (index, load) in LOADS.into_iter().filter(chosen).enumerate() {
            let bed = MetadataBed { site: &site, flavor, load, disk: &disk.path(), rounds: arguments.rounds };
            let Some(rounds) = bed.measure(&sides, stop)? else { return Ok(()) };
            let sys = sys_rates.get(index).copied().filter(|_| flavor != Flavor::Sys);
            report(output, &sides, &rounds, (flavor, load, sys));
            if flavor == Flavor::Sys {
                sys_rates
                    .push(BenchFigure::of("", "", "", rates(&rounds[LOOSE])).median().unwrap_or(f64::NAN));
            }
        }
    }
    Ok(())
}

fn side(name: &str, pid: u32, address: SocketAddr, export: &'static str) -> ComparedSide {
    ComparedSide { name: name.to_owned(), kind: ComparedKind::Server { pid, address, export } }
}

fn bare(name: &str, syncs: bool) -> ComparedSide {
    ComparedSide { name: name.to_owned(), kind: ComparedKind::Bare { syncs } }
}

fn introduce(arguments: &MetadataArguments, package: &Package, exportable: bool, output: &mut BenchOutput) {
    let place = if arguments.disk { "the directory of temporary files" } else { "memory" };
    output.note(&format!("names lie on {}, in {place}", arguments.file_system.name()));
    output.note("each request in flight makes a file, renames it and removes it; all ends wherever the kernel puts them");
    output.note(&match exportable {
        true => format!("peer: {}, which never syncs names", package.name()),
        false => format!("{} does not export tmpfs", package.name()),
    });
    output.note(&format!(
        "changes a second, and server's processor time for each: median [interval] of {} interleaved rounds of {:.1} s",
        arguments.rounds,
        LENGTH.as_secs_f64()
    ));
}

/// Writes the server's configuration, and returns its arguments.
fn configuration(site: &KerberosSite, work: &Path, disk: &Path) -> anyhow::Result<Vec<OsString>> {
    let mut text = format!(
        "listen = \"127.0.0.1:0\"\nkeytab = {:?}\nstate_dir = {:?}\n",
        site.realm().server_keytab(),
        work.join("state")
    );
    for (name, stable) in [("loose", false), ("stable", true)] {
        let path = disk.join(name);
        text += &format!(
            "[[export]]\npath = {path:?}\npseudo = \"/{name}\"\nsec = [\"sys\", \"krb5p\"]\nsecure = false\nsquash = \"none\"\nstable_names = {stable}\n"
        );
    }
    let config = work.join("orthrus.toml");
    std::fs::write(&config, text)?;
    Ok(vec!["--config".into(), config.into()])
}

/// One row of the table.
struct MetadataBed<'a> {
    site: &'a KerberosSite,
    flavor: Flavor,
    load: (usize, usize, usize),
    disk: &'a Path,
    rounds: u32,
}

impl MetadataBed<'_> {
    /// Measures all sides in turns; `None` after a signal.
    fn measure(&self, sides: &[ComparedSide], stop: &AtomicBool) -> anyhow::Result<Option<Vec<Vec<Round>>>> {
        let mut crowds = sides.iter().map(|side| self.connect(side)).collect::<anyhow::Result<Vec<_>>>()?;
        let mut measured = vec![Vec::new(); sides.len()];
        for _ in 0..self.rounds {
            for ((side, crowd), measured) in sides.iter().zip(&mut crowds).zip(&mut measured) {
                if side.kind.takes(self.load) {
                    measured.push(self.round(side, crowd.as_mut())?);
                }
                if stopped(stop) {
                    return Ok(None);
                }
            }
        }
        crowds.into_iter().flatten().try_for_each(Crowd::leave)?;
        Ok(Some(measured))
    }

    fn connect(&self, side: &ComparedSide) -> anyhow::Result<Option<Crowd>> {
        let ComparedKind::Server { address, export, .. } = side.kind else { return Ok(None) };
        let (clients, depth, directories) = self.load;
        let options = self.site.options(address, self.flavor);
        let paths: Vec<String> = (0..directories).map(|number| format!("{export}/{number}")).collect();
        Crowd::connect(&options, &paths, (clients, depth)).map(Some)
    }

    fn round(&self, side: &ComparedSide, crowd: Option<&mut Crowd>) -> anyhow::Result<Round> {
        let local = self.disk.join("local");
        let (pid, crowd) = match (&side.kind, crowd) {
            (ComparedKind::Server { pid, .. }, Some(crowd)) => (pid, crowd),
            (ComparedKind::Bare { syncs }, _) => return Ok(change_over_tcp(&local, *syncs, LENGTH)?.into()),
            _ => return Ok(change_locally(&local, LENGTH)?.into()),
        };
        crowd.work(LEAD_IN)?;
        let probe = ServerProbe { pid: Some(*pid), metrics: None };
        let (before, start) = (probe.snapshot(), Instant::now());
        let changes = crowd.work(LENGTH)?.count() as f64;
        let (elapsed, work) = (start.elapsed(), probe.since(&before, self.flavor.name()));
        let cost = work.cpu.map_or(f64::NAN, |cpu| cpu.as_secs_f64() * 1e6 / changes);
        Ok(Round { rate: changes / elapsed.as_secs_f64(), cost })
    }
}

fn rates(rounds: &[Round]) -> impl Iterator<Item = f64> {
    rounds.iter().map(|round| round.rate)
}

/// Prints the figures of a row: those of each side, and the ratios that have bounds.
fn report(
    output: &mut BenchOutput,
    sides: &[ComparedSide],
    rounds: &[Vec<Round>],
    (flavor, (clients, depth, directories), sys_rate): (Flavor, (usize, usize, usize), Option<f64>),
) {
    let in_flight = clients * depth;
    let row = format!("{}, {in_flight} in flight, {directories} directories", flavor.name());
    println!("\n{row}");
    for (side, rounds) in sides.iter().zip(rounds).filter(|(_, rounds)| !rounds.is_empty()) {
        let name = format!("{row}, {}", side.name);
        let cost = rounds.iter().map(|round| round.cost);
        let rate = BenchFigure::of("", format!("{name}, rate"), "1/s", rates(rounds));
        let cost = BenchFigure::of("processor time", format!("{name}, processor time"), "µs", cost);
        output.line(&side.name, [rate, cost]);
    }
    let ratio = |label: &'static str, own: usize, other: usize, of: RoundFigure, floor: Option<Floor>| {
        let pairs = rounds.get(own).zip(rounds.get(other)).map(|(own, other)| own.iter().zip(other));
        let ratios = pairs.into_iter().flatten().map(|(own, other)| of(own) / of(other));
        BenchFigure::of("", format!("{row}: {label}"), "", ratios).floor(floor)
    };
    let (rate, cost): (RoundFigure, RoundFigure) = (|round| round.rate, |round| round.cost);
    let alone = |floor| Some(floor).filter(|_| in_flight == 1);
    let local = match in_flight {
        1 => Some(Floor::AtLeast(0.8)),
        64 => Some(Floor::AtLeast(4.0)),
        _ => None,
    };
    let ratios = [
        ("processor time, off / peer", LOOSE, PEER, cost, Some(Floor::AtMost(0.5))),
        ("processor time, on / peer", STABLE, PEER, cost, Some(Floor::AtMost(0.8))),
        ("rate, off / peer", LOOSE, PEER, rate, alone(Floor::AtLeast(1.3))),
        ("rate, on / local", STABLE, LOCAL, rate, local.filter(|_| flavor == Flavor::Sys)),
        ("rate, off / bare", LOOSE, BARE_LOOSE, rate, None),
        ("rate, on / bare", STABLE, BARE_STABLE, rate, None),
        ("rate, bare that syncs / local", BARE_STABLE, LOCAL, rate, None),
        ("processor time, off / bare", LOOSE, BARE_LOOSE, cost, None),
    ];
    let is_measured = |side: usize| rounds.get(side).is_some_and(|rounds| !rounds.is_empty());
    for (label, own, other, of, floor) in ratios {
        if is_measured(own) && is_measured(other) {
            output.line(label, [ratio(label, own, other, of, floor)]);
        }
    }
    if let Some(sys) = sys_rate {
        let label = "rate, off: krb5p / sys";
        let ratios = rates(&rounds[LOOSE]).map(|rate| rate / sys);
        let figure = BenchFigure::of("", format!("{row}: {label}"), "", ratios);
        output.line(label, [figure.floor(Floor::AtLeast(0.9))]);
    }
}
