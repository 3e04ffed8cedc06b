//! The configuration file as it is written, before it is checked.

use serde::Deserialize;
use serde_spanned::Spanned;
use std::collections::HashMap;

/// The configuration file as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub listen: Option<Spanned<String>>,
    pub metrics: Option<Spanned<String>>,
    pub shards: Option<Spanned<u32>>,
    pub domain: Option<Spanned<String>>,
    pub keytab: Option<Spanned<String>>,
    pub realms: Option<Vec<String>>,
    pub state_dir: Option<Spanned<String>>,
    pub lease_time: Option<Spanned<u32>>,
    pub grace_time: Option<Spanned<u32>>,
    pub nfs40: Option<bool>,
    pub delegations: Option<Spanned<String>>,
    pub recall_time: Option<Spanned<u32>>,
    pub local_locks: Option<bool>,
    pub numeric_owners: Option<Spanned<String>>,
    #[serde(default)]
    pub principals: HashMap<String, String>,
    #[serde(default)]
    pub limits: FileLimits,
    #[serde(default)]
    pub export: Vec<Spanned<FileExport>>,
}

/// The table `[limits]` of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileLimits {
    pub connections_max: Option<Spanned<u64>>,
    pub contexts_max: Option<Spanned<u64>>,
    pub clients_max: Option<Spanned<u64>>,
    pub input_bytes_max: Option<Spanned<u64>>,
    pub slots_max: Option<Spanned<u64>>,
    pub open_files_max: Option<Spanned<u64>>,
}

/// One table `[[export]]` of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileExport {
    pub path: Option<Spanned<String>>,
    pub memory: Option<Spanned<u64>>,
    pub pseudo: Option<Spanned<String>>,
    pub sec: Option<Vec<Spanned<String>>>,
    pub sec_from: Option<Vec<FileSecFrom>>,
    pub secure: Option<bool>,
    pub read_only: Option<bool>,
    pub squash: Option<Spanned<String>>,
    pub setid: Option<bool>,
    pub anon_uid: Option<u32>,
    pub anon_gid: Option<u32>,
    pub clients: Option<Vec<Spanned<String>>>,
    pub fsid: Option<Spanned<u32>>,
    pub nested: Option<Spanned<String>>,
    pub stable_names: Option<bool>,
}

/// `sec_from` of an export: the flavors for clients of some networks.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileSecFrom {
    pub clients: Vec<Spanned<String>>,
    pub sec: Vec<Spanned<String>>,
}
