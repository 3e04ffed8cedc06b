//! Errors of calls into the libraries.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::{fmt, io};

/// An errno that a call has returned, as a positive number of this system.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CephErrno(i32);

impl CephErrno {
    /// An argument that the library cannot take.
    pub const EINVAL: Self = Self(libc::EINVAL);
    /// There is not enough memory.
    pub const ENOMEM: Self = Self(libc::ENOMEM);

    /// Makes an error of a number of errno(3).
    pub const fn new(number: i32) -> Self {
        Self(number)
    }

    /// Returns the number as errno(3) has it.
    pub const fn number(self) -> i32 {
        self.0
    }
}

impl fmt::Display for CephErrno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        io::Error::from_raw_os_error(self.0).fmt(f)
    }
}

impl fmt::Debug for CephErrno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CephErrno({}: {self})", self.0)
    }
}

impl std::error::Error for CephErrno {}

/// Whether a call has failed because a client of this process is on the blocklist.
static BLOCKLISTED: AtomicBool = AtomicBool::new(false);

/// Returns whether a call of this process has failed because its client was evicted: the cluster
/// accepts nothing more from it.
pub fn was_blocklisted() -> bool {
    BLOCKLISTED.load(Relaxed)
}

/// The function that [`on_blocklisted`] has set.
static ON_BLOCKLISTED: OnceLock<fn()> = OnceLock::new();

/// Sets the function that runs, once, in the thread of the first call that fails because its client
/// was evicted. Only the first function of a process counts.
pub fn on_blocklisted(act: fn()) {
    let _ = ON_BLOCKLISTED.set(act);
}

/// Turns a result of the library, negative for an error, into a count.
pub(crate) fn count(result: i64) -> Result<u64, CephErrno> {
    u64::try_from(result).map_err(|_| {
        let error = CephErrno(i32::try_from(-result).unwrap_or(libc::EIO));
        if error.0 == libc::ESHUTDOWN
            && !BLOCKLISTED.swap(true, Relaxed)
            && let Some(act) = ON_BLOCKLISTED.get()
        {
            act();
        }
        error
    })
}

/// Turns a result of the library, negative for an error, into success.
pub(crate) fn done(result: i32) -> Result<(), CephErrno> {
    count(result.into()).map(drop)
}
