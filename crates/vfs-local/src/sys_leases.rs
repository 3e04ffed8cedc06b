//! The system calls of leases, for which no safe wrapper exists: fcntl with commands that take
//! numbers, and a descriptor that one thread's signals are read from.
#![allow(unsafe_code, reason = "system calls that rustix lacks")]

use rustix::io::Errno;
use std::{
    mem::{MaybeUninit, size_of},
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
};

/// A lease of the kernel, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    None,
}

impl Kind {
    fn number(self) -> libc::c_int {
        match self {
            Self::Read => libc::F_RDLCK,
            Self::Write => libc::F_WRLCK,
            Self::None => libc::F_UNLCK,
        }
    }
}

/// The signal that says that a lease is to be given up. It is sent to one thread alone, which
/// blocks it.
fn signal() -> libc::c_int {
    libc::SIGRTMIN() + 1
}

/// Directs the signals of a descriptor's lease to a thread of this process.
pub(crate) fn direct_signals(file: BorrowedFd<'_>, thread: libc::pid_t) -> Result<(), Errno> {
    /// `struct f_owner_ex` of the kernel.
    #[repr(C)]
    struct FOwnerEx {
        kind: libc::c_int,
        pid: libc::pid_t,
    }
    const F_SETOWN_EX: libc::c_int = 15;
    const F_SETSIG: libc::c_int = 10;
    const F_OWNER_TID: libc::c_int = 0;
    let owner = FOwnerEx { kind: F_OWNER_TID, pid: thread };
    // SAFETY: the descriptor is open for the call, and the kernel reads one struct of this layout.
    check(unsafe { libc::fcntl(file.as_raw_fd(), F_SETOWN_EX, &raw const owner) })?;
    // SAFETY: the descriptor is open for the call, which takes a number.
    check(unsafe { libc::fcntl(file.as_raw_fd(), F_SETSIG, signal()) })
}

/// Takes a lease, changes it or gives it up.
pub(crate) fn set(file: BorrowedFd<'_>, kind: Kind) -> Result<(), Errno> {
    // SAFETY: the descriptor is open for the call, which takes a number.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind.number()) })
}

/// Returns whether a descriptor's lease is unchanged; otherwise the holder must return it.
pub(crate) fn stands(file: BorrowedFd<'_>, kind: Kind) -> bool {
    // SAFETY: the descriptor is open for the call, which takes nothing.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLEASE) == kind.number() }
}

/// The number of the calling thread.
pub(crate) fn this_thread() -> libc::pid_t {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::gettid() }
}

/// A signal that the lease thread receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// The lease of this descriptor is to be given up.
    Lease(RawFd),
    /// More than the kernel had room for.
    Overflow,
}

/// Blocks the signals of leases in the calling thread and returns a descriptor from which that
/// thread reads them.
pub(crate) fn block_and_read() -> Result<OwnedFd, Errno> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the first call initialises the set for the others; the mask belongs to this thread,
    // and the descriptor is new and owned here.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGIO);
        libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
        let fd = libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        check(fd)?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Reads one signal, if there is any.
pub(crate) fn hear(signals: BorrowedFd<'_>) -> Option<Heard> {
    const SIZE: usize = size_of::<libc::signalfd_siginfo>();
    let mut info = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
    // SAFETY: the kernel writes at most the size of the struct, which is made of numbers.
    let read = unsafe { libc::read(signals.as_raw_fd(), info.as_mut_ptr().cast(), SIZE) };
    if usize::try_from(read) != Ok(SIZE) {
        return None;
    }
    // SAFETY: it was zeroed, and the kernel has filled all of it.
    let info = unsafe { info.assume_init() };
    if libc::c_int::try_from(info.ssi_signo) == Ok(signal()) {
        return Some(Heard::Lease(info.ssi_fd));
    }
    Some(Heard::Overflow)
}

fn check(result: libc::c_int) -> Result<(), Errno> {
    if result >= 0 {
        return Ok(());
    }
    let errno = std::io::Error::last_os_error();
    Err(Errno::from_io_error(&errno).unwrap_or(Errno::IO))
}
