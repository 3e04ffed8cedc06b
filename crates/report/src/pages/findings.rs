//! The findings of the paper as statements, and their verdicts in this run.

use crate::Table;
use crate::form::{percent, percent_range};
use bench::lanl::SCP;
use bench::measuring::{CaseRecord, Interval, Part, Record};
use std::collections::BTreeMap;

/// How far rates may be apart that are called about equal.
const ABOUT: f64 = 0.1;

/// The CPU use that all of NFS stayed below, except krb5p with small files, as a part of the
/// machine.
const LITTLE_CPU: f64 = 0.1;

/// How much of one core scp has to use at the client with large files for that to be called very
/// much.
const MUCH_CPU: f64 = 0.5;

const TITLE: &str = "What the authors found, and what was measured here";
const HOW: &str = "Each statement of the paper with our figures beside it. Percentages are rates as parts of the other variant's in repetitions that \
    ran side by side, each with the interval of its median; rates within 10 % of each other are called about equal. It cannot be told with fewer than six repetitions, where \
    the interval holds both answers, the difference is below the noise of the machine, or a part was not measured. The paper measured over gigabit Ethernet with \
    the processors and the kernels of its time.";

/// Whether a statement of the paper is true of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FindingVerdict {
    /// The figures agree with the statement.
    Holds,
    /// The figures contradict the statement.
    Fails,
    /// The run does not show it.
    NotShown,
    /// The run has no figures for the statement.
    NotMeasured,
}

impl FindingVerdict {
    /// Derives it from one figure, if there is one: whether that agrees, if it shows anything.
    fn of(agrees: Option<Option<bool>>) -> Self {
        match agrees {
            Some(Some(true)) => Self::Holds,
            Some(Some(false)) => Self::Fails,
            Some(None) => Self::NotShown,
            None => Self::NotMeasured,
        }
    }

    /// Joins the verdicts on the parts of a statement: it holds if all of them do, and fails with
    /// one.
    fn all(parts: &[Self]) -> Self {
        let has = |verdict: Self| parts.contains(&verdict);
        match parts.iter().all(|part| *part == Self::NotMeasured) {
            true => Self::NotMeasured,
            false if has(Self::Fails) => Self::Fails,
            false if has(Self::NotShown) || has(Self::NotMeasured) => Self::NotShown,
            false => Self::Holds,
        }
    }
}

/// A verdict on one statement.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Finding {
    /// The statement of the paper.
    pub statement: &'static str,
    /// Our figures, for each of [`TESTS`].
    pub measured: [String; 3],
    /// The verdict of this run.
    pub verdict: FindingVerdict,
}

/// The tests in which variants are compared.
pub(super) const TESTS: [Part; 3] = [Part::Sizes, Part::Small, Part::Large];

/// The variants that are NFS.
const FLAVORS: [&str; 4] = ["sys", "krb5", "krb5i", "krb5p"];

/// Judges all statements of the paper.
pub(super) fn findings(record: &Record) -> Vec<Finding> {
    let noise = record.relative_noise();
    let equal = |ratio: &Interval| {
        let (least, most) = (1.0 - ABOUT, 1.0 + ABOUT);
        if !ratio.is_confident() {
            None
        } else if ratio.low >= least && ratio.high <= most {
            Some(true)
        } else {
            let outside = ratio.high < least || ratio.low > most;
            (outside && is_below(ratio, 1.0, noise).is_some()).then_some(false)
        }
    };
    let slower = |ratio: &Interval| is_below(ratio, 1.0, noise);
    let faster = |ratio: &Interval| slower(ratio).map(|slower| !slower);
    let only = |tests: &[Part], variant: &str, base: &str| compared(record, tests, variant, base);
    vec![
        judge("krb5 is about equal to sys", only(&TESTS, "krb5", "sys"), equal),
        judge("krb5i is equal to sys with small files", only(&[Part::Small], "krb5i", "sys"), equal),
        judge("krb5i is slower than sys with large files", only(&[Part::Large], "krb5i", "sys"), slower),
        judge(
            "krb5p is slower still than krb5i with large files",
            only(&[Part::Large], "krb5p", "krb5i"),
            slower,
        ),
        little_cpu(record),
        judge("SCP is faster than NFS (sys) with large files", only(&[Part::Large], SCP, "sys"), faster),
        much_cpu(record),
        judge("SCP is slower than NFS (sys) with small files", only(&[Part::Small], SCP, "sys"), slower),
    ]
}

/// Returns the table of the findings.
pub(super) fn table(record: &Record) -> Table {
    let columns = ["the paper says", "does it hold here?", "by size", "small files", "large files"];
    let mut table = Table::new(TITLE, HOW, &columns);
    for finding in findings(record) {
        let verdict = match finding.verdict {
            FindingVerdict::Holds => "holds",
            FindingVerdict::Fails => "does not hold",
            FindingVerdict::NotShown => "cannot be told",
            FindingVerdict::NotMeasured => "not measured",
        };
        let figures = finding.measured.map(|said| if said.is_empty() { "–".to_owned() } else { said });
        table.measured(finding.statement, std::iter::once(verdict.to_owned()).chain(figures).collect());
    }
    table
}

/// The cases of a part with one variant that have not failed.
pub(super) fn cases<'a>(
    record: &'a Record,
    part: Part,
    variant: &'a str,
) -> impl Iterator<Item = &'a CaseRecord> {
    let wanted = move |case: &&CaseRecord| case.axes.part() == Some(part) && case.variant == variant;
    record.cases.iter().filter(wanted).filter(|case| record.failure(&case.group, variant).is_none())
}

/// Returns whether a figure is below a limit; `None` where its interval holds the limit, or the
/// difference is below the noise.
fn is_below(figure: &Interval, limit: f64, noise: f64) -> Option<bool> {
    let shown = figure.excludes(limit) && (figure.median / limit - 1.0).abs() > noise;
    shown.then_some(figure.median < limit)
}

/// Rates of a variant as parts of another's, by test. The sizes of the first test count as their
/// median in each repetition: they are no repetitions of one load.
fn compared(record: &Record, tests: &[Part], variant: &str, base: &str) -> Vec<(Part, Option<Interval>)> {
    let of = |test: Part| {
        let mut ratios: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for own in cases(record, test, variant) {
            let failed = record.failure(&own.group, base).is_some();
            let Some(other) = record.variant(&own.group, base).filter(|_| !failed) else { continue };
            for sample in own.counted() {
                let same = other.counted().find(|base| base.repetition == sample.repetition);
                let ratio = same.map(|same| sample.rate(own.unit) / same.rate(own.unit));
                ratios.entry(sample.repetition).or_default().extend(ratio);
            }
        }
        let medians = ratios.into_values().filter_map(Interval::of).map(|sizes| sizes.median);
        Interval::of(medians)
    };
    tests.iter().map(|test| (*test, of(*test))).collect()
}

fn judge(
    statement: &'static str,
    ratios: Vec<(Part, Option<Interval>)>,
    holds: impl Fn(&Interval) -> Option<bool>,
) -> Finding {
    let words = |ratio: &Interval| format!("{} ({})", percent(ratio.median), percent_range(ratio));
    let verdicts: Vec<FindingVerdict> =
        ratios.iter().map(|(_, ratio)| FindingVerdict::of(ratio.as_ref().map(&holds))).collect();
    let of =
        |test: Part| ratios.iter().find(|(other, _)| *other == test).and_then(|(_, ratio)| ratio.as_ref());
    Finding {
        statement,
        measured: TESTS.map(|test| of(test).map(words).unwrap_or_default()),
        verdict: FindingVerdict::all(&verdicts),
    }
}

/// The median part of the machine's processors that the client used; none where it is not known.
pub(super) fn client_busy(case: &CaseRecord) -> Option<Interval> {
    let busy: Option<Vec<f64>> =
        case.counted().map(|sample| sample.client_cpu_seconds.map(|seconds| sample.busy(seconds))).collect();
    busy.and_then(Interval::of)
}

/// The CPU use of the client in a test with one variant, as a part of one core.
fn busy(record: &Record, test: Part, variant: &str) -> Option<Interval> {
    cases(record, test, variant).next().and_then(client_busy)
}

/// The flavor among these that used most in a test.
fn most_busy(record: &Record, test: Part, flavors: &[&'static str]) -> Option<(&'static str, f64)> {
    let all = flavors.iter().filter_map(|variant| Some((*variant, busy(record, test, variant)?.median)));
    all.max_by(|one, other| one.1.total_cmp(&other.1))
}

fn little_cpu(record: &Record) -> Finding {
    let statement = "The CPU use of NFS is below 10 %, but for krb5p with small files";
    let (cores, noise) = (record.environment.cores.max(1) as f64, record.relative_noise());
    let [sys, krb5, krb5i, _] = FLAVORS;
    let (small, large) = ([sys, krb5, krb5i], FLAVORS);
    let little = |test: Part, variant: &str| {
        let busy = busy(record, test, variant);
        FindingVerdict::of(busy.map(|busy| is_below(&busy, LITTLE_CPU * cores, noise)))
    };
    let verdicts: Vec<FindingVerdict> = small
        .iter()
        .map(|variant| little(Part::Small, variant))
        .chain(large.iter().map(|variant| little(Part::Large, variant)))
        .collect();
    let words = |(variant, busy)| format!("{} at most ({variant})", percent(busy / cores));
    let most = [None, most_busy(record, Part::Small, &small), most_busy(record, Part::Large, &large)];
    let measured = most.map(|most| most.map(words).unwrap_or_default());
    Finding { statement, measured, verdict: FindingVerdict::all(&verdicts) }
}

fn much_cpu(record: &Record) -> Finding {
    let statement = "SCP needs very much CPU with large files";
    let noise = record.relative_noise();
    let Some(scp) = busy(record, Part::Large, SCP) else {
        let measured = [const { String::new() }; 3];
        return Finding { statement, measured, verdict: FindingVerdict::NotMeasured };
    };
    let more_than = |other: Interval| {
        let shown = scp.is_apart_from(&other) && (scp.median / other.median - 1.0).abs() > noise;
        shown.then_some(scp.median > other.median)
    };
    let much = is_below(&scp, MUCH_CPU, noise).map(|little| !little);
    let beside = FLAVORS.map(|variant| busy(record, Part::Large, variant).map(more_than));
    let verdicts: Vec<FindingVerdict> =
        std::iter::once(Some(much)).chain(beside).map(FindingVerdict::of).collect();
    let most = most_busy(record, Part::Large, &FLAVORS);
    let beside =
        most.map_or(String::new(), |(variant, most)| format!("; NFS at most {} ({variant})", percent(most)));
    let measured = [String::new(), String::new(), format!("{} of a core{beside}", percent(scp.median))];
    Finding { statement, measured, verdict: FindingVerdict::all(&verdicts) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench::Unit;
    use bench::measuring::{Axes, Case, CopyAxes, CopyLoad, Load, Sample, Settings};

    const VARIANTS: [&str; 5] = ["sys", "krb5", "krb5i", "krb5p", SCP];

    #[test]
    fn rates_are_about_equal_where_the_whole_interval_says_so() {
        use FindingVerdict::{Fails, Holds, NotShown};
        let verdict = |ratios: [f64; 6]| {
            let mut record = record(&[(Part::Small, &[(100.0, 0.1); 3])]);
            for (sample, ratio) in record.cases[2].samples.iter_mut().zip(ratios) {
                sample.bytes = (sample.bytes as f64 * ratio) as u64;
            }
            verdicts(&record)[1]
        };
        assert_eq!(verdict([0.92, 0.95, 0.98, 1.02, 1.05, 1.08]), Holds);
        assert_eq!(verdict([0.7, 0.95, 0.98, 1.0, 1.02, 1.03]), NotShown, "a wide interval");
        assert_eq!(verdict([0.8, 0.82, 0.84, 0.86, 0.88, 0.95]), NotShown, "both answers");
        assert_eq!(verdict([0.7, 0.72, 0.74, 0.76, 0.78, 0.8]), Fails);
        assert_eq!(verdict([1.2, 1.21, 1.22, 1.23, 1.24, 1.25]), Fails);
    }

    #[test]
    fn a_repetition_of_many_sizes_is_one_repetition() {
        let equal = [(100.0, 0.1), (99.0, 0.1), (98.0, 0.1)];
        let sizes: Vec<(Part, &[(f64, f64)])> = vec![(Part::Sizes, &equal); 8];
        let mut record = record(&sizes);
        for (number, case) in record.cases.iter_mut().enumerate() {
            case.case.group = format!("size {}", number / equal.len());
        }
        let interval = |record: &Record| compared(record, &[Part::Sizes], "krb5", "sys")[0].1.unwrap();
        assert_eq!(interval(&record).values, 6);
        assert_eq!(verdicts(&record)[0], FindingVerdict::NotShown, "two parts are not measured");
        record.cases.retain(|case| case.group == "size 0");
        for part in [Part::Small, Part::Large] {
            let more = record.cases.iter().take(3).cloned().map(|mut case| {
                (case.case.group, case.case.axes) = (part.to_string(), Axes::Copies(CopyAxes::of(part)));
                case
            });
            let more: Vec<CaseRecord> = more.collect();
            record.cases.extend(more);
        }
        assert_eq!(verdicts(&record)[0], FindingVerdict::Holds);
        record.cases.iter_mut().for_each(|case| case.samples.truncate(1));
        assert_eq!(verdicts(&record)[0], FindingVerdict::NotShown, "one repetition shows nothing");
    }

    /// A run with these rates and client CPU seconds, for the first so many of the variants.
    fn record(rates: &[(Part, &[(f64, f64)])]) -> Record {
        let variants = VARIANTS.map(str::to_owned).to_vec();
        let settings = Settings::new(6, 1.0, 0, variants);
        let mut record = Record::begin("lanl", "t", settings);
        record.environment.cores = 2;
        let each = rates.iter().flat_map(|(part, rates)| {
            VARIANTS.iter().zip(*rates).map(move |(variant, (rate, cpu))| (part, variant, rate, cpu))
        });
        for (part, variant, rate, cpu) in each {
            let load = Load::Copy(CopyLoad { files: 1, size: 1, zeros: true, times: 1 });
            let axes = Axes::Copies(CopyAxes::of(*part));
            let case = Case {
                group: part.to_string(),
                variant: (*variant).into(),
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

    fn verdicts(record: &Record) -> Vec<FindingVerdict> {
        findings(record).iter().map(|finding| finding.verdict).collect()
    }

    #[test]
    fn the_figures_of_the_paper_satisfy_every_statement() {
        let small = [(100.0, 0.1), (99.0, 0.1), (97.0, 0.1), (80.0, 0.9), (50.0, 0.5)];
        let large = [(100.0, 0.1), (98.0, 0.1), (70.0, 0.1), (40.0, 0.15), (120.0, 0.95)];
        let record = record(&[(Part::Sizes, &small), (Part::Small, &small), (Part::Large, &large)]);
        assert_eq!(verdicts(&record), [FindingVerdict::Holds; 8], "{:#?}", findings(&record));
        let shown = table(&record);
        assert!(shown.rows.iter().all(|row| row.cells[0] == "holds"));
        assert!(shown.rows[6].cells[3].contains("95"), "{:?}", shown.rows[6]);
    }

    #[test]
    fn a_part_or_a_flavor_that_is_not_measured_lets_no_statement_hold() {
        use FindingVerdict::{Holds, NotMeasured, NotShown};
        let small = [(100.0, 0.1), (99.0, 0.1), (97.0, 0.1), (80.0, 0.9), (50.0, 0.5)];
        let found = verdicts(&record(&[(Part::Small, &small)]));
        assert_eq!((found[0], found[4], found[6]), (NotShown, NotShown, NotMeasured));
        let large = [(100.0, 0.1), (98.0, 0.1), (70.0, 0.1), (40.0, 0.15), (120.0, 0.95)];
        let all = record(&[(Part::Small, &small), (Part::Large, &large)]);
        assert_eq!((verdicts(&all)[4], verdicts(&all)[6]), (Holds, Holds));
        let mut only = all.clone();
        only.cases.retain(|case| ["sys", SCP].contains(&case.variant.as_str()));
        assert_eq!((verdicts(&only)[4], verdicts(&only)[6]), (NotShown, NotShown));
    }

    #[test]
    fn processor_time_is_judged_by_its_interval_and_the_noise() {
        use FindingVerdict::{Holds, NotShown};
        let parts = [(100.0, 0.1), (98.0, 0.1), (70.0, 0.1), (40.0, 0.15), (120.0, 0.95)];
        let both = record(&[(Part::Small, &parts), (Part::Large, &parts)]);
        assert_eq!((verdicts(&both)[4], verdicts(&both)[6]), (Holds, Holds));
        let mut wide = both.clone();
        for case in wide.cases.iter_mut().filter(|case| ["sys", SCP].contains(&case.variant.as_str())) {
            case.samples[0].client_cpu_seconds = Some(0.3);
        }
        assert_eq!((verdicts(&wide)[4], verdicts(&wide)[6]), (NotShown, NotShown));
        let mut noisy = both;
        noisy.noise = Some(bench::measuring::Noise { relative: 0.6, calibrations: 9 });
        assert_eq!(verdicts(&noisy)[4], NotShown);
    }

    #[test]
    fn contradicting_figures_fail_the_findings() {
        let large = [(100.0, 0.9), (50.0, 0.9), (99.9, 0.9), (120.0, 0.9), (20.0, 0.3)];
        let record = record(&[(Part::Large, &large)]);
        use FindingVerdict::{Fails, Holds, NotMeasured};
        let found = verdicts(&record);
        assert_eq!(
            found,
            [Fails, NotMeasured, Holds, Fails, Fails, Fails, Fails, NotMeasured],
            "{record:#?}"
        );
    }

    #[test]
    fn differences_within_noise_or_interval_are_not_judged() {
        let mut record = record(&[(Part::Large, &[(100.0, 0.1), (80.0, 0.1), (80.0, 0.1)])]);
        record.noise = Some(bench::measuring::Noise { relative: 0.3, calibrations: 9 });
        assert_eq!(
            verdicts(&record)[..3],
            [FindingVerdict::NotShown, FindingVerdict::NotMeasured, FindingVerdict::NotShown]
        );
        record.noise = None;
        assert_eq!(
            verdicts(&record)[..3],
            [FindingVerdict::Fails, FindingVerdict::NotMeasured, FindingVerdict::Holds]
        );
    }

    #[test]
    fn nothing_measured_is_said_to_be_so() {
        assert_eq!(verdicts(&record(&[])), [FindingVerdict::NotMeasured; 8]);
    }
}
