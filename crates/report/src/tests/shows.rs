//! Reads figures as a reader of the page does: number, sign, thousands, unit, and precision.

/// A figure as it is written: its value in basic units (one, µs, MB/s), and half of its last place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Written {
    value: f64,
    half: f64,
}

/// Returns the factor of the letters behind a number. Times are in microseconds.
fn unit(rest: &str) -> f64 {
    let rest = rest.trim_start();
    match rest {
        _ if rest.starts_with('%') => 0.01,
        _ if rest.starts_with('k') && !rest.starts_with("kB") => 1e3,
        _ if rest.starts_with('M') && !rest.starts_with("MB") => 1e6,
        _ if rest.starts_with("ms") => 1e3,
        _ if rest == "s" || rest.starts_with("s,") || rest.starts_with("s)") || rest.starts_with("s ") => 1e6,
        _ => 1.0,
    }
}

/// Reads all figures of a text, in their order. The thousands of one are apart by a narrow space.
pub(super) fn figures(text: &str) -> Vec<Written> {
    let chars: Vec<char> = text.chars().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        if !chars[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let negative = at > 0 && ['\u{2212}', '-'].contains(&chars[at - 1]);
        let mut digits = String::new();
        while at < chars.len() {
            let group = at + 3 < chars.len()
                && ['\u{202f}', ' '].contains(&chars[at])
                && !digits.contains('.')
                && chars[at + 1..at + 4].iter().all(char::is_ascii_digit)
                && chars.get(at + 4).is_none_or(|next| !next.is_ascii_digit());
            match chars[at] {
                one if one.is_ascii_digit() => digits.push(one),
                '.' if chars.get(at + 1).is_some_and(char::is_ascii_digit) => digits.push('.'),
                _ if group => {}
                _ => break,
            }
            at += 1;
        }
        let rest: String = chars[at..].iter().collect();
        let scale = unit(&rest);
        let places = digits.split('.').nth(1).map_or(0, str::len) as i32;
        let value: f64 = digits.parse().unwrap();
        // From five digits on three of them are significant.
        let rounded = if value >= 10_000.0 { 10f64.powf(value.log10().floor() - 2.0) } else { 1.0 };
        let half = 0.5 * 10f64.powi(-places) * rounded * scale;
        found.push(Written { value: if negative { -value } else { value } * scale, half });
    }
    found
}

impl Written {
    /// Returns the figure as a number.
    pub(super) fn value(self) -> f64 {
        self.value
    }

    /// Returns whether it is this figure, as exactly as it is written.
    pub(super) fn is(self, expected: f64) -> bool {
        (self.value - expected).abs() <= self.half * 1.01 + expected.abs() * 1e-9
    }
}

/// Asserts that a text has these figures, in this order, and no others.
#[track_caller]
pub(super) fn shows(text: &str, expected: &[f64], what: &str) {
    let found = figures(text);
    assert_eq!(found.len(), expected.len(), "{what}: {text:?} shows {found:?}, not {expected:?}");
    for (written, figure) in found.iter().zip(expected) {
        assert!(written.is(*figure), "{what}: {text:?} shows {written:?}, and it is {figure}");
    }
}

#[test]
fn figures_are_read_with_their_units_and_as_exactly_as_they_are_written() {
    let value = |text: &str| figures(text).iter().map(|written| written.value).collect::<Vec<_>>();
    assert_eq!(value("≈\u{202f}−7\u{202f}%"), [-0.07]);
    assert_eq!(value("44.1k IOPS"), [44_100.0]);
    assert_eq!(value("22\u{202f}700 MB/s"), [22_700.0]);
    assert_eq!(value("1.20 ms, 33 µs"), [1200.0, 33.0]);
    assert_eq!(value("3.30 ±0.50 s"), [3.3, 500_000.0]);
    assert_eq!(value("+5\u{202f}% → −37\u{202f}%"), [0.05, -0.37]);
    let [one] = figures("44.1k IOPS")[..] else { panic!() };
    assert!(one.is(44_149.0) && !one.is(44_160.0) && one.is(44_051.0));
    let [all] = figures("22\u{202f}700 MB/s")[..] else { panic!() };
    assert!(all.is(22_727.6) && !all.is(22_760.0));
}
