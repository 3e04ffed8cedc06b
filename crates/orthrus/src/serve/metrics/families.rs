//! The metrics of a server.

use super::text::{MetricKind, MetricsText, seconds};
use super::{ExportNames, Watched, events};
use crate::serve::membership::Membership;
use crate::serve::process::{processor_time, resident_bytes, thread_times};
use MetricKind::{Counter, Gauge, Histogram};
use identity::{LookupCounts, LookupKind, Mapper};
use krb5::Enctype;
use net::Stats;
use runtime::{NfsService, ServiceCounts};
use server::metrics::{Kind, RequestSeries, ServedRequests, Stage};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use vfs::ExportTable;

/// Time before its end in which a context counts as expiring soon.
const EXPIRING_SOON: Duration = Duration::from_secs(3600);
/// The flavors whose messages are protected.
const PROTECTED: [Kind; 3] = [Kind::Krb5, Kind::Krb5i, Kind::Krb5p];

/// Writes all metrics of a server.
pub(super) fn render(watched: &Watched) -> String {
    let Watched { service, stats, identity, exports, .. } = watched;
    let table = exports.snapshot();
    let mut page = MetricsText::default();
    process(&mut page);
    server(&mut page, service, &table);
    contexts(&mut page, service);
    keytab(&mut page, watched);
    held(&mut page, service);
    network(&mut page, stats);
    pools(&mut page, service);
    page_of_events(&mut page, service, stats);
    requests(&mut page, service, &table);
    stages(&mut page, service, stats);
    protection(&mut page, service);
    window(&mut page, service);
    operations(&mut page, service);
    refusals(&mut page, service);
    throttled(&mut page, service);
    if let Some(membership) = &watched.membership {
        cluster(&mut page, service, membership);
    }
    lookups(&mut page, identity);
    page.into_string()
}

fn process(page: &mut MetricsText) {
    if let Some(time) = processor_time() {
        let help = "Processor time of this process, by the operating system.";
        page.single("process_cpu_seconds_total", Counter, help, time.as_secs_f64());
    }
    if let Some(bytes) = resident_bytes() {
        page.single("process_resident_memory_bytes", Gauge, "Memory of this process.", bytes);
    }
    let name = "orthrus_thread_cpu_seconds";
    page.family(name, Gauge, "Processor time of the threads that live now, by their kind.");
    for (threads, time) in thread_times() {
        page.value(name, &[("threads", &threads)], time.as_secs_f64());
    }
}

fn server(page: &mut MetricsText, service: &NfsService, table: &ExportTable) {
    let server = service.server();
    page.family("orthrus_build_info", Gauge, "Always 1; the labels have version and vector code.");
    let vectors = krb5::cpu().to_string();
    let labels = [("version", env!("CARGO_PKG_VERSION")), ("vectors", &vectors)];
    page.value("orthrus_build_info", &labels, 1);
    let help = "Seconds since the start of the server.";
    page.single("orthrus_uptime_seconds", Gauge, help, server.now().as_secs());
    let help = "1 in the grace period after a start, in which clients reclaim their state.";
    let in_grace = u8::from(server.engine().in_grace());
    page.single("orthrus_grace", Gauge, help, in_grace);
    let help = "1 while the server takes no new clients, by `orthrus drain`.";
    page.single("orthrus_draining", Gauge, help, u8::from(server.engine().is_draining()));
    let help = "1 while client records cannot be written: these clients could not reclaim after a restart.";
    let is_incomplete = !server.engine().records_are_complete();
    page.single("orthrus_records_incomplete", Gauge, help, u8::from(is_incomplete));
    page.single("orthrus_exports", Gauge, "Exports in force.", table.iter().count());
}

fn contexts(page: &mut MetricsText, service: &NfsService) {
    let server = service.server();
    let contexts = server.rpcsec().map(|rpcsec| rpcsec.contexts());
    let held = contexts.map_or(0, |contexts| contexts.len());
    page.single("orthrus_contexts", Gauge, "Kerberos contexts held now.", held);
    let expiring = contexts.map_or(0, |contexts| contexts.expiring(server.now(), EXPIRING_SOON));
    let help = "Kerberos contexts in use whose tickets expire within an hour.";
    page.single("orthrus_contexts_expiring", Gauge, help, expiring);
    let delegated = contexts.map_or(0, |contexts| contexts.delegated());
    let help = "Kerberos contexts held now whose tickets a service got in the user's name.";
    page.single("orthrus_contexts_delegated", Gauge, help, delegated);
}

fn keytab(page: &mut MetricsText, watched: &Watched) {
    let Some(keys) = &watched.keys else { return };
    let help = "1 while the keytab is of no use: the previous keys stay in use, and a restart would fail.";
    page.single("orthrus_keytab_unusable", Gauge, help, u8::from(keys.failure().is_some()));
}

fn held(page: &mut MetricsText, service: &NfsService) {
    let counts = service.server().engine().counts();
    let gauges = [
        ("orthrus_clients", "NFS clients known now.", counts.clients),
        ("orthrus_sessions", "Sessions held now.", counts.sessions),
        ("orthrus_session_memory_bytes", "Memory of sessions and cached replies.", counts.session_memory),
        ("orthrus_opens", "Opens held now.", counts.opens),
        ("orthrus_locks", "Byte ranges locked now.", counts.ranges),
        ("orthrus_delegations", "Delegations held now, revoked ones included.", counts.delegations),
        ("orthrus_delegations_recalled", "Delegations recalled and not returned yet.", counts.recalled),
        ("orthrus_copies", "Copies in progress.", counts.copies),
    ];
    gauges.into_iter().for_each(|(name, help, count)| page.single(name, Gauge, help, count));
    let name = "orthrus_delegation_events_total";
    page.family(name, Counter, "Delegations granted, recalled, and revoked for they were not returned.");
    let events = [
        ("granted", counts.delegations_granted),
        ("recalled", counts.delegations_recalled),
        ("revoked", counts.delegations_revoked),
    ];
    events.into_iter().for_each(|(event, count)| page.value(name, &[("event", event)], count));
}

fn network(page: &mut MetricsText, stats: &Stats) {
    let (connections, deferred) = (stats.connections.load(Relaxed), stats.deferred.load(Relaxed));
    let (received, sent) = (stats.received_bytes.load(Relaxed), stats.sent_bytes.load(Relaxed));
    page.single("orthrus_connections", Gauge, "Connections open now.", connections);
    page.single("orthrus_received_bytes_total", Counter, "Bytes received.", received);
    page.single("orthrus_sent_bytes_total", Counter, "Bytes sent.", sent);
    let name = "orthrus_buffer_bytes";
    page.family(name, Gauge, "Memory of requests that wait, and of replies that wait to be sent.");
    page.value(name, &[("of", "requests")], stats.input_bytes.load(Relaxed));
    page.value(name, &[("of", "replies")], stats.output_bytes.load(Relaxed));
    let help = "Calls that another thread than a shard runs.";
    page.single("orthrus_deferred_calls", Gauge, help, deferred);
}

fn pools(page: &mut MetricsText, service: &NfsService) {
    let ServiceCounts { disk, contexts, copies, answers_waiting, commit } = service.counts();
    let pools = [("disk", disk), ("contexts", contexts), ("copies", copies)];
    let name = "orthrus_pool_threads";
    page.family(name, Gauge, "Threads of a pool, busy or idle.");
    pools.iter().for_each(|(pool, counts)| page.value(name, &[("pool", pool)], counts.threads));
    let name = "orthrus_pool_waiting";
    page.family(name, Gauge, "Calls that wait for a thread of a pool.");
    pools.iter().for_each(|(pool, counts)| page.value(name, &[("pool", pool)], counts.waiting));
    let help = "Calls that wait for a client's answer to a callback.";
    page.single("orthrus_answers_waiting", Gauge, help, answers_waiting);
    let help = "Calls that wait until their changes are on disk.";
    page.single("orthrus_changes_waiting", Gauge, help, commit.waiting);
    let help = "Calls whose changes were written to the disk by a group commit.";
    page.single("orthrus_changes_synced_total", Counter, help, commit.committed);
    page.single("orthrus_syncs_total", Counter, "Group commits.", commit.syncs);
}

fn page_of_events(page: &mut MetricsText, service: &NfsService, stats: &Stats) {
    let name = "orthrus_events_total";
    let help = "What happened to connections, calls and contexts, by the names of the log's counters.";
    page.family(name, Counter, help);
    events(service, stats).for_each(|(event, count)| page.value(name, &[("event", event)], count));
}

/// Requests by operation, export and flavor.
fn requests(page: &mut MetricsText, service: &NfsService, table: &ExportTable) {
    let requests = service.server().metrics().served.requests();
    let names = ExportNames::new(service.server().engine(), table);
    let labels = |series| request_labels(&names, series);
    let name = "orthrus_request_seconds";
    let help = "Time of requests from their arrival to their reply, by the operation that they are about.";
    page.family(name, Histogram, help);
    for series in &requests {
        let bounds = ServedRequests::bounds().map(seconds).map(Some).into_iter().chain([None]);
        page.histogram(name, &labels(series), bounds.zip(series.classes), series.time.as_secs_f64());
    }
    let name = "orthrus_request_received_bytes_total";
    page.family(name, Counter, "Bytes of these requests, RPC headers included.");
    requests.iter().for_each(|series| page.value(name, &labels(series), series.received));
    let name = "orthrus_request_sent_bytes_total";
    page.family(name, Counter, "Bytes of the replies to these requests, RPC headers included.");
    requests.iter().for_each(|series| page.value(name, &labels(series), series.sent));
}

fn request_labels<'l>(names: &'l ExportNames, series: &'l RequestSeries) -> [(&'l str, &'l str); 3] {
    let export = names.of(series.place);
    [("operation", series.operation), ("export", export), ("flavor", series.kind.name())]
}

fn stages(page: &mut MetricsText, service: &NfsService, stats: &Stats) {
    let times = &service.server().metrics().times;
    let name = "orthrus_requests_total";
    page.family(name, Counter, "Requests received.");
    for kind in Kind::ALL {
        page.value(name, &[("flavor", kind.name())], times.calls(kind));
    }
    let name = "orthrus_stage_seconds_total";
    let help = "Time of requests: waiting (queue), and threads at work on them (the others).";
    page.family(name, Counter, help);
    for kind in Kind::ALL {
        let stages = Stage::ALL.map(|stage| (stage.name(), times.spent(kind, stage)));
        for (stage, time) in stages.into_iter().chain([("send", stats.sending(kind.number()))]) {
            page.value(name, &[("flavor", kind.name()), ("stage", stage)], time.as_secs_f64());
        }
    }
}

/// The cost of cryptography, and how well its batches fill the lanes of the processor.
fn protection(page: &mut MetricsText, service: &NfsService) {
    let metrics = service.server().metrics();
    let name = "orthrus_protection_seconds_total";
    let help = "The part of the stages unwrap and wrap by the encryption type of the context's keys.";
    page.family(name, Counter, help);
    for (kind, enctype) in PROTECTED.into_iter().flat_map(|kind| Enctype::ALL.map(|enctype| (kind, enctype)))
    {
        let times = metrics.times.protecting(kind, enctype);
        for (stage, time) in [Stage::Unwrap, Stage::Wrap].into_iter().zip(times) {
            let (enctype, stage) = (enctype.to_string(), stage.name());
            let labels = [("flavor", kind.name()), ("enctype", enctype.as_str()), ("stage", stage)];
            if !time.is_zero() {
                page.value(name, &labels, time.as_secs_f64());
            }
        }
    }
    let name = "orthrus_crypto_batch_messages";
    let help = "Messages that were processed together; the widest vectors take 16.";
    page.family(name, Histogram, help);
    for series in metrics.served.batches() {
        let bounds = [Some(1.0), Some(3.0), Some(7.0), Some(15.0), None];
        let labels = [("step", series.step.name())];
        page.histogram(name, &labels, bounds.into_iter().zip(series.classes), series.messages);
    }
}

fn window(page: &mut MetricsText, service: &NfsService) {
    let metrics = service.server().metrics();
    let lags = metrics.lags.snapshot();
    // The least lag of a class is one more than the greatest of the class before.
    let bounds = lags.iter().skip(1).map(|(least, _)| Some(f64::from(*least) - 1.0)).chain([None]);
    let name = "orthrus_window_lag";
    let help = "Distance of calls to the highest sequence number of their context.";
    page.family(name, Histogram, help);
    let sum: f64 = lags.iter().map(|(least, count)| f64::from(*least) * *count as f64).sum();
    page.histogram(name, &[], bounds.zip(lags.iter().map(|(_, count)| *count)), sum);
    let help = "Calls dropped since their sequence number was used or below the window.";
    page.single("orthrus_window_drops_total", Counter, help, metrics.window_drops.load(Relaxed));
}

fn operations(page: &mut MetricsText, service: &NfsService) {
    let outcomes = service.server().engine().outcomes();
    let name = "orthrus_operations_total";
    page.family(name, Counter, "Operations of COMPOUNDs, by the status when they ran.");
    for (operation, status, count) in outcomes.statuses(&service.server().metrics().served) {
        page.value(name, &[("operation", operation), ("status", status)], count);
    }
    let name = "orthrus_file_system_errors_total";
    page.family(name, Counter, "Errors of exported file systems, by errno.");
    for (operation, errno, count) in outcomes.errors() {
        page.value(name, &[("operation", operation), ("errno", &errno.to_string())], count);
    }
    let name = "orthrus_decode_errors_total";
    page.family(name, Counter, "Arguments of operations that could not be decoded, by the error.");
    outcomes
        .undecodable()
        .into_iter()
        .for_each(|(error, count)| page.value(name, &[("error", error)], count));
}

fn refusals(page: &mut MetricsText, service: &NfsService) {
    let name = "orthrus_refusals_total";
    page.family(name, Counter, "Requests that a rule of an export or a limit refused, by its key.");
    for (rule, count) in service.server().engine().refusals() {
        page.value(name, &[("rule", rule)], count);
    }
    let name = "orthrus_denials_total";
    page.family(name, Counter, "Calls denied before any operation, by auth_stat.");
    for (status, count) in service.server().metrics().denials.snapshot() {
        page.value(name, &[("status", status)], count);
    }
}

fn throttled(page: &mut MetricsText, service: &NfsService) {
    let name = "orthrus_throttled_seconds_total";
    page.family(name, Counter, "Time for which connections waited for a limit, by its kind and unit.");
    for (kind, unit, time) in service.server().tenants().throttled() {
        page.value(name, &[("limit", kind.name()), ("unit", unit.name())], time.as_secs_f64());
    }
}

fn cluster(page: &mut MetricsText, service: &NfsService, membership: &Membership) {
    let report = membership.report();
    let help = "The epoch in which clients of this member of a cluster are recorded.";
    page.single("orthrus_cluster_epoch", Gauge, help, report.epoch);
    let help = "1 while this member refuses new opens and locks, since clients of any member reclaim.";
    page.single("orthrus_cluster_enforcing", Gauge, help, u8::from(report.enforcing));
    let help = "Seconds since the last contact with the cluster.";
    let contact = membership.without_contact().as_secs_f64();
    page.single("orthrus_cluster_contact_seconds", Gauge, help, contact);
    let help = "1 while this member answers no client, since it has no contact.";
    page.single("orthrus_cluster_silent", Gauge, help, u8::from(service.is_silent()));
    let name = "orthrus_cluster_member";
    page.family(name, Gauge, "1 while clients of a member have state to reclaim.");
    for member in report.members {
        page.value(name, &[("node", &member.node)], u8::from(member.needs_grace));
    }
}

fn lookups(page: &mut MetricsText, identity: &Mapper) {
    let LookupCounts { failed, late, stale } = identity.counts();
    let name = "orthrus_identity_lookups_total";
    page.family(name, Counter, "Lookups of accounts and names without an answer in time, by outcome.");
    for (outcome, count) in [("failed", failed), ("late", late), ("stale", stale)] {
        page.value(name, &[("outcome", outcome)], count);
    }
    let name = "orthrus_identity_lookup_seconds";
    page.family(name, Histogram, "Time of the sources of accounts and names for an answer.");
    for kind in LookupKind::ALL {
        let times = identity.lookup_times(kind);
        let classes = times.classes.iter().map(|(bound, count)| (bound.map(seconds), *count));
        page.histogram(name, &[("kind", kind.name())], classes, times.time.as_secs_f64());
    }
}
