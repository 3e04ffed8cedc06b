//! The trait that a file system implements to be served.

use crate::{
    Acls, Attributes, Caller, DirEntry, Eof, Features, FsStat, Heir, Identity, NewObject, ObjectHandle,
    OpenAccess, OpenFile, Permissions, Quota, SetAttributes, VfsResult, XattrHow,
};
use std::{any::Any, ops::ControlFlow, sync::Arc};

/// The object of a name that is about to be removed or renamed.
#[derive(Clone, Debug)]
pub struct FoundObject {
    /// The handle of the object.
    pub handle: ObjectHandle,
    /// Its attributes, where they cost the backend no further call.
    pub attributes: Option<Attributes>,
}

/// The objects of the two names of a rename when the caller looked them up. The target is `None`
/// for a name without an object.
#[derive(Clone, Debug)]
pub struct RenamedObjects {
    /// The object that is renamed.
    pub source: FoundObject,
    /// The object that is replaced.
    pub target: Option<FoundObject>,
}

/// An object as its backend keeps it for [`Backend::sync_names`], beyond its last name.
pub type HeldObject = Arc<dyn Any + Send + Sync>;

/// A file system as the server sees it. Names are single components of 1 to 255 bytes, never "." or
/// "..", without "/" and NUL: the server has checked them. Symbolic links are never followed.
///
/// Every method may be called from several threads at once. Methods that take a `Caller` act with
/// exactly that user's rights; the others act for the server itself.
///
/// No method has a default, so that a wrapper cannot drop a feature by forgetting one:
/// [`forward_backend!`](crate::forward_backend) forwards the methods that it names.
pub trait Backend: Send + Sync {
    /// Returns the root of the exported tree.
    fn root(&self) -> ObjectHandle;

    /// Returns the optional features of the file system. They stay the same for the backend's
    /// lifetime.
    fn features(&self) -> Features;

    /// As `features`, of the file system that an object is on: below a folder others may be
    /// mounted.
    fn features_of(&self, object: &ObjectHandle) -> Features;

    /// Returns the number of the file system that an object is on: 0 for that of the root, others
    /// for submounts.
    fn part(&self, object: &ObjectHandle) -> u64;

    /// Returns the fileid of the directory that an object covers: of the root of a file system that
    /// is mounted below.
    fn mounted_on(&self, object: &ObjectHandle) -> Option<u64>;

    /// Returns whether names of a directory may lead to other file systems than its own.
    fn has_mounts(&self, directory: &ObjectHandle) -> bool;

    /// Says which file of this machine a handle names, so that several backends that reach it
    /// agree; `None` where no other backend does.
    fn identity(&self, object: &ObjectHandle) -> Option<Identity>;

    /// Returns whether operations can wait for something slower than memory. The server then runs
    /// them on threads that may block, except those that the next three methods answer at once.
    fn may_wait(&self) -> bool;

    /// Returns whether system calls on open objects of the object's file system answer from memory:
    /// its metadata comes neither over a network nor from another process, either of which may stop
    /// answering. If not, every operation on the object runs on a thread that may block, even if
    /// the object is open or cached.
    fn answers_from_memory(&self, object: &ObjectHandle) -> bool;

    /// Returns whether reads, unstable writes and looks at an object seldom wait although they can,
    /// because most of them are answered from a cache. The server then tries them on threads that
    /// must not wait long, and moves its other work to another thread if one waits after all.
    fn seldom_waits(&self, object: &ObjectHandle) -> bool;

    /// Returns whether the object is cached: it can be opened, and its attributes and permissions
    /// can be read, without a wait.
    fn is_cached(&self, object: &ObjectHandle) -> bool;

    /// As `lookup`; `None` when only waiting would tell.
    fn lookup_now(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<Option<ObjectHandle>>;

    /// Returns an object's attributes.
    fn getattr(&self, object: &ObjectHandle) -> VfsResult<Attributes>;

    /// Returns the change attribute of a directory before an operation changes it. It may be the
    /// one that was last known, where a newer one would take a request to other machines: a
    /// `change_info4` that is not atomic promises no more (RFC 8881 section 3.3.5).
    fn change_before(&self, directory: &ObjectHandle) -> VfsResult<u64> {
        self.getattr(directory).map(|attributes| attributes.change)
    }

    /// As [`Backend::change_before`], after an operation has changed the directory.
    fn change_after(&self, directory: &ObjectHandle, before: u64) -> VfsResult<u64> {
        let _ = before;
        self.getattr(directory).map(|attributes| attributes.change)
    }

    /// Changes attributes and returns the new ones. `size` and times that are now need write
    /// permission, times that are given need ownership.
    fn setattr(&self, caller: &Caller, object: &ObjectHandle, set: &SetAttributes) -> VfsResult<Attributes>;

    /// Returns the caller's permissions on the object.
    fn access(&self, caller: &Caller, object: &ObjectHandle) -> VfsResult<Permissions>;

    /// Finds a name in a directory. Does not follow symbolic links.
    fn lookup(&self, caller: &Caller, directory: &ObjectHandle, name: &[u8]) -> VfsResult<ObjectHandle>;

    /// Looks up a name and returns its attributes as well, as READDIR needs for each entry.
    fn lookup_attributes(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<(ObjectHandle, Attributes)>;

    /// Looks up a name that is about to be removed or renamed, for [`Backend::remove`] and
    /// [`Backend::rename`].
    fn lookup_to_change(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
    ) -> VfsResult<FoundObject>;

    /// Returns a directory's parent. The root's parent is `Noent`: names above it belong to the
    /// server.
    fn lookup_parent(&self, caller: &Caller, directory: &ObjectHandle) -> VfsResult<ObjectHandle>;

    /// Reads a symbolic link.
    fn readlink(&self, caller: &Caller, object: &ObjectHandle) -> VfsResult<Vec<u8>>;

    /// Opens an existing regular file; `Isdir`, `Symlink` or `WrongType` for others. A caller with
    /// execute permission may also open the file for reading alone, because clients load programs
    /// that way.
    fn open(
        &self,
        caller: &Caller,
        object: &ObjectHandle,
        access: OpenAccess,
    ) -> VfsResult<Arc<dyn OpenFile>>;

    /// As [`Backend::open`], for the owner of the file, even if its mode forbids the access: the
    /// owner was granted it before. Writes act with the owner's rights, not with the server's.
    ///
    /// # Errors
    /// `Access` for other callers.
    fn open_own(
        &self,
        owner: &Caller,
        object: &ObjectHandle,
        access: OpenAccess,
    ) -> VfsResult<Arc<dyn OpenFile>>;

    /// Creates a regular file that does not exist yet (`Exist` if it does) and opens it, even if
    /// its mode denies that. `set.mode` defaults to 0600; `set.umask` clears bits unless the
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

    /// Removes a name; a directory must be empty. `found` is the object of the name, if the caller
    /// has looked it up: the backend then need not do so.
    fn remove(
        &self,
        caller: &Caller,
        directory: &ObjectHandle,
        name: &[u8],
        found: Option<&FoundObject>,
    ) -> VfsResult<()>;

    /// Renames an entry and replaces the target as POSIX rename does. The types must agree: `Exist`
    /// otherwise, and `Notempty` for a directory that is not empty. `found` are the objects of both
    /// names, if the caller has looked them up.
    fn rename(
        &self,
        caller: &Caller,
        from: (&ObjectHandle, &[u8]),
        to: (&ObjectHandle, &[u8]),
        found: Option<&RenamedObjects>,
    ) -> VfsResult<()>;

    /// As `rename`, unless the new name has an object. Returns false, without an effect, if it has
    /// one, and also where the backend cannot tell in the same step. `source` is the object that
    /// the caller has looked up.
    fn rename_new(
        &self,
        caller: &Caller,
        from: (&ObjectHandle, &[u8]),
        to: (&ObjectHandle, &[u8]),
        source: &FoundObject,
    ) -> VfsResult<bool>;

    /// Calls `entry` for each entry after `cookie` (0: from the start) until it breaks or the
    /// directory ends. Cookies fit into 63 bits.
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

    /// Returns an object's access control lists. Every caller that reaches the object may read
    /// them.
    ///
    /// # Errors
    /// `Notsupp` on file systems without lists.
    fn acls(&self, object: &ObjectHandle) -> VfsResult<Acls>;

    /// Returns the rest of the quotas of an object's owner and group, as far as the caller may know
    /// them: its own, those of its groups, and all for the superuser. `None` without quotas.
    fn quota(&self, caller: &Caller, object: &ObjectHandle) -> VfsResult<Option<Quota>>;

    /// Returns the value of an extended attribute of the user's name space; the name is without its
    /// prefix (RFC 8276).
    ///
    /// # Errors
    /// `Noxattr`, `Nametoolong`, `Access`, `Perm` for objects that are neither file nor directory,
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

    /// Returns whether changes of an object's names or attributes are to be acknowledged only after
    /// [`Backend::sync_names`].
    fn syncs_names(&self, object: &ObjectHandle) -> bool;

    /// Returns an object that was just changed, for a later [`Backend::sync_names`]: its handle may
    /// be stale by then. It never waits. `None` where the handle has to do.
    fn hold(&self, object: &ObjectHandle) -> Option<HeldObject>;

    /// Synchronises an object's attributes, or the names in a directory, to stable storage,
    /// including changes by others before this call. It may take long and needs no lock. `held` is
    /// the object, if the caller has it from [`Backend::hold`].
    fn sync_names(&self, object: &ObjectHandle, held: Option<&HeldObject>) -> VfsResult<()>;

    /// Puts an object's data and metadata on stable storage.
    fn commit(&self, object: &ObjectHandle) -> VfsResult<()>;

    /// Returns the number of failed syncs that no caller has asked for, such as those that make
    /// room for other files. Each may have lost data of any file, and changes the write verifier.
    fn sync_failures(&self) -> u64;

    /// Returns sizes and limits of the file system that holds the object.
    fn statfs(&self, object: &ObjectHandle) -> VfsResult<FsStat>;

    /// Releases resources that were unused since the last call, such as descriptors that keep
    /// removed files alive. The server calls it about every 30 seconds.
    fn trim(&self);

    /// Returns the key under which handles of the file system are signed, if it has one of its own:
    /// several servers serve it and must accept each other's handles, or its export has had another
    /// folder, whose handles are not good here. `None` for the server's own key.
    fn handle_key(&self) -> Option<[u8; 16]>;

    /// Returns the backend as one with open files that the next process of the server can go on
    /// with; `None` where they exist in this process alone.
    fn heir(&self) -> Option<&dyn Heir>;
}
