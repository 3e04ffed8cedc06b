//! libcephfs: Ceph's file system in user space.
//!
//! [`CephFs::load`] loads the library, [`CephMount::open`] mounts a file system, and [`CephInode`]
//! is the way to everything in it. The library checks the rights of the [`Credentials`] of each
//! call, as far as the key of the mount does not restrict them further, which the metadata servers
//! check.
//!
//! Every call can wait for the network, some for ever. Values are released without a wait, except
//! that an [`CephOpenFile`] with locks tells a metadata server of their end, and a [`CephMount`]
//! writes back its data.
#![allow(unsafe_code, reason = "C functions of Ceph's library")]

mod connecting;
mod credentials;
mod delegation;
mod directory;
mod file;
mod inode;
mod mount;
mod raw;
mod requests;
mod stat;
mod unmounting;

pub use connecting::{MountError, MountOptions, reset_session};
pub use credentials::Credentials;
pub use delegation::{CephDelegation, DelegationKind};
pub use directory::{CephEntry, DirectoryStream};
pub use file::{CephLockRange, CephOpenFile, HeldLock, LockType};
pub use inode::{CephInode, NewInode, XattrFlag};
pub use mount::{CephMount, CephSession, MissingFeatures, ReleaseRequest};
pub use stat::{CephSetTime, FileSystemSize, SetStat, Stat, Time};
pub use unmounting::{unmount_all, wait_for_unmounts};

use crate::LibraryError;
use std::ffi::CStr;
use std::sync::OnceLock;

/// The snapshot number of objects that are in no snapshot (`CEPH_NOSNAP`).
pub const NO_SNAPSHOT: u64 = u64::MAX - 1;
/// The snapshot number of a directory of snapshots (`CEPH_SNAPDIR`).
pub const SNAPSHOT_DIRECTORY: u64 = u64::MAX;

/// The functions of the loaded libcephfs.
#[derive(Clone, Copy, Debug)]
pub struct CephFs(&'static raw::Functions);

impl CephFs {
    /// Loads the library, once for the process.
    ///
    /// # Errors
    /// A library that is missing or too old, with the package to install.
    pub fn load() -> Result<Self, LibraryError> {
        static LOADED: OnceLock<Result<raw::Functions, LibraryError>> = OnceLock::new();
        match LOADED.get_or_init(raw::Functions::load) {
            Ok(functions) => Ok(Self(functions)),
            Err(error) => Err(error.clone()),
        }
    }

    /// Returns the version of the library, such as `[18, 2, 7]`.
    pub fn version(self) -> [u32; 3] {
        self.0.version().1
    }
}

impl raw::Functions {
    fn load() -> Result<Self, LibraryError> {
        let functions = Self::find()?;
        let (version, [major, ..]) = functions.version();
        if major >= Self::NEEDED {
            return Ok(functions);
        }
        let (file, package, needed) = (Self::FILE, Self::PACKAGE, Self::NEEDED);
        Err(LibraryError::TooOld { file, package, version, needed })
    }

    fn version(&self) -> (String, [u32; 3]) {
        let mut numbers = [0; 3];
        let [major, minor, patch] = &mut numbers;
        // SAFETY: the function writes three numbers and returns a string with static lifetime.
        let text = unsafe { CStr::from_ptr((self.ceph_version)(major, minor, patch)) };
        (text.to_string_lossy().into_owned(), numbers.map(|number| u32::try_from(number).unwrap_or(0)))
    }
}
