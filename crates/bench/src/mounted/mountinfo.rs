//! Reads the properties of a mount, and holds a resumed run to them.

use crate::MountFacts;
use crate::measuring::Record;
use crate::mount_facts::ConnectionsFrom;
use anyhow::{Result, bail};
use mounts::Mount;

/// Returns how far the kernel reads ahead on a mount, in KiB.
pub(super) fn read_ahead_kib(mount: &Mount) -> Option<u64> {
    let (major, minor) = mount.device;
    let path = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

impl MountFacts {
    /// Adds these properties to the environment of a run, or replaces those of a mount with another
    /// number of connections, where the run chooses it.
    ///
    /// # Errors
    /// When earlier samples of the variant are of a mount with other options.
    pub(crate) fn enter(self, record: &mut Record) -> Result<()> {
        let is_sweep = record.cases.iter().any(|case| case.load.layout().connections > 1);
        let connections = if is_sweep { ConnectionsFrom::Run } else { ConnectionsFrom::Mount };
        let mounts = &mut record.environment.mounts;
        let known = mounts.iter().find(|known| known.variant == self.variant);
        if let Some(known) = known.filter(|known| !known.is_like(&self, connections)) {
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
}
