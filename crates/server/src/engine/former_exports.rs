//! State in exports that are not served any more. Clients cannot return it, since the filehandles
//! are stale, and it keeps the file systems from being unmounted.

use super::{FileKey, Nfs};
use state::RevokedCounts;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use vfs::{Backend, Export, ExportTable, VfsError};

/// Exports that were removed, as long as state in them may come or remain.
#[derive(Default)]
pub(super) struct FormerExports(Mutex<Former>);

#[derive(Default)]
struct Former {
    /// The backends. A call that began before the removal has one until its end.
    backends: Vec<Weak<dyn Backend>>,
    /// Files that the new backend of their export does not have, by the number of the export, while
    /// they have state.
    lost: HashSet<(u32, FileKey)>,
    /// Whether state remains, because clients have not freed enough revoked stateids.
    incomplete: bool,
}

impl FormerExports {
    fn with<R>(&self, run: impl FnOnce(&mut Former) -> R) -> R {
        run(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Former {
    /// Returns whether there may be state to revoke since the last time.
    fn take_due(&mut self) -> bool {
        let before = self.backends.len();
        self.backends.retain(|backend| backend.strong_count() > 0);
        std::mem::take(&mut self.incomplete) || self.backends.len() < before
    }
}

impl Nfs {
    /// Puts another table of exports in force, and revokes the opens and delegations that are not
    /// served with it: of exports that it lacks, and of files that the new backend of an export
    /// does not have. May wait for the file systems of such backends.
    pub fn replace_exports(&self, table: ExportTable, now: Duration) -> RevokedCounts {
        let former = self.exports.replace(table);
        let table = self.exports.snapshot();
        let (mut removed, mut changed) = (Vec::new(), HashSet::new());
        for export in former.iter() {
            match table.by_id(export.id) {
                None => removed.push(Arc::downgrade(&export.backend)),
                Some(present) if !has_same_backend(export, present) => _ = changed.insert(export.id),
                Some(_) => {}
            }
        }
        let lost = self.lost_files(&table, &changed);
        self.former.with(|former| {
            former.backends.extend(removed);
            former.lost.extend(lost);
        });
        self.revoke_unserved(now)
    }

    /// Revokes the opens and delegations that are not served any more: see
    /// [`state::Leases::revoke_files`]. Housekeeping goes on with those that remain, or that calls
    /// of before still make in removed exports.
    pub fn revoke_unserved(&self, now: Duration) -> RevokedCounts {
        let table = self.exports.snapshot();
        let lost = self.former.with(|former| std::mem::take(&mut former.lost));
        let is_gone =
            |file: &FileKey| table.by_id(file.export).is_none() || lost.contains(&(file.export, *file));
        let counts = self.with_effects(now, |state, effects| state.leases().revoke_files(is_gone, effects));
        self.former.with(|former| {
            // A reload and housekeeping may both be here.
            if counts.incomplete {
                former.incomplete = true;
                former.lost.extend(lost);
            }
        });
        counts
    }

    /// Revokes the state that has come in removed exports, and the rest of an incomplete
    /// revocation.
    pub(super) fn revoke_late(&self, now: Duration) {
        if self.former.with(Former::take_due) {
            let RevokedCounts { opens, delegations, .. } = self.revoke_unserved(now);
            if opens + delegations > 0 {
                tracing::info!(opens, delegations, "revoked, as their export is gone");
            }
        }
    }

    /// Returns the files with state that the new backends of these exports do not have.
    fn lost_files(&self, table: &ExportTable, changed: &HashSet<u32>) -> HashSet<(u32, FileKey)> {
        let mut files = Vec::new();
        if !changed.is_empty() {
            self.state.each_open(|file, _| files.push(*file));
            let delegations = self.state.list_delegations(usize::MAX, |file, _| *file);
            files.extend(delegations.entries.iter().map(|delegation| delegation.file));
        }
        let of_changed = files.iter().filter(|file| changed.contains(&file.export));
        let lost = of_changed.filter(|file| !has_file(table, file));
        lost.map(|file| (file.export, *file)).collect()
    }
}

fn has_same_backend(one: &Export, other: &Export) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(&one.backend), Arc::as_ptr(&other.backend))
}

/// Returns whether an export still has the file. An error says nothing about it.
fn has_file(table: &ExportTable, file: &FileKey) -> bool {
    let Some(export) = table.by_id(file.export) else { return false };
    if !file.is_identity(export.backend.identity(&file.handle)) {
        return false;
    }
    let looked = export.backend.getattr(&file.handle);
    !matches!(looked, Err(VfsError::Stale | VfsError::Badhandle | VfsError::Moved))
}
