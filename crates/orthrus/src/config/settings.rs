//! The settings of `orthrus serve`, checked and complete.

use server::engine::{Delegations, NumericOwners};
use std::collections::HashMap;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use vfs::{ANON_ID, Network, SecFlavor, Squash};

/// The port of NFS (RFC 8881 section 2.9.3).
pub(crate) const NFS_PORT: u16 = 2049;

/// Everything that `orthrus serve` needs to know.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Address and port to listen on.
    pub listen: SocketAddr,
    /// Whether only programs of this machine may connect that root or this process' user runs.
    pub same_user: bool,
    /// Address of the metrics endpoint; `None` disables it.
    pub metrics: Option<SocketAddr>,
    /// Threads that serve; 0: one a core.
    pub shards: usize,
    /// The domain of named owners (`alice@domain`).
    pub domain: String,
    /// The service keys; without them only `sys` can be served.
    pub keytab: Option<PathBuf>,
    /// Realms whose principals are local users; empty: the realms of the keytab.
    pub realms: Vec<String>,
    /// Principals, written in full, that act as a local user of another name: the only way to
    /// become uid 0.
    pub principals: HashMap<String, String>,
    /// Where the server keeps its secret and its client records; `None`: the default place.
    pub state_dir: Option<PathBuf>,
    /// How long a silent client keeps its state.
    pub lease_time: Duration,
    /// How long after a restart clients may reclaim their state.
    pub grace_time: Duration,
    /// Whether NFSv4.0 is spoken, too.
    pub nfs40: bool,
    /// The kinds of delegations that clients get.
    pub delegations: Delegations,
    /// How long a client may take to give a delegation back; `None`: the lease.
    pub recall_time: Option<Duration>,
    /// Whether local programs see the locks of clients.
    pub local_locks: bool,
    /// When a number is an owner.
    pub numeric_owners: NumericOwners,
    /// Limits of memory, connections and state.
    pub limits: Limits,
    /// The exports; at least one.
    pub exports: Vec<ExportSettings>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: (Ipv6Addr::UNSPECIFIED, NFS_PORT).into(),
            same_user: false,
            metrics: None,
            shards: 0,
            domain: String::new(),
            keytab: None,
            realms: Vec::new(),
            principals: HashMap::new(),
            state_dir: None,
            lease_time: Duration::from_secs(60),
            grace_time: Duration::from_secs(60),
            nfs40: true,
            // Write delegations would make local readers wait for clients, so they are opt-in.
            delegations: Delegations::Read,
            recall_time: None,
            local_locks: true,
            numeric_owners: NumericOwners::default(),
            limits: Limits::default(),
            exports: Vec::new(),
        }
    }
}

/// Bounds that an administrator may change; the rest have constants beside the code that they
/// bound.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// Connections open at once.
    pub connections_max: usize,
    /// Kerberos contexts held at once.
    pub contexts_max: usize,
    /// NFS clients known at once.
    pub clients_max: usize,
    /// Bytes of unfinished requests held at once.
    pub input_bytes_max: usize,
    /// Requests that one session may have under way.
    pub slots_max: u32,
    /// Objects of the file system kept open for speed.
    pub open_files_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 16_384,
            contexts_max: 65_536,
            clients_max: 16_384,
            input_bytes_max: 256 << 20,
            slots_max: 128,
            open_files_max: 4096,
        }
    }
}

/// Where an export's files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Storage {
    /// A folder of this machine.
    Folder(PathBuf),
    /// Memory, of at most so many bytes; gone when the server ends.
    Memory(u64),
}

/// The treatment of submounts of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nested {
    /// They do not exist for clients.
    Hide,
    /// They are part of the export, each with an fsid of its own.
    Show,
}

impl FromStr for Nested {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "hide" => Ok(Self::Hide),
            "show" => Ok(Self::Show),
            other => Err(format!("{other:?} is no choice of nested; there are hide and show")),
        }
    }
}

/// The settings of one export.
#[derive(Clone, Debug)]
pub(crate) struct ExportSettings {
    /// Where the files are.
    pub storage: Storage,
    /// Where clients find it.
    pub pseudo: String,
    /// Allowed flavors in order of preference.
    pub flavors: Vec<SecFlavor>,
    /// Flavors by client network, which replace `flavors`; the first network that contains the
    /// client counts.
    pub flavors_from: Vec<(Network, Vec<SecFlavor>)>,
    /// Whether `sys` is good only from a privileged source port.
    pub secure: bool,
    /// Whether changes are refused.
    pub read_only: bool,
    /// The callers whose identity is replaced.
    pub squash: Squash,
    /// Whether clients may set the set-user-ID and set-group-ID bits of files.
    pub setid: bool,
    /// User for squashed callers.
    pub anon_uid: u32,
    /// Group for squashed callers.
    pub anon_gid: u32,
    /// Networks that may use it; empty: all.
    pub networks: Vec<Network>,
    /// Number in handles; `None`: derived from the pseudo path.
    pub fsid: Option<u32>,
    /// The treatment of file systems that are mounted below the folder.
    pub nested: Nested,
    /// Whether changes of names and attributes are on stable storage before they are acknowledged.
    pub stable_names: bool,
}

impl ExportSettings {
    /// Makes an export with the defaults: writable, root squashed, Kerberos only, all networks.
    pub(crate) fn new(storage: Storage, pseudo: impl Into<String>) -> Self {
        Self {
            storage,
            pseudo: pseudo.into(),
            flavors: SecFlavor::KERBEROS.to_vec(),
            flavors_from: Vec::new(),
            secure: true,
            read_only: false,
            squash: Squash::Root,
            setid: true,
            anon_uid: ANON_ID,
            anon_gid: ANON_ID,
            networks: Vec::new(),
            fsid: None,
            nested: Nested::Hide,
            stable_names: true,
        }
    }
}
