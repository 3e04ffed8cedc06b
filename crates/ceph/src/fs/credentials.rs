//! The user on whose behalf a call runs.

use super::{CephFs, raw};
use std::ptr::NonNull;
use std::sync::Arc;

/// A user with its groups (`UserPerm`).
#[derive(Debug)]
pub struct Credentials {
    library: CephFs,
    perms: NonNull<raw::UserPerm>,
    /// The library keeps a pointer to the numbers.
    _groups: Arc<[u32]>,
}

// SAFETY: the library only reads the value, which has no other owner.
unsafe impl Send for Credentials {}
// SAFETY: as above.
unsafe impl Sync for Credentials {}

impl Credentials {
    /// Makes the credentials of a user with a primary group and any number of others; `None` if
    /// memory is short.
    pub fn new(library: CephFs, uid: u32, gid: u32, groups: &Arc<[u32]>) -> Option<Self> {
        let groups = Arc::clone(groups);
        let count = i32::try_from(groups.len()).ok()?;
        // SAFETY: the numbers outlive the value, and the library does not write them.
        let perms = unsafe { (library.0.ceph_userperm_new)(uid, gid, count, groups.as_ptr().cast_mut()) };
        Some(Self { library, perms: NonNull::new(perms)?, _groups: groups })
    }

    pub(super) fn as_ptr(&self) -> *const raw::UserPerm {
        self.perms.as_ptr()
    }
}

impl Drop for Credentials {
    fn drop(&mut self) {
        // SAFETY: the value came from the library and is destroyed once.
        unsafe { (self.library.0.ceph_userperm_destroy)(self.perms.as_ptr()) }
    }
}
