//! Declarations of libcephfs, for Linux on 64-bit machines.
//!
//! Source: `cephfs/libcephfs.h` and `cephfs/ceph_ll_client.h` of Ceph 16.2.15, which 18.2.7 has not
//! changed, and `struct ceph_ll_io_info` of 20.2.4.

use crate::loading::library;
use libc::{c_char, c_int, c_uint, c_void, dev_t, flock, gid_t, mode_t, size_t, statvfs, timespec, uid_t};

/// `struct ceph_mount_info`, a mount.
#[repr(C)]
#[derive(Debug)]
pub(super) struct MountInfo([u8; 0]);

/// `struct Inode`, a referenced object.
#[repr(C)]
#[derive(Debug)]
pub(super) struct RawInode([u8; 0]);

/// `struct Fh`, an open file.
#[repr(C)]
#[derive(Debug)]
pub(super) struct RawFh([u8; 0]);

/// `struct ceph_dir_result`, an open directory.
#[repr(C)]
#[derive(Debug)]
pub(super) struct DirResult([u8; 0]);

/// `struct UserPerm`, a caller with groups.
#[repr(C)]
#[derive(Debug)]
pub(super) struct UserPerm([u8; 0]);

/// `vinodeno_t`, the numbers of an object.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Vinode {
    pub(super) ino: u64,
    pub(super) snapid: u64,
}

/// `struct ceph_statx`. A field is valid if its bit in the mask is set.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Statx {
    pub(super) mask: u32,
    pub(super) blksize: u32,
    pub(super) nlink: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) mode: u16,
    pub(super) ino: u64,
    pub(super) size: u64,
    pub(super) blocks: u64,
    pub(super) dev: dev_t,
    pub(super) rdev: dev_t,
    pub(super) atime: timespec,
    pub(super) ctime: timespec,
    pub(super) mtime: timespec,
    pub(super) btime: timespec,
    pub(super) version: u64,
}

impl Statx {
    pub(super) const EMPTY: Self = {
        let never = timespec { tv_sec: 0, tv_nsec: 0 };
        Self {
            mask: 0,
            blksize: 0,
            nlink: 0,
            uid: 0,
            gid: 0,
            mode: 0,
            ino: 0,
            size: 0,
            blocks: 0,
            dev: 0,
            rdev: 0,
            atime: never,
            ctime: never,
            mtime: never,
            btime: never,
            version: 0,
        }
    };
}

/// `CEPH_STATX_*`: the fields of `Statx` that a call asks for.
pub(super) mod statx {
    use libc::c_uint;
    pub(in crate::fs) const SIZE: c_uint = 0x200;
    pub(in crate::fs) const BTIME: c_uint = 0x800;
    pub(in crate::fs) const ALL_STATS: c_uint = 0x1fff;
    /// The flag `AT_STATX_DONT_SYNC`: attributes that the library has are good enough.
    pub(in crate::fs) const DONT_SYNC: c_uint = 0x4000;
}

/// `CEPH_SETATTR_*`: the fields of `Statx` that a call sets.
pub(super) mod setattr {
    pub(in crate::fs) const MODE: i32 = 1 << 0;
    pub(in crate::fs) const UID: i32 = 1 << 1;
    pub(in crate::fs) const GID: i32 = 1 << 2;
    pub(in crate::fs) const MTIME: i32 = 1 << 3;
    pub(in crate::fs) const ATIME: i32 = 1 << 4;
    pub(in crate::fs) const SIZE: i32 = 1 << 5;
    pub(in crate::fs) const MTIME_NOW: i32 = 1 << 7;
    pub(in crate::fs) const ATIME_NOW: i32 = 1 << 8;
}

/// `CEPH_DELEGATION_*`, kinds of delegations.
pub(super) mod delegation {
    use libc::c_uint;
    pub(in crate::fs) const NONE: c_uint = 0;
    pub(in crate::fs) const READ: c_uint = 1;
    pub(in crate::fs) const WRITE: c_uint = 2;
}

/// `CEPH_RECLAIM_RESET`: the state of the predecessor is dropped.
pub(super) const RECLAIM_RESET: c_uint = 1;

/// `ceph_deleg_cb_t`, called for a recall.
pub(super) type Recall = unsafe extern "C" fn(*mut RawFh, *mut c_void);

/// `struct ceph_client_callback_args`. Callbacks that are `None` are ignored.
#[repr(C)]
#[derive(Debug)]
pub(super) struct CallbackArgs {
    pub(super) handle: *mut c_void,
    pub(super) ino_cb: Option<unsafe extern "C" fn(*mut c_void, Vinode, i64, i64)>,
    pub(super) dentry_cb: Option<unsafe extern "C" fn(*mut c_void, Vinode, Vinode, *const c_char, size_t)>,
    pub(super) switch_intr_cb: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
    pub(super) remount_cb: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    pub(super) umask_cb: Option<unsafe extern "C" fn(*mut c_void) -> mode_t>,
    pub(super) ino_release_cb: Option<unsafe extern "C" fn(*mut c_void, Vinode)>,
}

/// `struct ceph_ll_io_info`, a non-blocking request.
#[repr(C)]
pub(super) struct IoInfo {
    pub(super) callback: unsafe extern "C" fn(*mut IoInfo),
    pub(super) private: *mut c_void,
    pub(super) fh: *mut RawFh,
    pub(super) iov: *const libc::iovec,
    pub(super) iovcnt: c_int,
    pub(super) off: i64,
    pub(super) result: i64,
    pub(super) write: bool,
    pub(super) fsync: bool,
    pub(super) syncdataonly: bool,
}

library! {
    /// The functions of libcephfs.
    struct Functions { file: "libcephfs.so.2", package: "libcephfs2", needed: 16 }
    required {
        fn ceph_version(*mut c_int, *mut c_int, *mut c_int) -> *const c_char;
        fn ceph_create(*mut *mut MountInfo, *const c_char) -> c_int;
        fn ceph_conf_read_file(*mut MountInfo, *const c_char) -> c_int;
        fn ceph_conf_set(*mut MountInfo, *const c_char, *const c_char) -> c_int;
        fn ceph_conf_get(*mut MountInfo, *const c_char, *mut c_char, size_t) -> c_int;
        fn ceph_select_filesystem(*mut MountInfo, *const c_char) -> c_int;
        fn ceph_ll_register_callbacks(*mut MountInfo, *mut CallbackArgs);
        fn ceph_set_session_timeout(*mut MountInfo, c_uint);
        fn ceph_set_uuid(*mut MountInfo, *const c_char);
        fn ceph_init(*mut MountInfo) -> c_int;
        fn ceph_start_reclaim(*mut MountInfo, *const c_char, c_uint) -> c_int;
        fn ceph_finish_reclaim(*mut MountInfo);
        fn ceph_mount(*mut MountInfo, *const c_char) -> c_int;
        fn ceph_getaddrs(*mut MountInfo, *mut *mut c_char) -> c_int;
        fn ceph_get_fs_cid(*mut MountInfo) -> i64;
        fn ceph_unmount(*mut MountInfo) -> c_int;
        fn ceph_release(*mut MountInfo) -> c_int;
        fn ceph_userperm_new(uid_t, gid_t, c_int, *mut gid_t) -> *mut UserPerm;
        fn ceph_userperm_destroy(*mut UserPerm);
        fn ceph_ll_lookup_root(*mut MountInfo, *mut *mut RawInode) -> c_int;
        fn ceph_ll_lookup_vino(*mut MountInfo, Vinode, *mut *mut RawInode) -> c_int;
        fn ceph_ll_lookup(
            *mut MountInfo, *mut RawInode, *const c_char, *mut *mut RawInode, *mut Statx, c_uint, c_uint, *const UserPerm,
        ) -> c_int;
        fn ceph_ll_put(*mut MountInfo, *mut RawInode) -> c_int;
        fn ceph_ll_getattr(*mut MountInfo, *mut RawInode, *mut Statx, c_uint, c_uint, *const UserPerm) -> c_int;
        fn ceph_ll_setattr(*mut MountInfo, *mut RawInode, *mut Statx, c_int, *const UserPerm) -> c_int;
        fn ceph_ll_readlink(*mut MountInfo, *mut RawInode, *mut c_char, size_t, *const UserPerm) -> c_int;
        fn ceph_ll_getxattr(
            *mut MountInfo, *mut RawInode, *const c_char, *mut c_void, size_t, *const UserPerm,
        ) -> c_int;
        fn ceph_ll_setxattr(
            *mut MountInfo, *mut RawInode, *const c_char, *const c_void, size_t, c_int, *const UserPerm,
        ) -> c_int;
        fn ceph_ll_listxattr(
            *mut MountInfo, *mut RawInode, *mut c_char, size_t, *mut size_t, *const UserPerm,
        ) -> c_int;
        fn ceph_ll_removexattr(*mut MountInfo, *mut RawInode, *const c_char, *const UserPerm) -> c_int;
        fn ceph_ll_create(
            *mut MountInfo, *mut RawInode, *const c_char, mode_t, c_int, *mut *mut RawInode, *mut *mut RawFh, *mut Statx,
            c_uint, c_uint, *const UserPerm,
        ) -> c_int;
        fn ceph_ll_mknod(
            *mut MountInfo, *mut RawInode, *const c_char, mode_t, dev_t, *mut *mut RawInode, *mut Statx, c_uint, c_uint,
            *const UserPerm,
        ) -> c_int;
        fn ceph_ll_mkdir(
            *mut MountInfo, *mut RawInode, *const c_char, mode_t, *mut *mut RawInode, *mut Statx, c_uint, c_uint,
            *const UserPerm,
        ) -> c_int;
        fn ceph_ll_symlink(
            *mut MountInfo, *mut RawInode, *const c_char, *const c_char, *mut *mut RawInode, *mut Statx, c_uint, c_uint,
            *const UserPerm,
        ) -> c_int;
        fn ceph_ll_link(*mut MountInfo, *mut RawInode, *mut RawInode, *const c_char, *const UserPerm) -> c_int;
        fn ceph_ll_rename(
            *mut MountInfo, *mut RawInode, *const c_char, *mut RawInode, *const c_char, *const UserPerm,
        ) -> c_int;
        fn ceph_ll_unlink(*mut MountInfo, *mut RawInode, *const c_char, *const UserPerm) -> c_int;
        fn ceph_ll_rmdir(*mut MountInfo, *mut RawInode, *const c_char, *const UserPerm) -> c_int;
        fn ceph_sync_fs(*mut MountInfo) -> c_int;
        fn ceph_ll_statfs(*mut MountInfo, *mut RawInode, *mut statvfs) -> c_int;
        fn ceph_ll_sync_inode(*mut MountInfo, *mut RawInode, c_int) -> c_int;
        fn ceph_ll_opendir(*mut MountInfo, *mut RawInode, *mut *mut DirResult, *const UserPerm) -> c_int;
        fn ceph_ll_releasedir(*mut MountInfo, *mut DirResult) -> c_int;
        fn ceph_seekdir(*mut MountInfo, *mut DirResult, i64);
        fn ceph_readdirplus_r(
            *mut MountInfo, *mut DirResult, *mut libc::dirent64, *mut Statx, c_uint, c_uint, *mut *mut RawInode,
        ) -> c_int;
        fn ceph_ll_open(*mut MountInfo, *mut RawInode, c_int, *mut *mut RawFh, *const UserPerm) -> c_int;
        fn ceph_ll_close(*mut MountInfo, *mut RawFh) -> c_int;
        fn ceph_ll_read(*mut MountInfo, *mut RawFh, i64, u64, *mut c_char) -> c_int;
        fn ceph_ll_write(*mut MountInfo, *mut RawFh, i64, u64, *const c_char) -> c_int;
        fn ceph_ll_fsync(*mut MountInfo, *mut RawFh, c_int) -> c_int;
        fn ceph_ll_fallocate(*mut MountInfo, *mut RawFh, c_int, i64, i64) -> c_int;
        fn ceph_ll_getlk(*mut MountInfo, *mut RawFh, *mut flock, u64) -> c_int;
        fn ceph_ll_setlk(*mut MountInfo, *mut RawFh, *mut flock, u64, c_int) -> c_int;
        fn ceph_set_deleg_timeout(*mut MountInfo, u32) -> c_int;
        fn ceph_get_cap_return_timeout(*mut MountInfo) -> u32;
        fn ceph_ll_delegation(*mut MountInfo, *mut RawFh, c_uint, Option<Recall>, *mut c_void) -> c_int;
    }
    optional {
        fn ceph_ll_nonblocking_readv_writev(*mut MountInfo, *mut IoInfo) -> i64;
    }
}
