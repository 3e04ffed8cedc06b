//! The backend itself: from handles to descriptors.

use crate::{
    attributes::{self, stat_fd},
    cached_object::CachedObject,
    change::Changes,
    descriptor::{self, Descriptor},
    errno::{retry, uninterrupted, vfs_error},
    error::LocalError,
    features,
    folder::{self, ClientsFolders, ExportedFolder, FolderId},
    handle, identity,
    kind::Kind,
    limitations::{self, Limitation},
    mounts,
    open_files::OpenFiles,
    places::Places,
    prepare::ServesAs,
    subvolumes, sys,
};
use foreign::ForeignThread;
use object_cache::ObjectCache;
use rustix::{
    fs::{CWD, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags, openat, openat2},
    io::Errno,
    path::DecInt,
};
use std::{
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::Path,
    sync::Arc,
};
use vfs::{Caller, EntryName, ObjectHandle, VfsError, VfsResult};

/// Limits of a [`LocalBackend`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalOptions {
    /// Objects held open between requests, at most an eighth of RLIMIT_NOFILE. Each takes one
    /// descriptor, or two for a directory whose changes were synchronised.
    pub object_cache_max: usize,
    /// Without root: objects whose location in the tree is remembered, about 120 bytes each.
    pub places_max: usize,
    /// Without root: entries looked at when a handle's object has to be searched for.
    pub walk_entries_max: u64,
    /// Whether changes of names and attributes are on stable storage before they are acknowledged,
    /// as written data is only after COMMIT. Otherwise the file system writes them down in its own
    /// time.
    pub stable_names: bool,
    /// The folders that the server exports: no symbolic link in them is followed on the way to a
    /// folder, for clients can make such links.
    pub clients_folders: Arc<ClientsFolders>,
}

impl Default for LocalOptions {
    /// 4,096 descriptors, 200,000 places, a million entries.
    fn default() -> Self {
        Self {
            object_cache_max: 4096,
            places_max: 200_000,
            walk_entries_max: 1_000_000,
            stable_names: false,
            clients_folders: Arc::default(),
        }
    }
}

/// A directory of this machine as a file system to serve.
///
/// **As root** each operation runs with the caller's user, group and groups on its thread, so the
/// kernel decides as it does for local programs, ACLs and quotas included. Objects are found again
/// by the kernel's file handles, also after a restart.
///
/// **Without root** ([`ServesAs::OneUser`]) every operation runs as the server's own user: each
/// admitted caller has that user's rights, and new objects belong to it.
///
/// **Where the kernel opens no handles**, without root and for root of an unprivileged container,
/// the backend remembers where objects are, and after a restart searches the tree once. Until it
/// may search again, an object that was moved on the server's machine is `Delay`.
///
/// Symbolic links are never followed and ".." never leaves the export. A name on which another file
/// system is mounted does not exist for clients (`Noent`):
/// [`SubmountBackend`](crate::SubmountBackend) shows it. A directory that was moved out of the
/// export on the server's machine is `Stale` as soon as its descriptor is reopened; a file that was
/// moved out keeps its handle, as with the kernel's server without subtree checking: export whole
/// file systems where that matters. On tmpfs before Linux 6.6 a listing may miss entries while
/// others are removed, for local programs too.
///
/// An operation leaves its thread with the caller's identity: see
/// [`become_server`](crate::become_server). Changes of names reach the disk as the file system
/// writes them back, like those of local programs; `commit` on a directory makes them stable.
#[derive(Debug)]
pub struct LocalBackend {
    pub(crate) root: Arc<CachedObject>,
    /// The root opened for reading, which opening handles wants; `None` where the kernel opens
    /// none.
    mount: Option<Descriptor>,
    /// An open descriptor of the directory /proc/self/fd.
    pub(crate) proc: OwnedFd,
    pub(crate) mount_id: u64,
    /// Number of the file system.
    pub(crate) device: u64,
    /// Number of the file system where handles may repeat on another one.
    pub(crate) file_system: u64,
    /// The key that signs handles, in place of the server's own.
    pub(crate) handle_key: Option<[u8; 16]>,
    /// The subvolume of the root, where inode numbers are unique in a subvolume alone.
    pub(crate) subvolume: Option<u64>,
    pub(crate) below: mounts::Below,
    objects: ObjectCache<CachedObject>,
    pub(crate) places: Option<Places>,
    /// Whether a handle tells the inode number without asking for attributes.
    handles_have_ino: bool,
    pub(crate) changes: Arc<Changes>,
    pub(crate) open_files: Arc<OpenFiles>,
    pub(crate) identities: bool,
    pub(crate) kind: Kind,
    /// Closes the descriptors, where closing may hang.
    pub(crate) foreign: Option<Arc<ForeignThread>>,
    /// Whether changes of names and attributes wait for stable storage.
    pub(crate) stable_names: bool,
    pub(crate) features: vfs::Features,
    /// Size of the largest file in bytes.
    pub(crate) file_size_max: u64,
    limitations: Vec<Limitation>,
}

impl LocalBackend {
    /// Opens a directory for export; symbolic links in its path are followed, for it is the
    /// administrator's, except those in other exports (`clients_folders`).
    ///
    /// # Errors
    /// See [`LocalError`]; each names the cure.
    pub fn open(path: &Path, options: &LocalOptions) -> Result<Self, LocalError> {
        let failed = |errno: Errno| LocalError::Open { path: path.to_owned(), reason: errno.into() };
        let no_proc = |errno: Errno| LocalError::NoProc(errno.into());
        let path_only = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let proc = openat(CWD, c"/proc/self/fd", path_only, Mode::empty()).map_err(no_proc)?;
        let fd = folder::open(path, &options.clients_folders)?;
        let stat = stat_fd(&fd).map_err(failed)?;
        let fs_handle = sys::fd_to_handle(fd.as_fd()).map_err(|errno| LocalError::no_handle(path, errno))?;
        let no_handles = |_| LocalError::NoHandles { path: path.to_owned() };
        let handle = handle::encode(stat.stx_ino, &fs_handle).map_err(no_handles)?;
        let mount = mount_for_handles(&fd, &fs_handle);
        let fs_type = rustix::fs::fstatfs(&fd).map_err(failed)?.f_type;
        let descriptors = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let eighth = usize::try_from(descriptors.unwrap_or(u64::MAX) / 8).unwrap_or(usize::MAX);
        let (features, file_size_max) = (features::of(&fd), features::file_size_max(&fd));
        let has_mount_id = stat.stx_mask & StatxFlags::MNT_ID.bits() != 0;
        let has_ino = sys::handles_have_ino(fs_type) && fs_handle.ino() == Some(stat.stx_ino);
        // Places need the types of objects, which handles do not tell.
        let handles_have_ino = has_mount_id && has_ino && mount.is_some();
        let places = mount.is_none().then(|| Places::new(options.places_max, options.walk_entries_max));
        let kind = Kind::of(fs_type);
        let foreign = descriptor::thread_for(kind);
        let identities = identity::can_switch();
        let opens_handles = mount.is_some();
        let limitations = limitations::of(&fd, &stat, kind, opens_handles, identities, foreign.as_ref());
        let file_system = folder::file_system(&fd, &fs_handle);
        let (device, subvolume) = (mounts::device(&stat), subvolumes::of_root(fs_type, &fs_handle));
        let keep = |fd| Descriptor::new(fd, foreign.as_ref());
        let mount = mount.map(keep);
        let fd = keep(fd);
        Ok(Self {
            root: Arc::new(CachedObject::new(handle, stat.stx_ino, FileType::Directory, fd)),
            identities,
            kind,
            foreign,
            stable_names: options.stable_names,
            features,
            file_size_max,
            limitations,
            mount,
            proc,
            mount_id: stat.stx_mnt_id,
            device,
            file_system,
            handle_key: None,
            subvolume,
            below: mounts::Below::new().map_err(no_proc)?,
            objects: ObjectCache::new(options.object_cache_max.min(eighth)),
            places,
            handles_have_ino,
            changes: Arc::new(Changes::of(fs_type, device, subvolume)),
            open_files: Arc::default(),
        })
    }

    /// Returns the exported folder.
    pub fn folder(&self) -> ExportedFolder {
        ExportedFolder::new(self.file_system, &self.root.handle, self.mount_id)
    }

    /// Returns whether a folder that was exported before is this one or below it, so that its
    /// handles name objects of this one.
    pub fn holds(&self, former: &FolderId) -> bool {
        former.split().is_some_and(|(file_system, handle)| {
            file_system == self.file_system && self.resolve_directory(&handle).is_ok()
        })
    }

    /// Sets the key that signs the handles of the export, in place of the server's own.
    pub fn set_handle_key(&mut self, key: Option<[u8; 16]>) {
        self.handle_key = key;
    }

    /// Returns what the file system lacks, each with the consequence and the remedy.
    pub fn limitations(&self) -> &[Limitation] {
        &self.limitations
    }

    /// Returns the identity under which the kernel checks permissions.
    pub fn serves_as(&self) -> ServesAs {
        ServesAs::now()
    }

    /// Gives the thread the rights of the caller, where there are several.
    pub(crate) fn act_as(&self, caller: &Caller) -> VfsResult<()> {
        if self.identities { identity::become_caller(caller) } else { Ok(()) }
    }

    /// Gives the thread the rights of the server.
    pub(crate) fn act_as_server(&self) -> VfsResult<()> {
        if self.identities { identity::become_superuser() } else { Ok(()) }
    }

    /// Finds the object of a handle.
    ///
    /// # Errors
    /// `Badhandle` for bytes that were never a handle of this backend, `Stale` for a removed
    /// object.
    pub(crate) fn resolve(&self, handle: &ObjectHandle) -> VfsResult<Arc<CachedObject>> {
        if let Some(object) = self.cached(handle) {
            return Ok(object);
        }
        let (ino, fs_handle) = handle::decode(handle)?;
        let fd = match &self.mount {
            Some(mount) => {
                self.act_as_server()?;
                open_handle(mount, &fs_handle).map_err(handle_error)?
            }
            None => {
                self.act_as_server()?;
                self.find_place(self.fileid(ino, handle), handle)?
            }
        };
        let object = self.adopt(fd)?;
        if object.handle != *handle {
            return Err(VfsError::Stale);
        }
        Ok(object)
    }

    /// Finds the object of a handle if it is open.
    pub(crate) fn cached(&self, handle: &ObjectHandle) -> Option<Arc<CachedObject>> {
        if *handle == self.root.handle {
            return Some(Arc::clone(&self.root));
        }
        self.objects.get(handle)
    }

    /// Finds the directory of a handle.
    pub(crate) fn resolve_directory(&self, handle: &ObjectHandle) -> VfsResult<Arc<CachedObject>> {
        let object = self.resolve(handle)?;
        if object.file_type == FileType::Directory { Ok(object) } else { Err(VfsError::Notdir) }
    }

    /// As `resolve_directory`, with `Symlink` for a symbolic link, as LOOKUP wants it.
    pub(crate) fn resolve_searchable(&self, handle: &ObjectHandle) -> VfsResult<Arc<CachedObject>> {
        let object = self.resolve(handle)?;
        match object.file_type {
            FileType::Directory => Ok(object),
            FileType::Symlink => Err(VfsError::Symlink),
            _ => Err(VfsError::Notdir),
        }
    }

    /// Takes an O_PATH descriptor into the cache under the object's handle.
    pub(crate) fn adopt(&self, fd: OwnedFd) -> VfsResult<Arc<CachedObject>> {
        let fs_handle = sys::fd_to_handle(fd.as_fd()).map_err(vfs_error)?;
        // Most objects are there already, and need no attributes. A directory may have moved.
        if let Some(ino) = fs_handle.ino()
            && let Some(object) = self.cached(&handle::encode(ino, &fs_handle)?)
            && object.file_type != FileType::Directory
        {
            drop(self.keep(fd));
            return Ok(object);
        }
        let stat = stat_fd(&fd).map_err(vfs_error)?;
        let handle = handle::encode(stat.stx_ino, &fs_handle)?;
        if handle == self.root.handle {
            return Ok(Arc::clone(&self.root));
        }
        let file_type = attributes::file_type(&stat);
        if file_type == FileType::Directory && !self.contains(&fd) {
            return Err(VfsError::Stale);
        }
        let (fd, ino) = (self.keep(fd), self.fileid(stat.stx_ino, &handle));
        let object = CachedObject::new(handle, ino, file_type, fd);
        // The cache would keep the space of a removed file.
        Ok(if stat.stx_nlink == 0 { Arc::new(object) } else { self.objects.insert(object) })
    }

    /// As `adopt`, for a regular file that was just created.
    pub(crate) fn adopt_new_file(&self, fd: OwnedFd) -> VfsResult<Arc<CachedObject>> {
        let fs_handle = sys::fd_to_handle(fd.as_fd()).map_err(vfs_error)?;
        let Some(ino) = self.ino_in(&fs_handle) else { return self.adopt(fd) };
        let handle = handle::encode(ino, &fs_handle)?;
        Ok(self.objects.insert(CachedObject::new(handle, ino, FileType::RegularFile, self.keep(fd))))
    }

    /// Returns the inode number in a handle, where the file system is known to put it there.
    pub(crate) fn ino_in(&self, handle: &sys::FsHandle) -> Option<u64> {
        handle.ino().filter(|_| self.handles_have_ino)
    }

    /// Makes a descriptor safe to drop on any thread.
    pub(crate) fn keep(&self, fd: OwnedFd) -> Descriptor {
        Descriptor::new(fd, self.foreign.as_ref())
    }

    /// Opens a name in a directory by path only, with the thread's current identity.
    pub(crate) fn open_name(&self, directory: impl AsFd, name: &EntryName) -> Result<OwnedFd, Errno> {
        retry(|| open_beneath(&directory, name, ResolveFlags::empty()))
    }

    /// As `open_name`, with `AGAIN` for a name that the kernel does not have in its cache.
    pub(crate) fn open_cached_name(
        &self,
        directory: &CachedObject,
        name: &EntryName,
    ) -> Result<OwnedFd, Errno> {
        open_beneath(directory, name, ResolveFlags::CACHED)
    }

    /// Returns whether attributes belong to the exported mount and not to one below.
    pub(crate) fn same_mount(&self, stat: &rustix::fs::Statx) -> bool {
        stat.stx_mask & StatxFlags::MNT_ID.bits() == 0 || stat.stx_mnt_id == self.mount_id
    }

    /// Opens the object itself, without its name, with the thread's current identity; the kernel
    /// checks permissions.
    pub(crate) fn reopen(&self, fd: impl AsFd, flags: OFlags) -> Result<OwnedFd, Errno> {
        // NONBLOCK also avoids waiting for the holder of a lease: that is `AGAIN`.
        let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        uninterrupted(|| openat(&self.proc, DecInt::from_fd(&fd), flags, Mode::empty()))
    }

    /// Returns a path to the object itself, for system calls that take no path-only descriptor.
    pub(crate) fn path_of(&self, object: impl AsFd) -> String {
        format!("/proc/self/fd/{}", object.as_fd().as_raw_fd())
    }

    /// Maps an error of an operation in a directory; the directory itself may have been removed.
    pub(crate) fn error_in(&self, directory: &CachedObject, errno: Errno) -> VfsError {
        if errno == Errno::NOENT && self.is_gone(directory) { VfsError::Stale } else { vfs_error(errno) }
    }

    /// Returns whether an object has no name any more, and no client has it open. Lets go of one
    /// without a name.
    pub(crate) fn is_gone(&self, object: &CachedObject) -> bool {
        stat_fd(object).is_ok_and(|stat| self.check_alive(object, &stat).is_err())
    }

    /// As `is_gone`, by attributes of the object.
    ///
    /// # Errors
    /// `Stale`.
    pub(crate) fn check_alive(&self, object: &CachedObject, stat: &Statx) -> VfsResult<()> {
        if stat.stx_nlink > 0 {
            return Ok(());
        }
        self.forget(&object.handle, object.ino);
        if self.open_files.is_open(object.ino) { Ok(()) } else { Err(VfsError::Stale) }
    }

    /// Lets go of a removed object.
    pub(crate) fn forget(&self, handle: &ObjectHandle, ino: u64) {
        self.objects.forget(handle);
        if let Some(places) = &self.places {
            places.forget(ino);
        }
    }

    /// Notes where an object is, for the time when it has to be found without root.
    pub(crate) fn remember(&self, ino: u64, file_type: FileType, parent: u64, name: &[u8]) {
        if let Some(places) = &self.places {
            places.remember(ino, file_type == FileType::Directory, parent, name);
        }
    }

    pub(crate) fn trim_objects(&self) {
        self.objects.trim();
    }
}

fn open_beneath(directory: impl AsFd, name: &EntryName, how: ResolveFlags) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV | how;
    let opened = openat2(directory, name.as_c_str(), flags, Mode::empty(), resolve);
    // Another file system is mounted there.
    opened.map_err(|errno| if errno == Errno::XDEV { Errno::NOENT } else { errno })
}

/// Opens the root for reading if this process may take identities and open handles, else `None`.
fn mount_for_handles(root: &OwnedFd, handle: &sys::FsHandle) -> Option<OwnedFd> {
    if !identity::can_switch() {
        return None;
    }
    identity::become_superuser().ok()?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mount = openat(root, c".", flags, Mode::empty()).ok()?;
    sys::open_by_handle(mount.as_fd(), handle).ok()?;
    Some(mount)
}

/// Opens a handle. While ext4 gives the inode number of a stale handle to a new file, it fails with
/// ENOMEM for a moment; the call is then repeated.
fn open_handle(mount: &OwnedFd, handle: &sys::FsHandle) -> Result<OwnedFd, Errno> {
    const TRIES: usize = 64;
    let open = || retry(|| sys::open_by_handle(mount.as_fd(), handle));
    for _ in 0..TRIES {
        match open() {
            Err(Errno::NOMEM) => std::thread::yield_now(),
            result => return result,
        }
    }
    open()
}

/// Maps the kernel's refusal of a handle.
fn handle_error(errno: Errno) -> VfsError {
    match errno {
        Errno::STALE | Errno::NOENT => VfsError::Stale,
        Errno::INVAL | Errno::OVERFLOW => VfsError::Badhandle,
        other => vfs_error(other),
    }
}
