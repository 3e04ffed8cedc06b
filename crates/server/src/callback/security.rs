//! How callbacks are authenticated and protected (RFC 8881 sections 2.10.8.2 and 18.36.3).
//!
//! With RPCSEC_GSS a callback goes by a context that the client has established at the server: the
//! server is its acceptor as ever and signs with the acceptor's keys, under the name that the
//! client has given the context for this direction.

use crate::engine::{Compound, Nfs};
use crate::rpcsec::SharedContext;
use nfs4::{CallbackSecParms4, Nfsstat4};
use rpc::gss::{GssCredential, RpcGssProcT, RpcGssServiceT};
use rpc::{Accepted, AuthFlavor, AuthSys, CallHeader, OpaqueAuth, RECORD_MARK_LEN, ReplyHeader};
use rpcsec::{CONFOUNDER_LEN, Channel};
use state::{BackChannel, CallbackSecurity};
use std::borrow::Cow;
use std::time::Duration;
use xdr::{Encode, Encoder};

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
    /// The first of the client's ways to authenticate that can be gone; none when the contexts are
    /// gone.
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
    /// Returns callback_sec_parms4 as state keeps them. Contexts are the caller's own: by another's
    /// the server would sign what nobody has asked for in the other's name.
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
        self.channel().open(record, results_at).ok().map(Opened::Results)
    }
}
