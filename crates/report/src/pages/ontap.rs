//! Latency against IOPS as curves, and the statements of the article.

use super::PageSpec;
use crate::cost::{headline, is_typical, mean, strongest};
use crate::cpu_attribution::{AttributionRow, attribution_table};
use crate::form::{self, compared, latency, part_apart, rate, short};
use crate::series::{lines, ratio, ratio_chart};
use crate::{Axis, Chart, Figure, Lines, RatioGroup, Table, busy_bars, limits};
use bench::evaluation::ontap::{ONTAP, kept_up};
use bench::measuring::{CaseRecord, Record, Sample};

const NONE: &str = "–";

/// The IOPS at which the article compares latencies.
const ARTICLE_IOPS: f64 = 50_000.0;

/// How far a step may be from these IOPS, as a part of them, and still be called about as many.
const ABOUT: f64 = 0.4;

/// The page of `ontap`. The article's own chart comes first.
pub(super) const PAGE: PageSpec = PageSpec {
    evaluation: ONTAP,
    headline: sentence,
    tables: &[most, near, instructions, shares],
    charts: &[
        |record| latencies(record, "Latency against IOPS: median", Figure::Median),
        left,
        |record| latencies(record, "Latency against IOPS: 99th percentile", Figure::Tail),
        |record| busy_bars(record, |case| case.axes.scheduled_on().is_none()),
    ],
};

fn shares(record: &Record) -> Option<Table> {
    let curves = curves(record);
    let rows = curves.iter().map(|curve| -> AttributionRow<'_> {
        let group = format!("{curve}: the most");
        (format!("{curve}, a request"), "µs", Box::new(move |case| case.group == group))
    });
    attribution_table(record, rows.collect())
}

/// Returns the headline, with the latency at the rate where the article compares it. Curves without
/// a step near that rate say nothing of it, and a saturated step measures the queue. The latency is
/// left out where most curves show no difference.
fn sentence(record: &Record) -> String {
    let (said, curves) = (headline(record), curves(record));
    let near = strongest(record).and_then(|variant| {
        let added = curves.iter().filter_map(|curve| {
            let at = compared_at(record, curve).filter(|at| (at / ARTICLE_IOPS - 1.0).abs() <= ABOUT)?;
            let case_of = |variant| {
                let mut steps = steps(record, curve, variant);
                steps.find(|case| offered(case) == Some(at) && kept_up(case))
            };
            case_of(&record.settings.baseline)?;
            let case = case_of(variant).filter(|case| is_typical(record, case))?;
            let figures = case.figures.as_ref()?;
            let is_unsure = Figure::Median.is_unsure(figures, record.relative_noise());
            Some((figures.against.as_ref()?.added_us?.median, is_unsure))
        });
        let added: Vec<(f64, bool)> = added.collect();
        let unsure = added.iter().filter(|(_, is_unsure)| *is_unsure).count();
        mean(added.iter().map(|(added, _)| *added)).filter(|_| 2 * unsure <= added.len())
    });
    match near.filter(|_| said.contains("IOPS")) {
        Some(added) => {
            format!("{said} At about 50,000 IOPS it changes the latency by {}.", form::added(added))
        }
        None => said,
    }
}

/// The rate nearest to the article's at which the baseline kept up; of one that never did, the
/// nearest that it was asked for.
fn compared_at(record: &Record, curve: &str) -> Option<f64> {
    let distance = |rate: &f64| (rate / ARTICLE_IOPS).ln().abs();
    let nearest = |wanted: fn(&CaseRecord) -> bool| {
        let steps = steps(record, curve, &record.settings.baseline).filter(|case| wanted(case));
        steps.filter_map(offered).min_by(|one, other| distance(one).total_cmp(&distance(other)))
    };
    nearest(kept_up).or_else(|| nearest(|_| true))
}

fn curves(record: &Record) -> Vec<String> {
    let mut curves: Vec<String> = Vec::new();
    for curve in record.cases.iter().filter_map(|case| Some(&case.axes.curve()?.curve)) {
        if !curves.iter().any(|known| known == curve) {
            curves.push(curve.clone());
        }
    }
    curves
}

fn steps<'a>(record: &'a Record, curve: &'a str, variant: &'a str) -> impl Iterator<Item = &'a CaseRecord> {
    record.cases.iter().filter(move |case| {
        case.variant == variant && case.axes.scheduled_on() == Some(curve) && case.figures.is_some()
    })
}

/// Returns the clients and the choice of instructions of a curve.
fn layout(curve: &str) -> (&str, &str) {
    curve.split_once(", ").map_or(("", curve), |(what, layout)| (layout, what))
}

/// Returns the ratios to the baseline's highest rate: a chart for each number of clients and choice
/// of instructions.
fn left(record: &Record) -> Vec<Chart> {
    let curves = &curves(record);
    let mut layouts: Vec<&str> = curves.iter().map(|curve| layout(curve).0).collect();
    layouts.dedup();
    // The article has 12 clients: the greatest number comes first.
    layouts.sort_by_key(|layout| {
        std::cmp::Reverse(layout.split(' ').next().and_then(|count| count.parse::<u32>().ok()))
    });
    let chart = |of: &&str| {
        let group = |curve: &String| {
            let row = |variant: &&str| ratio(record, record.variant(&format!("{curve}: the most"), variant)?);
            let rows = record.variants().iter().filter_map(row).collect();
            RatioGroup { name: layout(curve).1.to_owned(), rows }
        };
        let curves = curves.iter().filter(|curve| layout(curve).0 == *of);
        let section = format!("What is left of the most IOPS that {} does", record.settings.baseline);
        ratio_chart(record, section, *of, curves.map(group))
    };
    layouts.iter().filter_map(chart).collect()
}

fn latencies(record: &Record, section: &str, figure: Figure) -> Vec<Chart> {
    let rate = |case: &CaseRecord, sample: Option<&Sample>| match sample {
        Some(sample) => Some(sample.rate(case.unit)),
        None => case.rate(),
    };
    let chart = |curve: &String| {
        let wanted = |case: &CaseRecord| case.axes.scheduled_on() == Some(curve);
        let lines = lines(record, wanted, figure, rate);
        let (x, y) = (Axis::linear("IOPS that were served"), Axis::logarithmic("µs from when it was due"));
        Chart::of_lines(section, curve, Lines { x, y, lines, limits: limits::of_latency(record) })
    };
    curves(record).iter().filter_map(chart).collect()
}

/// Returns the effect of the instructions on the highest rate; `None` if only one choice was
/// measured.
fn instructions(record: &Record) -> Option<Table> {
    let (variants, curves) = (record.variants(), curves(record));
    let how = "The most that is served with the server\u{2019}s own choice of instructions, and what is left of it with another. The two did not \
               run side by side: ≈ marks a change within their intervals or below the noise of the machine. The article measured the same step the other way: \
               software in 9.0, AES-NI in 9.2.";
    let title = "What the processor\u{2019}s AES instructions do in the server";
    let mut table = Table::by_variant(title, how, "IOPS", &variants);
    for curve in &curves {
        let Some((own, other)) = curve.rsplit_once(", server ") else { continue };
        let most = |curve: &str, variant: &str| {
            Some(record.variant(&format!("{curve}: the most"), variant)?.figures.as_ref()?.rate)
        };
        let cell = |variant: &&str| {
            let (own, other) = (most(own, variant)?, most(curve, variant)?);
            let part = part_apart(&other, &own, record.relative_noise());
            Some(format!("{} → {} ({part})", short(own.median), short(other.median)))
        };
        let cells = variants.iter().map(|variant| cell(variant).unwrap_or_else(|| NONE.into())).collect();
        table.measured(format!("{own}, own choice → {other}"), cells);
    }
    table.unless_empty()
}

fn most(record: &Record) -> Option<Table> {
    let variants = record.variants();
    let how = format!(
        "What was served in a closed loop with 64 requests in flight (60 with 12 clients), with the change against {}. The article (ONTAP 9.0 and 9.2, 12 clients) gives \
         no table; its sentences stand below. ≈ marks a change that is below the noise of the machine or within its own interval.",
        record.settings.baseline
    );
    let mut table = Table::by_variant("The most that is served", &how, "most IOPS", &variants);
    for curve in &curves(record) {
        let cell = |variant: &&str| {
            let figures = record.variant(&format!("{curve}: the most"), variant)?.figures.as_ref()?;
            let said = rate(figures.rate.median, bench::Unit::OperationsPerSecond);
            Some(match &figures.against {
                Some(against) => format!("{said} ({})", compared(against)),
                None => said,
            })
        };
        let blank = |variant: &&str| record.blank(&format!("{curve}: the most"), variant);
        let cells = variants.iter().map(|variant| cell(variant).unwrap_or_else(|| blank(variant))).collect();
        table.measured(curve.clone(), cells);
    }
    let mut published = |name: &str, said: &str| {
        let cells: Vec<&str> =
            variants.iter().map(|variant| if *variant == "krb5p" { said } else { NONE }).collect();
        table.published(name, &cells);
    };
    published("4 KiB reads, encryption in software (9.0)", "never above 12k IOPS");
    published("4 KiB writes, encryption in software (9.0)", "below 10k IOPS");
    published("4 KiB reads and writes, AES-NI (9.2)", "keeps up with sys");
    Some(table)
}

/// Latency where the article compares it, or at the nearest rate that the baseline keeps up with.
fn near(record: &Record) -> Option<Table> {
    let variants = record.variants();
    let how = format!(
        "Near 50,000 IOPS, as the article compares it, or at the nearest step at which {} keeps up. A flavor that was saturated there or below has no figure.",
        record.settings.baseline
    );
    let first = "median, 99th percentile";
    let mut table = Table::by_variant("Latency at the same IOPS", &how, first, &variants);
    for curve in &curves(record) {
        let Some(at) = compared_at(record, curve) else { continue };
        let cell = |variant: &&str| {
            let case = steps(record, curve, variant).find(|case| offered(case) == Some(at))?;
            let figures = case.figures.as_ref()?;
            kept_up(case).then_some(format!(
                "{}, {}",
                latency(figures.p50_us?.median),
                latency(figures.p99_us?.median)
            ))
        };
        let name = format!("{curve}, {}", rate(at, bench::Unit::OperationsPerSecond));
        // A curve that failed before its end did not reach saturation.
        let blank = |variant: &&str| {
            let failed = record.cases.iter().find(|case| {
                case.variant == **variant
                    && case.axes.curve().is_some_and(|axes| axes.curve == *curve)
                    && record.failure(&case.group, variant).is_some()
            });
            match failed {
                Some(case) => record.blank(&case.group, variant),
                None if record.is_skipped(variant) => record.blank("", variant),
                None => "saturated".to_owned(),
            }
        };
        table.measured(
            name,
            variants.iter().map(|variant| cell(variant).unwrap_or_else(|| blank(variant))).collect(),
        );
    }
    let cells = variants.iter().map(|variant| match *variant {
        "krb5i" | "krb5p" => "severe in 9.0, below 1 ms in 9.2",
        _ => "below 1 ms",
    });
    table.published("about 50,000 IOPS, nearly every workload", &cells.collect::<Vec<_>>());
    Some(table)
}

fn offered(case: &CaseRecord) -> Option<f64> {
    case.counted().find_map(|sample| sample.offered)
}
