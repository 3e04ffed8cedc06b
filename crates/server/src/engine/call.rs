//! The boundary between the RPC dispatch and the COMPOUND engine.

use crate::security::Security;
use nfs4::Nfsstat4;
use rpc::ConnectionId;
use std::{net::SocketAddr, sync::atomic::AtomicU32, time::Duration};

/// One NFSPROC4_COMPOUND call, authenticated and unwrapped (RFC 8881 section 16.2).
pub struct Call<'a> {
    /// The connection that it came by: sessions are bound to connections (RFC 8881 section
    /// 2.10.3.1).
    pub connection: ConnectionId,
    /// The client's address: exports may be open to some networks only.
    pub peer: SocketAddr,
    /// The call's XID: a copy of a request has the same.
    pub xid: u32,
    /// Who calls.
    pub security: &'a Security,
    /// COMPOUND4args as it was on the wire, without RPC header and RPCSEC_GSS wrapping.
    pub args: &'a [u8],
    /// Size in bytes of the whole call as a record without its mark: ca_maxrequestsize counts
    /// headers too.
    pub request_size: usize,
    /// What the reply grows by outside COMPOUND4res, in bytes: RPC header, verifier, and RPCSEC_GSS
    /// wrapping.
    pub reply_overhead: usize,
    /// Where the number of the operation that runs is written, for a thread that hangs to be found.
    pub operation: &'a AtomicU32,
    /// Monotonic time since the server's start.
    pub now: Duration,
}

/// What the dispatch and its counters learn from a COMPOUND that was run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompoundOutcome {
    /// The status of the COMPOUND, that of its last operation.
    pub status: Nfsstat4,
    /// Operations in the reply.
    pub operations: u32,
    /// Whether the reply came from the session's reply cache.
    pub replayed: bool,
}
