//! Folders of sessions that were given up: they are removed by another session, or named at the
//! end.

use std::collections::BTreeSet;

use crate::ExportMount;

/// A variant, and the choice of instructions of the server that it spoke to.
type Origin = (String, Option<String>);

/// Folders that stay at servers.
#[derive(Debug, Default)]
pub(super) struct Leftovers(Vec<(Origin, String)>);

impl Leftovers {
    /// Adds a folder to the list.
    pub(super) fn add(&mut self, variant: &str, server_cpu: Option<&str>, folder: &str) {
        self.0.push(((variant.to_owned(), server_cpu.map(str::to_owned)), folder.to_owned()));
    }

    /// Says whether there are any at one place.
    pub(super) fn any(&self, variant: &str, server_cpu: Option<&str>) -> bool {
        self.0.iter().any(|((other, cpu), _)| other == variant && cpu.as_deref() == server_cpu)
    }

    /// Returns where there are any.
    pub(super) fn places(&self) -> BTreeSet<Origin> {
        self.0.iter().map(|(place, _)| place.clone()).collect()
    }

    /// Removes the folders of one place, as far as that succeeds.
    pub(super) fn sweep(&mut self, variant: &str, server_cpu: Option<&str>, mount: &mut ExportMount) {
        let mut stuck = false;
        self.0.retain(|((other, cpu), folder)| {
            let own = other == variant && cpu.as_deref() == server_cpu;
            // One that hangs is reason enough not to wait for the next.
            let removed = own && !stuck && mount.remove_all(folder).is_ok();
            stuck |= own && !removed;
            !removed
        });
    }

    /// Returns sentences on the remaining folders.
    pub(super) fn sentences(&self) -> Vec<String> {
        let folders: Vec<&str> = self.0.iter().map(|(_, folder)| folder.as_str()).collect();
        if folders.is_empty() {
            return Vec::new();
        }
        vec![format!(
            "Cases that failed have left folders in the export that could not be removed: {}.",
            folders.join(", ")
        )]
    }
}
