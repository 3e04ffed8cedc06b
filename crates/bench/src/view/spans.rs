//! Draws medians and 99th percentiles on a logarithmic scale, a row for each side.

use super::chart::{Axis, Spans};
use super::form::{escape, latency};
use super::lines::Scale;
use super::side;
use std::fmt::Write;

/// Width of a chart in its own units; the page scales it to the card.
const WIDTH: f64 = 340.0;
/// Height of one row.
const ROW: f64 = 30.0;
/// Room for the scale below.
const FOOT: f64 = 16.0;
/// Room for the name on the left, and for the figures on the right.
const LEFT: f64 = 48.0;
const RIGHT: f64 = 104.0;
/// Steps that are named at most.
const TICKS_MAX: usize = 4;

fn text(out: &mut String, class: &str, x: f64, y: f64, anchor: &str, content: &str) {
    let content = escape(content);
    let _ =
        write!(out, r#"<text class="{class}" x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{content}</text>"#);
}

/// Draws the rows; `label` is what those hear who do not see.
pub fn draw(chart: &Spans, label: &str) -> String {
    let ends = chart.spans.iter().flat_map(|span| span.ends);
    let scale = Scale::of(&Axis::logarithmic("µs"), ends, LEFT, WIDTH - RIGHT);
    let bottom = ROW * chart.spans.len() as f64;
    let mut out = format!(
        r#"<svg viewBox="0 0 {WIDTH} {}" role="img" aria-label="{}: median and 99th percentile">"#,
        bottom + FOOT,
        escape(label)
    );
    let ticks = scale.ticks();
    for tick in ticks.iter().step_by(ticks.len().div_ceil(TICKS_MAX).max(1)) {
        let x = scale.place(*tick);
        let _ = write!(out, r#"<path class="grid" d="M{x:.1} 2V{bottom}"/>"#);
        let said = latency(*tick).replace(".00", "").replace(".0 ", " ");
        text(&mut out, "tick", x, bottom + 12.0, "middle", &said);
    }
    for (index, span) in chart.spans.iter().enumerate() {
        let middle = ROW * (index as f64 + 0.5);
        let [from, to] = span.ends.map(|end| scale.place(end));
        text(&mut out, "name", LEFT - 8.0, middle + 4.0, "end", &span.side);
        let _ = write!(
            out,
            r#"<path class="range" d="M{from:.1} {middle}H{to:.1}"/><circle class="open" cx="{to:.1}" cy="{middle}" r="4.5"/>{}"#,
            side::mark(&span.side, from, middle)
        );
        let [large, small] = &span.said;
        text(&mut out, "value", WIDTH, middle - 1.0, "end", large);
        text(&mut out, "faint", WIDTH, middle + 11.0, "end", small);
    }
    out + "</svg>"
}
