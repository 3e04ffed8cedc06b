//! CREATE and the creation of files: objects with the caller's identity.

use crate::{
    LocalBackend,
    attributes::{file_type, stat_fd},
    cached_object::CachedObject,
    errno::{retry, vfs_error},
    kind::Kind,
};
use rustix::{
    fs::{
        AtFlags, FileType, Mode, OFlags, StatxFlags, linkat, makedev, mkdirat, mknodat, openat, symlinkat,
        unlinkat,
    },
    io::Errno,
    path::DecInt,
    time::{ClockId, Timespec, clock_gettime},
};
use std::{os::fd::OwnedFd, sync::Arc};
use vfs::{
    Acls, Caller, EntryName, NewObject, OFFSET_MAX, ObjectHandle, OpenAccess, OpenFile, SetAttributes,
    VfsError, VfsResult,
};

/// The default mode of a file or special file.
const FILE_MODE: u32 = 0o600;
/// The default mode of a directory.
const DIRECTORY_MODE: u32 = 0o700;
/// Bits that mkdir(2) does not take.
const SET_ID: u32 = 0o6000;
pub(crate) const S_ISGID: u32 = 0o2000;

impl LocalBackend {
    pub(crate) fn make_file(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
        access: OpenAccess,
        set: &SetAttributes,
    ) -> VfsResult<(ObjectHandle, Arc<dyn OpenFile>)> {
        let parent = self.resolve_directory(directory)?;
        let name = EntryName::new(name)?;
        let set = &self.masked(&parent, set);
        self.act_as(caller)?;
        let mode = Mode::from_raw_mode(set.mode.unwrap_or(FILE_MODE) & 0o7777);
        if is_exclusive(set)
            && let Some(fd) = self.open_nameless(&parent, mode)?
        {
            return self.finish_file(caller, (&parent, &name), (fd, access), set, true);
        }
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW;
        let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let fd = retry(|| openat(&parent, name.as_c_str(), flags, mode));
        let fd = fd.map_err(|errno| self.create_error(&parent, &name, errno))?;
        self.changes.note(parent.ino);
        let finished = self.finish_file(caller, (&parent, &name), (fd, access), set, false);
        // The name may stand for another object by now, so it is removed with the caller's own
        // rights only.
        if finished.is_err() && self.act_as(caller).is_ok() {
            let _ = unlinkat(&parent, name.as_c_str(), AtFlags::empty());
        }
        finished
    }

    /// Maps an error of the creation of a file. A name on which something is mounted is taken, but
    /// no look-up finds it: `Exist` would have the server look again.
    fn create_error(&self, parent: &CachedObject, name: &EntryName, errno: Errno) -> VfsError {
        let places = || self.below.places(|| self.path_of_root());
        if errno == Errno::EXIST && self.is_covered(&places(), parent, name.as_bytes()) {
            return VfsError::Access;
        }
        self.error_in(parent, errno)
    }

    /// Opens a new file without a name in a directory, or `None` where the file system has none
    /// such.
    fn open_nameless(&self, parent: &CachedObject, mode: Mode) -> VfsResult<Option<OwnedFd>> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        match retry(|| openat(parent, c".", flags, mode)) {
            Ok(fd) => Ok(Some(fd)),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => Ok(None),
            Err(errno) => Err(self.error_in(parent, errno)),
        }
    }

    /// Gives a new file its attributes, its name if it has none, and takes it into the cache.
    fn finish_file(
        &self,
        caller: &Caller,
        (parent, name): (&CachedObject, &EntryName),
        (fd, access): (OwnedFd, OpenAccess),
        set: &SetAttributes,
        nameless: bool,
    ) -> VfsResult<(ObjectHandle, Arc<dyn OpenFile>)> {
        // ftruncate(2) takes the set-id bits away, and clients give the size 0 with O_TRUNC.
        let size = set.size.unwrap_or(0);
        if size > OFFSET_MAX {
            return Err(VfsError::Fbig);
        }
        if size > 0 {
            rustix::fs::ftruncate(&fd, size).map_err(vfs_error)?;
        }
        let path = self.reopen(&fd, OFlags::PATH).map_err(vfs_error)?;
        let object = self.adopt_new_file(path)?;
        self.finish(caller, &object, set, size > 0 && gives_set_id(set))?;
        if nameless {
            let linked =
                linkat(&self.proc, DecInt::from_fd(&fd), parent, name.as_c_str(), AtFlags::SYMLINK_FOLLOW);
            if let Err(errno) = linked {
                self.forget(&object.handle, object.ino);
                return Err(self.create_error(parent, name, errno));
            }
            self.changes.note(parent.ino);
            self.changes.note(object.ino);
        }
        self.remember(object.ino, object.file_type, parent.ino, name.as_bytes());
        let file = self.opened(self.without_writing(fd, access)?, object.ino, caller);
        Ok((object.handle, Arc::new(file)))
    }

    /// Opens a new file for reading alone where the caller asked for that: an open for writing
    /// would rule out a lease. The first descriptor stays if the mode forbids reading.
    fn without_writing(&self, fd: OwnedFd, access: OpenAccess) -> VfsResult<OwnedFd> {
        if access.write {
            return Ok(fd);
        }
        self.act_as_server()?;
        Ok(self.reopen(&fd, OFlags::RDONLY).unwrap_or(fd))
    }

    pub(crate) fn make(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
        new: NewObject<'_>,
        set: &SetAttributes,
    ) -> VfsResult<ObjectHandle> {
        let parent = self.resolve_directory(directory)?;
        let name = EntryName::new(name)?;
        new.check()?;
        let set = &self.masked(&parent, set);
        self.act_as(caller)?;
        let is_directory = new == NewObject::Directory;
        let began = clock_gettime(ClockId::RealtimeCoarse);
        make_node(&parent, &name, &new, set.mode).map_err(|errno| self.error_in(&parent, errno))?;
        self.changes.note(parent.ino);
        let finished = match self.made(caller, &parent, &name, &new, began) {
            Ok(Some(object)) => self.finish_node(caller, &parent, &name, &new, &object, set),
            // The name is another's by now.
            Ok(None) => return Err(VfsError::Delay),
            Err(error) => Err(error),
        };
        if finished.is_err() && self.act_as(caller).is_ok() {
            let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            let _ = unlinkat(&parent, name.as_c_str(), flags);
        }
        finished
    }

    /// Takes the creator's umask from the mode, unless the directory has a default ACL: then that
    /// is in its place. The process itself has no umask, and the kernel could not be given one for
    /// each caller.
    fn masked(&self, parent: &CachedObject, set: &SetAttributes) -> SetAttributes {
        let umask = set.umask.filter(|umask| *umask != 0 && !self.has_default_acl(parent)).unwrap_or(0);
        SetAttributes { mode: set.mode.map(|mode| mode & !umask), umask: None, ..set.clone() }
    }

    /// Opens a new object. The kernel returns no descriptor of it, so its name must be opened,
    /// which another program may have given to another object meanwhile; `None` for such an object.
    fn made(
        &self,
        caller: &Caller,
        parent: &CachedObject,
        name: &EntryName,
        new: &NewObject<'_>,
        began: Timespec,
    ) -> VfsResult<Option<Arc<CachedObject>>> {
        let fd = match self.open_name(parent, name) {
            Ok(fd) => fd,
            Err(Errno::NOENT | Errno::ACCESS | Errno::XDEV) => return Ok(None),
            Err(errno) => return Err(vfs_error(errno)),
        };
        let stat = stat_fd(&fd).map_err(vfs_error)?;
        // Servers and other processes have clocks and users of their own.
        let comparable = self.kind != Kind::Foreign;
        let born = (stat.stx_btime.tv_sec, i64::from(stat.stx_btime.tv_nsec));
        let older = stat.stx_mask & StatxFlags::BTIME.bits() != 0 && born < (began.tv_sec, began.tv_nsec);
        let others = self.identities && stat.stx_uid != caller.uid;
        if file_type(&stat) != type_of(new) || comparable && (older || others) {
            return Ok(None);
        }
        self.adopt(fd).map(Some)
    }

    fn finish_node(
        &self,
        caller: &Caller,
        parent: &CachedObject,
        name: &EntryName,
        new: &NewObject<'_>,
        object: &CachedObject,
        set: &SetAttributes,
    ) -> VfsResult<ObjectHandle> {
        let set_id = *new == NewObject::Directory && gives_set_id(set);
        let symlink = matches!(new, NewObject::Symlink(_));
        let set = SetAttributes { size: None, mode: set.mode.filter(|_| !symlink), ..set.clone() };
        self.finish(caller, object, &set, set_id)?;
        self.remember(object.ino, object.file_type, parent.ino, name.as_bytes());
        Ok(object.handle)
    }

    /// Sets owner, mode and times of a new object, where they were given and are not as they should
    /// be.
    fn finish(
        &self,
        caller: &Caller,
        object: &CachedObject,
        set: &SetAttributes,
        set_mode: bool,
    ) -> VfsResult<()> {
        let gives = set.uid.is_some() || set.gid.is_some();
        if gives {
            self.set_owner(object, set)?;
        }
        // chown took the set-id bits away, and the server's root has no CAP_FSETID for a group of
        // others.
        let lost = (gives || caller.uid == 0) && gives_set_id(set);
        // A mode beside a list changes the list (RFC 8881 section 6.4.1.3).
        let mode = set.mode.filter(|_| set_mode || lost || set.acls.is_some());
        self.set_permissions(caller, object, set.acls.as_ref(), mode)?;
        self.set_times(object, set)?;
        self.changes.note(object.ino);
        Ok(())
    }

    /// Sets list and mode of a new object. A directory keeps the set-group-ID bit that mkdir(2)
    /// gave it, also when its creator is not in the group.
    fn set_permissions(
        &self,
        caller: &Caller,
        object: &CachedObject,
        acls: Option<&Acls>,
        mode: Option<u32>,
    ) -> VfsResult<()> {
        if acls.is_none() && mode.is_none() {
            return Ok(());
        }
        let stat = stat_fd(object).map_err(vfs_error)?;
        let gid = stat.stx_gid;
        let inherited = match object.file_type {
            FileType::Directory => u32::from(stat.stx_mode) & S_ISGID,
            _ => 0,
        };
        let member = Caller { gid, ..caller.clone() };
        let setter = if inherited == 0 { caller } else { &member };
        self.act_as(setter)?;
        if let Some(acls) = acls {
            self.write_acls(setter, object, gid, acls)?;
        }
        if let Some(mode) = mode {
            self.set_mode(setter, object, gid, mode | inherited)?;
        }
        self.act_as(caller)
    }
}

/// Whether a file must have its attributes before its name.
///
/// An exclusive create keeps its verifier in the times (RFC 8881 section 18.16.3). A server that
/// dies between the name and the times would leave a file in which the client's retry does not know
/// its own. A new owner makes the link another's, which the kernel may refuse; exclusive creates of
/// clients give none.
fn is_exclusive(set: &SetAttributes) -> bool {
    set.atime.is_some() && set.mtime.is_some() && set.uid.is_none() && set.gid.is_none()
}

/// Whether the mode has set-id bits, which some system calls do not take or take away.
fn gives_set_id(set: &SetAttributes) -> bool {
    set.mode.is_some_and(|mode| mode & SET_ID != 0)
}

/// Returns the type of the object to create.
fn type_of(new: &NewObject<'_>) -> FileType {
    match new {
        NewObject::Directory => FileType::Directory,
        NewObject::Symlink(_) => FileType::Symlink,
        NewObject::Block(..) => FileType::BlockDevice,
        NewObject::Character(..) => FileType::CharacterDevice,
        NewObject::Socket => FileType::Socket,
        NewObject::Fifo => FileType::Fifo,
    }
}

fn make_node(
    parent: &CachedObject,
    name: &EntryName,
    new: &NewObject<'_>,
    mode: Option<u32>,
) -> Result<(), Errno> {
    let name = name.as_c_str();
    let node = |file_type, device| {
        let mode = Mode::from_raw_mode(mode.unwrap_or(FILE_MODE) & 0o7777);
        mknodat(parent, name, file_type, mode, device)
    };
    match *new {
        NewObject::Directory => {
            let mode = mode.unwrap_or(DIRECTORY_MODE) & 0o7777 & !SET_ID;
            mkdirat(parent, name, Mode::from_raw_mode(mode))
        }
        NewObject::Symlink(target) => symlinkat(target, parent, name),
        NewObject::Block(major, minor) => node(FileType::BlockDevice, makedev(major, minor)),
        NewObject::Character(major, minor) => node(FileType::CharacterDevice, makedev(major, minor)),
        NewObject::Socket => node(FileType::Socket, 0),
        NewObject::Fifo => node(FileType::Fifo, 0),
    }
}
