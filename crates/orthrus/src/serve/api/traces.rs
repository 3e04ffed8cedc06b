//! Traces: operations as they run.

use super::problem::Refusal;
use super::{Api, ApiParts};
use crate::api::{Problem, TraceLine, TraceQuery};
use crate::serve::http::{Author, EndlessAnswer};
use crate::serve::observe::{TraceFilter, TracesFull};
use axum::Extension;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use std::time::Duration;
use tokio::time::timeout;
use vfs::Caller;

/// How long a trace waits for the file system of its path.
const SEARCH_TIME_MAX: Duration = Duration::from_secs(10);

/// Operations as they run, one JSON object a line, until the connection ends.
#[utoipa::path(
    get,
    path = "/v1/trace",
    params(TraceQuery),
    responses(
        (status = 200, body = TraceLine, content_type = "application/x-ndjson"),
        (status = "default", body = Problem)
    )
)]
pub(super) async fn trace(
    State(api): State<Api>,
    Extension(author): Extension<Author>,
    Extension(endless): Extension<EndlessAnswer>,
    query: Result<Query<TraceQuery>, QueryRejection>,
) -> Result<Response, Refusal> {
    let Query(query) = query?;
    let seen = query.to_string();
    let filter = filter(&api, query).await?;
    let service = api.parts.service.clone();
    let observe = move |is_on| service.server().engine().set_observed(is_on);
    let lines = api.parts.traces.begin(filter, observe).map_err(|TracesFull| {
        Refusal::new(StatusCode::CONFLICT, "four traces run already; end one of them")
    })?;
    tracing::info!("a trace was begun by {author}: {seen}");
    api.parts.audit(author, "trace", &seen);
    endless.begin();
    Ok(([(CONTENT_TYPE, "application/x-ndjson")], Body::new(lines)).into_response())
}

async fn filter(api: &Api, query: TraceQuery) -> Result<TraceFilter, Refusal> {
    let TraceQuery { client, principal, file, names } = query;
    let client = client.map(|text| {
        let why = |_| Refusal::new(StatusCode::BAD_REQUEST, format!("{text:?} is no IP address"));
        text.parse::<std::net::IpAddr>().map(|address| address.to_canonical()).map_err(why)
    });
    let file = match file {
        Some(path) => Some(search(api, path).await?),
        None => None,
    };
    Ok(TraceFilter { client: client.transpose()?, principal, file, names })
}

/// As [`find`], on a thread that may wait for the file system.
async fn search(api: &Api, path: String) -> Result<(String, Vec<u8>), Refusal> {
    let late = Refusal::new(
        StatusCode::SERVICE_UNAVAILABLE,
        format!("the file system of {path:?} does not answer; trace its clients instead"),
    );
    let parts = api.parts.clone();
    let found = api.searchers.run(move || find(&parts, &path));
    let found = timeout(SEARCH_TIME_MAX, found).await.map_err(|_| late)?;
    found.map_err(|_| Refusal::defect())?
}

/// Returns the export of a path, and the handle of the object there.
fn find(parts: &ApiParts, path: &str) -> Result<(String, Vec<u8>), Refusal> {
    let table = parts.exports.snapshot();
    let below = |pseudo: &str| {
        let rest = path.strip_prefix(pseudo.trim_end_matches('/'))?;
        (rest.is_empty() || rest.starts_with('/')).then(|| rest.to_owned())
    };
    let found = table.iter().filter_map(|export| Some((export, below(&export.pseudo_path)?)));
    let Some((export, rest)) = found.max_by_key(|(export, _)| export.pseudo_path.len()) else {
        return Err(Refusal::not_found(format!(
            "{path:?} is in no export; name it as clients see it, below a path of `orthrus exports`"
        )));
    };
    let mut names = rest.split('/').filter(|name| !name.is_empty());
    let root = export.backend.root();
    let object =
        names.try_fold(root, |at, name| export.backend.lookup(&Caller::root(), &at, name.as_bytes()));
    let object = object.map_err(|error| Refusal::not_found(format!("{path:?}: {error}")))?;
    Ok((export.pseudo_path.clone(), object.as_bytes().to_owned()))
}
