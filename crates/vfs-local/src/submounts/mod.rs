//! A folder with its submounts.
//!
//! The folder and each submount is a backend of its own; this module joins them. Handles of a
//! submount begin with its number, which is derived from its path below the folder and from the
//! kernel's `f_fsid`. They survive restarts of the server, and of the machine if `f_fsid` does
//! (ext4, btrfs; xfs as long as its device number stays).

mod asking;
mod backend;
mod heir;
mod table;

use crate::{LocalBackend, LocalError, LocalOptions, errno::vfs_error, mounts::MountWatch};
use std::{
    collections::HashMap,
    path::Path,
    sync::{
        Arc, RwLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};
use vfs::{ObjectHandle, VfsError, VfsResult};

/// File systems mounted below one folder that are in use at once.
const INNER_MAX: usize = 64;
/// The divisor of the folder's open objects that a submount may hold.
const INNER_PART: usize = 8;
/// Tells handles of inner file systems from the folder's own.
const VERSION: u8 = 2;
/// Bytes before the inner handle: the version and the number.
const PREFIX: usize = 9;

/// A folder and the submounts below it, as one file system to serve. A mount without handles, or
/// whose root is no folder, is hidden; so is every further mount when 64 are in use.
///
/// A mount is in use from its first lookup until it is unused between two calls of `trim`: until
/// then it can only be unmounted lazily (`umount -l`). An unmounted file system is `Stale`. One
/// that hangs holds up only its own objects.
#[derive(Debug)]
pub struct SubmountBackend {
    outer: LocalBackend,
    options: LocalOptions,
    inner: RwLock<HashMap<u64, Arc<Submount>>>,
    mounts: MountWatch,
    asked: asking::AskedMounts,
}

/// A file system below the folder.
#[derive(Debug)]
struct Submount {
    number: u64,
    backend: SubmountBackend,
    /// Where it is mounted, from the folder's root.
    place: Vec<u8>,
    /// Number of the mount.
    mount: u64,
    /// Inode number of the directory that it covers.
    covered: u64,
    used: AtomicBool,
}

/// The backend that an object belongs to.
enum Whose {
    Outer,
    Submount(Arc<Submount>, ObjectHandle),
}

impl SubmountBackend {
    /// Opens a directory for export; symbolic links in its path are followed, for it is the
    /// administrator's.
    ///
    /// # Errors
    /// See [`LocalError`]; each names the cure.
    pub fn open(path: &Path, options: &LocalOptions) -> Result<Self, LocalError> {
        let outer = LocalBackend::open(path, options)?;
        let mounts = MountWatch::open().map_err(|errno| LocalError::NoProc(errno.into()))?;
        Ok(Self {
            outer,
            options: options.clone(),
            inner: RwLock::default(),
            mounts,
            asked: Default::default(),
        })
    }

    /// Returns the folder itself, without the submounts.
    pub fn outer(&mut self) -> &mut LocalBackend {
        &mut self.outer
    }

    /// Finds out to which of the file systems a handle belongs.
    ///
    /// # Errors
    /// `Stale` for a file system that is not mounted where it was, `Delay` if it may be one that
    /// hangs, `Badhandle`.
    fn whose(&self, handle: &ObjectHandle) -> VfsResult<Whose> {
        let Some((number, own)) = split(handle) else { return Ok(Whose::Outer) };
        let inner = self.find_inner(number)?;
        inner.used.store(true, Relaxed);
        Ok(Whose::Submount(inner, own.ok_or(VfsError::Badhandle)?))
    }

    /// As `whose`, from the table alone: `None` for a file system that is not there.
    fn known_whose(&self, handle: &ObjectHandle) -> Option<Whose> {
        let Some((number, own)) = split(handle) else { return Some(Whose::Outer) };
        let inner = self.known(number)?;
        inner.used.store(true, Relaxed);
        Some(Whose::Submount(inner, own?))
    }

    /// As `whose`, of two objects that have to be of one file system.
    ///
    /// # Errors
    /// `Xdev` when they are not.
    fn whose_both(&self, one: &ObjectHandle, other: &ObjectHandle) -> VfsResult<(Whose, ObjectHandle)> {
        match (self.whose(one)?, self.whose(other)?) {
            (Whose::Outer, Whose::Outer) => Ok((Whose::Outer, *other)),
            (Whose::Submount(a, one), Whose::Submount(b, other)) if a.number == b.number => {
                Ok((Whose::Submount(a, one), other))
            }
            _ => Err(VfsError::Xdev),
        }
    }
}

/// Returns the number of the submount that a handle begins with, and the handle within it.
fn split(handle: &ObjectHandle) -> Option<(u64, Option<ObjectHandle>)> {
    let ([VERSION, number @ ..], own) = handle.as_bytes().split_first_chunk::<PREFIX>()? else { return None };
    Some((u64::from_be_bytes(*number), ObjectHandle::new(own)))
}

impl Submount {
    /// Makes a handle of the whole from one of its own.
    ///
    /// # Errors
    /// `Notsupp` for one that is too long.
    fn wrap(&self, handle: &ObjectHandle) -> VfsResult<ObjectHandle> {
        let mut bytes = Vec::with_capacity(PREFIX + handle.as_bytes().len());
        bytes.push(VERSION);
        bytes.extend_from_slice(&self.number.to_be_bytes());
        bytes.extend_from_slice(handle.as_bytes());
        ObjectHandle::new(&bytes).ok_or(VfsError::Notsupp)
    }
}

/// Maps the kernel's refusal to walk a path.
fn walk_error(errno: rustix::io::Errno) -> VfsError {
    use rustix::io::Errno;
    match errno {
        Errno::NOTDIR | Errno::LOOP => VfsError::Noent,
        other => vfs_error(other),
    }
}
