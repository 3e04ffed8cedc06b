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

/// Draws the interval of a bar: a line between two places with a stroke at each end.
pub(crate) fn whisker(out: &mut String, from: f64, to: f64, middle: f64, half: f64) {
    let (top, bottom) = (middle - half, middle + half);
    let _ = write!(
        out,
        r#"<path class="whisker" d="M{from:.1} {top}V{bottom}M{from:.1} {middle}H{to:.1}M{to:.1} {top}V{bottom}"/>"#
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
