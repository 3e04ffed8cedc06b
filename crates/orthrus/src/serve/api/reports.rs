//! Reports: the status of the server, and the local user of a principal.

use super::super::exports;
use super::problem::{Answer, Refusal};
use super::{Api, ApiParts, status};
use crate::api::{IdReport, IdentityQuery, Problem, StatusReport};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use std::sync::Arc;
use vfs::{Caller, Export};

/// The state and the counters of the server.
#[utoipa::path(
    get,
    path = "/v1/status",
    responses((status = 200, body = StatusReport), (status = "default", body = Problem))
)]
pub(super) async fn status(State(api): State<Api>) -> Answer<StatusReport> {
    api.answer(|parts| Ok(status::report(parts))).await
}

/// The local user of a principal, with the steps that lead to it.
#[utoipa::path(
    get,
    path = "/v1/identity",
    params(IdentityQuery),
    responses((status = 200, body = IdReport), (status = "default", body = Problem))
)]
pub(super) async fn identity(
    State(api): State<Api>,
    query: Result<Query<IdentityQuery>, QueryRejection>,
) -> Answer<IdReport> {
    let Query(IdentityQuery { principal }) = query?;
    api.answer(move |parts| explain(parts, principal)).await
}

fn explain(parts: &ApiParts, principal: String) -> Result<IdReport, Refusal> {
    let explanation = parts.identity.explain_cached(&principal, parts.service.server().now());
    let table = parts.exports.snapshot();
    let seen = |caller: Option<&Caller>| {
        let seen = |export: &Arc<Export>| exports::seen(&export.pseudo_path, &export.rules, caller);
        table.iter().filter(|export| !export.absent).flat_map(seen).collect()
    };
    Ok(IdReport::new("server", principal, explanation, seen))
}
