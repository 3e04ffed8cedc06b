//! Watches: an object whose changes others announce.

use super::RadosPool;
use crate::CephErrno;
use crate::errno::done;
use libc::{c_int, c_void, size_t};
use std::ffi::{CStr, CString};
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Seconds for which the cluster keeps the watch of a client that does not answer.
const WATCH_TIMEOUT: u32 = 30;

/// A watch, at an address that the library keeps.
struct WatchedObject {
    pool: Arc<RadosPool>,
    object: CString,
    notified: Box<dyn Fn() + Send + Sync>,
    is_lost: AtomicBool,
}

/// A watched object; dropping it ends the watch.
pub struct ObjectWatch {
    watched: NonNull<WatchedObject>,
    cookie: u64,
}

// SAFETY: all fields of `WatchedObject` are Send and Sync, and it is freed once.
unsafe impl Send for ObjectWatch {}
// SAFETY: as above.
unsafe impl Sync for ObjectWatch {}

impl fmt::Debug for ObjectWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectWatch").field("cookie", &self.cookie).finish_non_exhaustive()
    }
}

impl ObjectWatch {
    pub(super) fn begin(
        pool: &Arc<RadosPool>,
        object: &CString,
        notified: Box<dyn Fn() + Send + Sync>,
    ) -> Result<Self, CephErrno> {
        let (functions, context) = pool.parts();
        let is_lost = AtomicBool::new(false);
        let watched = WatchedObject { pool: Arc::clone(pool), object: object.clone(), notified, is_lost };
        let watched = NonNull::from(Box::leak(Box::new(watched)));
        let mut cookie = 0;
        // SAFETY: the argument lives until after the end of the watch.
        let began = unsafe {
            (functions.rados_watch3)(
                context,
                object.as_ptr(),
                &mut cookie,
                notified_of,
                Some(lost),
                WATCH_TIMEOUT,
                watched.as_ptr().cast(),
            )
        };
        match done(began) {
            Ok(()) => Ok(Self { watched, cookie }),
            Err(error) => {
                // SAFETY: the library has no watch that could use it.
                drop(unsafe { Box::from_raw(watched.as_ptr()) });
                Err(error)
            }
        }
    }

    /// Returns whether the watch was lost, so that another has to begin.
    pub fn is_lost(&self) -> bool {
        // SAFETY: it is freed by `drop` only.
        unsafe { self.watched.as_ref() }.is_lost.load(Relaxed)
    }
}

impl Drop for ObjectWatch {
    fn drop(&mut self) {
        // SAFETY: after both calls no callback runs, and the value is freed once.
        unsafe {
            let pool = Arc::clone(&self.watched.as_ref().pool);
            let (functions, context) = pool.parts();
            (functions.rados_unwatch2)(context, self.cookie);
            (functions.rados_watch_flush)(pool.cluster().handle);
            drop(Box::from_raw(self.watched.as_ptr()));
        }
    }
}

unsafe extern "C" fn notified_of(
    argument: *mut c_void,
    notify: u64,
    cookie: u64,
    _: u64,
    _: *mut c_void,
    _: size_t,
) {
    // SAFETY: the argument is that of `begin`, which outlives the watch.
    let watched = unsafe { &*argument.cast::<WatchedObject>() };
    let (functions, context) = watched.pool.parts();
    let object: &CStr = &watched.object;
    // SAFETY: the string lives through the call.
    unsafe { (functions.rados_notify_ack)(context, object.as_ptr(), notify, cookie, ptr::null(), 0) };
    (watched.notified)();
}

unsafe extern "C" fn lost(argument: *mut c_void, _: u64, _: c_int) {
    // SAFETY: as in `notified_of`.
    let watched = unsafe { &*argument.cast::<WatchedObject>() };
    watched.is_lost.store(true, Relaxed);
    (watched.notified)();
}
