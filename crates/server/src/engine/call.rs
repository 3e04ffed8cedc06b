//! The boundary between the RPC dispatch and the COMPOUND engine.

use crate::metrics::{RequestSubject, ServedCounters};
use crate::security::Security;
use crate::tenants::CallUsage;
use nfs4::Nfsstat4;
use pipes::Attachment;
use rpc::ConnectionId;
use std::{cell::RefCell, net::SocketAddr, sync::atomic::AtomicU32, time::Duration};

/// One NFSPROC4_COMPOUND call, authenticated and unwrapped (RFC 8881 section 16.2).
pub struct Call<'a> {
    /// The connection on which the call arrived: sessions are bound to connections (RFC 8881
    /// section 2.10.3.1).
    pub connection: ConnectionId,
    /// The client's address: an export may be limited to some networks.
    pub peer: SocketAddr,
    /// The call's XID. A copy of a request has the same one.
    pub xid: u32,
    /// The authenticated caller and its flavor.
    pub security: &'a Security,
    /// COMPOUND4args as on the wire, without RPC header and RPCSEC_GSS wrapping.
    pub args: &'a [u8],
    /// Size in bytes of the whole call as a record without its mark, since ca_maxrequestsize
    /// includes headers.
    pub request_size: usize,
    /// Bytes of the reply outside COMPOUND4res: RPC header, verifier, and RPCSEC_GSS wrapping.
    pub reply_overhead: usize,
    /// Takes file data of the reply that need not be copied into it. `None` if the results are
    /// signed or encrypted.
    pub attached: Option<&'a RefCell<Option<Attachment>>>,
    /// Receives the number of the current operation, to diagnose a thread that hangs.
    pub operation: &'a AtomicU32,
    /// The counters of the thread that runs it.
    pub counters: &'a ServedCounters,
    /// Runs between the parts of long work that holds no lock. `None` if nothing waits for the
    /// thread.
    pub pause: Option<&'a dyn Fn()>,
    /// Monotonic time since the server's start.
    pub now: Duration,
}

/// The outcome of a COMPOUND, for the dispatch and its counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompoundOutcome {
    /// The status of the COMPOUND, which is that of its last operation.
    pub status: Nfsstat4,
    /// The number of operations in the reply.
    pub operations: u32,
    /// Whether the reply came from the session's reply cache.
    pub replayed: bool,
    /// The operation and the export that it was about.
    pub subject: RequestSubject,
    /// Whether it cost several times a cached read, as lookups and changes of names do.
    pub expensive: bool,
    /// The number of the export that it ended in, if it did.
    pub export: Option<u32>,
}

impl CompoundOutcome {
    /// Returns what the limits of rates count.
    pub(crate) fn usage(&self) -> CallUsage {
        CallUsage { operations: self.operations, export: self.export }
    }
}
