//! Byte-range locks of the kernel (fcntl F_OFD_SETLK), visible to local programs.
//!
//! They belong to an open file description. A file has one for all clients, so that their locks
//! never conflict with each other in the kernel. They conflict with locks of other descriptions
//! (OFD) and of processes (POSIX).

use crate::{
    descriptor::Descriptor,
    errno::{uninterrupted, vfs_error},
    file::LocalFile,
    identity, leases,
};
use foreign::{ForeignLocks, LockChange};
use nix::fcntl::{FcntlArg, fcntl};
use rustix::{
    fs::{CWD, Mode, OFlags, openat},
    io::Errno,
};
use std::{any::Any, os::fd::AsRawFd, sync::Arc, time::Duration};
use vfs::{LocalLock, LockKind, LockOutcome, OFFSET_MAX, RangeLocks, VfsError, VfsResult};

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
    /// `None` where no call hangs, and where the locks are unknown.
    pub(crate) held: Option<ForeignLocks>,
}

impl LocalFile {
    /// Opens the file once more to lock ranges of it, past its name and with the server's rights.
    pub(crate) fn lockable(&self, kind: LockKind) -> VfsResult<Option<Box<dyn RangeLocks>>> {
        if leases::is_for_writing(&self.fd) {
            // Its one descriptor, which is open for both: another would break the lease.
            // Several values share its locks, and none has them all.
            let (fd, held) = (self.fd.clone(), None);
            return Ok(Some(Box::new(SharedDescription { fd, reads: true, writes: true, held })));
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
                    return Ok(Some(Box::new(SharedDescription::new(fd, *reads, *writes))));
                }
                Err(Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::TXTBSY) => {}
                Err(errno) => return Err(vfs_error(errno)),
            }
        }
        Ok(None)
    }
}

impl SharedDescription {
    /// Makes one that holds no locks yet.
    pub(crate) fn new(fd: Descriptor, reads: bool, writes: bool) -> Self {
        let held = fd.thread().is_some().then(ForeignLocks::default);
        Self { fd: Arc::new(fd), reads, writes, held }
    }

    /// Sets a lock in the kernel, or on the thread of a file system that may hang.
    fn change(&self, change: LockChange) -> VfsResult<Result<(), nix::Error>> {
        let fd = Arc::clone(&self.fd);
        let set = move |(first, last, kind)| match Self::words(first, last, number(kind)) {
            Some(words) => fcntl(&**fd, FcntlArg::F_OFD_SETLK(&words)).map(drop),
            None => Ok(()),
        };
        match (self.fd.thread(), &self.held) {
            (None, _) => Ok(set(change)),
            (Some(thread), None) => thread.run(PATIENCE, move || set(change)).ok_or(VfsError::Delay),
            (Some(thread), Some(held)) => held.set(thread, PATIENCE, change, set),
        }
    }

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
        // A file that cannot be locked for reading does not block programs that read.
        let kind = kind.filter(|kind| self.reads || *kind == LockKind::Write);
        if first > OFFSET_MAX {
            return Ok(LockOutcome::Done);
        }
        match self.change((first, last, kind))? {
            Ok(()) => Ok(LockOutcome::Done),
            Err(nix::Error::EAGAIN | nix::Error::EACCES) => Ok(LockOutcome::Conflict),
            // Of a file system on other machines: none of them manages locks, and waiting for them
            // would take for ever.
            Err(nix::Error::ENOLCK) if self.fd.thread().is_some() => Err(VfsError::Notsupp),
            Err(error) => Err(vfs_error(Errno::from_raw_os_error(error as i32))),
        }
    }

    fn find(&self, first: u64, last: u64, kind: LockKind) -> VfsResult<Option<LocalLock>> {
        let Some(mut words) = Self::words(first, last, number(Some(kind))) else { return Ok(None) };
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

/// Returns the kernel's number of a kind of lock.
fn number(kind: Option<LockKind>) -> libc::c_int {
    match kind {
        None => libc::F_UNLCK,
        Some(LockKind::Read) => libc::F_RDLCK,
        Some(LockKind::Write) => libc::F_WRLCK,
    }
}

#[cfg(test)]
mod tests {
    use super::SharedDescription;
    use crate::{LocalBackend, LocalOptions, descriptor::Descriptor};
    use foreign::ForeignThread;
    use nix::fcntl::{FcntlArg, fcntl};
    use std::fs::File;
    use std::sync::{Arc, mpsc};
    use std::time::Duration;
    use vfs::{Backend, Caller, LeaseKind, LockKind, LockOutcome, OpenAccess, RangeLocks, VfsError};

    /// Returns whether the kernel would let another description lock the first byte.
    fn is_free(file: &File) -> bool {
        let mut words = super::SharedDescription::words(0, 0, libc::F_WRLCK).unwrap();
        fcntl(file, FcntlArg::F_OFD_GETLK(&mut words)).unwrap();
        i32::from(words.l_type) == libc::F_UNLCK
    }

    #[test]
    fn locks_that_are_tried_again_while_a_file_system_hangs_queue_nothing()
    // RFC 8881 section 18.10.3
    {
        let file = tempfile::NamedTempFile::new().unwrap();
        let thread = Arc::new(ForeignThread::default());
        let locks =
            SharedDescription::new(Descriptor::new(file.reopen().unwrap().into(), Some(&thread)), true, true);
        let (read, write) = (Some(LockKind::Read), Some(LockKind::Write));
        assert_eq!(locks.set(0, 9, write), Ok(LockOutcome::Done));
        let (release, released) = mpsc::channel::<()>();
        thread.send(Box::new(move || released.recv().unwrap_or(())));
        // A queued call has the descriptor.
        let queued = || Arc::strong_count(&locks.fd) - 1;
        assert_eq!(locks.set(20, 20, write), Err(VfsError::Delay), "it waits in the queue");
        assert_eq!(locks.set(20, 20, None), Err(VfsError::Delay), "so it has to be undone");
        assert_eq!(queued(), 2);
        for byte in 10..1000 {
            assert_eq!(locks.set(2 * byte, 2 * byte, write), Err(VfsError::Delay));
            assert_eq!(
                locks.set(2 * byte, 2 * byte, None),
                Ok(LockOutcome::Done),
                "there is no lock to undo"
            );
        }
        assert_eq!((locks.set(0, 4, write), queued()), (Err(VfsError::Delay), 2));
        for _ in 0..100 {
            let _ = locks.set(5, 6, read);
            let _ = locks.set(0, 0, None);
        }
        assert_eq!(queued(), 2, "one call undoes them all");
        release.send(()).unwrap();
        let (say, said) = mpsc::channel();
        thread.send(Box::new(move || say.send(()).unwrap()));
        said.recv_timeout(Duration::from_secs(30)).unwrap();
        let is_free = |byte| {
            let other =
                SharedDescription::new(Descriptor::new(file.reopen().unwrap().into(), None), true, true);
            [read, write].map(|kind| other.set(byte, byte, kind) == Ok(LockOutcome::Done))
        };
        assert_eq!(
            [0, 1, 5, 7, 20].map(is_free),
            [[true; 2], [false; 2], [true, false], [false; 2], [true; 2]]
        );
        assert_eq!(locks.set(20, 20, write), Ok(LockOutcome::Done), "it hangs no more");
        assert_eq!(locks.set(0, u64::MAX, None), Ok(LockOutcome::Done));
        assert_eq!(is_free(20), [true; 2]);
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
