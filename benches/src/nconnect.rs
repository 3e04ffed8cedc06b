//! One Kerberos context over several connections, in order and reordered: the server answers late
//! calls as well, and nothing is repeated.
//!
//! `orthrus bench nconnect` compares flavors at each number of connections. This benchmark compares
//! numbers of connections within each flavor, in turns, because the floor is the ratio of eight
//! connections to one. Sessions, intervals and the rest are the same.

use super::load_target::rate_unit;
use super::output::{BenchOutput, Floor};
use super::test_bed::TestBed;
use super::{RunEnd, stopped};
use anyhow::bail;
use bench::measuring::{
    self, Axes, Case, CaseRecord, ClientLayout, Evaluation, Load, Record, RunWatch, Settings, Transfer,
};
use bench::native::{Counters, NativeDriver, ServerSet, Target};
use bench::{Flavor, Unit};
use report::form::cpu_unit;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

/// Connections of the session.
const CONNECTIONS: [u32; 5] = [1, 2, 4, 8, 16];

const FLAVORS: [Flavor; 3] = [Flavor::Krb5, Flavor::Krb5i, Flavor::Krb5p];

/// Calls that may overtake a connection that is held back. Half of the server's window, so that the
/// benchmark shows the server, not a client that asks for more than it was given.
const LAG_MAX: u32 = 4096;

/// Interleaved rounds, and how many seconds each way counts in one.
const ROUNDS: u32 = 5;
const SECONDS: f64 = 0.25;

/// Bytes of the file of each way.
const FILE_SIZE: u64 = 64 << 20;

/// Requests in flight in all.
const DEPTH: u32 = 64;

const UNIT: Unit = Unit::OperationsPerSecond;

/// Runs the benchmark.
///
/// # Errors
/// When realm or server do not work.
pub(crate) fn run(output: &mut BenchOutput, stop: &AtomicBool) -> anyhow::Result<RunEnd> {
    let test_bed = TestBed::start_logged()?;
    output.note(&format!(
        "{}; one shard, one context for all connections of a row",
        test_bed.cores().describe()
    ));
    output.note(&format!(
        "random reads of 4 KiB, {DEPTH} in flight in all; median [interval] of {ROUNDS} interleaved rounds of {SECONDS:.2} s"
    ));
    output.note(&format!(
        "reordered: the client holds connections back at random, up to half of them at once, each until up to {LAG_MAX} later calls went over others"
    ));
    let variants: Vec<String> =
        ways().into_iter().map(|(connections, lag)| variant(connections, lag)).collect();
    let settings = Settings {
        repetitions: ROUNDS,
        seconds: SECONDS,
        file_size: FILE_SIZE,
        baseline: variants.first().cloned().unwrap_or_default(),
        variants,
        options: BTreeMap::new(),
    };
    let mut record = Record::begin("nconnect", "One context over several connections", settings);
    let mut site = OnBed { target: test_bed.target(), test_bed: &test_bed };
    let mut driver = NativeDriver::new(&mut site, "bench-nconnect", stop).counting();
    let watch = RunWatch { stop, step: &mut |_| {}, save: &mut |_| Ok(()) };
    measuring::run(&mut ConnectionWays(FLAVORS.into_iter()), &mut driver, &mut record, watch)?;
    for flavor in FLAVORS {
        report(output, &record, flavor);
    }
    if stopped(stop) {
        return Ok(RunEnd::Interrupted);
    }
    let failures = record.skipped_sentences().into_iter().chain(record.stopped_by);
    match failures.reduce(|one, other| format!("{one} {other}")) {
        Some(failures) => bail!(failures),
        None => Ok(RunEnd::Complete),
    }
}

/// So many connections, in order or not. On one there is nothing to reorder.
fn ways() -> Vec<(u32, Option<u32>)> {
    let both =
        CONNECTIONS.into_iter().flat_map(|connections| [(connections, None), (connections, Some(LAG_MAX))]);
    both.filter(|(connections, lag)| *connections > 1 || lag.is_none()).collect()
}

fn variant(connections: u32, lag_max: Option<u32>) -> String {
    format!("{connections}{}", if lag_max.is_some() { ", reordered" } else { "" })
}

/// The connection counts of one flavor, then of the next.
struct ConnectionWays(std::array::IntoIter<Flavor, 3>);

impl Evaluation for ConnectionWays {
    fn next(&mut self, _record: &Record) -> Option<Vec<Case>> {
        let flavor = self.0.next()?;
        let case = |(connections, lag_max)| Case {
            group: flavor.name().to_owned(),
            variant: variant(connections, lag_max),
            unit: UNIT,
            axes: Axes::Flavor { flavor: flavor.name().to_owned() },
            load: Load::Transfer(Transfer {
                random: true,
                size: 4096,
                writes: 0,
                depth: DEPTH,
                rate: None,
                layout: ClientLayout { connections, lag_max, ..ClientLayout::default() },
            }),
        };
        Some(ways().into_iter().map(case).collect())
    }

    fn to_come(&self, _record: &Record) -> usize {
        self.0.len() * ways().len()
    }
}

/// The server of the bed.
struct OnBed<'a> {
    test_bed: &'a TestBed,
    target: Target,
}

impl ServerSet for OnBed<'_> {
    fn target(&mut self, _server_cpu: Option<&str>) -> anyhow::Result<&Target> {
        Ok(&self.target)
    }

    fn counters(&mut self, _server_cpu: Option<&str>) -> anyhow::Result<Option<Counters>> {
        self.test_bed.counters().map(Some)
    }
}

fn report(output: &mut BenchOutput, record: &Record, flavor: Flavor) {
    println!("\n{}", flavor.name());
    for one in record.cases.iter().filter(|one| one.case.group == flavor.name()) {
        let Some(figures) = &one.figures else { continue };
        let ClientLayout { connections, lag_max, .. } = *one.case.load.layout();
        let order = if lag_max.is_some() { ", reordered" } else { "" };
        let name = format!("nconnect {connections} {}{order}", flavor.name());
        output.interval(&name, rate_unit(UNIT), figures.rate, None);
        let mut line = format!("  {name:28} {:8.0} {}", figures.rate.median, rate_unit(UNIT));
        if let Some(cost) = figures.server_cpu {
            output.interval(&format!("{name}, server cpu"), cpu_unit(UNIT), cost, None);
            line += &format!("   server {:6.2} {}", cost.median, cpu_unit(UNIT));
        }
        if let Some(against) = &figures.against {
            let (ratio, floor) =
                (against.ratio, (connections == 8 && lag_max.is_none()).then_some(Floor::AtLeast(1.0)));
            output.interval(&format!("{name} against 1"), "ratio", ratio, floor);
            line += &format!("   {:5.3} of 1 [{:.3} to {:.3}]", ratio.median, ratio.low, ratio.high);
            line += &floor.map(|floor| format!(" {}", floor.verdict(ratio.median))).unwrap_or_default();
        }
        println!("{line}");
        println!("    {}", losses(output, &name, one));
        println!("    {}", lags(output, &name, one));
    }
}

/// Returns the growth of a counter over all samples: losses during the warm-up count as well.
fn grown(one: &CaseRecord, name: &str) -> u64 {
    one.samples.iter().filter_map(|sample| sample.counters.get(name)).sum()
}

/// Reports events that must not happen.
fn losses(output: &mut BenchOutput, name: &str, one: &CaseRecord) -> String {
    let counts = [
        ("window drops", grown(one, "window_drops")),
        ("reconnects", grown(one, "client_reconnects") + grown(one, "accepted")),
        ("retransmissions", grown(one, "client_calls_repeated")),
        ("replies nobody waited for", grown(one, "client_replies_dropped")),
    ];
    let all = counts.map(|(what, count)| {
        output.figure(&format!("{name}, {what}"), "times", count as f64, Some(Floor::AtMost(0.0)));
        format!("{count} {what}")
    });
    let verdict = if counts.iter().all(|(_, count)| *count == 0) { "met" } else { "NOT MET" };
    format!("{}   none at all: {verdict}", all.join(", "))
}

/// How far calls arrived behind later ones of the context, as the server counts it: the part of the
/// calls in each bucket, with the least lag of the bucket.
fn lags(output: &mut BenchOutput, name: &str, one: &CaseRecord) -> String {
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    for (counter, count) in one.samples.iter().flat_map(|sample| &sample.counters) {
        if let Some(lag) = counter.strip_prefix("lag_").and_then(|lag| lag.parse().ok()) {
            *counts.entry(lag).or_default() += count;
        }
    }
    let all = counts.values().sum::<u64>() as f64;
    let mut shown = Vec::new();
    for (lag, count) in counts {
        let part = count as f64 / all;
        output.figure(&format!("{name}, lag from {lag}"), "of the calls", part, None);
        shown.push(format!("{lag}: {:.2} %", part * 100.0));
    }
    format!("behind by at least … {}", shown.join("  "))
}
