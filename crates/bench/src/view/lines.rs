//! Draws lines as inline SVG: no script, no network, names at the ends of the lines, so that colour is never needed.

use super::chart::{Axis, Line, Lines, Point};
use super::form::{escape, short};
use super::side;
use std::fmt::Write;

/// Size of a chart in its own units; the page scales it to the card.
const WIDTH: f64 = 400.0;
const HEIGHT: f64 = 268.0;
/// Room for what is beside the field.
const LEFT: f64 = 44.0;
const RIGHT: f64 = 52.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 40.0;
/// The least distance of two names.
const APART: f64 = 13.5;

/// Where values are on an axis.
pub(super) struct Scale {
    from: f64,
    to: f64,
    /// Place of the ends.
    start: f64,
    end: f64,
    logarithmic: bool,
}

impl Scale {
    pub(super) fn of(axis: &Axis, values: impl Iterator<Item = f64>, start: f64, end: f64) -> Self {
        let positive = |value: &f64| value.is_finite() && (!axis.logarithmic || *value > 0.0);
        let values: Vec<f64> = values.filter(positive).collect();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (from, to) = match (values.is_empty(), axis.logarithmic) {
            (true, _) => (0.1, 1.0),
            (false, true) => (least * 0.85, (most * 1.15).max(least * 2.0)),
            (false, false) => (0.0, if most > 0.0 { most * 1.05 } else { 1.0 }),
        };
        Self { from, to, start, end, logarithmic: axis.logarithmic }
    }

    pub(super) fn place(&self, value: f64) -> f64 {
        let part = if self.logarithmic {
            (value.max(self.from) / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        self.start + part.clamp(0.0, 1.0) * (self.end - self.start)
    }

    /// Round values between the ends, at most six.
    pub(super) fn ticks(&self) -> Vec<f64> {
        let within = |value: &f64| (self.from..=self.to).contains(value);
        if self.logarithmic {
            let steps = (-2..10).flat_map(|power| [1.0, 2.0, 5.0].map(|step| step * 10f64.powi(power)));
            let all: Vec<f64> = steps.filter(within).collect();
            let every = all.len().div_ceil(6).max(1);
            return all.into_iter().step_by(every).collect();
        }
        let steps = (-2..10).flat_map(|power| [1.0, 2.0, 2.5, 5.0].map(|step| step * 10f64.powi(power)));
        let width = steps.into_iter().find(|width| self.to / width < 6.0).unwrap_or(self.to);
        (0..=6).map(|index| f64::from(index) * width).filter(within).collect()
    }
}

/// Draws the lines; `label` is what those hear who do not see.
pub fn draw(chart: &Lines, label: &str) -> String {
    let all = || chart.lines.iter().flat_map(|line| &line.points);
    let limits = chart.limits.iter().map(|(_, value)| *value);
    let x = Scale::of(&chart.x, all().map(|point| point.x), LEFT + 6.0, WIDTH - RIGHT);
    let highs = all().flat_map(|point| [point.low, point.y, point.high]);
    let y = Scale::of(&chart.y, highs.chain(limits), HEIGHT - BOTTOM, TOP);
    let mut out = format!(
        r#"<svg class="lines" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{}">"#,
        escape(label)
    );
    grid(&mut out, chart, &x, &y);
    for (name, value) in &chart.limits {
        let at = y.place(*value);
        let _ = write!(out, r#"<path class="limit" d="M{LEFT} {at:.1}H{}"/>"#, WIDTH - RIGHT);
        text(&mut out, "tick", LEFT + 8.0, at - 3.0, "start", name);
    }
    for line in &chart.lines {
        draw_line(&mut out, line, &x, &y);
    }
    crosses(&mut out, chart, &x);
    names(&mut out, chart, &x, &y);
    out + "</svg>"
}

fn text(out: &mut String, class: &str, x: f64, y: f64, anchor: &str, content: &str) {
    let content = escape(content);
    let _ =
        write!(out, r#"<text class="{class}" x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{content}</text>"#);
}

fn grid(out: &mut String, chart: &Lines, x: &Scale, y: &Scale) {
    for tick in y.ticks() {
        let at = y.place(tick);
        let _ = write!(out, r#"<path class="grid" d="M{LEFT} {at:.1}H{}"/>"#, WIDTH - RIGHT);
        text(out, "tick", LEFT - 5.0, at + 3.5, "end", &short(tick));
    }
    for tick in x.ticks() {
        let at = x.place(tick);
        let _ = write!(out, r#"<path class="grid" d="M{at:.1} {TOP}V{}"/>"#, HEIGHT - BOTTOM);
        text(out, "tick", at, HEIGHT - BOTTOM + 13.0, "middle", &short(tick));
    }
    text(out, "axis", (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 8.0, "middle", &chart.x.label);
    let middle = (TOP + HEIGHT - BOTTOM) / 2.0;
    let _ = write!(
        out,
        r#"<text class="axis" transform="translate(10 {middle:.1}) rotate(-90)" text-anchor="middle">{}</text>"#,
        escape(&chart.y.label)
    );
}

fn draw_line(out: &mut String, line: &Line, x: &Scale, y: &Scale) {
    let class = side::class(&line.side);
    // A line does not go on over a place where its side has failed.
    for run in line.points.split(Point::has_failed).filter(|run| !run.is_empty()) {
        let places: Vec<String> =
            run.iter().map(|point| format!("{:.1} {:.1}", x.place(point.x), y.place(point.y))).collect();
        let _ = write!(
            out,
            r#"<path class="line {class}" stroke-dasharray="{}" d="M{}"/>"#,
            side::dashes(&line.side),
            places.join("L")
        );
    }
    for point in line.points.iter().filter(|point| !point.has_failed()) {
        let (at, low, high) = (x.place(point.x), y.place(point.low), y.place(point.high));
        if (low - high).abs() > 1.0 {
            let _ = write!(out, r#"<path class="whisker" d="M{at:.1} {low:.1}V{high:.1}"/>"#);
        }
        out.push_str(&side::mark(&line.side, at, y.place(point.y)));
    }
}

/// Marks where sides have failed, one over the other at the bottom of the field.
fn crosses(out: &mut String, chart: &Lines, x: &Scale) {
    let mut taken: Vec<f64> = Vec::new();
    for line in &chart.lines {
        for point in line.points.iter().filter(|point| point.has_failed()) {
            let row = taken.iter().filter(|at| **at == point.x).count() as f64;
            taken.push(point.x);
            let middle = HEIGHT - BOTTOM - 4.0 - 11.0 * row;
            text(out, "tick", x.place(point.x), middle, "middle", &format!("✕ {}", line.side));
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
        .filter_map(|line| last(line).map(|point| (y.place(point.y), point, line.side.as_str())))
        .collect();
    ends.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut least = TOP;
    for end in &mut ends {
        end.0 = end.0.max(least);
        least = end.0 + APART;
    }
    // What was pushed out of the field goes up again.
    let mut most = HEIGHT - BOTTOM;
    for end in ends.iter_mut().rev() {
        end.0 = end.0.min(most);
        most = end.0 - APART;
    }
    for (at, point, name) in ends {
        let from = x.place(point.x);
        let (left, middle) = (WIDTH - RIGHT + 10.0, at);
        if from < left - 14.0 || (y.place(point.y) - at).abs() > 4.0 {
            let start = y.place(point.y);
            let _ = write!(
                out,
                r#"<path class="lead" d="M{:.1} {start:.1}L{:.1} {middle:.1}"/>"#,
                from + 5.0,
                left - 2.0
            );
        }
        text(out, "name", left, at + 4.0, "start", name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(side: &str, values: &[(f64, f64)]) -> Line {
        let points = values.iter().map(|(x, y)| Point { x: *x, y: *y, low: y * 0.9, high: y * 1.1 });
        Line { side: side.into(), points: points.collect() }
    }

    #[test]
    fn names_do_not_lie_over_each_other_and_nothing_is_no_number() {
        let same = [(0.0, 5.0), (100.0, 5.0)];
        let chart = Lines {
            x: Axis::linear("x"),
            y: Axis::logarithmic("y"),
            lines: ["sys", "krb5", "krb5i", "krb5p", "scp"].map(|side| line(side, &same)).to_vec(),
            limits: vec![("limit".into(), 50.0)],
        };
        let drawn = draw(&chart, "five lines");
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
    }

    #[test]
    fn axes_have_few_round_steps() {
        for most in [0.3, 1.0, 7.0, 96.0, 1234.0, 250_000.0] {
            for axis in [Axis::linear("l"), Axis::logarithmic("g")] {
                let scale = Scale::of(&axis, [most / 40.0, most].into_iter(), 0.0, 100.0);
                let ticks = scale.ticks();
                assert!((2..=7).contains(&ticks.len()), "{most} {axis:?}: {ticks:?}");
            }
        }
        assert!(draw(&Lines::default(), "nothing").contains("</svg>"));
    }
}
