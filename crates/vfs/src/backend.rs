//! The trait that a file system implements to be served.

use crate::{
    Acls, Attributes, Caller, DirEntry, Eof, Features, FsStat, Identity, NewObject, ObjectHandle, OpenAccess,
    OpenFile, Permissions, Quota, SetAttributes, VfsResult, XattrHow,
};
use std::{ops::ControlFlow, sync::Arc};

/// A file system as the server sees it. Names are single components of 1 to 255 bytes, never "." or
/// "..", without "/" and NUL: the server has checked them. Symbolic links are never followed.
///
/// Every method may be called from several threads at once. Methods that take a `Caller` act with
/// exactly that user's rights; those without act for the server itself.
///
/// No method has a default, so that a wrapper cannot drop a feature by forgetting one:
/// [`forward_backend!`](crate::forward_backend) forwards the methods that it names.
pub trait Backend: Send + Sync {
    /// Returns the root of what is exported.
    fn root(&self) -> ObjectHandle;

    /// Says what the file system can do that not every one can; the same for as long as the backend
    /// lives.
    fn features(&self) -> Features;

    /// As `features`, of the file system that an object is on: below a folder others may be
    /// mounted.
    fn features_of(&self, object: &ObjectHandle) -> Features;

    /// Returns the number of the file system that an object is on: 0 for that of the root, others
    /// for those mounted below it.
    fn part(&self, object: &ObjectHandle) -> u64;

    /// Returns the fileid of the directory that an object covers: of the root of a file system that
    /// is mounted below.
    fn mounted_on(&self, object: &ObjectHandle) -> Option<u64>;

    /// Says whether names of a directory may lead to other file systems than its own.
    fn has_mounts(&self, directory: &ObjectHandle) -> bool;

    /// Says which file of this machine a handle names, so that several backends that reach it
    /// agree; `None` where no other backend does.
    fn identity(&self, object: &ObjectHandle) -> Option<Identity>;

    /// Says whether operations can wait for something slower than memory. Then they are carried out
    /// where waiting holds up nobody else, but for those that the following three can answer at
    /// once.
    fn may_wait(&self) -> bool;

    /// Says whether system calls on open objects of the object's file system answer from memory:
    /// its metadata comes neither over a network nor from another process, either of which may stop
    /// answering. Where they do not, no operation on the object runs where waiting holds up others,
    /// whatever is open or cached.
    fn answers_from_memory(&self, object: &ObjectHandle) -> bool;

    /// Says whether the object's attributes and permissions can be had, and the object be opened,
    /// without a wait.
    fn is_at_hand(&self, object: &ObjectHandle) -> bool;

    /// As `lookup`; `None` when only waiting would tell.
    fn lookup_now(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<Option<ObjectHandle>>;

    /// Returns an object's attributes.
    fn getattr(&self, object: &ObjectHandle) -> VfsResult<Attributes>;

    /// Changes attributes and returns the new ones. `size` needs write permission, times that are
    /// given need ownership, as for POSIX.
    fn setattr(&self, caller: &Caller, object: &ObjectHandle, set: &SetAttributes) -> VfsResult<Attributes>;

    /// Says what the caller may do with the object.
    fn access(&self, caller: &Caller, object: &ObjectHandle) -> VfsResult<Permissions>;

    /// Finds a name in a directory. Does not follow symbolic links.
    fn lookup(&self, caller: &Caller, directory: &ObjectHandle, name: &[u8]) -> VfsResult<ObjectHandle>;

    /// Finds a name and returns its attributes with it: what READDIR asks of each entry.
    fn lookup_attributes(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<(ObjectHandle, Attributes)>;

    /// Returns a directory's parent; the root's parent is `Noent`: what lies above it is not the
    /// backend's to say.
    fn lookup_parent(&self, caller: &Caller, directory: &ObjectHandle) -> VfsResult<ObjectHandle>;

    /// Reads a symbolic link.
    fn readlink(&self, caller: &Caller, object: &ObjectHandle) -> VfsResult<Vec<u8>>;

    /// Opens an existing regular file; `Isdir`, `Symlink` or `WrongType` for others. Who may
    /// execute a file may also open it for reading alone, because that is how clients load
    /// programs.
    fn open(
        &self,
        caller: &Caller,
        object: &ObjectHandle,
        access: OpenAccess,
    ) -> VfsResult<Arc<dyn OpenFile>>;

    /// Creates a regular file that does not exist yet (`Exist` if it does) and opens it, whatever
    /// the mode that it gets. `set.mode` defaults to 0600; `set.umask` takes bits away unless the
    /// directory has a default ACL (RFC 8275 section 5).
    fn create_file(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
        access: OpenAccess,
        set: &SetAttributes,
    ) -> VfsResult<(ObjectHandle, Arc<dyn OpenFile>)>;

    /// Creates an object that is not a regular file.
    fn create(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
        object: NewObject<'_>,
        set: &SetAttributes,
    ) -> VfsResult<ObjectHandle>;

    /// Makes a further name for an object.
    fn link(
        &self,
        caller: &Caller,
        object: &ObjectHandle,
        directory: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<()>;

    /// Removes a name; a directory must be empty.
    fn remove(&self, caller: &Caller, directory: &ObjectHandle, name: &[u8]) -> VfsResult<()>;

    /// Moves a name, replacing what the target names as POSIX rename does (types must agree:
    /// `Exist`, and `Notempty` for a directory that is not empty).
    fn rename(
        &self,
        caller: &Caller,
        from_directory: &ObjectHandle,
        from_name: &[u8],
        to_directory: &ObjectHandle,
        to_name: &[u8],
    ) -> VfsResult<()>;

    /// Calls `entry` for each entry after `cookie` (0: from the start) until it breaks or the
    /// directory ends.
    ///
    /// # Errors
    /// `BadCookie` when the position means nothing in this directory.
    fn readdir(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        cookie: u64,
        entry: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> VfsResult<Eof>;

    /// Returns an object's access control lists; who reaches the object may read them.
    ///
    /// # Errors
    /// `Notsupp` where there are none.
    fn acls(&self, object: &ObjectHandle) -> VfsResult<Acls>;

    /// Returns what the quotas of an object's owner and group leave, as far as the caller may know
    /// them: one's own, those of groups that one is in, and the superuser all. `None` where none
    /// counts.
    fn quota(&self, caller: &Caller, object: &ObjectHandle) -> VfsResult<Option<Quota>>;

    /// Returns the value of an extended attribute of the user's name space; the name is without its
    /// prefix (RFC 8276).
    ///
    /// # Errors
    /// `Noxattr`, `Nametoolong`, `Access`, `Perm` for what is neither file nor directory,
    /// `Notsupp`.
    fn get_xattr(&self, caller: &Caller, object: &ObjectHandle, name: &[u8]) -> VfsResult<Vec<u8>>;

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// As `get_xattr`; `Exist`, `Xattr2big`, `Nospc`, `Dquot`.
    fn set_xattr(
        &self,
        caller: &Caller,
        object: &ObjectHandle,
        name: &[u8],
        value: &[u8],
        how: XattrHow,
    ) -> VfsResult<()>;

    /// Returns the names of the extended attributes of the user's name space, sorted, without their
    /// prefix. They are data like the values: listing them needs read permission (ACCESS4_XALIST,
    /// RFC 8276 section 8.5).
    ///
    /// # Errors
    /// As `get_xattr`.
    fn list_xattrs(&self, caller: &Caller, object: &ObjectHandle) -> VfsResult<Vec<Vec<u8>>>;

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// As `get_xattr`.
    fn remove_xattr(&self, caller: &Caller, object: &ObjectHandle, name: &[u8]) -> VfsResult<()>;

    /// Says whether changes of an object's names or attributes are to be acknowledged only after
    /// [`Backend::settle`].
    fn settles(&self, object: &ObjectHandle) -> bool;

    /// Puts on stable storage what has been changed of an object's attributes, or of the names in a
    /// directory, before this is called; whoever has changed it. It may take long and needs nothing
    /// to be held meanwhile.
    fn settle(&self, object: &ObjectHandle) -> VfsResult<()>;

    /// Puts an object's data and metadata on stable storage.
    fn commit(&self, object: &ObjectHandle) -> VfsResult<()>;

    /// Returns sizes and limits of the file system that holds the object.
    fn statfs(&self, object: &ObjectHandle) -> VfsResult<FsStat>;

    /// Releases what has not been used since the last call (descriptors that keep removed files
    /// alive); the server calls it about every 30 seconds.
    fn trim(&self);
}
