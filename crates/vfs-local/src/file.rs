//! Open files: READ, WRITE, COMMIT and their variants.

use crate::{
    attributes::{attributes, stat_fd},
    change::Changes,
    descriptor::Descriptor,
    errno::{sync_error, vfs_error},
    identity,
    kind::Kind,
    leases,
    open_files::CountedOpen,
    seeker::KeptSeeker,
    sys,
};
use pipes::FileData;
use rustix::{
    fs::{SeekFrom, fsync, ftruncate, seek},
    io::{Errno, pwrite},
};
use std::{
    any::Any,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd},
        unix::ffi::OsStrExt,
    },
    path::PathBuf,
    sync::{Arc, OnceLock},
};
use vfs::{
    Advice, Attributes, Broken, Caller, Eof, Extent, Lease, LeaseKind, LockKind, OFFSET_MAX, OpenFile,
    RangeLocks, VfsError, VfsResult,
};

/// Appends at most so many bytes from an offset of a file.
type AppendRead = fn(BorrowedFd<'_>, &mut Vec<u8>, usize, u64) -> Result<usize, Errno>;

/// A descriptor that was opened with the rights of its caller; reading it needs no others.
#[derive(Debug)]
pub(crate) struct LocalFile {
    pub(crate) fd: Arc<Descriptor>,
    /// The caller that changes it, where identities differ: the kernel grants blocks reserved for
    /// root by the thread's identity at the time of the write.
    pub(crate) writer: Option<Caller>,
    /// As of [`CachedObject`](crate::cached_object::CachedObject).
    pub(crate) ino: u64,
    pub(crate) changes: Arc<Changes>,
    /// How long a read of the file may block.
    pub(crate) kind: Kind,
    /// A second open of the file, where its extents were asked for and few files have one.
    pub(crate) seeker: OnceLock<KeptSeeker>,
    pub(crate) counted: CountedOpen,
}

/// Returns the path of an open file of this backend as the kernel knows it. A removed file has its
/// last name, with ` (deleted)` behind it; `#` and its inode number stand for the name where it was
/// opened before it had one.
pub fn path_of(file: &dyn OpenFile) -> Option<PathBuf> {
    let file = file.as_any()?.downcast_ref::<LocalFile>()?;
    let path = path_of_fd(file.fd.as_fd())?;
    // Calls by handle may wait for a foreign file system.
    if !path.as_os_str().as_bytes().ends_with(b" (deleted)") || file.kind == Kind::Foreign {
        return Some(path);
    }
    Some(other_name(file.fd.as_fd()).unwrap_or(path))
}

fn path_of_fd(fd: BorrowedFd<'_>) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).ok()
}

/// Returns a path of a file that was opened by a name which it has lost, or before it had a name.
/// The kernel finds the newest name that it remembers.
fn other_name(fd: BorrowedFd<'_>) -> Option<PathBuf> {
    let handle = sys::fd_to_handle(fd).ok()?;
    let object = sys::open_by_handle(fd, &handle).ok()?;
    path_of_fd(object.as_fd())
}

impl LocalFile {
    pub(crate) fn act_as_writer(&self) -> VfsResult<()> {
        self.writer.as_ref().map_or(Ok(()), identity::become_caller)
    }

    /// Appends available bytes; a second read confirms an end that the first has met.
    fn append(&self, into: &mut Vec<u8>, count: usize, offset: u64, read: AppendRead) -> Result<Eof, Errno> {
        let mut at = offset;
        let mut rest = count;
        while rest > 0 && at <= OFFSET_MAX {
            match read(self.fd.as_fd(), into, rest, at) {
                Ok(0) => return Ok(Eof::Reached),
                Ok(more) => (at, rest) = (at.saturating_add(more as u64), rest - more),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        // Nothing else reads or moves the descriptor's own position; this is the cheapest way to
        // the size.
        Ok(Eof::reached_if(at > OFFSET_MAX || at >= seek(&self.fd, SeekFrom::End(0))?))
    }
}

impl OpenFile for LocalFile {
    fn read_at(&self, into: &mut Vec<u8>, count: usize, offset: u64) -> VfsResult<Eof> {
        let start = into.len();
        let end = self.append(into, count, offset, sys::append);
        if end.is_err() {
            into.truncate(start);
        }
        end.map_err(vfs_error)
    }

    fn read_now(&self, into: &mut Vec<u8>, count: usize, offset: u64) -> VfsResult<Option<Eof>> {
        match self.kind {
            Kind::Memory => return self.read_at(into, count, offset).map(Some),
            Kind::Foreign => return Ok(None),
            Kind::LocalDisk => {}
        }
        let start = into.len();
        match self.append(into, count, offset, sys::append_now) {
            Ok(end) => Ok(Some(end)),
            // Data that is not there yet, or a file system that cannot tell.
            Err(Errno::AGAIN | Errno::OPNOTSUPP) => {
                into.truncate(start);
                Ok(None)
            }
            Err(errno) => {
                into.truncate(start);
                Err(vfs_error(errno))
            }
        }
    }

    fn splice_at(&self, count: usize, offset: u64) -> VfsResult<Option<(FileData, Eof)>> {
        let data = match FileData::of(self.fd.as_fd(), offset, count) {
            Ok(Some(data)) => data,
            Ok(None) => return Ok(None),
            Err(error) => return Err(vfs_error(Errno::from_io_error(&error).unwrap_or(Errno::IO))),
        };
        let read_to = offset.saturating_add(data.len() as u64);
        let is_end = data.len() < count || read_to >= seek(&self.fd, SeekFrom::End(0)).map_err(vfs_error)?;
        Ok(Some((data, Eof::reached_if(is_end))))
    }

    fn write_at(&self, data: &[u8], offset: u64) -> VfsResult<usize> {
        let end = offset.checked_add(data.len() as u64).filter(|end| *end <= OFFSET_MAX);
        end.ok_or(VfsError::Fbig)?;
        self.act_as_writer()?;
        let mut done = 0;
        while let Some(rest) = data.get(done..).filter(|rest| !rest.is_empty()) {
            match pwrite(&self.fd, rest, offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(_) if done > 0 => break,
                Err(errno) => return Err(vfs_error(errno)),
            }
        }
        self.changes.note(self.ino);
        Ok(done)
    }

    fn written_by(&self, caller: &Caller) -> Option<Arc<dyn OpenFile>> {
        self.writer.as_ref()?;
        Some(Arc::new(Self {
            fd: Arc::clone(&self.fd),
            writer: Some(caller.clone()),
            ino: self.ino,
            changes: Arc::clone(&self.changes),
            kind: self.kind,
            seeker: OnceLock::new(),
            counted: self.counted.clone(),
        }))
    }

    fn sync(&self) -> VfsResult<()> {
        // The times as well: after a power cut the change attribute would go back to one that
        // clients have seen with other data.
        fsync(&self.fd).map_err(sync_error)
    }

    fn getattr(&self) -> VfsResult<Attributes> {
        let asked = self.changes.now();
        stat_fd(&self.fd).map(|stat| attributes(&stat, self.ino, &self.changes, asked)).map_err(vfs_error)
    }

    fn set_size(&self, size: u64) -> VfsResult<()> {
        if size > OFFSET_MAX {
            return Err(VfsError::Fbig);
        }
        self.act_as_writer()?;
        ftruncate(&self.fd, size).map_err(vfs_error)?;
        self.changes.note(self.ino);
        Ok(())
    }

    fn seek(&self, what: Extent, offset: u64) -> VfsResult<Option<u64>> {
        self.find_extent(what, offset)
    }

    fn allocate(&self, offset: u64, length: u64) -> VfsResult<()> {
        self.fill_range(offset, length)
    }

    fn deallocate(&self, offset: u64, length: u64) -> VfsResult<()> {
        self.punch_range(offset, length)
    }

    fn advise(&self, advice: Advice, offset: u64, length: u64) -> bool {
        self.take_advice(advice, offset, length)
    }

    fn copy_range(
        &self,
        source: &dyn OpenFile,
        source_offset: u64,
        offset: u64,
        count: u64,
    ) -> VfsResult<u64> {
        self.copy_bytes(source, source_offset, offset, count)
    }

    fn clone_range(
        &self,
        source: &dyn OpenFile,
        source_offset: u64,
        offset: u64,
        count: u64,
    ) -> VfsResult<()> {
        self.share_blocks(source, source_offset, offset, count)
    }

    fn lease(&self, kind: LeaseKind, broken: Broken) -> VfsResult<Option<Arc<dyn Lease>>> {
        if self.kind == Kind::Foreign {
            // Others can change the file where this kernel does not see it.
            return Err(VfsError::Notsupp);
        }
        leases::take(&self.fd, kind, broken).map(Some)
    }

    fn range_locks(&self, kind: LockKind) -> VfsResult<Option<Box<dyn RangeLocks>>> {
        self.lockable(kind)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}
