//! The system calls that the server needs; others fail with ENOSYS, as on a kernel without them.
//!
//! The kernel remembers which calls a filter allows whatever their arguments, so that these cost
//! nothing more. Calls with conditions are rare ones.

use anyhow::Context;
use nix::libc::*;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use std::collections::BTreeMap;

/// Calls that are allowed with any arguments.
#[rustfmt::skip]
const ALLOWED: &[c_long] = &[
    // Memory and threads.
    SYS_brk, SYS_mmap, SYS_mprotect, SYS_mremap, SYS_munmap, SYS_madvise, SYS_membarrier, SYS_memfd_create,
    SYS_exit, SYS_exit_group, SYS_futex, SYS_get_robust_list, SYS_set_robust_list, SYS_rseq,
    SYS_set_tid_address, SYS_gettid, SYS_getpid, SYS_getppid, SYS_sched_yield, SYS_sched_getaffinity,
    SYS_sched_setaffinity, SYS_sched_getparam, SYS_sched_getscheduler, SYS_getcpu, SYS_getpriority,
    SYS_setpriority, SYS_restart_syscall,
    // Signals, to this process.
    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_rt_sigpending, SYS_rt_sigtimedwait,
    SYS_sigaltstack, SYS_signalfd4,
    // Time, randomness and facts about the machine.
    SYS_clock_gettime, SYS_clock_getres, SYS_clock_nanosleep, SYS_nanosleep, SYS_gettimeofday, SYS_times,
    SYS_timerfd_create, SYS_timerfd_settime, SYS_timerfd_gettime, SYS_getrandom, SYS_getrusage,
    SYS_sysinfo, SYS_uname,
    // Users and groups: a thread takes on those of its caller.
    SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getresuid, SYS_getresgid, SYS_getgroups,
    SYS_setresuid, SYS_setresgid, SYS_setfsuid, SYS_setfsgid, SYS_setgroups, SYS_capget,
    // Descriptors.
    SYS_close, SYS_close_range, SYS_dup, SYS_dup3, SYS_fcntl, SYS_flock, SYS_lseek, SYS_read, SYS_readv,
    SYS_pread64, SYS_preadv, SYS_preadv2, SYS_write, SYS_writev, SYS_pwrite64, SYS_pwritev, SYS_pwritev2,
    SYS_sendfile, SYS_splice, SYS_tee, SYS_vmsplice, SYS_pipe2, SYS_eventfd2, SYS_epoll_create1,
    SYS_epoll_ctl, SYS_epoll_pwait, SYS_epoll_pwait2, SYS_ppoll, SYS_pselect6,
    // Files.
    SYS_openat, SYS_openat2, SYS_name_to_handle_at, SYS_open_by_handle_at, SYS_statx, SYS_fstat,
    SYS_newfstatat, SYS_statfs, SYS_fstatfs, SYS_faccessat, SYS_faccessat2, SYS_getdents64, SYS_getcwd,
    SYS_readlinkat, SYS_mkdirat, SYS_mknodat, SYS_symlinkat, SYS_linkat, SYS_unlinkat, SYS_renameat,
    SYS_renameat2, SYS_fchmod, SYS_fchmodat, SYS_fchmodat2, SYS_fchown, SYS_fchownat, SYS_utimensat, SYS_truncate,
    SYS_ftruncate, SYS_fallocate, SYS_fadvise64, SYS_readahead, SYS_copy_file_range, SYS_fsync,
    SYS_fdatasync, SYS_sync_file_range, SYS_syncfs, SYS_umask, SYS_quotactl_fd,
    SYS_getxattr, SYS_lgetxattr, SYS_fgetxattr, SYS_setxattr, SYS_lsetxattr, SYS_fsetxattr,
    SYS_listxattr, SYS_llistxattr, SYS_flistxattr, SYS_removexattr, SYS_lremovexattr, SYS_fremovexattr,
    SYS_inotify_init1, SYS_inotify_add_watch, SYS_inotify_rm_watch,
    // Sockets that exist.
    SYS_accept, SYS_accept4, SYS_bind, SYS_connect, SYS_listen, SYS_shutdown, SYS_getsockname,
    SYS_getpeername, SYS_getsockopt, SYS_setsockopt, SYS_sendto, SYS_sendmsg, SYS_sendmmsg, SYS_recvfrom,
    SYS_recvmsg, SYS_recvmmsg,
];

/// Older forms of these calls, which libraries may still use.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const OLDER: &[c_long] = &[
    SYS_open, SYS_creat, SYS_stat, SYS_lstat, SYS_access, SYS_readlink, SYS_mkdir, SYS_rmdir, SYS_mknod,
    SYS_symlink, SYS_link, SYS_unlink, SYS_rename, SYS_chmod, SYS_chown, SYS_lchown, SYS_utime, SYS_utimes,
    SYS_futimesat, SYS_getdents, SYS_dup2, SYS_pipe, SYS_eventfd, SYS_signalfd, SYS_inotify_init,
    SYS_epoll_create, SYS_epoll_wait, SYS_poll, SYS_select, SYS_time, SYS_pause, SYS_alarm,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[c_long] = &[];

/// The bits of a socket's type that are its kind.
const SOCKET_KIND: u64 = 0xf;

/// The flags of clone(2) for namespaces.
const NAMESPACES: c_int =
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

/// Control requests: files that share blocks, the state of sockets and terminals, names of network
/// interfaces.
const REQUESTS: &[c_ulong] = &[
    FICLONE,
    FICLONERANGE,
    FS_IOC_GETFLAGS as _,
    FS_IOC_GETVERSION as _,
    FIONREAD,
    FIONBIO,
    FIOCLEX,
    TCGETS,
    SIOCGIFINDEX,
    SIOCGIFNAME,
];

/// Options of prctl(2): the name of a thread, and questions.
const PROCESS_OPTIONS: &[c_int] =
    &[PR_SET_NAME, PR_GET_NAME, PR_CAPBSET_READ, PR_GET_NO_NEW_PRIVS, PR_SET_VMA, PR_GET_DUMPABLE];

/// Returns the number of calls that are allowed.
pub(super) fn count() -> usize {
    rules().map(|rules| rules.len()).unwrap_or_default()
}

/// Restricts this thread, and all that it starts.
///
/// # Errors
/// The kernel has no such filter.
pub(super) fn restrict() -> anyhow::Result<()> {
    let architecture = std::env::consts::ARCH.try_into().context("the processor")?;
    let missing = SeccompAction::Errno(ENOSYS.unsigned_abs());
    let filter = SeccompFilter::new(rules()?, missing, SeccompAction::Allow, architecture)?;
    let program: BpfProgram = filter.try_into()?;
    Ok(seccompiler::apply_filter(&program)?)
}

/// Returns the conditions for each call; without any it is always allowed.
fn rules() -> anyhow::Result<BTreeMap<c_long, Vec<SeccompRule>>> {
    let mut rules: BTreeMap<_, Vec<_>> =
        ALLOWED.iter().chain(OLDER).map(|call| (*call, Vec::new())).collect();
    // New threads, but no processes. glibc uses clone3, whose flags a filter cannot see, only where
    // it is there.
    let thread = CLONE_THREAD as u64;
    rules.insert(SYS_clone, vec![rule(&[masked(0, thread | NAMESPACES as u64, thread)])?]);
    // Sockets of the network and of this machine, but no raw packets.
    let kinds = [SOCK_STREAM, SOCK_DGRAM];
    let mut sockets =
        vec![rule(&[equal(0, AF_UNIX)])?, rule(&[equal(0, AF_NETLINK), equal(2, NETLINK_ROUTE)])?];
    // The owner of a connection, for servers of trials.
    sockets.push(rule(&[equal(0, AF_NETLINK), equal(2, NETLINK_SOCK_DIAG)])?);
    for family in [AF_INET, AF_INET6] {
        for kind in kinds {
            sockets.push(rule(&[equal(0, family), masked(1, SOCKET_KIND, kind as u64)])?);
        }
    }
    rules.insert(SYS_socket, sockets);
    rules.insert(SYS_socketpair, vec![rule(&[equal(0, AF_UNIX)])?]);
    rules.insert(SYS_ioctl, each(1, REQUESTS.iter().copied())?);
    rules.insert(SYS_prctl, each(0, PROCESS_OPTIONS.iter().map(|option| *option as u64))?);
    // The limits and the signals of this process alone.
    let pid = u64::from(std::process::id());
    rules.insert(SYS_prlimit64, each(0, [0, pid])?);
    rules.insert(SYS_tgkill, each(0, [pid])?);
    Ok(rules)
}

type Condition = (u8, SeccompCmpOp, u64);

fn equal(argument: u8, value: c_int) -> Condition {
    (argument, SeccompCmpOp::Eq, value as u64)
}

fn masked(argument: u8, mask: u64, value: u64) -> Condition {
    (argument, SeccompCmpOp::MaskedEq(mask), value)
}

/// Makes the rule that all conditions hold, for the lower half of the arguments: the kernel ignores
/// the other half of these.
fn rule(conditions: &[Condition]) -> anyhow::Result<SeccompRule> {
    let condition = |(argument, operator, value): &Condition| {
        SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, operator.clone(), *value)
    };
    Ok(SeccompRule::new(conditions.iter().map(condition).collect::<Result<_, _>>()?)?)
}

/// Makes a rule for each value of an argument.
fn each(argument: u8, values: impl IntoIterator<Item = u64>) -> anyhow::Result<Vec<SeccompRule>> {
    values.into_iter().map(|value| rule(&[(argument, SeccompCmpOp::Eq, value)])).collect()
}
