//! The warnings of a status: counters that should be zero, with their remedies.

use super::StatusReport;
use std::fmt;

/// Events that deserve a look: the name of the counter, the meaning, and the remedy.
const EVENTS: [(&str, &str, &str); 9] = [
    ("slow_calls", "calls took a second or longer", "the log names operation, user, export and stage"),
    (
        "stalls",
        "loops of a thread took a second or longer",
        "the log names the call; look at the file system",
    ),
    ("panics", "defects of the server closed connections", "report the message of the log to the project"),
    (
        "contexts_refused",
        "Kerberos contexts were refused",
        "the log has the reasons; orthrus doctor --server",
    ),
    ("contexts_delayed", "Kerberos contexts waited for the directory", "look at the directory of users"),
    ("mic_failures", "calls had a wrong signature", "look for a device that alters packets, or an attacker"),
    ("body_failures", "calls had a wrong body", "look for a device that alters packets, or an attacker"),
    ("log_lines_dropped", "lines of the log were dropped", "look at the reader of standard error"),
    (
        "audit_lines_dropped",
        "lines of the audit log were dropped",
        "look at the disk of its file, or its reader",
    ),
];

/// A counter that should be zero, with its remedy.
pub(crate) struct Warning {
    /// The number and its meaning.
    pub(crate) fact: String,
    pub(crate) remedy: &'static str,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.fact, self.remedy)
    }
}

/// Returns the counters that are not zero.
pub(crate) fn warnings(report: &StatusReport) -> Vec<Warning> {
    let count = |event: &str| report.events.get(event).copied().unwrap_or_default();
    let events = EVENTS.iter().map(|(event, what, remedy)| (count(event), *what, *remedy));
    let held = |name: &str| report.held.get(name).copied().unwrap_or_default();
    let refused = report.refusals.iter().filter(|(rule, _)| *rule != "sec").map(|(_, count)| count).sum();
    let late = report.lookups.values().sum();
    let others = [
        (
            report.file_system_errors,
            "errors of exported file systems",
            "the log names the export; df and dmesg",
        ),
        (refused, "requests were refused by the rules of exports", "the log says who, where and why"),
        (late, "lookups of users had no answer in time", "look at the directory of users"),
        (held("contexts_expiring"), "tickets expire within an hour", "users renew them with kinit"),
    ];
    let lines = events.chain(others).filter(|(count, ..)| *count > 0);
    lines.map(|(count, what, remedy)| Warning { fact: format!("{count} {what}"), remedy }).collect()
}
