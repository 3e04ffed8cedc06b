//! Requests that change a running server, and their answer.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Removes a client with all of its state.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EvictRequest {
    /// The clientid4, in hexadecimal.
    #[schema(example = "ab04e1f2c9d37785")]
    pub client: String,
}

/// Revokes state: one of both fields.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum RevokeRequest {
    /// The open, lock stateid or delegation with this stateid, in hexadecimal.
    #[schema(example = "6925a3f1b90c4d2e77158a3c")]
    Stateid(String),
    /// All opens with their locks and all delegations of this principal, such as alice@EXAMPLE.ORG
    /// or sys:1000.
    Principal(String),
}

/// Refuses new clients and ends with the last one, or admits new ones again.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DrainRequest {
    /// Whether to admit new clients again.
    #[serde(default)]
    pub cancel: bool,
}

/// The outcome of a change.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct ChangeReport {
    /// Lines for the administrator, one for each change.
    pub lines: Vec<String>,
}

/// A link to the web page.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct WebLink {
    /// The address for a browser. It is good once, within five minutes.
    pub link: String,
}
