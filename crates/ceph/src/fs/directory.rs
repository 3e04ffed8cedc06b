//! The entries of a directory.

use super::{CephMount, raw};
use crate::CephErrno;
use crate::errno::count;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// A directory that is open for listing.
#[derive(Debug)]
pub struct DirectoryStream {
    mount: Arc<CephMount>,
    stream: NonNull<raw::DirResult>,
    entry: Box<libc::dirent64>,
}

// SAFETY: the value has one owner at a time, and the library keeps no state of threads.
unsafe impl Send for DirectoryStream {}

/// An entry of a directory. "." and ".." are among them.
#[derive(Clone, Copy, Debug)]
pub struct CephEntry<'e> {
    /// The entry's name, without a NUL.
    pub name: &'e [u8],
    /// Inode number of the entry's object.
    pub ino: u64,
    /// Number of the object's snapshot, or [`super::NO_SNAPSHOT`].
    pub snapshot: u64,
    /// The position behind the entry, the same for every stream of the directory.
    pub position: i64,
}

impl DirectoryStream {
    pub(super) fn new(mount: &Arc<CephMount>, stream: *mut raw::DirResult) -> Result<Self, CephErrno> {
        let stream = NonNull::new(stream).ok_or(CephErrno::new(libc::ESTALE))?;
        // SAFETY: a value of zeros is valid.
        let entry = Box::new(unsafe { MaybeUninit::zeroed().assume_init() });
        Ok(Self { mount: Arc::clone(mount), stream, entry })
    }

    /// Moves to a position that an entry has given; 0 is the start.
    ///
    /// # Errors
    /// `ENOTCONN` if the mount has ended.
    pub fn seek(&mut self, position: i64) -> Result<(), CephErrno> {
        // SAFETY: the stream is open.
        self.mount
            .call(|library, info| unsafe { (library.ceph_seekdir)(info, self.stream.as_ptr(), position) })
    }

    /// Returns the next entry; `None` at the end.
    ///
    /// # Errors
    /// The library's.
    pub fn next_entry(&mut self) -> Result<Option<CephEntry<'_>>, CephErrno> {
        let (mut stat, stream, entry) = (raw::Statx::EMPTY, self.stream.as_ptr(), &mut *self.entry);
        // SAFETY: all pointers are valid; no object is asked for, so that no reference is given.
        let got = self.mount.call(|library, info| unsafe {
            (library.ceph_readdirplus_r)(info, stream, entry, &mut stat, 0, NO_SYNC, ptr::null_mut())
        })?;
        if count(got.into())? == 0 {
            return Ok(None);
        }
        // SAFETY: the library has written a string that ends within the array.
        let name = unsafe { CStr::from_ptr(self.entry.d_name.as_ptr()) }.to_bytes();
        Ok(Some(CephEntry { name, ino: self.entry.d_ino, snapshot: stat.dev, position: self.entry.d_off }))
    }
}

/// `AT_STATX_DONT_SYNC`: what the library knows suffices.
const NO_SYNC: u32 = 0x4000;

impl Drop for DirectoryStream {
    fn drop(&mut self) {
        let stream = self.stream.as_ptr();
        // SAFETY: the stream is open and is closed once.
        self.mount.release(|library, info| unsafe { (library.ceph_ll_releasedir)(info, stream) });
    }
}
