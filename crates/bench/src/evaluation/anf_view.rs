//! The tables of the two articles with our figures beside them, and the sweeps as charts.

use super::anf::{WRITES, group};
use super::cost::{Cost, failed, headline, is_heavy, is_light};
use crate::Unit;
use crate::measuring::{CaseRecord, Comparison, Record};
use crate::view::form::{added, change, digits};
use crate::view::{Axis, Chart, Line, Lines, Plot, Point, Row, Table, View, busy_bars};

/// The flavors of the articles' columns.
const FLAVORS: [&str; 3] = ["krb5", "krb5i", "krb5p"];

const NONE: &str = "–";

/// Shows a record of `anf`.
pub fn view(record: &Record) -> View {
    let charts = [
        sweep(record, "high", "random", "IOPS"),
        sweep(record, "high", "sequential", "MB/s"),
        latency(record, "random"),
        latency(record, "sequential"),
    ];
    let mut charts: Vec<Chart> = charts.into_iter().flatten().collect();
    charts.extend(busy_bars(record, |one| {
        one.case.is("load", "high") && (one.case.word("workload") == Some("metadata") || is_pure(one))
    }));
    View { headline: headline(record), tables: vec![first(record), second(record), commands(record)], charts }
}

fn is_pure(one: &CaseRecord) -> bool {
    one.case.is("writes", 0) || one.case.is("writes", 100)
}

fn against<'a>(
    record: &'a Record,
    side: &str,
    load: &str,
    workload: &str,
    writes: u32,
) -> Option<&'a Comparison> {
    record.side(&group(load, workload, writes), side)?.figures.as_ref()?.against.as_ref()
}

/// The mean of what is added to the median latency at low load, over the sweep.
fn added_latency(record: &Record, side: &str, workload: &str) -> String {
    let sweep = if workload == "metadata" { &WRITES[..1] } else { &WRITES[..] };
    // A mean over what did not fail would be one of other loads.
    if let Some(failed) = first_blank(record, side, "low", workload, sweep) {
        return failed;
    }
    let values: Vec<f64> = sweep
        .iter()
        .filter_map(|writes| Some(against(record, side, "low", workload, *writes)?.added_us?.median))
        .collect();
    if values.is_empty() { NONE.to_owned() } else { added(values.iter().sum::<f64>() / values.len() as f64) }
}

/// What stands in the place of figures of several cases when one of them has failed.
fn first_blank(record: &Record, side: &str, load: &str, workload: &str, sweep: &[u32]) -> Option<String> {
    let groups = sweep.iter().map(|writes| group(load, workload, *writes));
    let failed = groups.filter(|group| record.side(group, side).is_none_or(|one| one.figures.is_none()));
    let blanks = failed.map(|group| record.blank(&group, side));
    blanks.into_iter().find(|blank| blank != NONE)
}

/// Changes of the most that can be done, pure read first, pure write last.
fn changes(record: &Record, side: &str, workload: &str) -> String {
    let at =
        |writes| against(record, side, "high", workload, writes).map(|against| change(against.ratio.median));
    match (workload, at(0), at(100)) {
        ("metadata", Some(only), _) => only,
        ("metadata", None, _) => record.blank(&group("high", workload, 0), side),
        (_, None, None) => record.blank(&group("high", workload, 0), side),
        (_, read, write) => {
            let or_blank = |said: Option<String>, writes| {
                said.unwrap_or_else(|| record.blank(&group("high", workload, writes), side))
            };
            format!("{} → {}", or_blank(read, 0), or_blank(write, 100))
        }
    }
}

fn first(record: &Record) -> Table {
    let mut table = Table::new(
        "Added latency at low load, and what is lost of the most",
        "The first article's table (Azure NetApp Files, 2021), our figures above the published ones. Everything is relative to sys. Latencies are \
         medians, averaged over the sweep from pure read to pure write; arrows go from pure read to pure write.",
        &["relative to sys", "krb5", "krb5i", "krb5p"],
    );
    let mut pair = |name: &str, cell: &dyn Fn(&str) -> String, published: [&str; 3]| {
        table.measured(name, FLAVORS.iter().map(|side| cell(side)).collect());
        table.published(name, &published);
    };
    let low = |workload: &'static str| move |side: &str| added_latency(record, side, workload);
    let high = |workload: &'static str| move |side: &str| changes(record, side, workload);
    pair("low load, latency of sequential I/O", &low("sequential"), ["+0.3 ms", "+0.5 ms", "+0.8 ms"]);
    pair("low load, latency of random I/O", &low("random"), ["+0.2 ms", "+0.2 ms", "+0.2 ms"]);
    pair("low load, latency of metadata", &low("metadata"), ["+0.2 ms", "+0.2 ms", "+0.2 ms"]);
    pair("maximum sequential throughput", &high("sequential"), ["0 %", "−70 %", "−85 %"]);
    pair("maximum random I/O", &high("random"), ["−30 % → 0 %", "−50 % → −25 %", "−65 % → −43 %"]);
    pair("maximum metadata rate", &high("metadata"), ["−30 %", "−30 %", "−30 %"]);
    table
}

fn second(record: &Record) -> Table {
    let mut table = Table::new(
        "Averages over the workloads",
        "The later article's table, our figures above the published ones. IOPS: mean change of random I/O and metadata at high load; throughput: of \
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
    let heavy = |unit: Unit| move |one: &CaseRecord| is_heavy(one) && one.case.unit == unit;
    table.measured("IOPS", row(&|cost| cost.operations.map(change), &heavy(Unit::OperationsPerSecond)));
    table.published("IOPS", &["−53 %", "−55 %", "−77 %"]);
    table.measured("throughput", row(&|cost| cost.throughput.map(change), &heavy(Unit::MegabytesPerSecond)));
    table.published("throughput", &["−53 %", "−55 %", "−77 %"]);
    table.measured("latency", row(&|cost| cost.latency_us.map(added), &is_light));
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
            let one = record.side(&group("low", "metadata", 0), side)?;
            let (count, micros) =
                (one.counter(&format!("{command}_operations")), one.counter(&format!("{command}_us")));
            (micros > 0).then(|| digits(count as f64 / (micros as f64 / 1e6)))
        };
        let blank = |side: &&str| record.blank(&group("low", "metadata", 0), side);
        let cells = sides.iter().map(|side| cell(side).unwrap_or_else(|| blank(side))).collect();
        table.rows.push(Row { name: command.to_owned(), cells, ..Row::default() });
    }
    table
}

fn lines(
    record: &Record,
    load: &str,
    workload: &str,
    point: impl Fn(&CaseRecord, f64) -> Option<Point>,
) -> Vec<Line> {
    let of = |side: &&str| {
        let cases = WRITES.iter().filter_map(|writes| {
            let (name, x) = (group(load, workload, *writes), f64::from(*writes));
            let failed = || record.failure(&name, side).map(|_| Point::failed(x));
            point(record.side(&name, side)?, x).or_else(failed)
        });
        Line { side: (*side).to_owned(), points: cases.collect() }
    };
    record.sides().iter().map(of).filter(|line| !line.points.is_empty()).collect()
}

fn sweep(record: &Record, load: &str, workload: &str, unit: &str) -> Option<Chart> {
    let lines = lines(record, load, workload, |one, x| {
        let rate = one.figures.as_ref()?.rate;
        Some(Point { x, y: rate.median, low: rate.low, high: rate.high })
    });
    let enctype = record.environment.enctype.clone().unwrap_or_default();
    let limits = record.limits.iter().filter(|limit| {
        unit == "MB/s" && (limit.name == record.between() || limit.name == format!("sealing, {enctype}"))
    });
    let name =
        if workload == "random" { "Random 4 KiB, 64 in flight" } else { "Sequential 1 MiB, 8 in flight" };
    (!lines.is_empty()).then(|| Chart {
        section: "From pure read to pure write".to_owned(),
        title: format!("{name}: {unit}"),
        plot: Plot::Lines(Lines {
            x: Axis::linear("% writes"),
            y: Axis::linear(unit),
            lines,
            limits: limits.map(|limit| (short_name(&limit.name), limit.value)).collect(),
        }),
    })
}

/// A limit's name as a chart has room for it.
fn short_name(name: &str) -> String {
    if name.starts_with("sealing") { "one core seals".to_owned() } else { name.to_owned() }
}

fn latency(record: &Record, workload: &str) -> Option<Chart> {
    let lines = lines(record, "low", workload, |one, x| {
        let p50 = one.figures.as_ref()?.p50_us?;
        Some(Point { x, y: p50.median, low: p50.low, high: p50.high })
    });
    let between = format!("{} round trip", record.between());
    let limits = record.limits.iter().filter(|limit| limit.name == between);
    let name = if workload == "random" { "Random 4 KiB" } else { "Sequential 1 MiB" };
    (!lines.is_empty()).then(|| Chart {
        section: "From pure read to pure write".to_owned(),
        title: format!("{name}, one at a time: median latency"),
        plot: Plot::Lines(Lines {
            x: Axis::linear("% writes"),
            y: Axis::linear("µs"),
            lines,
            limits: limits.map(|limit| (limit.name.clone(), limit.value)).collect(),
        }),
    })
}
