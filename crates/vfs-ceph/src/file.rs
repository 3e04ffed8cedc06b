//! Open files: READ, WRITE, COMMIT and their variants.

use crate::attributes::attributes;
use crate::dirty::DirtyFiles;
use crate::leases::Recalls;
use crate::locks;
use crate::object::CephObject;
use crate::{CephBackend, errno::vfs_error};
use ceph::fs::{Credentials, SetStat};
use foreign::ForeignThread;
use pipes::FileData;
use std::any::Any;
use std::sync::Arc;
use vfs::{
    Advice, Attributes, Broken, Caller, Eof, Extent, Lease, LeaseKind, LockKind, OFFSET_MAX, OpenFile,
    RangeLocks, VfsError, VfsResult, copy_by_pieces,
};

/// The set-user-ID and set-group-ID bits.
const SET_ID: u32 = libc::S_ISUID | libc::S_ISGID;

/// Tries of a read of a file that other clients cut at the same time.
const READ_TRIES_MAX: u32 = 8;

/// An open file; reading and writing it need no further permission.
#[derive(Debug)]
pub(crate) struct CephFile {
    pub(crate) object: Arc<CephObject>,
    pub(crate) file: Arc<ceph::fs::CephOpenFile>,
    server: Arc<Credentials>,
    /// The user that opened it.
    opener: u32,
    device: u64,
    recalls: Arc<Recalls>,
    lock_thread: Arc<ForeignThread>,
    dirty_files: Arc<DirtyFiles<CephObject>>,
}

impl CephBackend {
    /// Makes the open file of one that the library has opened.
    pub(crate) fn opened(
        &self,
        object: &Arc<CephObject>,
        file: ceph::fs::CephOpenFile,
        caller: &Caller,
    ) -> CephFile {
        CephFile {
            object: Arc::clone(object),
            file: Arc::new(file),
            server: Arc::clone(&self.server),
            opener: caller.uid,
            device: self.device,
            recalls: Arc::clone(&self.recalls),
            lock_thread: Arc::clone(&self.lock_thread),
            dirty_files: Arc::clone(&self.dirty_files),
        }
    }
}

impl CephFile {
    /// Takes the set-id bits from a program that another user has cut, as the library does for
    /// writes.
    fn clear_set_id(&self) -> VfsResult<()> {
        let stat = self.object.inode.stat(&self.server).map_err(vfs_error)?;
        if self.opener == 0 || self.opener == stat.uid || stat.mode & SET_ID == 0 {
            return Ok(());
        }
        // Without the right to execute, the group's bit means something else.
        let cleared = if stat.mode & 0o010 == 0 { libc::S_ISUID } else { SET_ID };
        let mode = Some(stat.mode & 0o7777 & !cleared);
        self.object.inode.set_stat(&SetStat { mode, ..SetStat::default() }, &self.server).map_err(vfs_error)
    }
}

impl OpenFile for CephFile {
    /// Reads no further than the end of the file that the library knows. When a read meets the end
    /// while another client appends, libcephfs (seen with 16.2.15) can return the appended bytes in
    /// place of the first ones, and only their number shows it.
    fn read_at(&self, into: &mut Vec<u8>, count: usize, offset: u64) -> VfsResult<Eof> {
        let start = into.len();
        for _ in 0..READ_TRIES_MAX {
            let size = self.object.inode.size(&self.server).map_err(vfs_error)?;
            let rest = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
            let wanted = count.min(rest);
            let read = if wanted > 0 { self.file.read(into, wanted, offset).map_err(vfs_error)? } else { 0 };
            if read == wanted {
                return Ok(Eof::reached_if(count >= rest));
            }
            // Another client has cut the file meanwhile.
            into.truncate(start);
        }
        Err(VfsError::Delay)
    }

    fn read_now(&self, _: &mut Vec<u8>, _: usize, _: u64) -> VfsResult<Option<Eof>> {
        Ok(None)
    }

    fn splice_at(&self, _: usize, _: u64) -> VfsResult<Option<(FileData, Eof)>> {
        Ok(None)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> VfsResult<usize> {
        let end = offset.checked_add(data.len() as u64).filter(|end| *end <= OFFSET_MAX);
        end.ok_or(VfsError::Fbig)?;
        let mut done = 0;
        while let Some(rest) = data.get(done..).filter(|rest| !rest.is_empty()) {
            match self.file.write(rest, offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(_) if done > 0 => break,
                Err(error) => return Err(vfs_error(error)),
            }
        }
        self.dirty_files.note(&self.object);
        Ok(done)
    }

    fn written_by(&self, _: &Caller) -> Option<Arc<dyn OpenFile>> {
        None
    }

    fn sync(&self) -> VfsResult<()> {
        self.dirty_files.clean(&*self.object, || self.file.sync())
    }

    fn getattr(&self) -> VfsResult<Attributes> {
        let stat = self.object.inode.stat(&self.server).map_err(vfs_error)?;
        Ok(attributes(&stat, self.device))
    }

    fn set_size(&self, size: u64) -> VfsResult<()> {
        if size > OFFSET_MAX {
            return Err(VfsError::Fbig);
        }
        let set = SetStat { size: Some(size), ..SetStat::default() };
        self.object.inode.set_stat(&set, &self.server).map_err(vfs_error)?;
        self.clear_set_id()
    }

    /// CephFS knows no holes: a file is all data.
    fn seek(&self, what: Extent, offset: u64) -> VfsResult<Option<u64>> {
        let size = self.object.inode.size(&self.server).map_err(vfs_error)?;
        match what {
            _ if offset >= size => Err(VfsError::Nxio),
            Extent::Data => Ok(Some(offset)),
            Extent::Hole => Ok(Some(size)),
        }
    }

    /// CephFS reserves no space.
    fn allocate(&self, _: u64, _: u64) -> VfsResult<()> {
        Err(VfsError::Notsupp)
    }

    fn deallocate(&self, offset: u64, length: u64) -> VfsResult<()> {
        if length == 0 {
            return Err(VfsError::Inval);
        }
        // Behind the largest offset there is nothing to free.
        let length = length.min(OFFSET_MAX.saturating_sub(offset));
        if length == 0 {
            return Err(VfsError::Fbig);
        }
        self.file.punch(offset, length).map_err(vfs_error)
    }

    fn advise(&self, _: Advice, _: u64, _: u64) -> bool {
        false
    }

    fn copy_range(
        &self,
        source: &dyn OpenFile,
        source_offset: u64,
        offset: u64,
        count: u64,
    ) -> VfsResult<u64> {
        let end = |offset: u64| offset.checked_add(count).filter(|end| *end <= OFFSET_MAX);
        end(source_offset).and(end(offset)).ok_or(VfsError::Fbig)?;
        copy_by_pieces(source, source_offset, count, |data, done| self.write_at(data, offset + done))
    }

    fn clone_range(&self, _: &dyn OpenFile, _: u64, _: u64, _: u64) -> VfsResult<()> {
        Err(VfsError::Notsupp)
    }

    fn lease(&self, kind: LeaseKind, broken: Broken) -> VfsResult<Option<Arc<dyn Lease>>> {
        self.recalls.take(&self.file, kind, broken).map(Some)
    }

    fn range_locks(&self, _: LockKind) -> VfsResult<Option<Box<dyn RangeLocks>>> {
        Ok(Some(Box::new(locks::CephLocks::new(Arc::clone(&self.file), Arc::clone(&self.lock_thread)))))
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}
