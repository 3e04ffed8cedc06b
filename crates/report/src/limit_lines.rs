//! Limits of the machine in a chart: near ones are drawn, far ones are written below.

use super::form::short;
use super::scale::Scale;
use super::svg;
use std::fmt::Write;

/// A limit that is further up than this multiple of the greatest value, or further down than this
/// part of the least, would squeeze the lines.
const NEAR: f64 = 1.3;
const NEAR_LOGARITHMIC: f64 = 10.0;

/// A name and a value of the vertical axis.
pub(crate) type DrawnLimit = (String, f64);

/// A letter's width, and a label's height.
const LETTER: f64 = 6.1;
const LABEL: f64 = 12.0;

/// The edges of the area in which a chart has its lines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlotArea {
    /// The left edge; names, figures and axis labels are outside of it.
    pub left: f64,
    /// The right edge, where the axis ends.
    pub right: f64,
    /// The upper edge, at the largest value.
    pub top: f64,
    /// The lower edge, at the smallest value.
    pub bottom: f64,
}

/// Divides the limits into near and far ones.
pub(crate) fn sort(
    limits: &[DrawnLimit],
    logarithmic: bool,
    values: &[f64],
) -> (Vec<DrawnLimit>, Vec<DrawnLimit>) {
    let most = values.iter().copied().fold(0.0, f64::max);
    let least = values.iter().copied().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
    let near = |limit: &DrawnLimit| {
        if logarithmic {
            (least / NEAR_LOGARITHMIC..=most * NEAR_LOGARITHMIC).contains(&limit.1)
        } else {
            limit.1 <= most * NEAR
        }
    };
    limits.iter().cloned().partition(near)
}

/// Draws the near ones, each with its name and value where no other label is.
pub(crate) fn draw(out: &mut String, limits: &[DrawnLimit], y: &Scale, area: &PlotArea) {
    let PlotArea { left: start, right: end, top, bottom } = *area;
    let mut taken: Vec<(f64, f64, f64)> = Vec::new();
    for (name, value) in limits {
        let at = y.place(*value);
        let label = format!("{name} {}", short(*value));
        let width = LETTER * label.chars().count() as f64;
        let _ = write!(out, r#"<path class="limit" data-value="{value}" d="M{start} {at:.1}H{end}"/>"#);
        let places = [
            (start + 4.0, at - 4.0),
            (end - 4.0 - width, at - 4.0),
            (start + 4.0, at + 11.0),
            (end - 4.0 - width, at + 11.0),
        ];
        let free = |(left, base): &(f64, f64)| {
            let over = |(from, to, other): &(f64, f64, f64)| {
                *from < left + width && left < to && (other - base).abs() < LABEL
            };
            (top + 6.0..bottom).contains(base) && !taken.iter().any(over)
        };
        let (left, base) = places.into_iter().find(free).unwrap_or(places[2]);
        taken.push((left, left + width, base));
        svg::text(out, "limit-name", left, base, "start", &label);
    }
}

/// Height of an upright limit's name.
pub(crate) const NAME: f64 = 15.0;

/// Draws near ones upright over rows that begin at `top`, each name above the one before it.
/// `place` says where a value is.
pub(crate) fn upright(out: &mut String, limits: &[DrawnLimit], bottom: f64, place: impl Fn(f64) -> f64) {
    for (index, (name, value)) in limits.iter().enumerate() {
        let (x, base) = (place(*value), NAME * (index + 1) as f64 - 4.0);
        let label = format!("{name} {}", short(*value));
        // To the left of its line where there is room.
        let width = LETTER * label.chars().count() as f64;
        let (at, anchor) = if x > width + 4.0 { (x - 3.0, "end") } else { (x + 3.0, "start") };
        let _ = write!(
            out,
            r#"<path class="limit" data-value="{value}" d="M{x:.1} {:.1}V{bottom}"/>"#,
            base - 9.0
        );
        svg::text(out, "limit-name", at, base, anchor, &label);
    }
}

/// Describes the far limits, and the meaning of a figure beyond a limit.
pub(crate) fn words(limits: &[DrawnLimit], far: &[DrawnLimit], to: f64, medians: &[f64]) -> Vec<String> {
    let mut said = Vec::new();
    // Variants without cryptography are not bound by one core's cryptography.
    let passed = |(name, limit): &&DrawnLimit| match name.ends_with("round trip") {
        true => medians.iter().any(|median| median < limit),
        false => !name.starts_with("one core") && medians.iter().any(|median| median > limit),
    };
    if let Some((name, _)) = limits.iter().find(passed) {
        said.push(format!(
            "Figures beyond the {name} are possible: a limit is measured once, with one thread at each end."
        ));
    }
    let list = |limits: Vec<&DrawnLimit>| {
        let words: Vec<String> =
            limits.into_iter().map(|(name, value)| format!("{name} {}", short(*value))).collect();
        words.join(", ")
    };
    let above: Vec<_> = far.iter().filter(|limit| limit.1 > to).collect();
    let below: Vec<_> = far.iter().filter(|limit| limit.1 <= to).collect();
    if !above.is_empty() {
        said.push(format!("Limits further up: {}.", list(above)));
    }
    if !below.is_empty() {
        said.push(format!("Limits further down: {}.", list(below)));
    }
    said
}
