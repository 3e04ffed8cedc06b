//! The page in a real browser: it renders, its numbers are those of the JSON, and the console stays silent.

use super::*;
use crate::browser;
use std::path::Path;

/// Script that the test appends to the page: it measures what the browser made of it.
const PROBE: &str = r#"<script>
const boxes = [...document.querySelectorAll('svg, svg rect, svg circle, path.krb5p')].map(e => e.getBoundingClientRect());
const empty = boxes.filter(b => !(b.width > 0 && b.height > 0)).length;
const wide = document.documentElement.scrollWidth > window.innerWidth + 1;
const rows = [...document.querySelectorAll('tr[data-rate]')].map(r =>
  [r.dataset.workload, r.dataset.flavor, r.dataset.rate, r.dataset.p50, r.dataset.p99].join(' '));
const out = document.createElement('pre'); out.id = 'probe';
out.textContent = [`charts=${document.querySelectorAll('figure:has(svg)').length} empty=${empty} wide=${wide}`, ...rows].join('\n');
document.body.append(out);
</script>"#;

#[test]
fn the_page_renders_in_a_browser_with_the_numbers_of_the_json() {
    if !browser::is_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let report = super::tests::sample();
    let page = folder.path().join("report.html");
    std::fs::write(&page, html(&report) + PROBE).unwrap();
    // A desk and a phone.
    for size in ["1280,900", "500,900"] {
        let (dom, log) = browser::dom(folder.path(), size, &page);
        assert!(!log.contains("CONSOLE"), "the console speaks: {log}");
        let probe = dom.split("id=\"probe\">").nth(1).expect("the probe ran");
        assert!(probe.starts_with("charts=24 empty=0 wide=false"), "{}", &probe[..60]);
        for series in &report.series {
            let summary = &series.summary;
            let row = format!(
                "{:?} {} {} {} {}\n",
                series.workload,
                series.flavor.name(),
                summary.rate.median,
                summary.p50_us.median,
                summary.p99_us.median
            );
            assert!(probe.contains(row.trim_end()), "not in the page: {row}");
        }
    }
}

/// Leaves pictures for a person: `ORTHRUS_SCREENSHOTS=DIR cargo test -p bench screenshot`.
#[test]
fn a_screenshot_is_made_where_one_is_asked_for() {
    let Some(place) = std::env::var_os("ORTHRUS_SCREENSHOTS") else { return };
    let place = Path::new(&place);
    let page = place.join("report.html");
    std::fs::write(&page, html(&super::tests::sample())).unwrap();
    browser::screenshots(&page, place, "quick");
}
