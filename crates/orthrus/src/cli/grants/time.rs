//! Durations as schedulers write them, and times for tables.

use std::time::{SystemTime, UNIX_EPOCH};

/// Parses a time limit of Slurm or PBS: minutes, `M:S`, `H:M:S`, `D-H`, `D-H:M`, `D-H:M:S`; or a
/// number with a unit, such as `90s`, `36h` or `7d`. Returns seconds.
///
/// # Errors
/// Lists the allowed forms.
pub(super) fn parse_duration(text: &str) -> Result<u64, String> {
    duration(text).filter(|seconds| *seconds > 0).ok_or_else(|| {
        format!("{text:?} is no time: write MINUTES, H:M:S, D-H:M:S, or a number with s, m, h or d")
    })
}

fn duration(text: &str) -> Option<u64> {
    for (unit, seconds) in [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400)] {
        if let Some(number) = text.strip_suffix(unit) {
            return number.parse::<u64>().ok()?.checked_mul(seconds);
        }
    }
    let (days, rest) = text.split_once('-').map_or((None, text), |(days, rest)| (Some(days), rest));
    let parts: Vec<u64> = rest.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    // With days the first part is hours; without, the last one is seconds, and one alone is
    // minutes.
    let seconds = match (days.is_some(), parts.as_slice()) {
        (true, [h]) => h.checked_mul(3600)?,
        (true, [h, m]) => h.checked_mul(3600)?.checked_add(m.checked_mul(60)?)?,
        (false, [m]) => m.checked_mul(60)?,
        (false, [m, s]) => m.checked_mul(60)?.checked_add(*s)?,
        (_, [h, m, s]) => h.checked_mul(3600)?.checked_add(m.checked_mul(60)?)?.checked_add(*s)?,
        _ => return None,
    };
    days.map_or(Some(0), |days| days.parse::<u64>().ok())?.checked_mul(86_400)?.checked_add(seconds)
}

/// Returns the time in seconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Formats seconds since 1970 as `2026-11-23 16:00:00Z` (days from a civil date, proleptic
/// Gregorian).
pub(super) fn utc(seconds: u64) -> String {
    let (mut days, rest) = (seconds / 86_400, seconds % 86_400);
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) && year < 9999 {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (day, hour, minute, second) = (days + 1, rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_limits_of_schedulers_are_understood() {
        for (text, seconds) in [
            ("30", 1800),
            ("5:30", 330),
            ("02:00:00", 7200),
            ("1-0", 86_400),
            ("1-12:30", 131_400),
            ("2-00:00:01", 172_801),
            ("90s", 90),
            ("36h", 129_600),
            ("7d", 604_800),
        ] {
            assert_eq!(parse_duration(text), Ok(seconds), "{text}");
        }
        for wrong in [
            "",
            "0",
            "x",
            "1:2:3:4",
            "-1",
            "1-",
            "UNLIMITED",
            "99999999999999999999d",
            "18446744073709551615d",
        ] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_are_written_in_utc() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00Z"),
            (951_782_400, "2000-02-29 00:00:00Z"),
            (1_795_449_403, "2026-11-23 15:56:43Z"),
            (4_107_542_399, "2100-02-28 23:59:59Z"),
            (4_107_542_400, "2100-03-01 00:00:00Z"),
            (1_798_761_599, "2026-12-31 23:59:59Z"),
        ] {
            assert_eq!(utc(seconds), text);
        }
    }
}
