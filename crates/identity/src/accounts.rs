//! Entries of users and groups in the name service, however long they are.

#![allow(unsafe_code, reason = "nix refuses entries of more than 1 MiB, and no crate reads longer ones")]

use nix::errno::Errno;
use nix::libc::{self, c_char, c_int};
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::ptr;

/// The first buffer for an entry, in bytes, and the factor by which a longer entry enlarges it.
const BUFFER_LEN: usize = 16 << 10;
const BUFFER_GROWTH: usize = 4;
/// The largest buffer for an entry, in bytes. glibc uses the length of the line and 8 bytes for
/// each member, so a group can have some million members.
const BUFFER_LEN_MAX: usize = 64 << 20;

/// The parts of a user's entry that this crate uses.
pub(crate) struct UserEntry {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
}

/// The parts of a group's entry that this crate uses.
pub(crate) struct GroupEntry {
    pub name: String,
    pub gid: u32,
}

impl UserEntry {
    /// Returns the user of this name. Like its siblings, it fails with ERANGE if an entry exceeds
    /// the largest buffer: `files` passes over all entries before the one of the user.
    pub(crate) fn from_name(name: &str) -> Result<Option<Self>, Errno> {
        let Ok(name) = CString::new(name) else { return Ok(None) };
        look_up(libc::getpwnam_r, name.as_ptr(), Self::of)
    }

    /// Returns the user with this number.
    pub(crate) fn from_uid(uid: u32) -> Result<Option<Self>, Errno> {
        look_up(libc::getpwuid_r, uid, Self::of)
    }

    fn of(entry: &libc::passwd) -> Self {
        Self { name: text(entry.pw_name), uid: entry.pw_uid, gid: entry.pw_gid }
    }
}

impl GroupEntry {
    /// Returns the group of this name.
    pub(crate) fn from_name(name: &str) -> Result<Option<Self>, Errno> {
        let Ok(name) = CString::new(name) else { return Ok(None) };
        look_up(libc::getgrnam_r, name.as_ptr(), Self::of)
    }

    /// Returns the group with this number.
    pub(crate) fn from_gid(gid: u32) -> Result<Option<Self>, Errno> {
        look_up(libc::getgrgid_r, gid, Self::of)
    }

    fn of(entry: &libc::group) -> Self {
        Self { name: text(entry.gr_name), gid: entry.gr_gid }
    }
}

/// A function of the family of getpwnam_r(3): key, entry, buffer with its length, result.
type Function<K, E> = unsafe extern "C" fn(K, *mut E, *mut c_char, usize, *mut *mut E) -> c_int;

/// Calls a function of the family with larger and larger buffers, and reads the entry.
fn look_up<K: Copy, E, T>(
    function: Function<K, E>,
    key: K,
    read: impl Fn(&E) -> T,
) -> Result<Option<T>, Errno> {
    let mut length = BUFFER_LEN;
    loop {
        // The kernel supplies zeros when the entry first touches a page.
        let mut buffer: Vec<c_char> = vec![0; length];
        let mut entry = MaybeUninit::<E>::uninit();
        let mut found = ptr::null_mut();
        // SAFETY: the key is a number or a string that the caller holds; the other pointers are
        // valid, and the buffer has this length.
        let error = unsafe { function(key, entry.as_mut_ptr(), buffer.as_mut_ptr(), length, &raw mut found) };
        match Errno::from_raw(error) {
            _ if error == 0 && found.is_null() => return Ok(None),
            // SAFETY: the function fills the entry in when it returns a result. The strings of the
            // entry are in the buffer, which lives until the end of this turn.
            _ if error == 0 => return Ok(Some(read(unsafe { entry.assume_init_ref() }))),
            Errno::ERANGE if length < BUFFER_LEN_MAX => length *= BUFFER_GROWTH,
            errno => return Err(errno),
        }
    }
}

/// Returns a string of an entry.
fn text(string: *const c_char) -> String {
    // SAFETY: the name of an entry is a string in the buffer of `look_up`, which outlives the call.
    unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned()
}
