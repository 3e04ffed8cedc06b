//! The errors of the client, sorted by the side that caused them.

use std::io;

use nfs4::{NfsOpnum4, Nfsstat4};
use rpc::{AcceptStat, AuthStat, Denied, RecordError, ReplyError};

/// Any failure of the client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection to the server failed.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The server refused the call before it decoded the COMPOUND.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// Kerberos could not establish a context.
    #[error(transparent)]
    Gss(#[from] gss::GssError),
    /// The server violated RPCSEC_GSS; the reply cannot be trusted.
    #[error(transparent)]
    Protection(#[from] ProtectionError),
    /// A single operation failed.
    #[error("{operation}: {status}")]
    Nfs {
        /// The operation that failed.
        operation: NfsOpnum4,
        /// The NFS status of its result.
        status: Nfsstat4,
    },
    /// The whole COMPOUND failed before its first operation, for example with
    /// NFS4ERR_MINOR_VERS_MISMATCH.
    #[error("COMPOUND: {0}")]
    Compound(Nfsstat4),
    /// The results do not decode or do not match the operations of the COMPOUND.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// No reply arrived within the call's time limit.
    #[error("no answer in time")]
    Timeout,
    /// The caller requested an operation that is not possible.
    #[error("misuse: {0}")]
    Misuse(&'static str),
}

/// A failure of the connection.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The host name has no address.
    #[error("{host} cannot be resolved: {cause}")]
    Resolve {
        /// The name as the options give it.
        host: String,
        /// The error of the resolver.
        cause: io::Error,
    },
    /// No address accepted a connection.
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
    /// Every reconnect failed until the limit in the options.
    #[error("the server was not reachable for {0:?}")]
    GaveUp(std::time::Duration),
}

/// A call that the server refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RpcError {
    /// MSG_DENIED because of the credential or verifier.
    #[error("denied: {0}")]
    Auth(AuthStat),
    /// MSG_DENIED because of the RPC version.
    #[error("denied: RPC versions {low} to {high} only")]
    VersionMismatch {
        /// Lowest version that the server supports.
        low: u32,
        /// Highest version that the server supports.
        high: u32,
    },
    /// MSG_ACCEPTED, but the call was not executed.
    #[error("{0}")]
    NotExecuted(AcceptStat),
    /// The reply header does not decode.
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

/// A reply that violates RPCSEC_GSS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtectionError {
    /// The verifier is not the MIC of the call's sequence number (RFC 2203 section 5.3.3.2).
    #[error("the reply's verifier is wrong")]
    Verifier,
    /// The wrapper of the results does not decode.
    #[error("the protected body is malformed")]
    Body,
    /// The checksum or token of the results is invalid.
    #[error("the protected body is not genuine")]
    Integrity,
    /// The results are signed instead of encrypted.
    #[error("the results are not encrypted")]
    NotSealed,
    /// The sequence number inside the results differs from that of the call.
    #[error("the results belong to another call")]
    Sequence,
    /// The server could not establish a context; holds its major and minor status.
    #[error("the server refused the context: {}", gss::Codes { major: *major, minor: *minor })]
    Refused {
        /// `gss_major` of RFC 2203 section 5.2.3.1.
        major: u32,
        /// `gss_minor` of RFC 2203 section 5.2.3.1.
        minor: u32,
    },
    /// One side finished the exchange of context tokens before the other.
    #[error("the exchange of tokens ended out of step")]
    OutOfStep,
}

/// Results that do not match the COMPOUND.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResultsError {
    /// The bytes do not decode as XDR.
    #[error(transparent)]
    Malformed(#[from] xdr::Error),
    /// The result belongs to another operation.
    #[error("a result of operation {found} where {expected} was asked for")]
    Operation {
        /// The operation of the request.
        expected: NfsOpnum4,
        /// The operation number in the result.
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
    /// Returns the NFS status, if the error is one.
    pub const fn status(&self) -> Option<Nfsstat4> {
        match self {
            Self::Nfs { status, .. } | Self::Compound(status) => Some(*status),
            _ => None,
        }
    }

    /// Returns whether the operation failed with `status`.
    pub fn is(&self, status: Nfsstat4) -> bool {
        self.status() == Some(status)
    }

    /// Returns whether a retry may succeed: NFS4ERR_DELAY or NFS4ERR_GRACE.
    pub const fn is_temporary(&self) -> bool {
        matches!(self.status(), Some(Nfsstat4::NFS4ERR_DELAY | Nfsstat4::NFS4ERR_GRACE))
    }

    /// Returns whether the server does not know the security context or has discarded it (RFC 2203
    /// section 5.3.3.3).
    pub const fn is_context_lost(&self) -> bool {
        matches!(
            self,
            Self::Rpc(RpcError::Auth(AuthStat::RPCSEC_GSS_CREDPROBLEM | AuthStat::RPCSEC_GSS_CTXPROBLEM))
        )
    }

    /// Returns whether the session or the client is lost, as after a restart of the server. See
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
