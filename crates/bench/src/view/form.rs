//! Figures and texts as pages and tables write them.

pub use crate::report::format::{cpu_unit, digits, latency, percent, rate};
pub(crate) use crate::report::utc;

use crate::measuring::Interval;

/// Formats a change against the baseline: `-7 %`, `0 %`, `+3 %`.
pub fn change(ratio: f64) -> String {
    let percent = ((ratio - 1.0) * 100.0).round();
    match percent {
        0.0 => "0\u{202f}%".to_owned(),
        percent => format!("{percent:+.0}\u{202f}%").replace('-', "\u{2212}"),
    }
}

/// Formats an added latency: `+11 µs`, `−2.0 µs`, `+1.2 ms`.
pub fn added(microseconds: f64) -> String {
    let sign = if microseconds < 0.0 { "\u{2212}" } else { "+" };
    format!("{sign}{}", latency(microseconds.abs()))
}

/// Formats an interval's ends: `[93 to 99 %]`.
pub fn percent_range(interval: &Interval) -> String {
    format!("{:.0} to {:.0}\u{202f}%", interval.low * 100.0, interval.high * 100.0)
}

/// Formats how far to trust a figure: `±3 %`, `±0.4 %`.
pub fn within(relative: f64) -> String {
    if relative < 0.095 {
        format!("±{:.1}\u{202f}%", relative * 100.0)
    } else {
        format!("±{}", percent(relative))
    }
}

/// Formats how far to trust a median.
pub fn trust(interval: &Interval) -> String {
    within(interval.relative())
}

/// Formats a count with a sign of its thousands for an axis: `40k`, `1.5M`, `0.2`.
pub fn short(value: f64) -> String {
    let trim = |text: String| {
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    };
    match value.abs() {
        size if size >= 1e6 => trim(format!("{:.2}", value / 1e6)) + "M",
        size if size >= 1e4 => trim(format!("{:.1}", value / 1e3)) + "k",
        size if size >= 1.0 || size == 0.0 => trim(format!("{value:.1}")),
        _ => trim(format!("{value:.3}")),
    }
}

/// Writes a text so that a page shows it as it is.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        assert_eq!(change(0.93), "\u{2212}7\u{202f}%");
        assert_eq!(change(0.999), "0\u{202f}%");
        assert_eq!(change(1.1), "+10\u{202f}%");
        assert_eq!(
            (short(40_000.0), short(1_500_000.0), short(250.0), short(0.25), short(0.0)),
            ("40k".into(), "1.5M".into(), "250".into(), "0.25".into(), "0".into())
        );
        assert_eq!(added(-2.0), "\u{2212}2.00 µs");
    }
}
