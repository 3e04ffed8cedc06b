//! Common elements of all drawings: name and description for screen readers, texts, small dots.

use super::form::escape;
use std::fmt::Write;

/// A drawn chart, and the notes below it.
pub(crate) struct Drawn {
    /// The drawing as SVG.
    pub svg: String,
    /// Sentences: limits and repetitions that are beyond it.
    pub caption: Vec<String>,
}

/// Begins a drawing of this size. `title` names it, `words` describe it.
pub(crate) fn begin(class: &str, size: (f64, f64), title: &str, words: &str) -> String {
    let (width, height) = size;
    format!(
        r#"<svg class="{class}" viewBox="0 0 {width} {height}" role="img" aria-label="{title}"><title>{title}</title><desc>{}</desc>"#,
        escape(words),
        title = escape(title)
    )
}

/// Writes a text element.
pub(crate) fn text(out: &mut String, class: &str, x: f64, y: f64, anchor: &str, content: &str) {
    let content = escape(content);
    let _ =
        write!(out, r#"<text class="{class}" x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{content}</text>"#);
}

/// The upper end of an interval in a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It is on the axis.
    Stroke,
    /// It is beyond the axis.
    Arrow,
}

/// Draws the interval of a bar: a line between two places with a stroke at each end, or an arrow at
/// the upper one.
pub(crate) fn whisker(out: &mut String, (from, to): (f64, f64), middle: f64, half: f64, end: End) {
    let (top, bottom) = (middle - half, middle + half);
    let end = match end {
        End::Stroke => format!("M{to:.1} {top}V{bottom}"),
        End::Arrow => format!("M{:.1} {top}L{to:.1} {middle}L{0:.1} {bottom}", to - half),
    };
    let _ = write!(
        out,
        r#"<path class="whisker" d="M{from:.1} {top}V{bottom}M{from:.1} {middle}H{to:.1}{end}"/>"#
    );
}

/// Draws small dots, all in one path: one of a page's thousands of repetitions takes a few bytes.
pub(crate) fn dots(out: &mut String, class: &str, places: impl Iterator<Item = (f64, f64)>) {
    let mut path = String::new();
    for (x, y) in places {
        let _ = write!(path, "M{x:.1} {y:.1}h0");
    }
    if !path.is_empty() {
        let _ = write!(out, r#"<path class="dot {class}" d="{path}"/>"#);
    }
}

/// Draws small rings, likewise.
pub(crate) fn rings(out: &mut String, class: &str, places: impl Iterator<Item = (f64, f64)>) {
    let mut path = String::new();
    for (x, y) in places {
        let _ = write!(path, "M{:.1} {y:.1}a1.7 1.7 0 1 0 3.4 0a1.7 1.7 0 1 0-3.4 0", x - 1.7);
    }
    if !path.is_empty() {
        let _ = write!(out, r#"<path class="ring {class}" d="{path}"/>"#);
    }
}
