//! Pages in a real browser, made from real runs. `records` keeps a part of each: some repetitions,
//! and some steps of `ontap`.

mod chromium;
mod lanl;
mod look;
mod numbers;
mod shows;
mod tables;

use super::*;
use crate::pages::tests::sample;
use bench::evaluation::{ANF, NCONNECT, QUICK};
use bench::measuring::{Missing, Record};
use chromium::{Chromium, PageLook};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The runs that pages are made of.
const RUNS: [&str; 8] = [
    "orthrus-anf",
    "ganesha-anf",
    "orthrus-lanl",
    "ganesha-lanl",
    "orthrus-nconnect",
    "orthrus-ontap",
    "plan",
    "quick",
];

/// Reads the JSON of a run.
fn json(name: &str) -> String {
    let records = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/records");
    let unpacked = Command::new("gzip").arg("-dc").arg(records.join(format!("{name}.json.gz"))).output();
    String::from_utf8(unpacked.expect("gzip starts").stdout).unwrap()
}

fn written(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(format!("{name}.html"));
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn every_page_looks_well_and_every_number_in_it_is_that_of_its_json() {
    let Some(mut browser) = Chromium::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    for name in RUNS {
        let mut record = Record::parse(&json(name)).unwrap();
        // Computes fields that an older record lacks, as `bench report` does.
        record.summarise();
        let page = written(folder.path(), name, &page(&record, &view(&record)));
        let seen = look::look(&mut browser, &page, name);
        check(&serde_json::from_str(&record.json().unwrap()).unwrap(), &seen);
    }
}

/// Holds all numbers of a page against the JSON.
fn check(json: &Value, page: &Value) {
    numbers::all_figures(json, page);
    numbers::bars(json, page);
    numbers::limits(json, page);
    let of = |wanted: &dyn Fn(&Value) -> bool, figure: &'static str| {
        numbers::cases(json).filter(|case| wanted(case)).map(|case| (case, figure)).collect::<Vec<_>>()
    };
    let axis = |name: &'static str, value: Value| move |case: &Value| case["axes"][name] == value;
    let marks = match json["evaluation"].as_str().unwrap() {
        "anf" => {
            tables::anf(json, page);
            let swept = |case: &Value| !case["axes"]["writes"].is_null();
            let [high, low] = ["high", "low"].map(|load| axis("load", load.into()));
            let rates = of(&|case| swept(case) && high(case), "rate");
            [rates, of(&|case| swept(case) && low(case), "p50_us")].concat()
        }
        "ontap" => {
            tables::ontap(json, page);
            assert_eq!(page["sections"][0], "Latency against IOPS: median");
            let step = |case: &Value| !case["axes"]["step"].is_null();
            [of(&step, "p50_us"), of(&step, "p99_us")].concat()
        }
        "nconnect" => {
            tables::nconnect(json, page);
            // One connection is the first point of both charts.
            [of(&|_| true, "rate"), of(&axis("connections", 1.into()), "rate")].concat()
        }
        "lanl" => {
            lanl::lanl(json, page);
            of(&axis("part", "sizes".into()), "rate")
        }
        "quick" => {
            tables::quick(json, page);
            Vec::new()
        }
        _ => {
            tables::beside(json, page, "Rates beside sys");
            Vec::new()
        }
    };
    numbers::marks(page, marks);
}

#[test]
fn the_page_of_two_runs_has_the_figures_of_both_and_their_ratios() {
    let Some(mut browser) = Chromium::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let texts = ["orthrus-lanl", "ganesha-lanl"].map(json);
    let records = texts.each_ref().map(|text| Record::parse(text).unwrap());
    let records = records.each_ref();
    let compared = Compared::of(["orthrus", "ganesha"], records);
    let page = compared_page(&compared, records, "orthrus bench compare a b");
    let seen = look::look(&mut browser, &written(folder.path(), "compared", &page), "compared");
    let [first, second] = texts.map(|text| serde_json::from_str(&text).unwrap());
    tables::compared(&first, &second, &seen);
}

#[test]
fn a_page_is_self_contained_and_escapes_what_it_quotes() {
    let record = sample(ANF);
    let text = page(&record, &view(&record));
    for outside in ["http:", "https:", "src=", "@import", "<script", "url("] {
        assert!(!text.contains(outside), "{outside}");
    }
    assert!(text.contains("localhost:/data &lt;a folder&gt;") && !text.contains("NaN"));
}

#[test]
fn a_record_of_others_does_not_steer_the_terminal() {
    let hostile = "\u{1b}[31mX\r\n\u{9b}2J\u{202e}|";
    for name in [ANF, QUICK] {
        let mut record = sample(name);
        (record.title, record.target, record.command) = (hostile.into(), hostile.into(), hostile.into());
        record.notes.push(hostile.to_owned());
        record.limits[0].name = hostile.to_owned();
        record.skipped.push(Missing::case(&record.cases[0].case, hostile));
        for case in &mut record.cases {
            case.case.group += hostile;
            case.case.variant += hostile;
        }
        record.summarise();
        let shown = view(&record);
        let compared = Compared::of([hostile, "b"], [&record, &record]);
        for text in [
            terminal(&record, &shown),
            markdown(&record, &shown),
            tables(&compared.view([&record, &record])),
            compared_markdown(&compared, [&record, &record], hostile),
        ] {
            let steers = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
            assert!(!text.contains(steers), "{text:?}");
        }
    }
}

#[test]
fn every_sample_has_a_line_of_csv() {
    let record = sample(NCONNECT);
    let text = csv(&record);
    let columns = |line: &str| line.replace("\"2 connections, reordered\"", "x").split(',').count();
    assert_eq!(text.lines().count(), 1 + record.cases.iter().map(|one| one.samples.len()).sum::<usize>());
    let mut some = text.lines().filter(|line| !line.contains("reordered") || line.contains("\"2 "));
    assert!(some.all(|line| columns(line) == 20), "{text}");
}

#[test]
fn lines_of_a_failed_case_have_the_reason() {
    let mut record = sample(NCONNECT);
    let (group, variant) = (record.cases[0].group.clone(), record.cases[0].variant.clone());
    record.skipped.push(Missing { variant, group: Some(group), reason: "no answer, in 20 s".to_owned() });
    let lines = |record: &Record| {
        csv(record).lines().filter(|line| line.ends_with(",\"no answer, in 20 s\"")).count()
    };
    assert_eq!(lines(&record), record.cases[0].samples.len());
    record.cases[0].samples.clear();
    assert_eq!(lines(&record), 1);
}

/// Leaves pictures for a person: `ORTHRUS_PAGES="A.html B.html" ORTHRUS_SCREENSHOTS=DIR cargo test
/// -p orthrus-report screenshots`.
#[test]
fn screenshots_of_pages_are_made_where_they_are_asked_for() {
    let Some(place) = std::env::var_os("ORTHRUS_SCREENSHOTS") else { return };
    let pages = std::env::var("ORTHRUS_PAGES").unwrap_or_default();
    let Some(mut browser) = Chromium::start() else { return };
    for page in pages.split_whitespace().map(Path::new) {
        let name = page.file_stem().unwrap().to_string_lossy();
        let path = |kind: &str| Path::new(&place).join(format!("{name}-{kind}"));
        for (kind, look) in [
            ("desk.png", PageLook::DESK),
            ("dark.png", PageLook::DARK),
            ("phone.png", PageLook::PHONE),
            ("grey.png", PageLook::GREY),
            ("paper.png", PageLook::PAPER),
        ] {
            browser.open(page, look);
            browser.picture(&path(kind));
        }
        browser.look(PageLook::DESK);
        browser.print(&path("paper.pdf"));
    }
}
