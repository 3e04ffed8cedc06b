//! Draws ratios to the baseline: a bar from zero to the ratio, its interval, the values behind it,
//! and published values.

use super::chart::{Axis, Ratio, Ratios};
use super::form::{escape, percent};
use super::scale::Scale;
use super::svg::{self, End};
use super::variant;
use std::fmt::Write;

const WIDTH: f64 = 360.0;
/// Height of a row, and of a group's name.
const ROW: f64 = 27.0;
const HEAD: f64 = 26.0;
/// Room for the axis below.
const FOOT: f64 = 22.0;
/// Room for the variant's name on the left, and for figures on the right.
const LEFT: f64 = 62.0;
const RIGHT: f64 = WIDTH - 104.0;
const THICK: f64 = 11.0;

/// Letters of a baseline's name that have room below the axis.
const NAME_MAX: usize = 8;

/// Letters of a group's name that have room in a chart.
const GROUP_MAX: usize = 46;

/// The least distance of two labels of the axis.
const APART: f64 = 46.0;

/// From this part on a linear axis has no room for the small ones.
pub(crate) const WIDE: f64 = 2.0;

/// Draws the groups; `title` names the chart.
pub(crate) fn draw(chart: &Ratios, title: &str) -> String {
    let rows = || chart.groups.iter().flat_map(|group| &group.rows);
    let (least, most) = chart.span.unwrap_or((1.0, 1.0));
    let logarithmic = is_logarithmic(chart);
    // On a linear axis an interval that is longer ends at the edge; its figures say where it would.
    let end = |value: f64| if logarithmic { value } else { value.min(WIDE) };
    let ends = rows().flat_map(|row| {
        [row.range.map_or(row.value, |range| range.0), row.range.map_or(row.value, |range| end(range.1))]
    });
    let published = rows().filter_map(|row| row.published);
    let axis = Axis { label: String::new(), logarithmic };
    let x = Scale::of(&axis, ends.chain([1.0, least, most]).chain(published), LEFT, RIGHT);
    let named = |name: &str| if name.is_empty() { 0.0 } else { HEAD };
    let height: f64 =
        chart.groups.iter().map(|group| named(&group.name) + ROW * group.rows.len() as f64).sum();
    let mut out = svg::begin("ratios", (WIDTH, height + FOOT), title, &words(chart));
    frame(&mut out, chart, &x, height);
    let mut top = 0.0;
    for group in &chart.groups {
        if !group.name.is_empty() {
            svg::text(&mut out, "group", 0.0, top + HEAD - 8.0, "start", &shortened(&group.name));
            top += HEAD;
        }
        for ratio in &group.rows {
            row(&mut out, ratio, &x, top + ROW / 2.0);
            top += ROW;
        }
    }
    out + "</svg>"
}

fn is_logarithmic(chart: &Ratios) -> bool {
    let mut rows = chart.groups.iter().flat_map(|group| &group.rows);
    rows.any(|row| row.value > WIDE) || chart.span.is_some_and(|(_, most)| most > WIDE)
}

/// Says whether an interval goes on beyond the axis.
pub(crate) fn has_arrows(chart: &Ratios) -> bool {
    let mut ranges = chart.groups.iter().flat_map(|group| &group.rows).filter_map(|row| row.range);
    !is_logarithmic(chart) && ranges.any(|(_, high)| high > WIDE)
}

/// Returns a name as far as it has room; tables have all of it.
fn shortened(name: &str) -> String {
    match name.char_indices().nth(GROUP_MAX) {
        Some((end, _)) => format!("{}…", name.get(..end).unwrap_or_default().trim_end()),
        None => name.to_owned(),
    }
}

fn words(chart: &Ratios) -> String {
    let row = |row: &Ratio| {
        let published = row.published.map_or(String::new(), |part| format!(", published {}", percent(part)));
        format!("{} {}{published}", row.variant, said(row).join(" "))
    };
    let groups = chart.groups.iter().map(|group| {
        let rows: Vec<String> = group.rows.iter().map(row).collect();
        format!("{}: {}.", group.name, rows.join("; "))
    });
    let groups: Vec<String> = groups.collect();
    format!("As parts of {}. {}", chart.baseline, groups.join(" "))
}

/// The noise around the baseline as a band, the baseline as a line, round values below.
fn frame(out: &mut String, chart: &Ratios, x: &Scale, height: f64) {
    let (from, to) = (x.place(1.0 - chart.noise), x.place(1.0 + chart.noise));
    let _ = write!(
        out,
        r#"<rect class="noise" x="{from:.1}" y="0" width="{:.1}" height="{height}"/>"#,
        (to - from).max(0.5)
    );
    let mut last = f64::NEG_INFINITY;
    for tick in x.ticks() {
        let at = x.place(tick);
        let _ = write!(out, r#"<path class="grid" d="M{at:.1} 0V{height}"/>"#);
        // The baseline's own has its name; a label that would touch another is left out.
        if (at - x.place(1.0)).abs() > APART && at - last > APART {
            last = at;
            svg::text(out, "tick", at, height + 14.0, "middle", &percent(tick));
        }
    }
    let base = x.place(1.0);
    let _ = write!(out, r#"<path class="base" d="M{base:.1} 0V{height}"/>"#);
    // A name that would lie over the other ticks stands in the page's words only.
    let short = chart.baseline.chars().count() <= NAME_MAX;
    svg::text(out, "tick", base, height + 14.0, "middle", if short { &chart.baseline } else { "first" });
}

/// Returns the text behind a row, large and small.
fn said(row: &Ratio) -> [String; 2] {
    let sign = if row.unsure { "≈\u{202f}" } else { "" };
    let range = row
        .range
        .map_or(String::new(), |(low, high)| format!("{:.0} to {:.0}\u{202f}%", low * 100.0, high * 100.0));
    [format!("{sign}{}", percent(row.value)), range]
}

fn row(out: &mut String, row: &Ratio, x: &Scale, middle: f64) {
    let class = variant::class(&row.variant);
    // Where parts are multiples of each other a bar goes from the baseline to where it is.
    let origin = x.place(if x.logarithmic { 1.0 } else { x.from });
    let (start, end) = (origin.min(x.place(row.value)), origin.max(x.place(row.value)));
    svg::text(out, "name", LEFT - 20.0, middle + 4.0, "end", &row.variant);
    out.push_str(&variant::mark(&row.variant, LEFT - 10.0, middle));
    let _ = write!(
        out,
        r#"<rect class="bar {class}{}" data-side="{}" data-value="{}" x="{start:.1}" y="{:.1}" width="{:.1}" height="{THICK}" rx="2"/>"#,
        if row.unsure { " unsure" } else { "" },
        escape(&row.variant),
        row.value,
        middle - THICK / 2.0,
        (end - start).max(0.5)
    );
    svg::dots(out, "part", row.parts.iter().map(|part| (x.place(*part), middle + THICK / 2.0 + 3.5)));
    if let Some((low, high)) = row.range {
        let end = if high > x.to { End::Arrow } else { End::Stroke };
        svg::whisker(out, (x.place(low), x.place(high)), middle, 3.5, end);
    }
    let mut small = said(row)[1].clone();
    if let Some(part) = row.published {
        let at = x.place(part);
        let (top, bottom) = (middle - THICK / 2.0 - 3.0, middle + THICK / 2.0 + 3.0);
        let _ = write!(out, r#"<path class="published" data-value="{part}" d="M{at:.1} {top}V{bottom}"/>"#);
        small = format!("published {}", percent(part));
    }
    let raised = if small.is_empty() { 4.0 } else { -1.0 };
    svg::text(out, "value", WIDTH, middle + raised, "end", &said(row)[0]);
    svg::text(out, "faint", WIDTH, middle + 11.5, "end", &small);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RatioGroup;

    fn chart(name: &str, value: f64, range: (f64, f64)) -> Ratios {
        let row = Ratio { variant: "krb5p".to_owned(), value, range: Some(range), ..Ratio::default() };
        let groups = vec![RatioGroup { name: name.to_owned(), rows: vec![row] }];
        Ratios { baseline: "sys".to_owned(), groups, ..Ratios::default() }
    }

    #[test]
    fn an_interval_that_goes_on_beyond_the_axis_ends_in_an_arrow() {
        for (value, high, arrow) in [(0.8, 1.9, false), (0.8, 7.9, true), (2.5, 7.9, false)] {
            let chart = chart("load", value, (0.1, high));
            let drawn = draw(&chart, "");
            let whisker = drawn.split("class=\"whisker\"").nth(1).unwrap();
            let is_arrow = whisker.split("/>").next().unwrap().contains('L');
            assert_eq!((is_arrow, has_arrows(&chart)), (arrow, arrow), "{value} {high}: {whisker}");
        }
    }

    #[test]
    fn a_long_name_stays_in_its_chart_and_its_words_have_all_of_it() {
        let name = "Home directories of a department: 64 KiB, half of the requests write, 12 clients";
        let drawn = draw(&chart(name, 0.8, (0.7, 0.9)), "");
        assert!(drawn.contains(">Home directories of a department: 64 KiB, half…<"), "{drawn}");
        assert!(drawn.split("</desc>").next().unwrap().contains(name));
        assert_eq!(shortened("Random read, 4 KiB, one at a time"), "Random read, 4 KiB, one at a time");
    }
}
