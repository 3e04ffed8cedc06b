//! A mounted file system.

use super::requests::{self, Requests};
use super::{CephFs, CephInode, raw};
use crate::CephErrno;
use crate::errno::done;
use std::ffi::{CStr, CString, c_char, c_void};
use std::fmt;
use std::path::PathBuf;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

/// Called with the inode and snapshot numbers of an object that a metadata server wants this client
/// to give up, on a thread of the library. It may drop a [`CephInode`], but must not wait.
pub type ReleaseRequest = Box<dyn Fn(u64, u64) + Send + Sync>;

/// Seconds for which the metadata servers keep the state of a client with an identity that does not
/// answer: another start has so long to reclaim it.
const SESSION_TIMEOUT: u32 = 300;
/// Bytes of a setting that are read; longer ones are cut.
const SETTING_MAX: usize = 4096;

/// The file system to mount, and how.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MountOptions {
    /// The configuration file of the cluster.
    pub configuration: PathBuf,
    /// The user's name without `client.`.
    pub user: String,
    /// The file with the user's key; `None`: as the configuration says.
    pub keyring: Option<PathBuf>,
    /// The name of the file system; `None`: the cluster's default.
    pub file_system: Option<String>,
    /// The directory that becomes the root, from the root of the file system.
    pub path: String,
    /// Settings of the library, which come before the configuration's.
    pub settings: Vec<(&'static str, String)>,
    /// Settings that the configuration file may change.
    pub defaults: Vec<(&'static str, String)>,
    /// The name of this client for the metadata servers. A predecessor of this name loses its
    /// state at once.
    pub identity: Option<String>,
}

/// The reason why a file system cannot be mounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The library has no memory for a mount, or a name is of no use to it.
    #[error("libcephfs cannot start: {0}")]
    Start(CephErrno),
    /// A value has a NUL.
    #[error("{0:?} has a NUL byte")]
    Nul(String),
    /// The configuration file cannot be read.
    #[error(
        "{path}: {reason}: name the cluster's configuration file with `ceph_conf` (it is usually /etc/ceph/ceph.conf)"
    )]
    Configuration {
        /// The file as it was named.
        path: PathBuf,
        /// The error of the library.
        reason: CephErrno,
    },
    /// A setting is unknown to the library, or has a wrong value.
    #[error("the library refuses {name} = {value:?}: {reason}")]
    Setting {
        /// The name of the setting.
        name: &'static str,
        /// The value that is refused.
        value: String,
        /// The error of the library.
        reason: CephErrno,
    },
    /// The cluster does not accept the user.
    #[error(
        "the cluster refuses client.{user}: {reason}: check that `ceph auth get client.{user}` shows the key in {keyring}, and rights to the path"
    )]
    Refused {
        /// The user's name without `client.`.
        user: String,
        /// The file of the key, as the library names it.
        keyring: String,
        /// The error of the library.
        reason: CephErrno,
    },
    /// The cluster, or its file system, does not answer.
    #[error(
        "the cluster of {configuration} does not answer: {reason}: check that its monitors are reachable from here and that `ceph fs status` shows an active metadata server"
    )]
    Unreachable {
        /// The configuration file of the cluster.
        configuration: PathBuf,
        /// The error of the library.
        reason: CephErrno,
    },
    /// There is no such file system or directory.
    #[error(
        "{what} cannot be mounted: {reason}: `ceph fs ls` lists the file systems; the path must exist in it"
    )]
    NotFound {
        /// File system and path.
        what: String,
        /// The error of the library.
        reason: CephErrno,
    },
    /// Another error of the mount.
    #[error("{what} cannot be mounted: {reason}")]
    Other {
        /// File system and path.
        what: String,
        /// The error of the library.
        reason: CephErrno,
    },
}

/// The features that this library and cluster lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingFeatures {
    /// Reads and writes that return before they are done.
    pub nonblocking: bool,
}

/// Callbacks of a mount, at an address that the library keeps.
struct MountCallbacks {
    release: ReleaseRequest,
}

/// A mounted file system; dropping the last owner unmounts it, which writes back its data.
pub struct CephMount {
    pub(super) library: CephFs,
    info: NonNull<raw::MountInfo>,
    /// Whether it was unmounted, and the library has freed its inodes and files. Calls hold the
    /// lock for reading.
    unmounted: RwLock<bool>,
    /// Whether new calls are refused, since it is about to be unmounted.
    closing: AtomicBool,
    /// The id of the file system in its cluster.
    fscid: i64,
    deleg_timeout: AtomicU32,
    pub(super) requests: Arc<Requests>,
    /// Freed after the library is done with it.
    callbacks: NonNull<MountCallbacks>,
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

/// A mount that is being made; dropping it releases it.
struct CreatedMount {
    library: CephFs,
    info: NonNull<raw::MountInfo>,
}

impl CreatedMount {
    fn new(library: CephFs, user: &CStr) -> Result<Self, MountError> {
        let mut info = ptr::null_mut();
        // SAFETY: on success the pointer is set.
        done(unsafe { (library.0.ceph_create)(&mut info, user.as_ptr()) }).map_err(MountError::Start)?;
        let info = NonNull::new(info).ok_or(MountError::Start(CephErrno::new(libc::ENOMEM)))?;
        Ok(Self { library, info })
    }

    fn set(&self, name: &'static str, value: &str) -> Result<(), MountError> {
        let (key, text) = (c_string(name)?, c_string(value)?);
        // SAFETY: both strings live through the call.
        let set = unsafe { (self.library.0.ceph_conf_set)(self.info.as_ptr(), key.as_ptr(), text.as_ptr()) };
        done(set).map_err(|reason| MountError::Setting { name, value: value.to_owned(), reason })
    }

    /// Reads the configuration.
    fn configure(&self, options: &MountOptions) -> Result<(), MountError> {
        let configuration = c_string(&options.configuration.to_string_lossy())?;
        let values = || options.defaults.iter().map(|(name, _)| self.get(name)).collect::<Vec<_>>();
        let built_in = values();
        // SAFETY: the string lives through the call.
        let read =
            unsafe { (self.library.0.ceph_conf_read_file)(self.info.as_ptr(), configuration.as_ptr()) };
        done(read)
            .map_err(|reason| MountError::Configuration { path: options.configuration.clone(), reason })?;
        if let Some(keyring) = &options.keyring {
            self.set("keyring", &keyring.to_string_lossy())?;
        }
        options.settings.iter().try_for_each(|(name, value)| self.set(name, value))?;
        // A value that is set comes before the file's, so set only those that the file leaves alone.
        for ((name, value), (before, after)) in options.defaults.iter().zip(built_in.iter().zip(values())) {
            if *before == after {
                self.set(name, value)?;
            }
        }
        Ok(())
    }

    /// Makes the mount ready.
    fn initialise(&self, options: &MountOptions) -> Result<(), MountError> {
        let (functions, info) = (self.library.0, self.info.as_ptr());
        let failed = |error: i32| done(error).map_err(|reason| refuse(self, options, reason));
        // SAFETY: the mount is not initialised yet.
        failed(unsafe { (functions.ceph_init)(info) })?;
        if let Some(name) = &options.file_system {
            let name = c_string(name)?;
            // SAFETY: the string lives through the call.
            failed(unsafe { (functions.ceph_select_filesystem)(info, name.as_ptr()) })?;
        }
        if let Some(identity) = &options.identity {
            reclaim(self, identity)?;
        }
        Ok(())
    }

    fn get(&self, name: &str) -> String {
        let Ok(name) = CString::new(name) else { return String::new() };
        let mut value = vec![0_u8; SETTING_MAX];
        // SAFETY: the library writes a string of at most this length.
        let got = unsafe {
            let at = value.as_mut_ptr().cast::<c_char>();
            (self.library.0.ceph_conf_get)(self.info.as_ptr(), name.as_ptr(), at, value.len())
        };
        let text = CStr::from_bytes_until_nul(&value).ok().filter(|_| got >= 0);
        text.map_or(String::new(), |text| text.to_string_lossy().into_owned())
    }
}

impl Drop for CreatedMount {
    fn drop(&mut self) {
        // SAFETY: the mount came from the library, is not mounted, and is released once.
        unsafe { (self.library.0.ceph_release)(self.info.as_ptr()) };
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
        });
        // Without the thread, requests are slower at times.
        let _ = requests::hurry(&mount);
        let mut live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
        live.retain(|mount| mount.strong_count() > 0);
        live.push(Arc::downgrade(&mount));
        drop(live);
        end_with_process();
        Ok(mount)
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
    fn unmount(&self, until: Instant) -> bool {
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

impl Drop for CephMount {
    /// Unmounts on a thread of its own: the last owner may be a callback of the library, which
    /// would wait for itself, or a thread that must not wait for the network.
    fn drop(&mut self) {
        self.requests.wake();
        let is_mounted = !*self.unmounted.get_mut().unwrap_or_else(PoisonError::into_inner);
        let ending = Ending { library: self.library, info: self.info, callbacks: self.callbacks, is_mounted };
        ENDINGS.begin();
        let end = move || {
            ending.run();
            ENDINGS.end();
        };
        // Without a thread the mount ends with the process.
        if std::thread::Builder::new().name("unmount".into()).spawn(end).is_err() {
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

/// Has exit(3) end all mounts before destructors run which the library's threads would not survive.
/// Some belong to OpenSSL, which registers them when the first mount uses it, and the last to be
/// registered runs first: so this comes after a mount.
fn end_with_process() {
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

unsafe extern "C" fn release_inode(handle: *mut c_void, vinode: raw::Vinode) {
    // SAFETY: the handle is that of `CephMount::open`, which outlives the mount's threads.
    let callbacks = unsafe { &*handle.cast::<MountCallbacks>() };
    (callbacks.release)(vinode.ino, vinode.snapid);
}

/// Objects get the mode that their creator asks for.
unsafe extern "C" fn no_umask(_: *mut c_void) -> libc::mode_t {
    0
}

/// Ends the session of a client by its identity, and evicts it: the OSDs and metadata servers
/// accept nothing more from it, and its locks are free. Returns whether there was one.
///
/// # Errors
/// As [`CephMount::open`]; `EPERM` for the session of another user.
pub fn reset_session(library: CephFs, options: &MountOptions, identity: &str) -> Result<bool, MountError> {
    let user = c_string(&options.user)?;
    let created = CreatedMount::new(library, &user)?;
    created.configure(options)?;
    created.initialise(&MountOptions { identity: None, ..options.clone() })?;
    let ended = end_session(&created, identity).map_err(|reason| refuse(&created, options, reason));
    // It closes this client's own session, which the metadata servers would otherwise wait for.
    // SAFETY: the client is initialised and has not mounted anything.
    unsafe { (library.0.ceph_set_uuid)(created.info.as_ptr(), c"ended".as_ptr()) };
    ended
}

/// Ends the state of a predecessor, and takes its name.
fn reclaim(created: &CreatedMount, identity: &str) -> Result<(), MountError> {
    end_session(created, identity).map_err(MountError::Start)?;
    let (functions, info) = (created.library.0, created.info.as_ptr());
    let name = c_string(identity)?;
    // SAFETY: the mount is initialised and not mounted yet; the string lives through the call.
    unsafe {
        (functions.ceph_set_session_timeout)(info, SESSION_TIMEOUT);
        (functions.ceph_set_uuid)(info, name.as_ptr());
    }
    Ok(())
}

/// Evicts the client with an identity; returns whether there was one.
fn end_session(created: &CreatedMount, identity: &str) -> Result<bool, CephErrno> {
    let (functions, info) = (created.library.0, created.info.as_ptr());
    let name = CString::new(identity).map_err(|_| CephErrno::new(libc::EINVAL))?;
    // SAFETY: the mount is initialised and not mounted yet; the string lives through the call.
    let begun = unsafe { (functions.ceph_start_reclaim)(info, name.as_ptr(), raw::RECLAIM_RESET) };
    // SAFETY: as above.
    unsafe { (functions.ceph_finish_reclaim)(info) };
    match done(begun) {
        Ok(()) => Ok(true),
        // There was no such session, or the metadata server is too old to end it.
        Err(error) if [libc::ENOENT, libc::EOPNOTSUPP].contains(&error.number()) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Explains why the library could not connect or mount.
fn refuse(created: &CreatedMount, options: &MountOptions, reason: CephErrno) -> MountError {
    let named = options.file_system.as_deref().unwrap_or("the default file system");
    let what = format!("{} of {named}", options.path);
    match reason.number() {
        libc::EPERM | libc::EACCES | libc::EKEYREJECTED => {
            MountError::Refused { user: options.user.clone(), keyring: created.get("keyring"), reason }
        }
        libc::ETIMEDOUT | libc::ENOTCONN | libc::EHOSTUNREACH | libc::EHOSTDOWN => {
            MountError::Unreachable { configuration: options.configuration.clone(), reason }
        }
        libc::ENOENT | libc::EINVAL => MountError::NotFound { what, reason },
        _ => MountError::Other { what, reason },
    }
}

fn c_string(text: &str) -> Result<CString, MountError> {
    CString::new(text).map_err(|_| MountError::Nul(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_gives_way_to_the_configuration_file_and_a_setting_does_not() {
        let library = match CephFs::load() {
            Ok(library) => library,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        let folder = tempfile::tempdir().unwrap();
        let configuration = folder.path().join("ceph.conf");
        std::fs::write(&configuration, "[client]\ndebug_client = 3/7\nlog_to_stderr = true\n").unwrap();
        let options = MountOptions {
            configuration,
            user: "orthrus".to_owned(),
            keyring: None,
            file_system: None,
            path: "/".to_owned(),
            settings: vec![("log_to_stderr", "false".to_owned())],
            defaults: ["debug_client", "debug_objecter"].map(|name| (name, "0/0".to_owned())).to_vec(),
            identity: None,
        };
        let created = CreatedMount::new(library, c"orthrus").unwrap();
        created.configure(&options).unwrap();
        assert_eq!(created.get("debug_client"), "3/7");
        assert_eq!(created.get("debug_objecter"), "0/0");
        assert_eq!(created.get("log_to_stderr"), "false");
    }
}
