//! Callbacks by RPCSEC_GSS, in a context that the client has created (RFC 8881 sections 2.10.8.2
//! and 18.36.3).

use super::Client;
use super::security::InitiatorContext;
use nfs4::{CallbackSecParms4, GssCbHandles4, RpcGssSvcT};
use rpc::gss::{GssCredential, RpcGssServiceT};
use rpc::{Accepted, CallHeader, SequenceWindow, WindowOutcome};
use std::cell::RefCell;
use std::rc::Rc;

/// The context that the server uses for the callbacks of a session, under a handle that the client
/// chooses (RFC 8881 section 18.36.3).
pub(super) struct SessionCallbacks {
    context: Rc<InitiatorContext>,
    handle: [u8; 8],
    window: RefCell<SequenceWindow>,
}

/// A callback by RPCSEC_GSS.
pub(super) enum OpenedGssCallback {
    /// The sequence number and the arguments of a genuine callback.
    Genuine(u32, Vec<u8>),
    /// A callback of another session. It gets no reply.
    Unknown,
    /// The callback violates RFC 2203, for this reason.
    Wrong(&'static str),
}

impl SessionCallbacks {
    /// Returns the entry of csa_sec_parms.
    pub(super) fn parms(&self) -> CallbackSecParms4<'static> {
        let gcbp_service = match self.context.service {
            RpcGssServiceT::rpc_gss_svc_none => RpcGssSvcT::RPC_GSS_SVC_NONE,
            RpcGssServiceT::rpc_gss_svc_integrity => RpcGssSvcT::RPC_GSS_SVC_INTEGRITY,
            RpcGssServiceT::rpc_gss_svc_privacy => RpcGssSvcT::RPC_GSS_SVC_PRIVACY,
        };
        CallbackSecParms4::RPCSEC_GSS(GssCbHandles4 {
            gcbp_service,
            gcbp_handle_from_server: self.context.handle.clone().into(),
            gcbp_handle_from_client: self.handle.to_vec().into(),
        })
    }

    /// Verifies and opens a callback.
    pub(super) fn open(&self, header: &CallHeader<'_>, record: &[u8]) -> OpenedGssCallback {
        let Ok(credential) = GssCredential::parse(header.credential.body) else {
            return OpenedGssCallback::Wrong("its credential does not decode");
        };
        if credential.handle != self.handle {
            return OpenedGssCallback::Unknown;
        }
        if self.context.keys.verify(header.signed, header.verifier.body).is_err() {
            return OpenedGssCallback::Wrong("its verifier is wrong");
        }
        if self.window.borrow_mut().check(credential.sequence) != WindowOutcome::Accepted {
            return OpenedGssCallback::Wrong("its sequence number was used before");
        }
        match self.context.message(credential.sequence).open(record, header.arguments_at) {
            Ok(arguments) => OpenedGssCallback::Genuine(credential.sequence, arguments),
            Err(_) => OpenedGssCallback::Wrong("its body is not genuine"),
        }
    }

    /// Encodes the reply to a callback.
    pub(super) fn reply(&self, xid: u32, sequence: u32, results: &[u8]) -> Vec<u8> {
        self.context.message(sequence).reply(xid, Accepted::Success, results)
    }
}

impl Client {
    /// Offers the current context for the callbacks of a new session, if there is one.
    pub(super) fn session_callbacks(&self) -> Option<Rc<SessionCallbacks>> {
        let context = self.state.borrow().context.clone()?;
        let handle = self.draw(|rng| rng.next()).to_be_bytes();
        let window = RefCell::new(SequenceWindow::new(context.window));
        Some(Rc::new(SessionCallbacks { context, handle, window }))
    }
}
