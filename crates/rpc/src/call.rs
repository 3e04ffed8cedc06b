//! The head of a call (RFC 5531 section 9, `call_body`).

use crate::auth::OpaqueAuth;
use crate::generated::{AuthStat, MsgType, RPC_VERS};
use xdr::{Decode, Decoder, Encode, Encoder, Error};

/// A record, told apart by its message type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// A call.
    Call(CallHeader<'a>),
    /// A reply, to a call that this side made on the same connection.
    Reply {
        /// The transaction that it answers.
        xid: u32,
    },
}

/// The head of a call, borrowed from its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallHeader<'a> {
    /// The caller's number for the transaction.
    pub xid: u32,
    /// Remote program.
    pub program: u32,
    /// Version of the program.
    pub version: u32,
    /// Procedure of the program.
    pub procedure: u32,
    /// Who calls.
    pub credential: OpaqueAuth<'a>,
    /// The proof.
    pub verifier: OpaqueAuth<'a>,
    /// The record from the XID through the credential: what the verifier of an RPCSEC_GSS call signs
    /// (RFC 2203 section 5.3.1).
    pub signed: &'a [u8],
    /// Where in the record the arguments of the procedure begin.
    pub arguments_at: usize,
}

/// Says why a record has no call header that could be worked with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// There is not even a transaction to answer: the connection closes.
    #[error("not an RPC message: {0}")]
    Malformed(#[from] Error),
    /// The message type is neither CALL nor REPLY: the connection closes.
    #[error("message type {0}")]
    MessageType(u32),
    /// Another version of RPC: RPC_MISMATCH.
    #[error("RPC version {version}")]
    RpcVersion {
        /// The transaction to answer.
        xid: u32,
        /// The version asked for.
        version: u32,
    },
    /// Credential or verifier break their frame, by length above all: AUTH_ERROR.
    #[error("{status:?}: {cause}")]
    Auth {
        /// The transaction to answer.
        xid: u32,
        /// AUTH_BADCRED or AUTH_BADVERF.
        status: AuthStat,
        /// What is wrong.
        cause: Error,
    },
}

impl<'a> Message<'a> {
    /// Reads the head of a record.
    ///
    /// # Errors
    /// [`CallError`] says what to answer.
    pub fn parse(record: &'a [u8]) -> Result<Self, CallError> {
        let mut decoder = Decoder::new(record);
        let xid = decoder.u32()?;
        let message_type = decoder.u32()?;
        match MsgType::from_u32(message_type) {
            Some(MsgType::CALL) => CallHeader::parse(xid, record, &mut decoder).map(Self::Call),
            Some(MsgType::REPLY) => Ok(Self::Reply { xid }),
            None => Err(CallError::MessageType(message_type)),
        }
    }
}

impl<'a> CallHeader<'a> {
    fn parse(xid: u32, record: &'a [u8], decoder: &mut Decoder<'a>) -> Result<Self, CallError> {
        let version = decoder.u32()?;
        if version != RPC_VERS {
            return Err(CallError::RpcVersion { xid, version });
        }
        let (program, version, procedure) = (decoder.u32()?, decoder.u32()?, decoder.u32()?);
        let auth = |status| move |cause| CallError::Auth { xid, status, cause };
        let credential = OpaqueAuth::decode(decoder).map_err(auth(AuthStat::AUTH_BADCRED))?;
        let signed = record.get(..decoder.position()).unwrap_or_default();
        let verifier = OpaqueAuth::decode(decoder).map_err(auth(AuthStat::AUTH_BADVERF))?;
        let arguments_at = decoder.position();
        Ok(Self { xid, program, version, procedure, credential, verifier, signed, arguments_at })
    }

    /// Appends the head of a call up to and including the credential: what an RPCSEC_GSS verifier signs.
    /// The verifier and the arguments follow.
    pub fn encode_signed(
        encoder: &mut Encoder,
        xid: u32,
        target: (u32, u32, u32),
        credential: &OpaqueAuth<'_>,
    ) {
        let (program, version, procedure) = target;
        encoder.u32(xid).u32(MsgType::CALL as u32).u32(RPC_VERS);
        encoder.u32(program).u32(version).u32(procedure);
        credential.encode(encoder);
    }
}
