//! The file system as a gateway mounts it: one memory backend for all, and the locks of the
//! metadata servers. Nothing works after the end of the session.

use super::storage::SimStorage;
use crate::client::CELLS;
use std::any::Any;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use vfs::{
    Backend, Broken, Caller, Features, Identity, Lease, LeaseKind, LocalLock, LockKind, LockOutcome,
    MemoryBackend, ObjectHandle, OpenAccess, OpenFile, RangeLocks, SetAttributes, VfsError, VfsResult,
};

/// The session of a gateway, which its open files share.
pub(super) struct MountSession {
    pub(super) storage: Arc<Mutex<SimStorage>>,
    pub(super) identity: String,
    pub(super) clock: Arc<AtomicU64>,
    /// Whether the network is gone, so that every call waits.
    pub(super) cut: AtomicBool,
    /// Whether a call has met the end of the session.
    pub(super) evicted: AtomicBool,
}

impl MountSession {
    fn storage(&self) -> MutexGuard<'_, SimStorage> {
        self.storage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a sign of life.
    pub(super) fn keep(&self) {
        drop(self.reach());
    }

    /// Reaches the cluster, and gives a sign of life by it.
    fn reach(&self) -> VfsResult<MutexGuard<'_, SimStorage>> {
        if self.cut.load(Relaxed) {
            return Err(VfsError::Delay);
        }
        let mut storage = self.storage();
        if storage.is_mounted(&self.identity, Duration::from_nanos(self.clock.load(Relaxed))) {
            return Ok(storage);
        }
        self.evicted.store(true, Relaxed);
        // The gateway ends soon, and its client finds the successor.
        Err(VfsError::Delay)
    }
}

/// The mounted file system.
pub(super) struct GatewayMount {
    pub(super) files: Arc<MemoryBackend>,
    pub(super) session: Arc<MountSession>,
}

impl GatewayMount {
    fn wrap(&self, handle: &ObjectHandle, file: Arc<dyn OpenFile>) -> Arc<dyn OpenFile> {
        Arc::new(MountedFile { file, handle: *handle, session: self.session.clone() })
    }
}

impl Backend for GatewayMount {
    vfs::forward_backend!(
        files: root, features_of, part, mounted_on, has_mounts, may_wait, answers_from_memory, seldom_waits, is_cached,
        lookup_now, getattr, access, lookup, lookup_attributes, lookup_to_change, lookup_parent, readlink, readdir, acls, quota, get_xattr,
        list_xattrs, syncs_names, hold, sync_names, sync_failures, statfs, trim, handle_key, heir, create, link, remove, rename, rename_new, setattr, set_xattr,
        remove_xattr, commit,
    );

    fn features(&self) -> Features {
        Features { local_programs: true, ..self.files.features() }
    }

    fn identity(&self, _: &ObjectHandle) -> Option<Identity> {
        Some(Identity { device: 1, skip: 0, shared: true })
    }

    fn open(
        &self,
        caller: &Caller,
        object: &ObjectHandle,
        access: OpenAccess,
    ) -> VfsResult<Arc<dyn OpenFile>> {
        drop(self.session.reach()?);
        self.files.open(caller, object, access).map(|file| self.wrap(object, file))
    }

    fn open_own(
        &self,
        owner: &Caller,
        object: &ObjectHandle,
        access: OpenAccess,
    ) -> VfsResult<Arc<dyn OpenFile>> {
        drop(self.session.reach()?);
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
        drop(self.session.reach()?);
        let (handle, file) = self.files.create_file(caller, directory, name, access, set)?;
        let file = self.wrap(&handle, file);
        Ok((handle, file))
    }
}

/// An open file of a gateway.
struct MountedFile {
    file: Arc<dyn OpenFile>,
    handle: ObjectHandle,
    session: Arc<MountSession>,
}

impl OpenFile for MountedFile {
    vfs::forward_open_file!(
        file: read_now, splice_at, sync, getattr, set_size, seek, allocate, deallocate, advise, copy_range, clone_range,
        as_any,
    );

    fn read_at(&self, into: &mut Vec<u8>, count: usize, offset: u64) -> VfsResult<vfs::Eof> {
        drop(self.session.reach()?);
        self.file.read_at(into, count, offset)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> VfsResult<usize> {
        drop(self.session.reach()?);
        self.file.write_at(data, offset)
    }

    fn written_by(&self, _: &Caller) -> Option<Arc<dyn OpenFile>> {
        None
    }

    fn lease(&self, _: LeaseKind, _: Broken) -> VfsResult<Option<Arc<dyn Lease>>> {
        Err(VfsError::Notsupp)
    }

    fn range_locks(&self, _: LockKind) -> VfsResult<Option<Box<dyn RangeLocks>>> {
        Ok(Some(Box::new(MountedLocks { handle: self.handle, session: self.session.clone() })))
    }
}

/// The locks of a gateway on a file.
struct MountedLocks {
    handle: ObjectHandle,
    session: Arc<MountSession>,
}

fn cells(first: u64, last: u64) -> Range<usize> {
    let cell = |offset: u64| usize::try_from(offset).unwrap_or(CELLS).min(CELLS);
    cell(first)..cell(last.saturating_add(1))
}

impl RangeLocks for MountedLocks {
    fn can_write(&self) -> bool {
        true
    }

    fn set(&self, first: u64, last: u64, kind: Option<LockKind>) -> VfsResult<LockOutcome> {
        let (range, file) = (cells(first, last), self.handle.as_bytes());
        let mut storage = self.session.reach()?;
        let conflict =
            kind.and_then(|kind| storage.conflict(file, &self.session.identity, range.clone(), kind));
        if conflict.is_some() {
            return Ok(LockOutcome::Conflict);
        }
        storage.set_lock(file, &self.session.identity, range, kind);
        Ok(LockOutcome::Done)
    }

    fn find(&self, first: u64, last: u64, kind: LockKind) -> VfsResult<Option<LocalLock>> {
        let storage = self.session.reach()?;
        let found =
            storage.conflict(self.handle.as_bytes(), &self.session.identity, cells(first, last), kind);
        Ok(found.map(|(cell, kind)| LocalLock { first: cell as u64, last: cell as u64, kind }))
    }

    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}
