//! The fileids of objects and of the entries in directories.

use crate::{LocalBackend, handle, subvolumes::fileid, sys};
use rustix::fs::{FileType, RawDirEntry};
use std::os::fd::{AsFd, OwnedFd};
use vfs::{EntryName, ObjectHandle};

impl LocalBackend {
    /// Returns the number of an object that no other object of the export has.
    pub(crate) fn fileid(&self, ino: u64, handle: &ObjectHandle) -> u64 {
        let Some(of_root) = self.subvolume else { return ino };
        let numbers = handle::decode(handle).ok().and_then(|(_, handle)| handle.ino_in_subvolume());
        numbers.map_or(ino, |(_, subvolume)| fileid(ino, subvolume, of_root))
    }

    /// Returns the numbers of the entries in a directory.
    pub(crate) fn numbers_in<'d>(&'d self, directory: &'d OwnedFd) -> EntryNumbers<'d> {
        let subvolumes = self.subvolume.map(|of_root| {
            let numbers =
                sys::fd_to_handle(directory.as_fd()).ok().and_then(|handle| handle.ino_in_subvolume());
            (numbers.map_or(of_root, |(_, subvolume)| subvolume), of_root)
        });
        EntryNumbers { backend: self, directory, subvolumes }
    }
}

/// The numbers of the entries in one directory.
#[derive(Debug)]
pub(crate) struct EntryNumbers<'d> {
    backend: &'d LocalBackend,
    directory: &'d OwnedFd,
    /// The directory's subvolume and that of the root.
    subvolumes: Option<(u64, u64)>,
}

impl EntryNumbers<'_> {
    /// Returns the fileid of an entry; below a mount, that of the covered object.
    pub(crate) fn of(&self, entry: &RawDirEntry<'_>) -> u64 {
        let Some((subvolume, of_root)) = self.subvolumes else { return entry.ino() };
        // The root of a subvolume is listed under the number of the subvolume, not of its inode.
        let found = if entry.file_type() == FileType::Directory { self.look_at(entry) } else { None };
        let (ino, subvolume) = found.unwrap_or((entry.ino(), subvolume));
        fileid(ino, subvolume, of_root)
    }

    /// Returns the numbers of inode and subvolume of an entry, without crossing a mount.
    fn look_at(&self, entry: &RawDirEntry<'_>) -> Option<(u64, u64)> {
        let name = EntryName::new(entry.file_name().to_bytes()).ok()?;
        let object = self.backend.open_name(self.directory, &name).ok()?;
        sys::fd_to_handle(object.as_fd()).ok()?.ino_in_subvolume()
    }
}
