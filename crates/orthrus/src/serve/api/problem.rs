//! Refusals of requests, as JSON.

use crate::api::Problem;
use axum::Json;
use axum::extract::Request;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::response::{IntoResponse, Response};

/// The answer to a request: JSON, or the reason why there is none.
pub(super) type Answer<T> = Result<Json<T>, Refusal>;

/// The reason why a request has no other answer.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    detail: String,
    /// Whether the audit log has it already.
    is_audited: bool,
}

/// The reason of an answer for the audit log, among its extensions.
#[derive(Clone)]
pub(super) struct RefusalReason(pub(super) String);

impl Refusal {
    /// Refuses with a status; `detail` has the cause and the remedy.
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into(), is_audited: false }
    }

    /// Keeps it out of the audit log, which has it already.
    pub(super) fn audited(self) -> Self {
        Self { is_audited: true, ..self }
    }

    pub(super) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    pub(super) fn forbidden() -> Self {
        Self::new(StatusCode::FORBIDDEN, "only root and its own user may ask")
    }

    pub(super) fn defect() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "a defect of the server; its log has the message")
    }

    pub(super) fn no_route(request: &Request) -> Self {
        let (method, path) = (request.method(), request.uri().path());
        Self::not_found(format!(
            "this version has no {method} {path}; GET /v1/openapi.json lists all requests"
        ))
    }

    pub(super) fn no_method(request: &Request) -> Self {
        let (method, path) = (request.method(), request.uri().path());
        Self::new(StatusCode::METHOD_NOT_ALLOWED, format!("{path} does not take {method}"))
    }
}

impl From<JsonRejection> for Refusal {
    fn from(error: JsonRejection) -> Self {
        Self::new(error.status(), error.body_text())
    }
}

impl From<QueryRejection> for Refusal {
    fn from(error: QueryRejection) -> Self {
        Self::new(error.status(), error.body_text())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let title = self.status.canonical_reason().unwrap_or_default().to_owned();
        let reason = RefusalReason(format!("{title}: {}", self.detail));
        let problem = Problem { status: self.status.as_u16(), title, detail: self.detail };
        let mut response = (self.status, Json(problem)).into_response();
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        if !self.is_audited {
            response.extensions_mut().insert(reason);
        }
        response
    }
}
