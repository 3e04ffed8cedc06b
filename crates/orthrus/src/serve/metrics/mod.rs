//! The metrics endpoint: counters in the text format of Prometheus, and health, over HTTP.

use super::http::{HttpEndpoint, HttpListener, Workers, bind_tcp, only_this_machine};
use super::membership::Membership;
use super::process::{processor_time, resident_bytes};
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::from_fn;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use identity::{LookupCounts, Mapper};
use net::{Admission, Running, Shards, Stats};
use runtime::NfsService;
use server::metrics::{Kind, Stage};
use std::fmt::Write;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

/// Connections of the metrics endpoint at once; a further one takes the place of the oldest.
const METRICS_CONNECTIONS_MAX: usize = 16;
/// How long a peer of the metrics endpoint may take, from connecting to having read its answer.
const METRICS_TIME_MAX: Duration = Duration::from_secs(5);
/// Threads that write the page with all metrics; further requests wait.
const METRICS_WORKERS_MAX: usize = 2;

/// Time before its end in which a context counts as expiring soon.
const EXPIRING_SOON: Duration = Duration::from_secs(3600);

/// Time in one loop after which a shard counts as hanging.
const HANGS_AFTER: Duration = Duration::from_secs(10);

/// Counters of the network layer for events of connections and shards.
const CONNECTION_EVENTS: [&str; 8] =
    ["accepted", "refused", "malformed", "overdue", "evicted", "stalls", "relieved", "panics"];

/// The path of the page with all metrics.
pub(super) const PATH: &str = "/metrics";

/// The type of that page, in the text format of Prometheus.
const PAGE_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A bound endpoint that does not answer yet.
pub(super) struct MetricsListener {
    socket: TcpListener,
    admission: Option<Box<Admission>>,
}

impl MetricsListener {
    /// Binds the address.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn bind(address: SocketAddr) -> io::Result<Self> {
        Ok(Self { socket: bind_tcp(address)?, admission: None })
    }

    /// Closes connections that `admission` does not want before anything is read from them.
    pub(super) fn admit(&mut self, admission: Box<Admission>) {
        self.admission = Some(admission);
    }

    /// Returns the address, with the port that the system gave.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Makes the endpoint of a running server.
    pub(super) fn endpoint(
        self,
        service: Arc<NfsService>,
        running: &Running,
        identity: Arc<Mapper>,
        membership: Option<Arc<Membership>>,
    ) -> HttpEndpoint {
        let (stats, shards) = (running.stats().clone(), running.shards().clone());
        HttpEndpoint {
            listener: HttpListener::Tcp(self.socket, self.admission),
            router: router(Watched {
                service,
                stats,
                shards,
                identity,
                membership,
                workers: Workers::new(METRICS_WORKERS_MAX),
            }),
            connections_max: METRICS_CONNECTIONS_MAX,
            time_max: METRICS_TIME_MAX,
        }
    }
}

/// The parts of a running server that the pages are about.
#[derive(Clone)]
struct Watched {
    service: Arc<NfsService>,
    stats: Arc<Stats>,
    shards: Shards,
    identity: Arc<Mapper>,
    membership: Option<Arc<Membership>>,
    workers: Workers,
}

fn router(watched: Watched) -> Router {
    Router::new()
        .route(PATH, get(page))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .fallback(|| async { (StatusCode::NOT_FOUND, "there are /metrics, /healthz and /readyz\n") })
        .method_not_allowed_fallback(|| async { (StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n") })
        .layer(from_fn(only_this_machine))
        .with_state(watched)
}

async fn page(State(watched): State<Watched>) -> Response {
    let workers = watched.workers.clone();
    match workers.run(move || MetricsPage::render(&watched)).await {
        Ok(page) => ([(CONTENT_TYPE, PAGE_TYPE)], page).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Tells whether the threads of the server make progress. It waits for nothing, so that it answers
/// while they do not.
async fn healthz(State(watched): State<Watched>) -> Health {
    health(watched.shards.are_alive(HANGS_AFTER))
}

async fn readyz(State(watched): State<Watched>) -> Health {
    let server = watched.service.server();
    let engine = server.engine();
    let health = health(watched.shards.are_alive(HANGS_AFTER));
    let in_grace = engine.in_grace(server.now()) || engine.is_grace_enforced();
    readiness(health, in_grace, engine.is_draining(), watched.service.is_silent())
}

/// The health of the server, in a line. Without good news the status is 503, so that supervisors
/// and load balancers act.
struct Health {
    good: bool,
    line: String,
}

impl IntoResponse for Health {
    fn into_response(self) -> Response {
        let status = if self.good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        (status, self.line).into_response()
    }
}

fn health(alive: bool) -> Health {
    let line = match alive {
        true => "healthy\n".to_owned(),
        false => format!(
            "a thread of the server hangs for {} s or has ended; the log names the call\n",
            HANGS_AFTER.as_secs()
        ),
    };
    Health { good: alive, line }
}

/// Tells whether new clients can be served. In the grace period they can: they wait for its end,
/// and others reclaim their state.
fn readiness(health: Health, in_grace: bool, draining: bool, silent: bool) -> Health {
    let (good, line) = match (draining, in_grace) {
        _ if !health.good => return health,
        _ if silent => (false, "silent; there is no contact to the cluster of gateways\n"),
        (true, _) => (false, "draining; no new clients are served\n"),
        (false, true) => (true, "ready; in the grace period, new opens wait for its end\n"),
        (false, false) => (true, "ready\n"),
    };
    Health { good, line: line.to_owned() }
}

/// Returns the number of events by name: of connections, of calls and contexts, and of the log.
pub(super) fn events(service: &NfsService, stats: &Stats) -> impl Iterator<Item = (&'static str, u64)> {
    let network = stats.snapshot().into_iter().filter(|(event, _)| CONNECTION_EVENTS.contains(event));
    let log = [("log_lines_dropped", crate::logging::dropped_lines())];
    network.chain(service.server().metrics().snapshot()).chain(log)
}

#[derive(Default)]
struct MetricsPage(String);

impl MetricsPage {
    fn render(watched: &Watched) -> String {
        let Watched { service, stats, identity, membership, .. } = watched;
        let mut page = Self::default();
        page.process();
        page.server(service);
        page.held(service, stats);
        page.events(service, stats);
        page.times(service, stats);
        page.outcomes(service);
        page.refusals(service);
        page.throttled(service);
        page.lookups(identity.counts());
        if let Some(membership) = membership {
            page.cluster(service, membership);
        }
        page.0
    }

    fn server(&mut self, service: &NfsService) {
        let server = service.server();
        let build = format!("orthrus_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"));
        self.family("orthrus_build_info", "gauge", "Always 1; the label has the version.");
        self.value(&build, 1);
        let help = "Seconds since the start of the server.";
        self.one("orthrus_uptime_seconds", "gauge", help, server.now().as_secs());
        let help = "1 in the grace period after a start, in which clients reclaim their state.";
        let in_grace = u8::from(server.engine().in_grace(server.now()));
        self.one("orthrus_grace", "gauge", help, in_grace);
    }

    fn cluster(&mut self, service: &NfsService, membership: &Membership) {
        let report = membership.report();
        let help = "The epoch in which clients of this member of a cluster are recorded.";
        self.one("orthrus_cluster_epoch", "gauge", help, report.epoch);
        let help = "1 while this member refuses new opens and locks, since clients of any member reclaim.";
        self.one("orthrus_cluster_enforcing", "gauge", help, u8::from(report.enforcing));
        let help = "Seconds since the last contact with the cluster.";
        let contact = membership.without_contact().as_secs_f64();
        self.one("orthrus_cluster_contact_seconds", "gauge", help, contact);
        let help = "1 while this member answers no client, since it has no contact.";
        self.one("orthrus_cluster_silent", "gauge", help, u8::from(service.is_silent()));
        let name = "orthrus_cluster_member";
        self.family(name, "gauge", "1 while clients of a member have state to reclaim.");
        for member in report.members {
            let node = member.node.replace(['"', '\\', '\n'], "?");
            self.value(&format!("{name}{{node=\"{node}\"}}"), u8::from(member.needs_grace));
        }
    }

    /// Begins a family of values; `kind` is `counter` or `gauge`.
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn value(&mut self, name: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "{name} {value}");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: impl std::fmt::Display) {
        self.family(name, kind, help);
        self.value(name, value);
    }

    fn process(&mut self) {
        if let Some(time) = processor_time() {
            let help = "Processor time of this process, by the operating system.";
            self.one("process_cpu_seconds_total", "counter", help, time.as_secs_f64());
        }
        if let Some(bytes) = resident_bytes() {
            self.one("process_resident_memory_bytes", "gauge", "Memory of this process.", bytes);
        }
    }

    fn held(&mut self, service: &NfsService, stats: &Stats) {
        let server = service.server();
        let network = stats.snapshot();
        let network =
            |name: &str| network.iter().find(|(known, _)| *known == name).map_or(0, |(_, value)| *value);
        let contexts = server.rpcsec().map_or(0, |rpcsec| rpcsec.contexts().len());
        let counts = server.engine().counts();
        self.one("orthrus_connections", "gauge", "Connections open now.", network("connections"));
        self.one("orthrus_contexts", "gauge", "Kerberos contexts held now.", contexts);
        let soon = server.now() + EXPIRING_SOON;
        let expiring = server.rpcsec().map_or(0, |rpcsec| rpcsec.contexts().expiring(soon));
        let help = "Kerberos contexts held now whose tickets expire within an hour.";
        self.one("orthrus_contexts_expiring", "gauge", help, expiring);
        let delegated = server.rpcsec().map_or(0, |rpcsec| rpcsec.contexts().delegated());
        let help = "Kerberos contexts held now whose tickets a service got in the user's name.";
        self.one("orthrus_contexts_delegated", "gauge", help, delegated);
        self.one("orthrus_clients", "gauge", "NFS clients known now.", counts.clients);
        self.one("orthrus_sessions", "gauge", "Sessions held now.", counts.sessions);
        self.one("orthrus_opens", "gauge", "Opens held now.", counts.opens);
        self.one("orthrus_received_bytes_total", "counter", "Bytes received.", network("received_bytes"));
        self.one("orthrus_sent_bytes_total", "counter", "Bytes sent.", network("sent_bytes"));
    }

    fn events(&mut self, service: &NfsService, stats: &Stats) {
        let name = "orthrus_events_total";
        self.family(
            name,
            "counter",
            "What happened to connections, calls and contexts, by the names of the log's counters.",
        );
        for (event, count) in events(service, stats) {
            self.value(&format!("{name}{{event=\"{event}\"}}"), count);
        }
    }

    fn outcomes(&mut self, service: &NfsService) {
        let outcomes = service.server().engine().outcomes();
        let name = "orthrus_operations_total";
        self.family(name, "counter", "Operations of COMPOUNDs, by the status when they ran.");
        for (operation, status, count) in outcomes.statuses() {
            let labels = format!("operation=\"{operation}\",status=\"{status}\"");
            self.value(&format!("{name}{{{labels}}}"), count);
        }
        let name = "orthrus_file_system_errors_total";
        self.family(name, "counter", "Errors of exported file systems, by errno.");
        for (operation, errno, count) in outcomes.errors() {
            self.value(&format!("{name}{{operation=\"{operation}\",errno=\"{errno}\"}}"), count);
        }
        let name = "orthrus_decode_errors_total";
        self.family(name, "counter", "Arguments of operations that could not be decoded, by the error.");
        for (error, count) in outcomes.undecodable() {
            self.value(&format!("{name}{{error=\"{error}\"}}"), count);
        }
    }

    fn refusals(&mut self, service: &NfsService) {
        let name = "orthrus_refusals_total";
        self.family(name, "counter", "Requests that exports refused, by the key with the rule.");
        for (rule, count) in service.server().engine().refusals() {
            self.value(&format!("{name}{{rule=\"{rule}\"}}"), count);
        }
    }

    fn throttled(&mut self, service: &NfsService) {
        let name = "orthrus_throttled_seconds_total";
        self.family(name, "counter", "Time for which connections waited for a limit, by its kind and unit.");
        for (kind, unit, time) in service.server().tenants().throttled() {
            let labels = format!("limit=\"{}\",unit=\"{}\"", kind.name(), unit.name());
            self.value(&format!("{name}{{{labels}}}"), time.as_secs_f64());
        }
    }

    fn lookups(&mut self, LookupCounts { failed, late, stale }: LookupCounts) {
        let name = "orthrus_identity_lookups_total";
        self.family(name, "counter", "Lookups of accounts and names without an answer in time, by outcome.");
        for (outcome, count) in [("failed", failed), ("late", late), ("stale", stale)] {
            self.value(&format!("{name}{{outcome=\"{outcome}\"}}"), count);
        }
    }

    fn times(&mut self, service: &NfsService, stats: &Stats) {
        let times = &service.server().metrics().times;
        let name = "orthrus_requests_total";
        self.family(name, "counter", "Requests received.");
        for kind in Kind::ALL {
            self.value(&format!("{name}{{flavor=\"{}\"}}", kind.name()), times.calls(kind));
        }
        let name = "orthrus_stage_seconds_total";
        self.family(
            name,
            "counter",
            "Time of requests: waiting (queue), and threads at work on them (the others).",
        );
        for kind in Kind::ALL {
            let stages = Stage::ALL.map(|stage| (stage.name(), times.spent(kind, stage)));
            for (stage, time) in stages.into_iter().chain([("send", stats.sending(kind.number()))]) {
                let labels = format!("flavor=\"{}\",stage=\"{stage}\"", kind.name());
                self.value(&format!("{name}{{{labels}}}"), time.as_secs_f64());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_with_a_hanging_thread_is_neither_healthy_nor_ready() {
        assert!(!health(false).good);
        assert!(!readiness(health(false), false, false, false).good);
        assert!(!readiness(health(false), true, false, false).good);
        assert!(!readiness(health(true), false, true, false).good);
        assert!(!readiness(health(true), true, false, true).good);
        assert!(readiness(health(true), true, false, false).good);
    }

    #[test]
    fn a_family_has_its_help_its_type_and_its_values() {
        let mut page = MetricsPage::default();
        page.one("x_total", "counter", "Some.", 2.5);
        assert_eq!(page.0, "# HELP x_total Some.\n# TYPE x_total counter\nx_total 2.5\n");
        let mut page = MetricsPage::default();
        page.process();
        assert!(
            page.0.contains("\nprocess_cpu_seconds_total 0.")
                && page.0.contains("\nprocess_resident_memory_bytes ")
        );
    }
}
