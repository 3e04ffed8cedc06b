//! Outbound protection: verifiers, MICs and encryption of finished replies, in batches.

use super::context::SharedContext;
use super::paused_run;
use crate::metrics::{CryptoStep, Kind, ServedCall, ServedCounters};
use krb5::{Enctype, MicMessage, MicToken, Segments, WRAP_HEADROOM, WrapMessage};
use pipes::Attachment;
use rpc::gss::{RpcGssServiceT, SEQUENCE_LEN, begin_body, end_body};
use rpc::{Accepted, ConnectionId, OpaqueAuth, RECORD_MARK_LEN};
use xdr::{Encoder, padding};

/// A reply that lacks only its cryptography, in the buffer that it is sent from.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) connection: ConnectionId,
    /// The kind of the call.
    pub(crate) kind: Kind,
    /// The reply, behind the room for the record mark.
    pub(crate) buffer: Encoder,
    /// File data of the reply outside of `buffer`, if its results are not protected.
    pub(crate) attached: Option<Attachment>,
    /// The part of the counters of the call.
    pub(crate) served: ServedCall,
    /// The protection to apply; `None` for AUTH_NONE, AUTH_SYS and denials.
    pub(crate) protection: Option<Protection>,
}

/// The protection that a reply by RPCSEC_GSS still lacks.
#[derive(Debug)]
pub(crate) struct Protection {
    context: SharedContext,
    /// The data that the verifier signs: the call's sequence number, or the window of a new context
    /// (RFC 2203 sections 5.3.3.2 and 5.2.3.1), as XDR.
    signed: [u8; 4],
    body: ProtectedBody,
}

impl Protection {
    /// Returns whether the results are signed or encrypted, besides the verifier.
    pub(crate) fn has_body(&self) -> bool {
        !matches!(self.body, ProtectedBody::Plain)
    }
}

/// The protection of the results, with the position of their length field.
#[derive(Debug)]
enum ProtectedBody {
    Plain,
    Integrity { length_at: usize },
    Privacy { length_at: usize },
}

/// Offset of the verifier's token in a reply buffer: behind the mark, XID, message type, reply
/// status, flavor and length.
const VERIFIER_AT: usize = RECORD_MARK_LEN + 5 * 4;

/// Placeholder for the longest MIC token, to be overwritten.
const BLANK: [u8; krb5::MIC_TOKEN_MAX] = [0; krb5::MIC_TOKEN_MAX];

/// Returns the bytes that a successful reply takes besides its results.
pub(crate) fn reply_overhead(context: &SharedContext, service: RpcGssServiceT) -> usize {
    let opaque = |length: usize| 4 + length + padding(length);
    let keys = context.keys();
    // XID, message type, reply status, flavor, and the status after the verifier.
    let head = 5 * 4 + opaque(keys.mic_len());
    head + match service {
        RpcGssServiceT::rpc_gss_svc_none => 0,
        RpcGssServiceT::rpc_gss_svc_integrity => 4 + SEQUENCE_LEN + opaque(keys.mic_len()),
        RpcGssServiceT::rpc_gss_svc_privacy => opaque(WRAP_HEADROOM + SEQUENCE_LEN + keys.wrap_trailer_len()),
    }
}

/// Begins an accepted reply by RPCSEC_GSS in `buffer`, which holds only the room for the mark, and
/// reserves room for the verifier. `signed` is the number that the verifier signs.
///
/// For protected data (`service` other than none) this also lays out the length, the headroom and
/// the sequence number of the results, so that the results are encoded where they are signed or
/// encrypted; see [`Outgoing::finish`]. Only results of [`Accepted::Success`] are protected.
pub(crate) fn begin_reply(
    buffer: &mut Encoder,
    xid: u32,
    status: Accepted,
    context: &SharedContext,
    service: RpcGssServiceT,
    signed: u32,
) -> Protection {
    let blank = BLANK.get(..context.keys().mic_len()).unwrap_or(&BLANK);
    status.encode(buffer, xid, &OpaqueAuth::gss(blank));
    let body = match service {
        _ if status != Accepted::Success => ProtectedBody::Plain,
        RpcGssServiceT::rpc_gss_svc_none => ProtectedBody::Plain,
        RpcGssServiceT::rpc_gss_svc_integrity => {
            let length_at = begin_body(buffer);
            buffer.u32(signed);
            ProtectedBody::Integrity { length_at }
        }
        RpcGssServiceT::rpc_gss_svc_privacy => {
            let length_at = begin_body(buffer);
            buffer.raw(&[0; WRAP_HEADROOM]).u32(signed);
            ProtectedBody::Privacy { length_at }
        }
    };
    Protection { context: context.clone(), signed: signed.to_be_bytes(), body }
}

impl Outgoing {
    /// Returns the encryption type of the context's keys; `None` without protection.
    pub(crate) fn enctype(&self) -> Option<Enctype> {
        self.protection.as_ref().map(|protection| protection.context.keys().enctype())
    }

    /// Returns the length of the reply in bytes, as far as it exists.
    pub(crate) fn len(&self) -> usize {
        self.buffer.len() + self.attached.as_ref().map_or(0, |attached| attached.data.len())
    }

    /// Returns the messages to sign for this reply: its verifier, and its body with integrity.
    fn signatures(&self) -> impl Iterator<Item = MicMessage<'_>> {
        self.protection.iter().flat_map(|protection| {
            let body = match protection.body {
                ProtectedBody::Integrity { length_at } => self.buffer.as_slice().get(length_at + 4..),
                ProtectedBody::Plain | ProtectedBody::Privacy { .. } => None,
            };
            [Some(&protection.signed[..]), body].into_iter().flatten().map(|data| MicMessage {
                keys: protection.context.keys(),
                sequence: protection.context.next_token_sequence(),
                data,
                token: MicToken::EMPTY,
            })
        })
    }

    fn seal_message(&mut self, confounder: [u8; CONFOUNDER_LEN]) -> Option<WrapMessage<'_>> {
        let protection = self.protection.as_ref()?;
        let ProtectedBody::Privacy { length_at } = protection.body else { return None };
        let keys = protection.context.keys();
        let buffer = self.buffer.as_mut_vec();
        buffer.resize(buffer.len() + keys.wrap_trailer_len(), 0);
        Some(WrapMessage {
            keys,
            sequence: protection.context.next_token_sequence(),
            confounder,
            token: Segments::from(buffer.get_mut(length_at + 4..)?),
        })
    }

    fn is_sealed(&self) -> bool {
        matches!(self.protection, Some(Protection { body: ProtectedBody::Privacy { .. }, .. }))
    }

    /// Writes the tokens to their places.
    fn finish(&mut self, tokens: &mut impl Iterator<Item = MicToken>) {
        let Some(protection) = &self.protection else { return };
        if let Some(verifier) = tokens.next() {
            let place = self.buffer.as_mut_vec().get_mut(VERIFIER_AT..VERIFIER_AT + verifier.len());
            if let Some(place) = place {
                place.copy_from_slice(&verifier);
            }
        }
        match protection.body {
            ProtectedBody::Plain => {}
            ProtectedBody::Integrity { length_at } => {
                end_body(&mut self.buffer, length_at);
                if let Some(checksum) = tokens.next() {
                    self.buffer.opaque(&checksum);
                }
            }
            ProtectedBody::Privacy { length_at } => end_body(&mut self.buffer, length_at),
        }
    }
}

const CONFOUNDER_LEN: usize = 16;

/// Confounders drawn at once, so that a single reply does not cost a system call.
const CONFOUNDERS_DRAWN: usize = 64;

/// Random bytes for coming replies; each is used once.
#[derive(Default)]
pub(crate) struct ReplyConfounders(Vec<[u8; CONFOUNDER_LEN]>);

impl ReplyConfounders {
    fn next(&mut self, random: &dyn Fn(&mut [u8])) -> [u8; CONFOUNDER_LEN] {
        if self.0.is_empty() {
            self.0.resize(CONFOUNDERS_DRAWN, [0; CONFOUNDER_LEN]);
            random(self.0.as_flattened_mut());
        }
        self.0.pop().unwrap_or_default()
    }
}

/// Signs and encrypts replies in place, each kind as one batch, with pauses. Calls `signed` between
/// the two.
pub(crate) fn seal(
    replies: &mut [Outgoing],
    random: &dyn Fn(&mut [u8]),
    confounders: &mut ReplyConfounders,
    counters: &ServedCounters,
    pause: &mut dyn FnMut(),
    signed: &mut dyn FnMut(),
) {
    let mut batch: Vec<MicMessage<'_>> = Vec::with_capacity(2 * replies.len());
    batch.extend(replies.iter().flat_map(Outgoing::signatures));
    counters.batch(CryptoStep::Sign, batch.len());
    krb5::get_mic_with(&mut paused_run(pause), &mut batch);
    let mut tokens = batch.into_iter().map(|message| message.token).collect::<Vec<_>>().into_iter();
    signed();

    let mut batch: Vec<WrapMessage<'_>> = Vec::with_capacity(replies.len());
    let private = replies.iter_mut().filter(|reply| reply.is_sealed());
    batch.extend(private.filter_map(|reply| reply.seal_message(confounders.next(random))));
    if !batch.is_empty() {
        counters.batch(CryptoStep::Encrypt, batch.len());
        krb5::wrap_with(&mut paused_run(pause), &mut batch);
    }
    for reply in replies {
        reply.finish(&mut tokens);
    }
}
