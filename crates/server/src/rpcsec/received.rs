//! The parts of a received call that a context protects.

use super::context::SharedContext;
use rpc::gss::{RpcGssProcT, RpcGssServiceT};
use std::ops::Range;

/// The RPCSEC_GSS part of a call with an established context.
#[derive(Debug)]
pub(crate) struct ReceivedGssCall {
    pub(crate) context: SharedContext,
    pub(crate) procedure: RpcGssProcT,
    pub(crate) service: RpcGssServiceT,
    pub(crate) sequence: u32,
    /// Length of the part of the record that the header MIC covers.
    pub(crate) signed_len: usize,
    /// Range of the header MIC in the record.
    pub(crate) verifier: Range<usize>,
}

impl ReceivedGssCall {
    /// Returns the service of the body. Arguments and results are protected in data messages only
    /// (RFC 2203 section 5.3.2).
    pub(crate) fn body_service(&self) -> RpcGssServiceT {
        match self.procedure {
            RpcGssProcT::RPCSEC_GSS_DATA => self.service,
            _ => RpcGssServiceT::rpc_gss_svc_none,
        }
    }
}
