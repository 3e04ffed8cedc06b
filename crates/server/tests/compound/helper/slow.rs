//! A file system on a disk that a test heats and cools.

use super::memory;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use vfs::{
    Attributes, Backend, Caller, DirEntry, Extent, Features, FsStat, MemoryBackend, NewObject, ObjectHandle,
    OpenAccess, OpenFile, Permissions, Quota, SetAttributes, VfsError, VfsResult,
};

/// The memory backend, which now and then would have to wait.
pub struct Slow {
    inner: Arc<MemoryBackend>,
    /// Whether nothing is in any cache.
    cold: Arc<AtomicBool>,
    /// Whether it is all in memory, as if nothing ever waited.
    quick: AtomicBool,
    /// Whether names and attributes are to be settled, and what has been.
    settles: AtomicBool,
    settled: Mutex<Vec<ObjectHandle>>,
    /// Whether that fails.
    sick: AtomicBool,
    /// What happens, once, in the middle of the next look-up.
    during: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

struct SlowFile {
    inner: Arc<dyn OpenFile>,
    cold: Arc<AtomicBool>,
}

impl Slow {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: memory(),
            cold: Arc::default(),
            quick: AtomicBool::new(false),
            settles: AtomicBool::new(false),
            settled: Mutex::default(),
            sick: AtomicBool::new(false),
            during: Mutex::default(),
        })
    }

    pub fn set_cold(&self, cold: bool) {
        self.cold.store(cold, Ordering::SeqCst);
    }

    /// Changes of names and attributes are to be settled from now on.
    pub fn start_settling(&self) {
        self.settles.store(true, Ordering::SeqCst);
    }

    /// What has been settled since this was last asked, in this order.
    pub fn take_settled(&self) -> Vec<ObjectHandle> {
        std::mem::take(&mut *self.settled.lock().unwrap())
    }

    /// Nothing can be settled any more.
    pub fn fall_sick(&self) {
        self.sick.store(true, Ordering::SeqCst);
    }

    /// Nothing is waited for from now on, and this happens in the middle of the next look-up.
    pub fn during_lookup(&self, happens: impl FnOnce() + Send + 'static) {
        self.quick.store(true, Ordering::SeqCst);
        *self.during.lock().unwrap() = Some(Box::new(happens));
    }

    fn is_cold(&self) -> bool {
        self.cold.load(Ordering::SeqCst)
    }

    fn slow(&self, inner: Arc<dyn OpenFile>) -> Arc<dyn OpenFile> {
        Arc::new(SlowFile { inner, cold: self.cold.clone() })
    }
}

impl OpenFile for SlowFile {
    fn read_at(&self, into: &mut Vec<u8>, count: usize, offset: u64) -> VfsResult<bool> {
        self.inner.read_at(into, count, offset)
    }

    fn read_now(&self, into: &mut Vec<u8>, count: usize, offset: u64) -> VfsResult<Option<bool>> {
        if self.cold.load(Ordering::SeqCst) {
            return Ok(None);
        }
        self.inner.read_at(into, count, offset).map(Some)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> VfsResult<usize> {
        self.inner.write_at(data, offset)
    }

    fn sync(&self) -> VfsResult<()> {
        self.inner.sync()
    }

    fn getattr(&self) -> VfsResult<Attributes> {
        self.inner.getattr()
    }

    fn set_size(&self, size: u64) -> VfsResult<()> {
        self.inner.set_size(size)
    }

    fn seek(&self, what: Extent, offset: u64) -> VfsResult<Option<u64>> {
        self.inner.seek(what, offset)
    }

    fn allocate(&self, offset: u64, length: u64) -> VfsResult<()> {
        self.inner.allocate(offset, length)
    }
}

impl Backend for Slow {
    fn features(&self) -> Features {
        Features { quotas: true, ..Features::default() }
    }

    fn quota(&self, caller: &Caller, object: &ObjectHandle) -> VfsResult<Option<Quota>> {
        let own = self.inner.getattr(object)?.uid == caller.uid;
        Ok(own.then_some(Quota { avail_hard: 30, avail_soft: 20, used: 10 }))
    }

    fn may_wait(&self) -> bool {
        !self.quick.load(Ordering::SeqCst)
    }

    fn is_at_hand(&self, _: &ObjectHandle) -> bool {
        !self.is_cold()
    }

    fn lookup_now(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<Option<ObjectHandle>> {
        if self.is_cold() { Ok(None) } else { self.inner.lookup(caller, directory, name).map(Some) }
    }

    fn root(&self) -> ObjectHandle {
        self.inner.root()
    }

    fn getattr(&self, object: &ObjectHandle) -> VfsResult<Attributes> {
        self.inner.getattr(object)
    }

    fn setattr(&self, caller: &Caller, object: &ObjectHandle, set: &SetAttributes) -> VfsResult<Attributes> {
        self.inner.setattr(caller, object, set)
    }

    fn access(&self, caller: &Caller, object: &ObjectHandle) -> VfsResult<Permissions> {
        self.inner.access(caller, object)
    }

    fn lookup(&self, caller: &Caller, directory: &ObjectHandle, name: &[u8]) -> VfsResult<ObjectHandle> {
        let found = self.inner.lookup(caller, directory, name);
        let during = self.during.lock().unwrap().take();
        during.into_iter().for_each(|happens| happens());
        found
    }

    fn lookup_parent(&self, caller: &Caller, directory: &ObjectHandle) -> VfsResult<ObjectHandle> {
        self.inner.lookup_parent(caller, directory)
    }

    fn readlink(&self, caller: &Caller, object: &ObjectHandle) -> VfsResult<Vec<u8>> {
        self.inner.readlink(caller, object)
    }

    fn open(
        &self,
        caller: &Caller,
        object: &ObjectHandle,
        access: OpenAccess,
    ) -> VfsResult<Arc<dyn OpenFile>> {
        self.inner.open(caller, object, access).map(|file| self.slow(file))
    }

    fn create_file(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
        access: OpenAccess,
        set: &SetAttributes,
    ) -> VfsResult<(ObjectHandle, Arc<dyn OpenFile>)> {
        let (handle, file) = self.inner.create_file(caller, directory, name, access, set)?;
        Ok((handle, self.slow(file)))
    }

    fn create(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
        object: NewObject<'_>,
        set: &SetAttributes,
    ) -> VfsResult<ObjectHandle> {
        self.inner.create(caller, directory, name, object, set)
    }

    fn link(
        &self,
        caller: &Caller,
        object: &ObjectHandle,
        directory: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<()> {
        self.inner.link(caller, object, directory, name)
    }

    fn remove(&self, caller: &Caller, directory: &ObjectHandle, name: &[u8]) -> VfsResult<()> {
        self.inner.remove(caller, directory, name)
    }

    fn rename(
        &self,
        caller: &Caller,
        from_directory: &ObjectHandle,
        from_name: &[u8],
        to_directory: &ObjectHandle,
        to_name: &[u8],
    ) -> VfsResult<()> {
        self.inner.rename(caller, from_directory, from_name, to_directory, to_name)
    }

    fn readdir(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        cookie: u64,
        entry: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> VfsResult<bool> {
        self.inner.readdir(caller, directory, cookie, entry)
    }

    fn settles(&self, _: &ObjectHandle) -> bool {
        self.settles.load(Ordering::SeqCst)
    }

    fn settle(&self, object: &ObjectHandle) -> VfsResult<()> {
        if self.sick.load(Ordering::SeqCst) {
            return Err(VfsError::Os(5));
        }
        self.settled.lock().unwrap().push(*object);
        Ok(())
    }

    fn commit(&self, object: &ObjectHandle) -> VfsResult<()> {
        self.inner.commit(object)
    }

    fn statfs(&self, object: &ObjectHandle) -> VfsResult<FsStat> {
        self.inner.statfs(object)
    }
}
