//! Draws bars as inline SVG, with their figures beside them.

use super::chart::{Bar, Bars};
use super::form::escape;
use super::svg::{self, Drawn, End};
use super::{limit_lines, variant};
use std::fmt::Write;

const WIDTH: f64 = 360.0;
/// Height of one row.
const ROW: f64 = 32.0;
/// Room for the name on the left, and for figures on the right.
const LEFT: f64 = 62.0;
const RIGHT: f64 = 138.0;
/// Thickness of a bar.
const THICK: f64 = 14.0;

/// Draws the bars; `title` names the chart.
pub(crate) fn draw(chart: &Bars, title: &str) -> Drawn {
    let sum = |parts: &[Option<f64>; 2]| parts.iter().flatten().sum::<f64>();
    let sums: Vec<f64> = chart.bars.iter().map(|bar| sum(&bar.parts)).collect();
    let ends = chart.bars.iter().zip(&sums);
    let ends: Vec<f64> = ends.flat_map(|(bar, sum)| [*sum, bar.range.map_or(0.0, |range| range.1)]).collect();
    let (near, far) = limit_lines::sort(&chart.limits, false, &ends);
    let most = ends.into_iter().chain(chart.end).chain(near.iter().map(|limit| limit.1));
    let most = most.fold(f64::MIN_POSITIVE, f64::max);
    let scale = (WIDTH - LEFT - RIGHT) / most;
    let top = limit_lines::NAME * near.len() as f64;
    let height = top + ROW * chart.bars.len() as f64;
    let mut out = svg::begin("bars", (WIDTH, height), title, &words(chart));
    if let Some(end) = chart.end {
        let _ = write!(out, r#"<path class="grid" d="M{0:.1} 0V{height}"/>"#, LEFT + end * scale);
    }
    for (index, bar) in chart.bars.iter().enumerate() {
        row(&mut out, bar, top + ROW * (index as f64 + 0.5), scale);
    }
    limit_lines::upright(&mut out, &near, height, |value| LEFT + value * scale);
    Drawn { svg: out + "</svg>", caption: limit_lines::words(&chart.limits, &far, most, &sums) }
}

fn words(chart: &Bars) -> String {
    let said =
        |bar: &Bar| bar.said.iter().filter(|said| !said.is_empty()).cloned().collect::<Vec<_>>().join(", ");
    let bars = chart.bars.iter().map(|bar| format!("{}: {}.", bar.variant, said(bar)));
    bars.collect::<Vec<_>>().join(" ")
}

fn row(out: &mut String, bar: &Bar, middle: f64, scale: f64) {
    svg::text(out, "name", LEFT - 20.0, middle + 4.0, "end", &bar.variant);
    out.push_str(&variant::mark(&bar.variant, LEFT - 10.0, middle));
    let [first, second] = bar.parts;
    let width = first.map_or(0.0, |value| (value * scale).max(0.5));
    if let Some(value) = first {
        let class = if bar.unsure { " unsure" } else { "" };
        rect(out, &bar.variant, class, value, (LEFT, middle, width));
    }
    if let Some(value) = second {
        rect(out, &bar.variant, " client", value, (LEFT + width, middle, value * scale));
    }
    if let Some((low, high)) = bar.range {
        svg::whisker(out, (LEFT + low * scale, LEFT + high * scale), middle, 4.0, End::Stroke);
    }
    let [large, small] = &bar.said;
    svg::text(out, "value", WIDTH, middle + if small.is_empty() { 4.0 } else { -2.0 }, "end", large);
    if !small.is_empty() {
        svg::text(out, "faint", WIDTH, middle + 11.5, "end", small);
    }
}

fn rect(out: &mut String, of: &str, part: &str, value: f64, place: (f64, f64, f64)) {
    let (x, middle, width) = place;
    let (y, width) = (middle - THICK / 2.0, width.max(0.5));
    let _ = write!(
        out,
        r#"<rect class="bar {}{part}" data-side="{}" data-value="{value}" x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{THICK}" rx="2"/>"#,
        variant::class(of),
        escape(of)
    );
}
