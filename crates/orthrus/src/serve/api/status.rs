//! Answers `orthrus status` from the counters of the server.

use super::ApiParts;
use super::listings::client_row;
use crate::api::{ClientRow, FlavorStatus, StatusReport};
use crate::serve::metrics;
use crate::serve::process::{processor_time, resident_bytes};
use net::Stats;
use runtime::NfsService;
use server::metrics::{Kind, Stage};
use std::collections::BTreeMap;
use std::time::Duration;

/// Time before its end in which a context counts as expiring soon.
const EXPIRING_SOON: Duration = Duration::from_secs(3600);

/// Clients of a report.
const CLIENTS_SHOWN: usize = 50;

/// Reports the server at this moment.
pub(super) fn report(parts: &ApiParts) -> StatusReport {
    let ApiParts { identity, exports, service, stats, membership, .. } = parts;
    let exports = exports.snapshot().iter().count();
    let server = service.server();
    let (engine, now) = (server.engine(), server.now());
    let network: BTreeMap<&str, u64> = stats.snapshot().into_iter().collect();
    let network = |name: &str| network.get(name).copied().unwrap_or_default();
    let lookups = identity.counts();
    let mut report = StatusReport {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        state: match (engine.is_draining(), engine.in_grace(now) || engine.is_grace_enforced()) {
            _ if service.is_silent() => "silent",
            (true, _) => "draining",
            (false, true) => "grace",
            (false, false) => "serving",
        }
        .to_owned(),
        cluster: membership.as_ref().map(|membership| membership.report()),
        uptime: now.as_secs_f64(),
        held: held(service, network("connections"), exports),
        processor: processor_time().map(|time| time.as_secs_f64()),
        resident: resident_bytes(),
        received: network("received_bytes"),
        sent: network("sent_bytes"),
        clients: last_active(service),
        flavors: Kind::ALL.iter().map(|kind| flavor(service, stats, *kind)).collect(),
        events: metrics::events(service, stats).map(|(event, count)| (event.to_owned(), count)).collect(),
        refusals: engine.refusals().into_iter().map(|(rule, count)| (rule.to_owned(), count)).collect(),
        lookups: [("failed", lookups.failed), ("late", lookups.late), ("stale", lookups.stale)]
            .map(|(outcome, count)| (outcome.to_owned(), count))
            .into(),
        file_system_errors: engine.outcomes().errors().iter().map(|(.., count)| count).sum(),
        ..StatusReport::default()
    };
    for (operation, status, count) in engine.outcomes().statuses() {
        *report.operations.entry(operation.to_owned()).or_default() += count;
        if status != "NFS4_OK" {
            *report.failures.entry(status.to_owned()).or_default() += count;
        }
    }
    report
}

/// Returns the clients that sent a request last.
fn last_active(service: &NfsService) -> Vec<ClientRow> {
    let server = service.server();
    let mut found = server.engine().list_clients(server.now(), usize::MAX).entries;
    found.sort_by_key(|client| (client.silent, std::cmp::Reverse(client.requests)));
    found.iter().take(CLIENTS_SHOWN).map(client_row).collect()
}

fn held(service: &NfsService, connections: u64, exports: usize) -> BTreeMap<String, u64> {
    let server = service.server();
    let counts = server.engine().counts();
    let contexts = server.rpcsec().map(|rpcsec| rpcsec.contexts());
    let expiring = contexts.map_or(0, |contexts| contexts.expiring(server.now() + EXPIRING_SOON));
    let numbers = [
        ("exports", exports),
        ("clients", counts.clients),
        ("sessions", counts.sessions),
        ("opens", counts.opens),
        ("locks", counts.ranges),
        ("delegations", counts.delegations),
        ("delegations_recalled", counts.recalled),
        ("contexts", contexts.map_or(0, |contexts| contexts.len())),
        ("contexts_expiring", expiring),
    ];
    let named = numbers.map(|(name, count)| (name.to_owned(), count as u64));
    named.into_iter().chain([("connections".to_owned(), connections)]).collect()
}

fn flavor(service: &NfsService, stats: &Stats, kind: Kind) -> FlavorStatus {
    let times = &service.server().metrics().times;
    let stages = Stage::ALL.map(|stage| (stage.name(), times.spent(kind, stage)));
    let stages = stages.into_iter().chain([("send", stats.sending(kind.number()))]);
    FlavorStatus {
        name: kind.name().to_owned(),
        requests: times.calls(kind),
        stages: stages.map(|(stage, time)| (stage.to_owned(), time.as_secs_f64())).collect(),
    }
}
