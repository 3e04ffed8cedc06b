//! A file system whose unstable data a crash can lose: the memory backend, and what was written to
//! it since the last sync.
//!
//! Names and attributes are on stable storage when an operation ends; data is when it was synced.
//! When the machine loses its power, each write since then is there or is not, whatever came before
//! or after it.

#![expect(clippy::expect_used, reason = "a simulation that cannot go on ends its seed")]

use crate::chance::Chance;
use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vfs::{
    Attributes, Backend, Caller, MemoryBackend, NewObject, ObjectHandle, OpenAccess, OpenFile, SetAttributes,
    VfsResult, XattrHow,
};

/// What unwinds out of the server when the machine crashes in the middle of an operation.
pub struct Crash;

/// Decides at which step of the disk the machine crashes.
#[derive(Clone, Default)]
pub struct Fuse(Arc<AtomicI64>);

impl Fuse {
    /// The machine will crash before the `steps`th step from now, or in no step with 0.
    pub fn set(&self, steps: i64) {
        self.0.store(steps, Relaxed);
    }

    /// Takes a step.
    pub fn burn(&self) {
        let left = self.0.load(Relaxed);
        if left > 0 {
            self.0.store(left - 1, Relaxed);
            if left == 1 {
                resume_unwind(Box::new(Crash));
            }
        }
    }
}

/// A file as it was when it was last synced, and the writes since then.
struct Loose {
    base: Vec<u8>,
    writes: Vec<(u64, Vec<u8>)>,
}

/// The disk: survives the server.
pub struct Disk {
    files: MemoryBackend,
    loose: Arc<Mutex<BTreeMap<Vec<u8>, Loose>>>,
    fuse: Fuse,
    /// Whether operations count as ones that wait, and so run elsewhere.
    slow: bool,
    /// A deliberate fault: a sync does nothing.
    forgets: bool,
}

impl Disk {
    /// Puts a file system on a disk.
    pub fn new(files: MemoryBackend, fuse: Fuse, slow: bool, forgets: bool) -> Self {
        Self { files, loose: Arc::default(), fuse, slow, forgets }
    }

    /// The machine loses its power.
    pub fn lose_power(&self, chance: &mut Chance) {
        for (handle, loose) in std::mem::take(&mut *lock(&self.loose)) {
            let Some(handle) = ObjectHandle::new(&handle) else { continue };
            let both = OpenAccess { read: true, write: true };
            // A file without a name is gone with the server that had it open.
            let Ok(file) = self.files.open(&Caller::root(), &handle, both) else { continue };
            let done = file.set_size(0).and_then(|()| file.write_at(&loose.base, 0));
            done.expect("there was room for it before");
            let all = chance.one_in(4);
            for (offset, data) in loose.writes {
                if all || chance.one_in(2) {
                    file.write_at(&data, offset).expect("there was room for it before");
                }
            }
        }
    }

    /// Reads a file by its path, as it is now; nothing where there is none.
    pub fn read(&self, path: &str) -> Option<Vec<u8>> {
        let handle = self.find(path)?;
        let file = self.files.open(&Caller::root(), &handle, OpenAccess { read: true, write: false });
        content(&*file.ok()?)
    }

    /// Whether there is something of this name.
    pub fn exists(&self, path: &str) -> bool {
        self.find(path).is_some()
    }

    fn find(&self, path: &str) -> Option<ObjectHandle> {
        path.split('/').try_fold(self.files.root(), |directory, name| {
            self.files.lookup(&Caller::root(), &directory, name.as_bytes()).ok()
        })
    }

    /// Makes directories and files that everybody may write to: the ones whose names end with a
    /// slash, and the others.
    pub fn prepare(&self, paths: &[String]) {
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

    fn wrap(&self, handle: &ObjectHandle, file: Arc<dyn OpenFile>) -> Arc<dyn OpenFile> {
        Arc::new(DiskFile {
            file,
            handle: handle.as_bytes().to_vec(),
            loose: self.loose.clone(),
            fuse: self.fuse.clone(),
            forgets: self.forgets,
        })
    }

    /// A step that changes names: the machine may crash before or after it.
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
    handle: Vec<u8>,
    loose: Arc<Mutex<BTreeMap<Vec<u8>, Loose>>>,
    fuse: Fuse,
    forgets: bool,
}

impl OpenFile for DiskFile {
    vfs::forward_open_file!(file: read_at, read_now, getattr, seek, advise, lease, range_locks, as_any);

    fn write_at(&self, data: &[u8], offset: u64) -> VfsResult<usize> {
        self.fuse.burn();
        {
            let mut all = lock(&self.loose);
            let loose = all.entry(self.handle.clone());
            let base = || Loose { base: content(&*self.file).unwrap_or_default(), writes: Vec::new() };
            loose.or_insert_with(base).writes.push((offset, data.to_vec()));
        }
        let written = self.file.write_at(data, offset);
        self.fuse.burn();
        written
    }

    fn sync(&self) -> VfsResult<()> {
        self.fuse.burn();
        if !self.forgets {
            lock(&self.loose).remove(&self.handle);
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

impl Backend for Disk {
    vfs::forward_backend!(
        files: root, features, features_of, part, mounted_on, has_mounts, identity, answers_from_memory, getattr, access,
        lookup, lookup_attributes, lookup_parent, readlink, readdir, acls, quota, get_xattr, list_xattrs, settles, settle,
        statfs, trim,
    );

    fn may_wait(&self) -> bool {
        self.slow
    }

    fn is_at_hand(&self, _: &ObjectHandle) -> bool {
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

    fn create_file(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
        access: OpenAccess,
        set: &SetAttributes,
    ) -> VfsResult<(ObjectHandle, Arc<dyn OpenFile>)> {
        let (handle, file) = self.step(|files| files.create_file(caller, directory, name, access, set))?;
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
        self.step(|files| files.create(caller, directory, name, object, set))
    }

    fn link(
        &self,
        caller: &Caller,
        object: &ObjectHandle,
        directory: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<()> {
        self.step(|files| files.link(caller, object, directory, name))
    }

    fn remove(&self, caller: &Caller, directory: &ObjectHandle, name: &[u8]) -> VfsResult<()> {
        self.step(|files| files.remove(caller, directory, name))
    }

    fn rename(
        &self,
        caller: &Caller,
        from_directory: &ObjectHandle,
        from_name: &[u8],
        to_directory: &ObjectHandle,
        to_name: &[u8],
    ) -> VfsResult<()> {
        self.step(|files| files.rename(caller, from_directory, from_name, to_directory, to_name))
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
        if !self.forgets {
            lock(&self.loose).remove(object.as_bytes());
        }
        self.fuse.burn();
        self.files.commit(object)
    }
}
