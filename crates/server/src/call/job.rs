//! One call during a tick.

use crate::metrics::{Kind, RequestSubject, ServedCall};
use crate::rpcsec::ReceivedGssCall;
use crate::security::Security;
use crate::tenants::{CallUsage, LimitedTenant};
use krb5::Enctype;
use pipes::Attachment;
use rpc::gss::{RpcGssProcT, RpcGssServiceT};
use rpc::{Accepted, CallHeader, ConnectionId, Denied};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a record that is kept for reuse while its call waits only for stable storage.
const RECORD_KEPT_MAX: usize = 4096;

/// A record with the results of the stages so far.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) connection: ConnectionId,
    pub(crate) peer: SocketAddr,
    pub(crate) record: Vec<u8>,
    /// The length of the record in bytes, also after it was freed.
    pub(crate) size: usize,
    pub(crate) xid: u32,
    pub(crate) program: u32,
    pub(crate) version: u32,
    pub(crate) procedure: u32,
    /// Range of the arguments in the record; bare once the body is opened.
    pub(crate) arguments: Range<usize>,
    pub(crate) auth: Auth,
    /// The kind under which its time is counted.
    pub(crate) kind: Kind,
    pub(crate) verdict: Verdict,
    /// File data of the reply: see [`Call::attached`](crate::engine::Call).
    pub(crate) attached: RefCell<Option<Attachment>>,
    /// Its part of the counters, as far as it is known.
    pub(crate) served: Cell<ServedCall>,
    /// Whether it was expensive: see
    /// [`CompoundOutcome::expensive`](crate::engine::CompoundOutcome).
    pub(crate) expensive: Cell<bool>,
    /// The amounts that the limits of rates count, after it has run.
    pub(crate) usage: Cell<CallUsage>,
    /// The client of the call, while clients have limits.
    pub(crate) client: Option<Arc<LimitedTenant>>,
}

/// The authentication of a call.
#[derive(Debug)]
pub(crate) enum Auth {
    None,
    Sys(Arc<Security>),
    /// AUTH_SYS whose groups are to be looked up. Until then the caller has none.
    SysUnknown {
        security: Arc<Security>,
        claimed_gid: u32,
    },
    /// INIT: a context is to be created.
    Init,
    /// Data or DESTROY by an established context.
    Gss(ReceivedGssCall),
}

/// The decision on a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Run,
    /// Answer with MSG_DENIED and its reason.
    Deny(Denied),
    /// Answer with MSG_ACCEPTED and an error.
    Refuse(Accepted),
    /// Send no answer, and close the connection.
    Close,
    /// Send no answer and keep the connection.
    Ignore,
}

impl Auth {
    /// Returns the kind under which such a call is counted.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Sys(_) | Self::SysUnknown { .. } => Kind::Sys,
            Self::Gss(ReceivedGssCall { procedure: RpcGssProcT::RPCSEC_GSS_DATA, service, .. }) => {
                match service {
                    RpcGssServiceT::rpc_gss_svc_none => Kind::Krb5,
                    RpcGssServiceT::rpc_gss_svc_integrity => Kind::Krb5i,
                    RpcGssServiceT::rpc_gss_svc_privacy => Kind::Krb5p,
                }
            }
            Self::Gss(_) | Self::Init | Self::None => Kind::Other,
        }
    }

    pub(crate) fn gss(&self) -> Option<&ReceivedGssCall> {
        if let Self::Gss(call) = self { Some(call) } else { None }
    }
}

impl Job {
    /// Makes the job of a record that will not run.
    pub(crate) fn ended(
        connection: ConnectionId,
        peer: SocketAddr,
        record: Vec<u8>,
        xid: u32,
        verdict: Verdict,
    ) -> Self {
        Self {
            connection,
            peer,
            size: record.len(),
            record,
            xid,
            program: 0,
            version: 0,
            procedure: 0,
            arguments: 0..0,
            auth: Auth::None,
            kind: Kind::Other,
            verdict,
            attached: RefCell::default(),
            served: Cell::default(),
            expensive: Cell::new(false),
            usage: Cell::default(),
            client: None,
        }
    }

    /// Makes the job of a call that can run.
    pub(crate) fn call(
        connection: ConnectionId,
        peer: SocketAddr,
        header: &CallHeader<'_>,
        auth: Auth,
        record_len: usize,
    ) -> Self {
        Self {
            connection,
            peer,
            record: Vec::new(),
            size: record_len,
            xid: header.xid,
            program: header.program,
            version: header.version,
            procedure: header.procedure,
            arguments: header.arguments_at..record_len,
            kind: auth.kind(),
            auth,
            verdict: Verdict::Run,
            attached: RefCell::default(),
            served: Cell::default(),
            expensive: Cell::new(false),
            usage: Cell::default(),
            client: None,
        }
    }

    /// Records the operation and the export that the call was about, and what it counts for the
    /// limits of rates.
    pub(crate) fn note(&self, subject: RequestSubject, usage: CallUsage) {
        self.served.set(self.served.get().about(subject));
        self.usage.set(usage);
    }

    /// Returns the encryption type of the context's keys; `None` without a context.
    pub(crate) fn enctype(&self) -> Option<Enctype> {
        self.auth.gss().map(|call| call.context.keys().enctype())
    }

    /// Returns the RPCSEC_GSS part of a call that no stage has stopped.
    pub(crate) fn runnable_gss(&self) -> Option<&ReceivedGssCall> {
        if self.verdict == Verdict::Run { self.auth.gss() } else { None }
    }

    /// Returns whether the body of this call is still to be opened with this service.
    pub(crate) fn expects_body(&self, service: RpcGssServiceT) -> bool {
        self.runnable_gss().is_some_and(|call| call.body_service() == service)
    }

    /// Returns the tenant of the principal that has signed the call.
    pub(crate) fn principal(&self) -> Option<&LimitedTenant> {
        self.auth.gss()?.context.tenant().map(|tenant| &**tenant)
    }

    /// Frees a long record whose arguments are no longer needed.
    pub(crate) fn forget_arguments(&mut self) {
        if self.record.capacity() > RECORD_KEPT_MAX {
            self.record = Vec::new();
        }
    }

    /// Returns where file data of the reply goes, unless its results are signed or encrypted.
    pub(crate) fn attached(&self) -> Option<&RefCell<Option<Attachment>>> {
        let protected =
            self.auth.gss().is_some_and(|call| call.body_service() != RpcGssServiceT::rpc_gss_svc_none);
        (!protected).then_some(&self.attached)
    }

    /// Returns the arguments in the record.
    pub(crate) fn arguments(&self) -> &[u8] {
        self.record.get(self.arguments.clone()).unwrap_or_default()
    }
}
