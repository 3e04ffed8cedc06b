//! The end of mounts: of one without owners, and of all of them at the end of a program.

use super::mount::MountCallbacks;
use super::{CephFs, CephMount, raw};
use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError, Weak};
use std::time::{Duration, Instant};

impl Drop for CephMount {
    /// Unmounts on a thread of its own: the last owner may be a callback of the library, which
    /// would wait for itself, or a thread that must not wait for the network.
    fn drop(&mut self) {
        self.requests.wake();
        let is_mounted = !*self.unmounted.get_mut().unwrap_or_else(PoisonError::into_inner);
        let ending = Ending { library: self.library, info: self.info, callbacks: self.callbacks, is_mounted };
        let session = self.session.clone();
        ENDINGS.begin();
        let end = move || {
            ending.run();
            drop(session);
            ENDINGS.end();
        };
        // Without a thread the mount and its session end with the process.
        if std::thread::Builder::new().name("unmount".into()).spawn(end).is_err() {
            std::mem::forget(self.session.clone());
            ENDINGS.end();
        }
    }
}

/// A mount without owners.
struct Ending {
    library: CephFs,
    info: NonNull<raw::MountInfo>,
    callbacks: NonNull<MountCallbacks>,
    is_mounted: bool,
}

// SAFETY: as for `CephMount`.
unsafe impl Send for Ending {}

impl Ending {
    fn run(self) {
        // SAFETY: all inodes, files and streams own the mount, so none is left. The mount is
        // released once, and the callbacks after its threads have ended.
        unsafe {
            if self.is_mounted {
                (self.library.0.ceph_unmount)(self.info.as_ptr());
            }
            (self.library.0.ceph_release)(self.info.as_ptr());
            drop(Box::from_raw(self.callbacks.as_ptr()));
        }
    }
}

/// The mounts that have owners, and some that have none any more.
static LIVE: Mutex<Vec<Weak<CephMount>>> = Mutex::new(Vec::new());

/// Unmounts everything, though it has owners, whose calls fail from now on. Data is written back,
/// and the metadata servers end the sessions, so that others need not wait for them. Returns
/// whether all of it ended in time. For the end of a program.
pub fn unmount_all(within: Duration) -> bool {
    let until = Instant::now() + within;
    let live = std::mem::take(&mut *LIVE.lock().unwrap_or_else(PoisonError::into_inner));
    let mounts: Vec<Arc<CephMount>> = live.iter().filter_map(Weak::upgrade).collect();
    // At once: one cluster may hang.
    for mount in mounts {
        ENDINGS.begin();
        let end = move || {
            if mount.unmount(until) {
                ENDINGS.end();
            }
        };
        let _ = std::thread::Builder::new().name("unmount".into()).spawn(end);
    }
    wait_for_unmounts(until.saturating_duration_since(Instant::now()))
}

/// How long mounts may take to end when the process exits.
const EXIT_TIME_MAX: Duration = Duration::from_secs(5);
/// The exit status of a process whose mounts did not end in time.
const HUNG_STATUS: i32 = 70;

/// Ends the mount before destructors run, which the library's threads would not survive, when the
/// process ends by exit(3). Some belong to OpenSSL, which registers them when the first mount
/// uses it, and the last to be registered runs first: so this comes after a mount.
pub(super) fn end_with_process(mount: &Arc<CephMount>) {
    let mut live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
    live.retain(|mount| mount.strong_count() > 0);
    live.push(Arc::downgrade(mount));
    drop(live);
    extern "C" fn end() {
        if !unmount_all(EXIT_TIME_MAX) {
            // SAFETY: it ends the process without the destructors.
            unsafe { libc::_exit(HUNG_STATUS) };
        }
    }
    static REGISTERED: Once = Once::new();
    // SAFETY: the function is there for the process' life. If there is no memory to register it,
    // the process may end by a signal instead.
    REGISTERED.call_once(|| _ = unsafe { libc::atexit(end) });
}

/// The number of mounts that are ending.
struct Endings {
    count: Mutex<usize>,
    changed: Condvar,
}

static ENDINGS: Endings = Endings { count: Mutex::new(0), changed: Condvar::new() };

impl Endings {
    fn count(&self) -> MutexGuard<'_, usize> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) {
        *self.count() += 1;
    }

    fn end(&self) {
        let mut count = self.count();
        *count = count.saturating_sub(1);
        self.changed.notify_all();
    }
}

/// Waits until all mounts without owners have written back their data and ended; returns whether
/// they have in time.
pub fn wait_for_unmounts(within: Duration) -> bool {
    let waited = ENDINGS.changed.wait_timeout_while(ENDINGS.count(), within, |count| *count > 0);
    *waited.unwrap_or_else(PoisonError::into_inner).0 == 0
}
