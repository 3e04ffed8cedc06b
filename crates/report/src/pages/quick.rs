//! The page of `quick`: a figure a row for the terminal, a flavor a column for the page, and charts
//! over all loads.

use super::PageSpec;
use crate::cost::headline;
use crate::figures::time_cells;
use crate::form::{latency, part, percent, percent_range, rate, trust, unsure};
use crate::{
    ALL, Chart, Figure, LatencySpan, LoadPart, LoadParts, Plot, Spans, Table, VariantPart, beside, busy_bars,
    limits, rate_bars,
};
use bench::evaluation::QUICK;
use bench::measuring::{CaseRecord, Comparison, Figures, Record};

const NONE: &str = "–";

/// Names of the sections.
const LATENCY: &str = "Latency";
const CPU: &str = "Processor time";

/// The page of `quick`.
pub(super) const PAGE: PageSpec = PageSpec {
    evaluation: QUICK,
    headline,
    tables: &[figures, speed],
    charts: &[
        beside,
        rate_bars,
        |record| {
            let median = |case: &CaseRecord| Some(case.figures.as_ref()?.p50_us?.median);
            overview(record, LATENCY, "median latency", median, |figures, noise| {
                Figure::Median.is_unsure(figures, noise)
            })
        },
        |record| record.groups().into_iter().filter_map(|group| spans(record, group)).collect(),
        |record| overview(record, CPU, "processor time of both ends", cpu_of_both, shows_no_cpu),
        |record| busy_bars(record, |_| true),
    ],
};

fn against(case: &CaseRecord) -> Option<&Comparison> {
    case.figures.as_ref()?.against.as_ref()
}

/// Without the server's it is the client's alone, for all variants alike.
fn cpu_of_both(case: &CaseRecord) -> Option<f64> {
    let figures = case.figures.as_ref()?;
    let sum = figures.client_cpu?.median + figures.server_cpu.map_or(0.0, |cpu| cpu.median);
    (sum > 0.0).then_some(sum)
}

/// Says whether a variant shows no more or less processor time than the baseline at either end, or
/// a difference below the noise.
fn shows_no_cpu(figures: &Figures, noise: f64) -> bool {
    let Some(against) = &figures.against else { return false };
    let ends =
        [(against.added_client_cpu, figures.client_cpu), (against.added_server_cpu, figures.server_cpu)];
    let known = ends.iter().filter_map(|(added, own)| Some((added.as_ref()?, own.as_ref()?.median)));
    let (mut added, mut own, mut is_shown) = (0.0, 0.0, false);
    for (difference, median) in known {
        added += difference.median;
        own += median;
        is_shown |= difference.excludes(0.0);
    }
    !is_shown || added.abs() <= noise * (own - added)
}

/// All figures, for 100 columns of a terminal.
fn figures(record: &Record) -> Option<Table> {
    let base = format!("to {}", record.settings.baseline);
    let columns = ["", "rate", base.as_str(), "", "p50", "p99", "client CPU", "server CPU"];
    let how = "The column after the ratio has its interval, or says that no difference is shown; for the baseline it has the precision of the rate.";
    let mut table = Table::new(ALL, how, &columns);
    for group in record.groups() {
        table.group(group);
        let own = record.cases.iter().filter(|case| case.group == group);
        for case in own {
            let variant = &case.variant;
            match &case.figures {
                Some(figures) => table.measured(variant.clone(), cells(case, figures)),
                None => table.measured(variant.clone(), vec![record.blank(group, variant)]),
            }
        }
    }
    Some(table)
}

fn cells(case: &CaseRecord, figures: &Figures) -> Vec<String> {
    let [ratio, shown] = match &figures.against {
        None => [NONE.to_owned(), trust(&figures.rate)],
        Some(against) if against.verdict.is_significant() => {
            [percent(against.ratio.median), percent_range(&against.ratio)]
        }
        Some(against) => [percent(against.ratio.median), against.verdict.words().to_owned()],
    };
    let cells = [rate(figures.rate.median, case.unit), ratio, shown];
    cells.into_iter().chain(time_cells(case.unit, figures)).collect()
}

/// Returns the rates, a column for each flavor, with the ratio to the baseline in brackets.
fn speed(record: &Record) -> Option<Table> {
    let (variants, baseline) = (record.variants(), &record.settings.baseline);
    let how = format!(
        "Median rates, in brackets as a part of {baseline}'s, from repetitions that ran side by side; ≈ where no difference is shown, \
         or one below the noise."
    );
    let mut table = Table::by_variant("Speed by flavor", &how, "", &variants);
    for group in record.groups() {
        let cell = |variant: &&str| {
            let case = record.variant(group, variant)?;
            let own = rate(case.rate()?, case.unit);
            let Some(against) = against(case) else { return Some(own) };
            // The unit stands with the baseline.
            let own = own.rsplit_once(' ').map_or(own.as_str(), |(figure, _)| figure);
            Some(format!("{own} ({})", part(against)))
        };
        let cells: Vec<Option<String>> = variants.iter().map(cell).collect();
        if cells.iter().any(Option::is_some) {
            let cells = variants.iter().zip(cells);
            let cells = cells.map(|(variant, cell)| cell.unwrap_or_else(|| record.blank(group, variant)));
            table.measured(group, cells.collect());
        }
    }
    Some(table)
}

/// One figure of all loads, as parts of the baseline's.
fn overview(
    record: &Record,
    section: &str,
    what: &str,
    figure: fn(&CaseRecord) -> Option<f64>,
    is_unsure: fn(&Figures, f64) -> bool,
) -> Vec<Chart> {
    let (baseline, noise) = (&record.settings.baseline, record.relative_noise());
    let row = |group: &str| {
        let base = record.variant(group, baseline)?;
        let others = record.cases.iter().filter(|case| case.group == group && case.variant != *baseline);
        let part = |case: &CaseRecord| {
            let part = Some(figure(case)? / figure(base)?).filter(|part| part.is_finite())?;
            let unsure = is_unsure(case.figures.as_ref()?, noise);
            Some(VariantPart { variant: case.variant.clone(), part, unsure })
        };
        let parts: Vec<VariantPart> = others.filter_map(part).collect();
        (!parts.is_empty()).then(|| LoadPart { name: group.to_owned(), parts })
    };
    let rows: Vec<LoadPart> = record.groups().into_iter().filter_map(row).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let title = format!("All loads, {what} as a part of {baseline}");
    vec![Chart::new(section, title, Plot::LoadParts(LoadParts { baseline: baseline.clone(), rows }))]
}

fn spans(record: &Record, group: &str) -> Option<Chart> {
    let span = |case: &CaseRecord| {
        let figures = case.figures.as_ref()?;
        let (p50, p99) = (figures.p50_us?.median, figures.p99_us?.median);
        let is_unsure = Figure::Median.is_unsure(figures, record.relative_noise());
        let said = [format!("p50 {}", unsure(is_unsure, latency(p50))), format!("p99 {}", latency(p99))];
        Some(LatencySpan { variant: case.variant.clone(), ends: [p50, p99], said, unsure: is_unsure })
    };
    let own = record.cases.iter().filter(|case| case.group == group);
    let spans: Vec<LatencySpan> = own.filter_map(span).collect();
    let plot = |spans| Plot::Spans(Spans { spans, limits: limits::of_latency(record) });
    (!spans.is_empty()).then(|| Chart::new(LATENCY, group, plot(spans)))
}
