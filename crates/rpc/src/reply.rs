//! Reply headers (RFC 5531 section 9, `reply_body`), for servers and clients.

use crate::auth::OpaqueAuth;
use crate::generated::{AcceptStat, AuthStat, MsgType, RejectStat, ReplyStat};
use xdr::{Decode, Decoder, Encode, Encoder, Error};

/// Status of an accepted call (`accept_stat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// The procedure ran; its results follow.
    Success,
    /// The server does not have the program.
    ProgUnavail,
    /// The server has only other versions of the program.
    ProgMismatch {
        /// Lowest version that the server has.
        low: u32,
        /// Highest version that the server has.
        high: u32,
    },
    /// The program has no such procedure.
    ProcUnavail,
    /// The arguments could not be decoded.
    GarbageArgs,
    /// The server failed, for example for lack of memory.
    SystemErr,
}

/// Why a call was denied (`reject_stat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The server does not support the RPC version.
    RpcMismatch {
        /// Lowest RPC version that the server supports.
        low: u32,
        /// Highest RPC version that the server supports.
        high: u32,
    },
    /// Authentication failed, with the reason.
    Auth(AuthStat),
}

/// The header of a reply, borrowed from its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyHeader<'a> {
    /// The server accepted the call (MSG_ACCEPTED).
    Accepted {
        /// Transaction ID of the call.
        xid: u32,
        /// The verifier of the server.
        verifier: OpaqueAuth<'a>,
        /// Status of the call.
        status: Accepted,
        /// Offset of the results in the record of a successful reply, in bytes.
        results_at: usize,
    },
    /// The server denied the call (MSG_DENIED).
    Denied {
        /// Transaction ID of the call.
        xid: u32,
        /// The reason for the denial.
        why: Denied,
    },
}

/// The reason why a record is not a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// The header does not decode.
    #[error("malformed RPC reply: {0}")]
    Malformed(#[from] Error),
    /// The record is a call.
    #[error("a call where a reply was expected")]
    NotAReply,
}

impl Accepted {
    /// Appends the header of an accepted reply. After [`Accepted::Success`] the caller appends the
    /// results.
    pub fn encode(self, encoder: &mut Encoder, xid: u32, verifier: &OpaqueAuth<'_>) {
        encoder.u32(xid).u32(MsgType::REPLY as u32).u32(ReplyStat::MSG_ACCEPTED as u32);
        verifier.encode(encoder);
        self.encode_status(encoder);
    }

    /// Appends `accept_stat` and its data, for callers that have appended the verifier.
    pub fn encode_status(self, encoder: &mut Encoder) {
        encoder.u32(self.status() as u32);
        if let Self::ProgMismatch { low, high } = self {
            encoder.u32(low).u32(high);
        }
    }

    /// Returns the status as it is on the wire.
    pub const fn status(self) -> AcceptStat {
        match self {
            Self::Success => AcceptStat::SUCCESS,
            Self::ProgUnavail => AcceptStat::PROG_UNAVAIL,
            Self::ProgMismatch { .. } => AcceptStat::PROG_MISMATCH,
            Self::ProcUnavail => AcceptStat::PROC_UNAVAIL,
            Self::GarbageArgs => AcceptStat::GARBAGE_ARGS,
            Self::SystemErr => AcceptStat::SYSTEM_ERR,
        }
    }

    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Error> {
        let value = decoder.u32()?;
        let status = AcceptStat::from_u32(value).ok_or(Error::InvalidEnum { name: "accept_stat", value })?;
        Ok(match status {
            AcceptStat::SUCCESS => Self::Success,
            AcceptStat::PROG_UNAVAIL => Self::ProgUnavail,
            AcceptStat::PROG_MISMATCH => Self::ProgMismatch { low: decoder.u32()?, high: decoder.u32()? },
            AcceptStat::PROC_UNAVAIL => Self::ProcUnavail,
            AcceptStat::GARBAGE_ARGS => Self::GarbageArgs,
            AcceptStat::SYSTEM_ERR => Self::SystemErr,
        })
    }
}

impl Denied {
    /// Appends a complete denied reply.
    pub fn encode(self, encoder: &mut Encoder, xid: u32) {
        encoder.u32(xid).u32(MsgType::REPLY as u32).u32(ReplyStat::MSG_DENIED as u32);
        match self {
            Self::RpcMismatch { low, high } => {
                encoder.u32(RejectStat::RPC_MISMATCH as u32).u32(low).u32(high);
            }
            Self::Auth(status) => {
                encoder.u32(RejectStat::AUTH_ERROR as u32).u32(status as u32);
            }
        }
    }

    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Error> {
        let value = decoder.u32()?;
        match RejectStat::from_u32(value).ok_or(Error::InvalidEnum { name: "reject_stat", value })? {
            RejectStat::RPC_MISMATCH => Ok(Self::RpcMismatch { low: decoder.u32()?, high: decoder.u32()? }),
            RejectStat::AUTH_ERROR => {
                let value = decoder.u32()?;
                let status =
                    AuthStat::from_u32(value).ok_or(Error::InvalidEnum { name: "auth_stat", value })?;
                Ok(Self::Auth(status))
            }
        }
    }
}

impl<'a> ReplyHeader<'a> {
    /// Parses the header of a record that must be a reply.
    ///
    /// # Errors
    /// [`ReplyError`]; discard the record.
    pub fn parse(record: &'a [u8]) -> Result<Self, ReplyError> {
        let mut decoder = Decoder::new(record);
        let xid = decoder.u32()?;
        if MsgType::from_u32(decoder.u32()?) != Some(MsgType::REPLY) {
            return Err(ReplyError::NotAReply);
        }
        let value = decoder.u32()?;
        match ReplyStat::from_u32(value).ok_or(Error::InvalidEnum { name: "reply_stat", value })? {
            ReplyStat::MSG_ACCEPTED => {
                let verifier = OpaqueAuth::decode(&mut decoder)?;
                let status = Accepted::decode(&mut decoder)?;
                Ok(Self::Accepted { xid, verifier, status, results_at: decoder.position() })
            }
            ReplyStat::MSG_DENIED => Ok(Self::Denied { xid, why: Denied::decode(&mut decoder)? }),
        }
    }

    /// Returns the transaction ID of the call.
    pub const fn xid(&self) -> u32 {
        match *self {
            Self::Accepted { xid, .. } | Self::Denied { xid, .. } => xid,
        }
    }
}
