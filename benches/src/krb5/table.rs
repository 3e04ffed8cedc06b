//! The table: a line for each row, and the same as JSON.

use super::limit::LaneCalibration;
use super::row::TokenRow;
use crate::output::{BenchOutput, Floor};
use bench::measuring::Interval;
use krb5::Cpu;
use serde_json::{Value, json};

/// The rates of a row in GB/s, one a round; none in a column that is missing or does not do the
/// row.
#[derive(Default)]
pub(super) struct RowRates {
    pub ours: Vec<f64>,
    /// MIT's library, two passes and one stitched pass by OpenSSL, libIPSec_MB.
    pub others: [Vec<f64>; COLUMNS],
}

/// How many columns there are beside ours.
pub(super) const COLUMNS: usize = 4;

impl RowRates {
    /// Returns how many times as fast as MIT we are: round by round, so that the machine's moods
    /// cancel.
    fn ratio_to_mit(&self) -> Option<Interval> {
        Interval::of(self.ours.iter().zip(&self.others[0]).map(|(ours, mit)| ours / mit))
    }

    /// Returns the better of two passes and one, and whether it is the latter.
    fn one_at_a_time(&self) -> Option<(f64, bool)> {
        let two_passes = median(&self.others[1])?;
        let stitched = median(&self.others[2]).filter(|stitched| *stitched > two_passes);
        Some(stitched.map_or((two_passes, false), |stitched| (stitched, true)))
    }
}

fn median(rates: &[f64]) -> Option<f64> {
    Some(Interval::of(rates.iter().copied())?.median)
}

/// Prints the rows of one path and keeps them for JSON: the first table as `rows`, another one
/// under its name.
pub(super) fn print(
    output: &mut BenchOutput,
    cpu: Cpu,
    measured: &[(TokenRow, RowRates)],
    calibration: &LaneCalibration,
) {
    println!(
        "\n{:34} {:>6} {:17} {:>6} {:>6}  {:>9} {:>7}  {:>6} {:>5}   floor, times MIT",
        format!("{cpu}: GB/s of plaintext"),
        "ours",
        "",
        "MIT",
        "x MIT",
        "one each",
        "many",
        "limit",
        "of it",
    );
    let mut slower = Vec::new();
    let mut rows = Vec::new();
    for (row, measured) in measured {
        let Some(line) = RowLine::new(cpu, row, measured, calibration) else { continue };
        println!("{}", line.text());
        rows.push(line.json());
        if row.count == 1 && line.one_at_a_time.is_some_and(|(rate, _)| line.ours.median < rate) {
            slower.push(line.name);
        }
    }
    let verdict = if slower.is_empty() { "none".to_owned() } else { slower.join(", ") };
    output.note(&format!("{cpu}: single messages slower than the best way one at a time: {verdict}"));
    output.table(cpu.name(), rows);
}

struct RowLine {
    name: String,
    ours: Interval,
    mit: Option<f64>,
    ratio: Option<Interval>,
    one_at_a_time: Option<(f64, bool)>,
    many: Option<f64>,
    limit: Option<f64>,
    floor: Option<Floor>,
}

impl RowLine {
    fn new(cpu: Cpu, row: &TokenRow, measured: &RowRates, calibration: &LaneCalibration) -> Option<Self> {
        Some(Self {
            name: row.name(),
            ours: Interval::of(measured.ours.iter().copied())?,
            mit: median(&measured.others[0]),
            ratio: measured.ratio_to_mit(),
            one_at_a_time: measured.one_at_a_time(),
            many: median(&measured.others[3]),
            limit: calibration.rates(cpu, row.enctype).map(|rates| rates.limit(row)),
            floor: row.floor(cpu).map(Floor::AtLeast),
        })
    }

    fn of_limit(&self) -> Option<f64> {
        self.limit.map(|limit| self.ours.median / limit)
    }

    fn text(&self) -> String {
        let figure = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.2}"));
        let one = self.one_at_a_time.map_or("-".to_owned(), |(rate, stitched)| {
            format!("{rate:.2}{}", if stitched { " (s)" } else { "    " })
        });
        let floor = self.floor.zip(self.ratio).map(|(floor, ratio)| floor.verdict(ratio.median));
        format!(
            "{:34} {:6.2} {:17} {:>6} {:>6}  {:>9} {:>7}  {:>6} {:>5}   {}",
            self.name,
            self.ours.median,
            format!("[{:.2} to {:.2}]", self.ours.low, self.ours.high),
            figure(self.mit),
            self.ratio.map_or("-".to_owned(), |ratio| format!("{:.1}", ratio.median)),
            one,
            figure(self.many),
            figure(self.limit),
            self.of_limit().map_or("-".to_owned(), |part| format!("{:.0}%", part * 100.0)),
            floor.unwrap_or_default(),
        )
        .trim_end()
        .to_owned()
    }

    fn json(&self) -> Value {
        json!({
            "row": self.name,
            "gb_per_s": self.ours.median,
            "gb_per_s_low": self.ours.low,
            "gb_per_s_high": self.ours.high,
            "ratio_to_mit": self.ratio.map(|ratio| ratio.median),
            "ratio_to_mit_low": self.ratio.map(|ratio| ratio.low),
            "ratio_to_mit_high": self.ratio.map(|ratio| ratio.high),
            "mit_gb_per_s": self.mit,
            "one_at_a_time_gb_per_s": self.one_at_a_time.map(|(rate, _)| rate),
            "one_at_a_time_stitched": self.one_at_a_time.map(|(_, stitched)| stitched),
            "multi_buffer_gb_per_s": self.many,
            "limit_gb_per_s": self.limit,
            "of_limit": self.of_limit(),
            "floor": self.floor.map(Floor::value),
            "met": self.floor.zip(self.ratio).map(|(floor, ratio)| floor.met(ratio.median)),
        })
    }
}
