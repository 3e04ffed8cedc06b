//! Delegations: the promise that others cannot access a file before this client has agreed.

use super::{CephOpenFile, raw};
use crate::CephErrno;
use crate::errno::done;
use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering::AcqRel;

/// Kind of a [`CephDelegation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelegationKind {
    /// It ends when another client, or another open of this one, wants to write.
    Read,
    /// It ends when another client, or another open of this one, wants to access the file.
    Write,
}

/// Called on a thread of the library, which holds a lock of the mount: it must not call the library
/// or wait.
type Recall = Box<dyn Fn() + Send + Sync>;

/// A delegation on an open file, which dropping it returns.
pub struct CephDelegation {
    file: Arc<CephOpenFile>,
    recall: NonNull<Recall>,
}

// SAFETY: the closure may be called from any thread, and only the library and `drop` have the
// pointer.
unsafe impl Send for CephDelegation {}
// SAFETY: as above.
unsafe impl Sync for CephDelegation {}

impl fmt::Debug for CephDelegation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CephDelegation").field("file", &self.file).finish_non_exhaustive()
    }
}

impl CephDelegation {
    /// Takes a delegation on an open file. `recall` is called once when it is to be returned.
    ///
    /// # Errors
    /// `EAGAIN` if the file is in use against it or has a delegation, `ETIME` if
    /// [`super::CephMount::allow_delegations`] was not called.
    pub fn take(file: &Arc<CephOpenFile>, kind: DelegationKind, recall: Recall) -> Result<Self, CephErrno> {
        // The library would exchange the callback of the former one.
        if file.delegated.swap(true, AcqRel) {
            return Err(CephErrno::new(libc::EAGAIN));
        }
        let recall = NonNull::from(Box::leak(Box::new(recall)));
        let command = match kind {
            DelegationKind::Read => raw::delegation::READ,
            DelegationKind::Write => raw::delegation::WRITE,
        };
        // SAFETY: the file is open, and the closure lives until the delegation is returned.
        let taken = file.call(|library, info, file| unsafe {
            (library.ceph_ll_delegation)(info, file, command, Some(recalled), recall.as_ptr().cast())
        });
        let taken = taken.and_then(done);
        if let Err(error) = taken {
            // SAFETY: the library has not taken the pointer.
            drop(unsafe { Box::from_raw(recall.as_ptr()) });
            file.delegated.store(false, std::sync::atomic::Ordering::Release);
            return Err(error);
        }
        Ok(Self { file: Arc::clone(file), recall })
    }
}

impl Drop for CephDelegation {
    fn drop(&mut self) {
        let file = self.file.file.as_ptr();
        // SAFETY: the file is open. The library calls back under the lock that this call takes.
        self.file.mount.release(|library, info| unsafe {
            (library.ceph_ll_delegation)(info, file, raw::delegation::NONE, None, std::ptr::null_mut())
        });
        // SAFETY: the delegation has ended, by this call or with the mount, so that nothing uses
        // the closure any more.
        drop(unsafe { Box::from_raw(self.recall.as_ptr()) });
        self.file.delegated.store(false, std::sync::atomic::Ordering::Release);
    }
}

unsafe extern "C" fn recalled(_: *mut raw::RawFh, private: *mut c_void) {
    // SAFETY: the pointer is that of `CephDelegation::take`, which is freed after the delegation.
    let recall = unsafe { &*private.cast::<Recall>() };
    recall();
}
