//! Byte-range locks of the kernel (fcntl F_OFD_SETLK), visible to local programs.
//!
//! They belong to an open file description. A file has one for all clients, so that their locks
//! never conflict with each other in the kernel. They conflict with locks of other descriptions
//! (OFD) and of processes (POSIX).

use crate::{
    descriptor::Descriptor,
    errno::{uninterrupted, vfs_error},
    file::{LocalFile, OFFSET_MAX},
    identity, leases,
};
use nix::fcntl::{FcntlArg, fcntl};
use rustix::{
    fs::{CWD, Mode, OFlags, openat},
    io::Errno,
};
use std::{any::Any, os::fd::AsRawFd, sync::Arc, time::Duration};
use vfs::{LocalLock, LockKind, LockOutcome, RangeLocks, VfsError, VfsResult};

/// How long a lock on a file system that may hang keeps its caller waiting: a lease that expires is
/// unlocked by housekeeping.
const PATIENCE: Duration = Duration::from_secs(2);

/// The description that holds a file's locks. That of a file with a lease for writing is shared by
/// all values of the file, so dropping one must not unlock: the bytes may be another's by then.
#[derive(Debug)]
pub(crate) struct SharedDescription {
    pub(crate) fd: Arc<Descriptor>,
    pub(crate) reads: bool,
    pub(crate) writes: bool,
}

impl LocalFile {
    /// Opens the file once more to lock ranges of it, past its name and with the server's rights.
    pub(crate) fn lockable(&self, kind: LockKind) -> VfsResult<Option<Box<dyn RangeLocks>>> {
        if leases::is_for_writing(&self.fd) {
            // Its one descriptor, which is open for both: another would break the lease.
            return Ok(Some(Box::new(SharedDescription { fd: self.fd.clone(), reads: true, writes: true })));
        }
        if self.writer.is_some() {
            identity::become_superuser()?;
        }
        let path = format!("/proc/self/fd/{}", self.fd.as_raw_fd());
        let open = |access| {
            let flags = access | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
            uninterrupted(|| openat(CWD, &*path, flags, Mode::empty()))
        };
        let ways: &[_] = match kind {
            // Without root a file may be writable only.
            LockKind::Write => &[(OFlags::RDWR, true, true), (OFlags::WRONLY, false, true)],
            LockKind::Read => &[(OFlags::RDONLY, true, false)],
        };
        for (access, reads, writes) in ways {
            match open(*access) {
                Ok(fd) => {
                    let fd = Descriptor::new(fd, self.fd.thread());
                    let locks = SharedDescription { fd: Arc::new(fd), reads: *reads, writes: *writes };
                    return Ok(Some(Box::new(locks)));
                }
                Err(Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::TXTBSY) => {}
                Err(errno) => return Err(vfs_error(errno)),
            }
        }
        Ok(None)
    }
}

impl SharedDescription {
    /// Returns the kernel's description of a lock; `None` for a range behind its largest offset.
    fn words(first: u64, last: u64, kind: libc::c_int) -> Option<libc::flock> {
        let l_start = i64::try_from(first).ok()?;
        // A length of zero has no end.
        let l_len = if last >= OFFSET_MAX { 0 } else { i64::try_from(last - first + 1).ok()? };
        // The kinds fit: they are 0 to 2.
        let (l_type, l_whence) = (kind as libc::c_short, libc::SEEK_SET as libc::c_short);
        Some(libc::flock { l_type, l_whence, l_start, l_len, l_pid: 0 })
    }
}

impl RangeLocks for SharedDescription {
    fn can_write(&self) -> bool {
        self.writes
    }

    fn set(&self, first: u64, last: u64, kind: Option<LockKind>) -> VfsResult<LockOutcome> {
        let number = match kind {
            None => libc::F_UNLCK,
            Some(LockKind::Write) => libc::F_WRLCK,
            // A file that cannot be locked for reading does not block programs that read.
            Some(LockKind::Read) if !self.reads => libc::F_UNLCK,
            Some(LockKind::Read) => libc::F_RDLCK,
        };
        let Some(words) = Self::words(first, last, number) else { return Ok(LockOutcome::Done) };
        let fd = Arc::clone(&self.fd);
        let set = move || fcntl(&**fd, FcntlArg::F_OFD_SETLK(&words));
        let done = match self.fd.thread() {
            None => set(),
            // In one order for all: a lock must not overtake an unlock that hangs.
            Some(thread) => thread.run(PATIENCE, set).ok_or(VfsError::Delay)?,
        };
        match done {
            Ok(_) => Ok(LockOutcome::Done),
            Err(nix::Error::EAGAIN | nix::Error::EACCES) => Ok(LockOutcome::Conflict),
            // Of a file system on other machines: none of them manages locks, and waiting for them
            // would take for ever.
            Err(nix::Error::ENOLCK) if self.fd.thread().is_some() => Err(VfsError::Notsupp),
            Err(error) => Err(vfs_error(Errno::from_raw_os_error(error as i32))),
        }
    }

    fn find(&self, first: u64, last: u64, kind: LockKind) -> VfsResult<Option<LocalLock>> {
        let number = match kind {
            LockKind::Read => libc::F_RDLCK,
            LockKind::Write => libc::F_WRLCK,
        };
        let Some(mut words) = Self::words(first, last, number) else { return Ok(None) };
        let fd = Arc::clone(&self.fd);
        let mut find = move || fcntl(&**fd, FcntlArg::F_OFD_GETLK(&mut words)).map(|_| words);
        let found = match self.fd.thread() {
            None => find(),
            Some(thread) => thread.ask(PATIENCE, find).ok_or(VfsError::Delay)?,
        };
        let words = match found {
            // A file system without locks has none in the way.
            Err(nix::Error::ENOSYS | nix::Error::EOPNOTSUPP | nix::Error::ENOLCK)
                if self.fd.thread().is_some() =>
            {
                return Ok(None);
            }
            found => found.map_err(|error| vfs_error(Errno::from_raw_os_error(error as i32)))?,
        };
        if i32::from(words.l_type) == libc::F_UNLCK {
            return Ok(None);
        }
        let first = u64::try_from(words.l_start).unwrap_or(0);
        let last = match u64::try_from(words.l_len) {
            Ok(length @ 1..) => first.saturating_add(length - 1),
            _ => u64::MAX,
        };
        let writes = i32::from(words.l_type) == libc::F_WRLCK;
        let kind = if writes { LockKind::Write } else { LockKind::Read };
        Ok(Some(LocalLock { first, last, kind }))
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use crate::{LocalBackend, LocalOptions};
    use nix::fcntl::{FcntlArg, fcntl};
    use std::fs::File;
    use std::sync::Arc;
    use vfs::{Backend, Caller, LeaseKind, LockKind, LockOutcome, OpenAccess};

    /// Says whether the kernel would let another description lock the first byte.
    fn is_free(file: &File) -> bool {
        let mut words = super::SharedDescription::words(0, 0, libc::F_WRLCK).unwrap();
        fcntl(file, FcntlArg::F_OFD_GETLK(&mut words)).unwrap();
        i32::from(words.l_type) == libc::F_UNLCK
    }

    #[test]
    fn dropping_the_former_locks_of_a_leased_file_leaves_the_new_ones() // RFC 8881 section 18.10.3
    {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), b"data").unwrap();
        let backend = LocalBackend::open(folder.path(), &LocalOptions::default()).unwrap();
        let caller = Caller::root();
        let object = backend.lookup(&caller, &backend.root(), b"file").unwrap();
        let opened = backend.open(&caller, &object, OpenAccess { read: true, write: true }).unwrap();
        let Ok(Some(lease)) = opened.lease(LeaseKind::Write, Arc::new(|_| ())) else {
            return println!("skipped: no leases for writing on {}", folder.path().display());
        };
        let locks = || opened.range_locks(LockKind::Write).unwrap().unwrap();
        let (former, new) = (locks(), locks());
        assert_eq!(new.set(0, 0, Some(LockKind::Write)), Ok(LockOutcome::Done));
        drop(former);
        drop(lease);
        let local = File::options().read(true).write(true).open(folder.path().join("file")).unwrap();
        assert!(!is_free(&local));
        assert_eq!(new.set(0, u64::MAX, None), Ok(LockOutcome::Done));
        assert!(is_free(&local));
    }
}
