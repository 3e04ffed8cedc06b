//! Draws bars as inline SVG, with their figures beside them.

use super::chart::Bars;
use super::form::escape;
use super::side;
use std::fmt::Write;

const WIDTH: f64 = 340.0;
/// Height of one row.
const ROW: f64 = 30.0;
/// Room for the name on the left, and for figures on the right.
const LEFT: f64 = 48.0;
const RIGHT: f64 = 104.0;
/// Thickness of a bar.
const THICK: f64 = 14.0;

fn text(out: &mut String, class: &str, x: f64, y: f64, anchor: &str, content: &str) {
    let content = escape(content);
    let _ =
        write!(out, r#"<text class="{class}" x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{content}</text>"#);
}

/// Draws the bars; `label` is what those hear who do not see.
pub fn draw(chart: &Bars, label: &str) -> String {
    let sum = |parts: &[Option<f64>; 2]| parts.iter().flatten().sum::<f64>();
    let ends = chart.bars.iter().flat_map(|bar| [sum(&bar.parts), bar.range.map_or(0.0, |range| range.1)]);
    let most = ends.chain(chart.end).fold(f64::MIN_POSITIVE, f64::max);
    let scale = (WIDTH - LEFT - RIGHT) / most;
    let height = ROW * chart.bars.len() as f64;
    let mut out =
        format!(r#"<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{}">"#, escape(label));
    if let Some(end) = chart.end {
        let _ = write!(out, r#"<path class="grid" d="M{0:.1} 0V{height}"/>"#, LEFT + end * scale);
    }
    for (index, bar) in chart.bars.iter().enumerate() {
        let middle = ROW * (index as f64 + 0.5);
        let name = if bar.label.is_empty() { &bar.side } else { &bar.label };
        text(&mut out, "name", LEFT - 8.0, middle + 4.0, "end", name);
        let [first, second] = bar.parts;
        let width = first.map_or(0.0, |value| (value * scale).max(0.5));
        if first.is_some() {
            rect(&mut out, side::class(&bar.side), LEFT, middle, width);
        }
        if let Some(second) = second {
            rect(&mut out, "client", LEFT + width, middle, second * scale);
        }
        if let Some((low, high)) = bar.range {
            whisker(&mut out, LEFT + low * scale, LEFT + high * scale, middle);
        }
        let [large, small] = &bar.said;
        let (class, place) = if small.is_empty() { ("value", 4.0) } else { ("value", -1.0) };
        text(&mut out, class, WIDTH, middle + place, "end", large);
        text(&mut out, "faint", WIDTH, middle + 11.0, "end", small);
    }
    out + "</svg>"
}

fn rect(out: &mut String, class: &str, x: f64, middle: f64, width: f64) {
    let (y, width) = (middle - THICK / 2.0, width.max(0.5));
    let _ = write!(
        out,
        r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{THICK}" rx="2"/>"#
    );
}

fn whisker(out: &mut String, from: f64, to: f64, middle: f64) {
    let (top, bottom) = (middle - 4.0, middle + 4.0);
    let _ = write!(
        out,
        r#"<path class="whisker" d="M{from:.1} {top}V{bottom}M{from:.1} {middle}H{to:.1}M{to:.1} {top}V{bottom}"/>"#
    );
}
