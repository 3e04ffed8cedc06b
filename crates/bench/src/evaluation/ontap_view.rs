//! Latency against IOPS as curves, and what the article says of both.

use super::cost::headline;
use super::ontap::kept_up;
use crate::measuring::{CaseRecord, Record};
use crate::view::form::{change, latency, rate};
use crate::view::{Axis, Chart, Line, Lines, Plot, Point, Table, View, busy_bars};

const NONE: &str = "–";

/// The IOPS at which the article compares latencies.
const ARTICLE_IOPS: f64 = 50_000.0;

/// Shows a record of `ontap`.
pub fn view(record: &Record) -> View {
    let curves = curves(record);
    let mut charts = Vec::new();
    for (section, figure) in
        [("Latency against IOPS: median", false), ("Latency against IOPS: 99th percentile", true)]
    {
        charts.extend(curves.iter().filter_map(|curve| chart(record, curve, section, figure)));
    }
    charts.extend(busy_bars(record, |one| one.case.number("step").is_none()));
    View { headline: headline(record), tables: vec![most(record, &curves), near(record, &curves)], charts }
}

fn curves(record: &Record) -> Vec<String> {
    let mut curves: Vec<String> = Vec::new();
    for curve in record.cases.iter().filter_map(|one| one.case.word("curve")) {
        if !curves.iter().any(|known| known == curve) {
            curves.push(curve.to_owned());
        }
    }
    curves
}

fn steps<'a>(record: &'a Record, curve: &'a str, side: &'a str) -> impl Iterator<Item = &'a CaseRecord> {
    record.cases.iter().filter(move |one| {
        one.case.side == side
            && one.case.word("curve") == Some(curve)
            && one.case.number("step").is_some()
            && one.figures.is_some()
    })
}

fn chart(record: &Record, curve: &str, section: &str, tail: bool) -> Option<Chart> {
    let point = |one: &CaseRecord| {
        let figures = one.figures.as_ref()?;
        let time = if tail { figures.p99_us? } else { figures.p50_us? };
        Some(Point { x: figures.rate.median, y: time.median, low: time.low, high: time.high })
    };
    let line = |side: &&str| Line {
        side: (*side).to_owned(),
        points: steps(record, curve, side).filter_map(point).collect(),
    };
    let lines: Vec<Line> = record.sides().iter().map(line).filter(|line| !line.points.is_empty()).collect();
    let between = format!("{} round trip", record.between());
    let limits = record.limits.iter().filter(|limit| limit.name == between);
    (!lines.is_empty()).then(|| Chart {
        section: section.to_owned(),
        title: curve.to_owned(),
        plot: Plot::Lines(Lines {
            x: Axis::linear("IOPS that were served"),
            y: Axis::logarithmic("µs from when it was due"),
            lines,
            limits: limits.map(|limit| (limit.name.clone(), limit.value)).collect(),
        }),
    })
}

fn most(record: &Record, curves: &[String]) -> Table {
    let sides = record.sides();
    let mut columns = vec!["most IOPS"];
    columns.extend(&sides);
    let how = "What was served in a closed loop with 64 requests in flight, with the change against sys. The article (ONTAP 9.0 and 9.2, 12 clients) gives \
               no table; its sentences stand below.";
    let mut table = Table::new("The most that is served", how, &columns);
    for curve in curves {
        let cell = |side: &&str| {
            let figures = record.side(&format!("{curve}: the most"), side)?.figures.as_ref()?;
            let said = rate(figures.rate.median, crate::Unit::OperationsPerSecond);
            Some(match &figures.against {
                Some(against) => format!("{said} ({})", change(against.ratio.median)),
                None => said,
            })
        };
        let blank = |side: &&str| record.blank(&format!("{curve}: the most"), side);
        let cells = sides.iter().map(|side| cell(side).unwrap_or_else(|| blank(side))).collect();
        table.measured(curve.clone(), cells);
    }
    let mut published = |name: &str, said: &str| {
        let cells: Vec<&str> = sides.iter().map(|side| if *side == "krb5p" { said } else { NONE }).collect();
        table.published(name, &cells);
    };
    published("4 KiB reads, encryption in software (9.0)", "never above 12k IOPS");
    published("4 KiB writes, encryption in software (9.0)", "below 10k IOPS");
    published("4 KiB reads and writes, AES-NI (9.2)", "keeps up with sys");
    table
}

/// Latency where the article compares it, or half way where the server does not get there.
fn near(record: &Record, curves: &[String]) -> Table {
    let sides = record.sides();
    let mut columns = vec!["median, 99th percentile"];
    columns.extend(&sides);
    let how = "Near 50,000 IOPS, as the article compares it, or at the step next to it. A side that did not get there has no figure.";
    let mut table = Table::new("Latency at the same IOPS", how, &columns);
    for curve in curves {
        let baseline: Vec<f64> =
            steps(record, curve, &record.settings.baseline).filter_map(offered).collect();
        let distance = |rate: &f64| (rate / ARTICLE_IOPS).ln().abs();
        let Some(at) = baseline.into_iter().min_by(|one, other| distance(one).total_cmp(&distance(other)))
        else {
            continue;
        };
        let cell = |side: &&str| {
            let one = steps(record, curve, side).find(|one| offered(one) == Some(at))?;
            let figures = one.figures.as_ref()?;
            kept_up(one).then_some(format!(
                "{}, {}",
                latency(figures.p50_us?.median),
                latency(figures.p99_us?.median)
            ))
        };
        let name = format!("{curve}, {}", rate(at, crate::Unit::OperationsPerSecond));
        // What failed on the way there did not come to be saturated.
        let blank = |side: &&str| {
            let failed = record.cases.iter().find(|one| {
                one.case.side == **side
                    && one.case.word("curve") == Some(curve)
                    && record.failure(&one.case.group, side).is_some()
            });
            match failed {
                Some(one) => record.blank(&one.case.group, side),
                None if record.is_left_out(side) => record.blank("", side),
                None => "saturated".to_owned(),
            }
        };
        table.measured(name, sides.iter().map(|side| cell(side).unwrap_or_else(|| blank(side))).collect());
    }
    let cells = sides.iter().map(|side| match *side {
        "krb5i" | "krb5p" => "severe in 9.0, below 1 ms in 9.2",
        _ => "below 1 ms",
    });
    table.published("about 50,000 IOPS, nearly every workload", &cells.collect::<Vec<_>>());
    table
}

fn offered(one: &CaseRecord) -> Option<f64> {
    one.counted().find_map(|sample| sample.offered)
}
