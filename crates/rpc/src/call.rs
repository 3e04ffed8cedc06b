//! Call headers (RFC 5531 section 9, `call_body`).

use crate::auth::OpaqueAuth;
use crate::generated::{AuthStat, MsgType, RPC_VERS};
use xdr::{Decode, Decoder, Encode, Encoder, Error};

/// The header of a record, by message type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// A call with its header.
    Call(CallHeader<'a>),
    /// A reply to a call that this side sent on the same connection (a callback).
    Reply {
        /// Transaction ID of the call that is answered.
        xid: u32,
    },
}

/// The header of a call, borrowed from its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallHeader<'a> {
    /// Transaction ID, which the reply repeats.
    pub xid: u32,
    /// Program number, 100003 for NFS.
    pub program: u32,
    /// Version number of the program.
    pub version: u32,
    /// Procedure number within the program.
    pub procedure: u32,
    /// Credential: the identity that the caller claims.
    pub credential: OpaqueAuth<'a>,
    /// Verifier: the proof of the credential.
    pub verifier: OpaqueAuth<'a>,
    /// The record from the XID through the credential. The verifier of an RPCSEC_GSS call is the
    /// MIC of these bytes (RFC 2203 section 5.3.1).
    pub signed: &'a [u8],
    /// Offset of the procedure's arguments in the record, in bytes.
    pub arguments_at: usize,
}

/// Why a record has no usable call header, and with it the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The record has no transaction ID to answer; close the connection.
    #[error("not an RPC message: {0}")]
    Malformed(#[from] Error),
    /// The message type is neither CALL nor REPLY; close the connection.
    #[error("unknown RPC message type {0}")]
    MessageType(u32),
    /// The RPC version is not 2; answer RPC_MISMATCH.
    #[error("RPC version {version} is not supported")]
    RpcVersion {
        /// Transaction ID of the call.
        xid: u32,
        /// Version in the call.
        version: u32,
    },
    /// The credential or the verifier does not decode, or is too long; answer AUTH_ERROR.
    #[error("{status:?}: {cause}")]
    Auth {
        /// Transaction ID of the call.
        xid: u32,
        /// Either AUTH_BADCRED or AUTH_BADVERF.
        status: AuthStat,
        /// The error of the decoder.
        cause: Error,
    },
}

impl<'a> Message<'a> {
    /// Parses the header of a record.
    ///
    /// # Errors
    /// [`CallError`]; each variant names the answer.
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

    /// Appends a call header up to and including the credential: the bytes that an RPCSEC_GSS
    /// verifier signs. `target` is program, version and procedure. The caller appends the verifier
    /// and the arguments.
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
