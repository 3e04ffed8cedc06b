//! Leases of the kernel (fcntl F_SETLEASE): local programs that open a file against a delegation
//! wait until the client returns it.
//!
//! One thread of the process handles them: the kernel sends it a signal that names the descriptor.
//! The kernel does not break leases for unlink, rename, link and chmod; the same thread detects
//! these by checking leased files every few seconds.

use crate::{
    attributes::stat_fd,
    descriptor::Descriptor,
    errno::vfs_error,
    sys_leases::{self, Heard, Kind},
};
use minicbor::{Decode, Encode};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::Statx,
    io::Errno,
};

use std::{
    any::Any,
    collections::HashMap,
    os::fd::{AsFd, AsRawFd, OwnedFd, RawFd},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
        mpsc,
    },
    time::{Duration, Instant},
};
use vfs::{Broken, Lease, LeaseKind, OutboundFds, VfsError, VfsResult};

/// How often leased files are checked for changes that break no lease.
const LOOK_INTERVAL: Duration = Duration::from_secs(3);
/// How long the kernel lets a program wait, where it does not say.
const BREAK_TIME: Duration = Duration::from_secs(45);

/// The lease thread's state. The process has one for all backends, because signals go to the
/// process.
struct LeaseWatch {
    thread: libc::pid_t,
    table: Mutex<LeaseTable>,
}

/// The number of write leases; lookups of writers are skipped while it is zero.
static WRITERS: AtomicUsize = AtomicUsize::new(0);

#[derive(Default)]
struct LeaseTable {
    last: u64,
    leases: HashMap<RawFd, HeldLease>,
    /// Write leases by file: the kernel grants one only to the sole opener of a file.
    writers: HashMap<FileId, RawFd>,
}

/// Device, as major and minor number, and inode.
type FileId = (u32, u32, u64);

fn file_id(stat: &Statx) -> FileId {
    (stat.stx_dev_major, stat.stx_dev_minor, stat.stx_ino)
}

impl LeaseTable {
    fn insert(&mut self, held: HeldLease) {
        let fd = held.fd.as_raw_fd();
        if held.kind == Kind::Write {
            self.writers.insert(held.seen.file, fd);
            WRITERS.fetch_add(1, Relaxed);
        }
        self.leases.insert(fd, held);
    }

    fn remove(&mut self, fd: RawFd) -> Option<HeldLease> {
        let held = self.leases.remove(&fd)?;
        if held.kind == Kind::Write {
            WRITERS.fetch_sub(1, Relaxed);
            // When this one was broken, another may have the file by now.
            if self.writers.get(&held.seen.file) == Some(&fd) {
                self.writers.remove(&held.seen.file);
            }
        }
        Some(held)
    }
}

struct HeldLease {
    id: u64,
    fd: Arc<Descriptor>,
    kind: Kind,
    seen: WatchedAttributes,
    broken: Arc<AtomicBool>,
    notify: Broken,
}

/// The attributes that must not change while a lease lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WatchedAttributes {
    file: FileId,
    /// Not for writing: the holder moves it by itself.
    ctime: Option<(i64, u32)>,
    nlink: u32,
    owner: (u32, u32),
    mode: u16,
}

impl WatchedAttributes {
    fn of(stat: &Statx, kind: Kind) -> Self {
        let ctime = (stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec);
        Self {
            file: file_id(stat),
            ctime: (kind == Kind::Read).then_some(ctime),
            nlink: stat.stx_nlink,
            owner: (stat.stx_uid, stat.stx_gid),
            mode: stat.stx_mode,
        }
    }
}

/// A lease that is given up when it is dropped.
#[derive(Debug)]
pub(crate) struct LocalLease {
    fd: Arc<Descriptor>,
    broken: Arc<AtomicBool>,
}

/// Whether another process still has the leases: then this one must not give them up.
static LEFT_ALONE: AtomicBool = AtomicBool::new(false);

/// A lease in an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct LeaseImage {
    /// The number of the descriptor.
    #[n(0)]
    fd: u32,
    #[n(1)]
    write: bool,
    #[n(2)]
    broken: bool,
    /// Major and minor number of the device, and the inode.
    #[n(3)]
    file: FileId,
    #[n(4)]
    ctime: Option<(i64, u32)>,
    #[n(5)]
    nlink: u32,
    #[n(6)]
    owner: (u32, u32),
    #[n(7)]
    mode: u16,
}

impl LocalLease {
    /// Makes an image of the lease, for [`inherit`]; `None` for one that is gone.
    pub(crate) fn image(&self, fds: &mut OutboundFds) -> Option<LeaseImage> {
        let Self { fd, broken } = self;
        let table = watch()?.table();
        let HeldLease { id: _, fd: _, kind, seen, broken: _, notify: _ } =
            table.leases.get(&fd.as_raw_fd())?;
        let WatchedAttributes { file, ctime, nlink, owner, mode } = *seen;
        Some(LeaseImage {
            fd: fds.add(Arc::clone(fd) as _),
            write: *kind == Kind::Write,
            broken: broken.load(Relaxed),
            file,
            ctime,
            nlink,
            owner,
            mode,
        })
    }
}

/// Makes a lease of an image that the previous process has made. The kernel's lease belongs to the
/// open file description, so it is there; until [`take_over_leases`] it is left alone.
pub(crate) fn inherit(
    image: &LeaseImage,
    adopt: impl FnOnce(u32) -> Option<Arc<Descriptor>>,
    notify: Broken,
) -> VfsResult<Arc<dyn Lease>> {
    let LeaseImage { fd, write, broken, file, ctime, nlink, owner, mode } = *image;
    let fd = adopt(fd).ok_or(VfsError::Inval)?;
    let watch = watch().ok_or(VfsError::Delay)?;
    let kind = if write { Kind::Write } else { Kind::Read };
    let broken = Arc::new(AtomicBool::new(broken));
    let mut table = watch.table();
    if table.leases.contains_key(&fd.as_raw_fd()) {
        return Err(VfsError::Inval);
    }
    table.last += 1;
    let seen = WatchedAttributes { file, ctime, nlink, owner, mode };
    let held = HeldLease { id: table.last, fd: fd.clone(), kind, seen, broken: broken.clone(), notify };
    table.insert(held);
    Ok(Arc::new(LocalLease { fd, broken }))
}

/// Makes this process leave all leases alone, until [`take_over_leases`]: the previous process may
/// still use them.
pub fn leave_leases_alone() {
    LEFT_ALONE.store(true, Relaxed);
}

/// Takes over the leases that were inherited. A lease that was broken since the previous process
/// looked last is reported.
pub fn take_over_leases() {
    LEFT_ALONE.store(false, Relaxed);
    let Some(watch) = watch() else { return };
    let stands = |held: &HeldLease| sys_leases::stands(held.fd.as_fd(), held.kind);
    let take = |held: &HeldLease| {
        sys_leases::direct_signals(held.fd.as_fd(), watch.thread)?;
        // The signal carries the number that the descriptor had when the lease was taken: so it
        // has this process's number from now on.
        if stands(held) { sys_leases::set(held.fd.as_fd(), held.kind) } else { Ok(()) }
    };
    let table = watch.table();
    let mut told = Vec::new();
    for held in table.leases.values().filter(|held| !held.broken.load(Relaxed)) {
        let taken = take(held);
        if taken.is_err() || !stands(held) {
            held.broken.store(true, Relaxed);
            told.push(held.notify.clone());
        }
    }
    drop(table);
    told.iter().for_each(|notify| notify(break_time()));
}

impl Lease for LocalLease {
    fn is_broken(&self) -> bool {
        self.broken.load(Relaxed)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

/// How long a program waits for a lease to be given up.
fn break_time() -> Duration {
    let text = std::fs::read_to_string("/proc/sys/fs/lease-break-time").unwrap_or_default();
    text.trim().parse().map_or(BREAK_TIME, Duration::from_secs)
}

impl Drop for LocalLease {
    fn drop(&mut self) {
        let Some(watch) = watch() else { return };
        let mut table = watch.table();
        if !LEFT_ALONE.load(Relaxed) {
            let _ = sys_leases::set(self.fd.as_fd(), Kind::None);
        }
        let gone = table.remove(self.fd.as_raw_fd());
        drop(table);
        drop(gone);
    }
}

impl LeaseWatch {
    fn table(&self) -> MutexGuard<'_, LeaseTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells of leases that do not stand any more: that of a descriptor, or any.
    fn tell(&self, heard: Heard) {
        // A signal may be of a descriptor that has become another file's since: the kernel knows.
        let broken =
            |held: &&HeldLease| !held.broken.load(Relaxed) && !sys_leases::stands(held.fd.as_fd(), held.kind);
        let note = |held: &HeldLease| {
            held.broken.store(true, Relaxed);
            held.notify.clone()
        };
        let table = self.table();
        let told: Vec<Broken> = match heard {
            Heard::Lease(fd) => table.leases.get(&fd).into_iter().filter(broken).map(note).collect(),
            Heard::Overflow => table.leases.values().filter(broken).map(note).collect(),
        };
        drop(table);
        told.iter().for_each(|notify| notify(break_time()));
    }

    /// Tells of files that were changed in ways of which the kernel says nothing.
    fn look(&self) {
        let copy = |(fd, held): (&RawFd, &HeldLease)| (*fd, held.id, held.fd.clone(), held.kind, held.seen);
        let all: Vec<_> = self.table().leases.iter().map(copy).collect();
        for (fd, id, file, kind, seen) in all {
            if stat_fd(&file).is_ok_and(|stat| WatchedAttributes::of(&stat, kind) == seen) {
                continue;
            }
            let find = |table: MutexGuard<'_, LeaseTable>| {
                let held = table.leases.get(&fd).filter(|held| held.id == id)?;
                (!held.broken.swap(true, Relaxed)).then(|| held.notify.clone())
            };
            let notify = find(self.table());
            if let Some(notify) = notify {
                notify(break_time());
            }
        }
    }

    /// The thread's loop; it runs as long as the process.
    fn run(&self, signals: &OwnedFd) {
        let mut next = Instant::now() + LOOK_INTERVAL;
        loop {
            let wait = next.saturating_duration_since(Instant::now());
            let wait = Timespec { tv_sec: wait.as_secs().cast_signed(), tv_nsec: wait.subsec_nanos().into() };
            let _ = poll(&mut [PollFd::new(signals, PollFlags::IN)], Some(&wait));
            while let Some(heard) = sys_leases::hear(signals.as_fd()) {
                self.tell(heard);
            }
            if Instant::now() >= next {
                self.look();
                next = Instant::now() + LOOK_INTERVAL;
            }
        }
    }
}

/// Returns the watch, which begins with the first lease; `None` where the system gives no thread.
fn watch() -> Option<&'static LeaseWatch> {
    static WATCH: OnceLock<Option<LeaseWatch>> = OnceLock::new();
    let start = || {
        let (say, hear) = mpsc::channel();
        let run = move || {
            let Ok(signals) = sys_leases::block_and_read() else { return };
            if say.send(sys_leases::this_thread()).is_ok()
                && let Some(Some(watch)) = wait_for(&WATCH)
            {
                watch.run(&signals);
            }
        };
        std::thread::Builder::new().name("leases".into()).spawn(run).ok()?;
        Some(LeaseWatch { thread: hear.recv().ok()?, table: Mutex::default() })
    };
    WATCH.get_or_init(start).as_ref()
}

/// Waits until another thread has initialised the cell.
fn wait_for<T>(cell: &OnceLock<T>) -> Option<&T> {
    loop {
        match cell.get() {
            None => std::thread::sleep(Duration::from_millis(1)),
            some => return some,
        }
    }
}

/// Takes a lease on an open file.
///
/// # Errors
/// `Delay` when somebody has the file open against it, `Access` where this process may not, `Inval`
/// where the file system has none.
pub(crate) fn take(fd: &Arc<Descriptor>, kind: LeaseKind, notify: Broken) -> VfsResult<Arc<dyn Lease>> {
    let watch = watch().ok_or(VfsError::Delay)?;
    let kind = match kind {
        LeaseKind::Read => Kind::Read,
        LeaseKind::Write => Kind::Write,
    };
    let stat = stat_fd(&**fd).map_err(vfs_error)?;
    let mut table = watch.table();
    // A descriptor has one lease, and its holder must return it first.
    if table.leases.contains_key(&fd.as_raw_fd()) {
        return Err(VfsError::Delay);
    }
    let take = |kind| {
        sys_leases::direct_signals(fd.as_fd(), watch.thread)?;
        sys_leases::set(fd.as_fd(), kind)
    };
    take(kind).map_err(|errno: Errno| vfs_error(errno))?;
    table.last += 1;
    let (id, broken) = (table.last, Arc::new(AtomicBool::new(false)));
    let seen = WatchedAttributes::of(&stat, kind);
    let held = HeldLease { id, fd: fd.clone(), kind, seen, broken: broken.clone(), notify };
    table.insert(held);
    Ok(Arc::new(LocalLease { fd: fd.clone(), broken }))
}

/// Returns the one descriptor of a file with a lease for writing: to open it again would break
/// that.
pub(crate) fn writer_of(stat: &Statx) -> Option<Arc<Descriptor>> {
    if WRITERS.load(Relaxed) == 0 {
        return None;
    }
    let table = watch()?.table();
    let writer = table.writers.get(&file_id(stat)).and_then(|fd| table.leases.get(fd));
    writer.map(|held| held.fd.clone())
}

/// Returns whether a descriptor has a lease for writing.
pub(crate) fn is_for_writing(fd: &Descriptor) -> bool {
    WRITERS.load(Relaxed) > 0
        && watch().is_some_and(|watch| {
            let table = watch.table();
            table.leases.get(&fd.as_raw_fd()).is_some_and(|held| held.kind == Kind::Write)
        })
}

/// Returns whether this process may have leases of files that belong to others.
#[must_use]
pub fn can_lease_for_others() -> bool {
    use rustix::thread::{CapabilitySet, capabilities};
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::LEASE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_writer_of_a_file_is_found_among_others_until_its_lease_ends() {
        let folder = tempfile::tempdir().unwrap();
        let open = |name: &str| {
            let mut options = std::fs::File::options();
            let options = options.read(true).write(true).create_new(true);
            Arc::new(Descriptor::new(options.open(folder.path().join(name)).unwrap().into(), None))
        };
        let quiet: Broken = Arc::new(|_| ());
        let files = ["first", "second", "third"].map(open);
        let [first, second, third] = &files;
        let stat = |fd: &Arc<Descriptor>| stat_fd(&**fd).unwrap();
        let held = [first, second].map(|fd| take(fd, LeaseKind::Write, quiet.clone()));
        let [Ok(of_first), Ok(of_second)] = held else {
            return println!("skipped: no leases for writing on {}", folder.path().display());
        };
        let found = |fd| writer_of(&stat(fd)).map(|writer| writer.as_raw_fd());
        assert_eq!(
            [first, second, third].map(found),
            [Some(first.as_raw_fd()), Some(second.as_raw_fd()), None]
        );
        assert!(is_for_writing(first) && !is_for_writing(third));
        assert_eq!(
            take(first, LeaseKind::Write, quiet).err(),
            Some(VfsError::Delay),
            "a descriptor has one lease"
        );
        drop(of_first);
        assert_eq!([first, second].map(found), [None, Some(second.as_raw_fd())]);
        drop(of_second);
        assert_eq!(found(second), None);
    }
}
