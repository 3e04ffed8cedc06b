//! The properties of a mount that decide the result of a run.

use std::path::PathBuf;

use anyhow::{Result, bail};
use mounts::Mount;
use serde::{Deserialize, Serialize};

use crate::measuring::Record;

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

/// Returns how far the kernel reads ahead on a mount, in KiB.
pub(super) fn read_ahead_kib(mount: &Mount) -> Option<u64> {
    let (major, minor) = mount.device;
    let path = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The encryption type in reports for a mount without Kerberos.
pub(super) const NO_ENCTYPE: &str = "none";

impl MountFacts {
    /// Returns the encryption type, where there is one and it is known.
    pub fn kerberos(&self) -> Option<String> {
        self.enctype.clone().filter(|name| name != NO_ENCTYPE)
    }

    /// Says whether the NFS client serves it.
    pub fn is_nfs(&self) -> bool {
        self.fs_type.starts_with("nfs")
    }

    /// Adds these properties to the environment of a run, or replaces those of a mount with another
    /// number of connections, where the run chooses it.
    ///
    /// # Errors
    /// When earlier samples of the variant are of a mount with other options.
    pub(crate) fn enter(self, record: &mut Record) -> Result<()> {
        let chosen = record.cases.iter().any(|case| case.load.layout().connections > 1);
        let mounts = &mut record.environment.mounts;
        let known = mounts.iter().find(|known| known.variant == self.variant);
        if let Some(known) = known.filter(|known| !known.is_like(&self, chosen)) {
            bail!(
                "it was begun with the mount {}, and now there is {}; mount it as before, or measure again without --resume",
                known.words(),
                self.words()
            );
        }
        mounts.retain(|known| known.variant != self.variant);
        mounts.push(self);
        Ok(())
    }

    /// Says whether figures of two mounts compare; `chosen` says that the run chooses the number of
    /// their connections.
    pub(super) fn is_like(&self, other: &Self, chosen: bool) -> bool {
        // The client's address may be another one after a restart of the machine.
        let decides = |option: &&String| {
            !(option.starts_with("clientaddr=") || chosen && option.starts_with("nconnect="))
        };
        // It may be found out after the first use of the mount only.
        let enctypes = self.enctype.as_ref().zip(other.enctype.as_ref());
        (&self.source, &self.fs_type) == (&other.source, &other.fs_type)
            && enctypes.is_none_or(|(one, other)| one == other)
            && self.options.iter().filter(decides).eq(other.options.iter().filter(decides))
    }

    /// Says it all in a sentence without its full stop.
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
