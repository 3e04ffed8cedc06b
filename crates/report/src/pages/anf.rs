//! The tables of the two articles with our figures beside them, and the sweeps as charts.

use super::PageSpec;
use crate::cost::{CaseAgainst, Cost, MeanRatio, failed, headline, heavy, is_heavy, is_light, mean};
use crate::cpu_attribution::{AttributionRow, attribution_table};
use crate::form::{added_or_none, compared, digits, percent, unsure};
use crate::series::{lines, ratio, ratio_chart};
use crate::{Axis, Chart, Figure, Lines, Ratio, RatioGroup, Table, busy_bars, limits};
use bench::Unit;
use bench::evaluation::anf::{ANF, WRITES, group};
use bench::measuring::{CaseRecord, Comparison, LoadLevel, Record, Sample, Verdict, Workload, compare};

/// The flavors of the articles' columns.
const FLAVORS: [&str; 3] = ["krb5", "krb5i", "krb5p"];

const NONE: &str = "–";

/// The page of `anf`.
pub(super) const PAGE: PageSpec = PageSpec {
    evaluation: ANF,
    headline,
    tables: &[|record| Some(first(record)), |record| Some(second(record)), shares, commands],
    charts: &[left, sweeps, busy],
};

fn busy(record: &Record) -> Vec<Chart> {
    busy_bars(record, |case| case.axes.level() == Some(LoadLevel::High) && is_pure(case))
}

fn shares(record: &Record) -> Option<Table> {
    let row = |name: &str, unit, workload| -> AttributionRow<'static> {
        let wanted = move |case: &CaseRecord| is_heavy(case) && case.axes.workload() == Some(workload);
        (name.to_owned(), unit, Box::new(wanted))
    };
    let rows = vec![
        row("random I/O, a request of 4 KiB", "µs", Workload::Random),
        row("sequential I/O, a GB", "s", Workload::Sequential),
        row("metadata, an operation", "µs", Workload::Metadata),
    ];
    attribution_table(record, rows)
}

fn is_pure(case: &CaseRecord) -> bool {
    case.axes.writes().is_none_or(|writes| writes == 0 || writes == 100)
}

fn against<'a>(
    record: &'a Record,
    variant: &str,
    load: LoadLevel,
    workload: Workload,
    writes: u32,
) -> Option<&'a Comparison> {
    record.variant(&group(load, workload, writes), variant)?.figures.as_ref()?.against.as_ref()
}

/// Returns the mean added median latency at low load, over the sweep.
fn added_latency(record: &Record, variant: &str, workload: Workload) -> String {
    let sweep = if workload == Workload::Metadata { &WRITES[..1] } else { &WRITES[..] };
    // A mean over the successful cases would describe other loads.
    if let Some(failed) = first_blank(record, variant, LoadLevel::Low, workload, sweep) {
        return failed;
    }
    let noise = record.relative_noise();
    let figures = sweep.iter().filter_map(|writes| {
        let figures = record.variant(&group(LoadLevel::Low, workload, *writes), variant)?.figures.as_ref()?;
        Some((figures.against.as_ref()?.added_us?.median, Figure::Median.is_unsure(figures, noise)))
    });
    let values: Vec<(f64, bool)> = figures.collect();
    let Some(mean) = mean(values.iter().map(|(added, _)| *added)) else { return NONE.to_owned() };
    let unsure = values.iter().filter(|(_, unsure)| *unsure).count();
    added_or_none(mean, 2 * unsure > values.len())
}

/// Returns the mark for figures over several cases when one of them has failed.
fn first_blank(
    record: &Record,
    variant: &str,
    load: LoadLevel,
    workload: Workload,
    sweep: &[u32],
) -> Option<String> {
    let groups = sweep.iter().map(|writes| group(load, workload, *writes));
    let failed =
        groups.filter(|group| record.variant(group, variant).is_none_or(|case| case.figures.is_none()));
    let blanks = failed.map(|group| record.blank(&group, variant));
    blanks.into_iter().find(|blank| blank != NONE)
}

/// Changes of the most that can be done, pure read first, pure write last.
fn changes(record: &Record, variant: &str, workload: Workload) -> String {
    let at = |writes| against(record, variant, LoadLevel::High, workload, writes).map(compared);
    match (workload, at(0), at(100)) {
        (Workload::Metadata, Some(only), _) => only,
        (Workload::Metadata, None, _) => record.blank(&group(LoadLevel::High, workload, 0), variant),
        (_, None, None) => record.blank(&group(LoadLevel::High, workload, 0), variant),
        (_, read, write) => {
            let or_blank = |said: Option<String>, writes| {
                said.unwrap_or_else(|| record.blank(&group(LoadLevel::High, workload, writes), variant))
            };
            format!("{} → {}", or_blank(read, 0), or_blank(write, 100))
        }
    }
}

/// A table of an article. Its published figures are relative to sys; ours are to the baseline,
/// which the head of the rows names.
fn article(record: &Record, title: &str, how: &str) -> Table {
    let baseline = &record.settings.baseline;
    let how = match baseline.as_str() {
        "sys" => format!("{how} Everything is relative to sys."),
        _ => format!("{how} Our figures are relative to {baseline}, the published ones to sys."),
    };
    Table::by_variant(title, &how, &format!("relative to {baseline}"), &FLAVORS)
}

fn first(record: &Record) -> Table {
    let mut table = article(
        record,
        "Added latency at low load, and what is lost of the most",
        "The first article's table (Azure NetApp Files, 2021), our figures beside the published ones. Latencies are medians, averaged over the \
         sweep from pure read to pure write; arrows go from pure read to pure write.",
    );
    let mut pair = |name: &str, cell: &dyn Fn(&str) -> String, published: [&str; 3]| {
        table.measured(name, FLAVORS.iter().map(|variant| cell(variant)).collect());
        table.published(name, &published);
    };
    let low = |workload| move |variant: &str| added_latency(record, variant, workload);
    let high = |workload| move |variant: &str| changes(record, variant, workload);
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
    let mut table = article(
        record,
        "Averages over the workloads",
        "The later article's table, our figures beside the published ones. IOPS: mean change of random I/O and metadata at high load; throughput: of \
         sequential I/O at high load; latency: mean of what is added to the median at low load.",
    );
    let row = |value: &dyn Fn(&Cost) -> Option<String>, wanted: &dyn Fn(&CaseRecord) -> bool| {
        let cell = |variant: &str| match (value(&Cost::of(record, variant)), failed(record, variant, wanted))
        {
            (Some(value), (0, _)) => value,
            (Some(value), (failed, all)) => format!("{value}, without {failed} of {all}"),
            (None, (failed, _)) if failed > 0 => "failed".to_owned(),
            (None, _) => NONE.to_owned(),
        };
        FLAVORS.iter().map(|variant| cell(variant)).collect::<Vec<String>>()
    };
    let of = |unit: Unit| move |case: &CaseRecord| is_heavy(case) && case.unit == unit;
    table.measured(
        "IOPS",
        row(&|cost| cost.operations.map(MeanRatio::change), &of(Unit::OperationsPerSecond)),
    );
    table.published("IOPS", &["−53 %", "−55 %", "−77 %"]);
    table.measured(
        "throughput",
        row(&|cost| cost.throughput.map(MeanRatio::change), &of(Unit::MegabytesPerSecond)),
    );
    table.published("throughput", &["−53 %", "−55 %", "−77 %"]);
    let latency = |cost: &Cost| Some(added_or_none(cost.latency_us?, cost.latency_unsure));
    table.measured("latency", row(&latency, &is_light));
    table.published("latency", &["+0.2 ms", "+0.6 ms", "+1.6 ms"]);
    table
}

/// Returns the rates of the parts of the metadata load.
fn commands(record: &Record) -> Option<Table> {
    let (variants, baseline) = (record.variants(), &record.settings.baseline);
    let how = format!(
        "The parts of the metadata load at low load: file operations (a file made, written and closed is one), one after the other. In brackets as a \
         part of {baseline}'s, from repetitions that ran side by side; ≈ where no difference is shown, or one below the noise."
    );
    let mut table = Table::by_variant("Metadata by command", &how, "operations a second", &variants);
    let group = group(LoadLevel::Low, Workload::Metadata, 0);
    let base = record.variant(&group, baseline).filter(|base| base.figures.is_some());
    for command in ["clone", "status", "checkout", "commit", "gc", "remove"] {
        let [count, micros] = ["operations", "us"].map(|counter| format!("{command}_{counter}"));
        let rate = |sample: &Sample| {
            let micros = sample.counters.get(&micros).filter(|micros| **micros > 0)?;
            Some(*sample.counters.get(&count)? as f64 / (*micros as f64 / 1e6))
        };
        let cell = |variant: &&str| {
            let case = record.variant(&group, variant)?;
            let micros = Some(case.counter(&micros)).filter(|micros| *micros > 0)?;
            let said = digits(case.counter(&count) as f64 / (micros as f64 / 1e6));
            let base = base.filter(|base| base.variant != **variant);
            let ratio = base.and_then(|base| {
                compare(case.counted(), &base.samples, |own, base| Some(rate(own)? / rate(base)?))
            });
            let Some(ratio) = ratio else { return Some(said) };
            let is_unsure = !Verdict::of(&ratio, record.relative_noise()).is_significant();
            Some(format!("{said} ({})", unsure(is_unsure, percent(ratio.median))))
        };
        let cells =
            variants.iter().map(|variant| cell(variant).unwrap_or_else(|| record.blank(&group, variant)));
        table.measured(command, cells.collect());
    }
    Some(table)
}

/// Returns the ratios to the baseline at high load: a chart for each column of the later article,
/// and metadata.
fn left(record: &Record) -> Vec<Chart> {
    let is_metadata = |case: &CaseRecord| case.axes.workload() == Some(Workload::Metadata);
    let chart = |title: &str, unit: Unit, published: [f64; 3], wanted: &dyn Fn(&CaseRecord) -> bool| {
        let row = |(variant, published): (&str, f64)| {
            let mut parts = heavy(record, variant, unit);
            parts.retain(|(case, _)| wanted(case));
            average(record, variant, &parts, published)
        };
        let rows = FLAVORS.into_iter().zip(published).filter_map(row).collect();
        let section = format!("What is left of {} at high load", record.settings.baseline);
        ratio_chart(record, section, title, [RatioGroup { name: String::new(), rows }])
    };
    let (operations, bytes) = (Unit::OperationsPerSecond, Unit::MegabytesPerSecond);
    let averages = [0.47, 0.45, 0.23];
    let charts = [
        chart("IOPS: mean of random I/O and metadata", operations, averages, &|_| true),
        chart("Throughput: mean of sequential I/O", bytes, averages, &|_| true),
        chart("Metadata rate", operations, [0.7, 0.7, 0.7], &is_metadata),
    ];
    charts.into_iter().flatten().collect()
}

/// Averages the ratios of several cases. A single case keeps its interval and its repetitions.
fn average(record: &Record, variant: &str, parts: &[CaseAgainst<'_>], published: f64) -> Option<Ratio> {
    if let [(only, _)] = parts {
        return Some(Ratio { published: Some(published), ..ratio(record, only)? });
    }
    let MeanRatio { ratio, is_unsure } = MeanRatio::of(parts, record.relative_noise())?;
    Some(Ratio {
        variant: variant.to_owned(),
        value: ratio,
        range: None,
        parts: parts.iter().map(|(_, against)| against.ratio.median).collect(),
        published: Some(published),
        unsure: is_unsure,
    })
}

/// Returns a line for each variant over the percentages of writes: the highest rates, then
/// latencies.
fn sweeps(record: &Record) -> Vec<Chart> {
    use LoadLevel::{High, Low};
    use Workload::{Random, Sequential};
    let (requests, latency) = (limits::of_requests(record, 4096), limits::of_latency(record));
    let sweeps = [
        (High, Random, Figure::Rate, "Random 4 KiB, 64 in flight: IOPS", "IOPS", requests),
        (
            High,
            Sequential,
            Figure::Rate,
            "Sequential 1 MiB, 8 in flight: MB/s",
            "MB/s",
            limits::of_throughput(record),
        ),
        (Low, Random, Figure::Median, "Random 4 KiB, one at a time: median latency", "µs", latency.clone()),
        (Low, Sequential, Figure::Median, "Sequential 1 MiB, one at a time: median latency", "µs", latency),
    ];
    let chart = |(load, workload, figure, title, unit, limits)| {
        let wanted =
            |case: &CaseRecord| case.axes.level() == Some(load) && case.axes.workload() == Some(workload);
        let lines = lines(record, wanted, figure, |case, _| case.axes.writes().map(f64::from));
        let (x, y) = (Axis::linear("% writes"), Axis::linear(unit));
        Chart::of_lines("From pure read to pure write", title, Lines { x, y, lines, limits })
    };
    sweeps.into_iter().filter_map(chart).collect()
}
