//! Callbacks by RPCSEC_GSS (RFC 8881 sections 2.10.8.2 and 18.36.3): the server uses a context that
//! this client has established, under a handle that the client chooses.

use std::borrow::Cow;
use std::sync::Arc;

use nfs4::{CallbackSecParms4, GssCbHandles4, RpcGssSvcT};
use rpc::gss::{GssCredential, RpcGssProcT, RpcGssServiceT};
use rpc::{
    Accepted, AuthFlavor, AuthStat, CallHeader, Denied, OpaqueAuth, RECORD_MARK_LEN, SequenceWindow,
    WindowOutcome,
};
use rpcsec::Channel;
use xdr::Encoder;

use super::{Damage, GssContext, random};
use crate::error::Error;

/// The context that the server uses for callbacks.
#[derive(Clone, Debug)]
pub(crate) struct CallbackContext {
    context: Arc<GssContext>,
    service: RpcGssServiceT,
    /// The handle that the client chose for the context.
    handle: [u8; 8],
}

impl CallbackContext {
    /// Selects a context and a service for callbacks, with a random handle.
    pub(crate) fn new(context: Arc<GssContext>, service: RpcGssServiceT) -> Result<Self, Error> {
        Ok(Self { context, service, handle: random()? })
    }

    /// Returns the `callback_sec_parms4` for CREATE_SESSION and BACKCHANNEL_CTL.
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

    /// Returns a window for the sequence numbers of callbacks, as wide as that of calls (RFC 8881
    /// section 18.36.3).
    pub(crate) fn window(&self) -> SequenceWindow {
        SequenceWindow::new(self.context.window())
    }

    /// Checks the credential and the sequence number of a callback, and returns the number. A
    /// repeated number gets no answer (RFC 2203 section 5.3.3.1): `Err(None)`.
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

    /// Unwraps the arguments; `None` if they fail verification.
    pub(crate) fn arguments(&self, record: &[u8], at: usize, sequence: u32) -> Option<Vec<u8>> {
        self.channel(sequence).open(record, at).ok().map(Cow::into_owned)
    }

    fn channel(&self, sequence: u32) -> Channel<'_> {
        Channel { keys: self.context.keys(), service: self.service, sequence }
    }

    /// Builds the record of an answer, with room for the record mark.
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
        if status == Accepted::Success {
            let end = self.channel(sequence).seal(
                &mut encoder,
                || self.context.next_token(),
                random()?,
                |encoder| {
                    encoder.raw(results);
                },
            );
            let has_token = self.service != RpcGssServiceT::rpc_gss_svc_none;
            flip(
                encoder.as_mut_vec().get_mut(..end).unwrap_or_default(),
                has_token && damage == Damage::Body,
            );
        }
        Ok(encoder.into_vec())
    }
}

/// Flips the last bit if `breaks` is set.
fn flip(bytes: &mut [u8], breaks: bool) {
    if let Some(last) = bytes.last_mut() {
        *last ^= u8::from(breaks);
    }
}
