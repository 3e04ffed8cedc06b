//! READDIR: directories listed by getdents64(2).

use crate::{
    LocalBackend,
    errno::{retry, vfs_error},
};
use rustix::{
    fs::{OFlags, RawDir, SeekFrom, seek},
    io::Errno,
};
use std::{mem::MaybeUninit, ops::ControlFlow};
use vfs::{Caller, DirEntry, Eof, ObjectHandle, VfsError, VfsResult};

/// Bytes of entries taken from the kernel at once.
const BUFFER: usize = 16 * 1024;
/// Cookies 0, 1 and 2 are reserved (RFC 8881 section 18.23.3): positions with these numbers are
/// moved here, where no file system has any.
const MOVED: u64 = i64::MAX as u64 - 15;
const RESERVED: u64 = 2;

/// Returns the cookie of a position in a directory.
fn cookie(position: u64) -> u64 {
    if position <= RESERVED { MOVED + position } else { position }
}

/// Returns the position of a cookie.
///
/// # Errors
/// `BadCookie` for a number that is never a cookie.
fn position(cookie: u64) -> VfsResult<u64> {
    match cookie {
        0 => Ok(0),
        1..=RESERVED => Err(VfsError::BadCookie),
        _ if (MOVED..=MOVED + RESERVED).contains(&cookie) => Ok(cookie - MOVED),
        _ if cookie > i64::MAX as u64 => Err(VfsError::BadCookie),
        _ => Ok(cookie),
    }
}

impl LocalBackend {
    pub(crate) fn list(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        after: u64,
        entry: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> VfsResult<Eof> {
        let object = self.resolve_directory(directory)?;
        let start = position(after)?;
        self.act_as(caller)?;
        let fd = self.reopen(&*object, OFlags::RDONLY | OFlags::DIRECTORY).map_err(vfs_error)?;
        if start != 0 {
            seek(&fd, SeekFrom::Start(start)).map_err(|errno| match errno {
                Errno::INVAL => VfsError::BadCookie,
                other => vfs_error(other),
            })?;
        }
        let numbers = self.numbers_in(&fd);
        let mut buffer = [const { MaybeUninit::uninit() }; BUFFER];
        let mut entries = RawDir::new(&fd, &mut buffer);
        while let Some(next) = entries.next() {
            let next = match next {
                Ok(next) => next,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(self.error_in(&object, errno)),
            };
            let name = next.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let item = DirEntry { cookie: cookie(next.next_entry_cookie()), name, fileid: numbers.of(&next) };
            if entry(item).is_break() {
                return Ok(Eof::NotReached);
            }
        }
        self.end_of(&object)
    }

    /// An empty listing may also be that of a removed directory.
    fn end_of(&self, directory: &crate::cached_object::CachedObject) -> VfsResult<Eof> {
        let stat = retry(|| crate::attributes::stat_fd(directory)).map_err(vfs_error)?;
        if stat.stx_nlink == 0 { Err(VfsError::Stale) } else { Ok(Eof::Reached) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_and_cookies_are_one_to_one_and_avoid_the_reserved_ones() {
        for at in [0, 1, 2, 3, 1 << 40, i64::MAX as u64] {
            let cookie = cookie(at);
            assert!(cookie > RESERVED && i64::try_from(cookie).is_ok());
            assert_eq!(position(cookie), Ok(at));
        }
        assert_eq!(position(0), Ok(0));
        for wrong in [1, 2, u64::MAX, 1 << 63] {
            assert_eq!(position(wrong), Err(VfsError::BadCookie));
        }
    }
}
