//! From the kernel's errors to the backend's.

use rustix::io::Errno;
use vfs::VfsError;

/// Maps an error to its general meaning for a client; some operations give it another one.
pub(crate) fn vfs_error(errno: Errno) -> VfsError {
    match errno {
        Errno::PERM => VfsError::Perm,
        Errno::NOENT => VfsError::Noent,
        // A mount point or a running program in the way: waiting does not help.
        Errno::ACCESS | Errno::BUSY | Errno::TXTBSY => VfsError::Access,
        Errno::EXIST => VfsError::Exist,
        Errno::XDEV => VfsError::Xdev,
        Errno::NOTDIR => VfsError::Notdir,
        Errno::ISDIR => VfsError::Isdir,
        Errno::INVAL => VfsError::Inval,
        Errno::FBIG | Errno::OVERFLOW => VfsError::Fbig,
        Errno::NOSPC => VfsError::Nospc,
        Errno::ROFS => VfsError::Rofs,
        Errno::MLINK => VfsError::Mlink,
        Errno::NAMETOOLONG => VfsError::Nametoolong,
        Errno::NOTEMPTY => VfsError::Notempty,
        Errno::DQUOT => VfsError::Dquot,
        Errno::STALE => VfsError::Stale,
        Errno::OPNOTSUPP | Errno::NOSYS => VfsError::Notsupp,
        Errno::ILSEQ => VfsError::Badname,
        Errno::LOOP => VfsError::Symlink,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM => VfsError::Exhausted,
        Errno::NOLCK | Errno::AGAIN | Errno::INTR => VfsError::Delay,
        other => VfsError::Os(other.raw_os_error()),
    }
}

/// Maps an error of fsync(2) and syncfs(2). It tells of written data, also where it is one that
/// other calls return before they do anything: a file system of another machine or process says
/// here that its server has refused data (EACCES, ESTALE).
pub(crate) fn sync_error(errno: Errno) -> VfsError {
    match vfs_error(errno) {
        full @ (VfsError::Nospc | VfsError::Dquot) => full,
        _ => VfsError::Os(errno.raw_os_error()),
    }
}

/// Runs a system call again when a signal interrupted it.
pub(crate) fn uninterrupted<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

/// Runs a system call again when a signal or a concurrent rename interrupted it.
pub(crate) fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    const TRIES: usize = 16;
    for _ in 1..TRIES {
        match call() {
            Err(Errno::INTR | Errno::AGAIN) => {}
            result => return result,
        }
    }
    call()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_a_sync_is_never_one_that_is_from_before_it() // RFC 8881 section 18.3.3
    {
        let io = |errno: Errno| VfsError::Os(errno.raw_os_error());
        for errno in [Errno::IO, Errno::ACCESS, Errno::STALE, Errno::ROFS, Errno::NOMEM, Errno::NOENT] {
            assert_eq!(sync_error(errno), io(errno));
        }
        assert_eq!([Errno::NOSPC, Errno::DQUOT].map(sync_error), [VfsError::Nospc, VfsError::Dquot]);
    }
}
