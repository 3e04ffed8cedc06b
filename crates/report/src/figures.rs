//! The common tables of all evaluations: all figures, processor time, limits and noise of the
//! machine.

use super::Table;
use super::chart::{Bar, Bars, Chart, RatioGroup};
use super::form::{self, cpu_unit, digits, latency, rate, trust};
use super::limits;
use super::series::{is_unsure, ratio_chart, ratio_group};
use bench::measuring::{CaseRecord, Figures, Interval, Record, Unit};

/// Title of the table of all figures.
pub(crate) const ALL: &str = "All figures";

/// All figures, a row for each case.
pub(crate) fn figures_table(record: &Record) -> Option<Table> {
    let columns = ["case", "rate", "", "to the baseline", "", "p50", "p99", "client CPU", "server CPU"];
    let mut table = Table::new(ALL, "", &columns);
    for case in &record.cases {
        cells_or_reason(record, case).into_iter().for_each(|cells| table.measured(case.id(), cells));
    }
    Some(table)
}

/// The cells of a case in the table of all figures; of one that failed the reason in the place of
/// its rate.
pub(crate) fn cells_or_reason(record: &Record, case: &CaseRecord) -> Option<Vec<String>> {
    figure_cells(case).or_else(|| {
        let reason = record.failure(&case.group, &case.variant)?.brief();
        let nothing = std::iter::repeat_n(String::new(), 7);
        Some(std::iter::once(reason).chain(nothing).collect())
    })
}

/// The cells of a case in the table of all figures; none without a sample that counts.
fn figure_cells(case: &CaseRecord) -> Option<Vec<String>> {
    let figures = case.figures.as_ref()?;
    let against = figures.against.as_ref();
    let cells = [
        rate(figures.rate.median, case.unit),
        trust(&figures.rate),
        against.map_or("–".to_owned(), form::part),
        against.map_or(String::new(), |against| {
            let range = form::percent_range(&against.ratio);
            let verdict = against.verdict;
            if verdict.is_significant() { range } else { format!("{range}, {}", verdict.words()) }
        }),
    ];
    Some(cells.into_iter().chain(time_cells(case.unit, figures)).collect())
}

/// The cells of median, 99th percentile, and processor time of client and server.
pub(crate) fn time_cells(unit: Unit, figures: &Figures) -> [String; 4] {
    let time = |interval: Option<Interval>| interval.map_or("–".to_owned(), |time| latency(time.median));
    let cpu = |interval: Option<Interval>| {
        interval.map_or("unknown".to_owned(), |cpu| format!("{} {}", digits(cpu.median), cpu_unit(unit)))
    };
    let Figures { p50_us, p99_us, client_cpu, server_cpu, .. } = figures;
    [time(*p50_us), time(*p99_us), cpu(*client_cpu), cpu(*server_cpu)]
}

/// Groups in one chart at most, so that it stays as high as it is wide.
const TOGETHER: usize = 4;

/// All groups beside the baseline.
pub(crate) fn beside(record: &Record) -> Vec<Chart> {
    let groups = record.groups().into_iter().map(|name| ratio_group(record, name, |_| true));
    let groups: Vec<RatioGroup> = groups.filter(|group| !group.rows.is_empty()).collect();
    let baseline = &record.settings.baseline;
    let (section, title) = (format!("What is left of {baseline}"), format!("Rates beside {baseline}"));
    let chart = |(index, some): (usize, &[RatioGroup])| {
        let from = index * TOGETHER;
        let title = match groups.len() {
            all if all > TOGETHER => format!("{title}: loads {} to {} of {all}", from + 1, from + some.len()),
            _ => title.clone(),
        };
        ratio_chart(record, &section, title, some.to_vec())
    };
    groups.chunks(TOGETHER).enumerate().filter_map(chart).collect()
}

/// Makes bars, one chart for each group, of the cases that `wanted` selects. `bars` makes a group's
/// chart without bars from one of its cases.
fn bar_charts(
    record: &Record,
    section: &str,
    wanted: impl Fn(&CaseRecord) -> bool,
    bar: impl Fn(&CaseRecord) -> Option<Bar>,
    bars: impl Fn(&CaseRecord) -> Bars,
) -> Vec<Chart> {
    let chart = |group: &str| {
        let mut own = record.cases.iter().filter(|case| case.group == group);
        let chart = bars(own.clone().next()?);
        let drawn = |case: &CaseRecord| bar(case).or_else(|| failed_bar(record, case));
        let bars = own.by_ref().filter(|case| wanted(case)).filter_map(drawn).collect();
        Chart::of_bars(section, group, Bars { bars, ..chart })
    };
    record.groups().into_iter().filter_map(chart).collect()
}

/// Rates as bars, one chart for each group.
pub(crate) fn rate_bars(record: &Record) -> Vec<Chart> {
    let bar = |case: &CaseRecord| {
        let figures = case.figures.as_ref()?;
        let ratio = figures.against.as_ref().map(form::part);
        Some(Bar {
            variant: case.variant.clone(),
            parts: [Some(figures.rate.median), None],
            range: Some((figures.rate.low, figures.rate.high)),
            said: [rate(figures.rate.median, case.unit), ratio.unwrap_or_default()],
            unsure: figures.against.as_ref().is_some_and(is_unsure),
        })
    };
    let bars = |case: &CaseRecord| Bars { limits: limits::of_case(record, case), ..Bars::default() };
    bar_charts(record, "Speed", |_| true, bar, bars)
}

/// Processor time of both ends as bars, one chart for each group that is asked for.
pub(crate) fn busy_bars(record: &Record, wanted: impl Fn(&CaseRecord) -> bool) -> Vec<Chart> {
    let bars = |case: &CaseRecord| Bars {
        parts: ["server".to_owned(), "client".to_owned()],
        unit: cpu_unit(case.unit).to_owned(),
        ..Bars::default()
    };
    bar_charts(record, "Processor time", wanted, busy_bar, bars)
}

/// No bar, and in its place why there is none.
fn failed_bar(record: &Record, case: &CaseRecord) -> Option<Bar> {
    let reason = record.failure(&case.group, &case.variant)?.brief();
    Some(Bar { variant: case.variant.clone(), said: [reason, String::new()], ..Bar::default() })
}

fn busy_bar(case: &CaseRecord) -> Option<Bar> {
    let figures = case.figures.as_ref()?;
    let (server, client) =
        (figures.server_cpu.map(|cpu| cpu.median), figures.client_cpu.map(|cpu| cpu.median));
    let unit = cpu_unit(case.unit);
    let said = |name: &str, value: Option<f64>| {
        value.map_or(format!("{name} unknown"), |value| format!("{name} {} {unit}", digits(value)))
    };
    Some(Bar {
        variant: case.variant.clone(),
        parts: [server, client],
        said: [said("server", server), said("client", client)],
        ..Bar::default()
    })
}

/// Describes the steadiness of the machine, and the consequence for the figures.
pub(crate) fn noise_sentence(record: &Record) -> String {
    let Some(noise) = record.noise else {
        return "The machine's noise was not measured: the run was too short.".to_owned();
    };
    // On a fixed schedule all that keep up have the same rate.
    let unscheduled = |case: &&CaseRecord| case.counted().all(|sample| sample.offered.is_none());
    let compared = || {
        let cases = record.cases.iter().filter(unscheduled);
        cases.filter_map(|case| case.figures.as_ref()?.against.as_ref())
    };
    let hidden = compared().filter(|against| !against.verdict.is_significant()).count();
    let said = format!(
        "The same piece of work, timed {} times during the run, varied by {}: smaller differences are noise.",
        noise.calibrations,
        form::within(noise.relative)
    );
    match (hidden, compared().count()) {
        (_, 0) => said,
        (0, _) => format!("{said} All differences to the baseline are larger."),
        (hidden, all) => format!(
            "{said} Of {all} differences to the baseline, {hidden} are smaller or not shown by their interval."
        ),
    }
}
