//! READDIR: directories listed by the library, whose positions are good for every stream.

use crate::CephBackend;
use crate::handle::ObjectId;
use ceph::fs::SNAPSHOT_DIRECTORY;
use std::ops::ControlFlow;
use vfs::{Caller, DirEntry, Eof, ObjectHandle, VfsError, VfsResult};

/// Cookies 0, 1 and 2 are reserved (RFC 8881 section 18.23.3): each cookie is a position and this
/// number.
const RESERVED: u64 = 3;

/// Returns the position of a cookie.
///
/// # Errors
/// `BadCookie` for a number that is never a cookie.
fn position(cookie: u64) -> VfsResult<i64> {
    match cookie {
        0 => Ok(0),
        _ => {
            let position = cookie.checked_sub(RESERVED).ok_or(VfsError::BadCookie)?;
            i64::try_from(position).map_err(|_| VfsError::BadCookie)
        }
    }
}

impl CephBackend {
    pub(crate) fn list(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        after: u64,
        entry: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> VfsResult<Eof> {
        let object = self.resolve_directory(directory)?;
        let start = position(after)?;
        let user = self.credentials(caller)?;
        let mut stream = object.inode.list(&user).map_err(|error| self.error_in(&object, error))?;
        if start != 0 {
            stream.seek(start).map_err(|error| self.error_in(&object, error))?;
        }
        while let Some(next) = stream.next_entry().map_err(|error| self.error_in(&object, error))? {
            if matches!(next.name, b"." | b"..") {
                continue;
            }
            // In a snapshot everything belongs to it.
            let snapshot = match object.id.snapshot {
                SNAPSHOT_DIRECTORY => next.snapshot,
                snapshot => snapshot,
            };
            let cookie = u64::try_from(next.position).unwrap_or(0).saturating_add(RESERVED);
            let fileid = ObjectId { ino: next.ino, snapshot }.fileid();
            if entry(DirEntry { cookie, name: next.name, fileid }).is_break() {
                return Ok(Eof::NotReached);
            }
        }
        // An empty listing may also be that of a removed directory.
        self.stat(&object).map(|_| Eof::Reached)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_and_too_large_numbers_are_no_cookies() // RFC 8881 section 18.23.3
    {
        assert_eq!((position(0), position(RESERVED), position(RESERVED + 5)), (Ok(0), Ok(0), Ok(5)));
        for wrong in [1, 2, u64::MAX] {
            assert_eq!(position(wrong), Err(VfsError::BadCookie));
        }
    }
}
