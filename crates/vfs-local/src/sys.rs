//! The system calls for which no safe wrapper exists: file handles, the thread's own identity, and
//! a bounded read into memory that nothing was written to yet.
//!
//! The C library's wrappers for identities change all threads at once; these change the calling
//! one.
#![allow(unsafe_code, reason = "system calls that rustix lacks")]

use rustix::io::Errno;
use std::{
    ffi::CStr,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

/// Bytes of an object handle before the kernel's handle: the version, the kind, the inode number.
pub(crate) const HANDLE_PREFIX: usize = 11;
/// Longest handle of a file system that fits, in bytes; ext4 has 8, xfs and tmpfs 12, btrfs up to
/// 40.
pub(crate) const FS_HANDLE_MAX: usize = vfs::OBJECT_HANDLE_MAX - HANDLE_PREFIX;

/// A handle as the kernel gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FsHandle {
    pub(crate) kind: i32,
    pub(crate) len: usize,
    pub(crate) bytes: [u8; FS_HANDLE_MAX],
}

impl FsHandle {
    /// Returns the inode number in a handle of ext4, tmpfs or xfs (`enum fid_type` of the kernel's
    /// exportfs.h); `None` for other kinds. Other file systems use the same kinds, and then the
    /// number may be a wrong one: compare it with the inode.
    pub(crate) fn ino(&self) -> Option<u64> {
        /// Generic: 32 bits of inode number, then the generation. tmpfs puts the generation first
        /// and has 64 bits.
        const INO32_GEN: i32 = 1;
        /// xfs with inode numbers of 64 bits.
        const XFS_INO64_GEN: i32 = 0x81;
        let word = |at: usize| Some(u32::from_ne_bytes(*self.bytes.get(at..)?.first_chunk()?));
        let wide = |low, high| Some(u64::from(word(low)?) | u64::from(word(high)?) << 32);
        match (self.kind, self.len) {
            (INO32_GEN, 8) => word(0).map(u64::from),
            (INO32_GEN, 12) => wide(4, 8),
            (XFS_INO64_GEN, 12) => wide(0, 4),
            _ => None,
        }
    }
}

impl FsHandle {
    /// Returns the numbers of inode and subvolume in a handle of btrfs (`struct btrfs_fid` of the
    /// kernel).
    pub(crate) fn ino_in_subvolume(&self) -> Option<(u64, u64)> {
        /// With the parent's numbers behind them or not (`enum fid_type`).
        const KINDS: std::ops::RangeInclusive<i32> = 0x4d..=0x4f;
        let (ino, rest) = self.bytes.get(..self.len)?.split_first_chunk()?;
        let numbers = (u64::from_ne_bytes(*ino), u64::from_ne_bytes(*rest.first_chunk()?));
        KINDS.contains(&self.kind).then_some(numbers)
    }
}

/// `struct file_handle` of the kernel with room for the bytes.
#[repr(C)]
struct RawHandle {
    handle_bytes: libc::c_uint,
    handle_type: libc::c_int,
    f_handle: [u8; FS_HANDLE_MAX],
}

/// Returns the handle of a name in a directory, not following a symbolic link, and the number of
/// the mount that the object is on.
pub(crate) fn name_to_handle(directory: BorrowedFd<'_>, name: &CStr) -> Result<(FsHandle, i32), Errno> {
    to_handle(directory, name, 0)
}

/// Returns the handle of the object that a descriptor refers to.
pub(crate) fn fd_to_handle(fd: BorrowedFd<'_>) -> Result<FsHandle, Errno> {
    to_handle(fd, c"", libc::AT_EMPTY_PATH).map(|(handle, _)| handle)
}

fn to_handle(directory: BorrowedFd<'_>, name: &CStr, flags: libc::c_int) -> Result<(FsHandle, i32), Errno> {
    let mut raw =
        RawHandle { handle_bytes: FS_HANDLE_MAX as u32, handle_type: 0, f_handle: [0; FS_HANDLE_MAX] };
    let mut mount_id: libc::c_int = 0;
    // SAFETY: the descriptor is open for the call, the name ends in NUL, `raw` begins like the
    // kernel's struct and has as many bytes behind as `handle_bytes` says; both pointers are valid
    // for writes.
    let result = unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            directory.as_raw_fd(),
            name.as_ptr(),
            &raw mut raw,
            &raw mut mount_id,
            flags,
        )
    };
    check(result)?;
    let len = (raw.handle_bytes as usize).min(FS_HANDLE_MAX);
    Ok((FsHandle { kind: raw.handle_type, len, bytes: raw.f_handle }, mount_id))
}

/// Opens a handle's object as an O_PATH descriptor; needs CAP_DAC_READ_SEARCH in the effective set.
pub(crate) fn open_by_handle(mount: BorrowedFd<'_>, handle: &FsHandle) -> Result<OwnedFd, Errno> {
    let mut raw = RawHandle {
        handle_bytes: handle.len.min(FS_HANDLE_MAX) as u32,
        handle_type: handle.kind,
        f_handle: handle.bytes,
    };
    let flags = libc::O_PATH | libc::O_CLOEXEC | libc::O_NOFOLLOW;
    // SAFETY: the descriptor is open for the call; `raw` begins like the kernel's struct and has at
    // least `handle_bytes` bytes behind.
    let result =
        unsafe { libc::syscall(libc::SYS_open_by_handle_at, mount.as_raw_fd(), &raw mut raw, flags) };
    let fd = check(result)?;
    // SAFETY: the kernel has just given this descriptor to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

/// Returns whether the handles of a file system with this magic number have the inode number where
/// [`FsHandle::ino`] looks for it.
pub(crate) fn handles_have_ino(file_system: i64) -> bool {
    const EXT4: i64 = 0xef53;
    const XFS: i64 = 0x5846_5342;
    const TMPFS: i64 = 0x0102_1994;
    matches!(file_system, EXT4 | XFS | TMPFS)
}

/// Appends at most `count` bytes from an offset; returns how many.
pub(crate) fn append(
    file: BorrowedFd<'_>,
    into: &mut Vec<u8>,
    count: usize,
    offset: u64,
) -> Result<usize, Errno> {
    into.reserve(count);
    let spare = into.spare_capacity_mut();
    let room = spare.len().min(count);
    let (read, _) = rustix::io::pread(file, &mut spare[..room], offset)?;
    let length = read.len();
    // SAFETY: the call has written that many bytes behind the vector's end, within its capacity.
    unsafe { into.set_len(into.len() + length) };
    Ok(length)
}

/// As `append`, with `AGAIN` for data that would have to be waited for.
pub(crate) fn append_now(
    file: BorrowedFd<'_>,
    into: &mut Vec<u8>,
    count: usize,
    offset: u64,
) -> Result<usize, Errno> {
    into.reserve(count);
    let spare = into.spare_capacity_mut();
    let place = libc::iovec { iov_base: spare.as_mut_ptr().cast(), iov_len: spare.len().min(count) };
    let offset = libc::off_t::try_from(offset).map_err(|_| Errno::INVAL)?;
    // SAFETY: the descriptor is open for the call, and `place` is spare capacity of the vector,
    // which is borrowed mutably; the kernel writes at most its length.
    let read = unsafe { libc::preadv2(file.as_raw_fd(), &raw const place, 1, offset, libc::RWF_NOWAIT) };
    let length = usize::try_from(check(read as libc::c_long)?).unwrap_or(0);
    // SAFETY: the call has written that many bytes behind the vector's end, within its capacity.
    unsafe { into.set_len(into.len() + length) };
    Ok(length)
}

/// The bytes of one file to share with another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CloneRange {
    pub(crate) source_offset: u64,
    /// 0: up to the end of the source.
    pub(crate) count: u64,
    pub(crate) offset: u64,
}

/// Makes a range of `target` share the blocks of `source`.
pub(crate) fn clone_range(
    source: BorrowedFd<'_>,
    target: BorrowedFd<'_>,
    range: &CloneRange,
) -> Result<(), Errno> {
    let raw = libc::file_clone_range {
        src_fd: i64::from(source.as_raw_fd()),
        src_offset: range.source_offset,
        src_length: range.count,
        dest_offset: range.offset,
    };
    // SAFETY: both descriptors are open for the call, and the kernel reads one struct of this type.
    let result = unsafe { libc::ioctl(target.as_raw_fd(), libc::FICLONERANGE, &raw const raw) };
    check(result.into()).map(|_| ())
}

/// Asks whether the thread's file system identity has all the rights (R_OK, W_OK, X_OK) to an
/// object.
pub(crate) fn access(fd: BorrowedFd<'_>, rights: libc::c_int) -> Result<(), Errno> {
    let flags = libc::AT_EMPTY_PATH | libc::AT_EACCESS;
    // SAFETY: the descriptor is open for the call and the path is a NUL-terminated constant.
    let result = unsafe { libc::syscall(libc::SYS_faccessat2, fd.as_raw_fd(), c"".as_ptr(), rights, flags) };
    check(result).map(|_| ())
}

/// Sets the calling thread's file system user and returns whether the kernel took it.
pub(crate) fn set_fs_uid(uid: u32) -> bool {
    // SAFETY: setfsuid takes a number and touches no memory; the second call, with the invalid
    // number -1, changes nothing and returns the user in force.
    unsafe {
        libc::syscall(libc::SYS_setfsuid, uid);
        libc::syscall(libc::SYS_setfsuid, u32::MAX) as u32 == uid
    }
}

/// Sets the calling thread's file system group and returns whether the kernel took it.
pub(crate) fn set_fs_gid(gid: u32) -> bool {
    // SAFETY: as in `set_fs_uid`.
    unsafe {
        libc::syscall(libc::SYS_setfsgid, gid);
        libc::syscall(libc::SYS_setfsgid, u32::MAX) as u32 == gid
    }
}

/// Sets the calling thread's effective user, and with it that of file systems, and returns whether
/// the kernel took it.
pub(crate) fn set_effective_uid(uid: u32) -> bool {
    // SAFETY: setresuid takes numbers and touches no memory; -1 leaves the real and the saved user.
    unsafe { libc::syscall(libc::SYS_setresuid, u32::MAX, uid, u32::MAX) == 0 }
}

/// Sets the calling thread's effective group, and with it that of file systems, and returns whether
/// the kernel took it.
pub(crate) fn set_effective_gid(gid: u32) -> bool {
    // SAFETY: as in `set_effective_uid`.
    unsafe { libc::syscall(libc::SYS_setresgid, u32::MAX, gid, u32::MAX) == 0 }
}

/// The owner of a quota: a user or a group.
#[derive(Clone, Copy, Debug)]
pub(crate) enum QuotaKind {
    User,
    Group,
}

/// Usage and limits of a quota in bytes; a limit of 0 is none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    pub(crate) used: u64,
    pub(crate) soft: u64,
    pub(crate) hard: u64,
}

/// Returns the quota of a user or a group on the file system of a descriptor. The kernel reports to
/// the thread's effective user its own quota and those of its groups (Linux 5.14).
pub(crate) fn quota(root: BorrowedFd<'_>, kind: QuotaKind, number: u32) -> Result<Counted, Errno> {
    /// Unit of the limits in bytes.
    const BLOCK: u64 = 1024;
    let kind = match kind {
        QuotaKind::User => libc::USRQUOTA,
        QuotaKind::Group => libc::GRPQUOTA,
    };
    let command = libc::QCMD(libc::Q_GETQUOTA, kind);
    let mut raw = std::mem::MaybeUninit::<libc::dqblk>::zeroed();
    // SAFETY: the descriptor is open for the call, and the kernel writes at most one struct of this
    // type.
    let result =
        unsafe { libc::syscall(libc::SYS_quotactl_fd, root.as_raw_fd(), command, number, raw.as_mut_ptr()) };
    check(result)?;
    // SAFETY: it is made of numbers, for which zeros are fine, and the call has succeeded.
    let raw = unsafe { raw.assume_init() };
    Ok(Counted {
        used: raw.dqb_curspace,
        soft: raw.dqb_bsoftlimit.saturating_mul(BLOCK),
        hard: raw.dqb_bhardlimit.saturating_mul(BLOCK),
    })
}

/// Sets the calling thread's supplementary groups.
pub(crate) fn set_groups(groups: &[u32]) -> Result<(), Errno> {
    // SAFETY: pointer and length describe one slice of 32-bit numbers, and gid_t of Linux has 32
    // bits.
    let result = unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) };
    check(result).map(|_| ())
}

fn check(result: libc::c_long) -> Result<libc::c_long, Errno> {
    if result >= 0 {
        return Ok(result);
    }
    let errno = std::io::Error::last_os_error();
    Err(Errno::from_io_error(&errno).unwrap_or(Errno::IO))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn the_inode_number_in_a_handle_is_that_of_the_object() {
        let mut known = 0;
        for folder in ["/dev/shm".into(), std::env::temp_dir()] {
            let file = tempfile::tempfile_in(&folder).unwrap();
            let Ok(handle) = fd_to_handle(file.as_fd()) else { continue };
            let stat = rustix::fs::fstat(&file).unwrap();
            if let Some(ino) = handle.ino() {
                assert_eq!(ino, stat.st_ino, "{handle:?} in {folder:?}");
                known += 1;
            }
        }
        assert!(known > 0, "tmpfs is known");
    }
}
