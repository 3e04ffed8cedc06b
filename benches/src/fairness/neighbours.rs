//! One client beside another of the same principal or address: the latency of metadata operations
//! beside a stream, and of cached reads beside a metadata storm.

use super::FairnessSelection;
use crate::busy::{BusyWork, FLOOR, beside, report};
use crate::load::TransferKind::Read;
use crate::load::{self, FILE_SIZE, LoadedSessions, METADATA};
use crate::output::{BenchFigure, BenchOutput, Floor};
use crate::stopped;
use crate::test_bed::TestBed;
use bench::Flavor;
use bench::measuring::{ClientLayout, Load};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Interleaved rounds, and how long each half of one counts.
const ROUNDS: u32 = 7;
const LENGTH: Duration = Duration::from_millis(1000);

/// How long the busy client runs before the other client is looked at.
const LEAD_IN: Duration = Duration::from_millis(200);

/// How long the busy client goes on at once.
const SLICE: Duration = Duration::from_millis(100);

/// A busy client, and another one with a flavor of each row.
struct NeighbourLoads {
    /// The name of the busy client's work.
    name: &'static str,
    busy: (Flavor, Load),
    /// The unit of its rate, and the amount of it that a sample has.
    unit: &'static str,
    other: Load,
    /// The bound on the other client's p99 latency, in times that alone.
    floor: Floor,
}

const NEIGHBOURS: [NeighbourLoads; 2] = [
    // 1 MiB reads, as deep as the sequential rows of the other benchmarks.
    NeighbourLoads {
        name: "stream",
        busy: (Flavor::Krb5p, load::sequential(Read, 16, 1 << 20)),
        unit: "MB/s",
        other: METADATA,
        floor: FLOOR,
    },
    NeighbourLoads {
        name: "storm",
        busy: (Flavor::Sys, Load::Metadata { layout: STORM }),
        unit: "1/s",
        other: load::random(Read, 1),
        floor: Floor::AtMost(1.5),
    },
];

/// Clients that each have one metadata operation in flight.
const STORM: ClientLayout = ClientLayout { clients: 16, ..ClientLayout::ONE };

/// The names of the rows.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    NEIGHBOURS.into_iter().map(|neighbours| neighbours.name)
}

/// Measures the rows that are asked for, with one shard.
pub(super) fn run(
    selection: &FairnessSelection<'_>,
    output: &mut BenchOutput,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    if !NEIGHBOURS.iter().any(|neighbours| selection.wants(neighbours.name)) {
        return Ok(());
    }
    let test_bed = TestBed::start()?;
    println!();
    output.note(&format!("one principal or address: {}; one shard", test_bed.cores().describe()));
    output.note("stream: krb5p, reads of 1 MiB, 16 in flight; the other client: the metadata mix, one operation at a time");
    output.note(
        "storm: sys, the metadata mix of 16 clients; the other client: cached reads of 4 KiB, one at a time",
    );
    let seconds = LENGTH.as_secs_f64();
    output.note(&format!(
        "median [interval] of {ROUNDS} rounds, each {seconds:.0} s without and {seconds:.0} s with the busy client"
    ));
    for neighbours in NEIGHBOURS.iter().filter(|neighbours| selection.wants(neighbours.name)) {
        for flavor in selection.flavors() {
            if !stopped(stop) {
                measure(output, &test_bed, neighbours, flavor, stop)?;
            }
        }
    }
    Ok(())
}

fn measure(
    output: &mut BenchOutput,
    test_bed: &TestBed,
    neighbours: &NeighbourLoads,
    flavor: Flavor,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let NeighbourLoads { name, busy, unit, other, floor } = neighbours;
    let (mut rounds, mut rates) = (Vec::new(), Vec::new());
    let mut servers = [test_bed.target("/data"), test_bed.target("/data")];
    let [first, second] = &mut servers;
    let mut busy = LoadedSessions::prepare(first, name, busy.clone(), FILE_SIZE, stop)?;
    let mut other = LoadedSessions::prepare(second, "other", (flavor, other.clone()), FILE_SIZE, stop)?;
    for round in 0..ROUNDS {
        let mut measure = || other.repeat(round, LENGTH);
        let alone = measure()?;
        let (mut amount, mut seconds) = (0.0, 0.0);
        let working: BusyWork<'_> = Box::new(|| {
            let one = busy.plain(SLICE)?.unwrap_or_default();
            amount += if *unit == "MB/s" { one.bytes as f64 / 1e6 } else { one.operations as f64 };
            seconds += one.seconds;
            Ok(())
        });
        let second = beside(vec![working], LEAD_IN, measure)?;
        if stopped(stop) {
            return Ok(());
        }
        rates.push(amount / seconds);
        rounds.extend(alone.zip(second));
    }
    let title = format!("fairness {} beside the {name}", flavor.name());
    report(output, &title, ["alone", "beside it"], ("beside/alone", *floor), &rounds);
    let rate = BenchFigure::of("", format!("{title}, its rate"), unit, rates);
    output.line(name, [rate.brief()]);
    other.finish()?;
    busy.finish()
}
