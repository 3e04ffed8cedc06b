//! The settings of `orthrus serve`: their names in the file, types, ranges and defaults.
//!
//! A field is a key of the file. To add a setting, add a field, its default, its entry in
//! `keys/tables/`, its row in `serve/changes.rs` and its row in docs/serve.md; tests compare them.

use super::clients::ClientPattern;
use super::limits::{ClientLimits, LimitRuleSettings, PrincipalLimits};
use super::rules::RuleSettings;
use super::sources::SourceSettings;
use super::values::{bounded, domain, flavors, parsed, path, pseudo, seconds, seconds_or_none, some_path};
use crate::logging::LogFilter;
use identity::{LocalRule, Rules, Unknown};
use serde::Deserialize;
use server::engine::{Delegations, NumericOwners, SysGroups};
use std::collections::HashMap;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use vfs::{ANON_ID, Location, SecFlavor, ServerAddress, Squash};

/// The port of NFS (RFC 8881 section 2.9.3).
pub(crate) const NFS_PORT: u16 = 2049;

/// The user of Ceph, without `client.`.
const CEPH_USER: &str = "orthrus";
/// The configuration file of the Ceph cluster.
const CEPH_CONF: &str = "/etc/ceph/ceph.conf";

/// The files of the web page's certificate.
#[derive(Clone, Debug)]
pub(crate) struct WebTls {
    /// The chain of certificates, in PEM.
    pub certificate: PathBuf,
    /// The private key, in PEM.
    pub key: PathBuf,
}

/// Where the lines of the audit log go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AuditTarget {
    /// A file or a pipe.
    File(PathBuf),
    /// The journal of systemd, by its socket.
    Journal,
}

impl FromStr for AuditTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "journal" => Ok(Self::Journal),
            path if path.starts_with('/') => Ok(Self::File(path.into())),
            other => Err(format!("{other:?} is neither \"journal\" nor a path that begins with /")),
        }
    }
}

/// Everything that `orthrus serve` needs to know.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    /// Address and port to listen on.
    #[serde(deserialize_with = "super::values::listen")]
    pub listen: SocketAddr,
    /// Whether only programs of this machine may connect that root or this process' user runs.
    #[serde(skip)]
    pub same_user: bool,
    /// Names and addresses under which clients find this server, for trunking.
    #[serde(deserialize_with = "super::locations::addresses")]
    pub addresses: Vec<ServerAddress>,
    /// The lines that are logged, unless the command line says otherwise.
    pub log: LogFilter,
    /// Address of the metrics endpoint; `None` disables it.
    #[serde(deserialize_with = "super::values::metrics")]
    pub metrics: Option<SocketAddr>,
    /// Address of the web page; `None` disables it.
    #[serde(deserialize_with = "super::values::metrics")]
    pub web: Option<SocketAddr>,
    /// Certificate chain of the web page, in PEM.
    #[serde(deserialize_with = "some_path")]
    pub web_certificate: Option<PathBuf>,
    /// Private key of the web page, in PEM.
    #[serde(deserialize_with = "some_path")]
    pub web_key: Option<PathBuf>,
    /// The file of the audit log, or `journal`; `None`: there is none.
    #[serde(deserialize_with = "super::values::audit")]
    pub audit: Option<AuditTarget>,
    /// Bytes of the audit log's file before a new one begins: 1 MiB to 1 TiB.
    #[serde(deserialize_with = "bounded::<_, _, 1_048_576, 1_099_511_627_776>")]
    pub audit_size_max: u64,
    /// Threads that serve; 0: one a core.
    #[serde(deserialize_with = "bounded::<_, _, 0, 256>")]
    pub shards: usize,
    /// The domain of named owners (`alice@domain`).
    #[serde(deserialize_with = "domain")]
    pub domain: String,
    /// The service keys; without them only `sys` can be served.
    #[serde(deserialize_with = "some_path")]
    pub keytab: Option<PathBuf>,
    /// The services whose keys of the keytab are accepted; `*` for all.
    pub keytab_services: Vec<String>,
    /// Patterns of the hosts whose keys of the keytab are accepted; empty: all.
    pub keytab_hosts: Vec<String>,
    /// Realms whose principals are local users; empty: the realms of the keytab.
    #[serde(deserialize_with = "super::values::realms")]
    pub realms: Vec<String>,
    /// Principals, written in full, that act as a local user of another name: the only way to
    /// become uid 0.
    #[serde(deserialize_with = "super::values::principals")]
    pub principals: HashMap<String, String>,
    /// The lookup of accounts.
    pub identity: IdentitySettings,
    /// Where the server keeps its secret and its client records; `None`: the default place.
    #[serde(deserialize_with = "some_path")]
    pub state_dir: Option<PathBuf>,
    /// How long a silent client keeps its state. Shorter leases renew too often, longer ones keep
    /// the locks of dead clients too long.
    #[serde(deserialize_with = "seconds::<_, 5, 3600>")]
    pub lease_time: Duration,
    /// How long after a restart clients may reclaim their state. Zero is for tests; above an hour,
    /// clients give up.
    #[serde(deserialize_with = "seconds::<_, 0, 3600>")]
    pub grace_time: Duration,
    /// Whether NFSv4.0 is spoken, too.
    pub nfs40: bool,
    /// The kinds of delegations that clients get.
    #[serde(deserialize_with = "parsed")]
    pub delegations: Delegations,
    /// How long a client may take to give a delegation back; `None`: the lease. A client needs some
    /// time to write back its data.
    #[serde(deserialize_with = "seconds_or_none::<_, 1, 3600>")]
    pub recall_time: Option<Duration>,
    /// Whether local programs see the locks of clients.
    pub local_locks: bool,
    /// Whether root of a client may make device nodes.
    pub device_nodes: bool,
    /// When a number is an owner.
    #[serde(deserialize_with = "parsed")]
    pub numeric_owners: NumericOwners,
    /// Whether the process restricts itself.
    #[serde(deserialize_with = "parsed")]
    pub sandbox: Sandbox,
    /// Limits of memory, connections and state.
    pub limits: Limits,
    /// The cluster of gateways that the server is a member of.
    pub cluster: Option<ClusterSettings>,
    /// The exports; at least one.
    #[serde(rename = "export", deserialize_with = "super::values::exports")]
    pub exports: Vec<ExportSettings>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: (Ipv6Addr::UNSPECIFIED, NFS_PORT).into(),
            same_user: false,
            addresses: Vec::new(),
            log: LogFilter::default(),
            metrics: None,
            web: None,
            web_certificate: None,
            web_key: None,
            audit: None,
            audit_size_max: 256 << 20,
            shards: 0,
            domain: String::new(),
            keytab: None,
            keytab_services: vec!["nfs".to_owned()],
            keytab_hosts: Vec::new(),
            realms: Vec::new(),
            principals: HashMap::new(),
            identity: IdentitySettings::default(),
            state_dir: None,
            lease_time: Duration::from_secs(60),
            grace_time: Duration::from_secs(60),
            nfs40: true,
            // Write delegations would make local readers wait for clients, so they are opt-in.
            delegations: Delegations::Read,
            recall_time: None,
            local_locks: true,
            device_nodes: false,
            numeric_owners: NumericOwners::default(),
            sandbox: Sandbox::On,
            limits: Limits::default(),
            cluster: None,
            exports: Vec::new(),
        }
    }
}

/// The lookup of accounts.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct IdentitySettings {
    /// The treatment of users without an account.
    #[serde(deserialize_with = "parsed")]
    pub unknown: Unknown,
    /// Where the groups of AUTH_SYS callers come from.
    #[serde(deserialize_with = "parsed")]
    pub groups: SysGroups,
    /// The rules from principals to local users, as MIT's `auth_to_local`.
    #[serde(deserialize_with = "super::values::local_rules")]
    pub rules: Vec<LocalRule>,
    /// The sources of accounts in order; empty: the system's name service.
    #[serde(rename = "source")]
    pub sources: Vec<SourceSettings>,
    /// How long an account counts as known, also that of a live context.
    #[serde(deserialize_with = "seconds::<_, 2, 86_400>")]
    pub refresh: Duration,
    /// How long the absence of an account counts as known.
    #[serde(deserialize_with = "seconds::<_, 1, 3600>")]
    pub absent: Duration,
    /// How long an account stands in while its source fails.
    #[serde(deserialize_with = "seconds::<_, 0, 2_592_000>")]
    pub stale: Duration,
    /// How long a caller waits for a lookup.
    #[serde(deserialize_with = "seconds::<_, 1, 30>")]
    pub timeout: Duration,
}

impl Default for IdentitySettings {
    fn default() -> Self {
        let Rules { unknown, local, expiry, absence_expiry, stale_expiry, lookup_wait_max, .. } =
            Rules::default();
        Self {
            unknown,
            groups: SysGroups::default(),
            rules: local,
            sources: Vec::new(),
            refresh: expiry,
            absent: absence_expiry,
            stale: stale_expiry,
            timeout: lookup_wait_max,
        }
    }
}

/// Bounds that an administrator may change; the rest have constants beside the code that they
/// bound.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Limits {
    /// Connections open at once.
    #[serde(deserialize_with = "bounded::<_, _, 1, 1_000_000>")]
    pub connections_max: usize,
    /// Kerberos contexts held at once.
    #[serde(deserialize_with = "bounded::<_, _, 16, 10_000_000>")]
    pub contexts_max: usize,
    /// NFS clients known at once.
    #[serde(deserialize_with = "bounded::<_, _, 1, 1_000_000>")]
    pub clients_max: usize,
    /// Bytes of unfinished requests held at once: 4 MiB to 1 TiB.
    #[serde(deserialize_with = "bounded::<_, _, 4_194_304, 1_099_511_627_776>")]
    pub input_bytes_max: usize,
    /// Requests that one session may have under way.
    #[serde(deserialize_with = "bounded::<_, _, 1, 1024>")]
    pub slots_max: u32,
    /// Objects of the file system kept open for speed.
    #[serde(deserialize_with = "bounded::<_, _, 64, 10_000_000>")]
    pub open_files_max: usize,
    /// Limits of each principal.
    pub principal: PrincipalLimits,
    /// Limits of each client.
    pub client: ClientLimits,
    /// Limits of some of them.
    #[serde(rename = "rule")]
    pub rules: Vec<LimitRuleSettings>,
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
            principal: PrincipalLimits::default(),
            client: ClientLimits::default(),
            rules: Vec::new(),
        }
    }
}

/// The membership in a cluster of gateways, and where these keep their shared state.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ClusterSettings {
    /// The name of this member; empty in a file that lacks it, which is an error.
    pub node: String,
    /// The pool of the shared state.
    pub pool: String,
    /// The namespace in the pool.
    pub namespace: String,
    /// The object of the grace database.
    pub object: String,
    /// The user's name without `client.`.
    pub ceph_user: String,
    /// The configuration file of the Ceph cluster.
    #[serde(deserialize_with = "path")]
    pub ceph_conf: PathBuf,
    /// The file with the user's key; `None`: as the configuration says.
    #[serde(deserialize_with = "some_path")]
    pub ceph_keyring: Option<PathBuf>,
}

impl Default for ClusterSettings {
    fn default() -> Self {
        Self {
            node: String::new(),
            pool: "orthrus".to_owned(),
            namespace: String::new(),
            object: grace_rados::DEFAULT_OBJECT.to_owned(),
            ceph_user: CEPH_USER.to_owned(),
            ceph_conf: CEPH_CONF.into(),
            ceph_keyring: None,
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
    /// Other servers: the export is a referral.
    Elsewhere(Vec<Location>),
    /// A directory of CephFS.
    Ceph(CephStorage),
}

/// A directory of CephFS, and how to reach it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CephStorage {
    /// The directory, from the root of the file system.
    pub path: String,
    /// The name of the file system; `None`: the cluster's default.
    pub file_system: Option<String>,
    /// The user's name without `client.`.
    pub user: String,
    /// The configuration file of the cluster.
    pub configuration: PathBuf,
    /// The file with the user's key; `None`: as the configuration says.
    pub keyring: Option<PathBuf>,
    /// Whether clients see snapshots.
    pub snapshots: bool,
    /// Mounts among which objects are divided; 0: by the number of cores.
    pub mounts: usize,
}

/// The treatment of submounts of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nested {
    /// They do not exist for clients.
    Hide,
    /// They are part of the export, each with an fsid of its own.
    Show,
}

/// Whether the process gives up what serving does not need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sandbox {
    /// The process keeps only what serving needs.
    On,
    /// It keeps the rights that the service manager gives.
    Off,
}

impl FromStr for Sandbox {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "on" => Ok(Self::On),
            "off" => Ok(Self::Off),
            other => Err(format!("{other:?} is no choice of sandbox; there are on and off")),
        }
    }
}

impl Default for Storage {
    fn default() -> Self {
        Self::Folder(PathBuf::new())
    }
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
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ExportSettings {
    /// The keys `path`, `memory`, `ceph` and `refer`, of which a file has one.
    #[serde(deserialize_with = "some_path")]
    pub(super) path: Option<PathBuf>,
    #[serde(deserialize_with = "super::values::memory")]
    pub(super) memory: Option<u64>,
    /// The key `refer`: the servers to which clients are referred.
    #[serde(deserialize_with = "super::locations::refer")]
    pub(super) refer: Vec<Location>,
    #[serde(deserialize_with = "super::values::ceph_path")]
    pub(super) ceph: Option<String>,
    /// Keys that belong to `ceph`.
    pub(super) ceph_fs: Option<String>,
    pub(super) ceph_user: String,
    #[serde(deserialize_with = "path")]
    pub(super) ceph_conf: PathBuf,
    #[serde(deserialize_with = "some_path")]
    pub(super) ceph_keyring: Option<PathBuf>,
    pub(super) ceph_snapshots: bool,
    #[serde(deserialize_with = "bounded::<_, _, 0, 64>")]
    pub(super) ceph_mounts: usize,
    /// Offset of the table in the file, for messages.
    #[serde(skip)]
    pub(super) offset: usize,
    /// Where the files are.
    #[serde(skip)]
    pub storage: Storage,
    /// Where clients find it; empty in a file that leaves it to the storage.
    #[serde(deserialize_with = "pseudo")]
    pub pseudo: String,
    /// Allowed flavors in order of preference.
    #[serde(rename = "sec", deserialize_with = "flavors")]
    pub flavors: Vec<SecFlavor>,
    /// Whether `sys` is good only from a privileged source port.
    pub secure: bool,
    /// Whether changes are refused.
    pub read_only: bool,
    /// The callers whose identity is replaced.
    #[serde(deserialize_with = "parsed")]
    pub squash: Squash,
    /// Whether clients may set the set-user-ID and set-group-ID bits of files.
    pub setid: bool,
    /// Whether tickets count that a service got in a user's name. The KDC decides which services
    /// may, so they count by default.
    pub delegated: bool,
    /// User for squashed callers.
    pub anon_uid: u32,
    /// Group for squashed callers.
    pub anon_gid: u32,
    /// The clients that may use it, if it has no rules; `None`: all.
    #[serde(deserialize_with = "super::values::some_clients")]
    pub clients: Option<Vec<ClientPattern>>,
    /// Rules for its clients, which replace keys of the export; the first that names a client
    /// counts. If there are any, other clients may not use it.
    #[serde(rename = "rule")]
    pub rules: Vec<RuleSettings>,
    /// Number in handles; `None`: derived from the pseudo path.
    #[serde(deserialize_with = "super::values::fsid")]
    pub fsid: Option<u32>,
    /// The treatment of file systems that are mounted below the folder.
    #[serde(deserialize_with = "parsed")]
    pub nested: Nested,
    /// Whether changes of names and attributes are on stable storage before they are acknowledged.
    pub stable_names: bool,
    /// Share of the threads that wait for file systems, relative to those of other exports.
    #[serde(deserialize_with = "super::limits::weight")]
    pub weight: Option<u32>,
    /// Operations of COMPOUNDs in a second, by all clients of the export; 0 or `None` for no limit.
    #[serde(deserialize_with = "super::limits::operations")]
    pub operations_max: Option<u64>,
    /// Bytes of requests and replies in a second, by all clients of the export; 0 or `None` for
    /// no limit.
    #[serde(deserialize_with = "super::limits::bytes")]
    pub bytes_max: Option<u64>,
    /// Opens of all clients of the export.
    #[serde(deserialize_with = "super::limits::opens")]
    pub opens_max: Option<usize>,
    /// Lock stateids and locked ranges of all clients of the export.
    #[serde(deserialize_with = "super::limits::locks")]
    pub locks_max: Option<usize>,
    /// Other servers that have the same files.
    #[serde(deserialize_with = "super::locations::locations")]
    pub locations: Vec<Location>,
}

impl ExportSettings {
    /// Makes an export with the defaults: writable, root squashed, Kerberos only, all clients.
    pub(crate) fn new(storage: Storage, pseudo: impl Into<String>) -> Self {
        Self { storage, pseudo: pseudo.into(), ..Self::default() }
    }

    /// Returns whether both serve the same in the same way, wherever they stand in the file.
    pub(crate) fn serves_as(&self, other: &Self) -> bool {
        *self == Self { offset: self.offset, ..other.clone() }
    }
}

impl Default for ExportSettings {
    fn default() -> Self {
        Self {
            path: None,
            memory: None,
            refer: Vec::new(),
            ceph: None,
            ceph_fs: None,
            ceph_user: CEPH_USER.to_owned(),
            ceph_conf: CEPH_CONF.into(),
            ceph_keyring: None,
            ceph_snapshots: false,
            ceph_mounts: 0,
            offset: 0,
            storage: Storage::default(),
            pseudo: String::new(),
            flavors: SecFlavor::KERBEROS.to_vec(),
            secure: true,
            read_only: false,
            squash: Squash::Root,
            setid: true,
            delegated: true,
            anon_uid: ANON_ID,
            anon_gid: ANON_ID,
            clients: None,
            rules: Vec::new(),
            fsid: None,
            nested: Nested::Hide,
            stable_names: true,
            weight: None,
            operations_max: None,
            bytes_max: None,
            opens_max: None,
            locks_max: None,
            locations: Vec::new(),
        }
    }
}
