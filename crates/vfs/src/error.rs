//! The ways in which a backend refuses.

/// A backend's refusal; each variant is one NFSv4 status (RFC 8881 section 15.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum VfsError {
    /// NFS4ERR_PERM: only the owner or the superuser may.
    #[error("operation not permitted")]
    Perm,
    /// NFS4ERR_NOENT.
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
    /// NFS4ERR_EXIST.
    #[error("entry exists")]
    Exist,
    /// NFS4ERR_XDEV: the two objects are on different file systems.
    #[error("different file systems")]
    Xdev,
    /// NFS4ERR_NOTDIR.
    #[error("not a directory")]
    Notdir,
    /// NFS4ERR_ISDIR.
    #[error("is a directory")]
    Isdir,
    /// NFS4ERR_INVAL.
    #[error("invalid argument")]
    Inval,
    /// NFS4ERR_FBIG.
    #[error("file too large")]
    Fbig,
    /// NFS4ERR_NOSPC.
    #[error("no space left")]
    Nospc,
    /// NFS4ERR_ROFS.
    #[error("read-only file system")]
    Rofs,
    /// NFS4ERR_MLINK.
    #[error("too many links")]
    Mlink,
    /// NFS4ERR_NAMETOOLONG.
    #[error("name too long")]
    Nametoolong,
    /// NFS4ERR_NOTEMPTY.
    #[error("directory not empty")]
    Notempty,
    /// NFS4ERR_DQUOT.
    #[error("quota exceeded")]
    Dquot,
    /// NFS4ERR_STALE: the object of this handle is gone.
    #[error("stale handle")]
    Stale,
    /// NFS4ERR_BADHANDLE: this was never a handle of this backend.
    #[error("bad handle")]
    Badhandle,
    /// NFS4ERR_BAD_COOKIE: READDIR cannot continue from here.
    #[error("bad cookie")]
    BadCookie,
    /// NFS4ERR_NOTSUPP.
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

/// A backend's answer.
pub type VfsResult<T> = Result<T, VfsError>;
