//! The status as text, for pipes and `--once`.

use super::rates::{FlavorRates, NamedRates, StatusRates};
use crate::api::{ClientRow, ClusterReport};
use crate::cli::table::{duration, table};
use std::fmt;

/// Rows of each table but that of the flavors.
const ROWS: usize = 8;

pub(super) const FLAVOR_TITLES: [&str; 7] =
    ["FLAVOR", "REQUESTS/S", "TIME US", "PROTECTION US", "WAITING US", "MEDIAN", "P99"];
pub(super) const OPERATION_TITLES: [&str; 4] = ["OPERATION", "PER SECOND", "MEDIAN", "P99"];
pub(super) const EXPORT_TITLES: [&str; 4] = ["EXPORT", "REQUESTS/S", "MB/S IN", "MB/S OUT"];
pub(super) const FILE_TITLES: [&str; 2] = ["FILE", "REQUESTS/S"];
pub(super) const CLIENT_TITLES: [&str; 7] =
    ["CLIENT", "PRINCIPAL", "REQUESTS/S", "OPENS", "LOCKS", "DELEGATIONS", "SILENT"];

/// The text of a status.
pub(super) struct StatusText<'a>(pub(super) &'a StatusRates<'a>);

impl fmt::Display for StatusText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rates = self.0;
        write!(f, "{}\n{}", about(rates), flavors(rates))?;
        f.write_str(&section(&OPERATION_TITLES, rates.operations().iter().map(operation_cells)))?;
        f.write_str(&section(&["FAILED WITH", "PER SECOND"], rates.failures().iter().map(failure_cells)))?;
        f.write_str(&section(&EXPORT_TITLES, rates.exports().iter().map(export_cells)))?;
        f.write_str(&section(&FILE_TITLES, rates.files().iter().map(file_cells)))?;
        f.write_str(&section(&CLIENT_TITLES, rates.clients().iter().map(client_cells)))?;
        let warnings = rates.warnings();
        if !warnings.is_empty() {
            f.write_str("\nwarnings:\n")?;
        }
        warnings.iter().try_for_each(|warning| writeln!(f, "  {warning}"))
    }
}

/// Returns the lines about the server as a whole.
pub(super) fn about(rates: &StatusRates<'_>) -> String {
    let cluster = rates.now.cluster.as_ref().map(cluster);
    let lines = std::iter::once(head(rates)).chain(cluster).chain([held(rates), load(rates)]);
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns version, time since the start, and state.
fn head(rates: &StatusRates<'_>) -> String {
    let (version, up) = (&rates.now.version, duration(rates.now.uptime as u64));
    format!("orthrus {version}, up {up}, {}", rates.state())
}

/// Returns the membership in a cluster of gateways.
fn cluster(cluster: &ClusterReport) -> String {
    let ClusterReport { node, epoch, clients, contact, .. } = cluster;
    let gateways = cluster.members.len();
    let mut text = format!(
        "{node} of {gateways} gateways, epoch {epoch}, {clients} clients on record, last contact {contact:.0} s ago"
    );
    if cluster.enforcing {
        text += ", refuses new opens and locks";
    }
    if !cluster.waits.is_empty() {
        text += &format!(", waits {}", cluster.waits);
    }
    text
}

/// Returns the numbers of objects.
fn held(rates: &StatusRates<'_>) -> String {
    let held = |name: &str, what: &str| {
        let count = rates.held(name);
        format!("{count} {what}{}", if count == 1 { "" } else { "s" })
    };
    let mut parts = vec![
        held("exports", "export"),
        held("clients", "client"),
        held("connections", "connection"),
        held("contexts", "Kerberos context"),
        held("opens", "open"),
        held("locks", "lock"),
        held("delegations", "delegation"),
    ];
    if rates.held("delegations_recalled") > 0 {
        parts.push(format!("{} of them recalled", rates.held("delegations_recalled")));
    }
    parts.join(", ")
}

/// Returns processor, memory and network, and the cost of protection.
fn load(rates: &StatusRates<'_>) -> String {
    let cores = rates.cores().map_or("unknown".to_owned(), |cores| format!("{cores:.2} cores"));
    let memory = rates.now.resident.map_or("unknown".to_owned(), |bytes| format!("{} MiB", bytes >> 20));
    let (received, sent) = rates.network();
    let protection = rates.protection().map_or("none".to_owned(), |cost| {
        format!("{:.2} cores, {:.0} % of the threads' time", cost.cores, 100.0 * cost.share)
    });
    format!(
        "processor {cores}, memory {memory}, network {received:.1} MB/s in, {sent:.1} MB/s out\n\
         signing and encryption {protection}"
    )
}

fn flavors(rates: &StatusRates<'_>) -> String {
    let head = FLAVOR_TITLES.map(str::to_owned).to_vec();
    let flavors = rates.flavors();
    match flavors.is_empty() {
        true => "no requests yet\n".to_owned(),
        false => table(std::iter::once(head).chain(flavors.iter().map(flavor_cells))),
    }
}

/// Returns the columns of a flavor.
pub(super) fn flavor_cells(flavor: &FlavorRates) -> Vec<String> {
    let cell = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
    let share = match (flavor.protection, flavor.time) {
        (Some(protection), Some(time)) => format!("{protection:.1} ({:.0} %)", 100.0 * protection / time),
        _ => "-".to_owned(),
    };
    let requests = format!("{:.0}", flavor.requests);
    let (median, p99) = (time(flavor.latency.median), time(flavor.latency.p99));
    vec![flavor.name.clone(), requests, cell(flavor.time), share, cell(flavor.waiting), median, p99]
}

/// Formats a latency in its unit.
fn time(seconds: Option<f64>) -> String {
    match seconds {
        None => "-".to_owned(),
        Some(seconds) if seconds < 0.001 => format!("{:.0} us", seconds * 1e6),
        Some(seconds) if seconds < 1.0 => format!("{:.0} ms", seconds * 1e3),
        Some(seconds) => format!("{seconds:.0} s"),
    }
}

/// Returns the columns of an operation.
pub(super) fn operation_cells(named: &NamedRates<'_>) -> Vec<String> {
    let (median, p99) = (time(named.latency.median), time(named.latency.p99));
    vec![named.name.to_owned(), format!("{:.0}", named.rate), median, p99]
}

/// Returns the columns of a status of failed operations.
pub(super) fn failure_cells((status, rate): &(&str, f64)) -> Vec<String> {
    vec![(*status).to_owned(), format!("{rate:.0}")]
}

/// Returns the columns of an export.
pub(super) fn export_cells(named: &NamedRates<'_>) -> Vec<String> {
    let (received, sent) = named.megabytes;
    vec![named.name.to_owned(), format!("{:.0}", named.rate), format!("{received:.1}"), format!("{sent:.1}")]
}

/// Returns the columns of a file.
pub(super) fn file_cells(named: &NamedRates<'_>) -> Vec<String> {
    vec![named.name.to_owned(), format!("about {:.0}", named.rate)]
}

/// Returns the columns of a client.
pub(super) fn client_cells((row, rate): &(&ClientRow, f64)) -> Vec<String> {
    vec![
        row.address.clone(),
        row.principal.clone(),
        // Requests of NFSv4.0 belong to no session, which would count them.
        if row.version == "4.0" { "-".to_owned() } else { format!("{rate:.0}") },
        row.opens.to_string(),
        row.locks.to_string(),
        row.delegations.to_string(),
        duration(row.silent),
    ]
}

/// Returns a table of at most [`ROWS`] rows behind an empty line; nothing without rows.
fn section(titles: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut rows = rows.take(ROWS).peekable();
    if rows.peek().is_none() {
        return String::new();
    }
    let head = titles.iter().map(|title| (*title).to_owned()).collect();
    format!("\n{}", table(std::iter::once(head).chain(rows)))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::api::{ClusterMember, ExportStatus, FileStatus, FlavorStatus, StatusReport};

    fn client(id: &str, requests: u64) -> ClientRow {
        ClientRow {
            id: id.to_owned(),
            address: format!("10.0.0.{id}"),
            principal: "host/node@R".to_owned(),
            version: "4.1+".to_owned(),
            owner: String::new(),
            sessions: 1,
            requests,
            opens: 2,
            locks: 0,
            delegations: 1,
            silent: 0,
            state: "active".to_owned(),
        }
    }

    pub(in crate::cli::status) fn report(uptime: f64, requests: u64, microseconds: f64) -> StatusReport {
        let stages = [("queue", 1.0), ("unwrap", 2.0), ("execute", 4.0), ("wrap", 3.0), ("send", 1.0)];
        let stages = stages.map(|(stage, part)| (stage.to_owned(), part * microseconds / 1e6));
        StatusReport {
            version: "1.2.3".to_owned(),
            state: "serving".to_owned(),
            uptime,
            flavors: vec![FlavorStatus { name: "krb5p".to_owned(), requests, stages: stages.into() }],
            operations: [("READ".to_owned(), requests), ("CLOSE".to_owned(), requests / 2)].into(),
            clients: vec![client("1", 7), client("2", requests)],
            exports: vec![ExportStatus { export: "/data".to_owned(), requests, received: 0, sent: requests }],
            files: vec![FileStatus {
                export: "/data".to_owned(),
                file: "/srv/data/busy".to_owned(),
                samples: requests / 61,
            }],
            sampled_one_in: 61,
            latency_bounds: vec![0.000_02, 0.005, 5.0],
            latency_by_operation: [("READ".to_owned(), vec![requests / 2 + 1, requests / 2, 0, 0])].into(),
            latency_by_flavor: [("krb5p".to_owned(), vec![0, requests, 0, requests])].into(),
            received: requests * 1_000_000,
            ..StatusReport::default()
        }
    }

    fn text(before: &StatusReport, now: &StatusReport) -> String {
        StatusText(&StatusRates::between(before, now)).to_string()
    }

    #[test]
    fn rates_and_times_are_those_between_the_reports() {
        let text = text(&report(100.0, 1_000, 0.0), &report(102.0, 3_000, 2_000.0));
        assert!(text.starts_with("orthrus 1.2.3, up 1 min 42 s, serving\n"), "{text}");
        assert!(text.contains("network 1000.0 MB/s in, 0.0 MB/s out"), "{text}");
        assert!(text.contains("encryption 0.01 cores, 50 % of the threads' time\n"), "{text}");
        assert!(
            text.contains("krb5p   1000        10.0     5.0 (50 %)     1.0         5 ms    5 s"),
            "{text}"
        );
        assert!(text.contains("READ       1000        20 us   5 ms"), "{text}");
        assert!(text.find("READ ") < text.find("CLOSE      500         -       -"), "{text}");
        assert!(text.contains("/data   1000        0.0      0.0"), "{text}");
        assert!(text.contains("/srv/data/busy  about 1006"), "{text}");
        let busy = text.find("10.0.0.2  host/node@R  1000        2");
        assert!(busy.is_some() && busy < text.find("10.0.0.1  host/node@R  0 "), "{text}");
        assert!(!text.contains("warnings:"), "{text}");
    }

    #[test]
    fn a_server_that_started_again_or_does_nothing_has_no_absurd_rates() {
        let (before, now) = (report(100.0, 1_000, 5_000.0), report(2.0, 10, 10.0));
        let restarted = text(&before, &now);
        assert!(restarted.contains("krb5p   5           10.0"), "{restarted}");
        let idle = text(&now, &now);
        assert!(idle.contains("krb5p   0           -") && idle.contains("encryption none"), "{idle}");
    }

    #[test]
    fn a_member_of_a_cluster_says_what_it_waits_for() {
        let mut now = report(10.0, 0, 0.0);
        now.cluster = Some(ClusterReport {
            node: "gw1".to_owned(),
            epoch: 7,
            enforcing: true,
            waits: "for clients of gw2 to reclaim".to_owned(),
            members: vec![ClusterMember::default(), ClusterMember::default()],
            ..ClusterReport::default()
        });
        let text = text(&now, &now);
        let line = text.lines().nth(1).unwrap();
        assert!(line.starts_with("gw1 of 2 gateways, epoch 7, 0 clients"), "{text}");
        assert!(line.ends_with("refuses new opens and locks, waits for clients of gw2 to reclaim"), "{text}");
    }

    #[test]
    fn events_of_the_last_hour_are_warnings_with_remedies() {
        let mut now = report(10.0, 0, 0.0);
        now.recent.extend([("contexts_refused".to_owned(), 3), ("refusals".to_owned(), 2)]);
        let text = text(&now, &now);
        assert!(
            text.contains("  3 Kerberos contexts were refused in the last hour: the log has the reasons"),
            "{text}"
        );
        assert!(text.contains("  2 requests were refused by rules or limits"), "{text}");
    }
}
