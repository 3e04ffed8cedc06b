//! The steps from a configuration to a client of the cluster that has mounted nothing yet.

use super::{CephFs, raw};
use crate::CephErrno;
use crate::errno::done;
use std::ffi::{CStr, CString, c_char};
use std::path::PathBuf;
use std::ptr::{self, NonNull};

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
    /// Another name that the predecessor may have had; it loses its state under this one, too.
    pub former: Option<String>,
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

/// A mount that is being made; dropping it releases it.
pub(super) struct CreatedMount {
    library: CephFs,
    pub(super) info: NonNull<raw::MountInfo>,
}

impl CreatedMount {
    pub(super) fn new(library: CephFs, user: &CStr) -> Result<Self, MountError> {
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

    /// Reads the configuration file, and sets the options that come before it.
    pub(super) fn configure(&self, options: &MountOptions) -> Result<(), MountError> {
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
        // A value that is set comes before the file's, so only those that it leaves alone are set.
        for ((name, value), (before, after)) in options.defaults.iter().zip(built_in.iter().zip(values())) {
            if *before == after {
                self.set(name, value)?;
            }
        }
        Ok(())
    }

    /// Makes the mount ready.
    pub(super) fn initialise(&self, options: &MountOptions) -> Result<(), MountError> {
        let (functions, info) = (self.library.0, self.info.as_ptr());
        let failed = |error: i32| done(error).map_err(|reason| refuse(self, options, reason));
        // SAFETY: the mount is not initialised yet.
        failed(unsafe { (functions.ceph_init)(info) })?;
        if let Some(name) = &options.file_system {
            let name = c_string(name)?;
            // SAFETY: the string lives through the call.
            failed(unsafe { (functions.ceph_select_filesystem)(info, name.as_ptr()) })?;
        }
        if let Some(former) = &options.former {
            end_session(self, former).map_err(MountError::Start)?;
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

/// Ends the session of a client by its identity, and evicts it: the OSDs and metadata servers
/// accept nothing more from it, and its locks are free. Returns whether there was one.
///
/// # Errors
/// As [`CephMount::open`]; `EPERM` for the session of another user.
pub fn reset_session(library: CephFs, options: &MountOptions, identity: &str) -> Result<bool, MountError> {
    let user = c_string(&options.user)?;
    let created = CreatedMount::new(library, &user)?;
    created.configure(options)?;
    created.initialise(&MountOptions { identity: None, former: None, ..options.clone() })?;
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
pub(super) fn refuse(created: &CreatedMount, options: &MountOptions, reason: CephErrno) -> MountError {
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

pub(super) fn c_string(text: &str) -> Result<CString, MountError> {
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
            former: None,
        };
        let created = CreatedMount::new(library, c"orthrus").unwrap();
        created.configure(&options).unwrap();
        assert_eq!(created.get("debug_client"), "3/7");
        assert_eq!(created.get("debug_objecter"), "0/0");
        assert_eq!(created.get("log_to_stderr"), "false");
    }
}
