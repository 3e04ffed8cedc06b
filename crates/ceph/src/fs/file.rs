//! Files that are open, and their locks.

use super::{CephMount, raw};
use crate::CephErrno;
use crate::errno::{count, done};
use std::ffi::c_char;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Bytes that one call moves at most: the library returns a C `int`.
const PIECE_MAX: usize = 1 << 30;

/// A regular file that is open for reading, writing or both.
#[derive(Debug)]
pub struct CephOpenFile {
    pub(super) mount: Arc<CephMount>,
    pub(super) file: NonNull<raw::RawFh>,
    /// Whether a delegation rests on it.
    pub(super) delegated: AtomicBool,
}

// SAFETY: the library takes its own locks in every call that gets this pointer.
unsafe impl Send for CephOpenFile {}
// SAFETY: as above.
unsafe impl Sync for CephOpenFile {}

/// The bytes of a lock, from the first to the last; `i64::MAX` has no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CephLockRange {
    /// Offset of the first byte.
    pub first: u64,
    /// Offset of the last byte.
    pub last: u64,
}

/// The kind of a byte-range lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockType {
    /// Shared with other readers.
    Read,
    /// Held by one owner.
    Write,
    /// No lock any more.
    Unlock,
}

/// A lock that stands against another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldLock {
    /// The bytes that it covers.
    pub range: CephLockRange,
    /// Shared or exclusive, never `Unlock`.
    pub kind: LockType,
}

impl CephLockRange {
    fn to_raw(self, kind: LockType) -> Option<libc::flock> {
        let start = i64::try_from(self.first).ok()?;
        // A length of zero has no end.
        let length = match i64::try_from(self.last) {
            Ok(last) if last < i64::MAX => last.checked_sub(start)?.checked_add(1)?,
            _ => 0,
        };
        let kind = match kind {
            LockType::Read => libc::F_RDLCK,
            LockType::Write => libc::F_WRLCK,
            LockType::Unlock => libc::F_UNLCK,
        };
        // The constants are small.
        let (l_type, l_whence) = (kind as libc::c_short, libc::SEEK_SET as libc::c_short);
        Some(libc::flock { l_type, l_whence, l_start: start, l_len: length, l_pid: 0 })
    }
}

impl CephOpenFile {
    pub(super) fn new(mount: &Arc<CephMount>, file: *mut raw::RawFh) -> Result<Self, CephErrno> {
        let file = NonNull::new(file).ok_or(CephErrno::new(libc::EBADF))?;
        Ok(Self { mount: Arc::clone(mount), file, delegated: AtomicBool::new(false) })
    }

    /// Returns the mount that the file belongs to.
    pub fn mount(&self) -> &Arc<CephMount> {
        &self.mount
    }

    /// Runs a call with the library, the mount and this file.
    pub(super) fn call<R>(
        &self,
        call: impl FnOnce(&'static raw::Functions, *mut raw::MountInfo, *mut raw::RawFh) -> R,
    ) -> Result<R, CephErrno> {
        self.mount.call(|library, info| call(library, info, self.file.as_ptr()))
    }

    /// Appends at most `wanted` bytes from `offset` to `into`; returns how many, fewer at the end
    /// of the file.
    ///
    /// # Errors
    /// The library's; `into` is unchanged.
    pub fn read(&self, into: &mut Vec<u8>, wanted: usize, offset: u64) -> Result<usize, CephErrno> {
        let Ok(offset) = i64::try_from(offset) else { return Ok(0) };
        let wanted = wanted.min(PIECE_MAX);
        into.reserve(wanted);
        let at = into.spare_capacity_mut().as_mut_ptr().cast::<c_char>();
        // SAFETY: the library writes at most `wanted` bytes, for which there is room.
        let read = self.call(|library, info, file| unsafe {
            (library.ceph_ll_read)(info, file, offset, wanted as u64, at)
        })?;
        let read = usize::try_from(count(read.into())?).unwrap_or(0).min(wanted);
        // SAFETY: the library has written these bytes.
        unsafe { into.set_len(into.len() + read) };
        Ok(read)
    }

    /// Writes bytes at an offset; returns how many.
    ///
    /// # Errors
    /// `EFBIG`, `ENOSPC`, `EDQUOT`, and others of the library.
    pub fn write(&self, data: &[u8], offset: u64) -> Result<usize, CephErrno> {
        let offset = i64::try_from(offset).map_err(|_| CephErrno::new(libc::EFBIG))?;
        let data = data.get(..PIECE_MAX).unwrap_or(data);
        // SAFETY: the library reads the data during the call.
        let written = self.call(|library, info, file| unsafe {
            let at = data.as_ptr().cast::<c_char>();
            (library.ceph_ll_write)(info, file, offset, data.len() as u64, at)
        })?;
        count(written.into()).map(|written| usize::try_from(written).unwrap_or(0))
    }

    /// Waits until the file's data and attributes are on stable storage.
    ///
    /// # Errors
    /// The error of a write that failed.
    pub fn sync(&self) -> Result<(), CephErrno> {
        // SAFETY: the file is open.
        done(self.call(|library, info, file| unsafe { (library.ceph_ll_fsync)(info, file, 0) })?)
    }

    /// Gives the space of a range back, which then reads as zeros; the size stays.
    ///
    /// # Errors
    /// `EOPNOTSUPP`, and others of the library.
    pub fn punch(&self, offset: u64, length: u64) -> Result<(), CephErrno> {
        let invalid = |_| CephErrno::new(libc::EFBIG);
        let (offset, length) =
            (i64::try_from(offset).map_err(invalid)?, i64::try_from(length).map_err(invalid)?);
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: the file is open.
        done(self.call(|library, info, file| unsafe {
            (library.ceph_ll_fallocate)(info, file, mode, offset, length)
        })?)
    }

    /// Locks bytes for an owner, or unlocks them, without waiting. A range beyond the largest
    /// offset is skipped.
    ///
    /// # Errors
    /// `EAGAIN` if another owner or client holds a lock against it.
    pub fn set_lock(&self, range: CephLockRange, kind: LockType, owner: u64) -> Result<(), CephErrno> {
        let Some(mut words) = range.to_raw(kind) else { return Ok(()) };
        // SAFETY: all pointers are valid.
        done(self.call(|library, info, file| unsafe {
            (library.ceph_ll_setlk)(info, file, &mut words, owner, 0)
        })?)
    }

    /// Returns a lock of another owner or client against a lock of this kind.
    ///
    /// # Errors
    /// The library's.
    pub fn find_lock(
        &self,
        range: CephLockRange,
        kind: LockType,
        owner: u64,
    ) -> Result<Option<HeldLock>, CephErrno> {
        let Some(mut words) = range.to_raw(kind) else { return Ok(None) };
        // SAFETY: all pointers are valid.
        done(self.call(|library, info, file| unsafe {
            (library.ceph_ll_getlk)(info, file, &mut words, owner)
        })?)?;
        let kind = match i32::from(words.l_type) {
            libc::F_RDLCK => LockType::Read,
            libc::F_WRLCK => LockType::Write,
            _ => return Ok(None),
        };
        let first = u64::try_from(words.l_start).unwrap_or(0);
        let last = match u64::try_from(words.l_len) {
            Ok(length @ 1..) => first.saturating_add(length - 1),
            _ => u64::MAX,
        };
        Ok(Some(HeldLock { range: CephLockRange { first, last }, kind }))
    }
}

impl Drop for CephOpenFile {
    fn drop(&mut self) {
        // SAFETY: the file is open and is closed once.
        self.mount.release(|library, info| unsafe { (library.ceph_ll_close)(info, self.file.as_ptr()) });
    }
}
