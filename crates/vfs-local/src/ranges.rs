//! Ranges of an open file: holes, allocation, advice, and copies from file to file.

use crate::{
    descriptor::Descriptor,
    errno::{retry, vfs_error},
    file::LocalFile,
    leases,
    seeker::KeptSeeker,
    sys,
};
use rustix::{
    fs::{
        Advice as KernelAdvice, CWD, FallocateFlags, Mode, OFlags, SeekFrom, copy_file_range, fadvise,
        fallocate, fstat, openat, seek,
    },
    io::Errno,
};
use std::{
    num::NonZeroU64,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
};
use vfs::{Advice, Extent, OFFSET_MAX, OpenFile, VfsError, VfsResult, copy_by_pieces};

/// Bytes that the kernel copies per call, so that a copy can be stopped between calls.
const COPY_PIECE: u64 = 16 << 20;

impl LocalFile {
    /// Moves the position of a descriptor of its own. The kernel locks it while it looks for
    /// extents, which can take as long as a disk access, and readers of the other descriptor must
    /// not wait for that.
    fn find(&self, from: SeekFrom) -> Result<u64, Errno> {
        let find = |seeker: BorrowedFd<'_>| retry(|| seek(seeker, from));
        if leases::is_for_writing(&self.fd) {
            // Another descriptor would break the lease.
            return find(self.fd.as_fd());
        }
        if let Some(kept) = self.seeker.get() {
            return find(kept.as_fd());
        }
        let path = format!("/proc/self/fd/{}", self.fd.as_raw_fd());
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        // Where it cannot be opened again (the mode may have changed) the first one serves.
        let Ok(fd) = openat(CWD, path, flags, Mode::empty()) else { return find(self.fd.as_fd()) };
        match KeptSeeker::new(Descriptor::new(fd, self.fd.thread())) {
            Ok(kept) => find(self.seeker.get_or_init(|| kept).as_fd()),
            Err(seeker) => find(seeker.as_fd()),
        }
    }

    pub(crate) fn find_extent(&self, what: Extent, offset: u64) -> VfsResult<Option<u64>> {
        let from = match what {
            _ if offset > OFFSET_MAX => return Err(VfsError::Nxio),
            Extent::Data => SeekFrom::Data(offset),
            Extent::Hole => SeekFrom::Hole(offset),
        };
        match self.find(from) {
            Ok(found) => Ok(Some(found)),
            // No data behind the offset, or no file.
            Err(Errno::NXIO) => {
                let size = fstat(&self.fd).map_err(vfs_error)?.st_size;
                if offset < u64::try_from(size).unwrap_or(0) { Ok(None) } else { Err(VfsError::Nxio) }
            }
            Err(errno) => Err(vfs_error(errno)),
        }
    }

    pub(crate) fn fill_range(&self, offset: u64, length: u64) -> VfsResult<()> {
        self.change_range(FallocateFlags::empty(), offset, length)
    }

    pub(crate) fn punch_range(&self, offset: u64, length: u64) -> VfsResult<()> {
        // Behind the largest offset there is nothing to free.
        let length = length.min(OFFSET_MAX.saturating_sub(offset));
        self.change_range(FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, length)
    }

    fn change_range(&self, how: FallocateFlags, offset: u64, length: u64) -> VfsResult<()> {
        if length == 0 {
            return Err(VfsError::Inval);
        }
        offset.checked_add(length).filter(|end| *end <= OFFSET_MAX).ok_or(VfsError::Fbig)?;
        self.act_as_writer()?;
        retry(|| fallocate(&self.fd, how, offset, length)).map_err(vfs_error)?;
        self.changes.note(self.ino);
        Ok(())
    }

    pub(crate) fn take_advice(&self, advice: Advice, offset: u64, length: u64) -> bool {
        let advice = match advice {
            Advice::Normal => KernelAdvice::Normal,
            Advice::Sequential => KernelAdvice::Sequential,
            Advice::Random => KernelAdvice::Random,
            Advice::WillNeed => KernelAdvice::WillNeed,
            Advice::DontNeed => KernelAdvice::DontNeed,
            Advice::NoReuse => KernelAdvice::NoReuse,
        };
        let length = length.min(OFFSET_MAX.saturating_sub(offset));
        offset <= OFFSET_MAX && fadvise(&self.fd, offset, NonZeroU64::new(length), advice).is_ok()
    }

    pub(crate) fn copy_bytes(
        &self,
        source: &dyn OpenFile,
        source_offset: u64,
        offset: u64,
        count: u64,
    ) -> VfsResult<u64> {
        let end = |offset: u64| offset.checked_add(count).filter(|end| *end <= OFFSET_MAX);
        end(source_offset).and(end(offset)).ok_or(VfsError::Fbig)?;
        let done = match source.as_any().and_then(|file| file.downcast_ref::<Self>()) {
            Some(source) => self.copy_in_kernel(source, source_offset, offset, count)?,
            None => None,
        };
        if let Some(done) = done {
            return Ok(done);
        }
        copy_by_pieces(source, source_offset, count, |data, done| self.write_at(data, offset + done))
    }

    /// Lets the kernel copy; `None` when it does not do so between these two.
    fn copy_in_kernel(
        &self,
        source: &Self,
        source_offset: u64,
        offset: u64,
        count: u64,
    ) -> VfsResult<Option<u64>> {
        self.act_as_writer()?;
        let mut done = 0;
        while done < count {
            let (mut from, mut to) = (source_offset + done, offset + done);
            let piece = usize::try_from(COPY_PIECE.min(count - done)).unwrap_or(usize::MAX);
            match retry(|| copy_file_range(&source.fd, Some(&mut from), &self.fd, Some(&mut to), piece)) {
                Ok(0) => break,
                Ok(more) => done += more as u64,
                Err(_) if done > 0 => break,
                Err(Errno::XDEV | Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(None),
                Err(errno) => return Err(vfs_error(errno)),
            }
        }
        self.changes.note(self.ino);
        Ok(Some(done))
    }

    pub(crate) fn share_blocks(
        &self,
        source: &dyn OpenFile,
        source_offset: u64,
        offset: u64,
        count: u64,
    ) -> VfsResult<()> {
        let source = source.as_any().and_then(|file| file.downcast_ref::<Self>()).ok_or(VfsError::Xdev)?;
        self.act_as_writer()?;
        let range = sys::CloneRange { source_offset, count, offset };
        retry(|| sys::clone_range(source.fd.as_fd(), self.fd.as_fd(), &range)).map_err(vfs_error)?;
        self.changes.note(self.ino);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeker::SEEKERS_MAX;
    use std::sync::Arc;
    use vfs::{Backend, Caller, OpenAccess};

    #[test]
    fn few_open_files_keep_a_second_descriptor_for_their_extents() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), b"data").unwrap();
        let backend = crate::LocalBackend::open(folder.path(), &Default::default()).unwrap();
        let object = backend.lookup(&Caller::root(), &backend.root(), b"file").unwrap();
        let open = |_| -> Arc<dyn OpenFile> {
            let access = OpenAccess { read: true, write: false };
            backend.open(&Caller::root(), &object, access).unwrap()
        };
        let seekers = |opened: &[Arc<dyn OpenFile>]| {
            let keeps = |file: &&Arc<dyn OpenFile>| {
                assert_eq!(file.seek(Extent::Data, 1), Ok(Some(1)));
                assert_eq!(file.seek(Extent::Hole, 1), Ok(Some(4)));
                file.as_any().unwrap().downcast_ref::<LocalFile>().unwrap().seeker.get().is_some()
            };
            opened.iter().filter(keeps).count()
        };
        let opened: Vec<_> = (0..2 * SEEKERS_MAX).map(open).collect();
        assert!(seekers(&opened) <= SEEKERS_MAX);
        drop(opened);
        assert_eq!(seekers(&[open(0)]), 1, "those of closed files make room");
    }
}
