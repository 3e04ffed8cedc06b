//! Netgroups of the system's name service.

#![allow(unsafe_code, reason = "no crate offers these functions of the C library")]

use std::ffi::{CStr, CString, c_char, c_int};
use std::sync::{Mutex, PoisonError};

unsafe extern "C" {
    fn setnetgrent(netgroup: *const c_char) -> c_int;
    fn endnetgrent();
    fn innetgr(
        netgroup: *const c_char,
        host: *const c_char,
        user: *const c_char,
        domain: *const c_char,
    ) -> c_int;
}

/// The functions share state in the C library (`MT-Unsafe race:netgrent`), so one thread uses them
/// at a time.
static TURN: Mutex<()> = Mutex::new(());

/// Returns whether a host is in a netgroup; `None` if the netgroup is not found, which is also the
/// answer of a directory that is down.
pub(crate) fn has_host(netgroup: &str, host: &str) -> Option<bool> {
    let (netgroup, host) = (CString::new(netgroup).ok()?, CString::new(host).ok()?);
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if has(&netgroup, &host) {
        return Some(true);
    }
    // innetgr(3) does not tell failures from absence. The netgroup before and after it shows that
    // the directory works.
    (exists(&netgroup) && !has(&netgroup, &host) && exists(&netgroup)).then_some(false)
}

fn has(netgroup: &CStr, host: &CStr) -> bool {
    // SAFETY: both are strings that outlive the call; a null pointer stands for any user and
    // domain.
    unsafe { innetgr(netgroup.as_ptr(), host.as_ptr(), std::ptr::null(), std::ptr::null()) == 1 }
}

fn exists(netgroup: &CStr) -> bool {
    // SAFETY: the string outlives the call, and the caller has the turn.
    let found = unsafe { setnetgrent(netgroup.as_ptr()) } == 1;
    // SAFETY: the caller has the turn; nothing else is needed after setnetgrent.
    unsafe { endnetgrent() };
    found
}
