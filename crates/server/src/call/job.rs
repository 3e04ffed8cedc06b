//! One call on its way through a tick.

use crate::metrics::Kind;
use crate::rpcsec::GssCall;
use crate::security::Security;
use rpc::gss::{RpcGssProcT, RpcGssServiceT};
use rpc::{Accepted, CallHeader, ConnectionId, Denied};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a record that is kept, to be used again, when its call waits for stable storage only.
const RECORD_KEPT_MAX: usize = 4096;

/// A record with what has been found out about it.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) connection: ConnectionId,
    pub(crate) peer: SocketAddr,
    pub(crate) record: Vec<u8>,
    pub(crate) xid: u32,
    pub(crate) program: u32,
    pub(crate) version: u32,
    pub(crate) procedure: u32,
    /// Where in the record the arguments are; bare once bodies have been opened.
    pub(crate) arguments: Range<usize>,
    pub(crate) auth: Auth,
    /// With which calls its time is counted.
    pub(crate) kind: Kind,
    pub(crate) verdict: Verdict,
}

/// How the call is authenticated.
#[derive(Debug)]
pub(crate) enum Auth {
    None,
    Sys(Arc<Security>),
    /// A context is to be created.
    Init,
    /// Data or DESTROY by an established context.
    Gss(GssCall),
}

/// What is to become of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Run,
    /// MSG_DENIED.
    Deny(Denied),
    /// MSG_ACCEPTED, but not successful.
    Refuse(Accepted),
    /// No answer, and the connection closes.
    Close,
    /// No answer.
    Ignore,
}

impl Auth {
    /// The kind of calls with which a call that is authenticated like this is counted.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Sys(_) => Kind::Sys,
            Self::Gss(GssCall { procedure: RpcGssProcT::RPCSEC_GSS_DATA, service, .. }) => match service {
                RpcGssServiceT::rpc_gss_svc_none => Kind::Krb5,
                RpcGssServiceT::rpc_gss_svc_integrity => Kind::Krb5i,
                RpcGssServiceT::rpc_gss_svc_privacy => Kind::Krb5p,
            },
            Self::Gss(_) | Self::Init | Self::None => Kind::Other,
        }
    }

    pub(crate) fn gss(&self) -> Option<&GssCall> {
        if let Self::Gss(call) = self { Some(call) } else { None }
    }
}

impl Job {
    /// A record that will not run.
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
            record,
            xid,
            program: 0,
            version: 0,
            procedure: 0,
            arguments: 0..0,
            auth: Auth::None,
            kind: Kind::Other,
            verdict,
        }
    }

    /// A call that can run.
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
            xid: header.xid,
            program: header.program,
            version: header.version,
            procedure: header.procedure,
            arguments: header.arguments_at..record_len,
            kind: auth.kind(),
            auth,
            verdict: Verdict::Run,
        }
    }

    /// The RPCSEC_GSS part of a call that nothing has stopped yet.
    pub(crate) fn runnable_gss(&self) -> Option<&GssCall> {
        if self.verdict == Verdict::Run { self.auth.gss() } else { None }
    }

    /// Whether the body of this call has yet to be opened as this service says.
    pub(crate) fn expects_body(&self, service: RpcGssServiceT) -> bool {
        self.runnable_gss().is_some_and(|call| call.body_service() == service)
    }

    /// Lets go of a long record: it is of no use any more but as memory.
    pub(crate) fn forget_arguments(&mut self) {
        if self.record.capacity() > RECORD_KEPT_MAX {
            self.record = Vec::new();
        }
    }

    /// The arguments as they stand in the record.
    pub(crate) fn arguments(&self) -> &[u8] {
        self.record.get(self.arguments.clone()).unwrap_or_default()
    }
}
