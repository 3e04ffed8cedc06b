//! The flavors beside `sys`.

use super::rows::{ExportStore, RowFigure, RowGroup};
use super::{Arguments, LENGTH};
use crate::load::{self, FILE_SIZE, rate_unit};
use crate::output::{BenchFigure, BenchOutput};
use bench::measuring::{CaseRecord, Sample, Settings, compare};
use bench::native::{BenchTarget, NativeDriver};
use bench::{Flavor, Unit};
use report::form::cpu_unit;
use std::sync::atomic::AtomicBool;

/// Measures groups with the files in `store`; each round goes through all flavors.
pub(super) fn measure(
    output: &mut BenchOutput,
    mut server: BenchTarget,
    store: ExportStore,
    (groups, arguments): (&[&RowGroup], &Arguments),
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    if groups.is_empty() {
        return Ok(());
    }
    let flavors = arguments.flavors();
    let block = |group: &&RowGroup| {
        let case = |flavor: &Flavor| load::case(group.name, flavor.name(), *flavor, group.load.clone());
        flavors.iter().map(case).collect()
    };
    let blocks = groups.iter().map(block).collect();
    let variants = flavors.iter().map(|flavor| flavor.name().to_owned()).collect();
    let settings = Settings::new(arguments.rounds, LENGTH.as_secs_f64(), FILE_SIZE, variants);
    let driver = NativeDriver::new(&mut server, "bench-path", stop);
    load::measure(blocks, driver, settings, stop, |cases| {
        let group = groups.iter().find(|group| cases.iter().any(|one| one.group == group.name));
        if let Some(group) = group {
            report(output, group, store, cases);
        }
    })
}

fn report(output: &mut BenchOutput, group: &RowGroup, store: ExportStore, cases: &[CaseRecord]) {
    println!("\n{}{}", group.name, store.suffix());
    let counted = |one: &CaseRecord| one.counted().cloned().collect::<Vec<_>>();
    let Some(sys) = cases.first().map(counted) else { return };
    for one in cases {
        let (flavor, own) = (one.flavor(), counted(one));
        let row = |what: &str| format!("{} {flavor}{}, {what}", group.name, store.suffix());
        let mut figures = raw(&row, one.unit, &own);
        if group.figure == RowFigure::Latency {
            figures.push(
                BenchFigure::of("p50", row("p50"), "µs", own.iter().filter_map(Sample::p50_us)).brief(),
            );
        }
        if let Some(flavor) = flavor.parse().ok().filter(|flavor| *flavor != Flavor::Sys) {
            figures.extend(beside_sys(group, store, flavor, &own, &sys));
        }
        output.line(flavor, figures);
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
    let unit = load::unit(&group.load);
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
