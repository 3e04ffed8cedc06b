//! How an operation ends that does not succeed.

use super::Shortage;
use nfs4::Nfsstat4;
use vfs::VfsError;

/// A status other than NFS4_OK, with or without a result body behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What the operation answers.
    pub status: Nfsstat4,
    /// Whether what the operation wrote is the body of that status (the denied lock of LOCK, the attributes
    /// that SETATTR had set). Else the engine takes it back.
    pub keep_body: bool,
    /// Whether the operation has done nothing yet and has to be begun again where it may wait.
    pub would_wait: bool,
    /// What the backend has run out of.
    pub shortage: Option<Shortage>,
    /// The error of the file system that NFS4ERR_IO stands for.
    pub errno: Option<i32>,
}

impl Failure {
    /// Makes a failure whose body the operation has written already.
    pub fn with_body(status: Nfsstat4) -> Self {
        Self { keep_body: true, ..status.into() }
    }

    /// Makes the failure of an operation that stops before its first effect, because it would have to wait.
    pub fn would_wait() -> Self {
        Self { would_wait: true, ..Nfsstat4::NFS4ERR_DELAY.into() }
    }
}

/// What an operation returns; its result, without the status, is in the reply.
pub type OpResult = Result<(), Failure>;

impl From<Nfsstat4> for Failure {
    fn from(status: Nfsstat4) -> Self {
        Self { status, keep_body: false, would_wait: false, shortage: None, errno: None }
    }
}

/// Arguments that cannot be decoded (RFC 8881 section 15.1.1.1).
impl From<xdr::Error> for Failure {
    fn from(_: xdr::Error) -> Self {
        Nfsstat4::NFS4ERR_BADXDR.into()
    }
}

impl From<VfsError> for Failure {
    fn from(error: VfsError) -> Self {
        let shortage = match error {
            VfsError::Nospc | VfsError::Dquot => Some(Shortage::Space),
            VfsError::Exhausted => Some(Shortage::Descriptors),
            _ => None,
        };
        let errno = if let VfsError::Os(errno) = error { Some(errno) } else { None };
        Self { shortage, errno, ..vfs_status(error).into() }
    }
}

/// Returns the status for a backend's refusal; the names agree.
pub fn vfs_status(error: VfsError) -> Nfsstat4 {
    match error {
        VfsError::Perm => Nfsstat4::NFS4ERR_PERM,
        VfsError::Noent => Nfsstat4::NFS4ERR_NOENT,
        VfsError::Io | VfsError::Os(_) => Nfsstat4::NFS4ERR_IO,
        VfsError::Access => Nfsstat4::NFS4ERR_ACCESS,
        VfsError::Exist => Nfsstat4::NFS4ERR_EXIST,
        VfsError::Xdev => Nfsstat4::NFS4ERR_XDEV,
        VfsError::Notdir => Nfsstat4::NFS4ERR_NOTDIR,
        VfsError::Isdir => Nfsstat4::NFS4ERR_ISDIR,
        VfsError::Inval => Nfsstat4::NFS4ERR_INVAL,
        VfsError::Fbig => Nfsstat4::NFS4ERR_FBIG,
        VfsError::Nospc => Nfsstat4::NFS4ERR_NOSPC,
        VfsError::Rofs => Nfsstat4::NFS4ERR_ROFS,
        VfsError::Mlink => Nfsstat4::NFS4ERR_MLINK,
        VfsError::Nametoolong => Nfsstat4::NFS4ERR_NAMETOOLONG,
        VfsError::Notempty => Nfsstat4::NFS4ERR_NOTEMPTY,
        VfsError::Dquot => Nfsstat4::NFS4ERR_DQUOT,
        VfsError::Stale => Nfsstat4::NFS4ERR_STALE,
        VfsError::Badhandle => Nfsstat4::NFS4ERR_BADHANDLE,
        VfsError::BadCookie => Nfsstat4::NFS4ERR_BAD_COOKIE,
        VfsError::Notsupp => Nfsstat4::NFS4ERR_NOTSUPP,
        VfsError::Badname => Nfsstat4::NFS4ERR_BADNAME,
        VfsError::Symlink => Nfsstat4::NFS4ERR_SYMLINK,
        VfsError::WrongType => Nfsstat4::NFS4ERR_WRONG_TYPE,
        VfsError::Nxio => Nfsstat4::NFS4ERR_NXIO,
        VfsError::Noxattr => Nfsstat4::NFS4ERR_NOXATTR,
        VfsError::Xattr2big => Nfsstat4::NFS4ERR_XATTR2BIG,
        VfsError::Delay | VfsError::Exhausted => Nfsstat4::NFS4ERR_DELAY,
    }
}
