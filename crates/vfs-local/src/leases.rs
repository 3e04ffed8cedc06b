//! Leases of the kernel (fcntl F_SETLEASE): local programs that open a file against a delegation wait until it is given back.
//!
//! One thread of the process hears of it: the kernel sends it a signal that names the descriptor. What the kernel does not
//! tell a lease of (unlink, rename, link, chmod) the same thread sees when it looks at the leased files every few seconds.

use crate::{
    attributes::stat_fd,
    errno::vfs_error,
    sys_leases::{self, Heard, Kind},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::Statx,
    io::Errno,
};
use std::{
    collections::HashMap,
    os::fd::{AsFd, AsRawFd, OwnedFd, RawFd},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
        mpsc,
    },
    time::{Duration, Instant},
};
use vfs::{Broken, Lease, VfsError, VfsResult};

/// How often leased files are looked at for what the kernel does not tell.
const LOOK_INTERVAL: Duration = Duration::from_secs(3);
/// How long the kernel lets a program wait, where it does not say.
const BREAK_TIME: Duration = Duration::from_secs(45);

/// What the process watches for; there is one for all backends, as signals are of the process.
struct Watch {
    thread: libc::pid_t,
    table: Mutex<Table>,
}

/// Leases for writing: while there are none nobody has to look for one.
static WRITERS: AtomicUsize = AtomicUsize::new(0);

#[derive(Default)]
struct Table {
    last: u64,
    leases: HashMap<RawFd, Held>,
}

struct Held {
    id: u64,
    fd: Arc<OwnedFd>,
    kind: Kind,
    seen: Seen,
    broken: Arc<AtomicBool>,
    notify: Broken,
}

/// What must stay as it is while a lease lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    /// Device and inode.
    file: (u32, u32, u64),
    /// Not for writing: the holder moves it by itself.
    ctime: Option<(i64, u32)>,
    nlink: u32,
    owner: (u32, u32),
    mode: u16,
}

impl Seen {
    fn of(stat: &Statx, kind: Kind) -> Self {
        let ctime = (stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec);
        Self {
            file: (stat.stx_dev_major, stat.stx_dev_minor, stat.stx_ino),
            ctime: (kind == Kind::Read).then_some(ctime),
            nlink: stat.stx_nlink,
            owner: (stat.stx_uid, stat.stx_gid),
            mode: stat.stx_mode,
        }
    }
}

/// A lease that is given up when it is dropped.
#[derive(Debug)]
struct LocalLease {
    fd: Arc<OwnedFd>,
    kind: Kind,
    broken: Arc<AtomicBool>,
}

impl Lease for LocalLease {
    fn is_broken(&self) -> bool {
        self.broken.load(Relaxed)
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
        let _ = sys_leases::set(self.fd.as_fd(), Kind::None);
        let gone = table.leases.remove(&self.fd.as_raw_fd());
        if self.kind == Kind::Write {
            WRITERS.fetch_sub(1, Relaxed);
        }
        drop(table);
        drop(gone);
    }
}

impl Watch {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells of the leases for which `which` says so.
    fn tell(&self, which: impl Fn(&Held) -> bool) {
        let mut told = Vec::new();
        for held in self.table().leases.values() {
            if !held.broken.load(Relaxed) && which(held) {
                held.broken.store(true, Relaxed);
                told.push(held.notify.clone());
            }
        }
        told.iter().for_each(|notify| notify(break_time()));
    }

    /// Tells of files that were changed in ways of which the kernel says nothing.
    fn look(&self) {
        let copy = |(fd, held): (&RawFd, &Held)| (*fd, held.id, held.fd.clone(), held.kind, held.seen);
        let all: Vec<_> = self.table().leases.iter().map(copy).collect();
        for (fd, id, file, kind, seen) in all {
            if stat_fd(&file).is_ok_and(|stat| Seen::of(&stat, kind) == seen) {
                continue;
            }
            let find = |table: MutexGuard<'_, Table>| {
                let held = table.leases.get(&fd).filter(|held| held.id == id)?;
                (!held.broken.swap(true, Relaxed)).then(|| held.notify.clone())
            };
            let notify = find(self.table());
            if let Some(notify) = notify {
                notify(break_time());
            }
        }
    }

    /// What the thread does for as long as the process lives.
    fn run(&self, signals: &OwnedFd) {
        let mut next = Instant::now() + LOOK_INTERVAL;
        loop {
            let wait = next.saturating_duration_since(Instant::now());
            let wait = Timespec { tv_sec: wait.as_secs().cast_signed(), tv_nsec: wait.subsec_nanos().into() };
            let _ = poll(&mut [PollFd::new(signals, PollFlags::IN)], Some(&wait));
            while let Some(heard) = sys_leases::hear(signals.as_fd()) {
                // A signal may be of a descriptor that has become another file's since: the kernel knows.
                self.tell(|held| match heard {
                    Heard::Lease(fd) if fd != held.fd.as_raw_fd() => false,
                    Heard::Lease(_) | Heard::Overflow => !sys_leases::stands(held.fd.as_fd(), held.kind),
                });
            }
            if Instant::now() >= next {
                self.look();
                next = Instant::now() + LOOK_INTERVAL;
            }
        }
    }
}

/// Returns the watch, which begins with the first lease; `None` where the system gives no thread.
fn watch() -> Option<&'static Watch> {
    static WATCH: OnceLock<Option<Watch>> = OnceLock::new();
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
        Some(Watch { thread: hear.recv().ok()?, table: Mutex::default() })
    };
    WATCH.get_or_init(start).as_ref()
}

/// Waits until whoever initialises it is done.
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
/// `Delay` when somebody has the file open against it, `Access` where this process may not, `Inval` where the file system
/// has none.
pub(crate) fn take(fd: &Arc<OwnedFd>, write: bool, notify: Broken) -> VfsResult<Arc<dyn Lease>> {
    let watch = watch().ok_or(VfsError::Delay)?;
    let kind = if write { Kind::Write } else { Kind::Read };
    let stat = stat_fd(&**fd).map_err(vfs_error)?;
    let mut table = watch.table();
    // A descriptor has one lease, and whoever has it gives it up.
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
    let seen = Seen::of(&stat, kind);
    let held = Held { id, fd: fd.clone(), kind, seen, broken: broken.clone(), notify };
    table.leases.insert(fd.as_raw_fd(), held);
    if write {
        WRITERS.fetch_add(1, Relaxed);
    }
    Ok(Arc::new(LocalLease { fd: fd.clone(), kind, broken }))
}

/// Returns the one descriptor of a file with a lease for writing: to open it again would break that.
pub(crate) fn writer_of(stat: &Statx) -> Option<Arc<OwnedFd>> {
    if WRITERS.load(Relaxed) == 0 {
        return None;
    }
    let file = (stat.stx_dev_major, stat.stx_dev_minor, stat.stx_ino);
    let table = watch()?.table();
    let mut writers = table.leases.values().filter(|held| held.kind == Kind::Write);
    writers.find(|held| held.seen.file == file).map(|held| held.fd.clone())
}

/// Says whether a descriptor has a lease for writing.
pub(crate) fn is_for_writing(fd: &OwnedFd) -> bool {
    WRITERS.load(Relaxed) > 0
        && watch().is_some_and(|watch| {
            let table = watch.table();
            table.leases.get(&fd.as_raw_fd()).is_some_and(|held| held.kind == Kind::Write)
        })
}

/// Says whether this process may have leases of files that belong to others.
#[must_use]
pub fn can_lease_for_others() -> bool {
    use rustix::thread::{CapabilitySet, capabilities};
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::LEASE))
}
