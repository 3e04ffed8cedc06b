//! A mounted file system.

use super::connecting::{CreatedMount, MountError, MountOptions, c_string, refuse};
use super::requests::{self, Requests};
use super::{CephFs, CephInode, raw, unmounting};
use crate::CephErrno;
use crate::errno::done;
use std::ffi::c_void;
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

/// Called with the inode and snapshot numbers of an object that a metadata server wants this client
/// to give up, on a thread of the library. It may drop a [`CephInode`], but must not wait.
pub type ReleaseRequest = Box<dyn Fn(u64, u64) + Send + Sync>;

/// The features that this library and cluster lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingFeatures {
    /// Reads and writes that return before they are done.
    pub nonblocking: bool,
}

/// Callbacks of a mount, at an address that the library keeps.
pub(super) struct MountCallbacks {
    release: ReleaseRequest,
}

/// The session of a mount, which lasts until the mount has no owner any more and was unmounted.
#[derive(Clone, Debug)]
pub struct CephSession(Weak<()>);

impl CephSession {
    /// Returns whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.0.strong_count() == 0
    }
}

/// A mounted file system; dropping the last owner unmounts it, which writes back its data.
pub struct CephMount {
    pub(super) library: CephFs,
    pub(super) info: NonNull<raw::MountInfo>,
    /// Whether it was unmounted, and the library has freed its inodes and files. Calls hold the
    /// lock for reading.
    pub(super) unmounted: RwLock<bool>,
    /// Whether new calls are refused, since it is about to be unmounted.
    closing: AtomicBool,
    /// The id of the file system in its cluster.
    fscid: i64,
    deleg_timeout: AtomicU32,
    pub(super) requests: Arc<Requests>,
    /// Freed after the library is done with it.
    pub(super) callbacks: NonNull<MountCallbacks>,
    /// Dropped when the metadata servers have ended the session.
    pub(super) session: Arc<()>,
}

// SAFETY: the library takes its own locks in every call that gets this pointer.
unsafe impl Send for CephMount {}
// SAFETY: as above.
unsafe impl Sync for CephMount {}

impl fmt::Debug for CephMount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CephMount").field("fscid", &self.fscid).finish_non_exhaustive()
    }
}

impl CephMount {
    /// Mounts a file system. `release` hears from the metadata servers.
    ///
    /// # Errors
    /// See [`MountError`]; each names the remedy. A cluster that does not answer is waited for as
    /// long as `client_mount_timeout` says.
    pub fn open(
        library: CephFs,
        options: &MountOptions,
        release: ReleaseRequest,
    ) -> Result<Arc<Self>, MountError> {
        let user = c_string(&options.user)?;
        let created = CreatedMount::new(library, &user)?;
        let functions = library.0;
        let info = created.info.as_ptr();
        created.configure(options)?;
        created.initialise(options)?;
        let callbacks = NonNull::from(Box::leak(Box::new(MountCallbacks { release })));
        let mut arguments = raw::CallbackArgs {
            handle: callbacks.as_ptr().cast(),
            ino_cb: None,
            dentry_cb: None,
            switch_intr_cb: None,
            remount_cb: None,
            // The library's own would read the mount from this handle.
            umask_cb: Some(no_umask),
            ino_release_cb: Some(release_inode),
        };
        let path = c_string(&options.path)?;
        // SAFETY: the callbacks live until after the unmount, and the library copies the arguments.
        let mounted = unsafe {
            (functions.ceph_ll_register_callbacks)(info, &mut arguments);
            (functions.ceph_mount)(info, path.as_ptr())
        };
        if let Err(error) = done(mounted).map_err(|reason| refuse(&created, options, reason)) {
            drop(created);
            // SAFETY: the mount is released, so its threads have ended.
            drop(unsafe { Box::from_raw(callbacks.as_ptr()) });
            return Err(error);
        }
        // SAFETY: it is mounted.
        let fscid = unsafe { (functions.ceph_get_fs_cid)(info) };
        let info = created.info;
        std::mem::forget(created);
        let mount = Arc::new(Self {
            library,
            info,
            unmounted: RwLock::new(false),
            closing: AtomicBool::new(false),
            fscid,
            deleg_timeout: AtomicU32::new(0),
            requests: Arc::new(Requests::new(Instant::now())),
            callbacks,
            session: Arc::default(),
        });
        // Without the thread, requests are slower at times.
        let _ = requests::hurry(&mount);
        unmounting::end_with_process(&mount);
        Ok(mount)
    }

    /// Watches the session with the metadata servers.
    pub fn session(&self) -> CephSession {
        CephSession(Arc::downgrade(&self.session))
    }

    /// Runs a call of the library while the mount cannot end.
    ///
    /// # Errors
    /// `ENOTCONN` after [`unmount_all`] has begun.
    pub(super) fn call<R>(
        &self,
        call: impl FnOnce(&'static raw::Functions, *mut raw::MountInfo) -> R,
    ) -> Result<R, CephErrno> {
        if self.closing.load(Relaxed) {
            return Err(CephErrno::new(libc::ENOTCONN));
        }
        self.release(call).ok_or(CephErrno::new(libc::ENOTCONN))
    }

    /// As [`CephMount::call`], for giving something back; `None` if the library has freed it
    /// already.
    pub(super) fn release<R>(
        &self,
        call: impl FnOnce(&'static raw::Functions, *mut raw::MountInfo) -> R,
    ) -> Option<R> {
        let unmounted = self.unmounted.read().unwrap_or_else(PoisonError::into_inner);
        (!*unmounted).then(|| call(self.library.0, self.info.as_ptr()))
    }

    /// Unmounts while there are owners, whose calls fail from now on. Gives up on calls that do not
    /// return in time.
    pub(super) fn unmount(&self, until: Instant) -> bool {
        self.closing.store(true, Relaxed);
        loop {
            if let Ok(mut unmounted) = self.unmounted.try_write() {
                if !std::mem::replace(&mut *unmounted, true) {
                    // SAFETY: it is mounted, no call runs, and none will.
                    unsafe { (self.library.0.ceph_unmount)(self.info.as_ptr()) };
                }
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Returns the loaded library.
    pub fn library(&self) -> CephFs {
        self.library
    }

    /// Returns the address of this client, as commands of `ceph osd blocklist` take it.
    ///
    /// # Errors
    /// The library's, when the mount has ended.
    pub fn address(&self) -> Result<String, CephErrno> {
        let mut text = ptr::null_mut();
        // SAFETY: it is mounted; on success the pointer is a string that the caller frees.
        done(self.call(|library, info| unsafe { (library.ceph_getaddrs)(info, &mut text) })?)?;
        // SAFETY: as above.
        Ok(unsafe { crate::address::take(text) })
    }

    /// Returns the id of the file system in its cluster.
    pub fn file_system_id(&self) -> i64 {
        self.fscid
    }

    /// Writes all data back, and has the metadata servers write their journals.
    ///
    /// # Errors
    /// The error of a write that failed.
    pub(super) fn sync(&self) -> Result<(), CephErrno> {
        // SAFETY: it is mounted.
        done(self.call(|library, info| unsafe { (library.ceph_sync_fs)(info) })?)
    }

    /// Returns what this library lacks.
    pub fn missing(&self) -> MissingFeatures {
        MissingFeatures { nonblocking: self.library.0.ceph_ll_nonblocking_readv_writev.is_none() }
    }

    /// Returns the root of the mount.
    ///
    /// # Errors
    /// The library's, when the mount has ended.
    pub fn root(self: &Arc<Self>) -> Result<CephInode, CephErrno> {
        let mut inode = ptr::null_mut();
        // SAFETY: on success the pointer is set and its reference is ours.
        done(self.call(|library, info| unsafe { (library.ceph_ll_lookup_root)(info, &mut inode) })?)?;
        CephInode::new(self, inode)
    }

    /// Finds an object by its numbers.
    ///
    /// # Errors
    /// `ESTALE` or `ENOENT` for one that does not exist.
    pub fn find(self: &Arc<Self>, ino: u64, snapshot: u64) -> Result<CephInode, CephErrno> {
        let _request = self.requests.begin(Instant::now());
        let mut inode = ptr::null_mut();
        let vinode = raw::Vinode { ino, snapid: snapshot };
        // SAFETY: on success the pointer is set and its reference is ours.
        done(self.call(|library, info| unsafe { (library.ceph_ll_lookup_vino)(info, vinode, &mut inode) })?)?;
        CephInode::new(self, inode)
    }

    /// Allows delegations that are returned within a time after their recall. A delegation that is
    /// not ends the whole mount. Returns the time, which the cluster may limit.
    ///
    /// # Errors
    /// `EINVAL` if the cluster allows no such time.
    pub fn allow_delegations(&self, within: Duration) -> Result<Duration, CephErrno> {
        // SAFETY: it is mounted.
        let longest = self.call(|library, info| unsafe { (library.ceph_get_cap_return_timeout)(info) })?;
        let wanted = u32::try_from(within.as_secs()).unwrap_or(u32::MAX);
        let seconds = wanted.min(longest.saturating_sub(1));
        // SAFETY: as above.
        done(self.call(|library, info| unsafe { (library.ceph_set_deleg_timeout)(info, seconds) })?)?;
        self.deleg_timeout.store(seconds, Relaxed);
        Ok(Duration::from_secs(seconds.into()))
    }

    /// Returns the time within which a recalled delegation must be returned.
    pub fn delegation_timeout(&self) -> Duration {
        Duration::from_secs(self.deleg_timeout.load(Relaxed).into())
    }
}

unsafe extern "C" fn release_inode(handle: *mut c_void, vinode: raw::Vinode) {
    // SAFETY: the handle is that of `CephMount::open`, which outlives the mount's threads.
    let callbacks = unsafe { &*handle.cast::<MountCallbacks>() };
    (callbacks.release)(vinode.ino, vinode.snapid);
}

/// Objects get the mode that their creator asks for.
unsafe extern "C" fn no_umask(_: *mut c_void) -> libc::mode_t {
    0
}
