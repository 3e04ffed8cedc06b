//! Calls of the C library that affect the whole process.
#![allow(unsafe_code, reason = "the standard library offers none of these calls")]

use std::fs;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;

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

/// Shuts down all sockets of the process except its standard streams, and lets go of them and of
/// all files below `folder`, with their locks.
///
/// For a process that is to end at once: Linux keeps its descriptors open while one of its threads
/// waits for a file system that cannot be interrupted, and a successor needs these. Their numbers
/// stay taken, so no thread that still runs writes to another file by them.
///
/// A socket that listens is only let go of. The service manager may have it, too, and a shutdown
/// would end it for both.
pub fn release_to_successor(folder: &Path) {
    let Ok(null) = fs::File::options().read(true).write(true).open("/dev/null") else { return };
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return };
    // The text of a link asks no file system, so it cannot hang.
    let links: Vec<(libc::c_int, _)> = entries
        .flatten()
        .filter_map(|entry| {
            Some((entry.file_name().to_str()?.parse().ok()?, fs::read_link(entry.path()).ok()?))
        })
        // The log may be a socket that the service manager shares with other processes.
        .filter(|(fd, _)| *fd > libc::STDERR_FILENO)
        .collect();
    let replace = |fd: libc::c_int| {
        // SAFETY: both are numbers of descriptors, and the call touches no memory. Their owners get
        // one that is open, of /dev/null.
        unsafe { libc::dup3(null.as_raw_fd(), fd, libc::O_CLOEXEC) };
    };
    let (sockets, others): (Vec<_>, Vec<_>) =
        links.into_iter().partition(|(_, link)| link.as_os_str().as_encoded_bytes().starts_with(b"socket:"));
    // Sockets first: no reply may go out once records are no longer stored.
    for (fd, _) in sockets {
        if !listens(fd) {
            // SAFETY: the call touches no memory.
            unsafe { libc::shutdown(fd, libc::SHUT_RDWR) };
        }
        replace(fd);
    }
    others.iter().filter(|(_, link)| link.starts_with(folder)).for_each(|(fd, _)| replace(*fd));
}

fn listens(fd: libc::c_int) -> bool {
    // SAFETY: another thread may close the descriptor, and then the call fails.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    rustix::net::sockopt::socket_acceptconn(fd).unwrap_or(false)
}

/// Closes all descriptors but the first three in programs that this process executes, also those
/// that it got from the one before without that mark.
pub fn keep_from_children() {
    // SAFETY: the call touches no memory.
    let _ = unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
}

/// Denies memory that is both writable and executable, for this process and for ever. Returns
/// whether the kernel can, which it can since Linux 6.3.
pub fn deny_writable_code() -> bool {
    let refuse = libc::c_ulong::from(libc::PR_MDWE_REFUSE_EXEC_GAIN);
    // SAFETY: the call touches no memory.
    unsafe { libc::prctl(libc::PR_SET_MDWE, refuse, 0_u64, 0_u64, 0_u64) == 0 }
}

/// Makes writes beyond the process's limit of file sizes (RLIMIT_FSIZE) fail with EFBIG. By default
/// the kernel's signal ends the process, and any client can send such a write.
pub(crate) fn survive_size_limit() {
    // SAFETY: the signal is ignored, so no handler runs.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Ends the process without waiting for any thread and without running exit handlers: either may be
/// what hangs.
pub fn exit_at_once(status: i32) -> ! {
    // SAFETY: _exit has no preconditions.
    unsafe { libc::_exit(status) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::process::{Command, Stdio};

    /// The variable that makes the test the process that lets go.
    const INSIDE: &str = "ORTHRUS_TEST_RELEASE";

    #[test]
    fn a_socket_that_another_process_listens_at_goes_on_listening() {
        // listen(2), shutdown(2): both act on the socket, not on the descriptor
        let folder = std::env::temp_dir();
        if std::env::var_os(INSIDE).is_some() {
            release_to_successor(&folder);
            exit_at_once(0);
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let passed = listener.try_clone().unwrap();
        rustix::io::fcntl_setfd(&passed, rustix::io::FdFlags::empty()).unwrap();
        let name = "process::tests::a_socket_that_another_process_listens_at_goes_on_listening";
        let mut command = Command::new(std::env::current_exe().unwrap());
        let command = command.args(["--exact", name]).env(INSIDE, "1").stdout(Stdio::null());
        assert!(command.status().unwrap().success());
        TcpStream::connect(listener.local_addr().unwrap()).expect("it listens");
    }
}
