//! Exports, clients, contexts, opens, locks and delegations: the reports of `orthrus clients` and
//! the like.

use serde::{Deserialize, Serialize};

/// The subject of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ListingKind {
    Exports,
    Clients,
    Contexts,
    Opens,
    Locks,
    Delegations,
}

/// A listing: rows of one kind, and how many more there are.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ListingReport {
    /// The rows, in no order.
    pub rows: ListingRows,
    /// Number of rows beyond the limit of a listing.
    pub left_out: usize,
}

/// The rows of a listing.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ListingRows {
    Exports(Vec<ExportRow>),
    Clients(Vec<ClientRow>),
    Contexts(Vec<ContextRow>),
    Opens(Vec<OpenRow>),
    Locks(Vec<LockRow>),
    Delegations(Vec<DelegationRow>),
}

/// A row of `orthrus exports`: the rules of an export for some clients. The first row of an export
/// that has a client's network counts.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ExportRow {
    /// The pseudo path, under which clients mount it.
    pub export: String,
    /// The networks of the clients; empty for any address.
    pub clients: Vec<String>,
    /// The flavors in order of preference.
    pub sec: Vec<String>,
    /// Whether changes are refused.
    pub read_only: bool,
    /// The callers whose identity is replaced: `none`, `root` or `all`.
    pub squash: String,
    /// The user ID for these callers.
    pub anon_uid: u32,
    /// Whether `sys` needs a source port below 1024.
    pub secure: bool,
}

/// A row of `orthrus clients`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ClientRow {
    /// The clientid4, in hexadecimal.
    pub id: String,
    /// The address that it was created from.
    pub address: String,
    /// The principal that created it, or `sys:UID`.
    pub principal: String,
    /// `4.0`, or `4.1+` for NFSv4.1 and NFSv4.2.
    pub version: String,
    /// The name that the client chose for itself.
    pub owner: String,
    pub sessions: usize,
    pub opens: usize,
    /// Lock stateids and locked ranges.
    pub locks: usize,
    pub delegations: usize,
    /// Seconds since its lease was renewed.
    pub silent: u64,
    /// `active`, `unconfirmed`, or `courtesy` after its lease has run out.
    pub state: String,
}

/// A row of `orthrus contexts`: a Kerberos context.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ContextRow {
    /// The client's principal, of a user or of a machine.
    pub principal: String,
    /// The user ID that its calls act with; absent for nobody.
    pub uid: Option<u32>,
    /// The name of the encryption type, such as aes256-cts-hmac-sha1-96.
    pub enctype: String,
    /// Whether a service got the ticket in the principal's name.
    pub delegated: bool,
    /// Seconds until the ticket expires, and the clock skew that Kerberos allows.
    pub expires: u64,
    /// Seconds since the last call; absent before the first.
    pub silent: Option<u64>,
}

/// A row of `orthrus opens`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OpenRow {
    pub client: String,
    pub address: String,
    /// The user's principal, or `sys:UID`.
    pub user: String,
    /// The pseudo path of the export.
    pub export: String,
    /// The path on the server, if the backend knows it.
    pub path: Option<String>,
    /// `read`, `write` or `both`.
    pub access: String,
    /// `none`, `read`, `write` or `both`.
    pub deny: String,
    /// Number of locked ranges.
    pub locks: usize,
}

/// A row of `orthrus locks`: a locked range.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LockRow {
    pub client: String,
    pub address: String,
    /// The user's principal, or `sys:UID`.
    pub user: String,
    /// The pseudo path of the export.
    pub export: String,
    /// The path on the server, if the backend knows it.
    pub path: Option<String>,
    /// The kind, `read` or `write`.
    pub kind: String,
    /// The offset of the first byte.
    pub first: u64,
    /// The last byte; absent for a lock up to the end of the file, however long it grows.
    pub last: Option<u64>,
}

/// A row of `orthrus delegations`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DelegationRow {
    pub client: String,
    pub address: String,
    /// The client's principal, or `sys:UID`.
    pub principal: String,
    /// The pseudo path of the export.
    pub export: String,
    /// The path on the server, if the backend knows it.
    pub path: Option<String>,
    /// The kind, `read` or `write`.
    pub kind: String,
    /// `held`, `recalled` or `revoked`.
    pub state: String,
}
