//! The exported folder: the way to it, and its identity across restarts.

use crate::{
    attributes::stat_fd,
    errno::{retry, uninterrupted},
    error::LocalError,
    handle, identity, sys,
};
use foreign::ForeignThread;
use rustix::{
    fs::{CWD, Mode, OFlags, fstatvfs, openat, readlinkat},
    io::Errno,
};
use std::{
    ffi::OsString,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    os::unix::ffi::OsStringExt,
    path::{Component, Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};
use vfs::ObjectHandle;

/// How long the path of an export may keep a reload waiting.
const PATIENCE: Duration = Duration::from_secs(2);
/// Symbolic links in a path, as in the kernel.
const LINKS_MAX: usize = 40;
const PATH_ONLY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Bytes that tell an exported folder from all others, also after a restart: the number of its file
/// system where handles may repeat on another one, and its handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderId(Vec<u8>);

impl FolderId {
    /// Takes the bytes that [`FolderId::as_bytes`] has returned.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Returns the bytes, for the next start of the server.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn of(root: &OwnedFd) -> Option<Self> {
        let ino = stat_fd(root).ok()?.stx_ino;
        let fs_handle = sys::fd_to_handle(root.as_fd()).ok()?;
        let handle = handle::encode(ino, &fs_handle).ok()?;
        Some(Self::join(file_system(root, &fs_handle), &handle))
    }

    fn join(file_system: u64, handle: &ObjectHandle) -> Self {
        Self([&file_system.to_be_bytes(), handle.as_bytes()].concat())
    }

    /// Returns the number of the file system and the handle.
    pub(crate) fn split(&self) -> Option<(u64, ObjectHandle)> {
        let (file_system, handle) = self.0.split_first_chunk()?;
        Some((u64::from_be_bytes(*file_system), ObjectHandle::new(handle)?))
    }
}

/// Returns the number of a file system whose handles have no random part, so that those of another
/// one name objects on it; 0 for others. It lasts as long as the file system.
pub(crate) fn file_system(root: &OwnedFd, handle: &sys::FsHandle) -> u64 {
    const BTRFS: i64 = 0x9123_683e;
    const BCACHEFS: i64 = 0xca45_1a4e;
    const ZFS: i64 = 0x2fc1_2fc1;
    let kind = rustix::fs::fstatfs(root).map_or(0, |stat| stat.f_type);
    let number = fstatvfs(root).map_or(0, |stat| stat.f_fsid);
    match kind {
        // btrfs mixes the number of the subvolume in, its halves swapped.
        BTRFS => number ^ handle.ino_in_subvolume().map_or(0, |(_, subvolume)| subvolume.rotate_left(32)),
        BCACHEFS | ZFS => number,
        _ => 0,
    }
}

/// An exported folder, to be compared with the one at a path.
#[derive(Clone, Debug)]
pub struct ExportedFolder {
    /// The identity that survives restarts.
    pub id: FolderId,
    mount: u64,
}

impl ExportedFolder {
    /// Makes the identity of the folder with this handle.
    pub(crate) fn new(file_system: u64, root: &ObjectHandle, mount: u64) -> Self {
        Self { id: FolderId::join(file_system, root), mount }
    }

    /// Returns whether a path leads to the folder, on the mount through which it is exported. It is
    /// taken to if the path cannot be followed, or hangs.
    pub fn is_at(&self, path: &Path, clients_folders: &ClientsFolders) -> bool {
        let (path, clients_folders) = (path.to_owned(), clients_folders.clone());
        let found = ForeignThread::default().ask(PATIENCE, move || {
            identity::become_server();
            let fd = open(&path, &clients_folders).ok()?;
            Some((FolderId::of(&fd)?, stat_fd(&fd).ok()?.stx_mnt_id))
        });
        found.flatten().is_none_or(|(id, mount)| id == self.id && mount == self.mount)
    }

    /// Returns whether both folders are exported through one mount.
    pub fn shares_mount(&self, other: &Self) -> bool {
        self.mount == other.mount
    }
}

/// Folders whose entries clients may make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientsFolders {
    paths: Vec<PathBuf>,
    /// The folders without symbolic links, once a path has one.
    real: OnceLock<Vec<PathBuf>>,
}

impl ClientsFolders {
    /// Takes the paths of the folders.
    pub fn new(paths: Vec<PathBuf>) -> Self {
        Self { paths, real: OnceLock::new() }
    }

    fn contain(&self, directory: &Path) -> bool {
        let find = || self.paths.iter().filter_map(|path| path.canonicalize().ok()).collect();
        self.real.get_or_init(find).iter().any(|folder| directory.starts_with(folder))
    }
}

/// Opens the folder at a path. Symbolic links are the administrator's and followed, except those
/// in a folder that is exported itself: its clients could make them.
pub(crate) fn open(path: &Path, clients_folders: &ClientsFolders) -> Result<OwnedFd, LocalError> {
    let failed = |errno: Errno| LocalError::Open { path: path.to_owned(), reason: errno.into() };
    if clients_folders.paths.is_empty() {
        return openat(CWD, path, PATH_ONLY, Mode::empty()).map_err(failed);
    }
    let mut at = openat(CWD, c".", PATH_ONLY, Mode::empty()).map_err(failed)?;
    let (mut rest, mut links) = (names(path), 0);
    while let Some(name) = rest.pop() {
        match retry(|| openat(&at, &name, PATH_ONLY | OFlags::NOFOLLOW, Mode::empty())) {
            Ok(next) => at = next,
            Err(Errno::NOTDIR) => {
                let target = uninterrupted(|| readlinkat(&at, &name, Vec::new()));
                let target = target.map_err(|_| failed(Errno::NOTDIR))?;
                let parent = real_path(&at).map_err(failed)?;
                if clients_folders.contain(&parent) {
                    return Err(LocalError::LinkOfClients { path: path.to_owned(), link: parent.join(name) });
                }
                links += 1;
                if links > LINKS_MAX {
                    return Err(failed(Errno::LOOP));
                }
                rest.extend(names(Path::new(&OsString::from_vec(target.into_bytes()))));
            }
            Err(errno) => return Err(failed(errno)),
        }
    }
    Ok(at)
}

/// Returns the names of a path to walk, the first one last.
fn names(path: &Path) -> Vec<OsString> {
    let mut names: Vec<OsString> = path.components().map(Component::as_os_str).map(Into::into).collect();
    names.reverse();
    names
}

fn real_path(fd: &OwnedFd) -> Result<PathBuf, Errno> {
    let path = readlinkat(CWD, format!("/proc/self/fd/{}", fd.as_raw_fd()), Vec::new())?;
    Ok(OsString::from_vec(path.into_bytes()).into())
}
