//! One Kerberos context over several connections, in order and reordered: the server answers late
//! calls as well, and nothing is repeated.
//!
//! `orthrus bench nconnect` compares flavors at each number of connections. This benchmark compares
//! numbers of connections within each flavor, in turns, because the floor is the ratio of eight
//! connections to one. Sessions, intervals and the rest are the same.

use super::load::TransferKind::Read;
use super::load::{self, FILE_SIZE, rate_unit};
use super::output::{BenchFigure, BenchOutput, Floor};
use super::test_bed::TestBed;
use bench::measuring::{Case, CaseRecord, ClientLayout, Settings};
use bench::native::{BenchTarget, Counters, NativeDriver, ServerSet};
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

/// Requests in flight in all.
const DEPTH: u32 = 64;

const UNIT: Unit = Unit::OperationsPerSecond;

/// Measures each flavor over each number of connections.
pub(crate) fn run(output: &mut BenchOutput, stop: &AtomicBool) -> anyhow::Result<()> {
    let test_bed = TestBed::start_with(None, true)?;
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
    let settings = Settings::new(ROUNDS, SECONDS, FILE_SIZE, variants);
    let mut site = OnBed { target: test_bed.target("/data"), test_bed: &test_bed };
    let driver = NativeDriver::new(&mut site, "bench-nconnect", stop).counting();
    let blocks = FLAVORS.map(|flavor| ways().into_iter().map(|way| case(flavor, way)).collect());
    load::measure(blocks.into(), driver, settings, stop, |cases| report(output, cases))
}

/// So many connections, in order or not. On one there is nothing to reorder.
fn ways() -> Vec<(u32, Option<u32>)> {
    let both =
        CONNECTIONS.into_iter().flat_map(|connections| [(connections, None), (connections, Some(LAG_MAX))]);
    both.filter(|(connections, lag)| *connections > 1 || lag.is_none()).collect()
}

fn case(flavor: Flavor, (connections, lag_max): (u32, Option<u32>)) -> Case {
    let layout = ClientLayout { connections, lag_max, ..ClientLayout::ONE };
    let load = load::laid_out(load::random(Read, DEPTH), layout);
    load::case(flavor.name(), &variant(connections, lag_max), flavor, load)
}

fn variant(connections: u32, lag_max: Option<u32>) -> String {
    format!("{connections}{}", if lag_max.is_some() { ", reordered" } else { "" })
}

/// The server of the bed.
struct OnBed<'a> {
    test_bed: &'a TestBed,
    target: BenchTarget,
}

impl ServerSet for OnBed<'_> {
    fn target(&mut self, _server_cpu: Option<&str>) -> anyhow::Result<&BenchTarget> {
        Ok(&self.target)
    }

    fn counters(&mut self, _server_cpu: Option<&str>) -> anyhow::Result<Option<Counters>> {
        self.test_bed.counters().map(Some)
    }
}

fn report(output: &mut BenchOutput, cases: &[CaseRecord]) {
    println!("\n{}", cases.first().map_or("", |one| one.flavor()));
    for one in cases {
        let Some(figures) = &one.figures else { continue };
        let ClientLayout { connections, lag_max, .. } = *one.case.load.layout();
        let order = if lag_max.is_some() { ", reordered" } else { "" };
        let name = format!("nconnect {connections} {}{order}", one.flavor());
        let floor = (connections == 8 && lag_max.is_none()).then_some(Floor::AtLeast(1.0));
        let ratio = figures.against.as_ref().map(|against| against.ratio);
        let server = format!("{name}, server cpu");
        output.line(
            &name,
            [
                BenchFigure::new("", &name, rate_unit(UNIT), Some(figures.rate)).brief(),
                BenchFigure::new("server", server, cpu_unit(UNIT), figures.server_cpu).brief(),
                BenchFigure::new("of 1", format!("{name} against 1"), "ratio", ratio).floor(floor),
            ],
        );
        losses(output, &name, one);
        lags(output, &name, one);
    }
}

/// Returns the growth of a counter over all samples: losses during the warm-up count as well.
fn grown(one: &CaseRecord, name: &str) -> u64 {
    one.samples.iter().filter_map(|sample| sample.counters.get(name)).sum()
}

/// Reports events that must not happen.
fn losses(output: &mut BenchOutput, name: &str, one: &CaseRecord) {
    let counts = [
        ("window drops", grown(one, "window_drops")),
        ("reconnects", grown(one, "client_reconnects") + grown(one, "accepted")),
        ("retransmissions", grown(one, "client_calls_repeated")),
        ("replies nobody waited for", grown(one, "client_replies_dropped")),
    ];
    let figure = |(what, count): (&str, u64)| {
        BenchFigure::once(what, format!("{name}, {what}"), "times", count as f64).floor(Floor::AtMost(0.0))
    };
    output.line("  losses", counts.map(figure));
}

/// How far calls arrived behind later ones of the context, as the server counts it: the part of the
/// calls in each bucket, with the least lag of the bucket.
fn lags(output: &mut BenchOutput, name: &str, one: &CaseRecord) {
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    for (counter, count) in one.samples.iter().flat_map(|sample| &sample.counters) {
        if let Some(lag) = counter.strip_prefix("lag_").and_then(|lag| lag.parse().ok()) {
            *counts.entry(lag).or_default() += count;
        }
    }
    let all = counts.values().sum::<u64>() as f64;
    let figure = |(lag, count): (u32, u64)| {
        let row = format!("{name}, lag from {lag}");
        BenchFigure::once(format!("{lag}:"), row, "of the calls", count as f64 / all)
    };
    output.line("  behind by at least", counts.into_iter().map(figure));
}
