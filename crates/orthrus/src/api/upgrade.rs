//! Upgrades: the request, and its report.

use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;

/// Hands the server over to another process.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UpgradeRequest {
    /// The program of the process (default: the path that the server was started by).
    #[serde(default)]
    pub binary: Option<String>,
    /// Milliseconds that calls in progress may take to end, at most 5000 (default: 600).
    #[serde(default)]
    pub standstill_ms: Option<u64>,
    /// Whether to do it only if that program is another one than the server runs, and to reload
    /// otherwise.
    #[serde(default)]
    pub if_replaced: bool,
}

/// The outcome of a request for an upgrade.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct UpgradeOutcome {
    /// The handover; none if the program has not been replaced, and the server has reloaded.
    pub upgraded: Option<UpgradeReport>,
    /// Lines for the administrator.
    pub lines: Vec<String>,
}

/// A handover that has succeeded.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct UpgradeReport {
    /// The version of the process that has handed over.
    pub from: String,
    /// The version of the process that serves now.
    pub to: String,
    /// The path of its program.
    pub program: String,
    /// The number of the process.
    pub process: u32,
    /// The pause in which clients were not served, in milliseconds.
    pub pause_ms: f64,
    /// The number of connections that went over.
    pub connections: usize,
    /// The number of clients that went over.
    pub clients: usize,
    /// The number of sessions that went over.
    pub sessions: usize,
    /// The number of opens that went over.
    pub opens: usize,
    /// The number of locked ranges that went over.
    pub locks: usize,
    /// The number of delegations that went over.
    pub delegations: usize,
    /// The number of copies that go on.
    pub copies: usize,
    /// The number of Kerberos contexts that went over.
    pub contexts: usize,
}

impl UpgradeReport {
    /// Returns lines for the administrator.
    pub(crate) fn lines(&self) -> Vec<String> {
        let Self { from, to, program, process, pause_ms, connections, clients, sessions, .. } = self;
        let Self { opens, locks, delegations, copies, contexts, .. } = self;
        vec![
            format!("version {to} ({program}, process {process}) serves in place of version {from}"),
            format!("clients paused for {pause_ms:.0} ms"),
            format!(
                "handed over: {connections} connections, {clients} clients, {sessions} sessions, {contexts} contexts, \
                 {opens} opens, {locks} locks, {delegations} delegations, {copies} copies"
            ),
        ]
    }
}

impl fmt::Display for UpgradeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines().join("; "))
    }
}
