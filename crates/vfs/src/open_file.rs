//! The trait of objects that are open for reading and writing.

use crate::{Advice, Attributes, Caller, Eof, Extent, VfsResult};
use pipes::FileData;
use std::{any::Any, sync::Arc, time::Duration};

/// An open file. Reading and writing need no further permission, even after the name or the mode
/// has changed.
///
/// No method has a default, as in [`Backend`](crate::Backend); see
/// [`forward_open_file!`](crate::forward_open_file).
pub trait OpenFile: Send + Sync {
    /// Appends `count` bytes from `offset` to `into`, fewer only at the end of the file. A read up
    /// to the last byte has reached the end (RFC 8881 section 18.22.4). An error leaves `into`
    /// unchanged.
    fn read_at(&self, into: &mut Vec<u8>, count: usize, offset: u64) -> VfsResult<Eof>;

    /// As `read_at`, but returns `None`, with `into` as it was, when the data would have to be
    /// waited for.
    fn read_now(&self, into: &mut Vec<u8>, count: usize, offset: u64) -> VfsResult<Option<Eof>>;

    /// As `read_at`, but the data stays in the file's pages, on the way to a socket. `None` if it
    /// has to be copied.
    fn splice_at(&self, count: usize, offset: u64) -> VfsResult<Option<(FileData, Eof)>>;

    /// Writes all of `data` at `offset`; returns the bytes written, fewer only when space ran out
    /// half-way.
    fn write_at(&self, data: &[u8], offset: u64) -> VfsResult<usize>;

    /// Returns the same open for changes by another caller: its identity decides on set-id bits and
    /// on blocks reserved for root. `None` if the opener's identity decides, or none does.
    fn written_by(&self, caller: &Caller) -> Option<Arc<dyn OpenFile>>;

    /// Puts the data and all metadata on stable storage (RFC 8881 section 18.32.3).
    fn sync(&self) -> VfsResult<()>;

    /// Returns the attributes as they are now.
    fn getattr(&self) -> VfsResult<Attributes>;

    /// Changes the size through this open, without a further permission check.
    fn set_size(&self, size: u64) -> VfsResult<()>;

    /// Finds where data or a hole begins at or behind `offset`; the end of the file is a hole (RFC
    /// 7862 section 15.11.3). `None`: nothing but holes follow. A file without known holes is all
    /// data.
    ///
    /// # Errors
    /// `Nxio` for an offset that is not before the end of the file.
    fn seek(&self, what: Extent, offset: u64) -> VfsResult<Option<u64>>;

    /// Sees to it that writes to a range do not run out of space; the file grows to hold it (RFC
    /// 7862 section 15.1).
    ///
    /// # Errors
    /// `Inval` for no bytes, `Fbig`, `Nospc`, `Dquot`, `Notsupp`.
    fn allocate(&self, offset: u64, length: u64) -> VfsResult<()>;

    /// Gives the space of a range back: it reads as zeros, and the size stays (RFC 7862 section
    /// 15.4).
    ///
    /// # Errors
    /// `Inval` for no bytes, `Fbig`, `Notsupp`.
    fn deallocate(&self, offset: u64, length: u64) -> VfsResult<()>;

    /// Takes advice on a range, 0 bytes meaning all behind `offset`, and returns whether it is
    /// followed.
    fn advise(&self, advice: Advice, offset: u64, length: u64) -> bool;

    /// Copies bytes of another file to `offset`; returns how many, fewer at the source's end or
    /// when space ran out half-way. The ranges of one file do not overlap.
    fn copy_range(
        &self,
        source: &dyn OpenFile,
        source_offset: u64,
        offset: u64,
        count: u64,
    ) -> VfsResult<u64>;

    /// Makes a range share another file's bytes until either is written, all of it or nothing; a
    /// `count` of 0 is all up to the source's end (RFC 7862 section 15.13).
    ///
    /// # Errors
    /// `Inval` for ranges off the block size or beyond the source's end, `Xdev`, `Notsupp`.
    fn clone_range(
        &self,
        source: &dyn OpenFile,
        source_offset: u64,
        offset: u64,
        count: u64,
    ) -> VfsResult<()>;

    /// Takes a lease for a client that is to trust its cache: a read lease lasts until another
    /// process writes the file, a write lease until another process opens it. `broken` is called,
    /// on any thread, when the lease must end, with the time after which others proceed anyway.
    /// `None` if only the server reaches the file.
    ///
    /// # Errors
    /// `Delay` while a conflicting open exists, others where leases are not supported.
    fn lease(&self, kind: LeaseKind, broken: Broken) -> VfsResult<Option<Arc<dyn Lease>>>;

    /// Returns the locks that all clients together hold on the file, which local programs see;
    /// [`LockKind::Write`] also takes write locks. `None` if the file has no local programs, or
    /// cannot be opened for locking.
    ///
    /// # Errors
    /// `Delay` while a lease is held on the file, or descriptors are short.
    fn range_locks(&self, kind: LockKind) -> VfsResult<Option<Box<dyn RangeLocks>>>;

    /// Returns the file itself, by which a backend knows its own when it copies from one to
    /// another.
    fn as_any(&self) -> Option<&dyn Any>;
}

/// Byte-range locks of a file that local programs see.
///
/// Several of these may share their locks, so dropping one need not release anything: unlock the
/// bytes first.
pub trait RangeLocks: Send + Sync {
    /// Returns whether it can lock for writing.
    fn can_write(&self) -> bool;

    /// Locks the bytes from `first` to `last`, or unlocks them (`None`), without waiting. The
    /// former lock of these bytes does not matter. A conflict changes nothing. Bytes behind the
    /// kernel's largest offset are skipped, since no program can lock them.
    ///
    /// # Errors
    /// `Io` and others of the kernel's.
    fn set(&self, first: u64, last: u64, kind: Option<LockKind>) -> VfsResult<LockOutcome>;

    /// Returns a lock of a program that stands against locking these bytes.
    ///
    /// # Errors
    /// As `set`.
    fn find(&self, first: u64, last: u64, kind: LockKind) -> VfsResult<Option<LocalLock>>;

    /// Returns the locks themselves, by which a backend knows its own.
    fn as_any(&self) -> Option<&dyn Any>;
}

/// A lock that a program of this machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalLock {
    /// The offset of the first byte.
    pub first: u64,
    /// Its last byte; all ones where it has no end.
    pub last: u64,
    /// Whether others may read-lock the same bytes.
    pub kind: LockKind,
}

/// Kind of a byte-range lock (F_RDLCK and F_WRLCK of fcntl(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// A shared lock, for reading.
    Read,
    /// An exclusive lock, for writing.
    Write,
}

/// The outcome of a request to lock or unlock bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockOutcome {
    /// The bytes are locked or unlocked as requested.
    Done,
    /// A program holds a conflicting lock, and nothing changed.
    Conflict,
}

/// Kind of a [`Lease`] (OPEN_DELEGATE_READ and OPEN_DELEGATE_WRITE of RFC 8881).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseKind {
    /// It ends when somebody else opens the file for writing.
    Read,
    /// It ends when somebody else opens the file.
    Write,
}

/// A file system's promise to give notice before others access a file. Dropping it ends the
/// promise, and waiting processes proceed.
pub trait Lease: Send + Sync {
    /// Returns whether it is to be given up.
    fn is_broken(&self) -> bool;

    /// Returns the lease itself, by which a backend knows its own.
    fn as_any(&self) -> Option<&dyn Any>;
}

/// Called when a lease is to be given up.
pub type Broken = Arc<dyn Fn(Duration) + Send + Sync>;

/// Bytes that a copy through memory moves at once.
const PIECE: u64 = 1 << 20;

/// Reads a source piece by piece and hands each to `write`, with the number of bytes before it.
pub fn copy_by_pieces(
    source: &dyn OpenFile,
    source_offset: u64,
    count: u64,
    mut write: impl FnMut(&[u8], u64) -> VfsResult<usize>,
) -> VfsResult<u64> {
    let mut data = Vec::new();
    let mut done = 0;
    while done < count {
        data.clear();
        let piece = usize::try_from(PIECE.min(count - done)).unwrap_or(usize::MAX);
        let result = source
            .read_at(&mut data, piece, source_offset.saturating_add(done))
            .and_then(|end| Ok((end, if data.is_empty() { 0 } else { write(&data, done)? })));
        let (end, written) = match result {
            // Bytes were copied already: report them, and let the next call meet the error again.
            Err(_) if done > 0 => break,
            result => result?,
        };
        done += written as u64;
        if end.is_reached() || written < data.len() || data.is_empty() {
            break;
        }
    }
    Ok(done)
}
