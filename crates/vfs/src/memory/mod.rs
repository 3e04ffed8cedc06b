//! A file system in memory, with the whole semantics of POSIX: for tests, and for measuring without
//! a disk.

mod acls;
mod budget;
mod content;
mod directory;
mod file;
mod namespace;
mod node;
mod setattr;
mod sparse;
mod table;
#[cfg(test)]
mod tests;
mod xattrs;

use crate::{
    Acls, Attributes, Backend, Caller, DirEntry, Eof, Features, FoundObject, FsStat, Heir, HeldObject,
    Identity, NewObject, ObjectHandle, OpenAccess, OpenFile, Permissions, Quota, RenamedObjects,
    SetAttributes, Timestamp, VfsError, VfsResult, XattrHow,
};
use budget::MemoryBudget;
use directory::Directory;
use node::{Body, Node, NodeState};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;
use table::Table;

/// Longest name in bytes.
pub(crate) const NAME_MAX: usize = 255;
/// Longest target of a symbolic link in bytes.
const SYMLINK_MAX: usize = 4095;
/// Most names of one object.
const LINK_MAX: u32 = 65_000;
/// Inode number of the root.
const ROOT_INO: u64 = 2;
/// Identity of the file system.
const FSID: (u64, u64) = (0x6d65_6d66, 0x6f72_7468);
/// Entries that READDIR takes at once; the callback runs without the directory's lock.
const READDIR_BATCH: usize = 128;

/// Tells the time of day, as objects are stamped with it.
pub type WallClock = dyn Fn() -> Timestamp + Send + Sync;

/// Limits of a [`MemoryBackend`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Bytes of file data, names and link targets; beyond it `Nospc`.
    pub bytes_max: u64,
    /// Objects; beyond it `Nospc`.
    pub objects_max: u64,
}

impl Default for MemoryLimits {
    /// 1 GiB and a million objects.
    fn default() -> Self {
        Self { bytes_max: 1 << 30, objects_max: 1_000_000 }
    }
}

/// A file system in memory; it ends with the process, and handles of another one are `Stale`.
///
/// Reads of one file run concurrently; changes of the name space run one after the other. Reading
/// does not change the access time.
#[derive(Debug)]
pub struct MemoryBackend {
    nodes: Table,
    /// Held by operations that change names, so that each is atomic for the others.
    namespace: Mutex<()>,
    budget: Arc<MemoryBudget>,
    root: Arc<Node>,
}

/// An object that a simulation can give a name again after its last one is gone.
#[derive(Clone, Debug)]
pub struct KeptObject(Arc<Node>);

impl MemoryBackend {
    /// Makes an empty file system, its root owned by user and group 0 with mode 0755. Handles
    /// depend on `handle_key`: with a random one they cannot be guessed.
    ///
    /// # Errors
    /// `Nospc` when the limits leave no room for the root.
    pub fn new(limits: MemoryLimits, handle_key: [u8; 16]) -> VfsResult<Self> {
        Self::build(limits, Box::new(system_time), Some(handle_key))
    }

    /// As [`MemoryBackend::new`], for simulations: with a time of day of the caller's instead of
    /// the system's, and handles that are the same every time, which therefore can be guessed.
    ///
    /// # Errors
    /// The same.
    pub fn determined(limits: MemoryLimits, clock: Box<WallClock>) -> VfsResult<Self> {
        Self::build(limits, clock, None)
    }

    /// Keeps an object for [`MemoryBackend::put_back`], even if it loses its last name.
    ///
    /// # Errors
    /// The errors of resolving the handle.
    pub fn keep(&self, object: &ObjectHandle) -> VfsResult<KeptObject> {
        self.node(object).map(KeptObject)
    }

    /// Restores a name to an object, or removes it, for simulations of a power failure. Ignores
    /// permissions. The object has the handle that it had before.
    ///
    /// # Errors
    /// `Stale` for a removed directory; `Notdir`; `Nospc`.
    pub fn put_back(
        &self,
        directory: &ObjectHandle,
        name: &[u8],
        object: Option<&KeptObject>,
    ) -> VfsResult<()> {
        self.set_name(directory, name, object.map(|kept| &kept.0))
    }

    fn build(limits: MemoryLimits, clock: Box<WallClock>, handle_key: Option<[u8; 16]>) -> VfsResult<Self> {
        let budget = Arc::new(MemoryBudget::new(limits.bytes_max, limits.objects_max, clock));
        let body = Body::Directory(Directory::new(ROOT_INO, Arc::clone(&budget)));
        let root = Node::new(ROOT_INO, NodeState::new(body, 0o755, 0, 0, &budget), &budget)?;
        let nodes = Table::new(ROOT_INO + 1, handle_key);
        nodes.insert(&root);
        Ok(Self { nodes, namespace: Mutex::new(()), budget, root })
    }

    fn node(&self, handle: &ObjectHandle) -> VfsResult<Arc<Node>> {
        self.nodes.resolve(handle)
    }

    fn change_names(&self) -> MutexGuard<'_, ()> {
        self.namespace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn system_time() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanoseconds: since.subsec_nanos(),
    }
}

/// Refuses a symbolic link with `Symlink`, as LOOKUP does, and any other non-directory with
/// `Notdir`.
fn searchable(inner: &NodeState) -> VfsResult<&Directory> {
    match &inner.body {
        Body::Symlink(_) => Err(VfsError::Symlink),
        _ => inner.directory(),
    }
}

impl Backend for MemoryBackend {
    fn root(&self) -> ObjectHandle {
        self.nodes.handle(self.root.ino)
    }

    fn features(&self) -> Features {
        Features {
            clone_block: sparse::CLONE_BLOCK,
            acls: true,
            quotas: false,
            xattrs: true,
            change_grows: true,
            local_programs: false,
        }
    }

    fn features_of(&self, _object: &ObjectHandle) -> Features {
        self.features()
    }

    fn part(&self, _object: &ObjectHandle) -> u64 {
        0
    }

    fn mounted_on(&self, _object: &ObjectHandle) -> Option<u64> {
        None
    }

    fn has_mounts(&self, _directory: &ObjectHandle) -> bool {
        false
    }

    fn identity(&self, _object: &ObjectHandle) -> Option<Identity> {
        None
    }

    fn may_wait(&self) -> bool {
        false
    }

    fn answers_from_memory(&self, _object: &ObjectHandle) -> bool {
        true
    }

    fn seldom_waits(&self, _: &ObjectHandle) -> bool {
        false
    }

    fn is_cached(&self, _object: &ObjectHandle) -> bool {
        true
    }

    fn lookup_now(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<Option<ObjectHandle>> {
        self.lookup(caller, directory, name).map(Some)
    }

    fn getattr(&self, object: &ObjectHandle) -> VfsResult<Attributes> {
        Ok(self.node(object)?.attributes())
    }

    fn setattr(&self, caller: &Caller, object: &ObjectHandle, set: &SetAttributes) -> VfsResult<Attributes> {
        let node = self.node(object)?;
        let mut inner = node.write();
        setattr::apply(&mut inner, caller, set)?;
        Ok(inner.attributes(node.ino))
    }

    fn access(&self, caller: &Caller, object: &ObjectHandle) -> VfsResult<Permissions> {
        Ok(self.node(object)?.read().permissions(caller))
    }

    fn lookup(&self, caller: &Caller, directory: &ObjectHandle, name: &[u8]) -> VfsResult<ObjectHandle> {
        let node = self.node(directory)?;
        let inner = node.read();
        let entries = searchable(&inner)?;
        inner.require(caller, node::EXECUTE)?;
        if name.len() > NAME_MAX {
            return Err(VfsError::Nametoolong);
        }
        entries.get(name).map(|ino| self.nodes.handle(ino)).ok_or(VfsError::Noent)
    }

    fn lookup_attributes(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<(ObjectHandle, Attributes)> {
        let object = self.lookup(caller, directory, name)?;
        Ok((object, self.getattr(&object)?))
    }

    fn lookup_to_change(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<FoundObject> {
        Ok(FoundObject { handle: self.lookup(caller, directory, name)?, attributes: None })
    }

    fn lookup_parent(&self, caller: &Caller, directory: &ObjectHandle) -> VfsResult<ObjectHandle> {
        let node = self.node(directory)?;
        let inner = node.read();
        let parent = searchable(&inner)?.parent;
        inner.require(caller, node::EXECUTE)?;
        if node.ino == ROOT_INO {
            return Err(VfsError::Noent);
        }
        Ok(self.nodes.handle(parent))
    }

    fn readlink(&self, _caller: &Caller, object: &ObjectHandle) -> VfsResult<Vec<u8>> {
        match &self.node(object)?.read().body {
            Body::Symlink(target) => Ok(target.to_vec()),
            _ => Err(VfsError::WrongType),
        }
    }

    fn open(
        &self,
        caller: &Caller,
        object: &ObjectHandle,
        access: OpenAccess,
    ) -> VfsResult<Arc<dyn OpenFile>> {
        let node = self.node(object)?;
        {
            let inner = node.read();
            inner.content()?;
            let may = inner.permissions(caller);
            // Clients load programs by reading them, so execute permission allows reading here.
            let reads = may.read || (may.execute && !access.write);
            if (access.read && !reads) || (access.write && !may.write) {
                return Err(VfsError::Access);
            }
        }
        Ok(Arc::new(file::MemoryFile::new(node)))
    }

    fn open_own(&self, owner: &Caller, object: &ObjectHandle, _: OpenAccess) -> VfsResult<Arc<dyn OpenFile>> {
        let node = self.node(object)?;
        node.read().content()?;
        if node.attributes().uid != owner.uid {
            return Err(VfsError::Access);
        }
        Ok(Arc::new(file::MemoryFile::new(node)))
    }

    fn create_file(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
        _access: OpenAccess,
        set: &SetAttributes,
    ) -> VfsResult<(ObjectHandle, Arc<dyn OpenFile>)> {
        let node = self.make(caller, directory, name, namespace::New::Regular, set)?;
        Ok((self.nodes.handle(node.ino), Arc::new(file::MemoryFile::new(node))))
    }

    fn create(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
        object: NewObject<'_>,
        set: &SetAttributes,
    ) -> VfsResult<ObjectHandle> {
        let node = self.make(caller, directory, name, namespace::New::Other(object), set)?;
        Ok(self.nodes.handle(node.ino))
    }

    fn link(
        &self,
        caller: &Caller,
        object: &ObjectHandle,
        directory: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<()> {
        self.add_link(caller, object, directory, name)
    }

    fn remove(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
        _: Option<&FoundObject>,
    ) -> VfsResult<()> {
        self.remove_name(caller, directory, name)
    }

    fn rename(
        &self,
        caller: &Caller,
        from: (&ObjectHandle, &[u8]),
        to: (&ObjectHandle, &[u8]),
        _: Option<&RenamedObjects>,
    ) -> VfsResult<()> {
        self.rename_name(caller, from, to)
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

    fn readdir(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        cookie: u64,
        entry: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> VfsResult<Eof> {
        let node = self.node(directory)?;
        let mut cookie = cookie;
        {
            let inner = node.read();
            let entries = inner.directory()?;
            inner.require(caller, node::READ)?;
            if !entries.knows(cookie) {
                return Err(VfsError::BadCookie);
            }
        }
        loop {
            let batch = node.read().directory()?.after(cookie, READDIR_BATCH);
            for (at, name, fileid) in &batch {
                if entry(DirEntry { cookie: *at, name, fileid: *fileid }).is_break() {
                    return Ok(Eof::NotReached);
                }
                cookie = *at;
            }
            if batch.len() < READDIR_BATCH {
                return Ok(Eof::Reached);
            }
        }
    }

    fn acls(&self, object: &ObjectHandle) -> VfsResult<Acls> {
        let node = self.node(object)?;
        let inner = node.read();
        if matches!(inner.body, Body::Symlink(_)) {
            return Err(VfsError::Notsupp);
        }
        Ok(inner.acls.get().clone())
    }

    fn quota(&self, _caller: &Caller, _object: &ObjectHandle) -> VfsResult<Option<Quota>> {
        Ok(None)
    }

    fn get_xattr(&self, caller: &Caller, object: &ObjectHandle, name: &[u8]) -> VfsResult<Vec<u8>> {
        let node = self.node(object)?;
        let inner = node.read();
        inner.require_xattrs(caller, node::READ)?;
        inner.xattrs.get(name).map(<[u8]>::to_vec)
    }

    fn set_xattr(
        &self,
        caller: &Caller,
        object: &ObjectHandle,
        name: &[u8],
        value: &[u8],
        how: XattrHow,
    ) -> VfsResult<()> {
        let node = self.node(object)?;
        let mut inner = node.write();
        inner.require_xattrs(caller, node::WRITE)?;
        inner.xattrs.set(name, value, how)?;
        inner.touch();
        Ok(())
    }

    fn list_xattrs(&self, caller: &Caller, object: &ObjectHandle) -> VfsResult<Vec<Vec<u8>>> {
        let node = self.node(object)?;
        let inner = node.read();
        inner.require(caller, node::READ)?;
        Ok(inner.xattrs.names())
    }

    fn remove_xattr(&self, caller: &Caller, object: &ObjectHandle, name: &[u8]) -> VfsResult<()> {
        let node = self.node(object)?;
        let mut inner = node.write();
        inner.require_xattrs(caller, node::WRITE)?;
        inner.xattrs.remove(name)?;
        inner.touch();
        Ok(())
    }

    fn syncs_names(&self, _object: &ObjectHandle) -> bool {
        false
    }

    fn hold(&self, _: &ObjectHandle) -> Option<HeldObject> {
        None
    }

    fn sync_names(&self, _object: &ObjectHandle, _held: Option<&HeldObject>) -> VfsResult<()> {
        Ok(())
    }

    fn commit(&self, object: &ObjectHandle) -> VfsResult<()> {
        self.node(object).map(|_| ())
    }

    fn sync_failures(&self) -> u64 {
        0
    }

    fn statfs(&self, object: &ObjectHandle) -> VfsResult<FsStat> {
        self.node(object)?;
        Ok(self.budget.statfs())
    }

    fn trim(&self) {}

    fn handle_key(&self) -> Option<[u8; 16]> {
        None
    }

    fn heir(&self) -> Option<&dyn Heir> {
        None
    }
}
