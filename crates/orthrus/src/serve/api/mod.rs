//! The admin API of a running server: HTTP/1.1 and JSON on a private Unix socket in the state
//! directory. docs/api.md describes it.

mod changes;
mod listings;
mod problem;
mod recent;
mod reports;
mod socket;
mod status;
mod traces;

pub(super) use recent::{RecentEvents, watch};
pub(super) use socket::endpoint;
pub(super) use status::report;

use super::http::{Author, Workers};
use super::kerberos::Keys;
use super::membership::Membership;
use super::observe::{AuditLog, Traces};
use super::reload::Reloads;
use super::upgrade::Upgrades;
use super::web::WebLinks;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json, Router};
use identity::Mapper;
use net::Stats;
use problem::{Answer, Refusal, RefusalReason};
use runtime::{Gate, NfsService};
use std::sync::Arc;
use utoipa::OpenApi;
use utoipa::openapi::OpenApi as Document;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use vfs::Exports;

/// Reports for administrators that are computed at once, and changes that are made at once; further
/// ones wait. Changes can wait for a file system that hangs, and reports go on.
pub(super) const ADMIN_WORKERS_MAX: usize = 4;

/// Paths of traces that are looked up at once; further ones wait. A file system that hangs keeps
/// the thread, and neither reports nor changes.
pub(super) const SEARCH_WORKERS_MAX: usize = 1;

/// The parts of a running server that requests are about.
pub(super) struct ApiParts {
    pub(super) identity: Arc<Mapper>,
    pub(super) exports: Arc<Exports>,
    pub(super) service: Arc<NfsService>,
    pub(super) reloads: Arc<Reloads>,
    pub(super) stats: Arc<Stats>,
    pub(super) upgrades: Arc<Upgrades>,
    /// Closed while the next process takes over.
    pub(super) gate: Arc<Gate>,
    /// The links to the web page, if it is served.
    pub(super) web: Option<Arc<WebLinks>>,
    pub(super) traces: Arc<Traces>,
    pub(super) audit: Option<AuditLog>,
    pub(super) membership: Option<Arc<Membership>>,
    pub(super) keys: Option<Arc<Keys>>,
    pub(super) recent: RecentEvents,
}

impl ApiParts {
    /// Logs a change by an administrator in the audit log, if there is one.
    fn audit(&self, author: Author, action: &str, result: &str) {
        if let Some(audit) = &self.audit {
            audit.admin(&author.to_string(), action, result);
        }
    }
}

/// The state of all handlers.
#[derive(Clone)]
struct Api {
    parts: Arc<ApiParts>,
    reporters: Workers,
    changers: Workers,
    searchers: Workers,
}

impl Api {
    /// Changes the server on a thread that may wait. While the next process takes over, the change
    /// waits, and fails if that process serves.
    async fn change<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ApiParts) -> Result<T, Refusal> + Send + 'static,
    ) -> Answer<T> {
        self.replace(|parts| {
            let _inside = parts.gate.enter();
            work(parts)
        })
        .await
    }

    /// Replaces the settings, or the process, on a thread that may wait.
    async fn replace<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ApiParts) -> Result<T, Refusal> + Send + 'static,
    ) -> Answer<T> {
        self.run(&self.changers, work).await
    }

    /// Computes an answer on a thread that may wait, however long changes take.
    async fn answer<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ApiParts) -> Result<T, Refusal> + Send + 'static,
    ) -> Answer<T> {
        self.run(&self.reporters, work).await
    }

    async fn run<T: Send + 'static>(
        &self,
        workers: &Workers,
        work: impl FnOnce(&ApiParts) -> Result<T, Refusal> + Send + 'static,
    ) -> Answer<T> {
        let parts = self.parts.clone();
        let outcome = workers.run(move || work(&parts)).await;
        outcome.unwrap_or_else(|_| Err(Refusal::defect())).map(Json)
    }
}

/// The description of the API, without its paths.
#[derive(OpenApi)]
#[openapi(info(
    title = "Orthrus admin API",
    description = "Reports about a running NFS server, and changes of it. A path of version 1 keeps its meaning; \
                   new fields and paths may be added.",
))]
struct Description;

/// Makes the routes and their description, which come from one definition.
fn routes() -> (Router<Api>, Document) {
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(reports::status))
        .routes(routes!(reports::identity))
        .routes(routes!(listings::exports))
        .routes(routes!(listings::clients))
        .routes(routes!(listings::sessions))
        .routes(routes!(listings::contexts))
        .routes(routes!(listings::opens))
        .routes(routes!(listings::locks))
        .routes(routes!(listings::delegations))
        .routes(routes!(traces::trace))
        .routes(routes!(changes::evict))
        .routes(routes!(changes::revoke))
        .routes(routes!(changes::reload))
        .routes(routes!(changes::upgrade))
        .routes(routes!(changes::drain))
        .routes(routes!(changes::web))
        .split_for_parts()
}

/// Makes the answers to all requests.
fn router(parts: Arc<ApiParts>) -> Router {
    let (router, document) = routes();
    let document = Arc::new(document);
    let describe = move || {
        let document = document.clone();
        async move { Json(document.as_ref().clone()) }
    };
    let audited = parts.clone();
    let audit = move |author, request: Request, next| audit_refusals(audited.clone(), author, request, next);
    router
        .route("/v1/openapi.json", axum::routing::get(describe))
        .fallback(|request: Request| async move { Refusal::no_route(&request) })
        .method_not_allowed_fallback(|request: Request| async move { Refusal::no_method(&request) })
        .layer(from_fn(only_admitted))
        .layer(from_fn(audit))
        .with_state(Api {
            parts,
            reporters: Workers::new(ADMIN_WORKERS_MAX),
            changers: Workers::new(ADMIN_WORKERS_MAX),
            searchers: Workers::new(SEARCH_WORKERS_MAX),
        })
}

/// Answers root and the server's own user, also where the directory is open to others by mistake.
async fn only_admitted(author: Option<Extension<Author>>, request: Request, next: Next) -> Response {
    match author {
        Some(Extension(author)) if author.is_admitted() => next.run(request).await,
        author => {
            if let Some(Extension(author)) = author {
                tracing::warn!("{author} may not ask at the administrator's socket");
            }
            Refusal::forbidden().into_response()
        }
    }
}

/// Logs changes that are refused, and all requests of users who may not ask, in the audit log.
async fn audit_refusals(
    parts: Arc<ApiParts>,
    author: Option<Extension<Author>>,
    request: Request,
    next: Next,
) -> Response {
    let (is_change, path) = (!request.method().is_safe(), request.uri().path().to_owned());
    let response = next.run(request).await;
    if let (Some(Extension(author)), Some(RefusalReason(reason))) = (author, response.extensions().get())
        && (is_change || response.status() == StatusCode::FORBIDDEN)
    {
        let action = path.strip_prefix("/v1/").unwrap_or(&path);
        parts.audit(author, action, reason);
    }
    response
}

#[cfg(test)]
mod tests;
