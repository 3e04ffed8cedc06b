//! Errors of the API as RFC 9457 describes them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The reason why a request has no other answer (RFC 9457).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Problem {
    /// The status of the HTTP response.
    pub status: u16,
    /// The meaning of the status.
    pub title: String,
    /// The cause, and the remedy if there is one.
    pub detail: String,
}
