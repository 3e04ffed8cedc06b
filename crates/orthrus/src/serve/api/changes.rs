//! Changes of the running server. The log says who asked for each.

use super::problem::{Answer, Refusal};
use super::{Api, ApiParts, recent};
use crate::api::{
    ChangeReport, DrainRequest, EvictRequest, Problem, RevokeRequest, UpgradeOutcome, UpgradeRequest, WebLink,
};
use crate::serve::drain as drains;
use crate::serve::http::{Author, EndlessAnswer};
use crate::serve::reload::Asker;
use crate::serve::upgrade::{STANDSTILL_TIME, STANDSTILL_TIME_MAX};
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::{Extension, Json};
use server::engine::unhex;
use state::{Principal, RevokeError, RevokedCounts, RevokedKind};
use std::path::PathBuf;
use std::time::Duration;

type Body<T> = Result<Json<T>, JsonRejection>;

/// Remove a client with its sessions, opens, locks and delegations.
#[utoipa::path(
    post,
    path = "/v1/evict",
    request_body = EvictRequest,
    responses((status = 200, body = ChangeReport), (status = "default", body = Problem))
)]
pub(super) async fn evict(
    State(api): State<Api>,
    Extension(author): Extension<Author>,
    body: Body<EvictRequest>,
) -> Answer<ChangeReport> {
    let Json(EvictRequest { client }) = body?;
    api.change(move |parts| {
        let server = parts.service.server();
        let id = unhex(&client).and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes);
        match id {
            Some(id) if server.engine().evict(id, server.now()) => {
                let line = format!("client {client} and its state are removed");
                close_removed(parts);
                tracing::warn!("eviction by {author}: {line}");
                parts.audit(author, "evict", &line);
                Ok(ChangeReport { lines: vec![line] })
            }
            _ => Err(Refusal::not_found(format!(
                "there is no client {client:?}; `orthrus clients` lists the IDs"
            ))),
        }
    })
    .await
}

/// Revoke an open, a lock stateid or a delegation, or all opens and delegations of a principal.
#[utoipa::path(
    post,
    path = "/v1/revoke",
    request_body = RevokeRequest,
    responses((status = 200, body = ChangeReport), (status = "default", body = Problem))
)]
pub(super) async fn revoke(
    State(api): State<Api>,
    Extension(author): Extension<Author>,
    body: Body<RevokeRequest>,
) -> Answer<ChangeReport> {
    let Json(revoke) = body?;
    api.change(move |parts| {
        let line = match revoke {
            RevokeRequest::Stateid(stateid) => revoke_stateid(parts, &stateid)?,
            RevokeRequest::Principal(principal) => revoke_principal(parts, &principal)?,
        };
        close_removed(parts);
        tracing::warn!("revocation by {author}: {line}");
        parts.audit(author, "revoke", &line);
        Ok(ChangeReport { lines: vec![line] })
    })
    .await
}

/// Closes the objects that the backends keep between requests. A removed file takes up its space
/// until then, and is often the reason for the revocation.
fn close_removed(parts: &ApiParts) {
    // An object goes when two calls have found it unused.
    for _ in 0..2 {
        parts.exports.snapshot().iter().for_each(|export| export.backend.trim());
    }
}

/// The refusal where clients have not freed too many stateids.
fn too_many() -> Refusal {
    let why = "clients have not freed 65,536 revoked stateids yet; evict a client that does not";
    Refusal::new(StatusCode::CONFLICT, why)
}

fn revoke_stateid(parts: &ApiParts, stateid: &str) -> Result<String, Refusal> {
    let server = parts.service.server();
    let other = unhex(stateid).and_then(|bytes| bytes.try_into().ok());
    let revoked =
        other.map_or(Err(RevokeError::Unknown), |other| server.engine().revoke(other, server.now()));
    let revoked = revoked.map_err(|error| match error {
        RevokeError::Unknown => Refusal::not_found(format!(
            "there is no open, lock or delegation {stateid:?}; `orthrus opens`, `locks` and `delegations` list the \
             stateids"
        )),
        RevokeError::TooMany => too_many(),
    })?;
    let kind = match revoked.kind {
        RevokedKind::Open => "open",
        RevokedKind::Lock => "lock stateid",
        RevokedKind::Delegation => "delegation",
    };
    Ok(format!("the {kind} {stateid} of client {:016x} is revoked", revoked.client))
}

fn revoke_principal(parts: &ApiParts, name: &str) -> Result<String, Refusal> {
    let server = parts.service.server();
    let whole = if name.starts_with("sys:") { name.to_owned() } else { format!("gss:{name}") };
    let counts = server.engine().revoke_principal(&Principal::new(whole), server.now());
    let RevokedCounts { opens, delegations, copies, incomplete } = counts;
    match (opens + delegations + copies, incomplete) {
        (0, false) => {
            return Err(Refusal::not_found(format!(
                "{name:?} has no opens and no delegations; `orthrus opens` lists the users"
            )));
        }
        (0, true) => return Err(too_many()),
        _ => {}
    }
    let mut line = format!("{opens} opens and {delegations} delegations of {name:?} are revoked");
    if copies > 0 {
        line += &format!(", and {copies} background copies end");
    }
    if incomplete {
        line += ", and others remain: clients have not freed 65,536 revoked stateids yet";
    }
    Ok(line)
}

/// Apply the configuration file, like SIGHUP.
#[utoipa::path(
    post,
    path = "/v1/reload",
    responses((status = 200, body = ChangeReport), (status = "default", body = Problem))
)]
pub(super) async fn reload(
    State(api): State<Api>,
    Extension(author): Extension<Author>,
) -> Answer<ChangeReport> {
    api.replace(move |parts| Ok(ChangeReport { lines: run_reload(parts, author)? })).await
}

fn run_reload(parts: &ApiParts, author: Author) -> Result<Vec<String>, Refusal> {
    let outcome = parts.reloads.run(Asker::Administrator(author));
    outcome.map_err(|error| Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, format!("{error:#}")).audited())
}

/// Go on in another process, such as that of a new version, without an interruption for clients.
#[utoipa::path(
    post,
    path = "/v1/upgrade",
    request_body = UpgradeRequest,
    responses((status = 200, body = UpgradeOutcome), (status = "default", body = Problem))
)]
pub(super) async fn upgrade(
    State(api): State<Api>,
    Extension(author): Extension<Author>,
    Extension(endless): Extension<EndlessAnswer>,
    body: Body<UpgradeRequest>,
) -> Answer<UpgradeOutcome> {
    // Its steps have limits of their own, and the outcome must arrive.
    endless.begin();
    let Json(UpgradeRequest { binary, standstill_ms, if_replaced }) = body?;
    api.replace(move |parts| {
        let refuse = |error: anyhow::Error| {
            let why = format!("no upgrade, and the server goes on as before: {error:#}");
            Refusal::new(StatusCode::CONFLICT, why)
        };
        let binary = binary.map(PathBuf::from);
        if if_replaced && !parts.upgrades.has_new_binary(binary.as_deref()).map_err(refuse)? {
            return Ok(UpgradeOutcome { upgraded: None, lines: run_reload(parts, author)? });
        }
        let standstill = standstill_ms.map_or(STANDSTILL_TIME, Duration::from_millis);
        let recent = recent::image(parts);
        let report = parts.upgrades.run(binary, standstill.min(STANDSTILL_TIME_MAX), recent, author);
        let report = report.map_err(refuse)?;
        Ok(UpgradeOutcome { lines: report.lines(), upgraded: Some(report) })
    })
    .await
}

/// Refuse new clients and end with the last one, or admit new ones again.
#[utoipa::path(
    post,
    path = "/v1/drain",
    request_body = DrainRequest,
    responses((status = 200, body = ChangeReport), (status = "default", body = Problem))
)]
pub(super) async fn drain(
    State(api): State<Api>,
    Extension(author): Extension<Author>,
    body: Body<DrainRequest>,
) -> Answer<ChangeReport> {
    let Json(DrainRequest { cancel }) = body?;
    api.change(move |parts| {
        let line = match cancel {
            true => drains::cancel(&parts.service, author),
            false => drains::start(&parts.service, &parts.gate, author).map_err(|error| {
                let why = format!("the server cannot watch its clients: {error}");
                Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, why)
            })?,
        };
        parts.audit(author, "drain", &line);
        Ok(ChangeReport { lines: vec![line] })
    })
    .await
}

/// Make a link to the web page that is good once, within five minutes.
#[utoipa::path(
    post,
    path = "/v1/web",
    responses((status = 200, body = WebLink), (status = "default", body = Problem))
)]
pub(super) async fn web(State(api): State<Api>, Extension(author): Extension<Author>) -> Answer<WebLink> {
    api.answer(move |parts| {
        let Some(links) = &parts.web else {
            return Err(Refusal::not_found("the server has no web page; set `web` and restart it"));
        };
        let link = links.make(parts.service.server().now()).map_err(|error| {
            Refusal::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("the system gives no random numbers: {error}"),
            )
        })?;
        tracing::info!("a link to the web page was made for {author}");
        parts.audit(author, "web", "a link was made");
        Ok(WebLink { link })
    })
    .await
}
