//! The submounts of a folder: found by name, or by number after a restart.

use super::{INNER_MAX, INNER_PART, Submount, SubmountBackend, walk_error};
use crate::{
    LocalOptions,
    attributes::stat_fd,
    cached_object::CachedObject,
    errno::{retry, vfs_error},
    kind::Kind,
    mounts::{self, MountedPlace, below},
    sys,
};
use rustix::{
    fs::{AtFlags, Mode, OFlags, ResolveFlags, StatxFlags, fstatvfs, openat2},
    io::Errno,
};
use std::{
    ops::ControlFlow,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::Path,
    sync::{
        Arc, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};
use vfs::{Caller, EntryName, ObjectHandle, VfsError, VfsResult};

/// Directories only, past no symbolic link.
const FLAGS: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);

impl SubmountBackend {
    /// Returns the root of the submount on a name in a directory of the folder, if the caller may
    /// reach it.
    ///
    /// # Errors
    /// `Noent` without a submount that can be shown, `Delay` for one that hangs.
    pub(super) fn cross(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<ObjectHandle> {
        let parent = self.outer.resolve_searchable(directory)?;
        let name = EntryName::new(name)?;
        let opened = match self.foreign_at(&parent, name.as_bytes()) {
            Some(mounted) => {
                // The walk is the server's.
                self.outer.act_as(caller)?;
                sys::access(parent.as_fd(), libc::X_OK).map_err(vfs_error)?;
                self.outer.act_as_server()?;
                self.ask(&mounted, walk).ok_or(VfsError::Delay)?
            }
            None => {
                self.outer.act_as(caller)?;
                retry(|| openat2(&parent, name.as_c_str(), FLAGS, Mode::empty(), BENEATH))
            }
        };
        let fd = opened.map_err(walk_error)?;
        let inner = self.adopt_mount(fd)?;
        inner.used.store(true, Relaxed);
        inner.wrap(&vfs::Backend::root(&inner.backend))
    }

    /// Returns the mount on a name in a directory of the folder if its file system may hang.
    fn foreign_at(&self, parent: &CachedObject, name: &[u8]) -> Option<MountedPlace> {
        let places = self.outer.below.places(|| self.outer.path_of_root());
        if !self.outer.is_covered(&places, parent, name) {
            return None;
        }
        let directory = self.outer.real_path(&parent.fd)?;
        let path = [directory.strip_suffix(b"/").unwrap_or(&directory), name].join(&b'/');
        let root = self.outer.path_of_root()?;
        let place = below(&root, &path)?;
        let mut nearest = mounts::nearest(&root, &mounts::all()).into_iter();
        nearest.find(|mounted| mounted.place == place && mounted.kind == Kind::Foreign)
    }

    /// Finds a file system by its number.
    ///
    /// # Errors
    /// `Stale` when none such is mounted, `Delay` when one that hangs may have the number.
    pub(super) fn find_inner(&self, number: u64) -> VfsResult<Arc<Submount>> {
        if self.mounts.changed() {
            self.drop_unmounted();
        }
        if let Some(inner) = self.known(number) {
            return Ok(inner);
        }
        let root = self.outer.path_of_root().ok_or(VfsError::Stale)?;
        self.outer.act_as_server()?;
        let known: Arc<[u64]> = self.all_known().iter().map(|inner| inner.mount).collect();
        let mut hangs = false;
        for mounted in mounts::nearest(&root, &mounts::all()) {
            let known = Arc::clone(&known);
            match self.ask(&mounted, move |root, place| open_numbered(root, place, number, &known)) {
                Some(Some(fd)) => {
                    return self.adopt_mount(fd).map_err(|error| match error {
                        VfsError::Delay => error,
                        _ => VfsError::Stale,
                    });
                }
                Some(None) => {}
                None => hangs = true,
            }
        }
        // Another thread may have been first: then its mount was not asked.
        let missing = if hangs { VfsError::Delay } else { VfsError::Stale };
        self.known(number).ok_or(missing)
    }

    /// Finds a file system in the table by its number.
    pub(super) fn known(&self, number: u64) -> Option<Arc<Submount>> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner).get(&number).cloned()
    }

    fn all_known(&self) -> Vec<Arc<Submount>> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Asks about a mount with the server's identity; `None` while its file system hangs.
    fn ask<R: Send + 'static>(
        &self,
        mounted: &MountedPlace,
        question: impl FnOnce(&CachedObject, &[u8]) -> R + Send + 'static,
    ) -> Option<R> {
        self.asked.ask(mounted, &self.outer.root, self.outer.identities, question)
    }

    /// Takes the root of a mount below the folder into the table, or finds it there.
    ///
    /// # Errors
    /// `Noent` for an object that is no mount or cannot be shown, `Delay` if the file system hangs.
    fn adopt_mount(&self, fd: OwnedFd) -> VfsResult<Arc<Submount>> {
        let mount = mount_of(&fd).map_err(vfs_error)?;
        if mount == self.outer.mount_id {
            // It was unmounted in between, or is no mount.
            return Err(VfsError::Noent);
        }
        if let Some(inner) = self.all_known().into_iter().find(|inner| inner.mount == mount) {
            return Ok(inner);
        }
        let new = Arc::new(self.open_inner(fd, mount)?);
        let number = new.number;
        let mut table = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        if table.len() >= INNER_MAX && !table.contains_key(&number) {
            return Err(VfsError::Noent);
        }
        let former = match table.get(&number) {
            // Another thread was first.
            Some(inner) if inner.mount == new.mount => return Ok(inner.clone()),
            _ => table.insert(number, new.clone()),
        };
        drop(table);
        drop(former);
        Ok(new)
    }

    /// Opens the file system of a mount by its root.
    fn open_inner(&self, fd: OwnedFd, mount: u64) -> VfsResult<Submount> {
        let path = self.outer.real_path(&fd).ok_or(VfsError::Noent)?;
        let root = self.outer.path_of_root().ok_or(VfsError::Stale)?;
        let place = below(&root, &path).ok_or(VfsError::Noent)?;
        let is_mounted = |mounted: &MountedPlace| mounted.place == place && mounted.mount == mount;
        let mounted = mounts::nearest(&root, &mounts::all()).into_iter().find(is_mounted);
        let mounted = mounted.ok_or(VfsError::Noent)?;
        self.outer.act_as_server()?;
        let covered = self.covered_at(place)?;
        let objects = (self.options.object_cache_max / INNER_PART).max(1);
        let options = LocalOptions {
            object_cache_max: objects,
            clients_folders: Arc::default(),
            ..self.options.clone()
        };
        self.outer.act_as_server()?;
        let opened = self.ask(&mounted, move |_, place| {
            let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
            // A file system without handles cannot be served.
            let backend = Self::open(Path::new(&path), &options).map_err(|_| VfsError::Noent)?;
            Ok((number_of(&fd, place)?, backend))
        });
        let (number, backend) = opened.ok_or(VfsError::Delay)??;
        Ok(Submount { number, backend, place: mounted.place, mount, covered, used: AtomicBool::new(true) })
    }

    /// Returns the inode number of the directory that the mount at a place covers: only its
    /// parent's entry tells. Asks the file system of the mount nothing.
    fn covered_at(&self, place: &[u8]) -> VfsResult<u64> {
        let mut parts = place.rsplitn(2, |byte| *byte == b'/');
        let name = parts.next().unwrap_or(place);
        let parent = match parts.next() {
            Some(above) => self.adopt_outer(walk(&self.outer.root, above).map_err(walk_error)?)?,
            None => vfs::Backend::root(&self.outer),
        };
        let mut found = None;
        self.outer.list(&Caller::root(), &parent, 0, &mut |entry| {
            found = (entry.name == name).then_some(entry.fileid);
            if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        found.ok_or(VfsError::Noent)
    }

    /// Returns the folder's own directory above the root of a mount, with the thread's identity.
    pub(super) fn parent_of(&self, root: &OwnedFd) -> VfsResult<ObjectHandle> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent = retry(|| openat2(root, c"..", flags, Mode::empty(), ResolveFlags::NO_SYMLINKS));
        self.adopt_outer(parent.map_err(vfs_error)?)
    }

    /// Returns the handle of a directory that must be of the folder's own file system.
    fn adopt_outer(&self, directory: OwnedFd) -> VfsResult<ObjectHandle> {
        let stat = stat_fd(&directory).map_err(vfs_error)?;
        if !self.outer.same_mount(&stat) {
            return Err(VfsError::Stale);
        }
        // Adopting refuses directories outside the folder.
        Ok(self.outer.adopt(directory)?.handle)
    }

    /// Lets go of file systems that are not mounted any more where they were.
    fn drop_unmounted(&self) {
        let (known, mounts) = (self.all_known(), mounts::all());
        let Some(root) = self.outer.path_of_root().filter(|_| !mounts.is_empty()) else { return };
        if self.outer.act_as_server().is_err() {
            return;
        }
        let nearest = mounts::nearest(&root, &mounts);
        self.asked.keep(&nearest);
        let there = |inner: &Submount| {
            // A mount over a directory above it hides it.
            let mounted = nearest.iter().find(|mounted| mounted.place == inner.place);
            let found = |mounted| self.ask(mounted, mount_at);
            // One that hangs stays until it answers.
            mounted.is_some_and(|mounted| found(mounted).is_none_or(|found| found == Some(inner.mount)))
        };
        let gone: Vec<u64> = known.iter().filter(|inner| !there(inner)).map(|inner| inner.number).collect();
        let mut table = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        let dropped: Vec<_> = gone.iter().filter_map(|number| table.remove(number)).collect();
        drop(table);
        drop(dropped);
    }

    /// Lets go of file systems that were not used since the last call.
    pub(super) fn trim_inner(&self) {
        let mut table = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        let idle: Vec<_> = table.extract_if(|_, inner| !inner.used.swap(false, Relaxed)).collect();
        let kept: Vec<Arc<Submount>> = table.values().cloned().collect();
        drop(table);
        drop(idle);
        kept.iter().for_each(|inner| vfs::Backend::trim(&inner.backend));
    }
}

/// Opens a path below a folder's root, across mounts, with the thread's identity.
fn walk(root: &CachedObject, place: &[u8]) -> Result<OwnedFd, Errno> {
    retry(|| openat2(root, place, FLAGS, Mode::empty(), BENEATH))
}

/// Opens the root of the mount at a place if its file system has the number. Known mounts have
/// others, so their file systems are not asked.
fn open_numbered(root: &CachedObject, place: &[u8], number: u64, known: &[u64]) -> Option<OwnedFd> {
    let fd = walk(root, place).ok()?;
    let is_known = mount_of(&fd).is_ok_and(|mount| known.contains(&mount));
    (!is_known && number_of(&fd, place) == Ok(number)).then_some(fd)
}

/// Returns the number of the mount at a place.
fn mount_at(root: &CachedObject, place: &[u8]) -> Option<u64> {
    walk(root, place).and_then(|fd| mount_of(&fd)).ok()
}

/// Returns the number of the mount that a descriptor is on, without asking its file system
/// anything.
fn mount_of(fd: &OwnedFd) -> Result<u64, Errno> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    rustix::fs::statx(fd, c"", flags, StatxFlags::MNT_ID).map(|stat| stat.stx_mnt_id)
}

/// The number of a file system at a place: FNV-1a of both, the same after a restart.
fn number_of(fd: &OwnedFd, place: &[u8]) -> VfsResult<u64> {
    let fsid = fstatvfs(fd).map_err(vfs_error)?.f_fsid;
    let bytes = place.iter().copied().chain([0]).chain(fsid.to_be_bytes());
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    // The folder's own number is 0.
    Ok(bytes.fold(0xcbf2_9ce4_8422_2325, fold).max(1))
}
