//! The web page: the status of the server, live, in a browser. It changes nothing.
//!
//! Attacks, and the design that stops each:
//! - Other users of the machine, and the network: a browser needs a session, which only a link from
//!   `orthrus web` gives, and a link is good once. Off loopback there is only TLS. A browser sends
//!   the session to every port of the host, so a page of another user of this machine, opened in
//!   the same browser, learns it and sees the status.
//! - Pages of other sites: no request changes anything, cookies are SameSite=Strict, and answers
//!   are not to be framed, embedded or read by other origins.
//! - DNS rebinding: the Host header has to name this machine. Over TLS the browser also checks the
//!   name against the certificate, unless its user says otherwise.
//! - Names that clients chose: they reach the page as text nodes, and the content security policy
//!   admits no script but the page's own file.

mod sessions;
mod tls;

pub(super) use tls::{HANDSHAKE_TIME_MAX, TlsFiles};

use super::api::{ApiParts, report};
use super::http::{HttpEndpoint, HttpListener, OwnNames, Workers, bind_tcp, inherit_tcp, only_this_machine};
use crate::api::{StatusReport, warnings};
use crate::config::{Settings, WebTls};
use anyhow::{Context, bail};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, HeaderValue,
    REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{Method, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use net::Admission;
use serde::{Deserialize, Serialize};
use server::engine::hex;
use sessions::{WEB_SESSION_TIME_MAX, WebSessions};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Connections of the web page at once; a further one takes the place of the oldest.
const WEB_CONNECTIONS_MAX: usize = 64;
/// How long a browser may take for a request, from connecting to having read the answer.
const WEB_TIME_MAX: Duration = Duration::from_secs(10);
/// Threads that compute the status for browsers; further requests wait.
pub(super) const WEB_WORKERS_MAX: usize = 2;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The bound socket of the web page, which does not answer yet.
pub(super) struct WebListener {
    socket: TcpListener,
    tls: Option<TlsFiles>,
    admission: Option<Box<Admission>>,
}

/// The links to the web page of a running server.
pub(crate) struct WebLinks {
    base: String,
    /// The name of the session's cookie. Browsers share cookies among the ports of a host, where
    /// other servers have pages of their own.
    cookie: String,
    sessions: WebSessions,
}

impl WebLinks {
    /// Makes a link that is good once.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub(crate) fn make(&self, now: Duration) -> Result<String, getrandom::Error> {
        Ok(format!("{}/login?link={}", self.base, self.sessions.link(now)?))
    }
}

impl WebListener {
    /// Binds the address of the settings, if they have one, unless another process left the socket
    /// `inherited`.
    ///
    /// # Errors
    /// An address off loopback without TLS; a fault of a file or of the address.
    pub(super) fn open(settings: &Settings, inherited: Option<OwnedFd>) -> anyhow::Result<Option<Self>> {
        let Some(address) = settings.web else { return Ok(None) };
        let tls = match (&settings.web_certificate, &settings.web_key) {
            (Some(certificate), Some(key)) => {
                Some(TlsFiles::open(WebTls { certificate: certificate.clone(), key: key.clone() })?)
            }
            (None, None) if address.ip().is_loopback() => None,
            (None, None) => bail!(
                "web on {address} is reached from other machines, so it needs TLS: name web_certificate and web_key, \
                 or a loopback address"
            ),
            _ => bail!("web_certificate and web_key are good only together"),
        };
        let socket = match inherited {
            Some(socket) => inherit_tcp(socket).context("the socket of the web page")?,
            None => bind_tcp(address).with_context(|| {
                format!("the web page cannot be served on {address}; choose another address with --web")
            })?,
        };
        Ok(Some(Self { socket, tls, admission: None }))
    }

    /// Returns a copy of the listening socket.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(super) fn socket(&self) -> std::io::Result<OwnedFd> {
        self.socket.as_fd().try_clone_to_owned()
    }

    /// Closes connections that `admission` does not want before anything is read from them.
    pub(super) fn admit(&mut self, admission: Box<Admission>) {
        self.admission = Some(admission);
    }

    /// Returns the links to the page.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn links(&self, names: &OwnNames) -> std::io::Result<Arc<WebLinks>> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let base = format!("{scheme}://{}", reachable(self.socket.local_addr()?, names));
        let mut number = [0; 4];
        getrandom::fill(&mut number).map_err(std::io::Error::other)?;
        let cookie = format!("orthrus-{}", hex(&number));
        Ok(Arc::new(WebLinks { base, cookie, sessions: WebSessions::default() }))
    }

    /// Makes the endpoint of a running server.
    pub(super) fn endpoint(
        self,
        links: Arc<WebLinks>,
        parts: Arc<ApiParts>,
        names: OwnNames,
    ) -> HttpEndpoint {
        let web = Web { parts, links, workers: Workers::new(WEB_WORKERS_MAX), secure: self.tls.is_some() };
        let (listener, names) = match self.tls.map(Arc::new) {
            Some(tls) => {
                let names = names.with_certificate(tls.clone());
                (HttpListener::Tls(self.socket, self.admission, tls), names)
            }
            None => (HttpListener::Tcp(self.socket, self.admission), names),
        };
        HttpEndpoint {
            listener,
            router: router(web, names),
            connections_max: WEB_CONNECTIONS_MAX,
            time_max: WEB_TIME_MAX,
        }
    }
}

/// Returns the host and port for links: all addresses are reached by the host's name.
fn reachable(address: SocketAddr, names: &OwnNames) -> String {
    match address.ip().is_unspecified() {
        false => address.to_string(),
        true => format!("{}:{}", names.longest_of_host(), address.port()),
    }
}

/// The state of all handlers.
#[derive(Clone)]
struct Web {
    parts: Arc<ApiParts>,
    links: Arc<WebLinks>,
    workers: Workers,
    /// Whether the page is served over TLS alone.
    secure: bool,
}

impl Web {
    fn is_open(&self, headers: &HeaderMap) -> bool {
        let now = self.parts.service.server().now();
        self.session_of(headers).is_some_and(|session| self.links.sessions.is_open(session, now))
    }

    /// Returns the secret of the session that a browser sends.
    fn session_of<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
        let mut pairs =
            cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(name, _)| *name == self.links.cookie).map(|(_, secret)| secret)
    }
}

fn router(web: Web, names: OwnNames) -> Router {
    let file =
        |kind: &'static str, text: &'static str| get(move || async move { ([(CONTENT_TYPE, kind)], text) });
    Router::new()
        .route("/", get(page))
        // A preview of a link asks for the head alone, and must not use the link up.
        .route("/login", get(login).head(async || StatusCode::NO_CONTENT))
        .route("/status.json", get(status))
        .route("/app.js", file("text/javascript; charset=utf-8", include_str!("app.js")))
        .route("/style.css", file("text/css; charset=utf-8", include_str!("style.css")))
        .fallback(|| async { (StatusCode::NOT_FOUND, "there is no such page\n") })
        .layer(from_fn(read_only))
        .layer(from_fn_with_state(names, only_this_machine))
        .layer(from_fn(protected))
        .with_state(web)
}

async fn page(State(web): State<Web>, headers: HeaderMap) -> Response {
    let kind = [(CONTENT_TYPE, "text/html; charset=utf-8")];
    match web.is_open(&headers) {
        true => (kind, include_str!("page.html")).into_response(),
        false => (StatusCode::UNAUTHORIZED, kind, include_str!("login.html")).into_response(),
    }
}

/// The query of a link.
#[derive(Deserialize)]
struct LinkQuery {
    link: String,
}

/// Opens a session for the browser that has a link.
async fn login(State(web): State<Web>, query: Result<Query<LinkQuery>, QueryRejection>) -> Response {
    let now = web.parts.service.server().now();
    let session = query.ok().and_then(|Query(LinkQuery { link })| web.links.sessions.open(&link, now));
    let Some(session) = session else {
        let kind = [(CONTENT_TYPE, "text/html; charset=utf-8")];
        return (StatusCode::UNAUTHORIZED, kind, include_str!("login.html")).into_response();
    };
    let secure = if web.secure { "; Secure" } else { "" };
    // The name is new for each process: without an end, cookies of former ones would stay.
    let cookie = format!(
        "{}={session}; Path=/; Max-Age={}; HttpOnly; SameSite=Strict{secure}",
        web.links.cookie,
        WEB_SESSION_TIME_MAX.as_secs()
    );
    // A redirect after a click on another site's page would belong to that site, and the browser
    // would keep the cookie to itself. This page goes on by itself, from its own site.
    let kind = "text/html; charset=utf-8".to_owned();
    ([(CONTENT_TYPE, kind), (SET_COOKIE, cookie)], include_str!("opened.html")).into_response()
}

/// The report for the page, with the warnings in words.
#[derive(Serialize)]
struct WebReport {
    #[serde(flatten)]
    report: StatusReport,
    warnings: Vec<String>,
}

async fn status(State(web): State<Web>, headers: HeaderMap) -> Response {
    if !web.is_open(&headers) {
        return (StatusCode::UNAUTHORIZED, "run `orthrus web` on the server\n").into_response();
    }
    let parts = web.parts.clone();
    match web.workers.run(move || report(&parts)).await {
        Ok(report) => {
            let warnings = warnings(&report).iter().map(ToString::to_string).collect();
            Json(WebReport { report, warnings }).into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Refuses every request that could change something.
async fn read_only(request: Request, next: Next) -> Response {
    match *request.method() {
        Method::GET | Method::HEAD => next.run(request).await,
        _ => (StatusCode::METHOD_NOT_ALLOWED, "the page changes nothing\n").into_response(),
    }
}

/// Adds the headers that keep other sites out.
async fn protected(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_FRAME_OPTIONS, "DENY"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
