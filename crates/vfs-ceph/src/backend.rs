//! The backend itself: from handles to objects.

use crate::dirty::DirtyFiles;
use crate::handle::ObjectId;
use crate::mounts::CephMounts;
use crate::object::CephObject;
use crate::{containment, errno::vfs_error, handle_key};
use ceph::LibraryError;
use ceph::fs::{CephFs, CephInode, Credentials, MountError, MountOptions, Stat};
use foreign::ForeignThread;
use object_cache::ObjectCache;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;
use vfs::{Caller, FileType, ObjectHandle, VfsError, VfsResult};

/// The directory that lists a directory's snapshots.
pub(crate) const SNAPSHOTS: &[u8] = b".snap";
/// Parts of the library that by default keep a log in memory for the case that the process
/// crashes. Its thread is woken for each call, which takes 40 % of the time of a small read.
const QUIET: [&str; 6] =
    ["debug_client", "debug_objectcacher", "debug_objecter", "debug_monc", "debug_finisher", "debug_timer"];
/// Seconds in which the cluster must answer at the start.
const MOUNT_TIMEOUT: &str = "30";

/// The directory to export, and how to reach it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CephOptions {
    /// The configuration file of the cluster.
    pub configuration: PathBuf,
    /// The user's name without `client.`.
    pub user: String,
    /// The file with the user's key; `None`: as the configuration says.
    pub keyring: Option<PathBuf>,
    /// The name of the file system; `None`: the cluster's default.
    pub file_system: Option<String>,
    /// The exported directory, from the root of the file system.
    pub path: String,
    /// Whether clients see the snapshots of each directory in its `.snap`.
    pub snapshots: bool,
    /// Mounts among which objects are divided, at least one.
    pub mounts: usize,
    /// Whether changes of names and attributes are in the journal of the metadata server before
    /// they are acknowledged.
    pub stable_names: bool,
    /// Objects that the library keeps in memory between requests.
    pub object_cache_max: usize,
    /// The time in which clients return recalled delegations.
    pub recall_time: Duration,
    /// The name of this gateway for the metadata servers; its former instance loses its state at
    /// once. `None` in tests.
    pub identity: Option<String>,
    /// Another name that the former instance may have had, which ends with it.
    pub former: Option<String>,
}

impl CephOptions {
    /// Returns the options for a path with the usual configuration.
    pub fn new(path: impl Into<String>) -> Self {
        Self {
            configuration: "/etc/ceph/ceph.conf".into(),
            user: "orthrus".to_owned(),
            keyring: None,
            file_system: None,
            path: path.into(),
            snapshots: false,
            mounts: 1,
            stable_names: true,
            object_cache_max: 4096,
            recall_time: Duration::from_secs(60),
            identity: None,
            former: None,
        }
    }
}

/// Says why a directory cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum CephError {
    /// The library is missing or too old.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The file system cannot be mounted.
    #[error(transparent)]
    CephMount(#[from] MountError),
    /// The root of the export cannot be read.
    #[error("the root of the export cannot be read: {0}")]
    Root(VfsError),
    /// The path is not a directory.
    #[error("{0} is not a directory of the file system")]
    NotADirectory(String),
    /// The address of a mount is unknown.
    #[error("a mount has ended: {0}")]
    Address(ceph::CephErrno),
}

/// A directory of CephFS as a file system to serve.
///
/// Symbolic links are never followed and ".." never leaves the export. A directory that was moved
/// out of the export is `Stale` as soon as its handle is looked up again; a file that was moved out
/// keeps its handle. Handles are signed, so that no client can make one for another file.
///
/// Every call can wait for the network. Files are read and written through the cache of the
/// library, which Ceph keeps coherent with other gateways and native clients.
#[derive(Debug)]
pub struct CephBackend {
    library: CephFs,
    pub(crate) mounts: CephMounts,
    pub(crate) root: Arc<CephObject>,
    objects: Arc<ObjectCache<CephObject>>,
    /// The superuser, for what the server does itself.
    pub(crate) server: Arc<Credentials>,
    /// Number of the file system, the same for all its exports.
    pub(crate) device: u64,
    pub(crate) handle_key: Option<[u8; 16]>,
    snapshots: bool,
    pub(crate) stable_names: bool,
    pub(crate) recalls: Arc<crate::leases::Recalls>,
    /// Runs the calls of locks, which may hang.
    pub(crate) lock_thread: Arc<ForeignThread>,
    /// Files with data that may not be on stable storage.
    pub(crate) dirty_files: Arc<DirtyFiles<CephObject>>,
}

impl CephBackend {
    /// Mounts the directory.
    ///
    /// # Errors
    /// See [`CephError`]; each names the cure.
    pub fn open(options: &CephOptions) -> Result<Self, CephError> {
        let library = CephFs::load()?;
        let objects = Arc::new(ObjectCache::new(options.object_cache_max));
        let release = || release_request(Arc::downgrade(&objects));
        let mounts = CephMounts::open(library, &mount_options(options), options.mounts, release)?;
        let server =
            Credentials::new(library, 0, 0, &[].into()).ok_or(CephError::Root(VfsError::Exhausted))?;
        let read = |error| CephError::Root(vfs_error(error));
        let root = mounts.first().root().map_err(read)?;
        let stat = root.stat(&server).map_err(read)?;
        let root = Arc::new(CephObject::new(root, &stat));
        if root.file_type != FileType::Directory {
            return Err(CephError::NotADirectory(options.path.clone()));
        }
        mounts.allow_delegations(options.recall_time * 2);
        let device = device(&root.inode, &server);
        let handle_key = handle_key::find_or_make(&root.inode, &server, &options.path);
        announce(library, mounts.first(), options);
        Ok(Self {
            library,
            dirty_files: Arc::new(DirtyFiles::new(mounts.are_several())),
            mounts,
            root,
            objects,
            server: Arc::new(server),
            device,
            handle_key,
            snapshots: options.snapshots,
            stable_names: options.stable_names,
            recalls: Arc::default(),
            lock_thread: Arc::default(),
        })
    }

    /// Returns the caller as the library knows it.
    pub(crate) fn credentials(&self, caller: &Caller) -> VfsResult<Credentials> {
        Credentials::new(self.library, caller.uid, caller.gid, &caller.groups).ok_or(VfsError::Exhausted)
    }

    /// Finds the object of a handle if it is in use or cached.
    pub(crate) fn cached(&self, handle: &ObjectHandle) -> Option<Arc<CephObject>> {
        if *handle == self.root.handle {
            return Some(Arc::clone(&self.root));
        }
        self.objects.get(handle)
    }

    /// Finds the object of a handle.
    ///
    /// # Errors
    /// `Badhandle` for bytes that were never a handle of this backend, `Stale` for a removed
    /// object, and one outside of the export.
    pub(crate) fn resolve(&self, handle: &ObjectHandle) -> VfsResult<Arc<CephObject>> {
        if let Some(object) = self.cached(handle) {
            return Ok(object);
        }
        let id = ObjectId::of(handle)?;
        if !id.is_current() && !self.snapshots {
            return Err(VfsError::Stale);
        }
        let object = self.fetch(id)?;
        if object.file_type == FileType::Directory
            && id.is_current()
            && !containment::is_below(&self.root.inode, &object.inode, &self.server)?
        {
            return Err(VfsError::Stale);
        }
        Ok(self.objects.insert(object))
    }

    /// Asks the metadata servers for an object.
    fn fetch(&self, id: ObjectId) -> VfsResult<CephObject> {
        let gone = |error| match vfs_error(error) {
            // Numbers that no object can have.
            VfsError::Noent | VfsError::Inval => VfsError::Stale,
            other => other,
        };
        let inode = self.mounts.home(id.ino).find(id.ino, id.snapshot).map_err(gone)?;
        let stat = inode.stat(&self.server).map_err(gone)?;
        if stat.nlink == 0 {
            return Err(VfsError::Stale);
        }
        let object = CephObject::new(inode, &stat);
        if object.id == id { Ok(object) } else { Err(VfsError::Stale) }
    }

    /// Finds the directory of a handle.
    pub(crate) fn resolve_directory(&self, handle: &ObjectHandle) -> VfsResult<Arc<CephObject>> {
        let object = self.resolve(handle)?;
        if object.file_type == FileType::Directory { Ok(object) } else { Err(VfsError::Notdir) }
    }

    /// As `resolve_directory`, for a change of its names: snapshots are read-only.
    pub(crate) fn resolve_to_change(&self, handle: &ObjectHandle) -> VfsResult<Arc<CephObject>> {
        let directory = self.resolve_directory(handle)?;
        if directory.id.is_current() { Ok(directory) } else { Err(VfsError::Rofs) }
    }

    /// As `resolve_directory`, with `Symlink` for a symbolic link, as LOOKUP wants it.
    pub(crate) fn resolve_searchable(&self, handle: &ObjectHandle) -> VfsResult<Arc<CephObject>> {
        let object = self.resolve(handle)?;
        match object.file_type {
            FileType::Directory => Ok(object),
            FileType::Symlink => Err(VfsError::Symlink),
            _ => Err(VfsError::Notdir),
        }
    }

    /// Takes an object that was found in a directory into the cache.
    pub(crate) fn adopt(
        &self,
        parent: &CephObject,
        inode: CephInode,
        stat: &Stat,
    ) -> VfsResult<Arc<CephObject>> {
        let id = ObjectId { ino: stat.ino, snapshot: stat.snapshot };
        if id == self.root.id {
            return Ok(Arc::clone(&self.root));
        }
        let object = match self.objects.get(&id.handle()) {
            Some(object) => object,
            None => self.objects.insert(self.at_home(CephObject::new(inode, stat))?),
        };
        object.found_in(parent.id);
        Ok(object)
    }

    /// Takes an object that was made in a directory into the cache. It stays with the directory's
    /// mount: another one would have to wait for the journal.
    pub(crate) fn adopt_new(&self, parent: &CephObject, inode: CephInode, stat: &Stat) -> Arc<CephObject> {
        let object = self.objects.insert(CephObject::new(inode, stat));
        object.found_in(parent.id);
        object
    }

    /// Moves a directory to its own mount; other objects stay with the mount that found them.
    fn at_home(&self, object: CephObject) -> VfsResult<CephObject> {
        let moves = self.mounts.are_several()
            && object.file_type == FileType::Directory
            && !Arc::ptr_eq(self.mounts.home(object.id.ino), object.inode.mount());
        if moves { self.fetch(object.id) } else { Ok(object) }
    }

    /// Returns an object's inode in the mount of another, for calls that take both.
    pub(crate) fn inode_beside(
        &self,
        object: &CephObject,
        other: &CephObject,
    ) -> VfsResult<Option<CephInode>> {
        if Arc::ptr_eq(object.inode.mount(), other.inode.mount()) {
            return Ok(None);
        }
        other.inode.mount().find(object.id.ino, object.id.snapshot).map(Some).map_err(vfs_error)
    }

    /// Maps an error of an operation in a directory; the directory itself may have been removed.
    pub(crate) fn error_in(&self, directory: &CephObject, error: ceph::CephErrno) -> VfsError {
        match vfs_error(error) {
            VfsError::Noent if self.is_gone(directory) => VfsError::Stale,
            other => other,
        }
    }

    /// Returns whether an object has no name any more, and lets go of it then.
    pub(crate) fn is_gone(&self, object: &CephObject) -> bool {
        let gone = object.inode.stat(&self.server).is_ok_and(|stat| stat.nlink == 0);
        if gone {
            self.objects.release(&object.handle);
        }
        gone
    }

    /// Returns an object's attributes.
    ///
    /// # Errors
    /// `Stale` for one without a name.
    pub(crate) fn stat(&self, object: &CephObject) -> VfsResult<Stat> {
        let stat = object.inode.stat(&self.server).map_err(vfs_error)?;
        if stat.nlink > 0 {
            return Ok(stat);
        }
        self.objects.release(&object.handle);
        Err(VfsError::Stale)
    }

    /// Checks a name that a client looks for.
    ///
    /// # Errors
    /// `Noent` for the snapshots of an export that does not show them.
    pub(crate) fn check_visible(&self, name: &[u8]) -> VfsResult<()> {
        if name == SNAPSHOTS && !self.snapshots { Err(VfsError::Noent) } else { Ok(()) }
    }

    pub(crate) fn trim_objects(&self) {
        self.objects.trim();
    }
}

/// Lets go of an object when a metadata server wants the client to use less memory.
fn release_request(objects: Weak<ObjectCache<CephObject>>) -> ceph::fs::ReleaseRequest {
    Box::new(move |ino, snapshot| {
        if let Some(objects) = objects.upgrade() {
            objects.release(&ObjectId { ino, snapshot }.handle());
        }
    })
}

pub(crate) fn mount_options(options: &CephOptions) -> MountOptions {
    let fixed = [
        // The library checks the caller's permissions, with access control lists.
        ("client_permissions", "true"),
        ("fuse_default_permissions", "false"),
        ("client_acl_type", "posix_acl"),
        ("client_snapdir", ".snap"),
        ("client_mount_timeout", MOUNT_TIMEOUT),
        // Standard error is the server's log.
        ("log_to_stderr", "false"),
        ("err_to_stderr", "false"),
    ];
    let quiet = QUIET.map(|name| (name, "0/0".to_owned()));
    MountOptions {
        configuration: options.configuration.clone(),
        user: options.user.clone(),
        keyring: options.keyring.clone(),
        file_system: options.file_system.clone(),
        path: options.path.clone(),
        settings: fixed.map(|(name, value)| (name, value.to_owned())).to_vec(),
        defaults: quiet.to_vec(),
        identity: options.identity.clone(),
        former: options.former.clone(),
    }
}

/// Returns a number for a file system that no local device has: a hash of the cluster's id and the
/// file system's.
fn device(root: &CephInode, server: &Credentials) -> u64 {
    const LOCAL_DEVICES: u64 = 1 << 63;
    let cluster = root.xattr(c"ceph.cluster_fsid", 64, server).unwrap_or_default();
    let numbers = root.mount().file_system_id().to_be_bytes();
    // FNV-1a.
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    cluster.iter().chain(&numbers).fold(0xcbf2_9ce4_8422_2325, fold) | LOCAL_DEVICES
}

/// Logs in one line what clients do not get.
fn announce(library: CephFs, mount: &ceph::fs::CephMount, options: &CephOptions) {
    let [major, minor, patch] = library.version();
    let reads =
        if mount.missing().nonblocking { "; reads and writes of this version wait on a thread" } else { "" };
    tracing::info!(
        "ceph {path}: libcephfs {major}.{minor}.{patch}, {mounts} mount(s); without ALLOCATE, CLONE and holes{reads}",
        path = options.path,
        mounts = options.mounts,
    );
}
