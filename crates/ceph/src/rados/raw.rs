//! Declarations of librados, for Linux on 64-bit machines.
//!
//! Source: `rados/librados.h` of Ceph 16.2.15, which 20.2 has not changed in these places.

use crate::loading::library;
use libc::{c_char, c_int, c_void, size_t};

/// The comparisons `LIBRADOS_CMPXATTR_OP_EQ` and others.
pub(super) mod compare {
    pub(in crate::rados) const EQUAL: u8 = 1;
    pub(in crate::rados) const GREATER_OR_EQUAL: u8 = 4;
}

/// The flag `LIBRADOS_OPERATION_FULL_TRY` of operations.
pub(super) const FULL_TRY: libc::c_int = 64;

/// The flags `LIBRADOS_CREATE_EXCLUSIVE` and `LIBRADOS_CREATE_IDEMPOTENT`.
pub(super) mod create {
    use libc::c_int;
    pub(in crate::rados) const EXCLUSIVE: c_int = 1;
    pub(in crate::rados) const IDEMPOTENT: c_int = 0;
}

/// `rados_t`, `rados_ioctx_t` and the other handles.
pub(super) type Handle = *mut c_void;

/// The callback `rados_watchcb2_t` of notifications.
pub(super) type Notified = unsafe extern "C" fn(*mut c_void, u64, u64, u64, *mut c_void, size_t);
/// The callback `rados_watcherrcb_t` of lost watches.
pub(super) type WatchLost = unsafe extern "C" fn(*mut c_void, u64, c_int);

library! {
    /// The functions of librados.
    struct RadosFunctions { file: "librados.so.2", package: "librados2", needed: 16 }
    required {
        fn rados_create(*mut Handle, *const c_char) -> c_int;
        fn rados_conf_read_file(Handle, *const c_char) -> c_int;
        fn rados_conf_set(Handle, *const c_char, *const c_char) -> c_int;
        fn rados_conf_get(Handle, *const c_char, *mut c_char, size_t) -> c_int;
        fn rados_connect(Handle) -> c_int;
        fn rados_shutdown(Handle);
        fn rados_getaddrs(Handle, *mut *mut c_char) -> c_int;
        fn rados_wait_for_latest_osdmap(Handle) -> c_int;
        fn rados_mon_command(
            Handle, *const *const c_char, size_t, *const c_char, size_t, *mut *mut c_char, *mut size_t,
            *mut *mut c_char, *mut size_t,
        ) -> c_int;
        fn rados_buffer_free(*mut c_char);
        fn rados_ioctx_create(Handle, *const c_char, *mut Handle) -> c_int;
        fn rados_ioctx_destroy(Handle);
        fn rados_ioctx_set_namespace(Handle, *const c_char);
        fn rados_get_last_version(Handle) -> u64;
        fn rados_create_read_op() -> Handle;
        fn rados_release_read_op(Handle);
        fn rados_read_op_read(Handle, u64, size_t, *mut c_char, *mut size_t, *mut c_int);
        fn rados_read_op_omap_get_vals2(
            Handle, *const c_char, *const c_char, u64, *mut Handle, *mut u8, *mut c_int,
        );
        fn rados_read_op_getxattrs(Handle, *mut Handle, *mut c_int);
        fn rados_read_op_operate(Handle, Handle, *const c_char, c_int) -> c_int;
        fn rados_omap_get_next2(
            Handle, *mut *mut c_char, *mut *mut c_char, *mut size_t, *mut size_t,
        ) -> c_int;
        fn rados_omap_get_end(Handle);
        fn rados_getxattrs_next(Handle, *mut *const c_char, *mut *const c_char, *mut size_t) -> c_int;
        fn rados_getxattrs_end(Handle);
        fn rados_create_write_op() -> Handle;
        fn rados_release_write_op(Handle);
        fn rados_write_op_assert_version(Handle, u64);
        fn rados_write_op_assert_exists(Handle);
        fn rados_write_op_cmpxattr(Handle, *const c_char, u8, *const c_char, size_t);
        fn rados_write_op_create(Handle, c_int, *const c_char);
        fn rados_write_op_write_full(Handle, *const c_char, size_t);
        fn rados_write_op_setxattr(Handle, *const c_char, *const c_char, size_t);
        fn rados_write_op_omap_clear(Handle);
        fn rados_write_op_omap_set2(
            Handle, *const *const c_char, *const *const c_char, *const size_t, *const size_t, size_t,
        );
        fn rados_write_op_omap_rm_keys2(Handle, *const *const c_char, *const size_t, size_t);
        fn rados_write_op_remove(Handle);
        fn rados_write_op_operate(Handle, Handle, *const c_char, *mut libc::time_t, c_int) -> c_int;
        fn rados_watch3(
            Handle, *const c_char, *mut u64, Notified, Option<WatchLost>, u32, *mut c_void,
        ) -> c_int;
        fn rados_unwatch2(Handle, u64) -> c_int;
        fn rados_watch_flush(Handle) -> c_int;
        fn rados_notify_ack(Handle, *const c_char, u64, u64, *const c_char, c_int) -> c_int;
        fn rados_notify2(
            Handle, *const c_char, *const c_char, c_int, u64, *mut *mut c_char, *mut size_t,
        ) -> c_int;
    }
    optional {}
}
