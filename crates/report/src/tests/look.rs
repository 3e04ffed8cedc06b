//! The appearance of a page in the browser: nothing empty, nothing beyond the edge, nothing too
//! faint, nothing cut on paper.

use super::chromium::{Chromium, PageLook};
use serde_json::Value;
use std::path::Path;

const PROBE: &str = include_str!("probe.js");

/// The least size of a chart's text in pixels.
const TEXT_LEAST: f64 = 9.0;

/// Views a page in every setting, and returns its contents.
pub(super) fn look(browser: &mut Chromium, page: &Path, name: &str) -> Value {
    browser.open(page, PageLook::DESK);
    let desk = browser.ask(PROBE);
    let none = |found: &Value, what: &str| {
        let list = found.as_array().map_or(usize::from(found != 0), Vec::len);
        assert_eq!(list, 0, "{name}: {what}: {found:#}");
    };
    none(&desk["empty"], "drawings without a size");
    none(&desk["odd"], "drawings with what is no number");
    none(&desk["unscoped"], "heads of tables that do not say what they head");
    none(&desk["faint"], "too little contrast in the light");
    assert!(desk["charts"].as_array().is_some_and(|charts| !charts.is_empty()), "{name} has no charts");
    for chart in desk["charts"].as_array().unwrap() {
        let overview = chart["kind"] == "";
        assert!(overview || chart["named"] == true, "{name}: without words: {}", chart["title"]);
    }
    browser.look(PageLook::DARK);
    none(&browser.ask(PROBE)["faint"], "too little contrast in the dark");
    browser.look(PageLook::PHONE);
    let phone = browser.ask(PROBE);
    for (seen, on) in [(&desk, "desk"), (&phone, "phone")] {
        assert_eq!(seen["wide"], false, "{name} is too wide for a {on}: {:#}", seen["beyond"]);
        none(&seen["beyond"], "beyond the edge outside of tables");
        none(&seen["overlapping"], "labels of an axis that lie over each other");
        none(&seen["unsteady"], "tables that scroll without a sign, or lose their first column");
        assert!(seen["small"].as_f64().unwrap() >= TEXT_LEAST, "{name}: text of {} pixels", seen["small"]);
    }
    browser.look(PageLook::PAPER);
    let paper = browser.ask(PROBE);
    none(&paper["cut"], "tables that paper cuts");
    none(&paper["broken"], "rows that may be broken over two pages");
    none(&paper["faint"], "too little contrast on paper");
    let complaints = browser.complaints();
    assert!(complaints.is_empty(), "{name}: console and network are not silent: {complaints:#?}");
    desk
}
