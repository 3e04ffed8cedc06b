//! All figures of a run in one table, each with all of its repetitions.

use super::figures;
use super::form::{digits, escape, latency};
use super::html::{self, Section};
use super::variant;
use bench::measuring::{CaseRecord, Record, Sample};
use std::fmt::Write;

const HOW: &str = "The dots are all repetitions in their order, on a scale from zero; rings are the warm-up, which does not count.";

/// Heads of the columns.
const COLUMNS: [&str; 11] = [
    "",
    "rate",
    "±",
    "to baseline",
    "interval",
    "p50",
    "p99",
    "client CPU",
    "server CPU",
    "measured for",
    "repetitions",
];

/// Writes the table, the variants of a group together.
pub(crate) fn table(out: &mut String, record: &Record) {
    let section = Section::begin(out, figures::ALL, HOW);
    html::open(out, figures::ALL, "all");
    out.push_str("<thead><tr>");
    for column in COLUMNS {
        let _ = write!(out, "<th scope=\"col\">{column}</th>");
    }
    out.push_str("</tr></thead>");
    for group in record.groups() {
        let cases = record.cases.iter().filter(|case| case.group == group);
        let rows: Vec<(&CaseRecord, Vec<String>)> =
            cases.filter_map(|case| Some((case, figures::cells_or_reason(record, case)?))).collect();
        if rows.is_empty() {
            continue;
        }
        let _ = writeln!(
            out,
            "<tbody><tr class=\"group\"><th scope=\"rowgroup\" colspan=\"{}\"><span>{}</span></th></tr>",
            COLUMNS.len(),
            escape(group)
        );
        rows.iter().for_each(|(case, cells)| row(out, case, cells));
        out.push_str("</tbody>");
    }
    out.push_str("</table></div>");
    section.end(out);
}

fn row(out: &mut String, case: &CaseRecord, cells: &[String]) {
    let _ = write!(out, "<tr{}><th scope=\"row\">{}</th>", exact(case), escape(&case.variant));
    for cell in cells {
        let class = if cell.contains('≈') { " class=\"unsure\"" } else { "" };
        let _ = write!(out, "<td{class}>{}</td>", escape(cell));
    }
    let seconds: f64 = case.counted().map(|sample| sample.seconds).sum();
    let _ = writeln!(out, "<td>{}</td><td>{}</td></tr>", latency(seconds * 1e6), dots(case));
}

/// The exact medians, so that a page can be held against its JSON.
fn exact(case: &CaseRecord) -> String {
    let Some(figures) = &case.figures else { return String::new() };
    let p50 = figures.p50_us.map_or(String::new(), |interval| interval.median.to_string());
    let p99 = figures.p99_us.map_or(String::new(), |interval| interval.median.to_string());
    format!(
        " data-group=\"{}\" data-side=\"{}\" data-rate=\"{}\" data-p50=\"{p50}\" data-p99=\"{p99}\"",
        escape(&case.group),
        escape(&case.variant),
        figures.rate.median
    )
}

/// All samples of a case, so that warm-up and outliers are seen.
fn dots(case: &CaseRecord) -> String {
    let rate = |sample: &Sample| sample.rate(case.unit);
    let most = case.samples.iter().map(rate).fold(f64::MIN_POSITIVE, f64::max);
    let width = 8 * case.samples.len() + 4;
    let said: Vec<String> = case.samples.iter().map(|sample| digits(rate(sample))).collect();
    let mut out = format!(
        "<svg class=\"dots\" width=\"{width}\" height=\"20\" role=\"img\" aria-label=\"all repetitions: {}\">",
        said.join(", ")
    );
    for (index, sample) in case.samples.iter().enumerate() {
        let class = if sample.warm_up { "open" } else { variant::class(&case.variant) };
        let (x, y) = (6 + 8 * index, 17.0 - 14.0 * rate(sample) / most);
        let _ = write!(out, "<circle class=\"{class}\" cx=\"{x}\" cy=\"{y:.1}\" r=\"2.6\"/>");
    }
    out + "</svg>"
}
