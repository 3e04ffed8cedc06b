//! Figures and texts as pages and tables write them.

use bench::Unit;
use bench::measuring::{Comparison, Interval, Verdict};

/// Formats with three significant digits, four up to 9 999, thousands apart: `45 700`, `1 234`,
/// `12.3`, `0.97`, `0.013`.
pub fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 9999.5 => {
            let step = 10f64.powf(size.log10().floor() - 2.0);
            thousands((value / step).round() * step)
        }
        size if size >= 999.5 => thousands(value),
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.0995 || size == 0.0 => format!("{value:.2}"),
        // Two significant digits, and not more than six places.
        size => {
            let places = (1.0 - size.log10().floor()).clamp(3.0, 6.0) as usize;
            format!("{value:.places$}")
        }
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

/// Formats a rate with its unit: `2 345 MB/s`, `182k IOPS`, `1.24M IOPS`.
pub fn rate(value: f64, unit: Unit) -> String {
    match unit {
        Unit::MegabytesPerSecond => format!("{} MB/s", digits(value)),
        Unit::OperationsPerSecond if value >= 999_500.0 => format!("{}M IOPS", digits(value / 1e6)),
        Unit::OperationsPerSecond if value >= 9999.5 => format!("{}k IOPS", digits(value / 1e3)),
        Unit::OperationsPerSecond => format!("{} IOPS", digits(value)),
    }
}

/// Formats a latency in microseconds: `85.0 µs`, `1.20 ms`, `2.00 s`.
pub fn latency(microseconds: f64) -> String {
    match microseconds {
        time if time >= 999_500.0 => format!("{} s", digits(time / 1e6)),
        time if time >= 999.5 => format!("{} ms", digits(time / 1e3)),
        time => format!("{} µs", digits(time)),
    }
}

/// Formats a ratio as a percentage: `97 %`.
pub fn percent(ratio: f64) -> String {
    format!("{:.0}\u{202f}%", ratio * 100.0)
}

/// Returns the unit of work that processor time is counted for.
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

/// Formats an added latency; `unsure` where no difference is shown or it is below the noise.
pub fn added_or_none(microseconds: f64, is_unsure: bool) -> String {
    unsure(is_unsure, added(microseconds))
}

/// Marks a figure that shows no difference to the baseline, or one below the noise.
pub fn unsure(is_unsure: bool, text: String) -> String {
    if is_unsure { format!("≈\u{202f}{text}") } else { text }
}

/// Formats a change as its comparison found it: `−7 %`, `≈ +1 %` where no difference is shown or it
/// is below the noise.
pub fn compared(against: &Comparison) -> String {
    unsure(!against.verdict.is_significant(), change(against.ratio.median))
}

/// Formats a part of the baseline's, likewise: `93 %`, `≈ 101 %`.
pub fn part(against: &Comparison) -> String {
    unsure(!against.verdict.is_significant(), percent(against.ratio.median))
}

/// Formats a rate as a part of one that did not run side by side with it: `86 %`, `≈ 101 %` where
/// the intervals meet or the difference is below the noise.
pub fn part_apart(rate: &Interval, base: &Interval, noise: f64) -> String {
    let differs = Verdict::between(base, rate, noise).is_significant();
    unsure(!differs, percent(rate.median / base.median))
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
        size if size >= 999_500.0 => trim(format!("{:.2}", value / 1e6)) + "M",
        size if size >= 99_950.0 => trim(format!("{:.0}", value / 1e3)) + "k",
        size if size >= 9999.5 => trim(format!("{:.1}", value / 1e3)) + "k",
        size if size >= 100.0 => trim(format!("{value:.0}")),
        size if size >= 1.0 || size == 0.0 => trim(format!("{value:.1}")),
        _ => trim(format!("{value:.3}")),
    }
}

/// Keeps each figure of a text on one line with its unit.
pub(crate) fn unbroken(text: &str) -> String {
    let mut before = ' ';
    let keep = |c: char| {
        let kept = if c == ' ' && before.is_ascii_digit() { '\u{a0}' } else { c };
        before = c;
        kept
    };
    text.chars().map(keep).collect()
}

/// Writes a text so that a page shows it as it is.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Formats seconds since 1970 as a date and time (the civil-from-days rule of the Gregorian
/// calendar).
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
        let said = [22_728.0, 9_999.9, 1_234.0, 99.96, 9.996, 0.0123, 0.0].map(digits);
        assert_eq!(
            said.map(|text| text.replace('\u{202f}', " ")),
            ["22 700", "10 000", "1 234", "100", "10.0", "0.012", "0.00"]
        );
        assert_eq!(rate(1_236_000.0, Unit::OperationsPerSecond), "1.24M IOPS");
        assert_eq!((latency(999.9), latency(2e6)), ("1.00 ms".into(), "2.00 s".into()));
    }

    #[test]
    fn a_figure_stays_with_its_unit() {
        assert_eq!(unbroken("adds 42.5 µs of latency"), "adds 42.5\u{a0}µs of latency");
    }

    #[test]
    fn seconds_become_a_date() {
        assert_eq!(utc(0), "1970-01-01 00:00 UTC");
        assert_eq!(utc(951_827_696), "2000-02-29 12:34 UTC");
    }
}
