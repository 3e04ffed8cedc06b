//! Authentication and protection of callbacks (RFC 8881 sections 2.10.8.2 and 18.36.3).
//!
//! With RPCSEC_GSS a callback uses a context that the client has established at the server. The
//! server remains the acceptor and signs with the acceptor's keys, under the handle that the client
//! has given the context for this direction.

pub(super) mod image;

use super::CallbackQueue;
use crate::rpcsec::SharedContext;

use nfs4::{CallbackSecParms4, Nfsstat4};
use rpc::gss::{GssCredential, RpcGssProcT, RpcGssServiceT};
use rpc::{Accepted, AuthFlavor, AuthSys, CallHeader, OpaqueAuth, RECORD_MARK_LEN, ReplyHeader};
use rpcsec::{CONFOUNDER_LEN, Channel};
use state::{BackChannel, CallbackSecurity, Principal};
use std::borrow::Cow;
use std::time::Duration;
use xdr::{Encode, Encoder};

/// The authentication of one callback, and the check that its answer has to pass.
#[derive(Debug)]
pub(crate) enum Proof {
    /// AUTH_NONE: the answer proves nothing.
    None,
    /// AUTH_SYS, with the body of this credential.
    Sys(Vec<u8>),
    /// RPCSEC_GSS with a context of the client.
    Gss(GssProof),
}

/// The RPCSEC_GSS parameters of one callback.
#[derive(Debug)]
pub(crate) struct GssProof {
    context: SharedContext,
    service: RpcGssServiceT,
    /// The client's handle for the context.
    handle: Vec<u8>,
    sequence: u32,
}

/// The result of checking an answer, before its results are decoded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum OpenedCallback<'a> {
    /// The results of an accepted call.
    Results(Cow<'a, [u8]>),
    /// The client has refused the call.
    Refused,
    /// The answer was not sent by the client, or was modified in transit.
    Forged,
}

impl CallbackQueue {
    /// Selects the first usable entry of the client's list of security parameters. None when the
    /// contexts of all entries are gone.
    pub(crate) fn select_proof(&self, channel: &BackChannel, now: Duration) -> Option<Proof> {
        channel.security.iter().find_map(|security| match security {
            CallbackSecurity::None => Some(Proof::None),
            CallbackSecurity::Sys { machine, uid, gid } => {
                let mut encoder = Encoder::new();
                AuthSys::new(0, machine, *uid, *gid, &[]).encode(&mut encoder);
                Some(Proof::Sys(encoder.into_vec()))
            }
            CallbackSecurity::Gss { service, handle_from_server, handle_from_client, .. } => {
                let context = self.context(handle_from_server, now)?;
                let service = RpcGssServiceT::from_u32(*service)?;
                let (sequence, handle) = (context.next_callback_sequence()?, handle_from_client.clone());
                Some(Proof::Gss(GssProof { context, service, handle, sequence }))
            }
        })
    }

    /// Converts an entry of callback_sec_parms4 to the form that state keeps. A context must belong
    /// to `sender`: with another principal's context the server would sign messages in that
    /// principal's name.
    ///
    /// # Errors
    /// NFS4ERR_NOENT for a context that does not exist, or is not the sender's.
    pub(crate) fn security(
        &self,
        parms: &CallbackSecParms4<'_>,
        sender: &Principal,
        now: Duration,
    ) -> Result<CallbackSecurity, Nfsstat4> {
        Ok(match parms {
            CallbackSecParms4::AUTH_NONE => CallbackSecurity::None,
            CallbackSecParms4::AUTH_SYS(body) => {
                CallbackSecurity::Sys { machine: body.machinename.to_vec(), uid: body.uid, gid: body.gid }
            }
            CallbackSecParms4::RPCSEC_GSS(handles) => {
                let found = self.context(&handles.gcbp_handle_from_server, now);
                let none = RpcGssServiceT::rpc_gss_svc_none;
                let own = |context: &SharedContext| context.security().of(none).sender == *sender;
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
    /// Encodes a call with these arguments, with room for the record mark.
    pub(crate) fn record(
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

    /// Checks an answer and removes its protection.
    pub(crate) fn open<'a>(&self, record: &'a [u8]) -> OpenedCallback<'a> {
        match (ReplyHeader::parse(record), self) {
            (Ok(ReplyHeader::Accepted { verifier, status, results_at, .. }), Self::Gss(proof)) => {
                proof.open(record, &verifier, status, results_at).unwrap_or(OpenedCallback::Forged)
            }
            (Ok(ReplyHeader::Accepted { status: Accepted::Success, results_at, .. }), _) => {
                OpenedCallback::Results(record.get(results_at..).unwrap_or_default().into())
            }
            // A denial carries no signature.
            _ => OpenedCallback::Refused,
        }
    }
}

impl GssProof {
    /// Appends header, verifier and protected arguments (RFC 2203 section 5.3.1 and 5.3.2).
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
        self.channel().seal(
            encoder,
            || context.next_token_sequence(),
            confounder,
            |encoder| {
                encoder.value(args);
            },
        );
    }

    fn channel(&self) -> Channel<'_> {
        Channel { keys: self.context.keys(), service: self.service, sequence: self.sequence }
    }

    /// Checks an accepted answer (RFC 2203 section 5.3.3.2). None if it is not genuine.
    fn open<'a>(
        &self,
        record: &'a [u8],
        verifier: &OpaqueAuth<'_>,
        status: Accepted,
        results_at: usize,
    ) -> Option<OpenedCallback<'a>> {
        let keys = self.context.keys();
        let is_gss = verifier.known_flavor() == Some(AuthFlavor::RPCSEC_GSS);
        keys.verify(&self.sequence.to_be_bytes(), verifier.body).ok().filter(|_| is_gss)?;
        if status != Accepted::Success {
            return Some(OpenedCallback::Refused);
        }
        self.channel().open(record, results_at).ok().map(OpenedCallback::Results)
    }
}
