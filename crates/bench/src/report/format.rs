//! Figures as people read them.

use crate::{Spread, Unit};

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

/// Formats how far to trust a median: `±3 %`.
pub fn spread(spread: &Spread) -> String {
    format!("±{}", percent(spread.relative()))
}

/// Names what processor time is counted per.
pub fn cpu_unit(unit: Unit) -> &'static str {
    match unit {
        Unit::MegabytesPerSecond => "s/GB",
        Unit::OperationsPerSecond => "µs/op",
    }
}
