//! The shares of two principals with the same load, by the weights of a configuration file.

use super::FairnessSelection;
use crate::cores::Cores;
use crate::kerberos_site::{KerberosSite, make_export, program};
use crate::load::TransferKind::Read;
use crate::load::{self, LoadedSessions};
use crate::output::{BenchFigure, BenchOutput, Floor};
use crate::stopped;
use bench::measuring::{ClientLayout, Load, Sample};
use bench::native::BenchTarget;
use bench::{Flavor, ServerProcess};
use realm::RealmOptions;
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The name of these rows on the command line.
pub(super) const NAME: &str = "weights";

/// Interleaved rounds of each pair, and how long each counts.
const ROUNDS: u32 = 7;
const LENGTH: Duration = Duration::from_millis(500);

/// Bytes of each principal's file.
const FILE_SIZE: u64 = 16 << 20;

/// How far a share may be from that by weight, as a part of it.
const FLOOR: Floor = Floor::AtMost(0.2);

/// The weight of principals and exports for which the configuration has no other one.
pub(super) const FIRST_WEIGHT: u32 = 100;

/// The principal of each pair that has the weight of a principal without a rule.
const FIRST: (&str, u32) = ("alice", FIRST_WEIGHT);
/// The other principals of the pairs, with their weights.
const OTHERS: [(&str, u32); 3] = [("bob", 100), ("carol", 300), ("dave", 1000)];

/// The instructions of the server, by its environment. With those of the clients, these would be
/// the limit of encrypted streams: all of them share a core.
const INSTRUCTIONS: (&str, &str) = ("ORTHRUS_CPU", "aesni");

/// The load of both principals of a pair. Weights divide the server's time only while both have
/// requests there, so it must cost the server more than the clients.
struct PairLoad {
    name: &'static str,
    flavor: Flavor,
    load: Load,
    /// Clients of each principal: requests of some wait at the server while others handle replies.
    clients: u32,
}

const LOADS: [PairLoad; 2] = [
    PairLoad {
        name: "krb5, 4 KiB reads by 4 clients, 64 in flight for each",
        flavor: Flavor::Krb5,
        load: load::random(Read, 64),
        clients: 4,
    },
    PairLoad {
        name: "krb5p, stream, 16 times 1 MiB in flight",
        flavor: Flavor::Krb5p,
        load: load::sequential(Read, 16, 1 << 20),
        clients: 1,
    },
];

/// A server with weights, and the principals' ways to it.
struct WeightBed {
    server: ServerProcess,
    site: KerberosSite,
    cores: Cores,
    _folders: [tempfile::TempDir; 2],
}

impl WeightBed {
    fn start() -> anyhow::Result<Self> {
        let cores = Cores::choose()?;
        let users = OTHERS.iter().map(|(user, _)| (*user).to_owned()).collect();
        let site = KerberosSite::start(&RealmOptions { users, ..RealmOptions::default() })?;
        OTHERS.iter().try_for_each(|(user, _)| site.login(user))?;
        let work = private::temporary("orthrus-xtask-")?;
        let folder = private::temporary_in("orthrus-weights-", "/dev/shm".as_ref())?;
        let export = folder.path().join("data");
        make_export(&export)?;
        let config = work.path().join("orthrus.toml");
        std::fs::write(&config, configuration(&site, &export, work.path()))?;
        let arguments: [OsString; 2] = ["--config".into(), config.into()];
        let mut environment = site.environment();
        environment.push((INSTRUCTIONS.0, INSTRUCTIONS.1.into()));
        let start = || ServerProcess::start(&program()?, arguments.to_vec(), &environment);
        let server = cores.on_server(start)?;
        Ok(Self { server, site, cores, _folders: [work, folder] })
    }

    /// Returns a principal's way to the server.
    fn target(&self, user: &str) -> BenchTarget {
        let target = self.site.target("orthrus", self.server.pid(), self.server.address(), "/data");
        match user == FIRST.0 {
            true => target,
            false => BenchTarget { credential: self.site.credential_of(user), ..target },
        }
    }
}

/// Returns the configuration: the first weight is the one of all principals without a rule.
fn configuration(site: &KerberosSite, export: &Path, work: &Path) -> String {
    let realm = site.realm().name();
    let rule = |(user, weight): &(&str, u32)| {
        format!("\n[[limits.rule]]\nprincipals = [\"{user}@{realm}\"]\nweight = {weight}\n")
    };
    format!(
        "listen = \"127.0.0.1:0\"\nshards = 1\nkeytab = {:?}\nstate_dir = {:?}\n\n\
         [limits.principal]\nweight = {}\n{}\n\
         [[export]]\npath = {export:?}\nsquash = \"none\"\n",
        site.realm().server_keytab(),
        work.join("state"),
        FIRST.1,
        OTHERS.iter().map(rule).collect::<String>(),
    )
}

/// Measures the rows, if they are asked for.
pub(super) fn run(
    selection: &FairnessSelection<'_>,
    output: &mut BenchOutput,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    if !selection.wants(NAME) {
        return Ok(());
    }
    let bed = WeightBed::start()?;
    println!();
    output.note(&format!("two principals with the same load: {}; one shard", bed.cores.describe()));
    output.note(&format!("{}={} for the server, which must be the limit", INSTRUCTIONS.0, INSTRUCTIONS.1));
    output.note(&format!(
        "median [interval] of {ROUNDS} rounds, each {:.1} s of each pair; a share is that of the sum of both rates",
        LENGTH.as_secs_f64()
    ));
    for PairLoad { name, flavor, load, clients } in LOADS {
        let load = load::laid_out(load, ClientLayout { clients, ..ClientLayout::ONE });
        if !stopped(stop) {
            measure(output, &bed, name, &(flavor, load), stop)?;
        }
    }
    Ok(())
}

fn measure(
    output: &mut BenchOutput,
    bed: &WeightBed,
    name: &str,
    load: &(Flavor, Load),
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let (mut first_target, mut targets) = (bed.target(FIRST.0), OTHERS.map(|(user, _)| bed.target(user)));
    let prepare = |target, user| LoadedSessions::prepare(target, user, load.clone(), FILE_SIZE, stop);
    let mut first = prepare(&mut first_target, FIRST.0)?;
    let others = targets.iter_mut().zip(OTHERS).map(|(target, (user, _))| prepare(target, user));
    let mut others = others.collect::<anyhow::Result<Vec<_>>>()?;
    let mut rounds = OTHERS.map(|_| Vec::new());
    for round in 0..ROUNDS {
        for (other, samples) in others.iter_mut().zip(&mut rounds) {
            samples.extend(together(&mut first, other, round, LENGTH)?);
        }
        if stopped(stop) {
            return Ok(());
        }
    }
    println!("\n{name}");
    let load = WeightedLoad { name, load: &load.1 };
    for (other, samples) in OTHERS.iter().zip(&rounds) {
        report(output, &load, [FIRST, *other], samples);
    }
    others.into_iter().chain([first]).try_for_each(LoadedSessions::finish)
}

/// Runs both loads at the same time.
pub(super) fn together(
    first: &mut LoadedSessions<'_>,
    other: &mut LoadedSessions<'_>,
    round: u32,
    length: Duration,
) -> anyhow::Result<Option<[Sample; 2]>> {
    std::thread::scope(|scope| {
        let other = scope.spawn(|| other.repeat(round, length));
        let one = first.repeat(round, length)?;
        let other = other.join().map_err(|_| anyhow::anyhow!("a client panicked"))??;
        Ok(one.zip(other).map(<[Sample; 2]>::from))
    })
}

/// The load of both parties of each pair.
pub(super) struct WeightedLoad<'a> {
    /// Its name in the file of figures.
    pub(super) name: &'a str,
    pub(super) load: &'a Load,
}

/// Reports a pair of principals or exports with their weights. The first one is the lighter one. It
/// has the smaller share, which an error changes most.
pub(super) fn report(
    output: &mut BenchOutput,
    WeightedLoad { name, load }: &WeightedLoad<'_>,
    pair: [(&str, u32); 2],
    samples: &[[Sample; 2]],
) {
    let unit = load::unit(load);
    let [first, other] = pair.map(|(_, weight)| weight);
    let title = format!("weights {first} and {other}");
    for (place, (user, weight)) in pair.into_iter().enumerate() {
        let by_weight = f64::from(weight) / f64::from(first + other);
        let rate = |pair: &[Sample; 2]| pair.get(place).map(|sample| sample.rate(unit));
        let share =
            |pair: &[Sample; 2]| Some(rate(pair)? / pair.iter().map(|one| one.rate(unit)).sum::<f64>());
        let shares: Vec<f64> = samples.iter().filter_map(share).collect();
        let figure = |what: &str, unit: &'static str, values: Vec<f64>| {
            BenchFigure::of(what, format!("{name}, {title}, {what} of {user}"), unit, values)
        };
        let off = shares.iter().map(|share| (share / by_weight - 1.0).abs()).collect();
        let line = [
            figure("rate", load::rate_unit(unit), samples.iter().filter_map(rate).collect()).brief(),
            figure("share", "", shares),
            BenchFigure::once(
                "by weight",
                format!("{name}, {title}, share of {user} by weight"),
                "",
                by_weight,
            ),
            figure("off by", "of it", off).floor((place == 0).then_some(FLOOR)),
        ];
        output.line(&format!("{title}: {user}"), line);
    }
    let busy = samples.iter().filter_map(|[sample, _]| Some(sample.busy(sample.server_cpu_seconds?)));
    let row = format!("{name}, {title}, server busy");
    output.line("", [BenchFigure::of("server busy", row, "of a core", busy).brief()]);
}
