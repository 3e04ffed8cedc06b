//! The page in a real browser: it renders, its numbers are those of the JSON, and the console stays silent.

use super::*;
use crate::browser;
use crate::evaluation::{ANF, NCONNECT, ONTAP, PLAN, QUICK, tests::sample, view};
use std::path::Path;

/// Script that the test appends to the page: it measures what the browser made of it. Chromium has no narrower window than 500.
const PROBE: &str = r#"<script>
const boxes = [...document.querySelectorAll('main svg')].map(e => e.getBoundingClientRect());
const empty = boxes.filter(b => !(b.width > 0 && b.height > 0)).length;
const wide = document.documentElement.scrollWidth > window.innerWidth + 1;
const marks = document.querySelectorAll('svg.lines .line').length;
const rows = [...document.querySelectorAll('tr[data-rate]')].map(r =>
  [r.dataset.group, r.dataset.side, r.dataset.rate, r.dataset.p50, r.dataset.p99].join('|'));
const out = document.createElement('pre'); out.id = 'probe';
out.textContent = [`figures=${document.querySelectorAll('figure:has(svg)').length} lines=${marks} empty=${empty} wide=${wide}`, ...rows].join('\n');
document.body.append(out);
</script>"#;

const ALL_OF_THEM: [&str; 5] = [QUICK, ANF, ONTAP, NCONNECT, PLAN];

#[test]
fn every_page_renders_in_a_browser_with_the_numbers_of_its_json() {
    if !browser::is_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for name in ALL_OF_THEM {
        let record = sample(name);
        let shown = view(&record);
        let path = folder.path().join(format!("{name}.html"));
        std::fs::write(&path, page(&record, &shown) + PROBE).unwrap();
        let lines = shown.charts.iter().map(|chart| match &chart.plot {
            Plot::Lines(lines) => lines.lines.len(),
            _ => 0,
        });
        let expected =
            format!("figures={} lines={} empty=0 wide=false", shown.charts.len(), lines.sum::<usize>());
        // A desk and a phone.
        let sizes: &[&str] =
            if [ANF, QUICK].contains(&name) { &["1280,900", "500,900"] } else { &["500,900"] };
        for size in sizes {
            let (dom, log) = browser::dom(folder.path(), size, &path);
            assert!(!log.contains("CONSOLE"), "the console speaks: {log}");
            let probe = dom.split("id=\"probe\">").nth(1).expect("the probe ran").replace("&amp;", "&");
            assert!(probe.starts_with(&expected), "{name}: {} instead of {expected}", &probe[..60]);
            compare_with_json(&record.json().unwrap(), &probe);
        }
    }
}

fn compare_with_json(json: &str, probe: &str) {
    let json: serde_json::Value = serde_json::from_str(json).unwrap();
    let cases = json["cases"].as_array().unwrap();
    assert!(!cases.is_empty());
    for case in cases {
        let median = |name: &str| case["figures"][name]["median"].as_f64().unwrap();
        let (group, side) = (case["group"].as_str().unwrap(), case["side"].as_str().unwrap());
        let row = format!("{group}|{side}|{}|{}|{}", median("rate"), median("p50_us"), median("p99_us"));
        assert!(probe.contains(&row), "not in the page: {row}");
    }
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
fn every_sample_has_a_line_of_csv() {
    let record = sample(NCONNECT);
    let text = csv(&record);
    let columns = |line: &str| line.replace("\"2 connections, reordered\"", "x").split(',').count();
    assert_eq!(text.lines().count(), 1 + record.cases.iter().map(|one| one.samples.len()).sum::<usize>());
    let mut some = text.lines().filter(|line| !line.contains("reordered") || line.contains("\"2 "));
    assert!(some.all(|line| columns(line) == 19), "{text}");
}

/// Leaves pictures for a person: `ORTHRUS_SCREENSHOTS=DIR cargo test -p bench screenshot`.
#[test]
fn screenshots_of_all_pages_are_made_where_they_are_asked_for() {
    let Some(place) = std::env::var_os("ORTHRUS_SCREENSHOTS") else { return };
    let place = Path::new(&place);
    for name in ALL_OF_THEM {
        let record = sample(name);
        let path = place.join(format!("{name}.html"));
        std::fs::write(&path, page(&record, &view(&record))).unwrap();
        browser::screenshots(&path, place, name);
    }
}
