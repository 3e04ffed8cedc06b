//! The tables of the two articles with our figures beside them, and the sweeps as charts.

use crate::cost::{Cost, failed, headline, heavy, is_heavy, is_light, mean};
use crate::cpu_attribution::{ShareRow, share_table};
use crate::form::{added_or_none, compared, digits, mean_change};
use crate::{Axis, Chart, Figure, Lines, Plot, Ratio, RatioGroup, Ratios, Row, Table, View};
use crate::{busy_bars, is_unsure, limits, lines, ratio};
use bench::Unit;
use bench::evaluation::anf::{WRITES, group};
use bench::measuring::{CaseRecord, Comparison, LoadLevel, Record, Workload};

/// The flavors of the articles' columns.
const FLAVORS: [&str; 3] = ["krb5", "krb5i", "krb5p"];

const NONE: &str = "–";

/// Shows a record of `anf`.
pub fn view(record: &Record) -> View {
    let mut charts = left(record);
    let sweeps = [
        sweep(record, LoadLevel::High, Workload::Random, Figure::Rate),
        sweep(record, LoadLevel::High, Workload::Sequential, Figure::Rate),
        sweep(record, LoadLevel::Low, Workload::Random, Figure::Median),
        sweep(record, LoadLevel::Low, Workload::Sequential, Figure::Median),
    ];
    charts.extend(sweeps.into_iter().flatten());
    charts.extend(busy_bars(record, |one| one.case.axes.level() == Some(LoadLevel::High) && is_pure(one)));
    View { headline: headline(record), tables: tables(record), charts }
}

fn tables(record: &Record) -> Vec<Table> {
    let row = |name: &str, unit, workload| -> ShareRow<'static> {
        let wanted = move |one: &CaseRecord| is_heavy(one) && one.case.axes.workload() == Some(workload);
        (name.to_owned(), unit, Box::new(wanted))
    };
    let rows = vec![
        row("random I/O, a request of 4 KiB", "µs", Workload::Random),
        row("sequential I/O, a GB", "s", Workload::Sequential),
        row("metadata, an operation", "µs", Workload::Metadata),
    ];
    let all = [Some(first(record)), Some(second(record)), share_table(record, rows), Some(commands(record))];
    all.into_iter().flatten().collect()
}

fn is_pure(one: &CaseRecord) -> bool {
    one.case.axes.writes().is_none_or(|writes| writes == 0 || writes == 100)
}

fn against<'a>(
    record: &'a Record,
    side: &str,
    load: LoadLevel,
    workload: Workload,
    writes: u32,
) -> Option<&'a Comparison> {
    record.side(&group(load, workload, writes), side)?.figures.as_ref()?.against.as_ref()
}

/// The mean of what is added to the median latency at low load, over the sweep.
fn added_latency(record: &Record, side: &str, workload: Workload) -> String {
    let sweep = if workload == Workload::Metadata { &WRITES[..1] } else { &WRITES[..] };
    // A mean over what did not fail would be one of other loads.
    if let Some(failed) = first_blank(record, side, LoadLevel::Low, workload, sweep) {
        return failed;
    }
    let noise = record.relative_noise();
    let figures = sweep.iter().filter_map(|writes| {
        let figures = record.side(&group(LoadLevel::Low, workload, *writes), side)?.figures.as_ref()?;
        Some((figures.against.as_ref()?.added_us?.median, Figure::Median.is_unsure(figures, noise)))
    });
    let values: Vec<(f64, bool)> = figures.collect();
    let Some(mean) = mean(values.iter().map(|(added, _)| *added)) else { return NONE.to_owned() };
    let unsure = values.iter().filter(|(_, unsure)| *unsure).count();
    added_or_none(mean, 2 * unsure > values.len())
}

/// What stands in the place of figures of several cases when one of them has failed.
fn first_blank(
    record: &Record,
    side: &str,
    load: LoadLevel,
    workload: Workload,
    sweep: &[u32],
) -> Option<String> {
    let groups = sweep.iter().map(|writes| group(load, workload, *writes));
    let failed = groups.filter(|group| record.side(group, side).is_none_or(|one| one.figures.is_none()));
    let blanks = failed.map(|group| record.blank(&group, side));
    blanks.into_iter().find(|blank| blank != NONE)
}

/// Changes of the most that can be done, pure read first, pure write last.
fn changes(record: &Record, side: &str, workload: Workload) -> String {
    let at = |writes| against(record, side, LoadLevel::High, workload, writes).map(compared);
    match (workload, at(0), at(100)) {
        (Workload::Metadata, Some(only), _) => only,
        (Workload::Metadata, None, _) => record.blank(&group(LoadLevel::High, workload, 0), side),
        (_, None, None) => record.blank(&group(LoadLevel::High, workload, 0), side),
        (_, read, write) => {
            let or_blank = |said: Option<String>, writes| {
                said.unwrap_or_else(|| record.blank(&group(LoadLevel::High, workload, writes), side))
            };
            format!("{} → {}", or_blank(read, 0), or_blank(write, 100))
        }
    }
}

fn first(record: &Record) -> Table {
    let mut table = Table::new(
        "Added latency at low load, and what is lost of the most",
        "The first article's table (Azure NetApp Files, 2021), our figures beside the published ones. Everything is relative to sys. Latencies are \
         medians, averaged over the sweep from pure read to pure write; arrows go from pure read to pure write.",
        &["relative to sys", "krb5", "krb5i", "krb5p"],
    );
    let mut pair = |name: &str, cell: &dyn Fn(&str) -> String, published: [&str; 3]| {
        table.measured(name, FLAVORS.iter().map(|side| cell(side)).collect());
        table.published(name, &published);
    };
    let low = |workload| move |side: &str| added_latency(record, side, workload);
    let high = |workload| move |side: &str| changes(record, side, workload);
    pair(
        "low load, latency of sequential I/O",
        &low(Workload::Sequential),
        ["+0.3 ms", "+0.5 ms", "+0.8 ms"],
    );
    pair("low load, latency of random I/O", &low(Workload::Random), ["+0.2 ms", "+0.2 ms", "+0.2 ms"]);
    pair("low load, latency of metadata", &low(Workload::Metadata), ["+0.2 ms", "+0.2 ms", "+0.2 ms"]);
    pair("maximum sequential throughput", &high(Workload::Sequential), ["0 %", "−70 %", "−85 %"]);
    pair("maximum random I/O", &high(Workload::Random), ["−30 % → 0 %", "−50 % → −25 %", "−65 % → −43 %"]);
    pair("maximum metadata rate", &high(Workload::Metadata), ["−30 %", "−30 %", "−30 %"]);
    table
}

fn second(record: &Record) -> Table {
    let mut table = Table::new(
        "Averages over the workloads",
        "The later article's table, our figures beside the published ones. IOPS: mean change of random I/O and metadata at high load; throughput: of \
         sequential I/O at high load; latency: mean of what is added to the median at low load.",
        &["relative to sys", "krb5", "krb5i", "krb5p"],
    );
    let row = |value: &dyn Fn(&Cost) -> Option<String>, wanted: &dyn Fn(&CaseRecord) -> bool| {
        let cell = |side: &str| match (value(&Cost::of(record, side)), failed(record, side, wanted)) {
            (Some(value), (0, _)) => value,
            (Some(value), (failed, all)) => format!("{value}, without {failed} of {all}"),
            (None, (failed, _)) if failed > 0 => "failed".to_owned(),
            (None, _) => NONE.to_owned(),
        };
        FLAVORS.iter().map(|side| cell(side)).collect::<Vec<String>>()
    };
    let noise = record.relative_noise();
    let change = |ratio| mean_change(ratio, noise);
    let of = |unit: Unit| move |one: &CaseRecord| is_heavy(one) && one.case.unit == unit;
    table.measured("IOPS", row(&|cost| cost.operations.map(change), &of(Unit::OperationsPerSecond)));
    table.published("IOPS", &["−53 %", "−55 %", "−77 %"]);
    table.measured("throughput", row(&|cost| cost.throughput.map(change), &of(Unit::MegabytesPerSecond)));
    table.published("throughput", &["−53 %", "−55 %", "−77 %"]);
    let latency = |cost: &Cost| Some(added_or_none(cost.latency_us?, cost.latency_unsure));
    table.measured("latency", row(&latency, &is_light));
    table.published("latency", &["+0.2 ms", "+0.6 ms", "+1.6 ms"]);
    table
}

/// What the parts of the metadata load do in a second.
fn commands(record: &Record) -> Table {
    let sides = record.sides();
    let mut columns = vec!["operations a second"];
    columns.extend(&sides);
    let how = "The parts of the metadata load at low load: file operations (a file made, written and closed is one), one after the other.";
    let mut table = Table::new("Metadata by command", how, &columns);
    for command in ["clone", "status", "checkout", "commit", "gc", "remove"] {
        let cell = |side: &&str| {
            let one = record.side(&group(LoadLevel::Low, Workload::Metadata, 0), side)?;
            let (count, micros) =
                (one.counter(&format!("{command}_operations")), one.counter(&format!("{command}_us")));
            (micros > 0).then(|| digits(count as f64 / (micros as f64 / 1e6)))
        };
        let blank = |side: &&str| record.blank(&group(LoadLevel::Low, Workload::Metadata, 0), side);
        let cells = sides.iter().map(|side| cell(side).unwrap_or_else(|| blank(side))).collect();
        table.rows.push(Row { name: command.to_owned(), cells, ..Row::default() });
    }
    table
}

/// What is left of the baseline's at high load, a chart for each column of the later article, and
/// metadata apart.
fn left(record: &Record) -> Vec<Chart> {
    let is_metadata = |one: &CaseRecord| one.case.axes.workload() == Some(Workload::Metadata);
    let chart = |title: &str, unit: Unit, published: [f64; 3], wanted: &dyn Fn(&CaseRecord) -> bool| {
        let row = |(side, published): (&str, f64)| {
            let mut parts = heavy(record, side, unit);
            parts.retain(|(one, _)| wanted(one));
            average(record, side, &parts, published)
        };
        let rows: Vec<Ratio> = FLAVORS.into_iter().zip(published).filter_map(row).collect();
        let groups = vec![RatioGroup { name: String::new(), rows }];
        let noise = record.relative_noise();
        let baseline = record.settings.baseline.clone();
        groups.iter().any(|group| !group.rows.is_empty()).then(|| Chart {
            section: format!("What is left of {baseline} at high load"),
            title: title.to_owned(),
            plot: Plot::Ratios(Ratios { baseline, noise, groups, span: None }),
        })
    };
    let charts = [
        chart(
            "IOPS: mean of random I/O and metadata",
            Unit::OperationsPerSecond,
            [0.47, 0.45, 0.23],
            &|_| true,
        ),
        chart("Throughput: mean of sequential I/O", Unit::MegabytesPerSecond, [0.47, 0.45, 0.23], &|_| true),
        chart("Metadata rate", Unit::OperationsPerSecond, [0.7, 0.7, 0.7], &is_metadata),
    ];
    charts.into_iter().flatten().collect()
}

/// The mean of what several cases leave. One alone keeps its interval and its repetitions.
fn average(
    record: &Record,
    side: &str,
    parts: &[(&CaseRecord, &Comparison)],
    published: f64,
) -> Option<Ratio> {
    if let [(only, _)] = parts {
        return Some(Ratio { published: Some(published), ..ratio(record, only)? });
    }
    let medians: Vec<f64> = parts.iter().map(|(_, against)| against.ratio.median).collect();
    let value = mean(medians.iter().copied())?;
    let noise = record.relative_noise();
    Some(Ratio {
        side: side.to_owned(),
        value,
        range: None,
        unsure: (value - 1.0).abs() <= noise || parts.iter().all(|(_, against)| is_unsure(against)),
        parts: medians,
        published: Some(published),
    })
}

/// A line for each side over the percentages of writes; none where nothing was measured.
fn sweep(record: &Record, load: LoadLevel, workload: Workload, figure: Figure) -> Option<Chart> {
    let wanted =
        |one: &CaseRecord| one.case.axes.level() == Some(load) && one.case.axes.workload() == Some(workload);
    let lines = lines(record, wanted, figure, |one, _| one.case.axes.writes().map(f64::from));
    let random = workload == Workload::Random;
    let (name, limits) = match (load, random) {
        (LoadLevel::High, true) => ("Random 4 KiB, 64 in flight: IOPS", limits::of_requests(record, 4096)),
        (LoadLevel::High, false) => ("Sequential 1 MiB, 8 in flight: MB/s", limits::of_throughput(record)),
        (_, true) => ("Random 4 KiB, one at a time: median latency", limits::of_latency(record)),
        _ => ("Sequential 1 MiB, one at a time: median latency", limits::of_latency(record)),
    };
    let unit = match (load, random) {
        (LoadLevel::High, true) => "IOPS",
        (LoadLevel::High, false) => "MB/s",
        _ => "µs",
    };
    (!lines.is_empty()).then(|| Chart {
        section: "From pure read to pure write".to_owned(),
        title: name.to_owned(),
        plot: Plot::Lines(Lines { x: Axis::linear("% writes"), y: Axis::linear(unit), lines, limits }),
    })
}
