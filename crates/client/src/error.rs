//! What can go wrong, and whose fault it is.

use std::io;

use nfs4::{NfsOpnum4, Nfsstat4};
use rpc::{AcceptStat, AuthStat, Denied, RecordError, ReplyError};

/// Any failure of the client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The server refused the call before looking at the COMPOUND.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// Kerberos gave no context.
    #[error(transparent)]
    Gss(#[from] gss::GssError),
    /// The server's side of RPCSEC_GSS is wrong; the reply is not to be trusted.
    #[error(transparent)]
    Protection(#[from] ProtectionError),
    /// An operation failed.
    #[error("{operation}: {status}")]
    Nfs {
        /// Which.
        operation: NfsOpnum4,
        /// How.
        status: Nfsstat4,
    },
    /// The COMPOUND as a whole failed before its first operation, such as with
    /// NFS4ERR_MINOR_VERS_MISMATCH.
    #[error("COMPOUND: {0}")]
    Compound(Nfsstat4),
    /// The results do not decode, or are not those of the operations that were asked for.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// No answer within the call's time.
    #[error("no answer in time")]
    Timeout,
    /// The caller asked for something that cannot be done.
    #[error("misuse: {0}")]
    Misuse(&'static str),
}

/// The connection failed.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The host name has no address.
    #[error("{host} cannot be resolved: {cause}")]
    Resolve {
        /// As it was given.
        host: String,
        /// The resolver's error.
        cause: io::Error,
    },
    /// No connection could be made.
    #[error("connect: {0}")]
    Connect(io::Error),
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The server closed the connection.
    #[error("closed by the server")]
    Closed,
    /// The server's records are malformed.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Every attempt to connect again failed for as long as the options allow.
    #[error("the server was not reachable for {0:?}")]
    GaveUp(std::time::Duration),
}

/// The server refused the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RpcError {
    /// MSG_DENIED for its credential or verifier.
    #[error("denied: {0}")]
    Auth(AuthStat),
    /// MSG_DENIED for its RPC version.
    #[error("denied: RPC versions {low} to {high} only")]
    VersionMismatch {
        /// Lowest version of the server.
        low: u32,
        /// Highest version of the server.
        high: u32,
    },
    /// MSG_ACCEPTED, but not executed.
    #[error("{0}")]
    NotExecuted(AcceptStat),
    /// The reply has no valid head.
    #[error(transparent)]
    Malformed(#[from] ReplyError),
}

impl From<Denied> for RpcError {
    fn from(denied: Denied) -> Self {
        match denied {
            Denied::RpcMismatch { low, high } => Self::VersionMismatch { low, high },
            Denied::Auth(status) => Self::Auth(status),
        }
    }
}

/// A reply that breaks RPCSEC_GSS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtectionError {
    /// The verifier is not the MIC of the call's sequence number (RFC 2203 section 5.3.3.2).
    #[error("the reply's verifier is wrong")]
    Verifier,
    /// The frame around the results is malformed.
    #[error("the protected body is malformed")]
    Body,
    /// The checksum or the token of the results is wrong.
    #[error("the protected body is not genuine")]
    Integrity,
    /// The results are signed where they should be encrypted.
    #[error("the results are not encrypted")]
    NotSealed,
    /// The sequence number inside the results is not the call's.
    #[error("the results belong to another call")]
    Sequence,
    /// The server could not make a context; its major and minor status.
    #[error("the server refused the context: major {major:#x}, minor {minor:#x}")]
    Refused {
        /// `gss_major` of RFC 2203 section 5.2.3.1.
        major: u32,
        /// `gss_minor` of RFC 2203 section 5.2.3.1.
        minor: u32,
    },
    /// The server ended the exchange of tokens before this side was done, or went on after it was.
    #[error("the exchange of tokens ended out of step")]
    OutOfStep,
}

/// Results that do not fit the COMPOUND.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResultsError {
    /// The bytes do not decode.
    #[error(transparent)]
    Malformed(#[from] xdr::Error),
    /// The server answers another operation.
    #[error("a result of operation {found} where {expected} was asked for")]
    Operation {
        /// What was asked for.
        expected: NfsOpnum4,
        /// The number that came.
        found: u32,
    },
    /// There are fewer results than operations although all succeeded.
    #[error("no result of {0}")]
    Missing(NfsOpnum4),
    /// The reply to SEQUENCE names another session, slot or sequence id.
    #[error("SEQUENCE answers for another slot")]
    Slot,
}

impl Error {
    /// The NFS status, if that is what went wrong.
    pub const fn status(&self) -> Option<Nfsstat4> {
        match self {
            Self::Nfs { status, .. } | Self::Compound(status) => Some(*status),
            _ => None,
        }
    }

    /// Whether the operation failed with `status`.
    pub fn is(&self, status: Nfsstat4) -> bool {
        self.status() == Some(status)
    }

    /// Whether the server asks to try again later: NFS4ERR_DELAY or NFS4ERR_GRACE.
    pub const fn is_temporary(&self) -> bool {
        matches!(self.status(), Some(Nfsstat4::NFS4ERR_DELAY | Nfsstat4::NFS4ERR_GRACE))
    }

    /// Whether the server does not know the security context, or not any more (RFC 2203 section
    /// 5.3.3.3).
    pub const fn is_context_lost(&self) -> bool {
        matches!(
            self,
            Self::Rpc(RpcError::Auth(AuthStat::RPCSEC_GSS_CREDPROBLEM | AuthStat::RPCSEC_GSS_CTXPROBLEM))
        )
    }

    /// Whether the session or the client is gone, as after a restart of the server: see
    /// [`Client::recover`](crate::Client::recover).
    pub const fn is_session_lost(&self) -> bool {
        matches!(
            self.status(),
            Some(
                Nfsstat4::NFS4ERR_BADSESSION
                    | Nfsstat4::NFS4ERR_DEADSESSION
                    | Nfsstat4::NFS4ERR_STALE_CLIENTID
            )
        )
    }
}

impl From<io::Error> for Error {
    fn from(cause: io::Error) -> Self {
        Self::Transport(cause.into())
    }
}

impl From<rustix::io::Errno> for TransportError {
    fn from(cause: rustix::io::Errno) -> Self {
        Self::Io(cause.into())
    }
}

impl From<xdr::Error> for Error {
    fn from(cause: xdr::Error) -> Self {
        Self::Results(cause.into())
    }
}
