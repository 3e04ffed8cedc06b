//! The files that requests are about most often, from samples.

use super::{Fh, FileKey, Nfs, OpenPayload};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, TryLockError};
use vfs::{ExportTable, OpenFile};

/// Files that are counted at a time. A further one takes the place of the one with the fewest
/// samples, and its number, so that frequent ones are never missed (the algorithm Space-Saving).
const BUSY_FILES_MAX: usize = 64;

/// Samples of requests by file.
#[derive(Debug, Default)]
pub(crate) struct BusyFiles(Mutex<FileSamples>);

/// The counts lie together, because most files of a workload that creates them are new and look for
/// the least.
#[derive(Debug, Default)]
struct FileSamples {
    index: HashMap<FileKey, usize>,
    files: Vec<FileKey>,
    counts: Vec<u64>,
}

impl FileSamples {
    fn count(&mut self, key: FileKey) {
        let known = self.index.get(&key).copied();
        let at = known.or_else(|| self.place_for(key));
        if let Some(count) = at.and_then(|at| self.counts.get_mut(at)) {
            *count += 1;
        }
    }

    /// Makes a place for a new file, with the count of the file that it replaces.
    fn place_for(&mut self, key: FileKey) -> Option<usize> {
        let at = if self.files.len() < BUSY_FILES_MAX {
            self.files.push(key);
            self.counts.push(0);
            self.files.len() - 1
        } else {
            let (at, _) = self.counts.iter().enumerate().min_by_key(|(_, count)| **count)?;
            let replaced = std::mem::replace(self.files.get_mut(at)?, key);
            self.index.remove(&replaced);
            at
        };
        self.index.insert(key, at);
        Some(at)
    }
}

/// A file with the number of its sampled requests.
#[derive(Clone)]
pub struct BusyFile {
    /// The number of its export.
    pub export: u32,
    /// The handle of its backend.
    pub handle: Vec<u8>,
    /// The open file, if a client has it open.
    pub open: Option<Arc<dyn OpenFile>>,
    /// Sampled requests: one in [`crate::metrics::ServedCounters::SAMPLED_ONE_IN`].
    pub samples: u64,
}

impl BusyFiles {
    /// Counts a sampled request. While another thread counts, the sample is left out. The backend
    /// is not asked, since its file system may hang.
    pub(crate) fn note(&self, fh: &Fh) {
        let Fh::Object(object) = fh else { return };
        let mut samples = match self.0.try_lock() {
            Ok(samples) => samples,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        samples.count(FileKey::unidentified(object));
    }

    fn snapshot(&self) -> Vec<(FileKey, u64)> {
        let samples = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        samples.files.iter().copied().zip(samples.counts.iter().copied()).collect()
    }

    /// Returns the files, each once however many exports reach it, with their samples.
    fn identified(&self, exports: &ExportTable) -> Vec<(FileKey, u64)> {
        let mut files = HashMap::new();
        for (file, samples) in self.snapshot() {
            *files.entry(file.identified(exports)).or_default() += samples;
        }
        files.into_iter().collect()
    }
}

impl Nfs {
    /// Returns at most `max` files with the most sampled requests, the busiest first. It may wait
    /// for file systems.
    pub fn busy_files(&self, max: usize) -> Vec<BusyFile> {
        let mut busiest = self.busy_files.identified(&self.exports.snapshot());
        busiest.sort_by_key(|(_, samples)| std::cmp::Reverse(*samples));
        busiest.truncate(max);
        let mut open = HashMap::new();
        self.state.each_open(|key, payload: &OpenPayload| {
            if let Some(file) = payload.any()
                && busiest.iter().any(|(busy, _)| busy == key)
            {
                open.entry(*key).or_insert_with(|| file.clone());
            }
        });
        let file = |(key, samples): (FileKey, u64)| BusyFile {
            export: key.export,
            handle: key.handle.as_bytes().to_vec(),
            open: open.get(&key).cloned(),
            samples,
        };
        busiest.into_iter().map(file).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Object;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::time::Duration;
    use vfs::{Backend, ClientPeer, Export, Identity, MemoryBackend, MemoryLimits, ObjectHandle, Timestamp};

    /// A file system that several exports reach. It counts questions about identities.
    struct CountingBackend {
        inner: MemoryBackend,
        questions: AtomicUsize,
    }

    impl Backend for CountingBackend {
        vfs::forward_backend!(
            inner: root, features, features_of, part, mounted_on, has_mounts, may_wait,
            answers_from_memory, seldom_waits, is_cached, lookup_now, getattr, setattr, access,
            lookup, lookup_attributes, lookup_to_change, lookup_parent, readlink, open, open_own, create_file,
            create, link, remove, rename, rename_new, readdir, acls, quota, get_xattr, set_xattr,
            list_xattrs, remove_xattr, syncs_names, hold, sync_names, commit, sync_failures, statfs, trim, handle_key,
            heir,
        );

        fn identity(&self, _: &ObjectHandle) -> Option<Identity> {
            self.questions.fetch_add(1, Relaxed);
            Some(Identity { device: 1, skip: 0, shared: false })
        }
    }

    fn asked() -> Arc<CountingBackend> {
        let inner = MemoryBackend::new(MemoryLimits::default(), [7; 16]).unwrap();
        Arc::new(CountingBackend { inner, questions: AtomicUsize::new(0) })
    }

    fn root_of(export: &Arc<Export>) -> Object {
        let peer = ClientPeer { address: ([127, 0, 0, 1], 900).into(), now: Duration::ZERO };
        Object::root_of(export, peer).unwrap().unwrap()
    }

    #[test]
    fn samples_of_a_file_ask_its_backend_only_when_they_are_shown() {
        let backend = asked();
        let exports = ["/x", "/y"].map(|path| Export::new(path, backend.clone()).unwrap());
        let table = ExportTable::new(exports.into(), Timestamp::default()).unwrap();
        let files = BusyFiles::default();
        for export in table.iter() {
            files.note(&Fh::Object(root_of(export)));
        }
        assert_eq!(backend.questions.load(Relaxed), 0);
        let shown = files.identified(&table);
        assert_eq!(shown.iter().map(|(_, samples)| *samples).collect::<Vec<_>>(), [2], "it is one file");
        assert_eq!(backend.questions.load(Relaxed), 2);
    }

    #[test]
    fn a_frequent_file_is_found_among_many_rare_ones() {
        let export = Arc::new(Export::new("/x", asked()).unwrap());
        let root = root_of(&export);
        let file = |number: u32| {
            let handle = ObjectHandle::new(&number.to_be_bytes()).unwrap();
            Fh::Object(Object { handle, ..root.clone() })
        };
        let files = BusyFiles::default();
        for number in 1..10_000 {
            files.note(&file(number));
            if number % 4 == 0 {
                files.note(&file(0));
            }
        }
        files.note(&Fh::Pseudo(1));
        let samples = files.snapshot();
        assert_eq!(samples.len(), BUSY_FILES_MAX);
        let most = samples.iter().max_by_key(|(_, count)| *count).unwrap();
        assert_eq!(most.0.handle.as_bytes(), 0_u32.to_be_bytes());
        assert!(most.1 >= 2499, "{most:?}");
    }
}
