use super::*;
use crate::{Compared, Plot, attribution_sentence, generator_notes, slots_notes, stages_note};
use anyhow::Result;
use bench::evaluation::{
    ANF, NCONNECT, ONTAP, OntapClimb, PlanFile, QUICK, QUICK_LOADS, anf, nconnect, own_plan, quick,
};
use bench::measuring::{
    Calibration, Case, CaseDriver, CaseRecord, CaseTurn, Evaluation, Histogram, Latencies, Load, LoadLevel,
    MachineLimit, Missing, RunWatch, Sample, Settings, Stages, Verdict, run,
};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Answers with made-up figures of plausible size: a server that is saturated at 100,000 IOPS with
/// sys.
struct Made;

fn slowness(variant: &str) -> f64 {
    match variant {
        "sys" => 1.0,
        "krb5" => 1.04,
        "krb5i" => 1.1,
        _ => 1.25,
    }
}

/// A microsecond or so for each request, and 30 in which it waits.
fn stages(variant: &str, rate: f64) -> Stages {
    let (each, protected) = (rate * 1e-6, slowness(variant) - 1.0);
    Stages {
        requests: rate as u64,
        queue_seconds: 30.0 * each,
        unwrap_seconds: protected * 2.0 * each,
        execute_seconds: each,
        wrap_seconds: protected * 3.0 * each,
        send_seconds: 0.5 * each,
    }
}

impl CaseDriver for Made {
    fn begin(&mut self, _cases: &[Case]) -> Result<()> {
        Ok(())
    }

    fn prepare(&mut self, _case: &Case, _record: &mut Record) -> Result<()> {
        Ok(())
    }

    /// Real ones would take most of the time of these tests; [`sample`] replaces them.
    fn calibrate(&mut self, _begun: Instant) -> Calibration {
        Calibration { at_seconds: 0.0, rate: 100.0 }
    }

    fn measure(&mut self, case: &Case, turn: &CaseTurn<'_>) -> Result<Option<Sample>> {
        let slowness = slowness(&case.variant) * if turn.warm_up { 1.3 } else { 1.0 };
        let (most, offered, size) = match &case.load {
            Load::Transfer(transfer) if !transfer.random && transfer.size > 8192 => (2000.0, None, 1 << 20),
            Load::Transfer(transfer) => (100_000.0, transfer.rate, transfer.size),
            _ => (9000.0, None, 0),
        };
        let most = most / slowness;
        let rate = offered.unwrap_or(most).min(most);
        let base = if case.axes.level() == Some(LoadLevel::Low) { 60.0 } else { 600.0 };
        let waiting = 1.0 / (1.0 - 0.9 * rate / most);
        let mut histogram = Histogram::default();
        for step in 1..=100 {
            let micros = base * slowness * waiting * (0.8 + f64::from(step * step) / 8000.0);
            histogram.count(Duration::from_micros(micros as u64));
        }
        let counters = [
            ("client_calls", 100),
            ("calls", 100),
            ("lag_32", 3),
            ("clone_operations", 50),
            ("clone_us", 9000),
        ];
        Ok(Some(Sample {
            operations: rate as u64,
            bytes: rate as u64 * size,
            seconds: 1.0,
            offered,
            unserved: offered.map_or(0, |offered| (offered - rate) as u64),
            latency: Latencies::of(histogram),
            client_cpu_seconds: Some(0.4 * slowness),
            server_cpu_seconds: Some(0.6 * slowness),
            server_stages: Some(stages(&case.variant, rate)),
            counters: counters.map(|(name, count)| (name.to_owned(), count)).into(),
            ..Sample::default()
        }))
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

fn settings() -> Settings {
    Settings::new(6, 1.0, 64 << 20, ["sys", "krb5", "krb5i", "krb5p"].map(str::to_owned).to_vec())
}

/// Makes a record of an evaluation with invented figures, for views and tests of drawings.
pub(crate) fn sample(name: &str) -> Record {
    let plan: PlanFile =
        serde_json::from_str(r#"{"case": [{"name": "one & two", "kind": "random"}]}"#).unwrap();
    let mut evaluation: Box<dyn Evaluation> = match name {
        ANF => Box::new(anf(&settings(), 1)),
        ONTAP => Box::new(OntapClimb::new(&[1], &["portable".to_owned()])),
        NCONNECT => Box::new(nconnect(&settings(), Some(4096))),
        QUICK => Box::new(quick(&settings(), 1)),
        _ => Box::new(own_plan(&plan)),
    };
    let mut record = Record::begin(name, "What Kerberos costs", settings());
    let stop = AtomicBool::new(false);
    let watch = RunWatch { stop: &stop, step: &mut |_| {}, save: &mut |_| Ok(()) };
    run(&mut *evaluation, &mut Made, &mut record, watch).unwrap();
    record.started_at = 1_795_000_000;
    record.target = "this machine, localhost:/data <a folder>".to_owned();
    record.environment.cores = 2;
    record.command = format!("orthrus bench {name} localhost:/data");
    record.calibrations =
        (0..60u32).map(|n| Calibration { at_seconds: n.into(), rate: 100.0 + f64::from(n % 5) }).collect();
    for (limit, value, unit) in [("loopback", 6000.0, "MB/s"), ("loopback round trip", 21.0, "us")] {
        let (name, unit, how) = (limit.to_owned(), unit.to_owned(), "made up".to_owned());
        record.limits.push(MachineLimit { name, value, unit, how });
    }
    record.summarise();
    record.notes = generator_notes(&record);
    record
}

#[test]
fn the_tables_of_anf_have_our_figures_above_the_published_ones() {
    let shown = view(&sample(ANF));
    assert_eq!(
        shown.headline.replace('\u{202f}', " "),
        "On two shared cores over loopback, krb5p keeps 80 % of IOPS and 80 % of throughput and adds 167 µs of \
         latency compared with sys."
    );
    let [first, second, shares, commands, ..] = &shown.tables[..] else { panic!("four tables") };
    let cells = |row: &crate::TableRow| row.cells.join("; ").replace('\u{202f}', " ");
    assert_eq!(cells(&first.rows[8]), "−4 % → −4 %; −9 % → −9 %; −20 % → −20 %");
    assert_eq!(cells(&first.rows[9]), "−30 % → 0 %; −50 % → −25 %; −65 % → −43 %");
    assert_eq!(cells(&second.rows[0]), "−4 %; −9 %; −20 %");
    assert_eq!(cells(&second.rows[1]), "−53 %; −55 %; −77 %");
    assert_eq!(shares.rows.len(), 3);
    assert_eq!(shares.rows[0].cells[2], "+5.62 µs: 2.25 client, 3.38 server");
    assert!(
        commands.rows[0].name == "clone" && cells(&commands.rows[0]).starts_with("5 556; 5 556 (≈ 100 %);"),
        "{commands:?}"
    );
    // Of pure reads, pure writes and git there is one of processor time, and one of the server's
    // time.
    assert_eq!(shown.charts.len(), 3 + 4 + 5 + 5);
}

#[test]
fn the_tables_of_anf_name_the_baseline_that_every_row_is_relative_to() {
    let mut record = sample(ANF);
    let heads = |record: &Record| {
        let tables = view(record).tables.into_iter().take(4);
        tables.map(|table| (table.columns[0].clone(), table.how)).collect::<Vec<_>>()
    };
    let to_sys = heads(&record);
    assert!(to_sys[..2].iter().all(|(head, how)| head == "relative to sys" && how.contains("to sys.")));
    record.settings.baseline = "krb5".to_owned();
    record.summarise();
    let to_krb5 = heads(&record);
    let names = to_krb5[..2].iter().all(|(head, how)| {
        head == "relative to krb5" && how.ends_with("relative to krb5, the published ones to sys.")
    });
    assert!(names && to_krb5[2].0 == "added to krb5", "{to_krb5:?}");
    assert!(to_krb5[3].1.contains("as a part of krb5's"), "{to_krb5:?}");
    let commands = view(&record).tables.remove(3);
    for row in &commands.rows {
        let shown: Vec<bool> = row.cells.iter().map(|cell| cell.contains('(')).collect();
        let measured = row.name == "clone";
        assert_eq!(shown, [measured, false, measured, measured], "{row:?}");
    }
}

#[test]
fn the_headline_attributes_processor_time_to_client_and_server_where_it_is_known() {
    let record = sample(ANF);
    let said = attribution_sentence(&record).unwrap();
    let request =
        "krb5p adds 5.62 µs of processor time to a request: 2.25 µs at the client, 3.38 µs at the server.";
    assert!(said.starts_with(request), "{said}");
    for text in [crate::page(&record, &view(&record)), crate::markdown(&record, &view(&record))] {
        assert!(text.contains(request), "{text}");
    }
    let mut elsewhere = sample(ANF);
    let samples = elsewhere.cases.iter_mut().flat_map(|case| &mut case.samples);
    samples.for_each(|sample| sample.server_cpu_seconds = None);
    elsewhere.summarise();
    assert!(attribution_sentence(&elsewhere).unwrap().contains("the server\u{2019}s is not known"));
    let mut unsteady = sample(ANF);
    let rates = (0..60u32).map(|n| if n % 2 == 0 { 100.0 } else { 400.0 });
    unsteady.calibrations = rates.map(|rate| Calibration { at_seconds: 0.0, rate }).collect();
    unsteady.summarise();
    assert!(attribution_sentence(&unsteady).unwrap().contains("below the noise of this machine"));
    let table = view(&unsteady).tables.remove(0);
    assert!(table.rows[8].cells[0].contains('≈'), "{table:?}");
}

#[test]
fn a_failed_sample_is_named_in_its_place_and_is_part_of_no_mean() {
    let mut record = sample(ANF);
    let failed = |case: &&CaseRecord| case.variant == "krb5p" && case.axes.level() == Some(LoadLevel::High);
    let cases: Vec<Case> = record.cases.iter().filter(failed).map(|case| case.case.clone()).collect();
    record.skipped = cases.iter().map(|case| Missing::case(case, "no answer in 20 s; a cure")).collect();
    record.summarise();
    let shown = view(&record);
    assert!(shown.headline.ends_with("11 of its 22 cases failed and are not in that."), "{}", shown.headline);
    assert_eq!(shown.tables[0].rows[8].cells[2], "no answer in 20 s");
    assert_eq!(shown.tables[1].rows[0].cells[2], "failed");
    let page = crate::page(&record, &shown);
    assert!(page.contains("✕ krb5p") && page.contains("<td>no answer in 20 s</td>") && !page.contains("NaN"));
    let nothing = |record: &mut Record| {
        let out = record.cases.iter().filter(|case| case.variant != "sys");
        record.skipped = out.map(|case| Missing::case(case, "no answer in 20 s")).collect();
        record.summarise();
    };
    for name in [ANF, ONTAP, NCONNECT, QUICK, PLAN] {
        let mut record = sample(name);
        nothing(&mut record);
        let text = crate::markdown(&record, &view(&record));
        assert!(text.contains("failed in all cases") && text.contains("| no answer in 20 s |"), "{text}");
    }
}

#[test]
fn quick_shows_every_figure_of_every_flavor_in_a_table_for_a_terminal() {
    let record = sample(QUICK);
    let shown = view(&record);
    assert_eq!(
        shown.headline.replace('\u{202f}', " "),
        "On two shared cores over loopback, krb5p keeps 80 % of IOPS and 80 % of throughput and adds 167 µs of \
         latency compared with sys."
    );
    assert_eq!(record.groups().len(), QUICK_LOADS);
    let text = crate::tables(&shown);
    for load in record.groups() {
        assert!(text.contains(&format!("\n{load}\n")), "{text}");
    }
    assert_eq!(text.lines().filter(|line| line.starts_with("  krb5p ")).count(), QUICK_LOADS);
    assert!(text.lines().all(|line| line.chars().count() <= 104), "{text}");
    let speed = &shown.tables[1];
    assert_eq!(
        speed.rows[0].cells.join("; ").replace('\u{202f}', " "),
        "2 097 MB/s; 2 016 (96 %); 1 906 (91 %); 1 678 (80 %)"
    );
    // The ratios in two charts, then one of each load for speed, latency and processor time, and
    // two of all loads.
    let server = shown.charts.iter().filter(|chart| chart.section.starts_with("Where the server")).count();
    assert_eq!(shown.charts.len(), 2 + 3 * QUICK_LOADS + 2 + server);
}

#[test]
fn differences_that_quick_cannot_show_are_not_called_a_cost() {
    let mut record = sample(QUICK);
    record.calibrations.iter_mut().step_by(2).for_each(|one| one.rate *= 0.5);
    record.summarise();
    let shown = view(&record);
    assert!(shown.headline.contains("too unsteady"), "{}", shown.headline);
    assert!(
        shown.tables[0].rows.iter().any(|row| row.cells.get(2).is_some_and(|cell| cell == "below the noise"))
    );
    assert!(shown.tables[1].rows[0].cells[3].contains("(≈\u{202f}80"), "{:?}", shown.tables[1]);
    for chart in &shown.charts {
        let marked: Vec<(&str, bool)> = match &chart.plot {
            Plot::Bars(bars) if chart.section == "Speed" => {
                bars.bars.iter().map(|bar| (bar.variant.as_str(), bar.unsure)).collect()
            }
            Plot::Spans(spans) => {
                spans.spans.iter().map(|span| (span.variant.as_str(), span.unsure)).collect()
            }
            Plot::LoadParts(all) => {
                let parts = all.rows.iter().flat_map(|row| &row.parts);
                parts.map(|one| (one.variant.as_str(), one.unsure)).collect()
            }
            _ => Vec::new(),
        };
        // krb5p takes half as much processor time again, which is more than the noise.
        let shown =
            |variant: &str| variant == "sys" || variant == "krb5p" && chart.title.contains("processor");
        assert!(marked.iter().all(|(variant, unsure)| *unsure != shown(variant)), "{chart:?}");
    }
    let page = crate::page(&record, &shown);
    assert!(page.contains(r#"<rect class="bar krb5p unsure""#) && page.contains("<b>≈\u{202f}"), "{page}");
    record.skipped.push(Missing::case(&record.cases[3].case, "WRITE: NFS4ERR_NOSPC (it is full)"));
    record.cases[3].samples.clear();
    record.summarise();
    let shown = view(&record);
    assert_eq!(shown.tables[0].rows[4].cells, ["NFS4ERR_NOSPC"]);
    assert_eq!(shown.tables[1].rows[0].cells[3], "NFS4ERR_NOSPC");
    record.cases.retain(|case| case.variant != "sys");
    record.summarise();
    let shown = view(&record);
    assert_eq!(
        shown.headline,
        "Nothing to compare: sys, the baseline, has no figures. Leave it out to compare with krb5."
    );
    assert!(shown.charts.iter().all(|chart| !chart.title.starts_with("All loads")));
}

#[test]
fn the_climb_of_ontap_ends_for_each_variant_where_it_is_saturated() {
    let record = sample(ONTAP);
    let steps = |variant: &str| {
        let of = |case: &&bench::measuring::CaseRecord| {
            case.variant == variant && case.axes.scheduled_on() == Some("4 KiB sequential reads, 1 client")
        };
        let steps = record.cases.iter().filter(of).filter_map(|case| case.axes.curve()?.step);
        steps.fold(0.0, f64::max)
    };
    // krb5p reaches 80 % of the rate of sys: it is saturated one step earlier.
    assert_eq!((steps("sys"), steps("krb5p")), (1.15, 0.9));
    let shown = view(&record);
    let latency = shown.tables[1].rows[0].cells.join("; ");
    assert!(latency.contains("µs") && !latency.contains("saturated"), "{latency}");
    assert_eq!(
        shown.charts.iter().filter(|chart| chart.title.contains("server portable")).count(),
        4 * (3 + 1) + 1
    );
}

#[test]
fn the_latency_near_50_000_iops_is_that_of_a_step_near_it_at_which_both_kept_up() {
    let measured = sample(ONTAP);
    let said = |change: &dyn Fn(&mut Sample)| {
        let mut record = measured.clone();
        let steps = record.cases.iter_mut().filter(|case| case.axes.scheduled_on().is_some());
        steps.flat_map(|case| &mut case.samples).for_each(change);
        record.summarise();
        view(&record).headline.contains("At about 50,000 IOPS")
    };
    assert!(said(&|_| ()));
    // The nearest step is at 55 % of 100,000 IOPS.
    assert!(said(&|sample| sample.offered = sample.offered.map(|rate| rate * 1.2)));
    assert!(!said(&|sample| sample.offered = sample.offered.map(|rate| rate * 8.0)), "80,000 and more");
    assert!(!said(&|sample| sample.offered = sample.offered.map(|rate| rate * 0.2)), "at most 23,000");
    assert!(!said(&|sample| sample.unserved = sample.operations), "saturated");
    // In turns less and more than that of sys.
    let mut record = measured.clone();
    for case in record.cases.iter_mut().filter(|case| case.axes.scheduled_on().is_some()) {
        let more = if case.variant == "krb5p" { 50.0 } else { -50.0 };
        for (sample, turn) in case.samples.iter_mut().zip([1.0, -1.0].into_iter().cycle()) {
            sample.latency.as_mut().unwrap().p50_us = 200.0 + more * turn;
        }
    }
    record.summarise();
    let headline = view(&record).headline;
    assert!(headline.contains("IOPS") && !headline.contains("At about 50,000 IOPS"), "{headline}");
}

#[test]
fn the_latency_of_a_slow_server_is_shown_where_the_baseline_keeps_up() {
    let mut record = sample(ONTAP);
    for case in record.cases.iter_mut().filter(|case| case.variant == "sys") {
        let saturated = |sample: &&mut Sample| sample.offered.is_some_and(|rate| rate > 45_000.0);
        case.samples.iter_mut().filter(saturated).for_each(|sample| sample.unserved = sample.operations);
    }
    record.summarise();
    let row = view(&record).tables[1].rows.remove(0);
    assert!(row.name.ends_with(", 40.0k IOPS") && row.cells[0].contains("µs"), "{row:?}");
}

#[test]
fn a_server_that_is_held_to_other_instructions_is_no_part_of_the_headline() {
    let mut record = sample(ONTAP);
    let said = |record: &Record| (view(record).headline, attribution_sentence(record));
    let before = said(&record);
    let portable =
        |case: &&mut CaseRecord| case.load.layout().server_cpu.is_some() && case.variant == "krb5p";
    for sample in record.cases.iter_mut().filter(portable).flat_map(|case| &mut case.samples) {
        sample.operations /= 4;
    }
    record.summarise();
    assert_eq!(said(&record), before);
    record.cases.retain(|case| case.load.layout().server_cpu.is_some());
    record.summarise();
    assert!(view(&record).headline.contains("keeps 20"), "alone it is: {}", view(&record).headline);
}

#[test]
fn losses_over_several_connections_are_counted_and_reported() {
    let mut record = sample(NCONNECT);
    assert!(view(&record).headline.contains("Nothing was dropped"), "{}", view(&record).headline);
    let last = record.cases.last_mut().unwrap();
    last.samples[2].counters.insert("window_drops".to_owned(), 7);
    let shown = view(&record);
    assert!(shown.headline.contains("lost 7 calls"), "{}", shown.headline);
    let row = shown.tables[1].rows.last().unwrap();
    assert_eq!((row.name.as_str(), row.cells[0].as_str()), ("16 connections, reordered · krb5p", "7"));
    assert_eq!(row.cells[4], "3.0 %");
}

#[test]
fn parts_of_loads_that_did_not_run_side_by_side_are_marked_where_they_do_not_differ() {
    // A variant has the same rate over all connections, and with both choices of instructions.
    let (connections, curves) = (view(&sample(NCONNECT)), view(&sample(ONTAP)));
    let [single, more, ..] = &connections.tables[0].rows[..] else { panic!("rows by connections") };
    assert!(single.cells.iter().all(|cell| !cell.contains('%')), "{single:?}");
    assert!(more.cells.iter().all(|cell| cell.contains("(≈\u{202f}100")), "{more:?}");
    let choices = &curves.tables[2].rows;
    assert!(choices.iter().flat_map(|row| &row.cells).all(|cell| cell.contains('≈')), "{choices:?}");
}

#[test]
fn a_load_with_more_requests_in_flight_than_slots_is_named() {
    let mut record = sample(NCONNECT);
    record.environment.slots = [("sys".to_owned(), 64), ("krb5p".to_owned(), 8)].into();
    assert_eq!(
        slots_notes(&record),
        ["Sessions of krb5p have 8 slots: loads with more requests of a client in flight had 8."]
    );
    let other = sample(NCONNECT);
    let compared = Compared::of(["one", "other"], [&record, &other]);
    assert!(compared.notes.iter().any(|note| note.contains("slots of a session (krb5p 8 sys 64; none)")));
}

#[test]
fn mounts_measure_no_reordered_calls_and_show_the_kernels_counts_of_lost_ones() {
    let (mut evaluation, mut record) = (nconnect(&settings(), None), sample(NCONNECT));
    let blocks: Vec<Vec<Case>> = std::iter::from_fn(|| evaluation.next(&record)).collect();
    assert_eq!(blocks.len(), 5);
    assert!(blocks.iter().flatten().all(|case| case.axes.connections().is_some_and(|axes| !axes.reordered)));
    record.cases.retain(|case| case.axes.connections().is_some_and(|axes| !axes.reordered));
    record.environment.mounts = vec![bench::MountFacts {
        variant: "sys".to_owned(),
        folder: "/mnt".into(),
        source: "server:/export".to_owned(),
        fs_type: "nfs4".to_owned(),
        options: vec!["nconnect=16".to_owned()],
        read_ahead_kib: None,
        enctype: None,
    }];
    let last = record.cases.last_mut().unwrap();
    for (name, count) in [("client_calls", 900), ("client_calls_repeated", 3), ("client_timeouts", 2)] {
        last.samples[2].counters.insert(name.to_owned(), count);
    }
    let shown = view(&record);
    let row = shown.tables[1].rows.last().unwrap();
    assert_eq!(row.cells[1..], ["0", "3", "2", "0"], "{row:?}");
    assert!(shown.headline.contains("lost 3 calls"), "{}", shown.headline);
}

#[test]
fn two_runs_differ_where_their_intervals_do_not_meet_and_the_noise_is_smaller() {
    let (first, mut second) = (sample(PLAN), sample(PLAN));
    let compare = |first: &Record, second: &Record| {
        Compared::of(["first", "second"], [first, second]).view([first, second])
    };
    assert_eq!(compare(&first, &second).headline, "Nothing differs significantly in 4 cases.");
    for sample in &mut second.cases[3].samples {
        sample.operations = sample.operations * 3 / 4;
    }
    second.summarise();
    let shown = compare(&first, &second);
    assert_eq!(
        shown.headline.replace('\u{202f}', " "),
        "Of 4 cases, second is slower in 1 (median 75 % of the rate) and faster in 0 compared with first; 3 show no significant difference."
    );
    let verdicts: Vec<&str> =
        shown.tables[1].rows.iter().filter_map(|row| row.cells.last().map(String::as_str)).collect();
    let same = "no difference shown";
    assert_eq!(verdicts, [same, same, same, "lower"]);
    // With a machine that is as unsteady as that nothing is said.
    second.calibrations.iter_mut().step_by(2).for_each(|one| one.rate *= 0.4);
    second.summarise();
    assert_eq!(compare(&first, &second).headline, "Nothing differs significantly in 4 cases.");
    second.cases.clear();
    let shown = compare(&first, &second);
    assert_eq!(shown.headline, "The two runs have no case to compare.");
    assert!(
        shown.tables.iter().all(|table| !table.title.starts_with("What each costs")),
        "{:?}",
        shown.tables
    );
}

#[test]
fn the_costs_of_two_runs_are_means_over_the_cases_of_both() {
    let (first, mut second) = (sample(PLAN), sample(PLAN));
    second.cases.pop();
    let shown = Compared::of(["first", "second"], [&first, &second]).view([&first, &second]);
    let costs = shown.tables.iter().find(|table| table.title.starts_with("What each costs")).unwrap();
    for row in &costs.rows {
        assert!(row.cells.chunks(2).all(|cells| cells[0] == cells[1]), "{row:?}");
    }
}

#[test]
fn two_runs_on_a_schedule_differ_in_their_latencies() {
    let (first, mut second) = (sample(ONTAP), sample(ONTAP));
    let scheduled = second.cases.iter_mut().filter(|case| case.axes.scheduled_on().is_some());
    let samples = scheduled.flat_map(|case| &mut case.samples);
    let mut cases = 0;
    samples.filter_map(|sample| sample.latency.as_mut()).for_each(|latency| {
        latency.p50_us *= 3.0;
        cases += 1;
    });
    second.summarise();
    let cases = cases / 7;
    let statement = |one, other| Compared::of(["a", "b"], [one, other]).statement().replace('\u{202f}', " ");
    let slower =
        format!("b is slower in {cases} (median 300 % of the latency) and faster in 0 compared with a;");
    assert!(statement(&first, &second).contains(&slower), "{}", statement(&first, &second));
    let faster = format!("slower in 0 and faster in {cases} (median 33 % of the latency)");
    assert!(statement(&second, &first).contains(&faster), "{}", statement(&second, &first));
}

#[test]
fn other_conditions_than_the_server_are_named_beside_two_runs() {
    let (first, mut second) = (sample(PLAN), sample(PLAN));
    assert_eq!(Compared::of(["a", "b"], [&first, &second]).notes, Vec::<String>::new());
    second.environment.link = Some("1gbit".parse().unwrap());
    second.environment.kernel = "6.0".to_owned();
    second.settings.file_size *= 2;
    second.settings.options.insert("connections".to_owned(), 4.into());
    let compared = Compared::of(["a", "b"], [&first, &second]);
    let [note] = &compared.notes[..] else { panic!("{:?}", compared.notes) };
    let kernel = format!("kernel ({}; 6.0)", first.environment.kernel);
    for said in
        [&kernel, "network (none; 1\u{202f}Gbit/s)", "file size (64 MiB; 128 MiB)", "(none; connections 4)"]
    {
        assert!(note.contains(said), "{said}: {note}");
    }
    let text = crate::compared_markdown(&compared, [&first, &second], "");
    assert!(text.contains(note) && text.contains("| Network | – | a link of 1"), "{text}");
    let page = crate::compared_page(&compared, [&second, &first], "");
    assert!(page.contains("Network"), "{page}");
}

#[test]
fn cases_with_another_load_in_each_run_are_not_compared() {
    let (first, mut second) = (sample(ONTAP), sample(ONTAP));
    let step = |case: &&mut CaseRecord| case.axes.scheduled_on().is_some();
    for case in second.cases.iter_mut().filter(step) {
        let Load::Transfer(transfer) = &mut case.case.load else { panic!("{case:?}") };
        transfer.rate = transfer.rate.map(|rate| rate * 2.0);
        case.samples.iter_mut().for_each(|sample| sample.operations *= 2);
    }
    second.summarise();
    let compared = Compared::of(["first", "second"], [&first, &second]);
    assert_eq!(compared.cases.len() + compared.not_comparable.len(), first.cases.len());
    assert!(compared.cases.iter().all(|case| case.group.ends_with(": the most")));
    assert!(compared.not_comparable.iter().all(|case| case.differs == ["rate"]));
    assert!(compared.statement().starts_with("Nothing differs"), "{}", compared.statement());
    let shown = compared.view([&first, &second]);
    let table = shown.tables.last().unwrap();
    assert_eq!((table.title.as_str(), table.rows.len()), ("Not comparable", compared.not_comparable.len()));
    assert_eq!(table.rows[0].cells, ["another load: rate"]);
}

#[test]
fn few_repetitions_show_no_difference_and_the_report_says_so_once() {
    for name in [ANF, ONTAP, NCONNECT, QUICK, PLAN] {
        let mut record = sample(name);
        let told = |record: &Record| {
            let shown = view(record);
            let texts = [
                crate::page(record, &shown),
                crate::markdown(record, &shown),
                crate::terminal(record, &shown),
            ];
            texts.map(|text| text.matches("Fewer than six repetitions cannot show").count())
        };
        assert_eq!(told(&record), [0; 3], "{name}");
        record.cases.iter_mut().for_each(|case| case.samples.truncate(1 + 5));
        record.summarise();
        assert_eq!(told(&record), [1; 3], "{name}");
        let against = |case: &CaseRecord| Some(case.figures.as_ref()?.against.as_ref()?.verdict);
        assert!(record.cases.iter().filter_map(against).all(|verdict| verdict == Verdict::Same), "{name}");
        let headline = view(&record).headline;
        assert!(headline.contains("this run shows no difference"), "{name}: {headline}");
    }
}

#[test]
fn a_note_names_a_slow_or_busy_client() {
    let notes = |record: &Record| generator_notes(record).join("\n").replace('\u{202f}', " ");
    let mut record = sample(ANF);
    let said = notes(&record);
    assert!(said.contains("drives 250 000 reads") && said.contains("less than it should be"), "{said}");
    assert!(said.contains("moves 3 355 MB/s of krb5p") && !said.contains("held it up"), "{said}");
    record.cases[0].samples.iter_mut().for_each(|sample| sample.client_cpu_seconds = Some(0.99));
    assert!(notes(&record).contains("In one case the client was busy"), "{}", notes(&record));
    record.cases[0].samples.iter_mut().for_each(|sample| sample.server_cpu_seconds = None);
    let said = notes(&record);
    assert!(said.contains("may have held up the server") && !said.contains("the server was not"), "{said}");
}

#[test]
fn a_run_that_is_not_complete_and_lacks_a_flavor_is_shown_as_such() {
    let mut record = sample(ANF);
    (record.complete, record.stopped_by) = (false, Some("krb5p: connection lost".to_owned()));
    record.skipped.push(Missing::variant("krb5i", "NFS4ERR_WRONGSEC"));
    record.cases.retain(|case| case.axes.level() == Some(LoadLevel::Low) && case.variant != "krb5i");
    record.cases.iter_mut().skip(7).for_each(|case| case.figures = None);
    let shown = view(&record);
    for text in
        [crate::page(&record, &shown), crate::markdown(&record, &shown), crate::terminal(&record, &shown)]
    {
        assert!(
            text.contains("not complete: krb5p: connection lost") && text.contains("NFS4ERR_WRONGSEC"),
            "{text}"
        );
        assert!(!text.contains("NaN"), "{text}");
    }
}

#[test]
fn stages_of_the_servers_time_are_shown_for_saturating_loads_and_a_note_says_unknown_otherwise() {
    for (name, groups) in [(ANF, 5), (ONTAP, 8), (NCONNECT, 5), (PLAN, 1)] {
        let mut record = sample(name);
        let shown = view(&record);
        let title = "Where the server's time goes";
        let charts: Vec<_> = shown.charts.iter().filter(|chart| chart.section == title).collect();
        assert_eq!(charts.len(), groups, "{name}");
        let table = shown.tables.iter().find(|table| table.title.starts_with(title)).expect("a table");
        assert_eq!(table.rows.len(), 4 * groups, "{name}");
        let page = crate::page(&record, &shown);
        let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("{name}: no {text}"));
        assert!(place(&format!("<h2>{title}</h2>")) < place(&format!("<h2>{}</h2>", table.title)), "{name}");
        // queue, unwrap, execute, wrap, send, work, protection: 30, 0.5, 1, 0.75, 0.5, 2.75, 45 %.
        let krb5p = table.rows.iter().find(|row| row.name.ends_with("krb5p")).expect("a row");
        let cells = krb5p.cells.join(" ").replace('\u{202f}', " ");
        assert!(cells.starts_with("30.0 0.50 1.00 0.75 0.50 2.75 45 % "), "{name}: {cells}");
        assert_eq!(stages_note(&record), None);
        for case in record.cases.iter_mut().flat_map(|case| &mut case.samples) {
            case.server_stages = None;
        }
        record.summarise();
        assert!(stages_note(&record).is_some_and(|note| note.contains("unknown")));
        assert!(view(&record).charts.iter().all(|chart| chart.section != title));
    }
}

#[test]
fn the_headline_is_true_for_every_order_of_flavors_and_names_baseline_and_setting() {
    let mut record = sample(PLAN);
    record.settings.baseline = "krb5p".to_owned();
    record.settings.variants.reverse();
    record.cases.retain(|case| ["sys", "krb5p"].contains(&case.variant.as_str()));
    record.summarise();
    let said = view(&record).headline.replace('\u{202f}', " ");
    assert!(
        said.starts_with("On two shared cores over loopback, sys reaches 125 % of IOPS and saves "),
        "{said}"
    );
    assert!(said.ends_with(" of latency compared with krb5p."), "{said}");
    record.target = "filer:/export".to_owned();
    record.notes.clear();
    let said = view(&record).headline;
    assert!(said.starts_with("With two client cores and filer:/export, sys reaches"), "{said}");
    record.cases.retain(|case| case.variant == "krb5p");
    record.summarise();
    assert_eq!(view(&record).headline, "Nothing to compare: no flavor was measured beside krb5p.");
}

#[test]
fn the_servers_time_of_a_stream_is_counted_per_mebibyte() {
    let mut record = sample(QUICK);
    // The same stream in five times as many requests costs the same.
    let cells = |record: &Record| {
        let shown = view(record);
        let table = shown.tables.into_iter().find(|table| table.title.contains("time goes")).unwrap();
        let of = |row: &&crate::TableRow| row.name == "Sequential read, 1 MiB · krb5p";
        table.rows.iter().find(of).unwrap().cells.clone()
    };
    let before = cells(&record);
    assert_eq!(before.last().map(String::as_str), Some("MiB"));
    for case in record.cases.iter_mut().filter(|case| case.variant == "krb5p") {
        case.samples.iter_mut().for_each(|sample| {
            sample.server_stages.as_mut().unwrap().requests *= 5;
        });
    }
    record.summarise();
    assert_eq!(cells(&record), before);
}
