//! Failures of exported file systems, by their numbers (errno(3)).

use vfs::VfsError;

const EIO: i32 = 5;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;

/// Returns the number of an error if the file system has failed, is full or is read-only.
///
/// Refusals of a sound file system have none. A full quota is such a refusal: the user learns of
/// it, and raises no alarm.
pub(crate) fn of_failure(error: VfsError) -> Option<i32> {
    match error {
        VfsError::Io => Some(EIO),
        VfsError::Nospc => Some(ENOSPC),
        VfsError::Rofs => Some(EROFS),
        VfsError::Os(errno) => Some(errno),
        _ => None,
    }
}

/// Returns the remedy for a failure.
pub(super) fn remedy(errno: i32) -> &'static str {
    match errno {
        ENOSPC => "free space or inodes, which df and df -i show",
        EROFS => "mount it for writing, or set `read_only`; dmesg says whether an error made it read-only",
        _ => "dmesg on the server says more",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_a_failure_and_a_full_quota_is_not() {
        assert_eq!(of_failure(VfsError::Nospc), Some(ENOSPC));
        assert_eq!(of_failure(VfsError::Os(117)), Some(117));
        assert_eq!([VfsError::Dquot, VfsError::Access].map(of_failure), [None, None]);
    }
}
