//! State in exports that are not served any more. Clients cannot return it, since the filehandles
//! are stale, and it keeps the file systems from being unmounted.

use super::fh::image::FileKeyImage;
use super::{FileKey, Nfs};
use minicbor::{Decode, Encode};
use state::RevokedCounts;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use vfs::{Backend, Export, ExportTable, VfsError};

/// Exports that were removed or got another backend, as long as state of before may come or remain.
#[derive(Default)]
pub(super) struct FormerExports(Mutex<Former>);

#[derive(Default)]
struct Former {
    backends: Vec<FormerBackend>,
    /// Files that the new backend of their export does not have, by the number of the export, while
    /// they have state.
    lost: HashSet<(u32, FileKey)>,
    /// Exports that the process before has served with other keys.
    rekeyed: HashSet<u32>,
    /// Whether state remains, because clients have not freed enough revoked stateids.
    incomplete: bool,
}

/// A backend that is not served any more. A call that began before has it until its end.
struct FormerBackend {
    /// The number of its export.
    export: u32,
    backend: Weak<dyn Backend>,
    /// Whether the export now signs its handles with another key.
    has_new_key: bool,
}

/// The key that signs the handles of an export, in place of the server's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub(super) struct HandleKeyImage {
    #[n(0)]
    export: u32,
    #[cbor(n(1), with = "minicbor::bytes")]
    key: [u8; 16],
}

impl HandleKeyImage {
    /// Makes images of the keys of all exports that have one.
    pub(super) fn of_all(table: &ExportTable) -> Vec<Self> {
        let image =
            |export: &Arc<Export>| Some(Self { export: export.id, key: export.backend.handle_key()? });
        table.iter().filter_map(image).collect()
    }
}

/// The keys that signed the handles of a process before.
pub(crate) struct FormerKeys(Option<HashMap<u32, [u8; 16]>>);

impl FormerKeys {
    /// Takes the keys of an image. Earlier versions have none there, and are taken to have served
    /// all exports with the keys of now.
    pub(super) fn new(images: Option<Vec<HandleKeyImage>>) -> Self {
        Self(images.map(|images| images.into_iter().map(|image| (image.export, image.key)).collect()))
    }

    /// Returns the key of an export before; `None` stands for the server's own.
    pub(super) fn of(&self, export: &Export) -> Option<[u8; 16]> {
        match &self.0 {
            Some(keys) => keys.get(&export.id).copied(),
            None => export.backend.handle_key(),
        }
    }
}

impl FormerExports {
    /// Makes the record of a process that takes over from another one, which has found files lost.
    pub(super) fn inherited(keys: &FormerKeys, table: &ExportTable, lost: Vec<FileKey>) -> Self {
        let is_rekeyed = |export: &&Arc<Export>| keys.of(export) != export.backend.handle_key();
        let rekeyed = table.iter().filter(is_rekeyed).map(|export| export.id).collect();
        let lost = lost.into_iter().map(|file| (file.export, file)).collect();
        Self(Mutex::new(Former { rekeyed, lost, ..Former::default() }))
    }

    /// Returns the files of [`Former::lost`].
    pub(super) fn lost_files(&self) -> Vec<FileKeyImage> {
        self.with(|former| former.lost.iter().map(|(_, file)| file.into()).collect())
    }

    fn with<R>(&self, run: impl FnOnce(&mut Former) -> R) -> R {
        run(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Former {
    /// Returns the exports whose former backend is not used any more since the last time, and
    /// whether each has another key; `None` if there is no state to revoke.
    fn take_due(&mut self) -> Option<HashMap<u32, bool>> {
        let ended = self.backends.extract_if(.., |former| former.backend.strong_count() == 0);
        let ended: HashMap<u32, bool> = ended.map(|former| (former.export, former.has_new_key)).collect();
        (std::mem::take(&mut self.incomplete) || !ended.is_empty()).then_some(ended)
    }
}

impl Nfs {
    /// Puts another table of exports in force, and revokes the opens and delegations that are not
    /// served with it: of exports that it lacks, and of files that the new backend of an export
    /// does not have. May wait for the file systems of such backends.
    pub fn replace_exports(&self, table: ExportTable, now: Duration) -> RevokedCounts {
        let former = self.exports.replace(table);
        let table = self.exports.snapshot();
        let is_served =
            |export: &Export| table.by_id(export.id).is_some_and(|present| has_same_backend(export, present));
        let has_new_key = |export: &Export| {
            let present = table.by_id(export.id);
            present.is_some_and(|present| export.backend.handle_key() != present.backend.handle_key())
        };
        let changed: Vec<_> = former.iter().filter(|export| !is_served(export)).collect();
        let backend = |export: &&Arc<Export>| FormerBackend {
            export: export.id,
            backend: Arc::downgrade(&export.backend),
            has_new_key: has_new_key(export),
        };
        let backends: Vec<_> = changed.iter().map(backend).collect();
        let changed = backends.iter().map(|former| (former.export, former.has_new_key)).collect();
        self.former.with(|former| former.backends.extend(backends));
        self.revoke_lost(&table, &changed, now)
    }

    /// Revokes the opens and delegations that came with an upgrade and are not served by this
    /// process: of exports that it lacks or whose handles it signs with another key, and of files
    /// whose export is another file system here. Waits for no file system, since a file that this
    /// process has open may have no name any more.
    pub fn revoke_foreign(&self, now: Duration) {
        let table = self.exports.snapshot();
        let rekeyed = self.former.with(|former| std::mem::take(&mut former.rekeyed));
        let is_foreign = |file: &FileKey| {
            table.by_id(file.export).is_some_and(|export| {
                let identity = export.backend.identity(&file.handle);
                export.absent
                    || rekeyed.contains(&export.id)
                    || identity.is_some() && !file.is_identity(identity)
            })
        };
        let files = self.files_with_state().into_iter().filter(is_foreign);
        let lost: Vec<_> = files.map(|file| (file.export, file)).collect();
        self.former.with(|former| former.lost.extend(lost));
        log(self.revoke_unserved(now));
    }

    /// Revokes what is not served, with the files that the backends of some exports do not have.
    fn revoke_lost(&self, table: &ExportTable, exports: &HashMap<u32, bool>, now: Duration) -> RevokedCounts {
        let lost = self.lost_files(table, exports);
        self.former.with(|former| former.lost.extend(lost));
        self.revoke_unserved(now)
    }

    /// Revokes the opens and delegations that are not served any more: see
    /// [`state::Leases::revoke_files`]. Housekeeping goes on with those that remain, or that calls
    /// of before still make in removed exports.
    fn revoke_unserved(&self, now: Duration) -> RevokedCounts {
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

    /// Revokes the state that calls of before have made in removed and changed exports, and the
    /// rest of an incomplete revocation.
    pub(super) fn revoke_late(&self, now: Duration) {
        if let Some(ended) = self.former.with(Former::take_due) {
            let table = self.exports.snapshot();
            log(self.revoke_lost(&table, &ended, now));
        }
    }

    /// Returns the files with state that the new backends of these exports do not have: all of an
    /// export whose handles are signed with another key.
    fn lost_files(&self, table: &ExportTable, changed: &HashMap<u32, bool>) -> HashSet<(u32, FileKey)> {
        if changed.is_empty() {
            return HashSet::new();
        }
        let is_lost = |file: &FileKey| match changed.get(&file.export) {
            Some(has_new_key) => {
                table.by_id(file.export).is_some() && (*has_new_key || !has_file(table, file))
            }
            None => false,
        };
        let lost = self.files_with_state().into_iter().filter(is_lost);
        lost.map(|file| (file.export, file)).collect()
    }

    /// Returns the files with opens or delegations. `FileKey`s of one file are equal, but each is
    /// of the export in which the state was made.
    fn files_with_state(&self) -> Vec<FileKey> {
        let mut files = Vec::new();
        self.state.each_open(|file, _| files.push(*file));
        let delegations = self.state.list_delegations(usize::MAX, |file, _| *file);
        files.extend(delegations.entries.iter().map(|delegation| delegation.file));
        files
    }
}

/// Logs a revocation that no administrator has asked for just now.
fn log(revoked: RevokedCounts) {
    let RevokedCounts { opens, delegations, .. } = revoked;
    if opens + delegations > 0 {
        tracing::info!(opens, delegations, "revoked, as their export is gone");
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Object;
    use vfs::{MemoryBackend, MemoryLimits, Timestamp};

    #[test]
    fn files_that_an_incomplete_revocation_has_left_go_to_the_next_process() {
        let table = ExportTable::new(Vec::new(), Timestamp::default()).unwrap();
        let backend = Arc::new(MemoryBackend::new(MemoryLimits::default(), [7; 16]).unwrap());
        let handle = backend.root();
        let export = Arc::new(Export::new("/export", backend).unwrap());
        let peer = vfs::ClientPeer { address: ([192, 0, 2, 1], 700).into(), now: Duration::ZERO };
        let lost = vec![Object::root_of(&export, peer).unwrap().unwrap().other(handle).key()];
        let inherited = |lost| FormerExports::inherited(&FormerKeys::new(None), &table, lost);
        let images = inherited(lost.clone()).lost_files();
        let again: Vec<_> = images.into_iter().map(|image| FileKey::try_from(image).unwrap()).collect();
        assert_eq!(again, lost);
        assert_eq!(
            inherited(again).with(|former| former.lost.clone()),
            HashSet::from([(lost[0].export, lost[0])])
        );
    }
}
