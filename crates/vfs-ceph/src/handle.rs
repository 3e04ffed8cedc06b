//! The handles that clients carry: inode and snapshot number, equal on every gateway.

use ceph::fs::NO_SNAPSHOT;
use vfs::{ObjectHandle, VfsError, VfsResult};

/// Tells this layout from others.
const VERSION: u8 = 0xc1;
/// The numbers that name an object. Ceph never gives an inode number to another object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ObjectId {
    pub(crate) ino: u64,
    pub(crate) snapshot: u64,
}

impl ObjectId {
    /// Returns whether the object is part of the file system as it is now.
    pub(crate) fn is_current(self) -> bool {
        self.snapshot == NO_SNAPSHOT
    }

    /// Returns the number that is unique in the export: snapshots share inode numbers. These grow
    /// from 2^40 on, and snapshot numbers from 1, so that the latter fill the bits from the top.
    pub(crate) fn fileid(self) -> u64 {
        if self.is_current() { self.ino } else { self.ino ^ self.snapshot.reverse_bits() }
    }

    /// Packs a handle: 9 bytes, or 17 for an object of a snapshot.
    pub(crate) fn handle(self) -> ObjectHandle {
        let mut bytes = [0; 17];
        bytes[0] = VERSION;
        bytes[1..9].copy_from_slice(&self.ino.to_be_bytes());
        bytes[9..].copy_from_slice(&self.snapshot.to_be_bytes());
        let length = if self.is_current() { 9 } else { bytes.len() };
        ObjectHandle::new(&bytes[..length]).unwrap_or(ObjectHandle::empty())
    }

    /// Unpacks a handle that a client sent.
    ///
    /// # Errors
    /// `Badhandle` for bytes that this backend cannot have made.
    pub(crate) fn of(handle: &ObjectHandle) -> VfsResult<Self> {
        let Some((&VERSION, numbers)) = handle.as_bytes().split_first() else {
            return Err(VfsError::Badhandle);
        };
        let (ino, rest) = numbers.split_first_chunk().ok_or(VfsError::Badhandle)?;
        let snapshot = match rest {
            [] => NO_SNAPSHOT,
            rest => u64::from_be_bytes(rest.try_into().map_err(|_| VfsError::Badhandle)?),
        };
        let id = Self { ino: u64::from_be_bytes(*ino), snapshot };
        // One object has one handle.
        if id.handle() == *handle { Ok(id) } else { Err(VfsError::Badhandle) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ceph::fs::SNAPSHOT_DIRECTORY;

    #[test]
    fn a_handle_comes_back_as_it_went() {
        for snapshot in [NO_SNAPSHOT, SNAPSHOT_DIRECTORY, 2, 1 << 40] {
            let id = ObjectId { ino: 0x100_0000_01f5, snapshot };
            assert_eq!(ObjectId::of(&id.handle()), Ok(id));
        }
    }

    #[test]
    fn bytes_of_another_layout_are_a_bad_handle() {
        let long_form = [&[VERSION][..], &[0; 8], &NO_SNAPSHOT.to_be_bytes()].concat();
        for bytes in [&[][..], &[VERSION; 8], &[VERSION; 10], &[1; 9], &[VERSION; 18], &long_form] {
            assert_eq!(
                ObjectId::of(&ObjectHandle::new(bytes).unwrap()),
                Err(VfsError::Badhandle),
                "{bytes:?}"
            );
        }
    }

    #[test]
    fn fileids_of_snapshots_differ_from_each_other_and_from_the_present() {
        let ids = [NO_SNAPSHOT, SNAPSHOT_DIRECTORY, 1, 2, 3, 65_000];
        let fileids: std::collections::HashSet<u64> =
            ids.into_iter().map(|snapshot| ObjectId { ino: 0x100_0000_01f5, snapshot }.fileid()).collect();
        assert_eq!(fileids.len(), ids.len());
    }
}
