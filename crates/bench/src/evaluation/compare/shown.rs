//! How two runs are shown: the statement, what each costs beside its own baseline, all cases.

use super::{Compared, ComparedCase, Difference};
use crate::evaluation::cost::Cost;
use crate::measuring::Record;
use crate::view::form::{added_or_none, change, latency, mean_change, percent, rate, unsure};
use crate::view::{Chart, Kind, Plot, Ratio, RatioGroup, Ratios, Row, Table, View};

const NONE: &str = "–";

/// Groups in one chart at most.
const TOGETHER: usize = 5;

impl Compared {
    /// Shows it; the records are those that it was made of.
    pub fn view(&self, records: [&Record; 2]) -> View {
        let mut tables: Vec<Table> = costs(self, records).into_iter().collect();
        tables.push(all(self));
        tables.extend(alone(self));
        View { headline: self.statement(), tables, charts: charts(self) }
    }

    /// Says what differs significantly.
    pub fn statement(&self) -> String {
        let [first, second] = [&self.runs[0].name, &self.runs[1].name];
        let count =
            |wanted: Difference| self.cases.iter().filter(|case| case.rate.difference == wanted).count();
        let (more, less) = (count(Difference::Higher), count(Difference::Lower));
        let all = self.cases.len();
        if all == 0 {
            return "The two runs have no case in common.".to_owned();
        }
        if more + less == 0 {
            return format!("Nothing differs significantly in {all} cases.");
        }
        let middle = |wanted: Difference| {
            let cases = self.cases.iter().filter(|case| case.rate.difference == wanted);
            let mut ratios: Vec<f64> = cases.map(|case| case.rate.ratio).collect();
            ratios.sort_by(f64::total_cmp);
            ratios.get(ratios.len() / 2).copied().unwrap_or(1.0)
        };
        let part = |count: usize, middle: f64, direction: &str| match count {
            0 => "none".to_owned(),
            1 => format!("one (at {} of its rate)", percent(middle)),
            count => format!("{count} (in half of these at {} of its rate or {direction})", percent(middle)),
        };
        format!(
            "{second} is significantly slower than {first} in {} of {all} cases, and faster in {}.",
            part(less, middle(Difference::Lower), "less"),
            part(more, middle(Difference::Higher), "more")
        )
    }
}

/// What each side costs in each run, beside that run's own baseline.
fn costs(compared: &Compared, records: [&Record; 2]) -> Option<Table> {
    let [first, second] = records;
    let sides: Vec<&str> = first.sides().into_iter().filter(|side| second.sides().contains(side)).collect();
    let names = [&compared.runs[0].name, &compared.runs[1].name];
    let columns = ["beside its own baseline".to_owned()].into_iter().chain(
        ["IOPS", "throughput", "latency"].iter().flat_map(|what| names.map(|name| format!("{what}, {name}"))),
    );
    let columns: Vec<String> = columns.collect();
    let how = "Means over the cases of each run that look for the most, and of the median latency that is added at light load: ratios within a run do not depend on how \
               fast its machine was.";
    let mut table = Table::new(
        "What each costs in both runs",
        how,
        &columns.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    for side in sides.into_iter().filter(|side| *side != first.settings.baseline) {
        let costs =
            records.map(|record| (Cost::of(record, side), record.noise.map_or(0.0, |noise| noise.relative)));
        let cells = [
            costs.map(|(cost, noise)| Some(mean_change(cost.operations?, noise))),
            costs.map(|(cost, noise)| Some(mean_change(cost.throughput?, noise))),
            costs.map(|(cost, _)| Some(added_or_none(cost.latency_us?, cost.latency_unsure))),
        ];
        let cells: Vec<Option<String>> = cells.into_iter().flatten().collect();
        if cells.iter().any(Option::is_some) {
            table.measured(side, cells.into_iter().map(|cell| cell.unwrap_or_else(|| NONE.into())).collect());
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

fn all(compared: &Compared) -> Table {
    let [first, second] = [&compared.runs[0].name, &compared.runs[1].name];
    let how = format!(
        "Rates and median latencies of {second} beside those of {first}. The runs did not run side by side: a difference is called significant when the \
         intervals do not meet and the medians are further apart than the noise of both runs together (±{}); ≈ marks what is not.",
        percent(compared.noise)
    );
    let times = [first, second].map(|name| format!("p50, {name}"));
    let columns = ["", first, second, "change", &times[0], &times[1], "change of p50", "rate"];
    let mut table = Table::new("All cases of both runs", &how, &columns);
    for group in compared.cases.chunk_by(|one, other| one.group == other.group) {
        let name = group.first().map_or(String::new(), |case| case.group.clone());
        table.rows.push(Row { name, kind: Kind::Head, ..Row::default() });
        group.iter().for_each(|case| table.measured(case.side.clone(), cells(case)));
    }
    table
}

fn cells(case: &ComparedCase) -> Vec<String> {
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
    cells.extend(times.unwrap_or_else(|| [NONE, NONE, NONE].map(str::to_owned)));
    cells.push(pair.difference.words().to_owned());
    cells
}

/// What only one of them has.
fn alone(compared: &Compared) -> Option<Table> {
    let how = "Cases that only one run has figures of; they are not compared.";
    let mut table = Table::new("Not in both", how, &["case", "only in"]);
    for run in &compared.runs {
        run.alone.iter().for_each(|case| table.measured(case.clone(), vec![run.name.clone()]));
    }
    (!table.rows.is_empty()).then_some(table)
}

/// Rates of the second run as parts of the first's.
fn charts(compared: &Compared) -> Vec<Chart> {
    let [first, second] = [&compared.runs[0].name, &compared.runs[1].name];
    let row = |case: &ComparedCase| Ratio {
        side: case.side.clone(),
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
    let chart = |groups: &[RatioGroup]| Chart {
        section: format!("Rates of {second} as parts of those of {first}"),
        title: match groups {
            [only] => only.name.clone(),
            [from, .., to] => format!("{} to {}", from.name, to.name),
            [] => String::new(),
        },
        plot: Plot::Ratios(Ratios {
            baseline: "first".to_owned(),
            noise: compared.noise,
            groups: groups.to_vec(),
        }),
    };
    groups.chunks(TOGETHER).map(chart).collect()
}
