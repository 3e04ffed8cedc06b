//! Draws one chart over all loads: each variant's figure as a part of the baseline's.
//!
//! Places are percentages, so that the chart fills the width it is given and its text keeps its
//! size. Each variant has a shape of its own: the chart can be read without colour.

use super::chart::{LoadPart, LoadParts, VariantPart};
use super::form::{escape, percent, unsure};
use super::variant;
use std::fmt::Write;

/// Height of a row in pixels.
const ROW: u32 = 24;

/// From this length on an axis counts in times the baseline, which takes less room than percent.
const TIMES: f64 = 10.0;

/// The least distance of a label of the axis from that of the baseline, as a part of the axis.
const APART: f64 = 0.12;

/// Draws the chart as SVG.
pub(crate) fn draw(chart: &LoadParts) -> String {
    let largest = chart.rows.iter().flat_map(|row| &row.parts).map(|one| one.part).fold(1.0, f64::max);
    let end = largest * 1.06;
    let mut out = String::new();
    chart.rows.iter().for_each(|one| row(&mut out, one, &chart.baseline, end));
    axis(&mut out, &chart.baseline, end);
    out
}

fn row(out: &mut String, row: &LoadPart, baseline: &str, end: f64) {
    let middle = ROW / 2;
    let place = |part: f64| part / end * 100.0;
    let parts: Vec<String> = row.parts.iter().map(|one| format!("{} {}", one.variant, said(one))).collect();
    let _ = write!(
        out,
        r#"<div class="row"><span>{0}</span><svg width="100%" height="{ROW}" role="img" aria-label="{0} as a part of {1}: {2}">"#,
        escape(&row.name),
        escape(baseline),
        escape(&parts.join(", "))
    );
    for step in steps(end) {
        let class = if step == 1.0 { "base" } else { "grid" };
        let _ = write!(
            out,
            r#"<line class="{class}" x1="{0:.2}%" x2="{0:.2}%" y1="0" y2="{ROW}"/>"#,
            place(step)
        );
    }
    let places = || row.parts.iter().map(|one| one.part);
    let (low, high) = (places().fold(1.0, f64::min), places().fold(1.0, f64::max));
    let _ = write!(
        out,
        r#"<line class="range" x1="{:.2}%" x2="{:.2}%" y1="{middle}" y2="{middle}"/>"#,
        place(low),
        place(high)
    );
    for one in &row.parts {
        let _ = write!(
            out,
            r#"<svg class="mark" x="{:.2}%" y="{middle}" width="12" height="12"><g{}><title>{} {}</title>{}</g></svg>"#,
            place(one.part),
            if one.unsure { " class=\"unsure\"" } else { "" },
            escape(&one.variant),
            said(one),
            variant::mark(&one.variant, 0.0, 0.0)
        );
    }
    let last = row.parts.last();
    let last = last.map(|one| format!("{} <b>{}</b>", escape(&one.variant), said(one)));
    let _ = write!(out, r#"</svg><span class="end">{}</span></div>"#, last.unwrap_or_default());
}

fn said(one: &VariantPart) -> String {
    unsure(one.unsure, percent(one.part))
}

fn axis(out: &mut String, baseline: &str, end: f64) {
    out.push_str(r#"<div class="row axis"><span></span><svg width="100%" height="14" aria-hidden="true">"#);
    // The baseline has its name; a label that would touch that is left out.
    for step in steps(end).into_iter().filter(|step| *step == 1.0 || (step - 1.0).abs() / end > APART) {
        let (text, anchor) = match step {
            0.0 => ("0".to_owned(), "start"),
            1.0 => (escape(baseline), "middle"),
            step if end >= TIMES => (format!("{step}×"), "middle"),
            step => (percent(step), "middle"),
        };
        let _ = write!(
            out,
            r#"<text class="tick" x="{:.2}%" y="11" text-anchor="{anchor}">{text}</text>"#,
            step / end * 100.0
        );
    }
    out.push_str(r#"</svg><span class="end"></span></div>"#);
}

/// Round parts of the baseline up to the end, at most six: a phone has no room for more.
fn steps(end: f64) -> Vec<f64> {
    let larger = (0..12).flat_map(|power| [1.0, 2.0, 5.0].map(|step| step * 10f64.powi(power)));
    let width = [0.25, 0.5].into_iter().chain(larger).find(|width| end / width < 5.0).unwrap_or(end);
    let mut steps: Vec<f64> =
        (0..6).map(|index| f64::from(index) * width).filter(|step| *step <= end).collect();
    if !steps.contains(&1.0) {
        steps.push(1.0);
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_has_the_baseline_and_few_steps_at_every_size() {
        for end in [1.06, 1.5, 3.0, 8.0, 40.0, 400.0, 123_456.0] {
            let steps = steps(end);
            assert!(steps.contains(&1.0) && steps.len() <= 6, "{end}: {steps:?}");
        }
    }
}
