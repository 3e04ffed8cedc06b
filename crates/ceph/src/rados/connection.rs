//! A connection to a cluster.

use super::{Rados, RadosPool, raw};
use crate::CephErrno;
use crate::errno::done;
use std::ffi::{CStr, CString, c_char};
use std::path::PathBuf;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a setting that are read; longer ones are cut.
const SETTING_MAX: usize = 4096;

/// The cluster to connect to, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RadosOptions {
    /// The configuration file of the cluster.
    pub configuration: PathBuf,
    /// The user's name without `client.`.
    pub user: String,
    /// The file with the user's key; `None`: as the configuration says.
    pub keyring: Option<PathBuf>,
    /// How long a call waits for the cluster, in whole seconds, at least one.
    pub timeout: Duration,
}

/// The reason why a cluster or a pool cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RadosError {
    /// The library has no memory, or a name is of no use to it.
    #[error("librados cannot start: {0}")]
    Start(CephErrno),
    /// A value has a NUL.
    #[error("{0:?} has a NUL byte")]
    Nul(String),
    /// The configuration file cannot be read.
    #[error(
        "{path}: {reason}: name the configuration file of the Ceph cluster with `ceph_conf` or --ceph-conf (it is usually /etc/ceph/ceph.conf)"
    )]
    Configuration {
        /// The path of the file.
        path: PathBuf,
        /// The error number of the library.
        reason: CephErrno,
    },
    /// The cluster does not accept the user.
    #[error(
        "the Ceph cluster refuses client.{user}: {reason}: check that `ceph auth get client.{user}` shows the key in {keyring}"
    )]
    Refused {
        /// The user, without `client.`.
        user: String,
        /// The file of the key, as the library names it.
        keyring: String,
        /// The error number of the library.
        reason: CephErrno,
    },
    /// The cluster does not answer.
    #[error(
        "the Ceph cluster of {configuration} does not answer: {reason}: check that its monitors are reachable from here"
    )]
    Unreachable {
        /// The configuration file of the cluster.
        configuration: PathBuf,
        /// The error number of the library.
        reason: CephErrno,
    },
    /// There is no such pool, or the user may not use it.
    #[error(
        "the pool {pool:?} cannot be opened: {reason}: `ceph osd pool ls` lists the pools, `ceph osd pool create {pool}` makes one"
    )]
    Pool {
        /// The name of the pool.
        pool: String,
        /// The error number of the library.
        reason: CephErrno,
    },
}

/// A connection to a cluster, with an address of its own.
#[derive(Debug)]
pub struct RadosCluster {
    pub(super) library: Rados,
    pub(super) handle: raw::Handle,
}

// SAFETY: the library takes its own locks in every call that gets this pointer.
unsafe impl Send for RadosCluster {}
// SAFETY: as above.
unsafe impl Sync for RadosCluster {}

impl RadosCluster {
    /// Connects to a cluster.
    ///
    /// # Errors
    /// See [`RadosError`]; each names the remedy.
    pub fn connect(library: Rados, options: &RadosOptions) -> Result<Arc<Self>, RadosError> {
        let user = c_string(&options.user)?;
        let mut handle = ptr::null_mut();
        // SAFETY: on success the pointer is set.
        done(unsafe { (library.0.rados_create)(&mut handle, user.as_ptr()) }).map_err(RadosError::Start)?;
        let cluster = Self { library, handle };
        let path = options.configuration.clone();
        let configuration = c_string(&path.to_string_lossy())?;
        // SAFETY: the string lives through the call.
        done(unsafe { (library.0.rados_conf_read_file)(handle, configuration.as_ptr()) })
            .map_err(|reason| RadosError::Configuration { path, reason })?;
        if let Some(keyring) = &options.keyring {
            cluster.set(c"keyring", &keyring.to_string_lossy())?;
        }
        let timeout = options.timeout.as_secs().max(1).to_string();
        let names = [c"client_mount_timeout", c"rados_mon_op_timeout", c"rados_osd_op_timeout"];
        names.iter().try_for_each(|name| cluster.set(name, &timeout))?;
        // Standard error is the log of the program.
        [c"log_to_stderr", c"err_to_stderr"].iter().try_for_each(|name| cluster.set(name, "false"))?;
        // SAFETY: the handle is configured and not connected yet.
        match done(unsafe { (library.0.rados_connect)(handle) }) {
            Ok(()) => Ok(Arc::new(cluster)),
            Err(reason) => Err(cluster.refuse(options, reason)),
        }
    }

    fn set(&self, name: &CStr, value: &str) -> Result<(), RadosError> {
        let text = c_string(value)?;
        // SAFETY: both strings live through the call.
        done(unsafe { (self.library.0.rados_conf_set)(self.handle, name.as_ptr(), text.as_ptr()) })
            .map_err(RadosError::Start)
    }

    fn get(&self, name: &CStr) -> String {
        let mut value = vec![0_u8; SETTING_MAX];
        let at = value.as_mut_ptr().cast::<c_char>();
        // SAFETY: the library writes a string of at most this length.
        let got = unsafe { (self.library.0.rados_conf_get)(self.handle, name.as_ptr(), at, SETTING_MAX) };
        let text = CStr::from_bytes_until_nul(&value).ok().filter(|_| got >= 0);
        text.map_or(String::new(), |text| text.to_string_lossy().into_owned())
    }

    fn refuse(&self, options: &RadosOptions, reason: CephErrno) -> RadosError {
        match reason.number() {
            libc::EPERM | libc::EACCES | libc::EKEYREJECTED | libc::ENOENT => {
                RadosError::Refused { user: options.user.clone(), keyring: self.get(c"keyring"), reason }
            }
            _ => RadosError::Unreachable { configuration: options.configuration.clone(), reason },
        }
    }

    /// Opens a pool; the empty namespace is the default one.
    ///
    /// # Errors
    /// `RadosPool` if there is no such pool.
    pub fn pool(self: &Arc<Self>, name: &str, namespace: &str) -> Result<RadosPool, RadosError> {
        RadosPool::open(self, name, namespace)
    }

    /// Returns the address of this connection, as commands of `ceph osd blocklist` take it.
    ///
    /// # Errors
    /// The library's.
    pub fn address(&self) -> Result<String, CephErrno> {
        let mut text = ptr::null_mut();
        // SAFETY: on success the pointer is a string that the caller frees.
        done(unsafe { (self.library.0.rados_getaddrs)(self.handle, &mut text) })?;
        // SAFETY: as above.
        Ok(unsafe { crate::address::take(text) })
    }

    /// Waits until this connection knows the current map of OSDs. Operations that follow reach no
    /// OSD that has an older one.
    ///
    /// # Errors
    /// `ETIMEDOUT` and others of the library.
    pub fn wait_for_latest_map(&self) -> Result<(), CephErrno> {
        // SAFETY: the handle is connected.
        done(unsafe { (self.library.0.rados_wait_for_latest_osdmap)(self.handle) })
    }

    /// Runs a command of the monitors, which is JSON such as `{"prefix": "osd blocklist ls"}`, and
    /// returns its output.
    ///
    /// # Errors
    /// `EACCES` for a user without the right to it, `ETIMEDOUT`, and those of the command.
    pub fn command(&self, command: &str) -> Result<Vec<u8>, CephErrno> {
        let command = CString::new(command).map_err(|_| CephErrno::new(libc::EINVAL))?;
        let (commands, functions) = ([command.as_ptr()], self.library.0);
        let (mut output, mut length) = (ptr::null_mut(), 0);
        let (mut status, mut status_length) = (ptr::null_mut(), 0);
        // SAFETY: the strings live through the call. It sets both buffers, which are freed below.
        let result = unsafe {
            (functions.rados_mon_command)(
                self.handle,
                commands.as_ptr(),
                commands.len(),
                ptr::null(),
                0,
                &mut output,
                &mut length,
                &mut status,
                &mut status_length,
            )
        };
        let bytes = if output.is_null() {
            Vec::new()
        } else {
            // SAFETY: the library has set pointer and length.
            unsafe { std::slice::from_raw_parts(output.cast::<u8>(), length) }.to_vec()
        };
        for buffer in [output, status] {
            if !buffer.is_null() {
                // SAFETY: the buffer is the library's, and is freed once.
                unsafe { (functions.rados_buffer_free)(buffer) };
            }
        }
        done(result).map(|()| bytes)
    }
}

impl Drop for RadosCluster {
    fn drop(&mut self) {
        // SAFETY: the handle came from the library and is shut down once; pools own this value.
        unsafe { (self.library.0.rados_shutdown)(self.handle) };
    }
}

pub(super) fn c_string(text: &str) -> Result<CString, RadosError> {
    CString::new(text).map_err(|_| RadosError::Nul(text.to_owned()))
}
