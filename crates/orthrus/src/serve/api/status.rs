//! Answers `orthrus status` from the counters of the server.

use super::ApiParts;
use super::listings::{client_row, place};
use crate::api::{ClientRow, ExportStatus, FileStatus, FlavorStatus, StatusReport, watched};
use crate::serve::metrics;
use crate::serve::process::{processor_time, resident_bytes};
use net::Stats;
use runtime::NfsService;
use server::engine::{BusyFile, ListedFile, hex};
use server::metrics::{Kind, ServedCounters, ServedRequests, Stage};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use vfs::ExportTable;

/// Time before its end in which a context counts as expiring soon.
const EXPIRING_SOON: Duration = Duration::from_secs(3600);

/// Busy files of a report.
const FILES_SHOWN: usize = 20;
/// Clients of a report.
const CLIENTS_SHOWN: usize = 50;

/// Reports the counters of events alone.
pub(super) fn counters(parts: &ApiParts) -> StatusReport {
    let ApiParts { identity, service, stats, .. } = parts;
    let engine = service.server().engine();
    let lookups = identity.counts();
    StatusReport {
        events: metrics::events(service, stats).map(|(event, count)| (event.to_owned(), count)).collect(),
        refusals: engine.refusals().into_iter().map(|(rule, count)| (rule.to_owned(), count)).collect(),
        lookups: [("failed", lookups.failed), ("late", lookups.late), ("stale", lookups.stale)]
            .map(|(outcome, count)| (outcome.to_owned(), count))
            .into(),
        file_system_errors: engine.outcomes().errors().iter().map(|(.., count)| count).sum(),
        ..StatusReport::default()
    }
}

/// Reports the server at this moment.
pub(in crate::serve) fn report(parts: &ApiParts) -> StatusReport {
    let ApiParts { exports, service, stats, membership, keys, reloads, recent, .. } = parts;
    let table = exports.snapshot();
    let exports = table.iter().count();
    let server = service.server();
    let (engine, now) = (server.engine(), server.now());
    let counters = counters(parts);
    let mut report = StatusReport {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        state: match (engine.is_draining(), engine.in_grace() || engine.is_grace_enforced()) {
            _ if service.is_silent() => "silent",
            (true, _) => "draining",
            (false, true) => "grace",
            (false, false) => "serving",
        }
        .to_owned(),
        cluster: membership.as_ref().map(|membership| membership.report()),
        uptime: now.as_secs_f64(),
        held: held(service, stats.connections.load(Relaxed), exports),
        processor: processor_time().map(|time| time.as_secs_f64()),
        resident: resident_bytes(),
        received: stats.received_bytes.load(Relaxed),
        sent: stats.sent_bytes.load(Relaxed),
        clients: last_active(service),
        exports: export_requests(service, &table),
        files: busy_files(service, &table),
        sampled_one_in: ServedCounters::SAMPLED_ONE_IN,
        latency_bounds: ServedRequests::bounds().map(|bound| bound.as_secs_f64()).into(),
        flavors: Kind::ALL.iter().map(|kind| flavor(service, stats, *kind)).collect(),
        recent: recent.since(watched(&counters)),
        records_incomplete: !engine.records_are_complete(),
        keytab_failure: keys.as_ref().and_then(|keys| keys.failure()),
        reload: reloads.last(),
        ..counters
    };
    for series in server.metrics().served.requests() {
        let by_operation = report.latency_by_operation.entry(series.operation.to_owned()).or_default();
        add_classes(by_operation, &series.classes);
        let by_flavor = report.latency_by_flavor.entry(series.kind.name().to_owned()).or_default();
        add_classes(by_flavor, &series.classes);
    }
    for (operation, status, count) in engine.outcomes().statuses(&server.metrics().served) {
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

fn add_classes(sums: &mut Vec<u64>, classes: &[u64]) {
    sums.resize(classes.len(), 0);
    sums.iter_mut().zip(classes).for_each(|(sum, count)| *sum += count);
}

/// Sums the requests of each export.
fn export_requests(service: &NfsService, table: &ExportTable) -> Vec<ExportStatus> {
    let server = service.server();
    let names = metrics::ExportNames::new(server.engine(), table);
    let mut exports: BTreeMap<String, ExportStatus> = BTreeMap::new();
    for series in server.metrics().served.requests() {
        let name = names.of(series.place);
        if name.is_empty() {
            continue;
        }
        let sums = exports.entry(name.to_owned()).or_default();
        sums.requests += series.count();
        sums.received += series.received;
        sums.sent += series.sent;
    }
    let named = |(export, sums)| ExportStatus { export, ..sums };
    exports.into_iter().map(named).collect()
}

fn busy_files(service: &NfsService, table: &ExportTable) -> Vec<FileStatus> {
    let status = |file: BusyFile| {
        let listed = ListedFile { export: file.export, open: file.open };
        let (export, path) = place(&listed, table);
        FileStatus { export, file: path.unwrap_or_else(|| hex(&file.handle)), samples: file.samples }
    };
    service.server().engine().busy_files(FILES_SHOWN).into_iter().map(status).collect()
}

fn held(service: &NfsService, connections: usize, exports: usize) -> BTreeMap<String, u64> {
    let server = service.server();
    let counts = server.engine().counts();
    let contexts = server.rpcsec().map(|rpcsec| rpcsec.contexts());
    let expiring = contexts.map_or(0, |contexts| contexts.expiring(server.now(), EXPIRING_SOON));
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
        ("connections", connections),
    ];
    numbers.map(|(name, count)| (name.to_owned(), count as u64)).into()
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
