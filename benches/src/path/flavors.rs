//! The flavors beside `sys`.

use super::rows::{ExportStore, RowFigure, RowGroup};
use super::{Arguments, LENGTH};
use crate::load_target::{LoadTarget, rate_unit};
use crate::output::{BenchFigure, BenchOutput};
use crate::stopped;
use anyhow::Context;
use bench::measuring::{Sample, compare};
use bench::{Endpoint, ExportMount, Flavor, Unit};
use report::form::cpu_unit;

/// Measures groups with the files in `store`.
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
        let mount = load_target.mount(store.export(), flavor);
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
        let row = |what: &str| format!("{} {}{}, {what}", group.name, flavor.name(), store.suffix());
        let mut figures = raw(&row, group.load.unit(), own);
        if group.figure == RowFigure::Latency {
            figures.push(
                BenchFigure::of("p50", row("p50"), "µs", own.iter().filter_map(Sample::p50_us)).brief(),
            );
        }
        if *flavor != Flavor::Sys {
            figures.extend(beside_sys(group, store, *flavor, own, sys));
        }
        output.line(flavor.name(), figures);
    }
}

/// Rate, processor time and utilisation of one flavor. A core that is busy all the time limits the
/// rate.
pub(super) fn raw(row: &dyn Fn(&str) -> String, unit: Unit, own: &[Sample]) -> Vec<BenchFigure> {
    let each = |label: &str, what: &str, unit, value: &dyn Fn(&Sample) -> Option<f64>| {
        BenchFigure::of(label, row(what), unit, own.iter().filter_map(value)).brief()
    };
    let mut figures = vec![each("", "rate", rate_unit(unit), &|one| Some(one.rate(unit)))];
    let server = |one: &Sample| one.server_cpu_seconds;
    let client = |one: &Sample| one.client_cpu_seconds;
    for (name, seconds) in [("server", &server as &dyn Fn(&Sample) -> Option<f64>), ("client", &client)] {
        let cost = |one: &Sample| Some(one.per_work(unit, seconds(one)?));
        figures.push(each(name, &format!("{name} cpu"), cpu_unit(unit), &cost));
        let busy = |one: &Sample| Some(one.busy(seconds(one)?));
        figures.push(each("busy", &format!("{name} busy"), "of a core", &busy));
    }
    figures
}

/// The figure of the group, and beside a ratio of rates that of the server's processor time.
fn beside_sys(
    group: &RowGroup,
    store: ExportStore,
    flavor: Flavor,
    own: &[Sample],
    sys: &[Sample],
) -> Vec<BenchFigure> {
    let unit = group.load.unit();
    let cpu = compare(own, sys, |a, b| Some(a.server_cost(unit)? / b.server_cost(unit)?));
    let (label, ratio, found) = match group.figure {
        RowFigure::Rate => ("of sys", "ratio", compare(own, sys, |a, b| Some(a.rate(unit) / b.rate(unit)))),
        RowFigure::ServerCpu => ("x sys", "ratio", cpu),
        RowFigure::Latency => ("added", "µs", compare(own, sys, |a, b| Some(a.p50_us()? - b.p50_us()?))),
    };
    let row = format!("{}{}", group.row(flavor), store.suffix());
    let mut figures = vec![BenchFigure::new(label, row, ratio, found).floor(group.floor(flavor))];
    if group.figure != RowFigure::ServerCpu {
        let row = format!("{} cpu/op {}/sys{}", group.name, flavor.name(), store.suffix());
        figures.push(BenchFigure::new("server cpu x sys", row, "ratio", cpu).brief());
    }
    figures
}
