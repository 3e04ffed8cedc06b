use super::*;
use crate::{Environment, Flavor, LeftOut, Measurement, Plan, SCHEMA, Series, Spread, Workload};

/// A report with made-up figures of plausible size, for looks only.
pub(crate) fn sample() -> Report {
    let plan = Plan::default();
    let mut series = Vec::new();
    for (index, workload) in Workload::ALL.into_iter().enumerate() {
        let run = |flavor: Flavor| -> Vec<Measurement> {
            let slowness = 1.0 + 0.07 * (flavor as u8 as f64) * (1.0 + index as f64 / 6.0);
            (0..3)
                .map(|round| measurement(workload, round, slowness * (1.0 + 0.02 * f64::from(round))))
                .collect()
        };
        let sys = run(Flavor::Sys);
        series.extend(
            Flavor::ALL.into_iter().filter_map(|flavor| Series::new(workload, flavor, run(flavor), &sys)),
        );
    }
    Report {
        schema: SCHEMA.into(),
        started_at: 1_795_000_000,
        target: "localhost:/data <a folder>".into(),
        command: "orthrus bench quick localhost:/data".into(),
        plan,
        complete: true,
        stopped_by: None,
        left_out: Vec::new(),
        environment: Environment::of_this_machine(),
        series,
    }
}

fn measurement(workload: Workload, round: u32, slowness: f64) -> Measurement {
    let (operations, size, p50) = match workload {
        Workload::SequentialRead | Workload::SequentialWrite => (2000.0, 1 << 20, 1900.0),
        Workload::RandomReadDepth1 | Workload::RandomWriteDepth1 => (16_000.0, 4096, 55.0),
        Workload::Metadata => (9000.0, 0, 100.0),
        _ => (160_000.0, 4096, 380.0),
    };
    let operations = (operations / slowness) as u64;
    Measurement {
        round,
        operations,
        bytes: operations * size,
        seconds: 1.0,
        p50_us: p50 * slowness,
        p99_us: p50 * slowness * 2.7,
        client_cpu_seconds: 0.8,
        server_cpu_seconds: Some(0.6 * slowness),
    }
}

#[test]
fn the_table_has_a_row_for_each_workload_and_flavor() {
    let text = table(&sample());
    assert_eq!(text.lines().filter(|line| line.starts_with("  krb5p")).count(), Workload::ALL.len());
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

#[test]
fn the_json_reads_back_as_the_same_report() {
    let report = sample();
    let text = json(&report).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
    assert!(text.contains("\"schema\": \"orthrus-bench/1\""));
}

#[test]
fn the_headline_says_what_the_strongest_flavor_costs() {
    let said = headline(&sample()).replace(['\u{202f}', '\u{a0}'], " ");
    let expected =
        "krb5p costs 22 % of random reads, 17 % of sequential throughput and 19.6 µs on a single 4 KiB read.";
    assert_eq!(said, expected);
}

#[test]
fn the_headline_speaks_of_what_was_measured() {
    let mut report = sample();
    report.series.retain(|series| series.workload == Workload::SequentialWrite);
    assert_eq!(headline(&report).replace('\u{202f}', " "), "krb5p costs 20 % of sequential writes.");
}

#[test]
fn what_the_rounds_do_not_agree_on_is_no_headline() {
    let mut report = sample();
    for series in &mut report.series {
        let wide = Spread { median: 0.97, min: 0.9, max: 1.1 };
        series.summary.ratio_to_sys = series.summary.ratio_to_sys.map(|_| wide);
        series.summary.p50_us = Spread { median: 50.0, min: 40.0, max: 60.0 };
    }
    assert_eq!(headline(&report), "krb5p costs nothing that this run could measure.");
    report.series.retain(|series| series.flavor == Flavor::Sys);
    report.series.iter_mut().for_each(|series| series.summary.ratio_to_sys = None);
    assert!(headline(&report).starts_with("Nothing to compare"));
}

#[test]
fn a_flavor_that_could_not_be_measured_is_named_with_its_reason() {
    let mut report = sample();
    report.series.retain(|series| series.flavor != Flavor::Krb5i);
    report.left_out.push(LeftOut { flavor: Flavor::Krb5i, reason: "no ticket".into() });
    assert!(table(&report).contains("krb5i was not measured: no ticket"));
    assert!(html(&report).contains("krb5i was not measured: no ticket."));
    assert_eq!(serde_json::from_str::<Report>(&json(&report).unwrap()).unwrap(), report);
}

#[test]
fn a_run_that_was_interrupted_says_so_in_every_form() {
    let mut report = sample();
    (report.complete, report.stopped_by) = (false, Some("Ctrl-C".into()));
    report.series.truncate(3);
    assert!(table(&report).contains("Not complete: Ctrl-C"));
    assert!(html(&report).contains("not complete: Ctrl-C"));
    assert!(json(&report).unwrap().contains("\"complete\": false"));
}

#[test]
fn the_page_is_self_contained_and_escapes_what_it_quotes() {
    let page = html(&sample());
    for outside in ["http:", "https:", "src=", "@import", "<script", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("localhost:/data &lt;a folder&gt;"));
    assert_eq!(page.matches("<figure").count(), 3 * (1 + Workload::ALL.len()));
}
