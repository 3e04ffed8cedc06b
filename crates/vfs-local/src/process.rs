//! What the whole process asks of the C library.
#![allow(unsafe_code, reason = "the standard library offers neither of these calls")]

/// Gives the pages of freed memory back to the system, which the C library otherwise keeps between
/// pieces in use.
///
/// It takes the allocator's locks one after another, for milliseconds after gigabytes: not for
/// threads that serve.
pub fn release_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim has no preconditions and touches free memory only.
    let _ = unsafe { libc::malloc_trim(0) };
}

/// Ends the process without waiting for any thread and without running exit handlers: either may be
/// what hangs.
pub fn exit_at_once(status: i32) -> ! {
    // SAFETY: _exit has no preconditions.
    unsafe { libc::_exit(status) }
}
