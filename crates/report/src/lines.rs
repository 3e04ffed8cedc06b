//! Draws lines as inline SVG: no script, no network, names at the ends of the lines, so that colour
//! is never needed.

use super::chart::{Line, Lines, Point};
use super::form::{escape, short};
use super::limit_lines::{self, PlotArea};
use super::scale::Scale;
use super::svg::{self, Drawn};
use super::variant;
use std::fmt::Write;

/// Size of a chart in its own units, which are about a card's pixels on a phone and on a desk.
pub(crate) const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 256.0;
/// Left edge of the plotting area; names, figures and axis labels are outside of it.
const LEFT: f64 = 46.0;
const RIGHT: f64 = WIDTH - 48.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = HEIGHT - 42.0;
const AREA: PlotArea = PlotArea { left: LEFT, right: RIGHT, top: TOP, bottom: BOTTOM };
/// The least distance of two names.
const APART: f64 = 14.0;
/// Measured places that are ticks at most, and their least distance.
const MEASURED_TICKS_MAX: usize = 9;
const TICKS_APART: f64 = 20.0;
/// How far a repetition's dot is beside its median.
const ASIDE: f64 = 6.0;

/// Draws the lines; `title` names the chart.
pub(crate) fn draw(chart: &Lines, title: &str) -> Drawn {
    let all = || chart.lines.iter().flat_map(|line| &line.points);
    let x = Scale::of(&chart.x, all().map(|point| point.x), LEFT + 8.0, RIGHT - 4.0);
    let measured = || all().filter(|point| !point.has_failed());
    let ends: Vec<f64> = measured().flat_map(|point| [point.low, point.y, point.high]).collect();
    let (near, far) = limit_lines::sort(&chart.limits, chart.y.logarithmic, &ends);
    let y = Scale::of(&chart.y, ends.into_iter().chain(near.iter().map(|limit| limit.1)), BOTTOM, TOP);
    let mut out = svg::begin("lines", (WIDTH, HEIGHT), title, &words(chart));
    grid(&mut out, chart, &x, &y);
    for line in &chart.lines {
        repetitions(&mut out, line, &x, &y);
    }
    for line in &chart.lines {
        draw_line(&mut out, line, &x, &y);
    }
    limit_lines::draw(&mut out, &near, &y, &AREA);
    crosses(&mut out, chart, &x);
    names(&mut out, chart, &x, &y);
    let medians: Vec<f64> = measured().map(|point| point.y).collect();
    let mut caption = limit_lines::words(&chart.limits, &far, y.to, &medians);
    caption.extend(beyond(chart, &y));
    Drawn { svg: out + "</svg>", caption }
}

/// Describes the chart in words.
fn words(chart: &Lines) -> String {
    let point = |point: &Point| {
        if point.has_failed() {
            return format!("{} failed", short(point.x));
        }
        let [y, low, high] = [point.y, point.low, point.high].map(short);
        format!("{} {y} ({low} to {high})", short(point.x))
    };
    let line = |line: &Line| {
        let points: Vec<String> = line.points.iter().map(point).collect();
        format!("{}: {}.", line.variant, points.join("; "))
    };
    let lines: Vec<String> = chart.lines.iter().map(line).collect();
    format!("{} by {}, with the intervals of the medians. {}", chart.y.label, chart.x.label, lines.join(" "))
}

fn grid(out: &mut String, chart: &Lines, x: &Scale, y: &Scale) {
    for tick in y.ticks() {
        let at = y.place(tick);
        let _ = write!(out, r#"<path class="grid" d="M{LEFT} {at:.1}H{RIGHT}"/>"#);
        svg::text(out, "tick ytick", LEFT - 6.0, at + 4.0, "end", &short(tick));
    }
    for tick in ticks(chart, x) {
        let at = x.place(tick);
        let _ = write!(out, r#"<path class="grid" d="M{at:.1} {TOP}V{BOTTOM}"/>"#);
        svg::text(out, "tick xtick", at, BOTTOM + 15.0, "middle", &short(tick));
    }
    svg::text(out, "axis", (LEFT + RIGHT) / 2.0, HEIGHT - 8.0, "middle", &chart.x.label);
    let middle = (TOP + BOTTOM) / 2.0;
    let _ = write!(
        out,
        r#"<text class="axis" transform="translate(9 {middle:.1}) rotate(-90)" text-anchor="middle">{}</text>"#,
        escape(&chart.y.label)
    );
}

/// Ticks at the measured places where these are few and apart, and round values elsewhere.
fn ticks(chart: &Lines, x: &Scale) -> Vec<f64> {
    let mut measured: Vec<f64> =
        chart.lines.iter().flat_map(|line| line.points.iter().map(|point| point.x)).collect();
    measured.sort_by(f64::total_cmp);
    measured.dedup();
    let apart = measured.windows(2).all(|pair| x.place(pair[1]) - x.place(pair[0]) >= TICKS_APART);
    // A label that is rounded would name another place.
    let exact = |value: &f64| {
        let written: Option<f64> = short(*value).parse().ok();
        written.is_some_and(|written| (written - value).abs() <= 0.005 * value.abs())
    };
    if (2..=MEASURED_TICKS_MAX).contains(&measured.len()) && apart && measured.iter().all(exact) {
        measured
    } else {
        x.ticks()
    }
}

/// Draws all repetitions beside their medians, warm-ups as rings; a value beyond an end of the axis
/// is drawn at that end.
fn repetitions(out: &mut String, line: &Line, x: &Scale, y: &Scale) {
    let class = variant::class(&line.variant);
    let place = |(at, value): &(f64, f64)| (x.place(*at) + ASIDE, y.place(*value));
    svg::dots(out, class, line.samples.iter().map(place));
    svg::rings(out, class, line.warm_ups.iter().filter(|sample| y.holds(sample.1)).map(place));
}

fn draw_line(out: &mut String, line: &Line, x: &Scale, y: &Scale) {
    let class = variant::class(&line.variant);
    // A line does not go on over a place where its variant has failed.
    for run in line.points.split(Point::has_failed).filter(|run| !run.is_empty()) {
        let places: Vec<String> =
            run.iter().map(|point| format!("{:.1} {:.1}", x.place(point.x), y.place(point.y))).collect();
        let _ = write!(
            out,
            r#"<path class="line {class}" stroke-dasharray="{}" d="M{}"/>"#,
            variant::dashes(&line.variant),
            places.join("L")
        );
    }
    for point in line.points.iter().filter(|point| !point.has_failed()) {
        let (at, low, high) = (x.place(point.x), y.place(point.low), y.place(point.high));
        if (low - high).abs() > 1.0 {
            let _ = write!(out, r#"<path class="whisker" d="M{at:.1} {low:.1}V{high:.1}"/>"#);
        }
        let Point { y: median, low, high, .. } = point;
        let _ = write!(
            out,
            r#"<g class="mark{}" data-side="{}" data-x="{}" data-y="{median}" data-low="{low}" data-high="{high}">{}</g>"#,
            if point.unsure { " unsure" } else { "" },
            escape(&line.variant),
            point.x,
            variant::mark(&line.variant, at, y.place(*median))
        );
    }
}

/// Marks where variants have failed, one over the other at the bottom of the field.
fn crosses(out: &mut String, chart: &Lines, x: &Scale) {
    let mut taken: Vec<f64> = Vec::new();
    for line in &chart.lines {
        for point in line.points.iter().filter(|point| point.has_failed()) {
            let row = taken.iter().filter(|at| **at == point.x).count() as f64;
            taken.push(point.x);
            let middle = BOTTOM - 4.0 - 12.0 * row;
            svg::text(out, "failed", x.place(point.x), middle, "middle", &format!("✕ {}", line.variant));
        }
    }
}

/// Says how many repetitions are beyond the axis, and where.
fn beyond(chart: &Lines, y: &Scale) -> Option<String> {
    let samples = chart.lines.iter().flat_map(|line| line.samples.iter().map(|sample| sample.1));
    let beyond: Vec<f64> = samples.filter(|value| !y.holds(*value)).collect();
    let (least, most) = (
        beyond.iter().copied().fold(f64::INFINITY, f64::min),
        beyond.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    );
    match beyond.len() {
        0 => None,
        1 => Some(format!("One repetition is beyond the chart, at {}.", short(most))),
        many => {
            Some(format!("{many} repetitions are beyond the chart, at {} to {}.", short(least), short(most)))
        }
    }
}

/// Writes each line's name at its end, none over another.
fn names(out: &mut String, chart: &Lines, x: &Scale, y: &Scale) {
    let last = |line: &Line| {
        let measured = line.points.iter().copied().filter(|point| !point.has_failed());
        measured.max_by(|one, other| one.x.total_cmp(&other.x))
    };
    let mut ends: Vec<(f64, Point, &str)> = chart
        .lines
        .iter()
        .filter_map(|line| last(line).map(|point| (y.place(point.y), point, line.variant.as_str())))
        .collect();
    ends.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut least = TOP;
    for end in &mut ends {
        end.0 = end.0.max(least);
        least = end.0 + APART;
    }
    // Labels below the plotting area move up again.
    let mut most = BOTTOM;
    for end in ends.iter_mut().rev() {
        end.0 = end.0.min(most);
        most = end.0 - APART;
    }
    for (at, point, name) in ends {
        let from = x.place(point.x);
        let (left, start) = (RIGHT + 8.0, y.place(point.y));
        if from < left - 16.0 || (start - at).abs() > 4.0 {
            let (from, to) = (from + 5.0, left - 2.0);
            let _ = write!(out, r#"<path class="lead" d="M{from:.1} {start:.1}L{to:.1} {at:.1}"/>"#);
        }
        svg::text(out, "name", left, at + 4.0, "start", name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Axis;

    fn line(variant: &str, values: &[(f64, f64)]) -> Line {
        let point = |(x, y): &(f64, f64)| Point { x: *x, y: *y, low: y * 0.9, high: y * 1.1, unsure: false };
        Line { variant: variant.into(), points: values.iter().map(point).collect(), ..Line::default() }
    }

    #[test]
    fn names_do_not_lie_over_each_other_and_nothing_is_no_number() {
        let same = [(0.0, 5.0), (100.0, 5.0)];
        let chart = Lines {
            x: Axis::linear("x"),
            y: Axis::logarithmic("y"),
            lines: ["sys", "krb5", "krb5i", "krb5p", "scp"].map(|variant| line(variant, &same)).to_vec(),
            limits: vec![("limit".into(), 7.0)],
        };
        let drawn = draw(&chart, "five lines").svg;
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
        let names = drawn.split(r#"<text class="name""#).skip(1);
        let mut places: Vec<f64> = names
            .map(|text| text.split("y=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap())
            .collect();
        places.sort_by(f64::total_cmp);
        assert!(
            places.len() == 5 && places.windows(2).all(|two| two[1] - two[0] >= APART - 0.2),
            "{places:?}"
        );
        assert!(draw(&Lines::default(), "nothing").svg.contains("</svg>"));
    }

    #[test]
    fn ticks_are_at_the_measured_places_where_labels_have_room() {
        let ticks_of = |values: &[f64]| {
            let points: Vec<(f64, f64)> = values.iter().map(|x| (*x, 5.0)).collect();
            let chart = Lines { x: Axis::linear("x"), lines: vec![line("sys", &points)], ..Lines::default() };
            let x = Scale::of(&chart.x, values.iter().copied(), LEFT + 8.0, RIGHT - 4.0);
            ticks(&chart, &x)
        };
        let apart = [0.0, 25.0, 50.0, 75.0, 100.0];
        assert_eq!(ticks_of(&apart), apart);
        let close = [0.0, 1.0, 2.0, 100.0];
        assert_ne!(ticks_of(&close), close);
    }

    #[test]
    fn a_repetition_that_stands_out_is_drawn_at_the_end_of_the_axis_and_said() {
        let mut only = line("krb5p", &[(0.0, 10.0), (1.0, 12.0)]);
        only.samples = vec![(0.0, 10.0), (1.0, 900.0)];
        let chart =
            Lines { x: Axis::linear("x"), y: Axis::linear("y"), lines: vec![only], limits: Vec::new() };
        let drawn = draw(&chart, "one");
        assert_eq!(drawn.caption, ["One repetition is beyond the chart, at 900."]);
        assert!(drawn.svg.contains(&format!(" {TOP:.1}h0")), "{}", drawn.svg);
    }
}
