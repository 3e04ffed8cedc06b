//! The lines of a trace: the reports of `orthrus trace`.

use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::{IntoParams, ToSchema};

/// The query of a trace: which operations it shows. Without any field it shows all.
#[derive(Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct TraceQuery {
    /// Only operations of clients at this address.
    #[serde(default)]
    pub client: Option<String>,
    /// Only operations of this principal, such as alice@EXAMPLE.ORG or sys:1000.
    #[serde(default)]
    pub principal: Option<String>,
    /// Only operations on the file or folder with this path, as clients mount it.
    #[serde(default)]
    pub file: Option<String>,
    /// Show names, not only their lengths.
    #[serde(default)]
    pub names: bool,
}

impl fmt::Display for TraceQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, principal, file, names } = self;
        let filters = [("client", client), ("principal", principal), ("file", file)];
        let filters = filters.iter().filter_map(|(key, value)| Some(format!("{key} {:?}", value.as_ref()?)));
        let parts: Vec<_> = filters.chain(names.then(|| "with names".to_owned())).collect();
        match parts.is_empty() {
            true => f.write_str("all operations"),
            false => f.write_str(&parts.join(", ")),
        }
    }
}

/// A line of a trace.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct TraceLine {
    /// Number of operations that this trace had no room for so far.
    pub dropped: u64,
    /// The operation; a line without one says that the trace lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<TracedOperation>,
}

/// An operation and its reply.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct TracedOperation {
    /// When it had run (RFC 3339).
    pub time: String,
    /// Address and port of the client.
    pub client: String,
    pub principal: String,
    pub flavor: String,
    /// The operation's name, such as READ.
    pub operation: String,
    /// The pseudo path of the export that it began in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub export: Option<String>,
    /// The current object of the file system before the operation, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    /// The names in the arguments, or their lengths.
    pub names: Vec<String>,
    /// Other arguments in short; never data.
    pub detail: String,
    /// The status of the reply, such as NFS4_OK.
    pub status: String,
    /// How long the operation ran, in seconds, without waits before it.
    pub seconds: f64,
}
