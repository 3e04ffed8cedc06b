//! Figures and texts as pages and tables write them.

use crate::Unit;
use crate::measuring::Interval;

/// Formats with three significant digits, thousands apart: `1 234`, `12.3`, `0.97`.
pub fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => thousands(value),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn thousands(value: f64) -> String {
    let plain = format!("{:.0}", value.abs());
    let mut out = String::from(if value < 0.0 { "-" } else { "" });
    for (index, digit) in plain.chars().enumerate() {
        if index > 0 && (plain.len() - index) % 3 == 0 {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

/// Formats a rate with its unit: `2 345 MB/s`, `182k IOPS`.
pub fn rate(value: f64, unit: Unit) -> String {
    match unit {
        Unit::MegabytesPerSecond => format!("{} MB/s", digits(value)),
        Unit::OperationsPerSecond if value >= 10_000.0 => format!("{:.1}k IOPS", value / 1000.0),
        Unit::OperationsPerSecond => format!("{} IOPS", digits(value)),
    }
}

/// Formats a latency in microseconds: `85 µs`, `1.2 ms`.
pub fn latency(microseconds: f64) -> String {
    if microseconds >= 1000.0 {
        format!("{} ms", digits(microseconds / 1000.0))
    } else {
        format!("{} µs", digits(microseconds))
    }
}

/// Formats a ratio as a percentage: `97 %`.
pub fn percent(ratio: f64) -> String {
    format!("{:.0}\u{202f}%", ratio * 100.0)
}

/// Names what processor time is counted per.
pub fn cpu_unit(unit: Unit) -> &'static str {
    match unit {
        Unit::MegabytesPerSecond => "s/GB",
        Unit::OperationsPerSecond => "µs/op",
    }
}

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

/// Formats seconds since 1970 as a date and time (the civil-from-days rule of the Gregorian calendar).
pub fn utc(seconds: u64) -> String {
    let (days, rest) = ((seconds / 86_400) as i64 + 719_468, seconds % 86_400);
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", rest / 3600, rest / 60 % 60)
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

    #[test]
    fn seconds_become_a_date() {
        assert_eq!(utc(0), "1970-01-01 00:00 UTC");
        assert_eq!(utc(951_827_696), "2000-02-29 12:34 UTC");
    }
}
