//! Exports, clients, sessions, contexts, opens, locks and delegations: the reports of `orthrus
//! clients` and others.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// A listing: rows of one kind, and how many more there are.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct ListingReport<T> {
    /// The rows, in no order.
    pub rows: Vec<T>,
    /// Number of rows beyond the limit of a listing.
    pub left_out: usize,
}

/// The query of a listing.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListingQuery {
    /// Only rows with this text in a field, such as a path, a principal or an address.
    #[serde(default)]
    pub filter: Option<String>,
    /// Only rows of the client with this address or ID, as a whole. Rows without one do not match.
    #[serde(default)]
    pub client: Option<String>,
    /// Only rows of this principal, as a whole. Rows without one do not match.
    #[serde(default)]
    pub principal: Option<String>,
    /// Only rows of the export with this pseudo path. Rows without one do not match.
    #[serde(default)]
    pub export: Option<String>,
}

/// A row of `orthrus exports`: the rule of an export for some clients. The first row of an export
/// that names a client counts.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct ExportRow {
    /// The pseudo path, under which clients mount it.
    pub export: String,
    /// The number in filehandles, for the key `fsid`.
    #[serde(default)]
    pub fsid: u32,
    /// The networks and names of the clients; empty for any address.
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
    /// The servers to which a referral refers; empty for files of this server.
    #[serde(default)]
    pub refer: Vec<String>,
    /// Other servers that have the same files.
    #[serde(default)]
    pub locations: Vec<String>,
}

/// A row of `orthrus clients`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
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
    /// Requests of its sessions so far; a slot counts up to 2^32.
    pub requests: u64,
    pub opens: usize,
    /// Number of locked ranges.
    pub locks: usize,
    pub delegations: usize,
    /// Seconds since its lease was renewed.
    pub silent: u64,
    /// `active`, `unconfirmed`, or `courtesy` after its lease has run out.
    pub state: String,
}

/// A row of `orthrus sessions`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct SessionRow {
    /// The session ID, in hexadecimal.
    pub session: String,
    pub client: String,
    pub address: String,
    /// The client's principal, or `sys:UID`.
    pub principal: String,
    /// The minor version: `4.1` or `4.2`.
    pub version: String,
    /// Connections of the fore channel.
    pub connections: usize,
    /// Slots with a request that runs now.
    pub slots_running: usize,
    /// Slots that the client may use.
    pub slots_granted: u32,
    /// The flavors of the last requests on its slots.
    pub flavors: Vec<String>,
    /// The backchannel; absent if the client asked for none.
    pub backchannel: Option<Backchannel>,
}

/// The backchannel of a session.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct Backchannel {
    /// `up` if callbacks get through as far as is known, else `down`.
    pub state: String,
    pub connections: usize,
    /// The authentication of callbacks, in the order in which it is tried: `none`, `sys`, `krb5`,
    /// `krb5i` or `krb5p`.
    pub flavors: Vec<String>,
}

/// A row of `orthrus contexts`: a Kerberos context.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
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
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct OpenRow {
    /// The stateid without its sequence number, in hexadecimal: see `orthrus revoke`.
    pub stateid: String,
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
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct LockRow {
    /// The stateid without its sequence number, in hexadecimal: see `orthrus revoke`.
    pub stateid: String,
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
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct DelegationRow {
    /// The stateid without its sequence number, in hexadecimal: see `orthrus revoke`.
    pub stateid: String,
    pub client: String,
    pub address: String,
    /// The principal whose OPEN got it, or `sys:UID`.
    pub user: String,
    /// The pseudo path of the export.
    pub export: String,
    /// The path on the server, if the backend knows it.
    pub path: Option<String>,
    /// The kind, `read` or `write`.
    pub kind: String,
    /// `held`, `recalled` or `revoked`.
    pub state: String,
}
