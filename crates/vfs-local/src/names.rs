//! Finding, linking, removing and renaming.

use crate::{
    LocalBackend,
    attributes::{attributes, file_type, stat_name},
    cached_object::CachedObject,
    errno::{retry, vfs_error},
    handle,
    kind::Kind,
    sys,
};
use rustix::{
    fs::{
        AtFlags, FileType, Mode, OFlags, RenameFlags, ResolveFlags, Statx, linkat, openat2, renameat,
        renameat_with, unlinkat,
    },
    io::Errno,
    path::DecInt,
};
use std::{os::fd::AsFd, sync::Arc};
use vfs::{Attributes, Caller, EntryName, FoundObject, ObjectHandle, RenamedObjects, VfsError, VfsResult};

impl LocalBackend {
    pub(crate) fn find(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<ObjectHandle> {
        let parent = self.resolve_searchable(directory)?;
        let name = EntryName::new(name)?;
        self.act_as(caller)?;
        let fd = self.open_name(&parent, &name).map_err(|errno| self.error_in(&parent, errno))?;
        let object = self.adopt(fd)?;
        self.remember(object.ino, object.file_type, parent.ino, name.as_bytes());
        Ok(object.handle)
    }

    /// Finds a name if the kernel has it in its cache; `None` when the directory would have to be
    /// read.
    pub(crate) fn find_cached(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<Option<ObjectHandle>> {
        if self.cached(directory).is_none() {
            return Ok(None);
        }
        let parent = self.resolve_searchable(directory)?;
        let name = EntryName::new(name)?;
        self.act_as(caller)?;
        let fd = match self.open_cached_name(&parent, &name) {
            Ok(fd) => fd,
            // Kernels before 5.12 know no such question.
            Err(Errno::AGAIN | Errno::INVAL) => return Ok(None),
            Err(errno) => return Err(self.error_in(&parent, errno)),
        };
        let object = self.adopt(fd)?;
        self.remember(object.ino, object.file_type, parent.ino, name.as_bytes());
        Ok(Some(object.handle))
    }

    /// Looks up a name without opening it: READDIR does this for thousands of names, and most of
    /// them are never used.
    pub(crate) fn find_attributes(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<(ObjectHandle, Attributes)> {
        let parent = self.resolve_searchable(directory)?;
        let name = EntryName::new(name)?;
        // READDIR has asked for changes of mounts before it looks up its entries.
        if self.is_covered(&self.below.known(), &parent, name.as_bytes()) {
            // statx(2) would cross into a file system that may hang.
            return Err(VfsError::Noent);
        }
        self.act_as(caller)?;
        let asked = self.changes.now();
        let (handle, stat) = self.peek(&parent, &name).map_err(vfs_error)?;
        if !self.same_mount(&stat) {
            return Err(VfsError::Noent);
        }
        let handle = handle?;
        let ino = self.fileid(stat.stx_ino, &handle);
        self.remember(ino, file_type(&stat), parent.ino, name.as_bytes());
        Ok((handle, attributes(&stat, ino, &self.changes, asked)))
    }

    /// Looks up a name that is about to change. Its handle is enough where the inode number is in
    /// it.
    pub(crate) fn find_to_change(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<FoundObject> {
        let parent = self.resolve_searchable(directory)?;
        let entry = EntryName::new(name)?;
        self.act_as(caller)?;
        let (fs_handle, mount) = sys::name_to_handle(parent.as_fd(), entry.as_c_str()).map_err(vfs_error)?;
        match self.ino_in(&fs_handle) {
            Some(_) if u64::try_from(mount) != Ok(self.mount_id) => Err(VfsError::Noent),
            Some(ino) => Ok(FoundObject { handle: handle::encode(ino, &fs_handle)?, attributes: None }),
            None => {
                let (handle, attributes) = self.find_attributes(caller, directory, name)?;
                Ok(FoundObject { handle, attributes: Some(attributes) })
            }
        }
    }

    /// Returns handle and attributes of the object that a name stands for.
    ///
    /// The name may get another object between two system calls. The inode number tells the two
    /// apart; where handles have none, a second handle does.
    fn peek(
        &self,
        parent: &CachedObject,
        name: &EntryName,
    ) -> Result<(VfsResult<ObjectHandle>, Statx), Errno> {
        const TRIES: usize = 8;
        let look = || sys::name_to_handle(parent.as_fd(), name.as_c_str()).map(|(handle, _)| handle);
        let mut before = look()?;
        for _ in 0..TRIES {
            let stat = stat_name(parent, name.as_c_str())?;
            if before.ino() == Some(stat.stx_ino) {
                return Ok((handle::encode(stat.stx_ino, &before), stat));
            }
            let after = look()?;
            if before == after {
                return Ok((handle::encode(stat.stx_ino, &after), stat));
            }
            before = after;
        }
        Err(Errno::AGAIN)
    }

    pub(crate) fn find_parent(&self, caller: &Caller, directory: &ObjectHandle) -> VfsResult<ObjectHandle> {
        let object = self.resolve_searchable(directory)?;
        if object.handle == self.root.handle {
            return Err(VfsError::Noent);
        }
        if self.is_gone(&object) {
            return Err(VfsError::Stale);
        }
        self.act_as(caller)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent = retry(|| openat2(&object, c"..", flags, Mode::empty(), ResolveFlags::NO_XDEV));
        match parent {
            // Adopting refuses a directory outside the export.
            Ok(fd) => Ok(self.adopt(fd)?.handle),
            Err(Errno::XDEV) => Err(VfsError::Stale),
            Err(errno) => Err(vfs_error(errno)),
        }
    }

    pub(crate) fn make_link(
        &self,
        caller: &Caller,
        object: &ObjectHandle,
        directory: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<()> {
        let object = self.resolve(object)?;
        let parent = self.resolve_directory(directory)?;
        if object.file_type == FileType::Directory {
            return Err(VfsError::Isdir);
        }
        let name = EntryName::new(name)?;
        self.act_as(caller)?;
        let source = DecInt::from_fd(&object);
        let linked = linkat(&self.proc, source, &parent, name.as_c_str(), AtFlags::SYMLINK_FOLLOW);
        linked.map_err(|errno| match errno {
            Errno::NOENT if self.is_gone(&object) => VfsError::Stale,
            other => self.error_in(&parent, other),
        })?;
        self.changes.note(object.ino);
        self.changes.note(parent.ino);
        Ok(())
    }

    pub(crate) fn remove_name(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
        found: Option<&FoundObject>,
    ) -> VfsResult<()> {
        let parent = self.resolve_directory(directory)?;
        let name = EntryName::new(name)?;
        self.act_as(caller)?;
        let victim = match found {
            Some(found) => self.victim_found(found)?,
            None => self.victim(&parent, &name).map_err(|errno| self.error_in(&parent, errno))?,
        };
        unlink(&parent, &name, victim.is_directory).map_err(|errno| match errno {
            // rmdir fails so on some file systems, and for a name that changed its type meanwhile.
            Errno::EXIST => VfsError::Notempty,
            Errno::NOTDIR | Errno::ISDIR => VfsError::Delay,
            other => self.error_in(&parent, other),
        })?;
        self.changes.note(parent.ino);
        self.lost_a_name(&victim);
        Ok(())
    }

    /// Looks up the object that is about to lose a name.
    fn victim(&self, parent: &CachedObject, name: &EntryName) -> Result<Victim, Errno> {
        let (handle, stat) = self.peek(parent, name)?;
        let handle = handle.ok();
        Ok(Victim {
            ino: handle.map_or(stat.stx_ino, |handle| self.fileid(stat.stx_ino, &handle)),
            handle,
            is_last: stat.stx_nlink <= 1,
            is_directory: Some(file_type(&stat) == FileType::Directory),
        })
    }

    /// Returns an object that the caller has looked up.
    fn victim_found(&self, found: &FoundObject) -> VfsResult<Victim> {
        let is_directory = |object: Arc<CachedObject>| object.file_type == FileType::Directory;
        Ok(match &found.attributes {
            Some(attributes) => Victim {
                handle: Some(found.handle),
                ino: attributes.fileid,
                is_last: attributes.nlink <= 1,
                is_directory: Some(attributes.file_type == vfs::FileType::Directory),
            },
            None => Victim {
                handle: Some(found.handle),
                ino: handle::decode(&found.handle)?.0,
                is_last: true,
                is_directory: self.cached(&found.handle).map(is_directory),
            },
        })
    }

    /// Lets go of an object that lost its last name.
    fn lost_a_name(&self, victim: &Victim) {
        self.changes.note(victim.ino);
        if (victim.is_last || victim.is_directory == Some(true))
            && let Some(handle) = &victim.handle
        {
            self.forget(handle, victim.ino);
        }
    }

    pub(crate) fn rename_name(
        &self,
        caller: &Caller,
        from: (&ObjectHandle, &[u8]),
        to: (&ObjectHandle, &[u8]),
        found: Option<&RenamedObjects>,
    ) -> VfsResult<()> {
        let renaming = self.begin_rename(caller, from, to)?;
        let Renaming { from: (from_parent, from_name), to: (to_parent, to_name) } = &renaming;
        let (source, target) = match found {
            Some(found) => {
                let target = found.target.as_ref().map(|found| self.victim_found(found)).transpose()?;
                (Ok(self.victim_found(&found.source)?), target)
            }
            None => (self.victim(from_parent, from_name), self.victim(to_parent, to_name).ok()),
        };
        let renamed = renameat(from_parent, from_name.as_c_str(), to_parent, to_name.as_c_str());
        renamed.map_err(|errno| self.rename_error(errno, &renaming, source.as_ref().ok()))?;
        if let (Ok(source), Some(target)) = (&source, &target)
            && target.ino != source.ino
        {
            self.lost_a_name(target);
        }
        self.note_rename(&renaming, source.as_ref().ok());
        Ok(())
    }

    /// Renames an entry unless the new name has an object. False if it has, or if the file system
    /// may not be able to tell.
    pub(crate) fn rename_to_new_name(
        &self,
        caller: &Caller,
        from: (&ObjectHandle, &[u8]),
        to: (&ObjectHandle, &[u8]),
        source: &FoundObject,
    ) -> VfsResult<bool> {
        if self.kind == Kind::Foreign {
            return Ok(false);
        }
        let renaming = self.begin_rename(caller, from, to)?;
        let Renaming { from: (from_parent, from_name), to: (to_parent, to_name) } = &renaming;
        let source = self.victim_found(source)?;
        let flags = RenameFlags::NOREPLACE;
        match renameat_with(from_parent, from_name.as_c_str(), to_parent, to_name.as_c_str(), flags) {
            Ok(()) => {
                self.note_rename(&renaming, Some(&source));
                Ok(true)
            }
            // A file system without the flag says INVAL.
            Err(Errno::EXIST | Errno::INVAL) => Ok(false),
            Err(errno) => Err(self.rename_error(errno, &renaming, Some(&source))),
        }
    }

    fn begin_rename(
        &self,
        caller: &Caller,
        from: (&ObjectHandle, &[u8]),
        to: (&ObjectHandle, &[u8]),
    ) -> VfsResult<Renaming> {
        let (from_parent, to_parent) = (self.resolve_directory(from.0)?, self.resolve_directory(to.0)?);
        let (from_name, to_name) = (EntryName::new(from.1)?, EntryName::new(to.1)?);
        self.act_as(caller)?;
        Ok(Renaming { from: (from_parent, from_name), to: (to_parent, to_name) })
    }

    fn rename_error(&self, errno: Errno, renaming: &Renaming, source: Option<&Victim>) -> VfsError {
        let Renaming { from: (from_parent, from_name), to: (to_parent, _) } = renaming;
        match errno {
            // One is a directory and the other not: RFC 8881 section 18.26.3 calls that
            // NFS4ERR_EXIST.
            Errno::ISDIR | Errno::NOTDIR => VfsError::Exist,
            // The kernel says so for the directory that has the source, before it compares types.
            Errno::NOTEMPTY
                if source.is_some_and(|source| !source.is_directory_at(from_parent, from_name)) =>
            {
                VfsError::Exist
            }
            other if self.is_gone(to_parent) => self.error_in(to_parent, other),
            other => self.error_in(from_parent, other),
        }
    }

    fn note_rename(&self, renaming: &Renaming, source: Option<&Victim>) {
        let Renaming { from: (from_parent, _), to: (to_parent, to_name) } = renaming;
        self.changes.note(from_parent.ino);
        self.changes.note(to_parent.ino);
        let Some(source) = source else { return };
        self.changes.note(source.ino);
        let is_directory = source.is_directory == Some(true);
        let file_type = if is_directory { FileType::Directory } else { FileType::RegularFile };
        self.remember(source.ino, file_type, to_parent.ino, to_name.as_bytes());
    }
}

/// The directories and names of a rename.
struct Renaming {
    from: (Arc<CachedObject>, EntryName),
    to: (Arc<CachedObject>, EntryName),
}

/// An object that is about to lose a name.
struct Victim {
    handle: Option<ObjectHandle>,
    ino: u64,
    /// Whether the name may be its last one. An object that has others is found again by its
    /// handle.
    is_last: bool,
    /// `None` where only another system call would tell.
    is_directory: Option<bool>,
}

impl Victim {
    /// Returns whether it is a directory; the name still stands for it.
    fn is_directory_at(&self, parent: &CachedObject, name: &EntryName) -> bool {
        let look =
            || stat_name(parent, name.as_c_str()).is_ok_and(|stat| file_type(&stat) == FileType::Directory);
        self.is_directory.unwrap_or_else(look)
    }
}

/// Removes a name. The type of an object decides between two system calls; where it is unknown, the
/// first fails for a directory without an effect.
fn unlink(parent: &CachedObject, name: &EntryName, is_directory: Option<bool>) -> Result<(), Errno> {
    let unlink = |flags| unlinkat(parent, name.as_c_str(), flags);
    match is_directory {
        Some(false) => unlink(AtFlags::empty()),
        Some(true) => unlink(AtFlags::REMOVEDIR),
        None => match unlink(AtFlags::empty()) {
            Err(Errno::ISDIR) => unlink(AtFlags::REMOVEDIR),
            removed => removed,
        },
    }
}
