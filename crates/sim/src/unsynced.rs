//! Changes of the disk that a power failure can still undo.

use crate::rng::Rng;
use std::collections::BTreeMap;
use vfs::{Backend, Caller, KeptObject, MemoryBackend, ObjectHandle, VfsError, VfsResult};

/// A directory and a name in it.
pub(crate) type Place<'a> = (&'a ObjectHandle, &'a [u8]);

/// The unsynced changes of a disk.
#[derive(Default)]
pub(crate) struct Unsynced {
    /// Unsynced writes, by the bytes of the file's handle.
    pub data: BTreeMap<Vec<u8>, UnsyncedData>,
    /// The changes of names in each directory, in the order in which they were made.
    names: BTreeMap<Vec<u8>, Vec<NameChange>>,
}

/// The content of a file when it was last synced, and the writes since then.
pub(crate) struct UnsyncedData {
    /// The whole content at the last sync.
    pub base: Vec<u8>,
    /// Offset and data of each write since then.
    pub writes: Vec<(u64, Vec<u8>)>,
}

/// One operation's changes in one directory.
struct NameChange {
    /// Each name, with the object that it led to before.
    before: Vec<(Vec<u8>, Option<KeptObject>)>,
    /// The handles of all objects that had or got one of the names.
    objects: Vec<ObjectHandle>,
}

impl Unsynced {
    /// Makes a change of names, and records the objects that the names had before.
    ///
    /// # Errors
    /// Returns the error of the change, which then has had no effect.
    pub(crate) fn change<T>(
        &mut self,
        files: &MemoryBackend,
        places: &[Place<'_>],
        change: impl FnOnce(&MemoryBackend) -> VfsResult<T>,
    ) -> VfsResult<T> {
        let find = |(directory, name): &Place<'_>| files.lookup(&Caller::root(), directory, name).ok();
        let before: Vec<Option<ObjectHandle>> = places.iter().map(find).collect();
        let kept: Vec<Option<KeptObject>> =
            before.iter().map(|object| files.keep(object.as_ref()?).ok()).collect();
        let done = change(files)?;
        let mut directories: BTreeMap<Vec<u8>, NameChange> = BTreeMap::new();
        for ((place, before), kept) in places.iter().zip(before).zip(kept) {
            let (directory, name) = place;
            let change = directories
                .entry(directory.as_bytes().to_vec())
                .or_insert_with(|| NameChange { before: Vec::new(), objects: Vec::new() });
            change.before.push((name.to_vec(), kept));
            change.objects.extend(before.into_iter().chain(find(place)));
        }
        for (directory, change) in directories {
            self.names.entry(directory).or_default().push(change);
        }
        Ok(done)
    }

    /// Puts the names of a directory on stable storage.
    pub(crate) fn sync_directory(&mut self, directory: &ObjectHandle) {
        self.names.remove(directory.as_bytes());
    }

    /// Puts the names of an object on stable storage: its last change of a name, and all changes in
    /// the same directory before that. File systems with a journal do so when they sync the object.
    pub(crate) fn sync_names_of(&mut self, object: &ObjectHandle) {
        for changes in self.names.values_mut() {
            if let Some(last) = changes.iter().rposition(|change| change.objects.contains(object)) {
                changes.drain(..=last);
            }
        }
    }

    /// Undoes the last changes of names in each directory: any number of the unsynced ones.
    pub(crate) fn undo_names(&mut self, files: &MemoryBackend, rng: &mut Rng) {
        for (directory, mut changes) in std::mem::take(&mut self.names) {
            let Some(directory) = ObjectHandle::new(&directory) else { continue };
            let kept = rng.below(changes.len() + 1);
            for change in changes.drain(kept..).rev() {
                for (name, object) in change.before.iter().rev() {
                    match files.put_back(&directory, name, object.as_ref()) {
                        // The directory itself is gone.
                        Ok(()) | Err(VfsError::Stale) => {}
                        Err(error) => panic!("a name cannot be put back: {error:?}"),
                    }
                }
            }
        }
    }
}
