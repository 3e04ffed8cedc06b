//! Addresses of this process in a cluster, as the libraries return them.
#![allow(unsafe_code, reason = "strings of Ceph's libraries")]

use std::ffi::{CStr, c_char};

/// Takes a string that the library has allocated with `strdup`.
///
/// # Safety
/// The pointer must be such a string, and is not used afterwards.
pub(crate) unsafe fn take(text: *mut c_char) -> String {
    // SAFETY: the caller's promise.
    let address = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    // SAFETY: it came from `malloc`, and is freed once.
    unsafe { libc::free(text.cast()) };
    address
}
