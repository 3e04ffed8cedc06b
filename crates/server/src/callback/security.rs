//! How callbacks are authenticated and protected (RFC 8881 sections 2.10.8.2 and 18.36.3).
//!
//! With RPCSEC_GSS a callback goes by a context that the client has established at the server: the server is its acceptor as
//! ever and signs with the acceptor's keys, under the name that the client has given the context for this direction.

use crate::engine::{Compound, Nfs};
use crate::rpcsec::SharedContext;
use krb5::{Segments, TokenError, UnwrapMessage, WRAP_HEADROOM, WrapMessage};
use nfs4::{CallbackSecParms4, Nfsstat4};
use rpc::gss::{
    GssCredential, RpcGssProcT, RpcGssServiceT, begin_body, end_body, integrity_body, privacy_body,
    protected_data,
};
use rpc::{Accepted, AuthFlavor, AuthSys, CallHeader, OpaqueAuth, RECORD_MARK_LEN, ReplyHeader};
use state::{BackChannel, CallbackSecurity};
use std::borrow::Cow;
use std::time::Duration;
use xdr::{Encode, Encoder};

/// Random bytes that an encrypted callback takes.
pub(super) const CONFOUNDER_LEN: usize = 16;

/// How one callback is authenticated, and what its answer has to prove.
#[derive(Debug)]
pub(super) enum Proof {
    /// AUTH_NONE.
    None,
    /// AUTH_SYS, by this credential.
    Sys(Vec<u8>),
    /// RPCSEC_GSS.
    Gss(GssProof),
}

/// What belongs to a callback by RPCSEC_GSS.
#[derive(Debug)]
pub(super) struct GssProof {
    context: SharedContext,
    service: RpcGssServiceT,
    /// The client's name for the context.
    handle: Vec<u8>,
    sequence: u32,
}

/// What an answer is, before its results are looked at.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Opened<'a> {
    /// The results of a call that was carried out.
    Results(Cow<'a, [u8]>),
    /// The client has refused the call.
    Refused,
    /// It does not come from the client, or was changed on its way.
    Forged,
}

impl Nfs {
    /// The first of the client's ways to authenticate that can be gone; none when the contexts are gone.
    pub(super) fn proof(&self, channel: &BackChannel, now: Duration) -> Option<Proof> {
        channel.security.iter().find_map(|security| match security {
            CallbackSecurity::None => Some(Proof::None),
            CallbackSecurity::Sys { machine, uid, gid } => {
                let mut encoder = Encoder::new();
                AuthSys::new(0, machine, *uid, *gid, &[]).encode(&mut encoder);
                Some(Proof::Sys(encoder.into_vec()))
            }
            CallbackSecurity::Gss { service, handle_from_server, handle_from_client, .. } => {
                let context = self.callbacks.context(handle_from_server, now)?;
                let service = RpcGssServiceT::from_u32(*service)?;
                let (sequence, handle) = (context.next_callback_sequence()?, handle_from_client.clone());
                Some(Proof::Gss(GssProof { context, service, handle, sequence }))
            }
        })
    }
}

impl Compound<'_> {
    /// Returns callback_sec_parms4 as state keeps them. Contexts are the caller's own: by another's the server would sign
    /// what nobody has asked for in the other's name.
    ///
    /// # Errors
    /// NFS4ERR_NOENT for a context that does not exist, or is not the caller's.
    pub fn callback_security(
        &self,
        parms: &[CallbackSecParms4<'_>],
    ) -> Result<Vec<CallbackSecurity>, Nfsstat4> {
        parms.iter().map(|parms| self.one_callback_security(parms)).collect()
    }

    fn one_callback_security(&self, parms: &CallbackSecParms4<'_>) -> Result<CallbackSecurity, Nfsstat4> {
        Ok(match parms {
            CallbackSecParms4::AUTH_NONE => CallbackSecurity::None,
            CallbackSecParms4::AUTH_SYS(body) => {
                CallbackSecurity::Sys { machine: body.machinename.to_vec(), uid: body.uid, gid: body.gid }
            }
            CallbackSecParms4::RPCSEC_GSS(handles) => {
                let none = RpcGssServiceT::rpc_gss_svc_none;
                let found = self.nfs.callbacks.context(&handles.gcbp_handle_from_server, self.now());
                let own =
                    |context: &SharedContext| context.security(none).sender == self.call.security.sender;
                let context = found.filter(own).ok_or(Nfsstat4::NFS4ERR_NOENT)?;
                CallbackSecurity::Gss {
                    service: handles.gcbp_service as u32,
                    handle_from_server: handles.gcbp_handle_from_server.to_vec(),
                    handle_from_client: handles.gcbp_handle_from_client.to_vec(),
                    expires: context.expires(),
                }
            }
        })
    }
}

impl Proof {
    /// The record of a call with these arguments, with room for the record mark.
    pub(super) fn record(
        &self,
        xid: u32,
        target: (u32, u32, u32),
        args: &impl Encode,
        confounder: [u8; CONFOUNDER_LEN],
    ) -> Vec<u8> {
        let mut encoder = Encoder::new();
        encoder.raw(&[0; RECORD_MARK_LEN]);
        let plain = match self {
            Self::Gss(proof) => {
                proof.encode(&mut encoder, xid, target, args, confounder);
                return encoder.into_vec();
            }
            Self::None => OpaqueAuth::NONE,
            Self::Sys(body) => OpaqueAuth::sys(body),
        };
        CallHeader::encode_signed(&mut encoder, xid, target, &plain);
        OpaqueAuth::NONE.encode(&mut encoder);
        encoder.value(args);
        encoder.into_vec()
    }

    /// Checks an answer and takes its protection off.
    pub(super) fn open<'a>(&self, record: &'a [u8]) -> Opened<'a> {
        match (ReplyHeader::parse(record), self) {
            (Ok(ReplyHeader::Accepted { verifier, status, results_at, .. }), Self::Gss(proof)) => {
                proof.open(record, &verifier, status, results_at).unwrap_or(Opened::Forged)
            }
            (Ok(ReplyHeader::Accepted { status: Accepted::Success, results_at, .. }), _) => {
                Opened::Results(record.get(results_at..).unwrap_or_default().into())
            }
            // Nobody signs a denial.
            _ => Opened::Refused,
        }
    }
}

impl GssProof {
    /// Appends head, verifier and protected arguments (RFC 2203 section 5.3.1 and 5.3.2).
    fn encode(
        &self,
        encoder: &mut Encoder,
        xid: u32,
        target: (u32, u32, u32),
        args: &impl Encode,
        confounder: [u8; CONFOUNDER_LEN],
    ) {
        let (context, sequence) = (&self.context, self.sequence);
        let mut credential = Encoder::new();
        let (procedure, service) = (RpcGssProcT::RPCSEC_GSS_DATA, self.service);
        GssCredential { procedure, sequence, service, handle: &self.handle }.encode(&mut credential);
        CallHeader::encode_signed(encoder, xid, target, &OpaqueAuth::gss(credential.as_slice()));
        let signed = encoder.as_slice().get(RECORD_MARK_LEN..).unwrap_or_default();
        let mic = context.keys().mic(context.next_token_sequence(), signed);
        OpaqueAuth::gss(&mic).encode(encoder);
        match service {
            RpcGssServiceT::rpc_gss_svc_none => {
                encoder.value(args);
            }
            RpcGssServiceT::rpc_gss_svc_integrity => {
                let at = begin_body(encoder);
                encoder.u32(sequence).value(args);
                let body = encoder.as_slice().get(at + 4..).unwrap_or_default();
                let mic = context.keys().mic(context.next_token_sequence(), body);
                end_body(encoder, at);
                encoder.opaque(&mic);
            }
            RpcGssServiceT::rpc_gss_svc_privacy => {
                let at = begin_body(encoder);
                encoder.raw(&[0; WRAP_HEADROOM]).u32(sequence).value(args);
                let buffer = encoder.as_mut_vec();
                buffer.resize(buffer.len() + context.keys().wrap_trailer_len(), 0);
                let (_, token) = buffer.split_at_mut(at + 4);
                let (keys, sequence) = (context.keys(), context.next_token_sequence());
                krb5::wrap(&mut [WrapMessage { keys, sequence, confounder, token: Segments::from(token) }]);
                end_body(encoder, at);
            }
        }
    }

    /// Checks an accepted answer (RFC 2203 section 5.3.3.2). None: it is not genuine.
    fn open<'a>(
        &self,
        record: &'a [u8],
        verifier: &OpaqueAuth<'_>,
        status: Accepted,
        results_at: usize,
    ) -> Option<Opened<'a>> {
        let keys = self.context.keys();
        let is_gss = verifier.known_flavor() == Some(AuthFlavor::RPCSEC_GSS);
        keys.verify(&self.sequence.to_be_bytes(), verifier.body).ok().filter(|_| is_gss)?;
        if status != Accepted::Success {
            return Some(Opened::Refused);
        }
        match self.service {
            RpcGssServiceT::rpc_gss_svc_none => Some(Opened::Results(record.get(results_at..)?.into())),
            RpcGssServiceT::rpc_gss_svc_integrity => {
                let (body, sequence) = integrity_body(record, results_at).ok()?;
                keys.verify(record.get(body.signed.clone())?, record.get(body.checksum.clone())?).ok()?;
                (sequence == self.sequence).then_some(Opened::Results(record.get(body.data())?.into()))
            }
            RpcGssServiceT::rpc_gss_svc_privacy => {
                let mut token = record.get(privacy_body(record, results_at).ok()?)?.to_vec();
                let result = Err(TokenError::Malformed);
                let mut batch = [UnwrapMessage { keys, token: Segments::from(&mut token[..]), result }];
                krb5::unwrap(&mut batch);
                let [UnwrapMessage { result, .. }] = batch;
                // A token that is only signed is genuine, but it is not what the service says.
                let plain = result.ok().filter(|opened| opened.sealed)?.plain;
                let (sequence, data) = protected_data(&token, plain).ok()?;
                let results = token.get(data)?.to_vec();
                (sequence == self.sequence).then_some(Opened::Results(results.into()))
            }
        }
    }
}
