use super::*;
use crate::Unit;
use anyhow::{Result, bail, ensure};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn settings() -> Settings {
    Settings::new(3, 0.01, 1 << 20, ["sys", "krb5", "krb5p"].map(str::to_owned).to_vec())
}

fn case(group: &str, variant: &str) -> Case {
    let transfer = Transfer { random: true, size: 4096, depth: 1, ..Transfer::default() };
    Case {
        group: group.to_owned(),
        variant: variant.to_owned(),
        unit: Unit::OperationsPerSecond,
        axes: Axes::default(),
        load: Load::Transfer(transfer),
    }
}

/// The first so many of these groups; each is only asked for when the one before has been measured.
struct GroupPlan(usize, usize);

const GROUPS: [&str; 8] = ["one", "two", "three", "four", "five", "six", "seven", "eight"];

impl Evaluation for GroupPlan {
    fn next(&mut self, record: &Record) -> Option<Vec<Case>> {
        let group = *GROUPS.get(..self.1)?.get(self.0)?;
        self.0 += 1;
        Some(record.settings.variants.iter().map(|variant| case(group, variant)).collect())
    }

    fn to_come(&self, record: &Record) -> usize {
        (self.1 - self.0) * record.settings.variants.len()
    }
}

/// Answers with invented figures and records its calls.
#[derive(Default)]
struct FakeDriver {
    asked: Vec<String>,
    refuses: Option<&'static str>,
    /// From this question on the server is gone.
    breaks_at: Option<usize>,
    /// The first questions, in which no operation finishes.
    idle_until: usize,
    /// Cases that get no answer.
    fails: Vec<(&'static str, &'static str)>,
    /// A variant, and the depth above which its server does not answer.
    silent_above: Option<(&'static str, u32)>,
    /// Depths at which that variant was measured.
    depths: Vec<u32>,
    given_up: Vec<String>,
    finished: bool,
    /// Whether a folder cannot be removed at the end.
    keeps_a_folder: bool,
}

impl CaseDriver for FakeDriver {
    fn begin(&mut self, _cases: &[Case]) -> Result<()> {
        Ok(())
    }

    fn prepare(&mut self, case: &Case, _record: &mut Record) -> Result<()> {
        if self.refuses == Some(case.variant.as_str()) || self.refuses == Some("all") {
            bail!("NFS4ERR_WRONGSEC");
        }
        Ok(())
    }

    fn measure(&mut self, case: &Case, turn: &CaseTurn<'_>) -> Result<Option<Sample>> {
        let mark = if turn.warm_up { "*" } else { "" };
        self.asked.push(format!("{}{mark}", case.variant));
        if self.breaks_at == Some(self.asked.len()) {
            bail!("connection lost");
        }
        if self.asked.len() <= self.idle_until {
            return Ok(None);
        }
        if self.fails.contains(&(case.group.as_str(), case.variant.as_str())) && !turn.warm_up {
            bail!("client 1 of 2: no answer in 20 s");
        }
        if let (Some((variant, most)), Load::Transfer(transfer)) = (self.silent_above, &case.load)
            && variant == case.variant
        {
            self.depths.push(transfer.depth);
            ensure!(transfer.depth <= most, NoAnswer(Duration::from_secs(20)));
        }
        let slowness = if case.variant == "krb5p" { 2 } else { 1 };
        let mut histogram = Histogram::default();
        histogram.count(Duration::from_micros(100 * slowness));
        Ok(Some(Sample {
            operations: 1000 / slowness + self.asked.len() as u64 % 2,
            seconds: 1.0,
            latency: Latencies::of(histogram),
            ..Sample::default()
        }))
    }

    fn give_up(&mut self, case: &Case) -> Result<()> {
        self.given_up.push(case.id());
        if self.breaks_at == Some(self.asked.len()) {
            bail!("nothing listens there");
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.finished = true;
        ensure!(!self.keeps_a_folder, "NFS4ERR_ACCESS");
        Ok(())
    }
}

fn measure(driver: &mut FakeDriver, record: &mut Record, stop_after: usize) -> Result<Vec<Record>> {
    measure_groups(2, driver, record, stop_after)
}

fn measure_groups(
    groups: usize,
    driver: &mut FakeDriver,
    record: &mut Record,
    stop_after: usize,
) -> Result<Vec<Record>> {
    let (stop, mut saved, mut steps) = (AtomicBool::new(false), Vec::new(), 0);
    let watch = RunWatch {
        stop: &stop,
        step: &mut |step| {
            steps += usize::from(step.phase != RunPhase::Preparing);
            stop.store(steps > stop_after, Ordering::Relaxed);
        },
        save: &mut |record: &Record| {
            saved.push(record.clone());
            Ok(())
        },
    };
    run(&mut GroupPlan(0, groups), driver, record, watch)?;
    Ok(saved)
}

fn new_record() -> Record {
    Record::begin("test", "A test", settings())
}

#[test]
fn repetitions_are_interleaved_each_variant_first_in_turn_after_a_warm_up_that_is_kept_and_does_not_count() {
    let (mut driver, mut record) = (FakeDriver::default(), new_record());
    let saved = measure(&mut driver, &mut record, usize::MAX - 1).unwrap();
    let block =
        ["sys*", "krb5*", "krb5p*", "sys", "krb5", "krb5p", "krb5", "krb5p", "sys", "krb5p", "sys", "krb5"];
    assert_eq!(driver.asked, [block, block].concat());
    assert!(record.complete && driver.finished && saved.len() == 2);
    assert_eq!(record.calibrations.len(), 6);
    for one in &record.cases {
        assert_eq!((one.samples.len(), one.counted().count()), (4, 3));
        assert_eq!(one.figures.as_ref().unwrap().rate.values, 3);
    }
    let against = record.variant("two", "krb5p").unwrap().figures.as_ref().unwrap().against.as_ref().unwrap();
    assert!((against.ratio.median - 0.5).abs() < 0.01, "{against:?}");
    assert!((against.added_us.unwrap().median - 100.0).abs() < 1.0, "{against:?}");
    assert_eq!(record.variant("two", "sys").unwrap().figures.as_ref().unwrap().against, None);
}

#[test]
fn a_warm_up_in_which_nothing_finished_is_made_again() {
    let (mut driver, mut record) = (FakeDriver { idle_until: 2, ..FakeDriver::default() }, new_record());
    measure(&mut driver, &mut record, usize::MAX - 1).unwrap();
    assert_eq!(driver.asked[..4], ["sys*", "sys*", "sys*", "krb5*"]);
    assert!(record.complete && record.cases.iter().all(|one| one.samples.len() == 4));
}

#[test]
fn a_variant_that_is_refused_is_left_out_and_named() {
    let (mut driver, mut record) =
        (FakeDriver { refuses: Some("krb5"), ..FakeDriver::default() }, new_record());
    measure(&mut driver, &mut record, usize::MAX - 1).unwrap();
    assert_eq!(record.skipped, [Missing::variant("krb5", "NFS4ERR_WRONGSEC")]);
    assert!(record.complete && record.variants() == ["sys", "krb5p"]);
}

#[test]
fn a_run_of_nothing_says_why() {
    let (mut driver, mut record) =
        (FakeDriver { refuses: Some("all"), ..FakeDriver::default() }, new_record());
    let error = measure(&mut driver, &mut record, usize::MAX - 1).unwrap_err().to_string();
    assert_eq!(
        error,
        "nothing can be measured: sys: NFS4ERR_WRONGSEC; krb5: NFS4ERR_WRONGSEC; krb5p: NFS4ERR_WRONGSEC"
    );
    assert!(driver.finished);
}

#[test]
fn a_server_that_dies_in_the_middle_leaves_what_was_measured() {
    let (mut driver, mut record) =
        (FakeDriver { breaks_at: Some(15), ..FakeDriver::default() }, new_record());
    measure(&mut driver, &mut record, usize::MAX - 1).unwrap();
    assert_eq!(record.stopped_by.as_deref(), Some("two · krb5p: connection lost; nothing listens there"));
    assert!(!record.complete && record.variant("one", "krb5p").unwrap().figures.is_some());
    assert!(record.variant("two", "sys").unwrap().figures.is_none());
}

#[test]
fn a_case_that_fails_is_left_out_and_the_others_and_its_variant_go_on() {
    let fails = vec![("one", "krb5")];
    let (mut driver, mut record) = (FakeDriver { fails, ..FakeDriver::default() }, new_record());
    measure(&mut driver, &mut record, usize::MAX - 1).unwrap();
    assert!(record.complete && driver.given_up == ["one · krb5"]);
    let failure = record.failure("one", "krb5").unwrap();
    assert_eq!(
        (failure.reason.as_str(), failure.brief().as_str()),
        ("client 1 of 2: no answer in 20 s", "no answer in 20 s")
    );
    assert!(record.variant("one", "krb5").unwrap().figures.is_none() && record.skipped.len() == 1);
    let measured =
        |group, variant| record.variant(group, variant).unwrap().figures.as_ref().unwrap().rate.values;
    assert_eq!([measured("one", "krb5p"), measured("two", "krb5"), measured("two", "sys")], [3, 3, 3]);
    assert_eq!(record.blank("one", "krb5"), "no answer in 20 s");
    assert_eq!(
        record.skipped_sentences(),
        ["krb5 has no figures for one: client 1 of 2: no answer in 20 s."]
    );
}

#[test]
fn after_no_answer_smaller_depths_are_tried_and_the_reason_names_where_the_silence_begins() {
    let no_answer = "no answer in 20 s";
    for (depth, most, tried, brief, told) in [
        (64, 10, &[64, 1, 2, 4, 8, 16][..], " from depth 16 on", "; the server answers at depth 8"),
        (64, 40, &[64, 1, 2, 4, 8, 16, 32], " from depth 64 on", "; the server answers at depth 32"),
        (64, 0, &[64, 1], " at any depth", "; a single request has none either"),
        (1, 0, &[1], "", ""),
    ] {
        let silent_above = Some(("krb5p", most));
        let (mut driver, mut record) = (FakeDriver { silent_above, ..FakeDriver::default() }, new_record());
        let deep = |variant: &String| depths::at_depth(&case("one", variant), depth);
        let mut evaluation = Once(Some(record.settings.variants.iter().map(deep).collect()));
        let stop = AtomicBool::new(false);
        let watch = RunWatch { stop: &stop, step: &mut |_| {}, save: &mut |_| Ok(()) };
        run(&mut evaluation, &mut driver, &mut record, watch).unwrap();
        assert_eq!(driver.depths, tried);
        assert_eq!(record.failure("one", "krb5p").unwrap().reason, format!("{no_answer}{brief}{told}"));
        assert_eq!(record.blank("one", "krb5p"), format!("{no_answer}{brief}"));
        // The tried depths leave no sample, and the other variants go on.
        assert!(record.variant("one", "krb5p").unwrap().samples.is_empty());
        assert_eq!(record.variant("one", "krb5").unwrap().counted().count(), 3);
    }
}

/// One block of cases.
struct Once(Option<Vec<Case>>);

impl Evaluation for Once {
    fn next(&mut self, _record: &Record) -> Option<Vec<Case>> {
        self.0.take()
    }

    fn to_come(&self, _record: &Record) -> usize {
        0
    }
}

#[test]
fn without_the_baseline_the_others_of_a_group_have_figures_and_no_ratios() {
    let fails = vec![("one", "sys")];
    let (mut driver, mut record) = (FakeDriver { fails, ..FakeDriver::default() }, new_record());
    measure(&mut driver, &mut record, usize::MAX - 1).unwrap();
    assert!(
        record.complete
            && record.variant("one", "krb5p").unwrap().figures.as_ref().unwrap().against.is_none()
    );
    assert!(record.variant("two", "krb5p").unwrap().figures.as_ref().unwrap().against.is_some());
}

#[test]
fn a_variant_that_fails_again_and_again_is_left_out_for_the_rest_and_tried_again_when_the_run_goes_on() {
    let mut fails: Vec<_> = GROUPS[..FAILURES_MAX as usize].iter().map(|group| (*group, "krb5p")).collect();
    fails.extend([("one", "krb5"), ("three", "krb5")]);
    let (mut driver, mut record) = (FakeDriver { fails, ..FakeDriver::default() }, new_record());
    measure_groups(8, &mut driver, &mut record, usize::MAX - 1).unwrap();
    assert!(record.complete && record.is_skipped("krb5p") && !record.is_skipped("krb5"));
    assert_eq!(record.skipped.len(), 6 + 1 + 2, "{:?}", record.skipped);
    assert!(record.variant("seven", "krb5p").unwrap().samples.is_empty());
    assert_eq!(record.blank("seven", "krb5p"), "left out");
    assert!(record.variant("seven", "krb5").unwrap().figures.is_some());
    let mut again = Record::parse(&record.json().unwrap()).unwrap();
    let mut driver = FakeDriver::default();
    measure_groups(8, &mut driver, &mut again, usize::MAX - 1).unwrap();
    // Each group lacks krb5p, and is measured again with all variants and their warm-ups.
    assert_eq!((driver.asked.len(), again.skipped.len(), again.tried_again.len()), (8 * 3 * 4, 0, 9));
    assert!(again.cases.iter().all(|one| one.counted().count() == 3 && one.figures.is_some()));
    assert!(again.skipped_sentences().iter().all(|sentence| sentence.contains("had failed before")));
}

#[test]
fn a_run_that_was_interrupted_goes_on_where_it_ended_and_comes_to_the_same_cases() {
    let (mut driver, mut record) = (FakeDriver::default(), new_record());
    measure(&mut driver, &mut record, 8).unwrap();
    assert_eq!(record.stopped_by.as_deref(), Some("it was interrupted"));
    let text = record.json().unwrap();
    let mut again = Record::parse(&text).unwrap();
    assert_eq!(again, record);
    again.continues(&new_record().clone()).unwrap();
    let mut driver = FakeDriver::default();
    measure(&mut driver, &mut again, usize::MAX - 1).unwrap();
    // The group that was in progress is measured as a whole.
    assert_eq!(driver.asked.iter().filter(|asked| !asked.ends_with('*')).count(), 18);
    assert!(again.complete && again.cases.iter().all(|one| one.samples.len() == 4));
}

#[test]
fn a_run_that_was_interrupted_before_its_first_figure_is_an_error_and_replaces_no_report() {
    let (mut driver, mut record) = (FakeDriver::default(), new_record());
    let error = measure(&mut driver, &mut record, 2).unwrap_err().to_string();
    assert!(error.contains("interrupted before anything was measured"), "{error}");
}

#[test]
fn a_run_that_goes_on_compares_samples_of_one_run() {
    let fails = vec![("one", "krb5p")];
    let (mut driver, mut record) = (FakeDriver { fails, ..FakeDriver::default() }, new_record());
    measure(&mut driver, &mut record, usize::MAX - 1).unwrap();
    // The machine of the former run was ten times as fast.
    let former = record.cases.iter_mut().flat_map(|one| &mut one.samples);
    former.for_each(|sample| sample.operations *= 10);
    let two = record.variant("two", "sys").unwrap().samples.clone();
    measure(&mut FakeDriver::default(), &mut record, usize::MAX - 1).unwrap();
    for variant in ["krb5", "krb5p"] {
        let figures = record.variant("one", variant).unwrap().figures.as_ref().unwrap();
        let ratio = figures.against.as_ref().unwrap().ratio.median;
        assert!((0.4..1.1).contains(&ratio), "{variant}: {ratio}");
    }
    assert_eq!(record.variant("two", "sys").unwrap().samples, two, "a whole group stays");
}

#[test]
fn a_case_with_another_load_than_in_the_former_run_is_measured_again() {
    let mut record = new_record();
    let deep = |variant: &String, depth| depths::at_depth(&case("one", variant), depth);
    for depth in [4, 8] {
        let cases = record.settings.variants.iter().map(|variant| deep(variant, depth)).collect();
        let (stop, mut driver) = (AtomicBool::new(false), FakeDriver::default());
        let watch = RunWatch { stop: &stop, step: &mut |_| {}, save: &mut |_| Ok(()) };
        run(&mut Once(Some(cases)), &mut driver, &mut record, watch).unwrap();
        assert_eq!(driver.asked.len(), 3 * 4);
        assert!(
            record.cases.iter().all(|one| one.samples.len() == 4 && one.case == deep(&one.variant, depth))
        );
    }
}

#[test]
fn a_variant_that_is_no_longer_part_of_a_group_keeps_no_samples_in_it() {
    let mut record = new_record();
    for (variants, depth) in [(&["sys", "krb5", "krb5p"][..], 4), (&["sys", "krb5"], 8)] {
        let cases = variants.iter().map(|variant| depths::at_depth(&case("one", variant), depth)).collect();
        let (stop, mut driver) = (AtomicBool::new(false), FakeDriver::default());
        let watch = RunWatch { stop: &stop, step: &mut |_| {}, save: &mut |_| Ok(()) };
        run(&mut Once(Some(cases)), &mut driver, &mut record, watch).unwrap();
        let left: Vec<&str> = record.cases.iter().map(|one| one.variant.as_str()).collect();
        assert_eq!(left, variants);
    }
}

#[test]
fn a_clean_up_that_fails_is_reported_after_an_interruption_too() {
    let measured = |stop_after| {
        let (mut driver, mut record) =
            (FakeDriver { keeps_a_folder: true, ..FakeDriver::default() }, new_record());
        measure(&mut driver, &mut record, stop_after).unwrap();
        (record.stopped_by.unwrap(), record.notes)
    };
    assert_eq!(measured(usize::MAX - 1), ("cleaning up: NFS4ERR_ACCESS".to_owned(), Vec::new()));
    let (stopped_by, notes) = measured(8);
    assert_eq!(stopped_by, "it was interrupted");
    assert_eq!(notes, ["The run ended with an error: cleaning up: NFS4ERR_ACCESS."]);
}

#[test]
fn another_run_or_one_of_another_environment_is_not_gone_on_with() {
    let record = Record { command: "orthrus bench test".to_owned(), ..new_record() };
    let refused = |change: &dyn Fn(&mut Record)| {
        let mut other = new_record();
        change(&mut other);
        record.continues(&other).unwrap_err().to_string()
    };
    let said = refused(&|other| other.settings.seconds = 7.0);
    assert!(said.contains("length") && said.ends_with("repeat its command: orthrus bench test"), "{said}");
    let said = [
        refused(&|other| other.environment.kernel.push('x')),
        refused(&|other| other.environment.program.push('x')),
        refused(&|other| other.environment.instructions.push("x".to_owned())),
        refused(&|other| other.environment.cores += 1),
    ];
    let again = "measure again without --resume: orthrus bench test";
    assert!(said[0].contains("another kernel") && said.iter().all(|one| one.ends_with(again)), "{said:?}");
}

#[test]
fn a_report_of_another_version_says_which_and_what_helps() {
    let said = |text: &str| format!("{:#}", Record::parse(text).unwrap_err());
    let old = r#"{"schema": "orthrus-bench/1", "command": "orthrus bench quick server:/a", "series": []}"#;
    assert_eq!(
        said(old),
        "its schema is orthrus-bench/1, and this orthrus reads orthrus-bench/2: it is of an older orthrus; measure again: orthrus bench quick server:/a"
    );
    assert!(said(r#"{"schema": "orthrus-bench/3"}"#).contains("the newer orthrus that wrote it"));
    assert!(said(r#"{"schema": "other"}"#).contains("no report of orthrus bench"));
    assert!(said("nonsense").contains("no report of orthrus bench"));
}

#[test]
fn a_difference_within_the_noise_or_the_interval_or_of_few_repetitions_is_no_difference() {
    let judge = |values: &[f64], noise| Verdict::of(&Interval::of(values.iter().copied()).unwrap(), noise);
    assert_eq!(judge(&[0.90, 0.90, 0.91, 0.91, 0.92, 0.92], 0.02), Verdict::Lower);
    assert_eq!(judge(&[0.98, 0.98, 0.985, 0.985, 0.99, 0.99], 0.02), Verdict::BelowNoise);
    assert_eq!(judge(&[0.90, 0.90, 0.91, 0.91, 0.92, 1.01], 0.02), Verdict::Same);
    assert_eq!(judge(&[1.2, 1.2, 1.21, 1.21, 1.3, 1.3], 0.02), Verdict::Higher);
    for few in [&[0.5][..], &[0.90, 0.91, 0.92], &[0.5; 5]] {
        assert_eq!(judge(few, 0.02), Verdict::Same, "{few:?}");
    }
}
