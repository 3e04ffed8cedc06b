//! Reasons why an operation stops before it succeeds: it fails, or it would block.

use super::Shortage;
use nfs4::Nfsstat4;
use state::GetattrWait;
use vfs::VfsError;

/// The result of a step of an operation that may block. The operation's own result, without the
/// status, is in the reply.
pub type OpResult<T = ()> = Result<T, OpStop>;

/// The reason why an operation stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpStop {
    /// It fails, and the client receives a status.
    Failed(OpError),
    /// It has changed nothing yet and would block: the COMPOUND is deferred before it.
    Deferred(DeferReason),
}

/// The failure of an operation: its status, and the error that led to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpError {
    /// The status in the reply, never NFS4_OK.
    pub status: Nfsstat4,
    /// The error below the operation, to be logged and counted.
    pub cause: Cause,
    /// Whether the bytes that the operation has written to the reply are kept.
    pub body: ErrorBody,
}

/// The error that a status stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A rule of the protocol; the status is the whole cause.
    Protocol,
    /// Arguments that cannot be decoded (RFC 8881 section 15.1.1.1).
    Decode(xdr::Error),
    /// An error of the file system.
    Backend(VfsError),
}

/// The part of a failed operation's reply after its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorBody {
    /// Nothing: bytes that the operation has written are removed.
    Discard,
    /// The bytes that the operation has written: the denied lock of LOCK, the attributes that
    /// SETATTR had set before it failed.
    Keep,
}

/// The event that a deferred COMPOUND waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeferReason {
    /// The file system of the current filehandle's export, or another disk of the server.
    CurrentExport,
    /// As `CurrentExport`, for names and attributes. The file system answers from memory, so it
    /// seldom blocks, and the shard itself may run the operation after its tick.
    Brief,
    /// The lane of another export, by its number, or of the name service.
    Lane(u32),
    /// The answer of the client that holds a write delegation (CB_GETATTR, RFC 8881 section 20.1).
    Holder(GetattrWait),
}

impl OpError {
    /// Makes an error whose body the operation has written already.
    pub fn with_body(status: Nfsstat4) -> Self {
        Self { body: ErrorBody::Keep, ..status.into() }
    }
}

impl Cause {
    /// Returns the resource that the backend lacks.
    pub fn shortage(self) -> Option<Shortage> {
        match self {
            Self::Backend(VfsError::Nospc | VfsError::Dquot) => Some(Shortage::Space),
            Self::Backend(VfsError::Exhausted) => Some(Shortage::Descriptors),
            _ => None,
        }
    }
}

impl OpStop {
    /// Returns whether the operation fails with this status.
    pub fn is(self, status: Nfsstat4) -> bool {
        matches!(self, Self::Failed(error) if error.status == status)
    }

    /// Returns the resource that the backend lacks, if that is the reason.
    pub fn shortage(self) -> Option<Shortage> {
        if let Self::Failed(error) = self { error.cause.shortage() } else { None }
    }
}

impl From<Nfsstat4> for OpError {
    fn from(status: Nfsstat4) -> Self {
        Self { status, cause: Cause::Protocol, body: ErrorBody::Discard }
    }
}

impl From<xdr::Error> for OpError {
    fn from(error: xdr::Error) -> Self {
        Self { cause: Cause::Decode(error), ..Nfsstat4::NFS4ERR_BADXDR.into() }
    }
}

impl From<VfsError> for OpError {
    fn from(error: VfsError) -> Self {
        Self { cause: Cause::Backend(error), ..vfs_status(error).into() }
    }
}

impl<E: Into<OpError>> From<E> for OpStop {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl From<DeferReason> for OpStop {
    fn from(wait: DeferReason) -> Self {
        Self::Deferred(wait)
    }
}

/// Returns the NFSv4 status of a backend's error. The names agree.
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
        VfsError::Moved => Nfsstat4::NFS4ERR_MOVED,
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
