//! `bench compare`: two runs side by side, and their significant differences.

mod page;
mod view;

pub use page::{compared_markdown, compared_page};

use bench::Unit;
use bench::measuring::{CaseRecord, Figures, Interval, Record, Verdict};
use serde::Serialize;

/// Version of the JSON form; a change that a reader must know about raises the number.
const SCHEMA: &str = "orthrus-bench-compare/1";

/// Judges the second of two medians of different runs: they differ when the intervals do not meet
/// and the medians are further apart than both machines' noise. Fewer than six repetitions never
/// show a difference.
fn verdict(one: &Interval, other: &Interval, noise: f64) -> Verdict {
    let ratio = other.median / one.median;
    if !one.is_apart_from(other) {
        Verdict::Same
    } else if (ratio - 1.0).abs() <= noise {
        Verdict::BelowNoise
    } else if ratio > 1.0 {
        Verdict::Higher
    } else {
        Verdict::Lower
    }
}

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
        let difference = verdict(&first, &second, noise);
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
    /// The cases of both runs, in the order of the first.
    pub cases: Vec<ComparedCase>,
}

impl Compared {
    /// Puts two records side by side; the names say which is which.
    pub fn of(names: [&str; 2], records: [&Record; 2]) -> Self {
        let noise = records.map(|record| record.relative_noise()).into_iter().sum();
        let [first, second] = records;
        let case = |one: &CaseRecord| {
            let (own, other) = one.figures.as_ref().zip(second.find(&one.case)?.figures.as_ref())?;
            let times = own.p50_us.zip(other.p50_us);
            Some(ComparedCase {
                group: one.case.group.clone(),
                variant: one.case.variant.clone(),
                unit: one.case.unit,
                rate: FigurePair::of(own.rate, other.rate, noise),
                p50_us: times.map(|(own, other)| FigurePair::of(own, other, noise)),
            })
        };
        let cases = first.cases.iter().filter_map(case).collect();
        let [one, other] = names;
        Self {
            schema: SCHEMA,
            noise,
            runs: [ComparedRun::of(one, first, second), ComparedRun::of(other, second, first)],
            cases,
        }
    }

    /// Renders it as JSON, indented, with a newline at the end.
    ///
    /// # Errors
    /// None in practice: all figures are finite.
    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }
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
