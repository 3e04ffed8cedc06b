//! The status as text, for pipes and `--once`.

use super::rates::{FlavorRates, StatusRates, duration};
use crate::api::ClusterReport;
use crate::cli::table::table;
use std::fmt;

/// Rows of the operations, of the statuses of failed ones, and of the clients.
const ROWS: usize = 8;

/// The text of a status.
pub(super) struct StatusText<'a>(pub(super) &'a StatusRates<'a>);

impl fmt::Display for StatusText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rates = self.0;
        write!(f, "{}\n{}", about(rates), flavors(rates))?;
        f.write_str(&counters("OPERATION", &rates.operations()))?;
        f.write_str(&counters("FAILED WITH", &rates.failures()))?;
        f.write_str(&clients(rates))?;
        let warnings = rates.warnings();
        if !warnings.is_empty() {
            f.write_str("\nsince the start:\n")?;
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
    let (version, up) = (&rates.now.version, duration(rates.now.uptime));
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
    let head = ["FLAVOR", "REQUESTS/S", "TIME US", "PROTECTION US", "WAITING US"].map(str::to_owned).to_vec();
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
    vec![flavor.name.clone(), requests, cell(flavor.time), share, cell(flavor.waiting)]
}

fn counters(title: &str, rates: &[(&str, f64)]) -> String {
    if rates.is_empty() {
        return String::new();
    }
    let head = vec![title.to_owned(), "PER SECOND".to_owned()];
    let rows = rates.iter().take(ROWS).map(|(name, rate)| vec![(*name).to_owned(), format!("{rate:.0}")]);
    format!("\n{}", table(std::iter::once(head).chain(rows)))
}

fn clients(rates: &StatusRates<'_>) -> String {
    let clients = rates.clients();
    if clients.is_empty() {
        return String::new();
    }
    let head = ["CLIENT", "PRINCIPAL", "REQUESTS/S", "OPENS", "LOCKS", "DELEGATIONS", "SILENT"];
    let row = |(row, rate): &(&crate::api::ClientRow, f64)| {
        vec![
            row.address.clone(),
            row.principal.clone(),
            format!("{rate:.0}"),
            row.opens.to_string(),
            row.locks.to_string(),
            row.delegations.to_string(),
            format!("{} s", row.silent),
        ]
    };
    let rows = std::iter::once(head.map(str::to_owned).to_vec()).chain(clients.iter().take(ROWS).map(row));
    format!("\n{}", table(rows))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::api::{ClientRow, ClusterMember, FlavorStatus, StatusReport};

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
        assert!(text.contains("krb5p   1000        10.0     5.0 (50 %)     1.0"), "{text}");
        assert!(text.find("READ       1000") < text.find("CLOSE      500"), "{text}");
        let busy = text.find("10.0.0.2  host/node@R  1000        2");
        assert!(busy.is_some() && busy < text.find("10.0.0.1  host/node@R  0 "), "{text}");
        assert!(!text.contains("since the start"), "{text}");
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
    fn counters_that_should_be_zero_are_warnings_with_remedies() {
        let mut now = report(10.0, 0, 0.0);
        now.events.insert("contexts_refused".to_owned(), 3);
        now.refusals.extend([("sec".to_owned(), 5), ("clients".to_owned(), 2)]);
        let text = text(&now, &now);
        assert!(text.contains("  3 Kerberos contexts were refused: the log has the reasons"), "{text}");
        assert!(text.contains("  2 requests were refused by the rules of exports"), "{text}");
    }
}
