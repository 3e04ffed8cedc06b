//! The admin API of a running server: HTTP/1.1 and JSON on a private Unix socket in the state
//! directory. docs/api.md describes it.

mod changes;
mod listings;
mod problem;
mod reports;
mod socket;
mod status;

pub(super) use socket::endpoint;

use super::http::{Author, Workers};
use super::membership::Membership;
use super::reload::Reloads;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json, Router};
use identity::Mapper;
use net::Stats;
use problem::{Answer, Refusal};
use runtime::NfsService;
use std::sync::Arc;
use utoipa::OpenApi;
use utoipa::openapi::OpenApi as Document;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use vfs::Exports;

/// Requests of administrators that are computed at once; further ones wait.
const ADMIN_WORKERS_MAX: usize = 4;

/// The parts of a running server that requests are about.
pub(super) struct ApiParts {
    pub(super) identity: Arc<Mapper>,
    pub(super) exports: Arc<Exports>,
    pub(super) service: Arc<NfsService>,
    pub(super) reloads: Arc<Reloads>,
    pub(super) stats: Arc<Stats>,
    pub(super) membership: Option<Arc<Membership>>,
}

/// The state of all handlers.
#[derive(Clone)]
struct Api {
    parts: Arc<ApiParts>,
    workers: Workers,
}

impl Api {
    /// Computes an answer on a thread that may wait.
    async fn answer<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ApiParts) -> Result<T, Refusal> + Send + 'static,
    ) -> Answer<T> {
        let parts = self.parts.clone();
        let outcome = self.workers.run(move || work(&parts)).await;
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
        .routes(routes!(changes::evict))
        .routes(routes!(changes::revoke))
        .routes(routes!(changes::reload))
        .routes(routes!(changes::drain))
        .split_for_parts()
}

/// Makes the answers to all requests.
fn router(parts: ApiParts) -> Router {
    let (router, document) = routes();
    let document = Arc::new(document);
    let describe = move || {
        let document = document.clone();
        async move { Json(document.as_ref().clone()) }
    };
    router
        .route("/v1/openapi.json", axum::routing::get(describe))
        .fallback(|request: Request| async move { Refusal::no_route(&request) })
        .method_not_allowed_fallback(|request: Request| async move { Refusal::no_method(&request) })
        .layer(from_fn(only_admitted))
        .with_state(Api { parts: Arc::new(parts), workers: Workers::new(ADMIN_WORKERS_MAX) })
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

#[cfg(test)]
mod tests;
