//! The page of a comparison: the statement, the costs against each run's baseline, all cases.

use super::{Compared, ComparedCase, FigurePair};
use crate::cost::{Cost, is_compared};
use crate::form::{added_or_none, change, latency, percent, rate, unsure};
use crate::ratios::WIDE;
use crate::{Chart, PageView, Plot, Ratio, RatioGroup, Ratios, RowKind, Table, TableRow};
use bench::measuring::{Record, Verdict};

const NONE: &str = "–";

/// The figures that a variant changes.
const WHAT: [&str; 3] = ["IOPS", "throughput", "latency"];

/// Groups in one chart at most.
const TOGETHER: usize = 3;

impl Compared {
    /// Makes the page; `records` are the compared ones.
    pub fn view(&self, records: [&Record; 2]) -> PageView {
        let mut tables: Vec<Table> = costs(self, records).into_iter().collect();
        tables.push(all(self));
        tables.extend(not_compared(self));
        PageView { headline: self.statement(), tables, charts: charts(self) }
    }

    /// Returns a sentence on the significant differences: in rates, and on a fixed schedule in the
    /// median latencies.
    pub fn statement(&self) -> String {
        let [first, second] = [&self.runs[0].name, &self.runs[1].name];
        let all = self.cases.len();
        if all == 0 {
            return "The two runs have no case to compare.".to_owned();
        }
        let (slower, faster) =
            (ChangedCases::of(self, SpeedChange::Slower), ChangedCases::of(self, SpeedChange::Faster));
        let differ = slower.cases() + faster.cases();
        if differ == 0 {
            return format!("Nothing differs significantly in {all} cases.");
        }
        format!(
            "Of {all} cases, {second} is slower in {} and faster in {} compared with {first}; {} show no significant difference.",
            slower.words(),
            faster.words(),
            all - differ
        )
    }
}

/// The direction in which the second run differs from the first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SpeedChange {
    Slower,
    Faster,
}

impl SpeedChange {
    /// Judges a case; `None` without a significant difference.
    fn of(case: &ComparedCase) -> Option<Self> {
        let (figure, lower, higher) = match case.scheduled_latency() {
            Some(latency) => (latency, Self::Faster, Self::Slower),
            None => (case.rate, Self::Slower, Self::Faster),
        };
        match figure.difference {
            Verdict::Lower => Some(lower),
            Verdict::Higher => Some(higher),
            _ => None,
        }
    }
}

/// The ratios of the cases in which the second run is slower, or faster.
struct ChangedCases {
    rates: Vec<f64>,
    latencies: Vec<f64>,
}

impl ChangedCases {
    fn of(compared: &Compared, change: SpeedChange) -> Self {
        let (mut rates, mut latencies) = (Vec::new(), Vec::new());
        for case in compared.cases.iter().filter(|case| SpeedChange::of(case) == Some(change)) {
            match case.scheduled_latency() {
                Some(latency) => latencies.push(latency.ratio),
                None => rates.push(case.rate.ratio),
            }
        }
        Self { rates, latencies }
    }

    fn cases(&self) -> usize {
        self.rates.len() + self.latencies.len()
    }

    /// The number of cases, and their median ratios: `3 (median 75 % of the rate)`.
    fn words(&self) -> String {
        let median = |ratios: &[f64], figure: &str| {
            let mut ratios = ratios.to_vec();
            ratios.sort_by(f64::total_cmp);
            let ratio = ratios.get(ratios.len() / 2)?;
            Some(format!("{} of the {figure}", percent(*ratio)))
        };
        let medians = [median(&self.rates, "rate"), median(&self.latencies, "latency")];
        let medians: Vec<String> = medians.into_iter().flatten().collect();
        match medians.is_empty() {
            true => self.cases().to_string(),
            false => format!("{} (median {})", self.cases(), medians.join(", ")),
        }
    }
}

impl ComparedCase {
    /// The latencies of a case on a fixed schedule, whose rates tell nothing as long as both
    /// servers keep up.
    fn scheduled_latency(&self) -> Option<FigurePair> {
        self.p50_us.filter(|_| self.is_scheduled)
    }
}

/// Returns the costs of each variant in each run, against that run's own baseline, over the cases
/// that both runs have.
fn costs(compared: &Compared, records: [&Record; 2]) -> Option<Table> {
    let [first, second] = records;
    let variants: Vec<&str> =
        first.variants().into_iter().filter(|variant| second.variants().contains(variant)).collect();
    let names = [&compared.runs[0].name, &compared.runs[1].name];
    let how = "Means over the cases that both runs have: of rates where a case looks for the most, and of the median latency that is added at light \
               load. Ratios within a run do not depend on the speed of its machine.";
    let is_common = |group: &str, variant: &str| {
        let is_same = |case: &ComparedCase| case.group == group && case.variant == variant;
        compared.cases.iter().any(is_same) && records.iter().all(|record| is_compared(record, group, variant))
    };
    let cells = |what: usize, variant: &str| {
        records.map(|record| {
            let cost = Cost::over(record, variant, |group| is_common(group, variant));
            match what {
                0 => Some(cost.operations?.change()),
                1 => Some(cost.throughput?.change()),
                _ => Some(added_or_none(cost.latency_us?, cost.latency_unsure)),
            }
        })
    };
    let variants: Vec<&str> =
        variants.into_iter().filter(|variant| *variant != first.settings.baseline).collect();
    // Figures that both runs lack need no column.
    let measured =
        |what: &usize| variants.iter().any(|variant| cells(*what, variant).iter().any(Option::is_some));
    let wanted: Vec<usize> = (0..WHAT.len()).filter(measured).collect();
    let columns = wanted.iter().filter_map(|what| WHAT.get(*what));
    let columns: Vec<String> = columns.flat_map(|what| names.map(|name| format!("{what}, {name}"))).collect();
    let columns: Vec<&str> =
        ["beside its own baseline"].into_iter().chain(columns.iter().map(String::as_str)).collect();
    let mut table = Table::new("What each costs in both runs", how, &columns);
    for variant in &variants {
        let cells = wanted.iter().flat_map(|what| cells(*what, variant));
        table.measured(*variant, cells.map(|cell| cell.unwrap_or_else(|| NONE.into())).collect());
    }
    (!wanted.is_empty()).then_some(table)
}

fn all(compared: &Compared) -> Table {
    let [first, second] = [&compared.runs[0].name, &compared.runs[1].name];
    let how = format!(
        "Rates and median latencies of {second} beside those of {first}. The runs did not run side by side: a difference is called significant when the \
         intervals do not meet and the medians are further apart than the noise of both runs together (±{}); ≈ marks what is not.",
        percent(compared.noise)
    );
    let [before, after] = [first, second].map(|name| format!("p50, {name}"));
    let timed = compared.cases.iter().any(|case| case.p50_us.is_some());
    let mut columns = vec!["", first, second, "change"];
    columns.extend(if timed { vec![before.as_str(), &after, "change of p50"] } else { Vec::new() });
    columns.push("rate");
    let mut table = Table::new("All cases of both runs", &how, &columns);
    for group in compared.cases.chunk_by(|one, other| one.group == other.group) {
        let name = group.first().map_or(String::new(), |case| case.group.clone());
        table.rows.push(TableRow { name, kind: RowKind::Head, ..TableRow::default() });
        group.iter().for_each(|case| table.measured(case.variant.clone(), cells(case, timed)));
    }
    table
}

fn cells(case: &ComparedCase, timed: bool) -> Vec<String> {
    let pair = case.rate;
    let times = case.p50_us.map(|pair| {
        let said = unsure(!pair.difference.is_significant(), change(pair.ratio));
        [latency(pair.first.median), latency(pair.second.median), said]
    });
    let mut cells = vec![
        rate(pair.first.median, case.unit),
        rate(pair.second.median, case.unit),
        unsure(!pair.difference.is_significant(), change(pair.ratio)),
    ];
    if timed {
        cells.extend(times.unwrap_or_else(|| [NONE, NONE, NONE].map(str::to_owned)));
    }
    cells.push(pair.difference.words().to_owned());
    cells
}

/// Returns the cases that have another load in each run, and those that only one run has.
fn not_compared(compared: &Compared) -> Option<Table> {
    let how = "Cases with another load in each run, and cases that only one run has figures of.";
    let mut table = Table::new("Not comparable", how, &["case", "why"]);
    for case in &compared.not_comparable {
        let why = format!("another load: {}", case.differs.join(", "));
        table.measured(format!("{} · {}", case.group, case.variant), vec![why]);
    }
    for run in &compared.runs {
        run.alone.iter().for_each(|case| table.measured(case.clone(), vec![format!("only in {}", run.name)]));
    }
    table.unless_empty()
}

/// Rates of the second run as parts of the first's.
fn charts(compared: &Compared) -> Vec<Chart> {
    let [first, second] = [&compared.runs[0].name, &compared.runs[1].name];
    let row = |case: &ComparedCase| Ratio {
        variant: case.variant.clone(),
        value: case.rate.ratio,
        range: Some(case.rate.range()),
        unsure: !case.rate.difference.is_significant(),
        ..Ratio::default()
    };
    let groups = compared.cases.chunk_by(|one, other| one.group == other.group).map(|cases| RatioGroup {
        name: cases.first().map_or(String::new(), |case| case.group.clone()),
        rows: cases.iter().map(row).collect(),
    });
    let groups: Vec<RatioGroup> = groups.collect();
    let rates = || compared.cases.iter().map(|case| case.rate);
    // As in a single chart, a linear axis cuts long intervals, and a logarithmic one holds them.
    let end = if rates().any(|rate| rate.ratio > WIDE) { f64::INFINITY } else { WIDE };
    let least = rates().map(|rate| rate.range().0.min(rate.ratio)).fold(1.0, f64::min);
    let most = rates().map(|rate| rate.range().1.min(end).max(rate.ratio)).fold(1.0, f64::max);
    let span = Some((least, most));
    let all = groups.len();
    let chart = |(index, some): (usize, &[RatioGroup])| {
        let (from, to) = (index * TOGETHER + 1, index * TOGETHER + some.len());
        let (baseline, noise, groups) = (first.clone(), compared.noise, some.to_vec());
        Chart {
            section: format!("Rates of {second} as parts of those of {first}"),
            title: if from == to {
                format!("Load {from} of {all}")
            } else {
                format!("Loads {from} to {to} of {all}")
            },
            plot: Plot::Ratios(Ratios { baseline, noise, groups, span }),
        }
    };
    groups.chunks(TOGETHER).enumerate().map(chart).collect()
}
