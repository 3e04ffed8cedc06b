//! A client beside a flood by another principal or from another address.

use super::FairnessSelection;
use super::floods::{FloodKind, RunningFlood, floods};
use crate::busy::{FLOOR, ahead, beside};
use crate::contexts::tokens;
use crate::load::TransferKind::Read;
use crate::load::{self, FILE_SIZE, LoadedSessions, METADATA};
use crate::output::{BenchFigure, BenchOutput, Floor};
use crate::stopped;
use crate::test_bed::TestBed;
use bench::Flavor;
use bench::measuring::{Load, Sample};
use bench::native::BenchTarget;
use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How long each half of a round counts.
const LENGTH: Duration = Duration::from_millis(600);

/// How long the flood runs before the other client is looked at.
const LEAD_IN: Duration = Duration::from_millis(200);

/// The part of its throughput that a flood leaves to another client.
const RATE_FLOOR: Floor = Floor::AtLeast(0.5);

/// The user that floods, and the address that floods with `sys` come from.
const USER: &str = "bob";
const SOURCE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 2));

/// The load of a client beside a flood.
pub(super) struct FloodVictim {
    /// Its name on the command line.
    pub(super) name: &'static str,
    about: &'static str,
    load: Load,
}

/// All victims, in the order of the table.
pub(super) fn victims() -> impl Iterator<Item = FloodVictim> {
    let victim = |name, about, load| FloodVictim { name, about, load };
    [
        victim("reads", "cached reads of 4 KiB, one at a time", load::random(Read, 1)),
        victim("deep-reads", "cached reads of 4 KiB, 16 in flight", load::random(Read, 16)),
        victim("stream", "sequential reads, 4 times 1 MiB in flight", load::sequential(Read, 4, 1 << 20)),
        victim("metadata", "the metadata mix, one operation at a time", METADATA),
    ]
    .into_iter()
}

/// A server, the other client's way to it and the flood's.
struct FloodBed {
    test_bed: TestBed,
    /// The server that is flooded instead.
    apart: Option<TestBed>,
    shards: u32,
    /// Valid tokens of the flooding user.
    tokens: Vec<Vec<u8>>,
}

impl FloodBed {
    fn start(shards: u32, is_apart: bool) -> anyhow::Result<Self> {
        let test_bed = TestBed::start_with_shards(shards)?;
        let apart = is_apart.then(|| test_bed.start_another(shards)).transpose()?;
        test_bed.site().login(USER)?;
        let tokens = tokens(&test_bed.site().credential_of(USER))?;
        Ok(Self { test_bed, apart, shards, tokens })
    }

    /// The flood's way to the server: as another user, and from another address.
    fn flood_target(&self) -> BenchTarget {
        let flooded = self.apart.as_ref().unwrap_or(&self.test_bed);
        let credential = flooded.site().credential_of(USER);
        BenchTarget { credential, source: Some(SOURCE), ..flooded.target("/data") }
    }
}

/// Measures the rows that are asked for.
pub(super) fn run(
    selection: &FairnessSelection<'_>,
    output: &mut BenchOutput,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let floods: Vec<FloodKind> = floods().into_iter().filter(|flood| selection.wants(flood.name)).collect();
    for shards in selection.0.shards.iter().filter(|_| !floods.is_empty()) {
        let bed = FloodBed::start(*shards, selection.0.apart)?;
        introduce(output, &bed, &floods, selection);
        for flood in &floods {
            for victim in victims().filter(|victim| selection.wants_victim(victim.name)) {
                for flavor in selection.flavors() {
                    if !stopped(stop) {
                        measure(output, &bed, flood, (&victim, flavor), selection.0.rounds, stop)?;
                    }
                }
            }
        }
    }
    Ok(())
}

fn introduce(
    output: &mut BenchOutput,
    bed: &FloodBed,
    floods: &[FloodKind],
    selection: &FairnessSelection<'_>,
) {
    println!();
    let cores = match bed.shards {
        1 => format!("one shard, {}", bed.test_bed.cores().describe()),
        shards => format!("{shards} shards on all cores, the other client's thread has the policy SCHED_RR"),
    };
    output
        .note(&format!("floods by {USER} or from {SOURCE}, the other client is alice or 127.0.0.1: {cores}"));
    if bed.apart.is_some() {
        output.note("the floods go to another server on the same cores");
    }
    floods.iter().for_each(|flood| output.note(&format!("flood {}: {}", flood.name, flood.about)));
    let victims = victims().filter(|victim| selection.wants_victim(victim.name));
    victims.for_each(|victim| output.note(&format!("other client, {}: {}", victim.name, victim.about)));
    output.note(&format!(
        "median [interval] of {} rounds, each {:.1} s without and {:.1} s with the flood; ratios are those of one round",
        selection.0.rounds,
        LENGTH.as_secs_f64(),
        LENGTH.as_secs_f64(),
    ));
}

fn measure(
    output: &mut BenchOutput,
    bed: &FloodBed,
    flood: &FloodKind,
    (victim, flavor): (&FloodVictim, Flavor),
    rounds: u32,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let (mut measured, mut amounts) = (Vec::new(), Vec::new());
    let (mut target, mut flood_target) = (bed.test_bed.target("/data"), bed.flood_target());
    let load = (flavor, victim.load.clone());
    let mut other = LoadedSessions::prepare(&mut target, "other", load, FILE_SIZE, stop)?;
    for round in 0..rounds {
        let measure = |other: &mut LoadedSessions<'_>| match bed.shards {
            1 => other.repeat(round, LENGTH),
            _ => ahead(|| other.repeat(round, LENGTH)),
        };
        let alone = measure(&mut other)?;
        // Connected anew, so that nothing of it is there without it.
        let mut running = RunningFlood::prepare(flood, &mut flood_target, &bed.tokens, stop)?;
        let (mut amount, mut seconds) = (0.0, 0.0);
        let work = running.work(|more, took| {
            amount += more;
            seconds += took;
        });
        let second = beside(vec![work], LEAD_IN, || measure(&mut other))?;
        running.finish()?;
        if stopped(stop) {
            return Ok(());
        }
        amounts.push(amount / seconds);
        measured.extend(alone.zip(second));
    }
    report(output, bed, flood, (victim, flavor), &measured, amounts);
    other.finish()
}

fn report(
    output: &mut BenchOutput,
    bed: &FloodBed,
    flood: &FloodKind,
    (victim, flavor): (&FloodVictim, Flavor),
    measured: &[(Sample, Sample)],
    amounts: Vec<f64>,
) {
    let unit = load::unit(&victim.load);
    let title = format!("{} {} beside {}", flavor.name(), victim.name, flood.name);
    let row = |what: &str| format!("{title}, {} shards, {what}", bed.shards);
    let ratio = |value: &dyn Fn(&Sample) -> Option<f64>| {
        measured.iter().filter_map(|(alone, second)| Some(value(second)? / value(alone)?)).collect::<Vec<_>>()
    };
    let rate = BenchFigure::of("rate", row("rate beside/alone"), "", ratio(&|one| Some(one.rate(unit))));
    let p99 = BenchFigure::of("p99", row("p99 beside/alone"), "", ratio(&|one| one.p99_us()));
    output.line(&title, [rate.floor(RATE_FLOOR), p99.floor(FLOOR)]);
    let half = |second: bool| measured.iter().map(move |(one, two)| if second { two } else { one });
    let figure = |what: &str, unit: &'static str, values: Vec<f64>| {
        BenchFigure::of(what, row(what), unit, values).brief()
    };
    let busy = |one: &Sample| Some(one.busy(one.server_cpu_seconds?));
    output.line(
        "",
        [
            figure("alone", load::rate_unit(unit), half(false).map(|one| one.rate(unit)).collect()),
            figure("p99", "µs", half(false).filter_map(Sample::p99_us).collect()),
            figure("beside", load::rate_unit(unit), half(true).map(|one| one.rate(unit)).collect()),
            figure("p99 beside", "µs", half(true).filter_map(Sample::p99_us).collect()),
            figure("flood", "1/s", amounts),
            figure("server busy", "of a core", half(true).filter_map(busy).collect()),
        ],
    );
}
