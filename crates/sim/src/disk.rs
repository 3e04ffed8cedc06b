//! A file system whose unstable data and names a crash can lose: the memory backend, and the
//! changes in it since the last sync.
//!
//! Attributes are on stable storage when an operation ends; data and names are when they were
//! synced. When the machine loses its power, each write since then is present or absent,
//! independent of the others. Of the changes of names in a directory since then, any number of the
//! last ones is undone.

#![expect(clippy::expect_used, reason = "a simulation that cannot go on ends its seed")]

use crate::mutation::Mutation;
use crate::rng::Rng;
use crate::unsynced::{Place, Unsynced, UnsyncedData};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vfs::{
    Attributes, Backend, Caller, FoundObject, HeldObject, MemoryBackend, NewObject, ObjectHandle, OpenAccess,
    OpenFile, RenamedObjects, SetAttributes, VfsResult, XattrHow,
};

/// The payload that unwinds out of the server when the machine crashes in the middle of an
/// operation.
pub(crate) struct Crash;

/// The value of a fuse that has burned down: the machine has crashed.
const BURNED: i64 = -1;

/// Decides at which step of the disk the machine crashes.
#[derive(Clone, Default)]
pub(crate) struct Fuse(Arc<AtomicI64>);

impl Fuse {
    /// Lets the machine crash before the `steps`th step from now, or not at all with 0.
    pub(crate) fn set(&self, steps: i64) {
        self.0.store(steps, Relaxed);
    }

    /// Returns whether the machine has crashed since the fuse was last set. The runtime catches the
    /// unwinding of deferred calls, so nothing else shows it.
    pub(crate) fn is_burned(&self) -> bool {
        self.0.load(Relaxed) == BURNED
    }

    /// Takes a step. After a crash no step is taken any more.
    pub(crate) fn burn(&self) {
        match self.0.load(Relaxed) {
            0 => {}
            1 | BURNED => {
                self.0.store(BURNED, Relaxed);
                resume_unwind(Box::new(Crash));
            }
            left => self.0.store(left - 1, Relaxed),
        }
    }
}

/// The disk: survives the server.
pub(crate) struct SimDisk {
    files: MemoryBackend,
    unsynced: Arc<Mutex<Unsynced>>,
    fuse: Fuse,
    /// Whether operations would block, so that their calls are deferred.
    slow: bool,
    mutation: Mutation,
    /// The directories whose sync [`Mutation::SyncAfterReply`] delays.
    late: Mutex<Vec<ObjectHandle>>,
}

impl SimDisk {
    /// Puts a file system on a disk.
    pub(crate) fn new(files: MemoryBackend, fuse: Fuse, slow: bool, mutation: Mutation) -> Self {
        Self { files, unsynced: Arc::default(), fuse, slow, mutation, late: Mutex::default() }
    }

    /// Returns whether a deliberate fault makes syncs of data do nothing.
    fn forgets(&self) -> bool {
        self.mutation == Mutation::CommitForgets
    }

    /// Makes the syncs that a deliberate fault has delayed.
    pub(crate) fn sync_late(&self) {
        let late = std::mem::take(&mut *lock(&self.late));
        late.iter().for_each(|directory| lock(&self.unsynced).sync_directory(directory));
    }

    /// Undoes unsynced changes, as a power failure does.
    pub(crate) fn lose_power(&self, rng: &mut Rng) {
        lock(&self.late).clear();
        let mut unsynced = lock(&self.unsynced);
        unsynced.undo_names(&self.files, rng);
        for (handle, loose) in std::mem::take(&mut unsynced.data) {
            let Some(handle) = ObjectHandle::new(&handle) else { continue };
            let both = OpenAccess { read: true, write: true };
            // A file without a name ended with the server that had it open.
            let Ok(file) = self.files.open(&Caller::root(), &handle, both) else { continue };
            let done = file.set_size(0).and_then(|()| file.write_at(&loose.base, 0));
            done.expect("there was room for it before");
            let all = rng.one_in(4);
            for (offset, data) in loose.writes {
                if all || rng.one_in(2) {
                    file.write_at(&data, offset).expect("there was room for it before");
                }
            }
        }
    }

    /// Reads the current content of a file; `None` if the path names none.
    pub(crate) fn read(&self, path: &str) -> Option<Vec<u8>> {
        let handle = self.find(path)?;
        let file = self.files.open(&Caller::root(), &handle, OpenAccess { read: true, write: false });
        content(&*file.ok()?)
    }

    /// Returns whether a path names an object.
    pub(crate) fn exists(&self, path: &str) -> bool {
        self.find(path).is_some()
    }

    fn find(&self, path: &str) -> Option<ObjectHandle> {
        path.split('/').try_fold(self.files.root(), |directory, name| {
            self.files.lookup(&Caller::root(), &directory, name.as_bytes()).ok()
        })
    }

    /// Makes files that all users may write, and directories for the paths that end with a slash.
    pub(crate) fn prepare(&self, paths: &[String]) {
        let root = Caller::root();
        for path in paths {
            let (directory, is_directory) = (path.trim_end_matches('/'), path.ends_with('/'));
            let (parent, name) = directory.rsplit_once('/').unwrap_or(("", directory));
            let parent =
                if parent.is_empty() { self.files.root() } else { self.find(parent).expect("made before") };
            let set = SetAttributes { mode: Some(0o777), ..SetAttributes::default() };
            let made = if is_directory {
                self.files.create(&root, &parent, name.as_bytes(), NewObject::Directory, &set).map(drop)
            } else {
                let access = OpenAccess { read: true, write: true };
                self.files.create_file(&root, &parent, name.as_bytes(), access, &set).map(drop)
            };
            made.expect("an empty file system takes a few names");
        }
    }

    /// Makes a file that only its owner may read and write.
    pub(crate) fn prepare_private(&self, path: &str, owner: u32, content: &[u8]) {
        self.prepare(&[path.to_owned()]);
        let (root, handle) = (Caller::root(), self.find(path).expect("made before"));
        let (uid, gid) = (Some(owner), Some(owner));
        let set = SetAttributes { mode: Some(0o600), uid, gid, ..SetAttributes::default() };
        self.files.setattr(&root, &handle, &set).expect("root changes any owner");
        let file = self.files.open(&root, &handle, OpenAccess { read: false, write: true });
        file.and_then(|file| file.write_at(content, 0)).expect("there is room for it");
    }

    fn wrap(&self, handle: &ObjectHandle, file: Arc<dyn OpenFile>) -> Arc<dyn OpenFile> {
        Arc::new(DiskFile {
            file,
            handle: *handle,
            unsynced: self.unsynced.clone(),
            fuse: self.fuse.clone(),
            forgets: self.forgets(),
        })
    }

    /// Runs a step that changes names. The machine may crash before or after it.
    fn change_names<T>(
        &self,
        places: &[Place<'_>],
        run: impl FnOnce(&MemoryBackend) -> VfsResult<T>,
    ) -> VfsResult<T> {
        self.fuse.burn();
        let done = lock(&self.unsynced).change(&self.files, places, run);
        self.fuse.burn();
        done
    }

    /// Puts a file's data on stable storage, and the names that lead to it.
    fn sync_file(&self, object: &ObjectHandle) {
        let mut unsynced = lock(&self.unsynced);
        unsynced.sync_names_of(object);
        if !self.forgets() {
            unsynced.data.remove(object.as_bytes());
        }
    }

    /// Runs a step that changes attributes. The machine may crash before or after it.
    fn step<T>(&self, run: impl FnOnce(&MemoryBackend) -> VfsResult<T>) -> VfsResult<T> {
        self.fuse.burn();
        let done = run(&self.files);
        self.fuse.burn();
        done
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn content(file: &dyn OpenFile) -> Option<Vec<u8>> {
    let mut data = Vec::new();
    let size = usize::try_from(file.getattr().ok()?.size).ok()?;
    file.read_at(&mut data, size, 0).ok()?;
    Some(data)
}

/// A file of the disk that is open.
struct DiskFile {
    file: Arc<dyn OpenFile>,
    handle: ObjectHandle,
    unsynced: Arc<Mutex<Unsynced>>,
    fuse: Fuse,
    forgets: bool,
}

impl OpenFile for DiskFile {
    vfs::forward_open_file!(file: read_at, read_now, splice_at, getattr, seek, advise, lease, range_locks, as_any);

    fn write_at(&self, data: &[u8], offset: u64) -> VfsResult<usize> {
        self.fuse.burn();
        {
            let mut unsynced = lock(&self.unsynced);
            let entry = unsynced.data.entry(self.handle.as_bytes().to_vec());
            let new = || UnsyncedData { base: content(&*self.file).unwrap_or_default(), writes: Vec::new() };
            entry.or_insert_with(new).writes.push((offset, data.to_vec()));
        }
        let written = self.file.write_at(data, offset);
        self.fuse.burn();
        written
    }

    fn written_by(&self, _: &Caller) -> Option<Arc<dyn OpenFile>> {
        None
    }

    fn sync(&self) -> VfsResult<()> {
        self.fuse.burn();
        {
            let mut unsynced = lock(&self.unsynced);
            unsynced.sync_names_of(&self.handle);
            if !self.forgets {
                unsynced.data.remove(self.handle.as_bytes());
            }
        }
        self.file.sync()?;
        self.fuse.burn();
        Ok(())
    }

    fn set_size(&self, size: u64) -> VfsResult<()> {
        self.sync()?;
        self.file.set_size(size)
    }

    fn allocate(&self, offset: u64, length: u64) -> VfsResult<()> {
        self.sync()?;
        self.file.allocate(offset, length)
    }

    fn deallocate(&self, offset: u64, length: u64) -> VfsResult<()> {
        self.sync()?;
        self.file.deallocate(offset, length)
    }

    fn copy_range(
        &self,
        source: &dyn OpenFile,
        source_offset: u64,
        offset: u64,
        count: u64,
    ) -> VfsResult<u64> {
        vfs::copy_by_pieces(source, source_offset, count, |data, done| {
            self.write_at(data, offset.saturating_add(done))
        })
    }

    fn clone_range(
        &self,
        source: &dyn OpenFile,
        source_offset: u64,
        offset: u64,
        count: u64,
    ) -> VfsResult<()> {
        self.sync()?;
        self.file.clone_range(source, source_offset, offset, count)
    }
}

impl Backend for SimDisk {
    vfs::forward_backend!(
        files: root, features, features_of, part, mounted_on, has_mounts, identity, answers_from_memory, seldom_waits, getattr, access,
        lookup, lookup_attributes, lookup_to_change, lookup_parent, readlink, readdir, acls, quota, get_xattr, list_xattrs, sync_failures, statfs,
        trim, handle_key, heir,
    );

    fn may_wait(&self) -> bool {
        self.slow
    }

    fn syncs_names(&self, _: &ObjectHandle) -> bool {
        true
    }

    fn hold(&self, _: &ObjectHandle) -> Option<HeldObject> {
        None
    }

    fn sync_names(&self, object: &ObjectHandle, _: Option<&HeldObject>) -> VfsResult<()> {
        self.fuse.burn();
        if self.mutation == Mutation::SyncAfterReply {
            lock(&self.late).push(*object);
            return Ok(());
        }
        lock(&self.unsynced).sync_directory(object);
        self.sync_file(object);
        // Between the sync and the reply.
        self.fuse.burn();
        Ok(())
    }

    fn is_cached(&self, _: &ObjectHandle) -> bool {
        !self.slow
    }

    fn lookup_now(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<Option<ObjectHandle>> {
        if self.slow { Ok(None) } else { self.files.lookup_now(caller, directory, name) }
    }

    fn setattr(&self, caller: &Caller, object: &ObjectHandle, set: &SetAttributes) -> VfsResult<Attributes> {
        self.step(|files| files.setattr(caller, object, set))
    }

    fn open(
        &self,
        caller: &Caller,
        object: &ObjectHandle,
        access: OpenAccess,
    ) -> VfsResult<Arc<dyn OpenFile>> {
        self.files.open(caller, object, access).map(|file| self.wrap(object, file))
    }

    fn open_own(
        &self,
        owner: &Caller,
        object: &ObjectHandle,
        access: OpenAccess,
    ) -> VfsResult<Arc<dyn OpenFile>> {
        self.files.open_own(owner, object, access).map(|file| self.wrap(object, file))
    }

    fn create_file(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
        access: OpenAccess,
        set: &SetAttributes,
    ) -> VfsResult<(ObjectHandle, Arc<dyn OpenFile>)> {
        let create = |files: &MemoryBackend| files.create_file(caller, directory, name, access, set);
        let (handle, file) = self.change_names(&[(directory, name)], create)?;
        let file = self.wrap(&handle, file);
        Ok((handle, file))
    }

    fn create(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
        object: NewObject<'_>,
        set: &SetAttributes,
    ) -> VfsResult<ObjectHandle> {
        self.change_names(&[(directory, name)], |files| files.create(caller, directory, name, object, set))
    }

    fn link(
        &self,
        caller: &Caller,
        object: &ObjectHandle,
        directory: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<()> {
        self.change_names(&[(directory, name)], |files| files.link(caller, object, directory, name))
    }

    fn remove(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
        found: Option<&FoundObject>,
    ) -> VfsResult<()> {
        self.change_names(&[(directory, name)], |files| files.remove(caller, directory, name, found))
    }

    fn rename(
        &self,
        caller: &Caller,
        from: (&ObjectHandle, &[u8]),
        to: (&ObjectHandle, &[u8]),
        found: Option<&RenamedObjects>,
    ) -> VfsResult<()> {
        self.change_names(&[from, to], |files| files.rename(caller, from, to, found))
    }

    fn rename_new(
        &self,
        _: &Caller,
        _: (&ObjectHandle, &[u8]),
        _: (&ObjectHandle, &[u8]),
        _: &FoundObject,
    ) -> VfsResult<bool> {
        Ok(false)
    }

    fn set_xattr(
        &self,
        caller: &Caller,
        object: &ObjectHandle,
        name: &[u8],
        value: &[u8],
        how: XattrHow,
    ) -> VfsResult<()> {
        self.step(|files| files.set_xattr(caller, object, name, value, how))
    }

    fn remove_xattr(&self, caller: &Caller, object: &ObjectHandle, name: &[u8]) -> VfsResult<()> {
        self.step(|files| files.remove_xattr(caller, object, name))
    }

    fn commit(&self, object: &ObjectHandle) -> VfsResult<()> {
        self.fuse.burn();
        self.sync_file(object);
        self.fuse.burn();
        self.files.commit(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::MemoryLimits;

    fn disk() -> SimDisk {
        let files = MemoryBackend::new(MemoryLimits::default(), [7; 16]).unwrap();
        SimDisk::new(files, Fuse::default(), false, Mutation::None)
    }

    fn make(disk: &SimDisk, name: &str) -> (ObjectHandle, Arc<dyn OpenFile>) {
        let access = OpenAccess { read: true, write: true };
        let set = SetAttributes::default();
        disk.create_file(&Caller::root(), &disk.root(), name.as_bytes(), access, &set).unwrap()
    }

    /// Runs several crashes of a disk, and returns which of the names each leaves.
    fn left(names: &[&str], prepare: impl Fn(&SimDisk)) -> Vec<Vec<bool>> {
        let crash = |seed| {
            let disk = disk();
            prepare(&disk);
            disk.lose_power(&mut Rng::new(seed));
            names.iter().map(|name| disk.exists(name)).collect()
        };
        let mut left: Vec<Vec<bool>> = (0..40).map(crash).collect();
        left.sort();
        left.dedup();
        left
    }

    #[test]
    fn a_power_failure_undoes_the_last_changes_of_names_and_no_synced_one() {
        let left = left(&["a", "b", "c"], |disk| {
            make(disk, "a");
            disk.sync_names(&disk.root(), None).unwrap();
            make(disk, "b");
            disk.rename(&Caller::root(), (&disk.root(), b"a"), (&disk.root(), b"c"), None).unwrap();
        });
        let [undone, half, done] = [[true, false, false], [true, true, false], [false, true, true]];
        assert_eq!(left, [done, undone, half].map(Vec::from));
    }

    #[test]
    fn a_removed_file_comes_back_with_its_content() {
        let disk = disk();
        make(&disk, "a").1.write_at(b"data", 0).unwrap();
        disk.sync_names(&disk.find("a").unwrap(), None).unwrap();
        disk.remove(&Caller::root(), &disk.root(), b"a", None).unwrap();
        assert!(!disk.exists("a"));
        while !disk.exists("a") {
            disk.lose_power(&mut Rng::new(7));
        }
        assert_eq!(disk.read("a").unwrap(), b"data");
    }

    #[test]
    fn a_sync_of_a_file_keeps_its_name_and_the_changes_before_it() {
        let left = left(&["a", "b", "c"], |disk| {
            make(disk, "a");
            make(disk, "b").1.sync().unwrap();
            make(disk, "c");
        });
        assert_eq!(left, [[true, true, false], [true, true, true]].map(Vec::from));
    }

    #[test]
    fn no_step_is_taken_after_a_crash() {
        let fuse = Fuse::default();
        fuse.set(2);
        fuse.burn();
        for _ in 0..2 {
            assert!(std::panic::catch_unwind(|| fuse.burn()).is_err());
            assert!(fuse.is_burned());
        }
        fuse.set(0);
        fuse.burn();
    }
}
