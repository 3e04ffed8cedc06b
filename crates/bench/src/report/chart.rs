//! Small charts as inline SVG: no script, no network, labels beside the marks, so that colour is never needed.

use super::format;
use crate::{Series, Spread};
use std::fmt::Write;

/// Width of a chart in its own units; the page scales it to the card.
const WIDTH: f64 = 340.0;
/// Height of one flavor's row.
const ROW: f64 = 30.0;
/// Room for the flavor's name on the left.
const LEFT: f64 = 48.0;
/// Room for the figure on the right.
const RIGHT: f64 = 104.0;
/// Thickness of a bar.
const BAR: f64 = 14.0;

fn open(label: &str, rows: usize, foot: f64) -> String {
    let height = ROW * rows as f64 + foot;
    format!(r#"<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">"#)
}

fn text(out: &mut String, class: &str, x: f64, y: f64, anchor: &str, content: &str) {
    let _ =
        write!(out, r#"<text class="{class}" x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{content}</text>"#);
}

fn span() -> f64 {
    WIDTH - LEFT - RIGHT
}

fn name(out: &mut String, series: &Series, middle: f64) {
    text(out, "name", LEFT - 8.0, middle + 4.0, "end", series.flavor.name());
}

/// Draws rates as bars with the ends of the repetitions as a whisker, the figure and its ratio to `sys` at the right.
pub fn rates(series: &[&Series]) -> String {
    let largest = series.iter().map(|one| one.summary.rate.max).fold(f64::MIN_POSITIVE, f64::max);
    let scale = span() / largest;
    let mut out = open("Rate by flavor", series.len(), 0.0);
    for (index, one) in series.iter().enumerate() {
        let middle = ROW * (index as f64 + 0.5);
        let rate = one.summary.rate;
        name(&mut out, one, middle);
        bar(&mut out, one.flavor.name(), LEFT, middle, rate.median * scale);
        whisker(&mut out, &rate, scale, middle);
        let ratio = one.summary.ratio_to_sys.map_or(String::new(), |ratio| format::percent(ratio.median));
        text(&mut out, "ratio", WIDTH, middle - 1.0, "end", &ratio);
        text(&mut out, "value", WIDTH, middle + 11.0, "end", &format::rate(rate.median, one.unit));
    }
    out + "</svg>"
}

fn bar(out: &mut String, class: &str, x: f64, middle: f64, width: f64) {
    let (y, width) = (middle - BAR / 2.0, width.max(0.5));
    let _ = write!(
        out,
        r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{BAR}" rx="2"/>"#
    );
}

fn whisker(out: &mut String, spread: &Spread, scale: f64, middle: f64) {
    let (from, to) = (LEFT + spread.min * scale, LEFT + spread.max * scale);
    let (top, bottom) = (middle - 4.0, middle + 4.0);
    let _ = write!(
        out,
        r#"<path class="whisker" d="M{from:.1} {top}V{bottom}M{from:.1} {middle}H{to:.1}M{to:.1} {top}V{bottom}"/>"#
    );
}

/// Draws latencies on a logarithmic axis: a filled mark at the median, an open one at the 99th percentile.
pub fn latencies(series: &[&Series]) -> String {
    let values = || series.iter().flat_map(|one| [one.summary.p50_us.median, one.summary.p99_us.median]);
    let low = values().fold(f64::INFINITY, f64::min).max(0.1) * 0.8;
    let high = values().fold(1.0, f64::max).max(low * 2.0) * 1.25;
    let place = |value: f64| LEFT + (value.max(low) / low).ln() / (high / low).ln() * span();
    let mut out = open("Latency by flavor, median and 99th percentile", series.len(), 16.0);
    let bottom = ROW * series.len() as f64;
    for tick in ticks(low, high) {
        let x = place(tick);
        let _ = write!(out, r#"<path class="grid" d="M{x:.1} 2V{bottom}"/>"#);
        text(
            &mut out,
            "tick",
            x,
            bottom + 12.0,
            "middle",
            &format::latency(tick).replace(".00", "").replace(".0 ", " "),
        );
    }
    for (index, one) in series.iter().enumerate() {
        let middle = ROW * (index as f64 + 0.5);
        let (p50, p99) = (one.summary.p50_us.median, one.summary.p99_us.median);
        let (from, to, class) = (place(p50), place(p99), one.flavor.name());
        name(&mut out, one, middle);
        let _ = write!(
            out,
            r#"<path class="range" d="M{from:.1} {middle}H{to:.1}"/><circle class="{class}" cx="{from:.1}" cy="{middle}" r="5.5"/><circle class="open" cx="{to:.1}" cy="{middle}" r="4.5"/>"#
        );
        text(&mut out, "value", WIDTH, middle - 1.0, "end", &format!("p50 {}", format::latency(p50)));
        text(&mut out, "faint", WIDTH, middle + 11.0, "end", &format!("p99 {}", format::latency(p99)));
    }
    out + "</svg>"
}

/// Chooses 1-2-5 steps between the ends, at most four.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let steps = (-1..8).flat_map(|power| [1.0, 2.0, 5.0].map(|step| step * 10f64.powi(power)));
    let all: Vec<f64> = steps.filter(|tick| (low..=high).contains(tick)).collect();
    let every = all.len().div_ceil(4).max(1);
    all.into_iter().step_by(every).collect()
}

/// Draws processor time as bars: the server's share filled, the client's outlined behind it.
pub fn processor_time(series: &[&Series]) -> String {
    let total =
        |one: &&Series| one.summary.client_cpu.median + one.summary.server_cpu.map_or(0.0, |cpu| cpu.median);
    let scale = span() / series.iter().map(total).fold(f64::MIN_POSITIVE, f64::max);
    let mut out = open("Processor time by flavor, server and client", series.len(), 0.0);
    for (index, one) in series.iter().enumerate() {
        let middle = ROW * (index as f64 + 0.5);
        let unit = format::cpu_unit(one.unit);
        let (client, server) = (one.summary.client_cpu.median, one.summary.server_cpu.map(|cpu| cpu.median));
        let width = server.unwrap_or(0.0) * scale;
        name(&mut out, one, middle);
        if server.is_some() {
            bar(&mut out, one.flavor.name(), LEFT, middle, width);
        }
        bar(&mut out, "client", LEFT + width, middle, client * scale);
        let said = server
            .map_or("server unknown".into(), |server| format!("server {} {unit}", format::digits(server)));
        text(&mut out, "value", WIDTH, middle - 1.0, "end", &said);
        text(
            &mut out,
            "faint",
            WIDTH,
            middle + 11.0,
            "end",
            &format!("client {} {unit}", format::digits(client)),
        );
    }
    out + "</svg>"
}
