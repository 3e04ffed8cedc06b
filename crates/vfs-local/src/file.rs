//! An open file.

use crate::{
    attributes::{attributes, stat_fd},
    change::Changes,
    errno::vfs_error,
    identity,
};
use rustix::{
    fs::{fdatasync, ftruncate},
    io::{Errno, pread, pwrite},
};
use std::{os::fd::OwnedFd, sync::Arc};
use vfs::{Attributes, Caller, OpenFile, VfsError, VfsResult};

/// Largest offset that the kernel knows.
const OFFSET_MAX: u64 = i64::MAX as u64;

/// A descriptor that was opened with the rights of its caller; reading it needs no others.
#[derive(Debug)]
pub(crate) struct LocalFile {
    pub(crate) fd: OwnedFd,
    /// Who opened it, where identities differ: the kernel gives blocks that are reserved for root to whoever
    /// the thread is when it writes.
    pub(crate) writer: Option<Caller>,
    pub(crate) ino: u64,
    pub(crate) changes: Arc<Changes>,
}

impl LocalFile {
    fn act_as_writer(&self) -> VfsResult<()> {
        self.writer.as_ref().map_or(Ok(()), identity::become_caller)
    }
}

impl OpenFile for LocalFile {
    fn read_at(&self, into: &mut [u8], offset: u64) -> VfsResult<usize> {
        let mut done = 0;
        while let Some(rest) = into.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let at = offset.saturating_add(done as u64);
            if at > OFFSET_MAX {
                break;
            }
            match pread(&self.fd, rest, at) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(vfs_error(errno)),
            }
        }
        Ok(done)
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

    fn sync(&self) -> VfsResult<()> {
        fdatasync(&self.fd).map_err(vfs_error)
    }

    fn getattr(&self) -> VfsResult<Attributes> {
        stat_fd(&self.fd).map(|stat| attributes(&stat, &self.changes)).map_err(vfs_error)
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
}
