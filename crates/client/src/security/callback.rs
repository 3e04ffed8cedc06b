//! The server calls back by RPCSEC_GSS (RFC 8881 sections 2.10.8.2 and 18.36.3): by a context that this client has made, with
//! a name of the client's for this direction.

use std::sync::Arc;

use krb5::{Segments, TokenError, UnwrapMessage, WRAP_HEADROOM, WrapMessage};
use nfs4::{CallbackSecParms4, GssCbHandles4, RpcGssSvcT};
use rpc::gss::{
    GssCredential, RpcGssProcT, RpcGssServiceT, begin_body, end_body, integrity_body, privacy_body,
    protected_data,
};
use rpc::{
    Accepted, AuthFlavor, AuthStat, CallHeader, Denied, OpaqueAuth, RECORD_MARK_LEN, SequenceWindow,
    WindowOutcome,
};
use xdr::Encoder;

use super::{Damage, GssContext, random};
use crate::error::Error;

/// The context by which the server is to call back.
#[derive(Clone, Debug)]
pub(crate) struct CallbackContext {
    context: Arc<GssContext>,
    service: RpcGssServiceT,
    /// The client's name for it.
    handle: [u8; 8],
}

impl CallbackContext {
    /// Has callbacks go by a context, with this service.
    pub(crate) fn new(context: Arc<GssContext>, service: RpcGssServiceT) -> Result<Self, Error> {
        Ok(Self { context, service, handle: random()? })
    }

    /// What CREATE_SESSION and BACKCHANNEL_CTL say of it.
    pub(crate) fn parms(&self) -> CallbackSecParms4<'static> {
        let gcbp_service = match self.service {
            RpcGssServiceT::rpc_gss_svc_none => RpcGssSvcT::RPC_GSS_SVC_NONE,
            RpcGssServiceT::rpc_gss_svc_integrity => RpcGssSvcT::RPC_GSS_SVC_INTEGRITY,
            RpcGssServiceT::rpc_gss_svc_privacy => RpcGssSvcT::RPC_GSS_SVC_PRIVACY,
        };
        CallbackSecParms4::RPCSEC_GSS(GssCbHandles4 {
            gcbp_service,
            gcbp_handle_from_server: self.context.handle().to_vec().into(),
            gcbp_handle_from_client: self.handle.to_vec().into(),
        })
    }

    /// A window for the sequence numbers of callbacks, as wide as that of calls (RFC 8881 section 18.36.3).
    pub(crate) fn window(&self) -> SequenceWindow {
        SequenceWindow::new(self.context.window())
    }

    /// Checks who calls back, then the sequence number, and returns that. A call whose number was used before is met with
    /// silence (RFC 2203 section 5.3.3.1): `Err(None)`.
    pub(crate) fn admit(
        &self,
        window: &mut SequenceWindow,
        header: &CallHeader<'_>,
    ) -> Result<u32, Option<Denied>> {
        let deny = |status| Some(Denied::Auth(status));
        if header.credential.known_flavor() != Some(AuthFlavor::RPCSEC_GSS) {
            return Err(deny(AuthStat::AUTH_TOOWEAK));
        }
        let credential =
            GssCredential::parse(header.credential.body).map_err(|_| deny(AuthStat::AUTH_BADCRED))?;
        let known = credential.handle == self.handle && credential.procedure == RpcGssProcT::RPCSEC_GSS_DATA;
        if !known || self.context.keys().verify(header.signed, header.verifier.body).is_err() {
            return Err(deny(AuthStat::RPCSEC_GSS_CREDPROBLEM));
        }
        if credential.service != self.service {
            return Err(deny(AuthStat::AUTH_TOOWEAK));
        }
        match window.check(credential.sequence) {
            WindowOutcome::Accepted => Ok(credential.sequence),
            WindowOutcome::BeyondMaxseq => Err(deny(AuthStat::RPCSEC_GSS_CTXPROBLEM)),
            WindowOutcome::Replayed | WindowOutcome::TooOld => Err(None),
        }
    }

    /// Takes the protection off the arguments; nothing if they are not what the server has sent.
    pub(crate) fn arguments(&self, record: &[u8], at: usize, sequence: u32) -> Option<Vec<u8>> {
        let keys = self.context.keys();
        let (found, data) = match self.service {
            RpcGssServiceT::rpc_gss_svc_none => (sequence, record.get(at..)?.to_vec()),
            RpcGssServiceT::rpc_gss_svc_integrity => {
                let (body, found) = integrity_body(record, at).ok()?;
                keys.verify(record.get(body.signed.clone())?, record.get(body.checksum.clone())?).ok()?;
                (found, record.get(body.data())?.to_vec())
            }
            RpcGssServiceT::rpc_gss_svc_privacy => {
                let mut token = record.get(privacy_body(record, at).ok()?)?.to_vec();
                let result = Err(TokenError::Malformed);
                let mut batch = [UnwrapMessage { keys, token: Segments::from(&mut token[..]), result }];
                krb5::unwrap(&mut batch);
                let [UnwrapMessage { result, .. }] = batch;
                let plain = result.ok().filter(|opened| opened.sealed)?.plain;
                let (found, data) = protected_data(&token, plain).ok()?;
                (found, token.get(data)?.to_vec())
            }
        };
        (found == sequence).then_some(data)
    }

    /// The record of an answer, with room for its mark.
    pub(crate) fn answer(
        &self,
        xid: u32,
        sequence: u32,
        status: Accepted,
        results: &[u8],
        damage: Damage,
    ) -> Result<Vec<u8>, Error> {
        let keys = self.context.keys();
        let mut encoder = Encoder::new();
        encoder.raw(&[0; RECORD_MARK_LEN]);
        let mut verifier = keys.mic(self.context.next_token(), &sequence.to_be_bytes()).to_vec();
        flip(&mut verifier, damage == Damage::Verifier);
        status.encode(&mut encoder, xid, &OpaqueAuth::gss(&verifier));
        match self.service {
            _ if status != Accepted::Success => {}
            RpcGssServiceT::rpc_gss_svc_none => {
                encoder.raw(results);
            }
            RpcGssServiceT::rpc_gss_svc_integrity => {
                let signed = [&sequence.to_be_bytes()[..], results].concat();
                let mut mic = keys.mic(self.context.next_token(), &signed).to_vec();
                flip(&mut mic, damage == Damage::Body);
                encoder.opaque(&signed).opaque(&mic);
            }
            RpcGssServiceT::rpc_gss_svc_privacy => {
                let at = begin_body(&mut encoder);
                encoder.raw(&[0; WRAP_HEADROOM]).u32(sequence).raw(results);
                let buffer = encoder.as_mut_vec();
                buffer.resize(buffer.len() + keys.wrap_trailer_len(), 0);
                let (_, token) = buffer.split_at_mut(at + 4);
                let (confounder, sequence) = (random()?, self.context.next_token());
                let token = Segments::from(token);
                krb5::wrap(&mut [WrapMessage { keys, sequence, confounder, token }]);
                flip(encoder.as_mut_vec(), damage == Damage::Body);
                end_body(&mut encoder, at);
            }
        }
        Ok(encoder.into_vec())
    }
}

/// Breaks the last bit, if it is to be broken.
fn flip(bytes: &mut [u8], breaks: bool) {
    if let Some(last) = bytes.last_mut() {
        *last ^= u8::from(breaks);
    }
}
