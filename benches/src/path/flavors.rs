//! The flavors beside `sys`.

use super::rows::{ExportStore, RowFigure, RowGroup};
use super::{Arguments, LENGTH};
use crate::load_target::{LoadTarget, rate_unit};
use crate::output::BenchOutput;
use crate::stopped;
use anyhow::Context;
use bench::measuring::{Interval, Sample, compare};
use bench::{Endpoint, ExportMount, Flavor, Unit};
use report::form::cpu_unit;

/// Measures groups with the files in `store`.
///
/// # Errors
/// When the server fails.
pub(super) fn measure(
    output: &mut BenchOutput,
    load_target: &LoadTarget<'_>,
    store: ExportStore,
    groups: &[&RowGroup],
    arguments: &Arguments,
) -> anyhow::Result<()> {
    if groups.is_empty() {
        return Ok(());
    }
    let mut mounts = Vec::new();
    for flavor in arguments.flavors() {
        let mount = load_target.mount(store.export(), flavor, load_target.options(flavor)?);
        let mount = mount.with_context(|| format!("{} with {}", store.export(), flavor.name()))?;
        mounts.push((flavor, mount));
    }
    for group in groups {
        let measured = all_rounds(load_target, &mut mounts, group, arguments.rounds)?;
        if stopped(load_target.stop) {
            return Ok(());
        }
        report(output, group, store, &measured);
    }
    mounts.iter_mut().try_for_each(|(_, mount)| mount.finish())
}

/// Measures one group: each round goes through all flavors.
fn all_rounds(
    load_target: &LoadTarget<'_>,
    mounts: &mut [(Flavor, ExportMount)],
    group: &RowGroup,
    rounds: u32,
) -> anyhow::Result<Vec<(Flavor, Vec<Sample>)>> {
    let mut measured: Vec<_> = mounts.iter().map(|(flavor, _)| (*flavor, Vec::new())).collect();
    for round in 0..rounds {
        for ((flavor, mount), (_, measured)) in mounts.iter_mut().zip(&mut measured) {
            let one = load_target.repeat(mount, group.load, round, LENGTH);
            measured.extend(one.with_context(|| format!("{} with {}", group.name, flavor.name()))?);
        }
    }
    Ok(measured)
}

fn report(
    output: &mut BenchOutput,
    group: &RowGroup,
    store: ExportStore,
    measured: &[(Flavor, Vec<Sample>)],
) {
    println!("\n{}{}", group.name, store.suffix());
    let Some((_, sys)) = measured.first() else { return };
    for (flavor, own) in measured {
        let flavor = *flavor;
        let row = |what: &str| format!("{} {}{}, {what}", group.name, flavor.name(), store.suffix());
        let mut line = format!("  {:6}", flavor.name());
        line += &raw(output, &row, group.load.unit(), own);
        if group.figure == RowFigure::Latency {
            line += &latency(output, &row, own);
        }
        if flavor != Flavor::Sys {
            line += &beside_sys(output, group, store, flavor, own, sys);
        }
        println!("{line}");
    }
}

/// Rate, processor time and utilisation of one flavor, as text and as rows.
pub(super) fn raw(
    output: &mut BenchOutput,
    row: &dyn Fn(&str) -> String,
    unit: Unit,
    own: &[Sample],
) -> String {
    let each = |value: &dyn Fn(&Sample) -> Option<f64>| Interval::of(own.iter().filter_map(value));
    let mut line = String::new();
    if let Some(rate) = each(&|one| Some(one.rate(unit))) {
        line += &format!("{:8.0} {:4}", rate.median, rate_unit(unit));
        output.interval(&row("rate"), rate_unit(unit), rate, None);
    }
    let server = |one: &Sample| one.server_cpu_seconds;
    let client = |one: &Sample| one.client_cpu_seconds;
    let mut busiest = ("neither", ALL_THE_TIME);
    for (name, seconds) in [("server", &server as &dyn Fn(&Sample) -> Option<f64>), ("client", &client)] {
        let cost = each(&|one| Some(one.per_work(unit, seconds(one)?)));
        let busy = each(&|one| Some(one.busy(seconds(one)?)));
        let (Some(cost), Some(busy)) = (cost, busy) else { continue };
        let percent = busy.median * 100.0;
        line += &format!("   {name} {:7.3} {:5} {percent:3.0} %", cost.median, cpu_unit(unit));
        output.interval(&row(&format!("{name} cpu")), cpu_unit(unit), cost, None);
        output.interval(&row(&format!("{name} busy")), "of a core", busy, None);
        if busy.median >= busiest.1 {
            busiest = (name, busy.median);
        }
    }
    line + &format!("   limit: {:7}", busiest.0)
}

/// A core that is busy for at least this fraction of the time, and more than the other core, limits
/// the rate.
const ALL_THE_TIME: f64 = 0.9;

fn latency(output: &mut BenchOutput, row: &dyn Fn(&str) -> String, own: &[Sample]) -> String {
    let Some(p50) = Interval::of(own.iter().filter_map(Sample::p50_us)) else { return String::new() };
    output.interval(&row("p50"), "µs", p50, None);
    format!("   p50 {:6.1} µs", p50.median)
}

/// The figure of the group, and beside a ratio of rates that of the server's processor time.
fn beside_sys(
    output: &mut BenchOutput,
    group: &RowGroup,
    store: ExportStore,
    flavor: Flavor,
    own: &[Sample],
    sys: &[Sample],
) -> String {
    let unit = group.load.unit();
    let cpu = compare(own, sys, |a, b| Some(a.server_cost(unit)? / b.server_cost(unit)?));
    let figure = match group.figure {
        RowFigure::Rate => compare(own, sys, |a, b| Some(a.rate(unit) / b.rate(unit))),
        RowFigure::ServerCpu => cpu,
        RowFigure::Latency => compare(own, sys, |a, b| Some(a.p50_us()? - b.p50_us()?)),
    };
    let Some(figure) = figure else { return String::new() };
    let floor = group.floor(flavor);
    let row = format!("{}{}", group.row(flavor), store.suffix());
    output.interval(&row, if group.figure == RowFigure::Latency { "µs" } else { "ratio" }, figure, floor);
    let mut line = match group.figure {
        RowFigure::Rate => format!("   {:5.3} of sys", figure.median),
        RowFigure::ServerCpu => format!("   {:5.3} x sys", figure.median),
        RowFigure::Latency => format!("   {:+5.1} µs", figure.median),
    };
    line += &format!(" [{:.3} to {:.3}]", figure.low, figure.high);
    if let Some(cpu) = cpu.filter(|_| group.figure != RowFigure::ServerCpu) {
        let row = format!("{} cpu/op {}/sys{}", group.name, flavor.name(), store.suffix());
        output.interval(&row, "ratio", cpu, None);
        line += &format!("   server cpu {:5.3} x", cpu.median);
    }
    line + &floor.map(|floor| format!("   {}", floor.verdict(figure.median))).unwrap_or_default()
}
