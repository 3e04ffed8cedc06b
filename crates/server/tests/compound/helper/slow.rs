//! A file system whose cache a test empties and fills.

use super::memory;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use vfs::{
    Attributes, Backend, Caller, Eof, Features, FoundObject, HeldObject, Identity, MemoryBackend,
    ObjectHandle, OpenAccess, OpenFile, Quota, SetAttributes, VfsError, VfsResult,
};

/// The memory backend, with operations that would block on demand.
pub(crate) struct Slow {
    inner: Arc<MemoryBackend>,
    /// Whether the cache is empty.
    cold: Arc<AtomicBool>,
    /// Whether all of it is in memory, so that nothing ever blocks.
    quick: AtomicBool,
    /// Whether changes of names and attributes need a sync, and the objects synced so far.
    syncs: AtomicBool,
    synced: Mutex<Vec<ObjectHandle>>,
    /// Whether a sync fails.
    sick: Arc<AtomicBool>,
    /// Whether no copy finds room in its user's quota.
    over_quota: Arc<AtomicBool>,
    /// Losses of written data that a local program has seen: each is reported once to a file that
    /// was open then.
    losses: Arc<AtomicU64>,
    /// Whether names that are to change cannot be looked up.
    blind: AtomicBool,
    /// Syncs that failed without a caller.
    sync_failures: AtomicU64,
    /// Whether other servers serve the files as well, and local programs use them.
    shared: AtomicBool,
    /// Runs once, in the middle of the next lookup.
    during: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

struct SlowFile {
    inner: Arc<dyn OpenFile>,
    cold: Arc<AtomicBool>,
    sick: Arc<AtomicBool>,
    over_quota: Arc<AtomicBool>,
    losses: Arc<AtomicU64>,
    /// The losses reported to it, and those from before it was opened.
    reported: AtomicU64,
}

impl Slow {
    pub(crate) fn new() -> Arc<Self> {
        Self::of(memory())
    }

    /// Makes a slow disk with these contents.
    pub(crate) fn of(inner: Arc<MemoryBackend>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            cold: Arc::default(),
            quick: AtomicBool::new(false),
            syncs: AtomicBool::new(false),
            synced: Mutex::default(),
            sick: Arc::default(),
            over_quota: Arc::default(),
            losses: Arc::default(),
            blind: AtomicBool::new(false),
            sync_failures: AtomicU64::new(0),
            shared: AtomicBool::new(false),
            during: Mutex::default(),
        })
    }

    pub(crate) fn set_cold(&self, cold: bool) {
        self.cold.store(cold, Ordering::SeqCst);
    }

    /// Makes changes of names and attributes need a sync from now on.
    pub(crate) fn start_syncing_names(&self) {
        self.syncs.store(true, Ordering::SeqCst);
    }

    /// Returns the objects synced since the last call, in order.
    pub(crate) fn take_synced(&self) -> Vec<ObjectHandle> {
        std::mem::take(&mut *self.synced.lock().unwrap())
    }

    /// Sets whether every sync fails from now on.
    pub(crate) fn fail_syncs(&self, fail: bool) {
        self.sick.store(fail, Ordering::SeqCst);
    }

    /// Makes every copy exceed its user's quota from now on.
    pub(crate) fn exhaust_quotas(&self) {
        self.over_quota.store(true, Ordering::SeqCst);
    }

    /// Sets whether no name that is to change can be looked up from now on.
    pub(crate) fn set_blind(&self, blind: bool) {
        self.blind.store(blind, Ordering::SeqCst);
    }

    /// Loses data of all files, and lets a local program see it.
    pub(crate) fn lose_data(&self) {
        self.losses.fetch_add(1, Ordering::SeqCst);
    }

    /// Fails a sync that no caller has asked for.
    pub(crate) fn fail_own_sync(&self) {
        self.sync_failures.fetch_add(1, Ordering::SeqCst);
    }

    /// Makes other servers serve the files as well.
    pub(crate) fn share(&self) {
        self.shared.store(true, Ordering::SeqCst);
    }

    /// Makes nothing block from now on, and runs `happens` in the middle of the next lookup.
    pub(crate) fn during_lookup(&self, happens: impl FnOnce() + Send + 'static) {
        self.quick.store(true, Ordering::SeqCst);
        *self.during.lock().unwrap() = Some(Box::new(happens));
    }

    fn is_cold(&self) -> bool {
        self.cold.load(Ordering::SeqCst)
    }

    fn slow(&self, inner: Arc<dyn OpenFile>) -> Arc<dyn OpenFile> {
        let reported = AtomicU64::new(self.losses.load(Ordering::SeqCst));
        let (cold, sick, losses) = (self.cold.clone(), self.sick.clone(), self.losses.clone());
        let over_quota = self.over_quota.clone();
        Arc::new(SlowFile { inner, cold, sick, over_quota, losses, reported })
    }
}

impl OpenFile for SlowFile {
    vfs::forward_open_file!(
        inner: read_at, splice_at, write_at, getattr, set_size, seek, allocate, deallocate, advise, clone_range, lease,
        range_locks, as_any,
    );

    fn copy_range(
        &self,
        source: &dyn OpenFile,
        source_offset: u64,
        offset: u64,
        count: u64,
    ) -> VfsResult<u64> {
        if self.over_quota.load(Ordering::SeqCst) {
            return Err(VfsError::Dquot);
        }
        self.inner.copy_range(source, source_offset, offset, count)
    }

    fn written_by(&self, _: &Caller) -> Option<Arc<dyn OpenFile>> {
        None
    }

    fn sync(&self) -> VfsResult<()> {
        let losses = self.losses.load(Ordering::SeqCst);
        let is_new = self.reported.swap(losses, Ordering::SeqCst) < losses;
        if is_new || self.sick.load(Ordering::SeqCst) { Err(VfsError::Os(5)) } else { self.inner.sync() }
    }

    fn read_now(&self, into: &mut Vec<u8>, count: usize, offset: u64) -> VfsResult<Option<Eof>> {
        if self.cold.load(Ordering::SeqCst) {
            return Ok(None);
        }
        self.inner.read_now(into, count, offset)
    }
}

impl Backend for Slow {
    vfs::forward_backend!(
        inner: root, part, mounted_on, has_mounts, answers_from_memory, seldom_waits, getattr, setattr, access, lookup_parent,
        readlink, create, link, remove, rename, rename_new, readdir, acls, get_xattr, set_xattr, list_xattrs, remove_xattr, commit, statfs,
        trim, handle_key, heir,
    );

    fn features(&self) -> Features {
        let local_programs = self.shared.load(Ordering::SeqCst);
        Features { quotas: true, clone_block: 4096, local_programs, ..Features::default() }
    }

    fn identity(&self, object: &ObjectHandle) -> Option<Identity> {
        let shared = self.shared.load(Ordering::SeqCst);
        if shared { Some(Identity { device: 1, skip: 0, shared }) } else { self.inner.identity(object) }
    }

    fn features_of(&self, _: &ObjectHandle) -> Features {
        self.features()
    }

    fn quota(&self, caller: &Caller, object: &ObjectHandle) -> VfsResult<Option<Quota>> {
        let own = self.inner.getattr(object)?.uid == caller.uid;
        Ok(own.then_some(Quota { avail_hard: 30, avail_soft: 20, used: 10 }))
    }

    fn may_wait(&self) -> bool {
        !self.quick.load(Ordering::SeqCst)
    }

    fn is_cached(&self, _: &ObjectHandle) -> bool {
        !self.is_cold()
    }

    fn lookup_now(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<Option<ObjectHandle>> {
        if self.is_cold() { Ok(None) } else { self.inner.lookup_now(caller, directory, name) }
    }

    fn lookup(&self, caller: &Caller, directory: &ObjectHandle, name: &[u8]) -> VfsResult<ObjectHandle> {
        let found = self.inner.lookup(caller, directory, name);
        let during = self.during.lock().unwrap().take();
        during.into_iter().for_each(|happens| happens());
        found
    }

    fn lookup_attributes(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<(ObjectHandle, Attributes)> {
        let object = self.lookup(caller, directory, name)?;
        Ok((object, self.inner.getattr(&object)?))
    }

    fn lookup_to_change(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<FoundObject> {
        if self.blind.load(Ordering::SeqCst) {
            return Err(VfsError::Os(5));
        }
        Ok(FoundObject { handle: self.lookup(caller, directory, name)?, attributes: None })
    }

    fn open(
        &self,
        caller: &Caller,
        object: &ObjectHandle,
        access: OpenAccess,
    ) -> VfsResult<Arc<dyn OpenFile>> {
        self.inner.open(caller, object, access).map(|file| self.slow(file))
    }

    fn open_own(
        &self,
        owner: &Caller,
        object: &ObjectHandle,
        access: OpenAccess,
    ) -> VfsResult<Arc<dyn OpenFile>> {
        self.inner.open_own(owner, object, access).map(|file| self.slow(file))
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

    fn syncs_names(&self, _: &ObjectHandle) -> bool {
        self.syncs.load(Ordering::SeqCst)
    }

    fn sync_failures(&self) -> u64 {
        self.sync_failures.load(Ordering::SeqCst)
    }

    fn hold(&self, object: &ObjectHandle) -> Option<HeldObject> {
        self.inner.getattr(object).ok().map(|_| Arc::new(*object) as HeldObject)
    }

    fn sync_names(&self, object: &ObjectHandle, held: Option<&HeldObject>) -> VfsResult<()> {
        let held = held.and_then(|held| held.downcast_ref::<ObjectHandle>());
        if held != Some(object) {
            self.inner.getattr(object)?;
        }
        if self.sick.load(Ordering::SeqCst) {
            return Err(VfsError::Os(5));
        }
        self.synced.lock().unwrap().push(*object);
        Ok(())
    }
}
