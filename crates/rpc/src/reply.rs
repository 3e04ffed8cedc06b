//! The head of a reply (RFC 5531 section 9, `reply_body`), both ways.

use crate::auth::OpaqueAuth;
use crate::generated::{AcceptStat, AuthStat, MsgType, RejectStat, ReplyStat};
use xdr::{Decode, Decoder, Encode, Encoder, Error};

/// What became of an accepted call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// Done: the results follow.
    Success,
    /// The program does not exist here.
    ProgUnavail,
    /// The program exists in other versions only.
    ProgMismatch {
        /// The lowest version here.
        low: u32,
        /// The highest version here.
        high: u32,
    },
    /// The program has no such procedure.
    ProcUnavail,
    /// The arguments could not be decoded.
    GarbageArgs,
    /// The server failed, for lack of memory or the like.
    SystemErr,
}

/// Why a call was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The RPC version is not spoken here.
    RpcMismatch {
        /// The lowest version here.
        low: u32,
        /// The highest version here.
        high: u32,
    },
    /// The caller could not be authenticated.
    Auth(AuthStat),
}

/// The head of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyHeader<'a> {
    /// MSG_ACCEPTED.
    Accepted {
        /// The transaction that is answered.
        xid: u32,
        /// The server's proof.
        verifier: OpaqueAuth<'a>,
        /// What became of the call.
        status: Accepted,
        /// Where in the record the results begin, in a successful reply.
        results_at: usize,
    },
    /// MSG_DENIED.
    Denied {
        /// The transaction that is answered.
        xid: u32,
        /// Why.
        why: Denied,
    },
}

/// Says why a record is no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// The bytes do not decode.
    #[error("malformed RPC reply: {0}")]
    Malformed(#[from] Error),
    /// The record is a call.
    #[error("a call where a reply was expected")]
    NotAReply,
}

impl Accepted {
    /// Appends the head of an accepted reply; in a successful one the results follow.
    pub fn encode(self, encoder: &mut Encoder, xid: u32, verifier: &OpaqueAuth<'_>) {
        encoder.u32(xid).u32(MsgType::REPLY as u32).u32(ReplyStat::MSG_ACCEPTED as u32);
        verifier.encode(encoder);
        self.encode_status(encoder);
    }

    /// Appends `accept_stat` and what belongs to it, for callers that wrote verifiers themselves.
    pub fn encode_status(self, encoder: &mut Encoder) {
        encoder.u32(self.status() as u32);
        if let Self::ProgMismatch { low, high } = self {
            encoder.u32(low).u32(high);
        }
    }

    /// The status as the RFC names it.
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
    /// Appends a whole denied reply.
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
    /// Reads the head of a record that must be a reply.
    ///
    /// # Errors
    /// [`ReplyError`]: whatever it says, nothing in this record can be trusted.
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

    /// The transaction that is answered.
    pub const fn xid(&self) -> u32 {
        match *self {
            Self::Accepted { xid, .. } | Self::Denied { xid, .. } => xid,
        }
    }
}
