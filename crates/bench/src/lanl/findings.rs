//! What the paper found, as statements, and whether they hold here.

use super::evaluation::SCP;
use crate::measuring::{CaseRecord, Interval, Record};
use crate::view::Table;
use crate::view::form::{percent, percent_range};

/// How far rates may be apart that are called about equal.
const ABOUT: f64 = 0.1;

/// The CPU use that all of NFS stayed below but for krb5p with small files, as a part of the machine.
const LITTLE_CPU: f64 = 0.1;

/// The parts of the machine that scp's large files have to use to be called very much, in cores.
const MUCH_CPU: f64 = 0.5;

const TITLE: &str = "What the authors found, and what was measured here";
const HOW: &str = "Each statement of the paper with our measured figure beside it. Ratios are of rates in repetitions that ran side by side, with \
    the interval of their median; rates within 10 % of each other, or with 1 within the interval, are called about equal. The paper measured \
    over gigabit Ethernet with the processors and the kernels of its time.";

/// A verdict on one statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What the paper says.
    pub statement: &'static str,
    /// Our figures.
    pub measured: String,
    /// Whether they agree; none without figures.
    pub holds: Option<bool>,
}

/// The tests in which sides are compared.
const TESTS: [&str; 3] = ["sizes", "small", "large"];

/// Judges all statements of the paper.
pub fn findings(record: &Record) -> Vec<Finding> {
    let equal = |own: &Interval| (own.median - 1.0).abs() <= ABOUT || own.contains(1.0);
    let slower = |own: &Interval| own.high < 1.0;
    let faster = |own: &Interval| own.low > 1.0;
    let all = |side: &str| compared(record, &TESTS, side, "sys");
    let only = |tests: &[&'static str], side: &str, base: &str| compared(record, tests, side, base);
    vec![
        judge("krb5 is about equal to sys", all("krb5"), equal),
        judge("krb5i is equal to sys with small files", only(&["small"], "krb5i", "sys"), equal),
        judge("krb5i is slower than sys with large files", only(&["large"], "krb5i", "sys"), slower),
        judge(
            "krb5p is slower still than krb5i with large files",
            only(&["large"], "krb5p", "krb5i"),
            slower,
        ),
        little_cpu(record),
        judge("SCP is faster than NFS (sys) with large files", only(&["large"], SCP, "sys"), faster),
        much_cpu(record),
        judge("SCP is slower than NFS (sys) with small files", only(&["small"], SCP, "sys"), slower),
    ]
}

/// Shows them.
pub fn table(record: &Record) -> Table {
    let mut table = Table::new(TITLE, HOW, &["the paper says", "measured here", "does it hold?"]);
    for finding in findings(record) {
        let verdict = match finding.holds {
            Some(true) => "holds",
            Some(false) => "does not hold here",
            None => "not measured",
        };
        table.measured(finding.statement, vec![finding.measured, verdict.to_owned()]);
    }
    table
}

/// The cases of a part with one side.
pub fn cases<'a>(record: &'a Record, part: &'a str, side: &'a str) -> impl Iterator<Item = &'a CaseRecord> {
    record.cases.iter().filter(move |one| one.case.is("part", part) && one.case.side == side)
}

/// Rates of a side as parts of another's, by test; the sizes of the first test together.
fn compared(
    record: &Record,
    tests: &[&'static str],
    side: &str,
    base: &str,
) -> Vec<(&'static str, Interval)> {
    let of = |test: &'static str| {
        let ratios = cases(record, test, side).flat_map(|own| {
            let other = record.side(&own.case.group, base);
            own.counted().filter_map(move |sample| {
                let other = other?;
                let same = other.counted().find(|base| base.repetition == sample.repetition)?;
                Some(sample.rate(own.case.unit) / same.rate(own.case.unit))
            })
        });
        Some((test, Interval::of(ratios)?))
    };
    tests.iter().filter_map(|test| of(test)).collect()
}

fn judge(
    statement: &'static str,
    ratios: Vec<(&'static str, Interval)>,
    holds: impl Fn(&Interval) -> bool,
) -> Finding {
    let words = |(test, ratio): &(&str, Interval)| {
        let name = match *test {
            "sizes" => "by size ",
            "small" => "small files ",
            _ => "large files ",
        };
        format!("{name}{} ({})", percent(ratio.median), percent_range(ratio))
    };
    let measured: Vec<String> = ratios.iter().map(words).collect();
    let holds = (!ratios.is_empty()).then(|| ratios.iter().all(|(_, ratio)| holds(ratio)));
    Finding { statement, measured: measured.join("; "), holds }
}

/// The median part of the machine's processors that the client used; none where it is not known.
pub fn client_busy(one: &CaseRecord) -> Option<Interval> {
    let busy: Option<Vec<f64>> =
        one.counted().map(|sample| sample.client_cpu_seconds.map(|seconds| sample.busy(seconds))).collect();
    busy.and_then(Interval::of)
}

fn little_cpu(record: &Record) -> Finding {
    let cores = record.environment.cores.max(1) as f64;
    let (mut said, mut holds) = (Vec::new(), true);
    for side in ["sys", "krb5", "krb5i", "krb5p"] {
        for test in ["small", "large"] {
            let Some(busy) = cases(record, test, side).next().and_then(client_busy) else { continue };
            let part = busy.median / cores;
            said.push(format!("{side} {test} {}", percent(part)));
            // What the paper leaves open is krb5p with small files.
            holds &= part < LITTLE_CPU || (side, test) == ("krb5p", "small");
        }
    }
    let statement = "The CPU use of NFS is below 10 %, but for krb5p with small files";
    Finding { statement, holds: (!said.is_empty()).then_some(holds), measured: said.join(", ") }
}

fn much_cpu(record: &Record) -> Finding {
    let busy = |side: &str| cases(record, "large", side).next().and_then(client_busy);
    let statement = "SCP needs very much CPU with large files";
    let Some(scp) = busy(SCP) else { return Finding { statement, measured: String::new(), holds: None } };
    let flavors = ["sys", "krb5", "krb5i", "krb5p"];
    let most = flavors.into_iter().filter_map(|side| Some((side, busy(side)?.median)));
    let most = most.max_by(|one, other| one.1.total_cmp(&other.1));
    let beside =
        most.map_or(String::new(), |(side, most)| format!("; the most of NFS: {} ({side})", percent(most)));
    let measured = format!("{} of one core at the client{beside}", percent(scp.median));
    let holds = scp.median > MUCH_CPU && most.is_none_or(|(_, most)| scp.median > most);
    Finding { statement, measured, holds: Some(holds) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Unit;
    use crate::lanl::Copy;
    use crate::measuring::{Axes, Case, Load, Sample, Settings};

    fn record(rates: &[(&str, &str, f64, f64)]) -> Record {
        let sides = ["sys", "krb5", "krb5i", "krb5p", SCP].map(str::to_owned).to_vec();
        let settings = Settings {
            repetitions: 6,
            seconds: 1.0,
            file_size: 0,
            sides,
            baseline: "sys".into(),
            options: Default::default(),
        };
        let mut record = Record::begin("lanl", "t", settings);
        record.environment.cores = 2;
        for (part, side, rate, cpu) in rates {
            let load = Load::Copy(Copy { files: 1, size: 1, zeros: true, times: 1 });
            let axes = Axes::from([("part".to_owned(), (*part).into())]);
            let case = Case {
                group: (*part).into(),
                side: (*side).into(),
                unit: Unit::MegabytesPerSecond,
                axes,
                load,
            };
            let sample = |repetition: u32| Sample {
                repetition,
                operations: 1,
                bytes: ((rate + f64::from(repetition) / 1000.0) * 1e6) as u64,
                seconds: 1.0,
                client_cpu_seconds: Some(*cpu),
                ..Sample::default()
            };
            let samples = (0..6).map(sample).collect();
            record.cases.push(CaseRecord { case, samples, figures: None });
        }
        record
    }

    fn verdicts(record: &Record) -> Vec<Option<bool>> {
        findings(record).iter().map(|finding| finding.holds).collect()
    }

    #[test]
    fn what_the_paper_measured_holds_in_every_statement() {
        let record = record(&[
            ("small", "sys", 100.0, 0.1),
            ("small", "krb5", 99.0, 0.1),
            ("small", "krb5i", 97.0, 0.1),
            ("small", "krb5p", 80.0, 0.9),
            ("small", SCP, 50.0, 0.5),
            ("large", "sys", 100.0, 0.1),
            ("large", "krb5", 98.0, 0.1),
            ("large", "krb5i", 70.0, 0.1),
            ("large", "krb5p", 40.0, 0.15),
            ("large", SCP, 120.0, 0.95),
        ]);
        assert_eq!(verdicts(&record), [Some(true); 8], "{:#?}", findings(&record));
        let shown = table(&record);
        assert!(shown.rows.iter().all(|row| row.cells[1] == "holds"));
        assert!(shown.rows[6].cells[0].contains("95"), "{:?}", shown.rows[6]);
    }

    #[test]
    fn what_was_found_otherwise_is_said() {
        let record = record(&[
            ("large", "sys", 100.0, 0.9),
            ("large", "krb5", 50.0, 0.9),
            ("large", "krb5i", 99.9, 0.9),
            ("large", "krb5p", 120.0, 0.9),
            ("large", SCP, 20.0, 0.3),
        ]);
        let none = None;
        let no = Some(false);
        assert_eq!(
            verdicts(&record),
            [no, none, Some(true), no, no, no, no, none],
            "{:#?}",
            findings(&record)
        );
    }

    #[test]
    fn nothing_measured_is_said_to_be_so() {
        assert_eq!(verdicts(&record(&[])), [None; 8]);
    }
}
