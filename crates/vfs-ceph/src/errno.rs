//! From the library's errors to the backend's.

use ceph::CephErrno;
use vfs::VfsError;

/// Maps an error to its general meaning for a client; some operations give it another one.
pub(crate) fn vfs_error(error: CephErrno) -> VfsError {
    match error.number() {
        libc::EPERM => VfsError::Perm,
        libc::ENOENT => VfsError::Noent,
        libc::EACCES | libc::EBUSY => VfsError::Access,
        libc::EEXIST => VfsError::Exist,
        libc::EXDEV => VfsError::Xdev,
        libc::ENOTDIR => VfsError::Notdir,
        libc::EISDIR => VfsError::Isdir,
        libc::EINVAL => VfsError::Inval,
        libc::EFBIG | libc::EOVERFLOW => VfsError::Fbig,
        libc::ENOSPC => VfsError::Nospc,
        libc::EROFS => VfsError::Rofs,
        libc::EMLINK => VfsError::Mlink,
        libc::ENAMETOOLONG => VfsError::Nametoolong,
        libc::ENOTEMPTY => VfsError::Notempty,
        libc::EDQUOT => VfsError::Dquot,
        libc::ESTALE => VfsError::Stale,
        libc::EOPNOTSUPP | libc::ENOSYS => VfsError::Notsupp,
        libc::ELOOP => VfsError::Symlink,
        libc::ENOMEM => VfsError::Exhausted,
        libc::EAGAIN | libc::EINTR | libc::ETIMEDOUT => VfsError::Delay,
        // The cluster has evicted this gateway, which ends soon. An error would cost a client the
        // state that it reclaims, and its program the data that it writes.
        libc::ESHUTDOWN => VfsError::Delay,
        other => VfsError::Os(other),
    }
}
