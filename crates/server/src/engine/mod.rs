//! The COMPOUND engine: runs the operations of one call in turn and writes the reply as it goes.

mod call;

pub use call::{Call, CompoundOutcome};

use rpc::ConnectionId;
use xdr::Encoder;

/// The NFSv4.1/4.2 server behind the RPC layer. Shared by all shards; every method may be called from
/// several threads at once.
pub struct Nfs {}

impl Nfs {
    /// Runs one COMPOUND and appends COMPOUND4res to `reply`, whatever `reply` already holds.
    pub fn compound(&self, call: &Call<'_>, reply: &mut Encoder) -> CompoundOutcome {
        let _ = (call, reply);
        CompoundOutcome { status: nfs4::Nfsstat4::NFS4ERR_SERVERFAULT, operations: 0, replayed: false }
    }

    /// Forgets what was bound to a connection (RFC 8881 section 2.10.3.1).
    pub fn connection_closed(&self, connection: ConnectionId) {
        let _ = connection;
    }

    /// Expires leases and ends the grace period; to be called about once a second.
    pub fn housekeeping(&self, now: std::time::Duration) {
        let _ = now;
    }
}
