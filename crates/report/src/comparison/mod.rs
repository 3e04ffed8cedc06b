//! `bench compare`: two runs side by side, and their significant differences.

mod notes;
mod page;
mod view;

pub use page::{compared_markdown, compared_page};

use bench::Unit;
use bench::measuring::{CaseRecord, Figures, Interval, Load, Record, Verdict};
use notes::notes;
use serde::Serialize;
use serde_json::Value;

/// Version of the JSON form; a change that a reader must know about raises the number.
const SCHEMA: &str = "orthrus-bench-compare/1";

/// A figure of both runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FigurePair {
    /// The interval of the first run.
    pub first: Interval,
    /// The interval of the second run.
    pub second: Interval,
    /// The second median as a part of the first.
    pub ratio: f64,
    /// The verdict on the difference.
    pub difference: Verdict,
}

impl FigurePair {
    fn of(first: Interval, second: Interval, noise: f64) -> Self {
        let difference = Verdict::between(&first, &second, noise);
        Self { first, second, ratio: second.median / first.median, difference }
    }

    /// Where the ratio may be if each median may be anywhere in its interval.
    fn range(&self) -> (f64, f64) {
        (self.second.low / self.first.high, self.second.high / self.first.low)
    }
}

/// A case that both runs have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedCase {
    /// The load of the case.
    pub group: String,
    /// The variant of the case.
    #[serde(rename = "side")]
    pub variant: String,
    /// The unit of the rate.
    pub unit: Unit,
    /// The rates of both runs.
    pub rate: FigurePair,
    /// The median latencies in microseconds.
    pub p50_us: Option<FigurePair>,
    /// Whether the requests are due at a fixed rate, so that runs differ in their latencies.
    #[serde(skip)]
    is_scheduled: bool,
}

/// A case of both runs with different loads, so that its figures do not compare.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IncomparableCase {
    /// The name of the load.
    pub group: String,
    /// The variant of the case.
    #[serde(rename = "side")]
    pub variant: String,
    /// The fields of the load that differ, as in the JSON of a run.
    pub differs: Vec<String>,
}

/// One of the runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedRun {
    /// The name of the run: its file.
    pub name: String,
    /// The title of the run.
    pub title: String,
    /// The server that was measured.
    pub target: String,
    /// Seconds since 1970 at the start.
    pub started_at: u64,
    /// The command that repeats it.
    pub command: String,
    /// Whether all was measured.
    pub complete: bool,
    /// Cases that only this run has figures of.
    pub alone: Vec<String>,
}

/// Two runs side by side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    schema: &'static str,
    /// Differences below this fraction are noise: the noise of both machines together.
    pub noise: f64,
    /// The first run, and the second.
    pub runs: [ComparedRun; 2],
    /// Sentences that a reader must know.
    pub notes: Vec<String>,
    /// The cases of both runs, in the order of the first.
    pub cases: Vec<ComparedCase>,
    /// The cases of both runs that have another load in each.
    pub not_comparable: Vec<IncomparableCase>,
}

impl Compared {
    /// Puts two records side by side; the names say which is which.
    pub fn of(names: [&str; 2], records: [&Record; 2]) -> Self {
        let noise = records.map(|record| record.relative_noise()).into_iter().sum();
        let [first, second] = records;
        let (mut cases, mut not_comparable) = (Vec::new(), Vec::new());
        for one in &first.cases {
            let Some(other) = second.find(&one.case) else { continue };
            let Some(figures) = one.figures.as_ref().zip(other.figures.as_ref()) else { continue };
            match one.load == other.load {
                true => cases.push(ComparedCase::of(one, figures, noise)),
                false => not_comparable.push(IncomparableCase::of(one, other)),
            }
        }
        let [one, other] = names;
        let notes = notes(names, records, &cases);
        let runs = [ComparedRun::of(one, first, second), ComparedRun::of(other, second, first)];
        Self { schema: SCHEMA, noise, runs, notes, cases, not_comparable }
    }

    /// Renders it as JSON, indented, with a newline at the end.
    ///
    /// # Errors
    /// None in practice: all figures are finite.
    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }
}

impl ComparedCase {
    fn of(case: &CaseRecord, (first, second): (&Figures, &Figures), noise: f64) -> Self {
        let times = first.p50_us.zip(second.p50_us);
        Self {
            group: case.group.clone(),
            variant: case.variant.clone(),
            unit: case.unit,
            rate: FigurePair::of(first.rate, second.rate, noise),
            p50_us: times.map(|(first, second)| FigurePair::of(first, second, noise)),
            is_scheduled: matches!(&case.load, Load::Transfer(transfer) if transfer.rate.is_some()),
        }
    }
}

impl IncomparableCase {
    fn of(first: &CaseRecord, second: &CaseRecord) -> Self {
        Self {
            group: first.group.clone(),
            variant: first.variant.clone(),
            differs: differing_fields(&first.load, &second.load),
        }
    }
}

/// Names the fields in which two loads differ, as in the JSON of a run.
fn differing_fields(first: &Load, second: &Load) -> Vec<String> {
    let [first, second] = [first, second].map(|load| serde_json::to_value(load).unwrap_or_default());
    let names = [&first, &second].into_iter().filter_map(Value::as_object).flat_map(|load| load.keys());
    let mut differs: Vec<String> =
        names.filter(|name| first.get(name) != second.get(name)).cloned().collect();
    differs.sort();
    differs.dedup();
    differs
}

impl ComparedRun {
    fn of(name: &str, record: &Record, other: &Record) -> Self {
        let figures = |one: &CaseRecord| -> Option<Figures> { other.find(&one.case)?.figures.clone() };
        let alone = record.cases.iter().filter(|one| one.figures.is_some() && figures(one).is_none());
        Self {
            name: name.to_owned(),
            title: record.title.clone(),
            target: record.target.clone(),
            started_at: record.started_at,
            command: record.command.clone(),
            complete: record.complete,
            alone: alone.map(|one| one.case.id()).collect(),
        }
    }
}
