//! HTTP/1.1 endpoints: the admin API, and the metrics. One thread serves all of them and waits for
//! nothing but their sockets. Answers that may wait run on other threads, a few at a time.

mod host;
mod listener;
mod workers;

pub(super) use host::{OwnNames, only_this_machine};
pub(super) use listener::{Author, EndlessAnswer, HttpEndpoint, HttpListener, bind_tcp, inherit_tcp};
pub(super) use workers::Workers;

use super::api::{ADMIN_WORKERS_MAX, SEARCH_WORKERS_MAX};
use super::metrics::METRICS_WORKERS_MAX;
use super::web::WEB_WORKERS_MAX;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;

/// Bytes of the head of an HTTP request; a longer one gets status 431.
const HTTP_HEAD_MAX: usize = 8 << 10;
/// Bytes of the body of an HTTP request; a longer one gets status 413.
const HTTP_BODY_MAX: usize = 4 << 10;
/// How long the head of an HTTP request may take to arrive.
pub(super) const HTTP_REQUEST_TIME_MAX: Duration = Duration::from_secs(5);
/// Threads that compute HTTP answers for all endpoints.
const HTTP_WORKERS_MAX: usize = 13;
/// Answers of one endpoint that wait take no thread from another one.
const _: () = assert!(
    HTTP_WORKERS_MAX == 2 * ADMIN_WORKERS_MAX + SEARCH_WORKERS_MAX + METRICS_WORKERS_MAX + WEB_WORKERS_MAX
);
/// How long an idle thread for answers stays.
const WORKER_IDLE_TIME: Duration = Duration::from_secs(10);

/// Starts the thread that serves the endpoints, for as long as the process lives.
///
/// # Errors
/// When the system gives no thread or no event loop.
pub(super) fn start(endpoints: Vec<HttpEndpoint>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .thread_name("http-worker")
        .max_blocking_threads(HTTP_WORKERS_MAX)
        .thread_keep_alive(WORKER_IDLE_TIME)
        .build()?;
    let serve = async move {
        let mut all: JoinSet<()> = endpoints.into_iter().map(HttpEndpoint::serve).collect();
        while all.join_next().await.is_some() {}
    };
    let run = move || runtime.block_on(serve);
    std::thread::Builder::new().name("http".into()).spawn(run).map(drop)
}

/// Serves one request of a connection.
async fn serve_connection<S>(stream: S, router: Router)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let service = TowerToHyperService::new(router.layer(DefaultBodyLimit::max(HTTP_BODY_MAX)));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HTTP_REQUEST_TIME_MAX)
        .max_buf_size(HTTP_HEAD_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = connection.await {
        tracing::debug!("an HTTP connection failed: {error}");
    }
}

#[cfg(test)]
mod tests;
