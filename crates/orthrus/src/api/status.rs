//! The state and the counters of a server, as `orthrus status` shows them.

use super::ClientRow;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// A server at a moment. Counters begin at zero with the server.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub(crate) struct StatusReport {
    pub version: String,
    /// `serving`, `grace` in the grace period, `draining`, or `silent` for a member of a cluster
    /// that has no contact to it.
    pub state: String,
    /// The cluster of gateways that the server is a member of.
    #[serde(default)]
    pub cluster: Option<ClusterReport>,
    /// Seconds since the start.
    pub uptime: f64,
    /// Objects held now: connections, contexts, clients and others.
    pub held: BTreeMap<String, u64>,
    /// Processor time in seconds, if the system tells it.
    pub processor: Option<f64>,
    /// Memory in bytes, if the system tells it.
    pub resident: Option<u64>,
    /// Bytes received from clients.
    pub received: u64,
    /// Bytes sent to clients.
    pub sent: u64,
    /// The clients that sent a request last, at most 50.
    pub clients: Vec<ClientRow>,
    /// The flavors in the order sys, krb5, krb5i, krb5p; then calls without one.
    pub flavors: Vec<FlavorStatus>,
    /// The exports that had requests, and `other` for those beyond the limit of counters.
    pub exports: Vec<ExportStatus>,
    /// The files that requests were about most often, at most 20.
    pub files: Vec<FileStatus>,
    /// One request in so many is a sample of `files`.
    pub sampled_one_in: u64,
    /// The upper bounds of the classes of latencies in seconds; a last class has none.
    pub latency_bounds: Vec<f64>,
    /// Requests by the operation that they were about, in classes of latencies.
    pub latency_by_operation: BTreeMap<String, Vec<u64>>,
    /// Requests by flavor, in classes of latencies.
    pub latency_by_flavor: BTreeMap<String, Vec<u64>>,
    /// Operations that have run, by name.
    pub operations: BTreeMap<String, u64>,
    /// Operations that have failed, by status.
    pub failures: BTreeMap<String, u64>,
    /// The events of `orthrus_events_total`.
    pub events: BTreeMap<String, u64>,
    /// Requests that the rules of an export refused, by the rule.
    pub refusals: BTreeMap<String, u64>,
    /// Lookups of identities without an answer in time, by outcome.
    pub lookups: BTreeMap<String, u64>,
    /// Errors of exported file systems.
    pub file_system_errors: u64,
    /// Events of the last hour that deserve a look, by name.
    #[serde(default)]
    pub recent: BTreeMap<String, u64>,
    /// Whether records of clients cannot be written, so that these clients could not reclaim after
    /// a restart.
    #[serde(default)]
    pub records_incomplete: bool,
    /// The reason why the keytab is of no use, if it is not: the previous keys stay in use.
    #[serde(default)]
    pub keytab_failure: Option<String>,
    /// The last reload, if there was one.
    #[serde(default)]
    pub reload: Option<ReloadStatus>,
}

/// The outcome of a reload.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub(crate) struct ReloadStatus {
    /// The reason why it has changed nothing; none if the settings of the file are in force.
    pub failed: Option<String>,
    /// Keys of the file that apply at the next start only.
    pub at_restart: Vec<String>,
}

/// A cluster of gateways, as a member of it sees it.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub(crate) struct ClusterReport {
    /// The name of this member.
    pub node: String,
    /// The number of its start.
    pub instance: u64,
    /// The epoch in which clients are recorded.
    pub epoch: u64,
    /// The epoch whose clients reclaim; 0 outside of a grace period.
    pub recovery: u64,
    /// Whether this member refuses new opens and locks of shared files.
    pub enforcing: bool,
    /// The reason for a wait; empty for none.
    pub waits: String,
    /// Seconds since the last contact with the cluster.
    pub contact: f64,
    /// Clients of this member that may reclaim after its next start.
    pub clients: usize,
    pub members: Vec<ClusterMember>,
}

/// A member of a cluster.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub(crate) struct ClusterMember {
    pub node: String,
    /// Whether its clients have state to reclaim.
    pub needs_grace: bool,
    /// Whether it refuses new opens and locks.
    pub enforcing: bool,
}

/// The requests of a flavor.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub(crate) struct FlavorStatus {
    pub name: String,
    pub requests: u64,
    /// Seconds by stage, see docs/monitoring.md.
    pub stages: BTreeMap<String, f64>,
}

/// The requests of an export.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub(crate) struct ExportStatus {
    /// The pseudo path of the export.
    pub export: String,
    pub requests: u64,
    /// Bytes of the requests.
    pub received: u64,
    /// Bytes of the replies.
    pub sent: u64,
}

/// A file that requests were about.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub(crate) struct FileStatus {
    /// The pseudo path of its export.
    pub export: String,
    /// The path on the server if a client has the file open, else its handle in hexadecimal.
    pub file: String,
    /// The number of samples.
    pub samples: u64,
}
