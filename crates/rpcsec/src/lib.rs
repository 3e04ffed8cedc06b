//! Protects single RPCSEC_GSS bodies (RFC 2203 sections 5.3.2 and 5.3.3), in both directions.
//!
//! Callbacks use it at both ends: the server seals calls and opens replies, the client opens calls
//! and seals replies. Neither side sends enough callbacks to fill a batch. Calls and replies of the
//! fore channel go through the batches of `server::rpcsec` and `client::security`, which protect
//! many messages at once.
//!
//! The crate does no I/O and draws no randomness: the caller passes confounders and token numbers.

#![warn(clippy::indexing_slicing)]

use krb5::{ContextKeys, Segments, TokenError, UnwrapMessage, WRAP_HEADROOM, WrapMessage};
use rpc::gss::{RpcGssServiceT, begin_body, end_body, integrity_body, privacy_body, protected_data};
use std::borrow::Cow;
use std::ops::Range;
use xdr::Encoder;

/// Length of a confounder in bytes: one block of AES.
pub const CONFOUNDER_LEN: usize = 16;

/// The reason why a body is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// The bytes do not decode as a body of the service.
    #[error("malformed body: {0}")]
    Malformed(#[from] xdr::Error),
    /// The token or the checksum is wrong.
    #[error("wrong token: {0}")]
    Token(#[from] TokenError),
    /// The token is signed but not encrypted, although the service is privacy.
    #[error("body is not encrypted")]
    NotSealed,
    /// The sequence number inside differs from the header's (RFC 2203 section 5.3.3.4.2).
    #[error("sequence number {found} in the body of call {expected}")]
    Sequence {
        /// The number of the header.
        expected: u32,
        /// The number of the body.
        found: u32,
    },
}

/// One end of a context as a single message needs it.
#[derive(Clone, Copy, Debug)]
pub struct Channel<'a> {
    /// The keys of this end.
    pub keys: &'a ContextKeys,
    /// The service of the message.
    pub service: RpcGssServiceT,
    /// The sequence number of the RPC header.
    pub sequence: u32,
}

impl Channel<'_> {
    /// Appends a protected body to `encoder`. `plain` encodes the arguments or results.
    ///
    /// `token` draws the number of the GSS token (RFC 4121 section 4.2.6), if the service has one.
    /// `confounder` must be random and unused; only privacy uses it. Returns the position behind
    /// the last byte of the checksum or token. Without protection that is the end of the body.
    pub fn seal(
        &self,
        encoder: &mut Encoder,
        token: impl FnOnce() -> u64,
        confounder: [u8; CONFOUNDER_LEN],
        plain: impl FnOnce(&mut Encoder),
    ) -> usize {
        match self.service {
            RpcGssServiceT::rpc_gss_svc_none => {
                plain(encoder);
                encoder.len()
            }
            RpcGssServiceT::rpc_gss_svc_integrity => {
                let at = begin_body(encoder);
                encoder.u32(self.sequence);
                plain(encoder);
                let mic = self.keys.mic(token(), encoder.as_slice().get(at + 4..).unwrap_or_default());
                end_body(encoder, at);
                let end = encoder.len() + 4 + mic.len();
                encoder.opaque(&mic);
                end
            }
            RpcGssServiceT::rpc_gss_svc_privacy => {
                let at = begin_body(encoder);
                encoder.raw(&[0; WRAP_HEADROOM]).u32(self.sequence);
                plain(encoder);
                let buffer = encoder.as_mut_vec();
                buffer.resize(buffer.len() + self.keys.wrap_trailer_len(), 0);
                let (_, bytes) = buffer.split_at_mut(at + 4);
                let (keys, sequence, token) = (self.keys, token(), Segments::from(bytes));
                krb5::wrap(&mut [WrapMessage { keys, sequence, confounder, token }]);
                let end = encoder.len();
                end_body(encoder, at);
                end
            }
        }
    }

    /// Returns the arguments or results of the body that begins at `at` and ends with the record.
    ///
    /// # Errors
    /// Any [`BodyError`]; nothing of the body is returned then.
    pub fn open<'a>(&self, record: &'a [u8], at: usize) -> Result<Cow<'a, [u8]>, BodyError> {
        match self.service {
            RpcGssServiceT::rpc_gss_svc_none => Ok(part(record, at..record.len())?.into()),
            RpcGssServiceT::rpc_gss_svc_integrity => {
                let (body, found) = integrity_body(record, at)?;
                self.keys.verify(part(record, body.signed.clone())?, part(record, body.checksum.clone())?)?;
                self.check(found)?;
                Ok(part(record, body.data())?.into())
            }
            RpcGssServiceT::rpc_gss_svc_privacy => {
                let mut token = part(record, privacy_body(record, at)?)?.to_vec();
                let opened = self.decrypt(&mut token)?;
                if !opened.sealed {
                    return Err(BodyError::NotSealed);
                }
                let (found, data) = protected_data(&token, opened.plain)?;
                self.check(found)?;
                token.truncate(data.end);
                token.drain(..data.start);
                Ok(token.into())
            }
        }
    }

    fn decrypt(&self, token: &mut [u8]) -> Result<krb5::Unwrapped, TokenError> {
        let (token, result) = (Segments::from(token), Err(TokenError::Malformed));
        let mut batch = [UnwrapMessage { keys: self.keys, token, result }];
        krb5::unwrap(&mut batch);
        let [UnwrapMessage { result, .. }] = batch;
        result
    }

    fn check(&self, found: u32) -> Result<(), BodyError> {
        let expected = self.sequence;
        if found == expected { Ok(()) } else { Err(BodyError::Sequence { expected, found }) }
    }
}

fn part(record: &[u8], range: Range<usize>) -> Result<&[u8], xdr::Error> {
    let (needed, remaining) = (range.end, record.len());
    record.get(range).ok_or(xdr::Error::Truncated { needed, remaining })
}

#[cfg(test)]
mod tests;
