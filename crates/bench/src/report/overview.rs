//! One chart over all workloads: each flavor's figure as a part of that of `sys`.
//!
//! Places are percentages, so that the chart fills the width it is given and its text keeps its size. Each flavor
//! has a shape of its own: the chart can be read without colour.

use std::fmt::Write;

use super::format;
use crate::{Flavor, Report, Series, Workload};

/// Height of a row in pixels.
const ROW: u32 = 24;

/// Which figure is compared.
pub type Figure = fn(&Series) -> Option<f64>;

/// Draws the chart; empty when `sys` or everything else is missing.
pub fn overview(report: &Report, figure: Figure) -> String {
    let rows: Vec<(Workload, Vec<(Flavor, f64)>)> = Workload::ALL
        .into_iter()
        .map(|workload| (workload, ratios(report, workload, figure)))
        .filter(|(_, ratios)| !ratios.is_empty())
        .collect();
    let largest = rows.iter().flat_map(|(_, ratios)| ratios).map(|(_, ratio)| *ratio).fold(1.0, f64::max);
    let end = largest * 1.06;
    let mut out = String::new();
    for (workload, ratios) in &rows {
        row(&mut out, *workload, ratios, end);
    }
    if !out.is_empty() {
        axis(&mut out, end);
    }
    out
}

fn ratios(report: &Report, workload: Workload, figure: Figure) -> Vec<(Flavor, f64)> {
    let of = |flavor| report.series(workload, flavor).and_then(figure);
    let Some(sys) = of(Flavor::Sys).filter(|sys| *sys > 0.0) else { return Vec::new() };
    let others = Flavor::ALL.into_iter().filter(|flavor| *flavor != Flavor::Sys);
    others.filter_map(|flavor| Some((flavor, of(flavor)? / sys))).collect()
}

fn row(out: &mut String, workload: Workload, ratios: &[(Flavor, f64)], end: f64) {
    let middle = ROW / 2;
    let place = |ratio: f64| ratio / end * 100.0;
    let _ = write!(
        out,
        r#"<div class="row"><span>{}</span><svg width="100%" height="{ROW}" role="img" aria-label="{0} as a part of sys">"#,
        workload.title()
    );
    for step in steps(end) {
        let class = if step == 1.0 { "base" } else { "grid" };
        let _ = write!(
            out,
            r#"<line class="{class}" x1="{0:.2}%" x2="{0:.2}%" y1="0" y2="{ROW}"/>"#,
            place(step)
        );
    }
    let places = || ratios.iter().map(|(_, ratio)| *ratio);
    let (low, high) = (places().fold(1.0, f64::min), places().fold(1.0, f64::max));
    let _ = write!(
        out,
        r#"<line class="range" x1="{:.2}%" x2="{:.2}%" y1="{middle}" y2="{middle}"/>"#,
        place(low),
        place(high)
    );
    for (flavor, ratio) in ratios {
        let _ = write!(
            out,
            r#"<svg class="mark" x="{:.2}%" y="{middle}" width="12" height="12"><title>{} {}</title>{}</svg>"#,
            place(*ratio),
            flavor.name(),
            format::percent(*ratio),
            mark(*flavor)
        );
    }
    let last =
        ratios.last().map(|(flavor, ratio)| format!("{} <b>{}</b>", flavor.name(), format::percent(*ratio)));
    let _ = write!(out, r#"</svg><span class="end">{}</span></div>"#, last.unwrap_or_default());
}

/// A shape around the origin.
pub fn mark(flavor: Flavor) -> String {
    let class = flavor.name();
    match flavor {
        Flavor::Sys => format!(r#"<rect class="{class}" x="-1.5" y="-7" width="3" height="14" rx="1"/>"#),
        Flavor::Krb5 => format!(r#"<circle class="{class}" r="5"/>"#),
        Flavor::Krb5i => format!(r#"<rect class="{class}" x="-4.5" y="-4.5" width="9" height="9" rx="1"/>"#),
        Flavor::Krb5p => format!(r#"<path class="{class}" d="M0 -6.5L6.5 0L0 6.5L-6.5 0Z"/>"#),
    }
}

fn axis(out: &mut String, end: f64) {
    out.push_str(r#"<div class="row axis"><span></span><svg width="100%" height="14" aria-hidden="true">"#);
    for step in steps(end) {
        let (text, anchor) = match step {
            0.0 => ("0".to_owned(), "start"),
            1.0 => ("sys".to_owned(), "middle"),
            step => (format::percent(step), "middle"),
        };
        let _ = write!(
            out,
            r#"<text class="tick" x="{:.2}%" y="11" text-anchor="{anchor}">{text}</text>"#,
            step / end * 100.0
        );
    }
    out.push_str(r#"</svg><span class="end"></span></div>"#);
}

/// Round parts of `sys` up to the end, at most seven.
fn steps(end: f64) -> Vec<f64> {
    let width = [0.25, 0.5, 1.0, 2.0, 5.0, 10.0].into_iter().find(|width| end / width < 7.0).unwrap_or(100.0);
    let mut steps: Vec<f64> =
        (0..7).map(|index| f64::from(index) * width).filter(|step| *step <= end).collect();
    if !steps.contains(&1.0) {
        steps.push(1.0);
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_has_sys_and_few_steps_at_every_size() {
        for end in [1.06, 1.5, 3.0, 8.0, 40.0, 400.0] {
            let steps = steps(end);
            assert!(steps.contains(&1.0) && steps.len() <= 8, "{end}: {steps:?}");
        }
    }

    #[test]
    fn a_run_without_sys_has_no_overview() {
        let mut report = super::super::tests::sample();
        report.series.retain(|series| series.flavor != Flavor::Sys);
        assert_eq!(overview(&report, |series| Some(series.summary.rate.median)), "");
    }
}
