//! The caller of a client's calls: AUTH_SYS, or a security context that is renewed when the server
//! no longer knows it (RFC 2203 section 5).

use super::Client;
use super::messages::{Op, arguments, sys_call};
use crate::kerberos::{self, GssMessage};
use krb5::{ContextKeys, Role};
use rpc::gss::{GSS_S_COMPLETE, InitRes, RpcGssProcT, RpcGssServiceT};
use rpc::{Accepted, AuthStat, Denied, OpaqueAuth, ReplyHeader};
use std::cell::Cell;
use std::rc::Rc;
use vfs::SecFlavor;
use xdr::{Decode, Decoder};

/// A call that is encoded anew for each transmission.
pub(super) struct SimCall {
    /// The same for all transmissions.
    pub xid: u32,
    arguments: Vec<u8>,
}

impl SimCall {
    /// Prepares a COMPOUND of a minor version.
    pub(super) fn new(xid: u32, minor: u32, operations: &[Op]) -> Self {
        Self { xid, arguments: arguments(minor, operations) }
    }
}

/// A context as its client keeps it.
pub(super) struct InitiatorContext {
    pub(super) keys: ContextKeys,
    /// The handle that the server chose for it.
    pub(super) handle: Vec<u8>,
    pub(super) service: RpcGssServiceT,
    /// The sequence number of the next call.
    next: Cell<u32>,
    /// The distance between the numbers of two calls: a client may skip some.
    stride: u32,
    /// The size of the server's sequence window.
    pub(super) window: u32,
}

/// One transmission of a call, for the check of its reply.
pub(super) struct Transmission {
    /// The encoded call, without a record mark.
    pub record: Vec<u8>,
    context: Option<(Rc<InitiatorContext>, u32)>,
}

impl Transmission {
    /// Returns the plain results of a reply that is genuine.
    fn results(&self, record: &[u8], at: usize, verifier: &OpaqueAuth<'_>) -> Option<Vec<u8>> {
        let Some((context, sequence)) = &self.context else { return record.get(at..).map(<[u8]>::to_vec) };
        let message = context.message(*sequence);
        message.open(record, at).ok().filter(|_| message.is_verified(verifier))
    }
}

/// The meaning of a reply record.
pub(super) enum OpenedReply {
    /// The results of the call.
    Results(Vec<u8>),
    /// The server does not know the context: send the call again with another one (section
    /// 5.3.3.3).
    ContextGone,
    /// The reply is of another call, damaged, or an RPC error.
    Wrong,
}

impl InitiatorContext {
    pub(super) fn message(&self, sequence: u32) -> GssMessage<'_> {
        GssMessage { keys: &self.keys, service: self.service, sequence }
    }

    /// Takes a sequence number.
    fn take(&self) -> u32 {
        self.next.replace(self.next.get() + self.stride)
    }
}

impl Client {
    /// The service of this client's calls; `None` with AUTH_SYS.
    fn service(&self) -> Option<RpcGssServiceT> {
        match self.world.lock().plan.flavors.get(self.host)? {
            SecFlavor::Sys => None,
            SecFlavor::Krb5 => Some(RpcGssServiceT::rpc_gss_svc_none),
            SecFlavor::Krb5i => Some(RpcGssServiceT::rpc_gss_svc_integrity),
            SecFlavor::Krb5p => Some(RpcGssServiceT::rpc_gss_svc_privacy),
        }
    }

    /// Encodes a call for a connection, in a new context if there is none. `None` if that failed.
    ///
    /// A transmission in a context takes a new sequence number, even if it repeats a call (section
    /// 5.3.3.1).
    pub(super) async fn transmission(&self, connection: u64, call: &SimCall) -> Option<Transmission> {
        let Some(service) = self.service() else {
            let record = sys_call(self.host, call.xid, &call.arguments);
            return Some(Transmission { record, context: None });
        };
        let context = self.context(connection, service).await?;
        let sequence = context.take();
        let data = RpcGssProcT::RPCSEC_GSS_DATA;
        let record = context.message(sequence).call(call.xid, data, &context.handle, &call.arguments);
        Some(Transmission { record, context: Some((context, sequence)) })
    }

    /// Checks a reply, and forgets the context if the server does not know it.
    pub(super) fn receive(&self, sent: &Transmission, record: &[u8]) -> OpenedReply {
        use AuthStat::{RPCSEC_GSS_CREDPROBLEM, RPCSEC_GSS_CTXPROBLEM};
        match ReplyHeader::parse(record) {
            Ok(ReplyHeader::Accepted { status: Accepted::Success, results_at, verifier, .. }) => {
                sent.results(record, results_at, &verifier).map_or(OpenedReply::Wrong, OpenedReply::Results)
            }
            Ok(ReplyHeader::Denied {
                why: Denied::Auth(RPCSEC_GSS_CREDPROBLEM | RPCSEC_GSS_CTXPROBLEM),
                ..
            }) => match &sent.context {
                Some((context, _)) => {
                    self.forget_context(context);
                    OpenedReply::ContextGone
                }
                None => OpenedReply::Wrong,
            },
            _ => OpenedReply::Wrong,
        }
    }

    fn forget_context(&self, gone: &Rc<InitiatorContext>) {
        let mut state = self.state.borrow_mut();
        if state.context.as_ref().is_some_and(|context| Rc::ptr_eq(context, gone)) {
            state.context = None;
        }
    }

    /// Returns the context of all calls. One task creates it while the others wait.
    async fn context(&self, connection: u64, service: RpcGssServiceT) -> Option<Rc<InitiatorContext>> {
        self.world.until(|| !self.state.borrow().establishing).await;
        if let Some(context) = &self.state.borrow().context {
            return Some(context.clone());
        }
        self.state.borrow_mut().establishing = true;
        let context = self.establish(connection, service).await.map(Rc::new);
        let mut state = self.state.borrow_mut();
        state.establishing = false;
        state.context.clone_from(&context);
        context
    }

    /// Creates a context (section 5.2.2). `None` if the connection failed or the server is busy.
    async fn establish(&self, connection: u64, service: RpcGssServiceT) -> Option<InitiatorContext> {
        let (number, stride) = self.draw(|rng| (rng.next(), [1, 1, 5][rng.below(3)]));
        let realm = self.world.lock().realm.clone();
        let ticket = realm.ticket(&kerberos::principal(self.host), number);
        let (xid, keys) = (self.world.xid(), realm.keys(&ticket, Role::Initiator));
        self.world.note(format_args!("client {} creates a context by {xid}", self.host));
        let record = self.exchange(connection, xid, kerberos::init(xid, &ticket)).await?;
        let (verifier, results_at) = match ReplyHeader::parse(&record).ok()? {
            ReplyHeader::Accepted { status: Accepted::Success, verifier, results_at, .. } => {
                (verifier, results_at)
            }
            // The pool of the server has no room.
            ReplyHeader::Accepted { status: Accepted::SystemErr, .. } => {
                self.pause(50, 500).await;
                return None;
            }
            other => return self.no_context(format!("{other:?}")),
        };
        let result = InitRes::decode(&mut Decoder::new(record.get(results_at..)?)).ok()?;
        let window = GssMessage { keys: &keys, service, sequence: result.seq_window };
        if result.gss_major != GSS_S_COMPLETE || !window.is_verified(&verifier) {
            return self.no_context(format!("{result:?}"));
        }
        let (handle, next, window) = (result.handle.to_vec(), Cell::new(1), result.seq_window);
        Some(InitiatorContext { keys, handle, service, next, stride, window })
    }

    fn no_context<T>(&self, reply: String) -> Option<T> {
        let (now, detail) = (self.world.now(), format!("client {}: {reply}", self.host));
        self.world.lock().history.complain("a client with a ticket gets a context", detail, now);
        None
    }

    /// Destroys the context, if there is one (section 5.4). Calls in flight move to the next one.
    pub(super) async fn destroy_context(&self) {
        let Some(context) = self.state.borrow_mut().context.take() else { return };
        let Some(connection) = self.connection().await else { return };
        let (xid, sequence) = (self.world.xid(), context.take());
        let (destroy, none) = (RpcGssProcT::RPCSEC_GSS_DESTROY, RpcGssServiceT::rpc_gss_svc_none);
        let message = GssMessage { service: none, ..context.message(sequence) };
        let record = message.call(xid, destroy, &context.handle, &[]);
        self.world.note(format_args!("client {} destroys its context by {xid}", self.host));
        self.exchange(connection, xid, record).await;
    }
}
