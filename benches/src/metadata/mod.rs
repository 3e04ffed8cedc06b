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
    /// Only these sides, such as `off` alone for a profile.
    #[arg(long, value_enum, value_delimiter = ',')]
    sides: Option<Vec<MetadataSide>>,
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

/// The sides of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum MetadataSide {
    /// Orthrus with `stable_names` off.
    Off,
    /// Orthrus with `stable_names` on.
    On,
    /// A local program that syncs each change.
    Local,
    /// A TCP server that only makes the changes.
    Bare,
    /// A TCP server that syncs each change.
    BareSyncing,
    /// The NFS-Ganesha of `--ganesha`.
    Peer,
}

/// A server, or a program without a server.
struct ComparedSide {
    side: MetadataSide,
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
    /// It has one request in flight.
    Bare {
        syncs: bool,
    },
}

impl ComparedKind {
    fn takes(&self, (clients, depth, _): (usize, usize, usize)) -> bool {
        clients * depth == 1 || !matches!(self, Self::Bare { .. })
    }

    /// The flavors with which it is measured. `None` stands for a program without clients.
    fn flavors(&self, chosen: &[Flavor]) -> Vec<Option<Flavor>> {
        match self {
            Self::Server { .. } => chosen.iter().copied().map(Some).collect(),
            Self::Local | Self::Bare { .. } => vec![None],
        }
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
    let free = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let exportable = arguments.file_system != FileSystem::Tmpfs || package.exports_tmpfs();
    let start = || Ganesha::start(&package, work.path(), &disk.path().join("data"), site.realm(), free, None);
    let peer = (exportable && arguments.takes(MetadataSide::Peer)).then(start).transpose()?;
    let own = |export| ComparedKind::Server { pid: server.pid(), address: server.address(), export };
    let mut sides = vec![
        side(MetadataSide::Off, "orthrus, stable_names off", own("/loose")),
        side(MetadataSide::On, "orthrus, stable_names on", own("/stable")),
        side(MetadataSide::Local, "a local program that syncs each change", ComparedKind::Local),
        side(MetadataSide::Bare, "a bare TCP server, no syncs", ComparedKind::Bare { syncs: false }),
        side(
            MetadataSide::BareSyncing,
            "a bare TCP server that syncs each change",
            ComparedKind::Bare { syncs: true },
        ),
    ];
    sides.extend(peer.as_ref().map(|peer| {
        let kind = ComparedKind::Server { pid: peer.pid(), address: free, export: "/data" };
        side(MetadataSide::Peer, &package.name(), kind)
    }));
    sides.retain(|side| arguments.takes(side.side));
    introduce(arguments, &package, exportable, output);
    for load in LOADS.into_iter().filter(|load| arguments.takes_load(*load)) {
        let bed = MetadataBed { site: &site, load, disk: &disk.path(), rounds: arguments.rounds };
        let Some(entries) = bed.measure(&sides, &arguments.flavors, stop)? else { return Ok(()) };
        for flavor in arguments.flavors.iter().copied() {
            MetadataRow::new(flavor, load, &entries).report(output);
        }
    }
    Ok(())
}

impl MetadataArguments {
    fn takes(&self, side: MetadataSide) -> bool {
        self.sides.as_ref().is_none_or(|chosen| chosen.contains(&side))
    }

    fn takes_load(&self, (clients, depth, _): (usize, usize, usize)) -> bool {
        self.in_flight.is_none_or(|in_flight| in_flight == clients * depth)
    }
}

fn side(side: MetadataSide, name: &str, kind: ComparedKind) -> ComparedSide {
    ComparedSide { side, name: name.to_owned(), kind }
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

/// One load, on all sides and with all flavors.
struct MetadataBed<'a> {
    site: &'a KerberosSite,
    load: (usize, usize, usize),
    disk: &'a Path,
    rounds: u32,
}

/// A side with one of its flavors.
struct MeasuredSide<'a> {
    side: &'a ComparedSide,
    flavor: Option<Flavor>,
    crowd: Option<Crowd>,
    rounds: Vec<Round>,
}

impl MetadataBed<'_> {
    /// Measures all sides with all flavors in turns; `None` after a signal.
    fn measure<'a>(
        &self,
        sides: &'a [ComparedSide],
        flavors: &[Flavor],
        stop: &AtomicBool,
    ) -> anyhow::Result<Option<Vec<MeasuredSide<'a>>>> {
        let mut entries = Vec::new();
        for side in sides.iter().filter(|side| side.kind.takes(self.load)) {
            for flavor in side.kind.flavors(flavors) {
                entries.push(MeasuredSide {
                    side,
                    flavor,
                    crowd: self.connect(side, flavor)?,
                    rounds: Vec::new(),
                });
            }
        }
        for _ in 0..self.rounds {
            for entry in &mut entries {
                entry.rounds.push(self.round(entry.side, entry.crowd.as_mut())?);
                if stopped(stop) {
                    return Ok(None);
                }
            }
        }
        entries.iter_mut().filter_map(|entry| entry.crowd.take()).try_for_each(Crowd::leave)?;
        Ok(Some(entries))
    }

    fn connect(&self, side: &ComparedSide, flavor: Option<Flavor>) -> anyhow::Result<Option<Crowd>> {
        let (ComparedKind::Server { address, export, .. }, Some(flavor)) = (&side.kind, flavor) else {
            return Ok(None);
        };
        let (clients, depth, directories) = self.load;
        let options = self.site.options(*address, flavor);
        let paths: Vec<String> = (0..directories).map(|number| format!("{export}/{number}")).collect();
        Crowd::connect(&options, &format!("{}-", flavor.name()), &paths, (clients, depth)).map(Some)
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
        let (elapsed, work) = (start.elapsed(), probe.since(&before, &side.name));
        let cost = work.cpu.map_or(f64::NAN, |cpu| cpu.as_secs_f64() * 1e6 / changes);
        Ok(Round { rate: changes / elapsed.as_secs_f64(), cost })
    }
}

/// A flavor under a load, and the entries that have figures for it.
struct MetadataRow<'a> {
    flavor: Flavor,
    in_flight: usize,
    name: String,
    entries: &'a [MeasuredSide<'a>],
}

impl<'a> MetadataRow<'a> {
    fn new(
        flavor: Flavor,
        (clients, depth, directories): (usize, usize, usize),
        entries: &'a [MeasuredSide<'a>],
    ) -> Self {
        let in_flight = clients * depth;
        let name = format!("{}, {in_flight} in flight, {directories} directories", flavor.name());
        Self { flavor, in_flight, name, entries }
    }

    fn own(&self) -> impl Iterator<Item = &'a MeasuredSide<'a>> {
        let flavor = self.flavor;
        self.entries.iter().filter(move |entry| entry.flavor.is_none_or(|of| of == flavor))
    }

    fn report(&self, output: &mut BenchOutput) {
        println!("\n{}", self.name);
        for MeasuredSide { side, rounds, .. } in self.own() {
            let name = format!("{}, {}", self.name, side.name);
            let rate = BenchFigure::of("", format!("{name}, rate"), "1/s", rounds.iter().map(rate));
            let cost = rounds.iter().map(cost);
            let cost = BenchFigure::of("processor time", format!("{name}, processor time"), "µs", cost);
            output.line(&side.name, [rate, cost]);
        }
        self.report_sides(output);
        self.report_protection(output);
    }

    /// Prints the ratios of the sides.
    fn report_sides(&self, output: &mut BenchOutput) {
        let alone = |floor| Some(floor).filter(|_| self.in_flight == 1);
        let local = match self.in_flight {
            1 => Some(Floor::AtLeast(0.8)),
            64 => Some(Floor::AtLeast(4.0)),
            _ => None,
        };
        let local = local.filter(|_| self.flavor == Flavor::Sys);
        let ratios: [(_, _, _, RoundFigure, _); 8] = [
            (
                "processor time, off / peer",
                MetadataSide::Off,
                MetadataSide::Peer,
                cost,
                Some(Floor::AtMost(0.5)),
            ),
            (
                "processor time, on / peer",
                MetadataSide::On,
                MetadataSide::Peer,
                cost,
                Some(Floor::AtMost(0.8)),
            ),
            ("rate, off / peer", MetadataSide::Off, MetadataSide::Peer, rate, alone(Floor::AtLeast(1.3))),
            ("rate, on / local", MetadataSide::On, MetadataSide::Local, rate, local),
            ("rate, off / bare", MetadataSide::Off, MetadataSide::Bare, rate, None),
            ("rate, on / bare", MetadataSide::On, MetadataSide::BareSyncing, rate, None),
            ("rate, bare that syncs / local", MetadataSide::BareSyncing, MetadataSide::Local, rate, None),
            ("processor time, off / bare", MetadataSide::Off, MetadataSide::Bare, cost, None),
        ];
        let find = |side| self.own().find(|entry| entry.side.side == side);
        for (label, own, other, of, floor) in ratios {
            if let (Some(own), Some(other)) = (find(own), find(other)) {
                self.report_ratio(output, label, (own, other), of, floor);
            }
        }
    }

    /// Prints the ratios of a protected flavor to sys.
    fn report_protection(&self, output: &mut BenchOutput) {
        let of = |flavor| {
            let is_of = |entry: &&MeasuredSide<'_>| {
                entry.side.side == MetadataSide::Off && entry.flavor == Some(flavor)
            };
            self.entries.iter().find(is_of)
        };
        let sys = of(Flavor::Sys).filter(|_| self.flavor != Flavor::Sys);
        if let (Some(own), Some(sys)) = (of(self.flavor), sys) {
            let label = |what| format!("{what}, off: {} / sys", self.flavor.name());
            self.report_ratio(output, &label("rate"), (own, sys), rate, Some(Floor::AtLeast(0.9)));
            self.report_ratio(output, &label("processor time"), (own, sys), cost, None);
        }
    }

    /// Prints the ratio of two entries, round by round.
    fn report_ratio(
        &self,
        output: &mut BenchOutput,
        label: &str,
        (own, other): (&MeasuredSide<'_>, &MeasuredSide<'_>),
        of: RoundFigure,
        floor: Option<Floor>,
    ) {
        let ratios = own.rounds.iter().zip(&other.rounds).map(|(own, other)| of(own) / of(other));
        let figure = BenchFigure::of("", format!("{}: {label}", self.name), "", ratios);
        output.line(label, [figure.floor(floor)]);
    }
}

fn rate(round: &Round) -> f64 {
    round.rate
}

fn cost(round: &Round) -> f64 {
    round.cost
}
