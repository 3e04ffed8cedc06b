//! The warnings of a status: facts that deserve a look, with their remedies.

use super::StatusReport;
use std::collections::BTreeMap;
use std::fmt;

/// The name of the counter of refused requests, which has no single one in a report.
const REFUSALS: &str = "refusals";
/// The same of lookups without an answer in time.
const LOOKUPS: &str = "lookups";
/// The same of errors of exported file systems.
const ERRORS: &str = "file_system_errors";

/// Events that deserve a look: the name of the counter, the meaning, and the remedy.
const EVENTS: [(&str, &str, &str); 14] = [
    ("slow_calls", "calls took a second or longer", "the log names operation, user, export and stage"),
    (
        "stalls",
        "loops of a thread took a second or longer",
        "the log names the call; look at the file system",
    ),
    ("refused", "connections were refused", "the log has the reason; look at connections_max"),
    (
        "evicted",
        "connections were closed to make room",
        "the log names the addresses; look at connections_max and input_bytes_max",
    ),
    ("panics", "defects of the server closed connections", "report the message of the log to the project"),
    (
        "contexts_refused",
        "Kerberos contexts were refused",
        "the log has the reasons; orthrus doctor --server",
    ),
    (
        "contexts_delayed",
        "Kerberos contexts waited for the directory, or for descriptors",
        "the log has the reasons; look at the directory of users, or at `ulimit -n`",
    ),
    ("mic_failures", "calls had a wrong signature", "look for a device that alters packets, or an attacker"),
    ("body_failures", "calls had a wrong body", "look for a device that alters packets, or an attacker"),
    ("log_lines_dropped", "lines of the log were dropped", "look at the reader of standard error"),
    (
        "audit_lines_dropped",
        "lines of the audit log were dropped",
        "look at the disk of its file, or its reader",
    ),
    (ERRORS, "errors of exported file systems", "the log names the export; df and dmesg"),
    (REFUSALS, "requests were refused by rules or limits", "the log names user, export and rule"),
    (LOOKUPS, "lookups of users had no answer in time", "look at the directory of users"),
];

/// A fact that deserves a look, with its remedy.
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

/// Returns the counters that should not grow, by name, from the other counters of a report.
pub(crate) fn watched(report: &StatusReport) -> BTreeMap<String, u64> {
    // Clients find the flavor by trying, and users mistype owners.
    let is_expected = |rule: &str| ["sec", "owner"].contains(&rule);
    let refused = report.refusals.iter().filter(|(rule, _)| !is_expected(rule)).map(|(_, count)| count).sum();
    // A stale answer stands in for a lookup that has failed or is late.
    let lookups =
        report.lookups.iter().filter(|(outcome, _)| *outcome != "stale").map(|(_, count)| count).sum();
    let others = [(ERRORS, report.file_system_errors), (REFUSALS, refused), (LOOKUPS, lookups)];
    let events = EVENTS.iter().filter_map(|(name, ..)| Some((*name, *report.events.get(*name)?)));
    events.chain(others).map(|(name, count)| (name.to_owned(), count)).collect()
}

/// Returns the warnings of a report: events of the last hour, and facts of now.
pub(crate) fn warnings(report: &StatusReport) -> Vec<Warning> {
    let recent = EVENTS.iter().filter_map(|(name, what, remedy)| {
        let count = report.recent.get(*name).filter(|count| **count > 0)?;
        Some(Warning { fact: format!("{count} {what} in the last hour"), remedy })
    });
    let silent = report.cluster.as_ref().filter(|_| report.state == "silent").map(|cluster| Warning {
        fact: format!("no client is answered: no contact to the cluster for {:.0} s", cluster.contact),
        remedy: "look at the cluster of Ceph: ceph -s",
    });
    let records = report.records_incomplete.then(|| Warning {
        fact: "records of clients cannot be written, so these lose their locks at a restart".to_owned(),
        remedy: "df of the state directory; the log has the error",
    });
    let keytab = report.keytab_failure.as_ref().map(|cause| Warning {
        fact: format!("a restart would fail, and the previous keys stay in use until then ({cause})"),
        remedy: "correct the keytab: orthrus serve --check",
    });
    let expiring = report.held.get("contexts_expiring").filter(|count| **count > 0).map(|count| Warning {
        fact: format!("{count} tickets expire within an hour"),
        remedy: "users renew them with kinit",
    });
    let reload = report.reload.as_ref();
    let failed = reload.and_then(|reload| reload.failed.as_ref()).map(|reason| Warning {
        fact: format!("the last reload failed ({reason})"),
        remedy: "correct the file and reload",
    });
    let waiting = reload.filter(|reload| !reload.at_restart.is_empty()).map(|reload| Warning {
        fact: format!("the file has changes that need a restart ({})", reload.at_restart.join(", ")),
        remedy: "restart or upgrade the server",
    });
    let facts = silent.into_iter().chain(records).chain(keytab).chain(recent);
    facts.chain(expiring).chain(failed).chain(waiting).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{ClusterReport, ReloadStatus};

    #[test]
    fn a_stale_answer_and_a_refused_flavor_do_not_count() {
        let counts =
            |counts: &[(&str, u64)]| counts.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
        let report = StatusReport {
            events: counts(&[("panics", 1), ("accepted", 9)]),
            refusals: counts(&[("sec", 5), ("owner", 3), ("clients", 2)]),
            lookups: counts(&[("failed", 1), ("late", 2), ("stale", 3)]),
            ..StatusReport::default()
        };
        let expected = counts(&[("panics", 1), (REFUSALS, 2), (LOOKUPS, 3), (ERRORS, 0)]);
        assert_eq!(watched(&report), expected);
        assert!(warnings(&report).is_empty(), "none is of the last hour");
    }

    #[test]
    fn a_member_without_contact_to_its_cluster_is_the_first_warning() {
        let cluster = Some(ClusterReport { contact: 31.4, ..ClusterReport::default() });
        let recent = [("stalls".to_owned(), 2)].into();
        let mut report = StatusReport { cluster, recent, ..StatusReport::default() };
        assert_eq!(warnings(&report).len(), 1);
        report.state = "silent".to_owned();
        let said = warnings(&report)[0].to_string();
        assert!(said.contains("no contact to the cluster for 31 s") && said.contains("ceph -s"), "{said}");
    }

    #[test]
    fn records_that_cannot_be_written_are_a_warning() {
        let report = StatusReport { records_incomplete: true, ..StatusReport::default() };
        let said: Vec<_> = warnings(&report).iter().map(ToString::to_string).collect();
        assert!(said[0].contains("lose their locks at a restart: df of the state directory"), "{said:?}");
    }

    #[test]
    fn a_keytab_that_is_of_no_use_is_a_warning() {
        let keytab_failure = Some("keytab /k: no regular file".to_owned());
        let said = warnings(&StatusReport { keytab_failure, ..StatusReport::default() })[0].to_string();
        assert!(said.contains("a restart would fail") && said.contains("/k: no regular file"), "{said}");
    }

    #[test]
    fn connections_that_found_no_place_are_warnings() {
        let recent = [("refused".to_owned(), 50), ("evicted".to_owned(), 3)].into();
        let report = StatusReport { recent, ..StatusReport::default() };
        let said: Vec<_> = warnings(&report).iter().map(ToString::to_string).collect();
        assert!(said[0].starts_with("50 connections were refused"), "{said:?}");
        assert!(said[1].contains("3 connections were closed to make room"), "{said:?}");
    }

    #[test]
    fn a_failed_reload_and_keys_that_wait_for_a_restart_are_warnings() {
        let (failed, at_restart) = (Some("line 3".to_owned()), vec!["listen".to_owned(), "web".to_owned()]);
        let report =
            StatusReport { reload: Some(ReloadStatus { failed, at_restart }), ..StatusReport::default() };
        let said: Vec<_> = warnings(&report).iter().map(ToString::to_string).collect();
        assert!(said[0].contains("failed (line 3)") && said[1].contains("(listen, web)"), "{said:?}");
    }
}
