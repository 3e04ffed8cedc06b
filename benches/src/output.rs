//! Figures as lines of text and as JSON.

use bench::Environment;
use bench::measuring::Interval;
use report::form::digits;
use serde_json::{Map, Value, json};
use std::path::Path;
use std::process::Command;

/// A bound on a figure.
#[derive(Clone, Copy)]
pub(crate) enum Floor {
    /// The figure must not exceed this.
    AtMost(f64),
    /// The figure must reach this.
    AtLeast(f64),
}

impl Floor {
    /// Returns whether a value reaches it.
    pub(crate) fn met(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
        }
    }

    /// Describes the bound and whether the figure keeps it.
    pub(crate) fn verdict(self, value: f64) -> String {
        let verdict = if self.met(value) { "met" } else { "NOT MET" };
        let asked = (self.value() * 1000.0).round() / 1000.0;
        match self {
            Self::AtMost(_) => format!("at most {asked}: {verdict}"),
            Self::AtLeast(_) => format!("at least {asked}: {verdict}"),
        }
    }

    /// Returns the figure itself.
    pub(crate) fn value(self) -> f64 {
        match self {
            Self::AtMost(value) | Self::AtLeast(value) => value,
        }
    }
}

/// A figure of a line.
pub(crate) struct BenchFigure {
    label: String,
    row: String,
    unit: &'static str,
    value: Option<Interval>,
    floor: Option<Floor>,
    /// Whether the line leaves the interval out; the file has it.
    brief: bool,
}

impl BenchFigure {
    /// Names a figure for people, and its row in the file.
    pub(crate) fn new(
        label: impl Into<String>,
        row: impl Into<String>,
        unit: &'static str,
        value: Option<Interval>,
    ) -> Self {
        Self { label: label.into(), row: row.into(), unit, value, floor: None, brief: false }
    }

    /// Takes the median of repetitions.
    pub(crate) fn of(
        label: impl Into<String>,
        row: impl Into<String>,
        unit: &'static str,
        values: impl IntoIterator<Item = f64>,
    ) -> Self {
        Self::new(label, row, unit, Interval::of(values))
    }

    /// Takes a value that was measured once.
    pub(crate) fn once(
        label: impl Into<String>,
        row: impl Into<String>,
        unit: &'static str,
        value: f64,
    ) -> Self {
        let value = Interval { median: value, low: value, high: value, confidence: 0.0, values: 0 };
        Self::new(label, row, unit, Some(value)).brief()
    }

    /// Compares it with a bound, if there is one.
    pub(crate) fn floor(self, floor: impl Into<Option<Floor>>) -> Self {
        Self { floor: floor.into(), ..self }
    }

    /// Returns the median, if there is a value.
    pub(crate) fn median(&self) -> Option<f64> {
        Some(self.value?.median)
    }

    /// Leaves the interval out of the line.
    pub(crate) fn brief(self) -> Self {
        Self { brief: true, ..self }
    }
}

/// Everything that a run says.
pub(crate) struct BenchOutput {
    name: &'static str,
    environment: Environment,
    date: String,
    notes: Vec<String>,
    rows: Vec<Value>,
    /// Further tables by name.
    tables: Map<String, Value>,
}

impl BenchOutput {
    /// Begins a run and says where it is.
    pub(crate) fn new(name: &'static str) -> Self {
        let environment = Environment::of_this_machine();
        let date = Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ"]).output();
        let date =
            date.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
        println!("cargo xtask bench {name}, {date}");
        println!("{}", describe(&environment));
        Self { name, environment, date, notes: Vec::new(), rows: Vec::new(), tables: Map::new() }
    }

    /// Prints a remark and keeps it.
    pub(crate) fn note(&mut self, text: &str) {
        println!("{text}");
        self.notes.push(text.to_owned());
    }

    /// Prints figures as one line of a table, and keeps each as a row of its own. Figures without a
    /// value are absent.
    pub(crate) fn line(&mut self, title: &str, figures: impl IntoIterator<Item = BenchFigure>) {
        let mut line = format!("  {title:28}");
        for BenchFigure { label, row, unit, value, floor, brief } in figures {
            let Some(found) = value else { continue };
            line += &format!("   {label} {:>6} {unit}", digits(found.median));
            if !brief {
                line += &format!(" [{} to {}]", digits(found.low), digits(found.high));
            }
            line += &floor.map(|floor| format!(" {}", floor.verdict(found.median))).unwrap_or_default();
            let mut kept = json!({
                "row": row, "value": found.median, "unit": unit,
                "floor": floor.map(Floor::value), "met": floor.map(|floor| floor.met(found.median)),
            });
            if found.values > 0 {
                kept["low"] = found.low.into();
                kept["high"] = found.high.into();
                kept["confidence"] = found.confidence.into();
            }
            self.rows.push(kept);
        }
        println!("{line}");
    }

    /// Keeps a table that was measured in the way `name`: the first one as the rows, others under
    /// their names.
    pub(crate) fn table(&mut self, name: &str, rows: Vec<Value>) {
        if self.rows.is_empty() {
            self.rows = rows;
        } else {
            self.tables.insert(name.to_owned(), Value::Array(rows));
        }
    }

    /// Writes all of it.
    pub(crate) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let mut all = json!({
            "benchmark": self.name,
            "date": self.date,
            "machine": describe(&self.environment),
            "kernel": self.environment.kernel,
            "cpu": self.environment.processor,
            "notes": self.notes,
            "rows": self.rows,
        });
        if !self.tables.is_empty() {
            all["tables"] = Value::Object(self.tables.clone());
        }
        Ok(std::fs::write(path, format!("{all:#}\n"))?)
    }
}

fn describe(environment: &Environment) -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!(
        "{}, {} cores, {} GiB of memory, Linux {}, load {}",
        environment.processor,
        std::thread::available_parallelism().map_or(environment.cores, usize::from),
        environment.memory_bytes >> 30,
        environment.kernel,
        load.split(' ').next().unwrap_or("unknown"),
    )
}

#[cfg(test)]
mod tests {
    use super::Floor;

    #[test]
    fn a_floor_is_met_at_its_own_value_and_missed_beyond() {
        assert!(Floor::AtMost(0.5).met(0.5) && !Floor::AtMost(0.5).met(0.501));
        assert!(Floor::AtLeast(5000.0).met(5000.0) && !Floor::AtLeast(5000.0).met(4999.0));
        assert!(Floor::AtMost(0.5).verdict(0.6).ends_with("NOT MET"));
    }
}
