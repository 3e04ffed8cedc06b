//! One and two gateways over CephFS of a one-node cluster: the processor time of an operation and
//! of a gigabyte with each flavor.

use super::ceph::{PATH, SIZE, start_cluster, start_gateway};
use super::cores::Cores;
use super::kerberos_site::KerberosSite;
use super::load::TransferKind::{Read, Write};
use super::load::{self, FILE_SIZE, LoadedSessions};
use super::output::{BenchFigure, BenchOutput};
use super::stopped;
use anyhow::anyhow;
use bench::measuring::{ClientLayout, Load, Sample};
use bench::native::BenchTarget;
use bench::{Flavor, ServerProcess};
use realm::RealmOptions;
use report::form::cpu_unit;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The rounds of `bench cluster`.
#[derive(clap::Args)]
pub(crate) struct GatewayArguments {
    /// Interleaved rounds of each row.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    #[command(flatten)]
    pub output: super::Arguments,
}

/// How long each counts.
const LENGTH: Duration = Duration::from_millis(500);
/// Requests in flight of random rows, and of sequential ones, at each gateway.
const DEPTHS: [u32; 2] = [64, 8];
/// The rows in their order. Files fit the caches of the library.
const LOADS: [(Load, &str); 5] = [
    (load::random(Read, DEPTHS[0]), "random read 4 KiB"),
    (load::random(Write, DEPTHS[0]), "random write 4 KiB"),
    (load::METADATA, "metadata mix"),
    (load::sequential(Read, DEPTHS[1], 1 << 20), "sequential read 1 MiB"),
    (load::sequential(Write, DEPTHS[1], 1 << 20), "sequential write 1 MiB"),
];

/// Runs the benchmark.
///
/// # Errors
/// When cluster, realm or servers do not work, or a load fails.
pub(crate) fn run(
    arguments: &GatewayArguments,
    output: &mut BenchOutput,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let cores = Cores::choose()?;
    let site = KerberosSite::start(&RealmOptions::default())?;
    let work = private::temporary("orthrus-xtask-")?;
    let cluster = start_cluster(stop)?;
    cluster.make_directory(PATH.trim_start_matches('/'), SIZE)?;
    let program = super::kerberos_site::program()?;
    let mut servers = Vec::new();
    for name in ["one", "two"] {
        servers.push(start_gateway(&site, cores, &program, (work.path(), name), &cluster)?);
    }
    output.note(&format!(
        "{}; both gateways share the server's core, and the cluster (monitor, OSD in memory, metadata \
         server) has the client's: processor times tell of gateways, rates do not",
        cores.describe()
    ));
    output.note(&format!(
        "in flight at each gateway: {} random requests, {} sequential ones, 1 of metadata; processor time of \
         all gateways: median of {} interleaved rounds of {:.1} s",
        DEPTHS[0],
        DEPTHS[1],
        arguments.rounds,
        LENGTH.as_secs_f64()
    ));
    println!();
    for flavor in Flavor::ALL {
        for (load, title) in LOADS {
            let mut targets = targets(&site, &servers);
            let row = GatewayRow { flavor, load, name: format!("{} {title}", flavor.name()) };
            row.measure(&mut targets, arguments.rounds, output, stop)?;
            if stopped(stop) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The servers for the bench: the first one alone, then both.
fn targets(site: &KerberosSite, servers: &[ServerProcess]) -> Vec<BenchTarget> {
    let target = |server: &ServerProcess| site.target("gateway", server.pid(), server.address(), "/data");
    servers.iter().take(1).chain(servers).map(target).collect()
}

/// A load on one gateway and on two.
struct GatewayRow {
    flavor: Flavor,
    load: Load,
    name: String,
}

impl GatewayRow {
    fn measure(
        &self,
        targets: &mut [BenchTarget],
        rounds: u32,
        output: &mut BenchOutput,
        stop: &AtomicBool,
    ) -> anyhow::Result<()> {
        let layout = ClientLayout { slots: Some(DEPTHS[0]), ..ClientLayout::ONE };
        let load = load::laid_out(self.load.clone(), layout);
        let mut sessions = Vec::new();
        for target in targets {
            let load = (self.flavor, load.clone());
            sessions.push(LoadedSessions::prepare(target, "gateways", load, FILE_SIZE, stop)?);
        }
        let (alone, both) = sessions.split_at_mut(1);
        let mut measured = [Vec::new(), Vec::new()];
        for round in 0..rounds {
            for (sessions, measured) in [&mut *alone, &mut *both].into_iter().zip(&mut measured) {
                measured.extend(together(sessions, round)?);
            }
        }
        sessions.into_iter().try_for_each(LoadedSessions::finish)?;
        self.report(output, &measured);
        Ok(())
    }

    fn report(&self, output: &mut BenchOutput, measured: &[Vec<GatewayRound>; 2]) {
        let unit = load::unit(&self.load);
        let mut figures = Vec::new();
        for (gateways, rounds) in ["one gateway", "two gateways"].iter().zip(measured) {
            let name = format!("{}, {gateways}", self.name);
            let cost = rounds.iter().filter_map(|round| round.cost(unit));
            figures.push(BenchFigure::of(*gateways, &name, cpu_unit(unit), cost));
            let rate = rounds.iter().map(|round| round.rate(unit));
            let rate_name = format!("{name}, rate");
            figures.push(BenchFigure::of("", rate_name, load::rate_unit(unit), rate).brief());
        }
        output.line(&format!("{:30}", self.name), figures);
    }
}

/// The samples of all gateways in one round.
struct GatewayRound(Vec<Sample>);

impl GatewayRound {
    /// Returns the processor time of all gateways for an operation or a gigabyte of all.
    fn cost(&self, unit: bench::Unit) -> Option<f64> {
        let mut sum = self.0.first()?.clone();
        for other in &self.0[1..] {
            sum.operations += other.operations;
            sum.bytes += other.bytes;
            sum.server_cpu_seconds = Some(sum.server_cpu_seconds? + other.server_cpu_seconds?);
        }
        sum.server_cost(unit)
    }

    fn rate(&self, unit: bench::Unit) -> f64 {
        self.0.iter().map(|sample| sample.rate(unit)).sum()
    }
}

/// Runs one repetition at each gateway at the same time; `None` when a signal has come.
fn together(sessions: &mut [LoadedSessions<'_>], round: u32) -> anyhow::Result<Option<GatewayRound>> {
    let ended: Vec<anyhow::Result<Option<Sample>>> = std::thread::scope(|scope| {
        let spawn = |one| scope.spawn(move || LoadedSessions::repeat(one, round, LENGTH));
        let threads: Vec<_> = sessions.iter_mut().map(spawn).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| thread.join();
        threads.into_iter().map(|one| join(one).unwrap_or_else(|_| Err(anyhow!("a load panicked")))).collect()
    });
    let samples = ended.into_iter().collect::<anyhow::Result<Option<Vec<_>>>>()?;
    Ok(samples.map(GatewayRound))
}
