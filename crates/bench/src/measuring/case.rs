//! The unit of measurement: one load, for one of the compared variants.

use super::{Axes, CopyLoad, Fetch};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The name of the native metadata load in files.
pub const GIT: &str = "git";

/// The unit of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Megabytes (10^6) a second.
    #[serde(rename = "MB/s")]
    MegabytesPerSecond,
    /// Operations a second, of any size.
    #[serde(rename = "IOPS")]
    OperationsPerSecond,
}

/// One load on one variant. Cases of a group differ in their variant alone, and are measured in
/// turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// The name of the load in tables.
    pub group: String,
    /// The variant: `sys`, `krb5`, `krb5i`, `krb5p`, or another protocol such as `scp`.
    #[serde(rename = "side")]
    pub variant: String,
    /// The unit of its rate.
    pub unit: Unit,
    /// Its coordinates in the evaluation.
    #[serde(default)]
    pub axes: Axes,
    /// The work of the driver.
    pub load: Load,
}

impl Case {
    /// Names it among all cases of its evaluation.
    pub fn id(&self) -> String {
        format!("{} · {}", self.group, self.variant)
    }

    /// Names the flavor that the case is measured with; where variants are something else, the axes
    /// have it.
    pub fn flavor(&self) -> &str {
        match &self.axes {
            Axes::Flavor { flavor } => flavor,
            _ => &self.variant,
        }
    }
}

/// The work of a driver; each driver refuses the loads of others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Load {
    /// Reads and writes of a file, by the project's client.
    Transfer(Transfer),
    /// Small files that are made, looked at, renamed, listed and removed, by the project's client.
    Metadata {
        /// How to get to the server.
        #[serde(flatten)]
        layout: ClientLayout,
    },
    /// The file system operations of git (clone, status, checkout, commit, gc), made by the
    /// project's client.
    Git {
        /// Seed of the files' names, sizes and changes.
        seed: u64,
        /// The repository that they are taken from instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        repository: Option<PathBuf>,
        /// How to get to the server.
        #[serde(flatten)]
        layout: ClientLayout,
    },
    /// Files that are copied to the server, one after the other.
    Copy(CopyLoad),
    /// A file that is read, with caches warm or cold.
    Fetch(Fetch),
}

/// Reads and writes of one file for each client.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    /// Whether places are drawn at random, or follow each other.
    pub random: bool,
    /// Bytes of a request; one that is larger than the server offers goes out in pieces.
    pub size: u64,
    /// Percentage of the requests that write.
    pub writes: u32,
    /// Requests in flight of each client; with a rate the most that may be.
    pub depth: u32,
    /// Requests that all clients together make in a second, on a fixed schedule; without it each
    /// client makes the next as soon as one has finished (closed loop).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// How to get to the server.
    #[serde(flatten)]
    pub layout: ClientLayout,
}

impl Transfer {
    /// Returns the unit of its rate: requests at random places, otherwise bytes.
    pub fn unit(&self) -> Unit {
        if self.random { Unit::OperationsPerSecond } else { Unit::MegabytesPerSecond }
    }
}

/// How many clients get to the server, and how.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientLayout {
    /// Clients with a session, a thread and a file each.
    pub clients: u32,
    /// Principals that the clients are in turn, each with contexts of its own; with AUTH_SYS all
    /// are one user.
    #[serde(skip_serializing_if = "is_one")]
    pub principals: u32,
    /// Connections of a session, as nconnect makes them.
    pub connections: u32,
    /// Calls that may overtake a connection that the client holds back at random, so that they
    /// arrive in another order than that of their sequence numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag_max: Option<u32>,
    /// Slots of a session to ask for; more requests are never in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slots: Option<u32>,
    /// Bytes of a READ at most, as the mount option says; the server may want less.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rsize: Option<u32>,
    /// Bytes of a WRITE at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wsize: Option<u32>,
    /// Whether READs and WRITEs may have as many bytes as the session allows, beyond the server's
    /// preferred sizes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub exceeds_offer: bool,
    /// The server's choice of instructions (`ORTHRUS_CPU`), of a server that the run has started
    /// itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_cpu: Option<String>,
}

fn is_one(count: &u32) -> bool {
    *count == 1
}

impl ClientLayout {
    /// One client with one connection.
    pub const ONE: Self = Self {
        clients: 1,
        principals: 1,
        connections: 1,
        lag_max: None,
        slots: None,
        rsize: None,
        wsize: None,
        exceeds_offer: false,
        server_cpu: None,
    };
}

impl Default for ClientLayout {
    fn default() -> Self {
        Self::ONE
    }
}

impl Load {
    /// How to get to the server, of loads that the project's client makes.
    pub fn layout(&self) -> &ClientLayout {
        match self {
            Self::Transfer(transfer) => &transfer.layout,
            Self::Git { layout, .. } | Self::Metadata { layout } => layout,
            Self::Copy(_) | Self::Fetch(_) => &ClientLayout::ONE,
        }
    }
}
