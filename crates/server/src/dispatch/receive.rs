//! Stage 1: parse the RPC header and look up the claimed caller.

use super::sys::SysCache;
use super::{Engine, Server};
use crate::call::{Auth, Job, Verdict};
use crate::metrics::{Metrics, Trouble};
use crate::rpcsec::{Handle, ReceivedGssCall};
use nfs4::NFSPROC4_NULL;
use rpc::gss::{CredentialError, GssCredential, RpcGssProcT};
use rpc::{AuthFlavor, AuthStat, CallError, CallHeader, ConnectionId, Denied, Message, OpaqueAuth, RPC_VERS};
use std::net::SocketAddr;
use std::time::Duration;

impl<E: Engine> Server<E> {
    /// Parses the header of a record and handles replies to callbacks.
    pub(super) fn receive(
        &self,
        sys: &mut SysCache,
        connection: ConnectionId,
        peer: SocketAddr,
        record: Vec<u8>,
        now: Duration,
    ) -> Job {
        let (xid, verdict) = match Message::parse(&record) {
            Ok(Message::Call(header)) => match self.authenticate(sys, &header, now) {
                Ok(auth) => {
                    let job = Job::call(connection, peer, &header, auth, record.len());
                    return Job { record, ..job };
                }
                Err(status) => (header.xid, Verdict::Deny(Denied::Auth(status))),
            },
            Ok(Message::Reply { xid }) => {
                match self.engine.callback_reply(connection, &record, now) {
                    true => Metrics::add(&self.metrics.callback_replies, 1),
                    false => Metrics::add(&self.metrics.unexpected_replies, 1),
                }
                (xid, Verdict::Ignore)
            }
            Err(error) => self.stop(error, peer, now),
        };
        Job::ended(connection, peer, record, xid, verdict)
    }

    /// Returns XID and verdict of a record without a usable header.
    fn stop(&self, error: CallError, peer: SocketAddr, now: Duration) -> (u32, Verdict) {
        match error {
            CallError::Malformed(_) | CallError::MessageType(_) => {
                Metrics::add(&self.metrics.malformed_records, 1);
                self.reports.note(Trouble::MalformedRecord, now, peer, error);
                (0, Verdict::Close)
            }
            CallError::RpcVersion { xid, .. } => {
                (xid, Verdict::Deny(Denied::RpcMismatch { low: RPC_VERS, high: RPC_VERS }))
            }
            CallError::Auth { xid, status, .. } => (xid, Verdict::Deny(Denied::Auth(status))),
        }
    }

    /// Looks up the claimed caller. With RPCSEC_GSS nothing is verified yet.
    fn authenticate(
        &self,
        sys: &mut SysCache,
        header: &CallHeader<'_>,
        now: Duration,
    ) -> Result<Auth, AuthStat> {
        match header.credential.known_flavor() {
            Some(AuthFlavor::AUTH_NONE) => Ok(Auth::None),
            Some(AuthFlavor::AUTH_SYS) => {
                let accounts = self.engine.sys_accounts();
                sys.auth(header.credential.body, accounts, now).map_err(|_| AuthStat::AUTH_BADCRED)
            }
            Some(AuthFlavor::RPCSEC_GSS) => self.authenticate_gss(header, now),
            _ => Err(AuthStat::AUTH_BADCRED),
        }
    }

    fn authenticate_gss(&self, header: &CallHeader<'_>, now: Duration) -> Result<Auth, AuthStat> {
        let rpcsec = self.rpcsec.as_ref().ok_or(AuthStat::AUTH_REJECTEDCRED)?;
        let credential = GssCredential::parse(header.credential.body).map_err(|error| match error {
            CredentialError::Version(_) => AuthStat::AUTH_REJECTEDCRED,
            CredentialError::Malformed(_) => AuthStat::AUTH_BADCRED,
        })?;
        // Control messages use the NULL procedure (RFC 2203 section 5.2.1).
        let is_null = header.procedure == NFSPROC4_NULL;
        match credential.procedure {
            RpcGssProcT::RPCSEC_GSS_INIT if is_null && credential.handle.is_empty() => {
                return Ok(Auth::Init);
            }
            RpcGssProcT::RPCSEC_GSS_INIT => return Err(AuthStat::AUTH_BADCRED),
            // Kerberos needs one step, so no context ever waits for a second one.
            RpcGssProcT::RPCSEC_GSS_CONTINUE_INIT => return Err(AuthStat::RPCSEC_GSS_CREDPROBLEM),
            RpcGssProcT::RPCSEC_GSS_DESTROY if !is_null => return Err(AuthStat::AUTH_BADCRED),
            RpcGssProcT::RPCSEC_GSS_DESTROY | RpcGssProcT::RPCSEC_GSS_DATA => {}
        }
        if header.verifier.known_flavor() != Some(AuthFlavor::RPCSEC_GSS) {
            return Err(AuthStat::AUTH_BADVERF);
        }
        let handle = Handle::from_wire(credential.handle);
        let Some(context) = handle.and_then(|handle| rpcsec.contexts().find(handle, now)) else {
            Metrics::add(&self.metrics.unknown_handles, 1);
            return Err(AuthStat::RPCSEC_GSS_CREDPROBLEM);
        };
        Ok(Auth::Gss(ReceivedGssCall {
            context,
            procedure: credential.procedure,
            service: credential.service,
            sequence: credential.sequence,
            signed_len: header.signed.len(),
            verifier: verifier_place(header.signed.len(), &header.verifier),
        }))
    }
}

/// Returns the range of the verifier's body in the record: behind the credential, flavor and
/// length.
fn verifier_place(signed_len: usize, verifier: &OpaqueAuth<'_>) -> std::ops::Range<usize> {
    let start = signed_len + 2 * xdr::UNIT;
    start..start + verifier.body.len()
}
