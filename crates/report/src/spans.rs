//! Draws medians and 99th percentiles on a logarithmic scale, a row for each variant.

use super::chart::{Axis, Spans};
use super::form::latency;
use super::scale::Scale;
use super::svg::{self, Drawn};
use super::{limit_lines, variant};
use std::fmt::Write;

/// Width of a chart in its own units; the page scales it to the card.
const WIDTH: f64 = 360.0;
/// Height of one row.
const ROW: f64 = 32.0;
/// Room for the scale below.
const FOOT: f64 = 18.0;
/// Room for the name on the left, and for the figures on the right.
const LEFT: f64 = 52.0;
const RIGHT: f64 = 104.0;
/// Steps that are named at most.
const TICKS_MAX: usize = 4;

/// Draws the rows; `title` names the chart.
pub(crate) fn draw(chart: &Spans, title: &str) -> Drawn {
    let ends: Vec<f64> = chart.spans.iter().flat_map(|span| span.ends).collect();
    let (near, far) = limit_lines::sort(&chart.limits, true, &ends);
    let all = ends.into_iter().chain(near.iter().map(|limit| limit.1));
    let scale = Scale::of(&Axis::logarithmic("µs"), all, LEFT, WIDTH - RIGHT);
    let top = limit_lines::NAME * near.len() as f64;
    let bottom = top + ROW * chart.spans.len() as f64;
    let words = chart.spans.iter().map(|span| format!("{}: {}.", span.variant, span.said.join(", ")));
    let words: Vec<String> = words.collect();
    let title = format!("{title}: median and 99th percentile");
    let mut out = svg::begin("spans", (WIDTH, bottom + FOOT), &title, &words.join(" "));
    let ticks = scale.ticks();
    for tick in ticks.iter().step_by(ticks.len().div_ceil(TICKS_MAX).max(1)) {
        let x = scale.place(*tick);
        let _ = write!(out, r#"<path class="grid" d="M{x:.1} {top}V{bottom}"/>"#);
        let said = latency(*tick).replace(".00", "").replace(".0 ", " ");
        svg::text(&mut out, "tick", x, bottom + 14.0, "middle", &said);
    }
    for (index, span) in chart.spans.iter().enumerate() {
        let middle = top + ROW * (index as f64 + 0.5);
        let [from, to] = span.ends.map(|end| scale.place(end));
        svg::text(&mut out, "name", LEFT - 8.0, middle + 4.0, "end", &span.variant);
        let _ = write!(
            out,
            r#"<path class="range" d="M{from:.1} {middle}H{to:.1}"/><circle class="open" cx="{to:.1}" cy="{middle}" r="4.5"/><g{}>{}</g>"#,
            if span.unsure { " class=\"unsure\"" } else { "" },
            variant::mark(&span.variant, from, middle)
        );
        let [large, small] = &span.said;
        svg::text(&mut out, "value", WIDTH, middle - 2.0, "end", large);
        svg::text(&mut out, "faint", WIDTH, middle + 11.5, "end", small);
    }
    limit_lines::upright(&mut out, &near, bottom, |value| scale.place(value));
    let medians: Vec<f64> = chart.spans.iter().map(|span| span.ends[0]).collect();
    Drawn { svg: out + "</svg>", caption: limit_lines::words(&chart.limits, &far, scale.to, &medians) }
}
