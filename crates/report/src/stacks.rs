//! Draws where time goes: for each variant a bar of stages one behind the other, and below it how
//! long was waited.
//!
//! Stages differ in how they are filled (stripes down, solid, stripes across, pale), in the same
//! order everywhere: the chart can be read without colour. The filling is drawn, not referred to,
//! so that charts of a page do not share names.

use super::form::{digits, escape};
use super::svg::text;
use super::variant;
use std::fmt::Write;

/// Times of each variant, in microseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stacks {
    /// The name of the waiting part.
    pub wait: String,
    /// The stages, from left to right.
    pub stages: [String; 4],
    /// A row for each variant.
    pub rows: Vec<StageStack>,
}

/// The times of one variant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StageStack {
    /// The variant that the row shows.
    pub variant: String,
    /// How long was waited.
    pub wait: f64,
    /// How long each stage took.
    pub stages: [f64; 4],
}

impl StageStack {
    /// How long all stages together took.
    pub fn work(&self) -> f64 {
        self.stages.iter().sum()
    }
}

/// How to read it.
pub(crate) const HOW: &str = "Shorter is better: the work of the server's threads for one request or one MiB, stage behind stage, in \
    the order of the key, and below it how long requests waited first. The table has the figures.";

const WIDTH: f64 = 340.0;
/// Height of one row, and of the names of the stages above all.
const ROW: f64 = 36.0;
const HEAD: f64 = 22.0;
/// Room for the name on the left, and for figures on the right.
const LEFT: f64 = 48.0;
const RIGHT: f64 = 104.0;
/// Thickness of the bars of stages and of waiting.
const THICK: f64 = 14.0;
const THIN: f64 = 5.0;
/// Distance of stripes, in pixels.
const STRIPE: f64 = 3.5;

/// Draws the rows; `label` is the text alternative for screen readers.
pub(crate) fn draw(chart: &Stacks, label: &str) -> String {
    let most = chart.rows.iter().map(StageStack::work).fold(f64::MIN_POSITIVE, f64::max);
    let scale = (WIDTH - LEFT - RIGHT) / most;
    let height = HEAD + ROW * chart.rows.len() as f64;
    let mut out =
        format!(r#"<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{}">"#, escape(label));
    key(&mut out, chart);
    for (index, row) in chart.rows.iter().enumerate() {
        let top = HEAD + ROW * index as f64 + 4.0;
        // The exact medians, so that a page can be held against its JSON.
        let [first, second, third, fourth] = row.stages;
        let _ = write!(
            out,
            r#"<g data-group="{}" data-side="{}" data-us="{} {first} {second} {third} {fourth}">"#,
            escape(label),
            escape(&row.variant),
            row.wait
        );
        text(&mut out, "name", LEFT - 8.0, top + 11.0, "end", &row.variant);
        let mut x = LEFT;
        for (stage, (time, name)) in row.stages.iter().zip(&chart.stages).enumerate() {
            let width = time * scale;
            fill(&mut out, stage, variant::class(&row.variant), [x, top, width, THICK]);
            let said = format!("{} {}: {} µs", row.variant, name, digits(*time));
            let _ = write!(out, "<title>{}</title></g>", escape(&said));
            x += width;
        }
        waited(&mut out, row.wait * scale, top + THICK + 3.0);
        text(&mut out, "value", WIDTH, top + 9.0, "end", &format!("{} µs", digits(row.work())));
        let wait = format!("{} {} µs", chart.wait, digits(row.wait));
        text(&mut out, "faint", WIDTH, top + 21.0, "end", &wait);
        out.push_str("</g>");
    }
    out + "</svg>"
}

/// Names the stages beside their fillings.
fn key(out: &mut String, chart: &Stacks) {
    let step = WIDTH / 5.0;
    for (stage, name) in chart.stages.iter().enumerate() {
        let x = step * stage as f64;
        fill(out, stage, "other", [x, 2.0, 12.0, 10.0]);
        out.push_str("</g>");
        text(out, "tick", x + 16.0, 11.0, "start", name);
    }
    let x = step * 4.0;
    let _ = write!(out, r#"<rect class="client" x="{x}" y="5" width="12" height="{THIN}"/>"#);
    text(out, "tick", x + 16.0, 11.0, "start", &chart.wait);
}

/// Begins a group with a piece of a bar, filled as its stage is.
fn fill(out: &mut String, stage: usize, class: &str, [x, y, width, height]: [f64; 4]) {
    let pale = if stage == 1 { 1.0 } else { 0.3 };
    let _ = write!(
        out,
        r#"<g><rect class="{class}" x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height}" opacity="{pale}"/>"#
    );
    let mut stripes = String::new();
    match stage {
        0 => {
            let mut at = x + STRIPE / 2.0;
            while at < x + width {
                let _ = write!(stripes, "M{at:.1} {y:.1}v{height}");
                at += STRIPE;
            }
        }
        2 => {
            let mut at = y + STRIPE / 2.0;
            while at < y + height && width > 0.5 {
                let _ = write!(stripes, "M{x:.1} {at:.1}h{width:.1}");
                at += STRIPE;
            }
        }
        _ => {}
    }
    if !stripes.is_empty() {
        let _ = write!(out, r#"<path class="range" d="{stripes}"/>"#);
    }
}

/// A thin bar for waiting; one that is longer than its room ends in an arrow.
fn waited(out: &mut String, length: f64, y: f64) {
    let room = WIDTH - LEFT - RIGHT;
    let width = length.min(room);
    let _ = write!(out, r#"<rect class="client" x="{LEFT}" y="{y:.1}" width="{width:.1}" height="{THIN}"/>"#);
    if length > room {
        let (x, middle) = (LEFT + room + 2.0, y + THIN / 2.0);
        let _ = write!(out, r#"<path class="range" d="M{x} {:.1}l4 3l-4 3"/>"#, middle - 3.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_stages_and_waits_are_named_and_a_long_wait_ends_in_an_arrow() {
        let rows = [("sys", 2.0), ("krb5p", 500.0)].map(|(variant, wait)| StageStack {
            variant: variant.to_owned(),
            wait,
            stages: [0.0, 1.25, 0.5, 0.25],
        });
        let stages = ["unwrap", "execute", "wrap", "send"].map(str::to_owned);
        let drawn = draw(&Stacks { wait: "queue".to_owned(), stages, rows: rows.to_vec() }, "a & b");
        for said in ["queue 2.00 µs", "queue 500 µs", ">2.00 µs<", "krb5p execute: 1.25 µs", "a &amp; b"]
        {
            assert!(drawn.contains(said), "{said}: {drawn}");
        }
        assert_eq!(drawn.matches("l4 3l-4 3").count(), 1);
        assert!(drawn.contains(r#"data-side="sys" data-us="2 0 1.25 0.5 0.25""#), "{drawn}");
        assert!(!drawn.contains("NaN") && drawn.matches("<g").count() == drawn.matches("</g>").count());
    }
}
