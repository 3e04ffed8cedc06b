//! The metrics endpoint: counters in the text format of Prometheus, and health, over HTTP.

mod families;
mod text;

use super::http::{HttpEndpoint, HttpListener, OwnNames, Workers, bind_tcp, inherit_tcp, only_this_machine};
use super::kerberos::Keys;
use super::membership::Membership;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use identity::Mapper;
use net::{Admission, Shards, Stats};
use runtime::NfsService;
use server::engine::Nfs;
use std::collections::HashSet;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use vfs::{ExportTable, Exports};

/// Connections of the metrics endpoint at once; a further one takes the place of the oldest.
const METRICS_CONNECTIONS_MAX: usize = 16;
/// How long a peer of the metrics endpoint may take, from connecting to having read its answer.
const METRICS_TIME_MAX: Duration = Duration::from_secs(5);
/// Threads that write the page with all metrics; further requests wait.
pub(super) const METRICS_WORKERS_MAX: usize = 2;

/// Time in one loop after which a shard counts as hanging.
const HANGS_AFTER: Duration = Duration::from_secs(10);

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

    /// Takes over the listening socket of another process.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn inherit(socket: OwnedFd) -> io::Result<Self> {
        Ok(Self { socket: inherit_tcp(socket)?, admission: None })
    }

    /// Returns a copy of the listening socket.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(super) fn socket(&self) -> io::Result<OwnedFd> {
        self.socket.as_fd().try_clone_to_owned()
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
    pub(super) fn endpoint(self, watched: Watched, names: OwnNames) -> HttpEndpoint {
        HttpEndpoint {
            listener: HttpListener::Tcp(self.socket, self.admission),
            router: router(watched, names),
            connections_max: METRICS_CONNECTIONS_MAX,
            time_max: METRICS_TIME_MAX,
        }
    }
}

/// The parts of a running server that the pages are about.
#[derive(Clone)]
pub(super) struct Watched {
    pub(super) service: Arc<NfsService>,
    pub(super) stats: Arc<Stats>,
    pub(super) shards: Shards,
    pub(super) identity: Arc<Mapper>,
    pub(super) exports: Arc<Exports>,
    pub(super) membership: Option<Arc<Membership>>,
    pub(super) keys: Option<Arc<Keys>>,
    pub(super) workers: Workers,
}

fn router(watched: Watched, names: OwnNames) -> Router {
    Router::new()
        .route(PATH, get(page))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .fallback(|| async { (StatusCode::NOT_FOUND, "there are /metrics, /healthz and /readyz\n") })
        .method_not_allowed_fallback(|| async { (StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n") })
        .layer(from_fn_with_state(names, only_this_machine))
        .with_state(watched)
}

async fn page(State(watched): State<Watched>) -> Response {
    let workers = watched.workers.clone();
    match workers.run(move || families::render(&watched)).await {
        Ok(page) => ([(CONTENT_TYPE, PAGE_TYPE)], page).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Reports whether the threads of the server make progress. It waits for nothing, so that it
/// answers while they do not.
async fn healthz(State(watched): State<Watched>) -> Health {
    health(watched.shards.are_alive(HANGS_AFTER))
}

async fn readyz(State(watched): State<Watched>) -> Health {
    let server = watched.service.server();
    let engine = server.engine();
    let health = health(watched.shards.are_alive(HANGS_AFTER));
    let in_grace = engine.in_grace() || engine.is_grace_enforced();
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

/// Reports whether new clients can be served. In the grace period they can: they wait for its end,
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
    let log = [
        ("log_lines_dropped", crate::logging::dropped_lines()),
        ("audit_lines_dropped", super::observe::dropped_lines()),
        ("audit_refusals_suppressed", super::observe::suppressed_refusals()),
    ];
    stats.events().into_iter().chain(service.server().metrics().snapshot()).chain(log)
}

/// The names of the exports that have counters, by their place.
pub(super) struct ExportNames(Vec<String>);

impl ExportNames {
    pub(super) fn new(engine: &Nfs, table: &ExportTable) -> Self {
        Self::distinct(engine.outcomes().export_names(), table)
    }

    /// Names exports by their numbers and first names. A reload can have given an export another
    /// name, or the name to an export with another number. Two series must not have the same
    /// labels.
    fn distinct(exports: impl IntoIterator<Item = (u32, String)>, table: &ExportTable) -> Self {
        let mut taken: HashSet<String> = table.iter().map(|export| export.pseudo_path.clone()).collect();
        let name = |(id, name): (u32, String)| match table.by_id(id) {
            Some(export) => export.pseudo_path.clone(),
            None if taken.insert(name.clone()) => name,
            None => format!("{name} (fsid {id})"),
        };
        Self(exports.into_iter().map(name).collect())
    }

    /// Returns the name at a place: empty for requests without an export, and `other` for all
    /// exports beyond the limit of counters.
    pub(super) fn of(&self, place: usize) -> &str {
        match place.checked_sub(1) {
            None => "",
            Some(at) => self.0.get(at).map_or("other", String::as_str),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::{Export, Timestamp};

    #[test]
    fn no_two_exports_have_one_name() {
        let export = Export::referral("/a", vec!["b:/a".parse().unwrap()]).unwrap();
        let own = export.id;
        let names = |exports: Vec<Export>| {
            let table = ExportTable::new(exports, Timestamp::default()).unwrap();
            ExportNames::distinct([(own, "/a".to_owned()), (7, "/a".to_owned())], &table).0
        };
        assert_eq!(names(vec![]), ["/a", "/a (fsid 7)"]);
        assert_eq!(
            names(vec![Export { id: 7, ..export.clone() }]),
            [format!("/a (fsid {own})"), "/a".to_owned()]
        );
        assert_eq!(names(vec![export]), ["/a", "/a (fsid 7)"]);
    }

    #[test]
    fn every_metric_is_in_the_page_about_monitoring() {
        let page = include_str!("../../../../../docs/monitoring.md");
        let names = include_str!("families.rs").split('"').filter(|text| text.starts_with("orthrus_"));
        for name in names {
            assert!(page.contains(&format!("`{name}")), "docs/monitoring.md has no row for {name}");
        }
    }

    #[test]
    fn a_server_with_a_hanging_thread_is_neither_healthy_nor_ready() {
        assert!(!health(false).good);
        assert!(!readiness(health(false), false, false, false).good);
        assert!(!readiness(health(false), true, false, false).good);
        assert!(!readiness(health(true), false, true, false).good);
        assert!(!readiness(health(true), true, false, true).good);
        assert!(readiness(health(true), true, false, false).good);
    }
}
