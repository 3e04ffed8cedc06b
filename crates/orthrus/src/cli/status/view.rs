//! The text of `orthrus status`: the difference of two reports.

use super::warnings::warnings;
use crate::cli::table::table;
use crate::requests::{FlavorStatus, StatusReport};
use std::collections::BTreeMap;
use std::fmt;

/// Rows of the operations, and of the statuses of failed ones.
const ROWS_MAX: usize = 8;

/// A server in the time between two reports.
pub(super) struct StatusView<'a> {
    before: &'a StatusReport,
    now: &'a StatusReport,
    /// The time in seconds.
    seconds: f64,
}

impl<'a> StatusView<'a> {
    /// Compares two reports. If the server has started again in between, rates are those since its
    /// start.
    pub(super) fn between(before: &'a StatusReport, now: &'a StatusReport) -> Self {
        let seconds = now.uptime - before.uptime;
        let seconds = if seconds > 0.0 { seconds } else { now.uptime };
        Self { before, now, seconds: seconds.max(0.001) }
    }

    /// Returns the growth of a counter for each second.
    fn rate(&self, before: u64, now: u64) -> f64 {
        now.checked_sub(before).unwrap_or(now) as f64 / self.seconds
    }

    fn head(&self) -> String {
        let state = match self.now.state.as_str() {
            "grace" => "in the grace period, so new opens wait for its end",
            "draining" => "draining: no new clients are served",
            other => other,
        };
        let held = |name: &str, what: &str| {
            let count = self.now.held.get(name).copied().unwrap_or_default();
            format!("{count} {what}{}", if count == 1 { "" } else { "s" })
        };
        let held = [
            held("exports", "export"),
            held("clients", "client"),
            held("connections", "connection"),
            held("contexts", "Kerberos context"),
            held("opens", "open"),
        ];
        let (version, up) = (&self.now.version, duration(self.now.uptime));
        format!("orthrus {version}, up {up}, {state}\n{}\n", held.join(", "))
    }

    fn load(&self) -> String {
        let cores = match (self.before.processor, self.now.processor) {
            (Some(before), Some(now)) if now >= before => {
                format!("{:.2} cores", (now - before) / self.seconds)
            }
            _ => "unknown".to_owned(),
        };
        let memory = self.now.resident.map_or("unknown".to_owned(), |bytes| format!("{} MiB", bytes >> 20));
        let megabytes = |before, now| self.rate(before, now) / 1e6;
        format!(
            "processor {cores}, memory {memory}, network {:.1} MB/s in, {:.1} MB/s out\n",
            megabytes(self.before.received, self.now.received),
            megabytes(self.before.sent, self.now.sent),
        )
    }

    fn flavors(&self) -> String {
        let head =
            ["FLAVOR", "REQUESTS/S", "TIME US", "PROTECTION US", "WAITING US"].map(str::to_owned).to_vec();
        let none = FlavorStatus::default();
        let rows = self.now.flavors.iter().filter(|flavor| flavor.requests > 0).map(|now| {
            let before = self.before.flavors.iter().find(|flavor| flavor.name == now.name).unwrap_or(&none);
            self.flavor(before, now)
        });
        match table(std::iter::once(head).chain(rows)) {
            head if head.lines().count() < 2 => "no requests yet\n".to_owned(),
            table => table,
        }
    }

    fn flavor(&self, before: &FlavorStatus, now: &FlavorStatus) -> Vec<String> {
        let requests = self.rate(before.requests, now.requests);
        let each = |stages: &[&str]| {
            let of = |flavor: &FlavorStatus| -> f64 {
                stages.iter().filter_map(|stage| flavor.stages.get(*stage)).sum()
            };
            let (before, now) = (of(before), of(now));
            1e6 * (if now >= before { now - before } else { now }) / self.seconds / requests
        };
        let cell = |value: f64| if requests > 0.0 { format!("{value:.1}") } else { "-".to_owned() };
        let (time, protection) = (each(&["unwrap", "execute", "wrap", "send"]), each(&["unwrap", "wrap"]));
        let share = match requests > 0.0 && time > 0.0 && protection > 0.0 {
            true => format!("{protection:.1} ({:.0} %)", 100.0 * protection / time),
            false => "-".to_owned(),
        };
        vec![now.name.clone(), format!("{requests:.0}"), cell(time), share, cell(each(&["queue"]))]
    }

    /// Returns the counters that grow fastest, with their rates.
    fn busiest(&self, title: &str, before: &BTreeMap<String, u64>, now: &BTreeMap<String, u64>) -> String {
        let rate = |(name, now): (&String, &u64)| {
            (name.clone(), self.rate(before.get(name).copied().unwrap_or_default(), *now))
        };
        let mut rates: Vec<_> = now.iter().map(rate).filter(|(_, rate)| *rate > 0.0).collect();
        rates.sort_by(|one, other| other.1.total_cmp(&one.1));
        if rates.is_empty() {
            return String::new();
        }
        let head = vec![title.to_owned(), "PER SECOND".to_owned()];
        let rows = rates.into_iter().take(ROWS_MAX).map(|(name, rate)| vec![name, format!("{rate:.0}")]);
        format!("\n{}", table(std::iter::once(head).chain(rows)))
    }
}

impl fmt::Display for StatusView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}\n{}", self.head(), self.load(), self.flavors())?;
        f.write_str(&self.busiest("OPERATION", &self.before.operations, &self.now.operations))?;
        f.write_str(&self.busiest("FAILED WITH", &self.before.failures, &self.now.failures))?;
        let warnings = warnings(self.now);
        if !warnings.is_empty() {
            f.write_str("\nsince the start:\n")?;
        }
        warnings.iter().try_for_each(|line| writeln!(f, "  {line}"))
    }
}

/// Formats a time in its two largest units.
fn duration(seconds: f64) -> String {
    let seconds = seconds as u64;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (1.., ..) => format!("{days} d {hours} h"),
        (0, 1.., _) => format!("{hours} h {minutes} min"),
        _ => format!("{minutes} min {} s", seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(uptime: f64, requests: u64, microseconds: f64) -> StatusReport {
        let stages = [("queue", 1.0), ("unwrap", 2.0), ("execute", 4.0), ("wrap", 3.0), ("send", 1.0)];
        let stages = stages.map(|(stage, part)| (stage.to_owned(), part * microseconds / 1e6));
        StatusReport {
            version: "1.2.3".to_owned(),
            state: "serving".to_owned(),
            uptime,
            flavors: vec![FlavorStatus { name: "krb5p".to_owned(), requests, stages: stages.into() }],
            operations: [("READ".to_owned(), requests), ("CLOSE".to_owned(), requests / 2)].into(),
            received: requests * 1_000_000,
            ..StatusReport::default()
        }
    }

    #[test]
    fn rates_and_times_are_those_between_the_reports() {
        let (before, now) = (report(100.0, 1_000, 0.0), report(102.0, 3_000, 2_000.0));
        let text = StatusView::between(&before, &now).to_string();
        assert!(text.starts_with("orthrus 1.2.3, up 1 min 42 s, serving\n"), "{text}");
        assert!(text.contains("network 1000.0 MB/s in, 0.0 MB/s out"), "{text}");
        assert!(text.contains("krb5p   1000        10.0     5.0 (50 %)     1.0"), "{text}");
        assert!(text.find("READ       1000") < text.find("CLOSE      500"), "{text}");
        assert!(!text.contains("since the start"), "{text}");
    }

    #[test]
    fn a_server_that_started_again_or_does_nothing_has_no_absurd_rates() {
        let (before, now) = (report(100.0, 1_000, 5_000.0), report(2.0, 10, 10.0));
        let text = StatusView::between(&before, &now).to_string();
        assert!(text.contains("krb5p   5           10.0"), "{text}");
        let idle = StatusView::between(&now, &now).to_string();
        assert!(idle.contains("krb5p   0           -"), "{idle}");
    }

    #[test]
    fn counters_that_should_be_zero_are_warnings_with_remedies() {
        let mut now = report(10.0, 0, 0.0);
        now.events.insert("contexts_refused".to_owned(), 3);
        now.refusals.extend([("sec".to_owned(), 5), ("clients".to_owned(), 2)]);
        let text = StatusView::between(&now, &now).to_string();
        assert!(text.contains("  3 Kerberos contexts were refused: the log has the reasons"), "{text}");
        assert!(text.contains("  2 requests were refused by the rules of exports"), "{text}");
    }

    #[test]
    fn times_have_two_units() {
        assert_eq!(duration(59.9), "0 min 59 s");
        assert_eq!(duration(3_660.0), "1 h 1 min");
        assert_eq!(duration(90_000.0), "1 d 1 h");
    }
}
