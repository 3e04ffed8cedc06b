//! The properties of a mount that decide the result of a run.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The properties of a mount that decide the result of a run, for the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountFacts {
    /// The variant that was measured there.
    #[serde(rename = "side")]
    pub variant: String,
    /// The folder as the user named it.
    pub folder: PathBuf,
    /// The source of the mount: `server:/export`.
    pub source: String,
    /// The type of the file system.
    pub fs_type: String,
    /// All mount options in force.
    pub options: Vec<String>,
    /// How far the kernel reads ahead, in KiB.
    pub read_ahead_kib: Option<u64>,
    /// Encryption type of the session key of the ticket for the server; none where it could not be
    /// found out.
    pub enctype: Option<String>,
}

/// The origin of the number of connections of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionsFrom {
    /// The options of the mount, which must stay the same.
    Mount,
    /// The run, which mounts with one number after another.
    Run,
}

/// The encryption type in reports for a mount without Kerberos.
pub(crate) const NO_ENCTYPE: &str = "none";

impl MountFacts {
    /// Returns the encryption type, where there is one and it is known.
    pub fn kerberos(&self) -> Option<String> {
        self.enctype.clone().filter(|name| name != NO_ENCTYPE)
    }

    /// Returns whether the NFS client serves it.
    pub fn is_nfs(&self) -> bool {
        self.fs_type.starts_with("nfs")
    }

    /// Returns whether figures of two mounts compare.
    pub(crate) fn is_like(&self, other: &Self, connections: ConnectionsFrom) -> bool {
        // The client's address may be another one after a restart of the machine.
        let decides = |option: &&String| match option.split('=').next() {
            Some("clientaddr") => false,
            Some("nconnect") => connections == ConnectionsFrom::Mount,
            _ => true,
        };
        // It may be found out after the first use of the mount only.
        let enctypes = self.enctype.as_ref().zip(other.enctype.as_ref());
        (&self.source, &self.fs_type) == (&other.source, &other.fs_type)
            && enctypes.is_none_or(|(one, other)| one == other)
            && self.options.iter().filter(decides).eq(other.options.iter().filter(decides))
    }

    /// Describes the mount in a sentence without its full stop.
    pub fn words(&self) -> String {
        let ahead = self.read_ahead_kib.map_or("unknown".to_owned(), |kib| format!("{kib} KiB"));
        let enctype = self.enctype.as_deref().unwrap_or("unknown");
        format!(
            "{}: {} is {} ({}, {}); read-ahead {ahead}; encryption type {enctype}",
            self.variant,
            self.folder.display(),
            self.source,
            self.fs_type,
            self.options.join(","),
        )
    }
}
