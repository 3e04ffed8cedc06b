//! The ways in which a backend refuses.

/// A backend's refusal; each variant is one NFSv4 status (RFC 8881 section 15.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum VfsError {
    /// NFS4ERR_PERM: only the owner or the superuser may.
    #[error("operation not permitted")]
    Perm,
    /// Becomes NFS4ERR_NOENT on the wire.
    #[error("no such entry")]
    Noent,
    /// NFS4ERR_IO: the medium failed.
    #[error("input/output error")]
    Io,
    /// NFS4ERR_IO: an error of the operating system, by its errno, that no other variant stands
    /// for.
    #[error("{}", std::io::Error::from_raw_os_error(*.0))]
    Os(i32),
    /// NFS4ERR_ACCESS: the caller's permissions do not suffice.
    #[error("permission denied")]
    Access,
    /// Becomes NFS4ERR_EXIST on the wire.
    #[error("entry exists")]
    Exist,
    /// NFS4ERR_XDEV: the two objects are on different file systems.
    #[error("different file systems")]
    Xdev,
    /// Becomes NFS4ERR_NOTDIR on the wire.
    #[error("not a directory")]
    Notdir,
    /// Becomes NFS4ERR_ISDIR on the wire.
    #[error("is a directory")]
    Isdir,
    /// Becomes NFS4ERR_INVAL on the wire.
    #[error("invalid argument")]
    Inval,
    /// Becomes NFS4ERR_FBIG on the wire.
    #[error("file too large")]
    Fbig,
    /// Becomes NFS4ERR_NOSPC on the wire.
    #[error("no space left")]
    Nospc,
    /// Becomes NFS4ERR_ROFS on the wire.
    #[error("read-only file system")]
    Rofs,
    /// Becomes NFS4ERR_MLINK on the wire.
    #[error("too many links")]
    Mlink,
    /// Becomes NFS4ERR_NAMETOOLONG on the wire.
    #[error("name too long")]
    Nametoolong,
    /// Becomes NFS4ERR_NOTEMPTY on the wire.
    #[error("directory not empty")]
    Notempty,
    /// Becomes NFS4ERR_DQUOT on the wire.
    #[error("quota exceeded")]
    Dquot,
    /// NFS4ERR_STALE: the object of this handle is gone.
    #[error("stale handle")]
    Stale,
    /// NFS4ERR_MOVED: the file system is not on this server.
    #[error("file system on another server")]
    Moved,
    /// NFS4ERR_BADHANDLE: this was never a handle of this backend.
    #[error("bad handle")]
    Badhandle,
    /// NFS4ERR_BAD_COOKIE: READDIR cannot continue from here.
    #[error("bad cookie")]
    BadCookie,
    /// Becomes NFS4ERR_NOTSUPP on the wire.
    #[error("not supported")]
    Notsupp,
    /// NFS4ERR_BADNAME: a name the file system cannot hold.
    #[error("bad name")]
    Badname,
    /// NFS4ERR_SYMLINK: the object is a symbolic link where that is not allowed.
    #[error("is a symbolic link")]
    Symlink,
    /// NFS4ERR_WRONG_TYPE: the object is of a type that the operation does not take.
    #[error("wrong type")]
    WrongType,
    /// NFS4ERR_NXIO: the offset is not before the end of the file.
    #[error("behind the end of the file")]
    Nxio,
    /// NFS4ERR_NOXATTR: the object has no extended attribute of this name.
    #[error("no such extended attribute")]
    Noxattr,
    /// NFS4ERR_XATTR2BIG: the value of an extended attribute is longer than the file system holds.
    #[error("extended attribute too big")]
    Xattr2big,
    /// NFS4ERR_DELAY: descriptors or memory of the server ran out for now.
    #[error("out of descriptors or memory")]
    Exhausted,
    /// NFS4ERR_DELAY: try again later.
    #[error("try again later")]
    Delay,
}

/// The result of a backend's operation.
pub type VfsResult<T> = Result<T, VfsError>;
