//! Verifies and unwraps replies in batches.

use std::ops::Range;
use std::sync::Arc;

use krb5::{Segments, TokenError, UnwrapMessage, VerifyMessage};
use rpc::gss::{RpcGssServiceT, SEQUENCE_LEN, integrity_body, privacy_body, protected_data};
use rpc::{Accepted, ReplyHeader};

use super::{GssContext, Protection};
use crate::error::{Error, ProtectionError, RpcError};
use crate::reply::Body;

/// Offset of the verifier's bytes in an accepted reply: behind XID, message type, status, flavor
/// and length.
const VERIFIER_AT: usize = 20;

/// The proof that a reply must carry.
#[derive(Clone, Debug)]
pub(crate) enum Expected {
    /// The reply carries no proof.
    Nothing,
    /// The verifier is the MIC of the call's sequence number, and the service is the call's.
    Gss { context: Arc<GssContext>, sequence: u32, service: RpcGssServiceT },
}

impl Expected {
    /// Returns the proof required of the reply to a call with this protection.
    pub(crate) fn of(protection: &Protection) -> Self {
        match protection {
            Protection::Plain { .. } => Self::Nothing,
            Protection::Gss(call) => {
                Self::Gss { context: call.context.clone(), sequence: call.sequence, service: call.service }
            }
        }
    }
}

/// A received reply during verification.
#[derive(Debug)]
pub(crate) struct Incoming {
    record: Vec<u8>,
    expected: Expected,
    /// The bytes that the verifier signs.
    signed: [u8; SEQUENCE_LEN],
    verifier: Range<usize>,
    /// The signed range of the record and its checksum, for bodies with integrity.
    checksum: Option<(Range<usize>, Range<usize>)>,
    /// The range of the token of an encrypted body.
    token: Option<Range<usize>>,
    /// The range of the results, as far as it is known.
    result: Result<Range<usize>, Error>,
}

impl Incoming {
    /// Wraps a reply to a call with the given expectations.
    pub(crate) fn new(record: Vec<u8>, expected: Expected) -> Self {
        let signed = match &expected {
            Expected::Nothing => [0; SEQUENCE_LEN],
            Expected::Gss { sequence, .. } => sequence.to_be_bytes(),
        };
        Self { record, expected, signed, verifier: 0..0, checksum: None, token: None, result: Ok(0..0) }
    }

    /// Returns the results or the error.
    pub(crate) fn into_body(self) -> Result<Body, Error> {
        self.into_parts().1
    }

    /// Returns the expectations, and the results or the error.
    pub(crate) fn into_parts(self) -> (Expected, Result<Body, Error>) {
        (self.expected, self.result.map(|results| Body { record: self.record, results }))
    }

    fn fail(&mut self, fault: ProtectionError) {
        if self.result.is_ok() {
            self.result = Err(fault.into());
        }
    }

    /// Parses the reply and finds the parts to verify.
    fn parse(&mut self) -> Result<Range<usize>, Error> {
        let (verifier, results_at) = match ReplyHeader::parse(&self.record).map_err(RpcError::from)? {
            ReplyHeader::Denied { why, .. } => return Err(RpcError::from(why).into()),
            ReplyHeader::Accepted { verifier, status: Accepted::Success, results_at, .. } => {
                (verifier.body.len(), results_at)
            }
            ReplyHeader::Accepted { status, .. } => return Err(RpcError::NotExecuted(status.status()).into()),
        };
        let malformed = |_| ProtectionError::Body;
        let Expected::Gss { sequence, service, .. } = &self.expected else {
            return Ok(results_at..self.record.len());
        };
        self.verifier = VERIFIER_AT..VERIFIER_AT + verifier;
        match service {
            RpcGssServiceT::rpc_gss_svc_none => Ok(results_at..self.record.len()),
            RpcGssServiceT::rpc_gss_svc_integrity => {
                let (body, found) = integrity_body(&self.record, results_at).map_err(malformed)?;
                if found != *sequence {
                    return Err(ProtectionError::Sequence.into());
                }
                let results = body.data();
                self.checksum = Some((body.signed, body.checksum));
                Ok(results)
            }
            RpcGssServiceT::rpc_gss_svc_privacy => {
                self.token = Some(privacy_body(&self.record, results_at).map_err(malformed)?);
                Ok(0..0)
            }
        }
    }

    /// Stores the contents of an unwrapped token.
    fn opened(&mut self, opened: Result<krb5::Unwrapped, TokenError>) {
        let Some(token) = self.token.take() else { return };
        let Ok(opened) = opened else { return self.fail(ProtectionError::Integrity) };
        if !opened.sealed {
            return self.fail(ProtectionError::NotSealed);
        }
        let content = token.start + opened.plain.start..token.start + opened.plain.end;
        match protected_data(&self.record, content) {
            Ok((sequence, _)) if sequence.to_be_bytes() != self.signed => {
                self.fail(ProtectionError::Sequence)
            }
            Ok((_, results)) if self.result.is_ok() => self.result = Ok(results),
            Ok(_) => {}
            Err(_) => self.fail(ProtectionError::Body),
        }
    }
}

/// Verifies and unwraps replies; like [`seal`](super::seal), in one batch per kind.
pub(crate) fn open(replies: &mut [Incoming]) {
    for reply in replies.iter_mut() {
        reply.result = reply.parse();
    }
    verify(replies);
    unwrap(replies);
}

fn verify(replies: &mut [Incoming]) {
    let mut batch = Vec::with_capacity(replies.len());
    let mut owners = Vec::with_capacity(replies.len());
    for (at, reply) in replies.iter().enumerate() {
        let (Ok(_), Expected::Gss { context, .. }) = (&reply.result, &reply.expected) else { continue };
        let keys = context.keys();
        let bytes = |range: &Range<usize>| reply.record.get(range.clone()).unwrap_or_default();
        let check = |data, token| VerifyMessage { keys, data, token, result: Err(TokenError::Malformed) };
        batch.push(check(&reply.signed[..], bytes(&reply.verifier)));
        owners.push((at, ProtectionError::Verifier));
        if let Some((signed, checksum)) = &reply.checksum {
            batch.push(check(bytes(signed), bytes(checksum)));
            owners.push((at, ProtectionError::Integrity));
        }
    }
    krb5::verify_mic(&mut batch);
    if batch.iter().all(|check| check.result.is_ok()) {
        return;
    }
    let wrong: Vec<_> = batch.iter().zip(owners).filter(|(check, _)| check.result.is_err()).collect();
    let wrong: Vec<_> = wrong.into_iter().map(|(_, owner)| owner).collect();
    for (at, fault) in wrong {
        if let Some(reply) = replies.get_mut(at) {
            reply.fail(fault);
        }
    }
}

fn unwrap(replies: &mut [Incoming]) {
    let mut batch = Vec::with_capacity(replies.len());
    for reply in replies.iter_mut() {
        let (Ok(_), Some(token), Expected::Gss { context, .. }) =
            (&reply.result, &reply.token, &reply.expected)
        else {
            continue;
        };
        let token = Segments::from(reply.record.get_mut(token.clone()).unwrap_or_default());
        batch.push(UnwrapMessage { keys: context.keys(), token, result: Err(TokenError::Malformed) });
    }
    krb5::unwrap(&mut batch);
    let mut results = batch.into_iter().map(|message| message.result).collect::<Vec<_>>().into_iter();
    for reply in replies.iter_mut().filter(|reply| reply.result.is_ok() && reply.token.is_some()) {
        reply.opened(results.next().unwrap_or(Err(TokenError::Malformed)));
    }
}
