//! The parameters with which a server starts.

use super::{Delegations, NumericOwners, SyncedRecords, SysGroups};
use crate::tenants::LimitedTenants;
use nfs4::Verifier4;
use state::{Boot, Limits, PrincipalHash};
use std::sync::Arc;
use vfs::SecFlavor;

/// Stable storage for the clients that may reclaim after a restart (RFC 8881 section 8.4.2.1).
///
/// A change counts once it is synced. A removed client must not come back after a crash either:
/// other clients may have taken its locks since (section 8.4.3).
pub trait ClientRecords: Send + Sync {
    /// Adds a client owner with the principal that created its client. Repeating it is harmless;
    /// the last principal counts.
    fn record(&self, owner: &[u8], principal: PrincipalHash);

    /// Removes a client owner from the records.
    fn forget(&self, owner: &[u8]);

    /// Tries once to put the changes on stable storage, and returns which of them are.
    fn sync(&self) -> SyncedRecords {
        SyncedRecords::All
    }

    /// Waits for the time between two attempts.
    fn pause(&self) {}

    /// Notes that all clients with the right to reclaim have used or lost it.
    fn grace_ended(&self) {}

    /// Tries again to write changes that have failed, if there are any. Housekeeping calls it: no
    /// client may change for days.
    fn repair(&self) {}

    /// Returns whether no change has failed, or all that have failed are written by now.
    fn is_complete(&self) -> bool {
        true
    }

    /// Returns whether a method may wait for a disk.
    fn may_wait(&self) -> bool {
        false
    }
}

/// Keeps no records: no client can reclaim after a restart.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRecords;

impl ClientRecords for NoRecords {
    fn record(&self, _: &[u8], _: PrincipalHash) {}

    fn forget(&self, _: &[u8]) {}
}

/// The names and limits of one server. All sizes are in bytes.
#[derive(Clone, Debug)]
pub struct NfsConfig {
    /// so_major_id (RFC 8881 section 2.10.4): the same after a restart.
    pub server_owner: Vec<u8>,
    /// The server scope (RFC 8881 section 2.10.4), if it is not the owner: the same on all servers
    /// that can take over from each other.
    pub server_scope: Option<Vec<u8>>,
    /// Flavors that the RPC layer accepts. SECINFO returns no others.
    pub flavors: Vec<SecFlavor>,
    /// Largest count of one READ, in bytes (attribute maxread).
    pub read_max: u32,
    /// Attribute maxread for callers with krb5i and krb5p, in bytes. Shorter replies fill the lanes
    /// of the cipher sooner, and cost half as much at the same bytes in flight (`cargo xtask bench
    /// rsize`). READs up to `read_max` are served all the same.
    pub read_protected_max: u32,
    /// Largest count of one WRITE, in bytes (attribute maxwrite).
    pub write_max: u32,
    /// Attribute maxwrite for callers with krb5i and krb5p, in bytes, for the same reason. WRITEs
    /// up to `write_max` are served all the same.
    pub write_protected_max: u32,
    /// Bytes that one COPY copies before it is answered. Clients send another COPY for the rest.
    pub copy_max: u64,
    /// Bytes that a background copy copies at a time. A shorter copy finishes before its reply,
    /// even if the client would wait for CB_OFFLOAD.
    pub copy_piece_max: u64,
    /// Largest COMPOUND reply without a session, in bytes: EXCHANGE_ID and its siblings.
    pub sessionless_reply_max: usize,
    /// Longest tag of a COMPOUND, in bytes.
    pub tag_max: usize,
    /// Longest target of a symbolic link, in bytes.
    pub symlink_max: usize,
    /// Whether the server speaks NFSv4.0 besides NFSv4.1 and 4.2.
    pub nfs40: bool,
    /// The kinds of delegations to grant.
    pub delegations: Delegations,
    /// Whether locks of clients are also taken in the file system, against programs of this
    /// machine.
    pub local_locks: bool,
    /// Whether numbers are accepted as owners.
    pub numeric_owners: NumericOwners,
    /// The source of the groups of AUTH_SYS callers.
    pub sys_groups: SysGroups,
    /// Limits of clients, sessions and locks.
    pub limits: Limits,
    /// The principals and clients that share the server, with further limits of each.
    pub tenants: Arc<LimitedTenants>,
}

impl Default for NfsConfig {
    fn default() -> Self {
        Self {
            server_owner: b"orthrus".to_vec(),
            server_scope: None,
            flavors: SecFlavor::ALL.to_vec(),
            read_max: 1 << 20,
            read_protected_max: 128 << 10,
            write_max: 1 << 20,
            write_protected_max: 128 << 10,
            copy_max: 64 << 20,
            copy_piece_max: 16 << 20,
            sessionless_reply_max: 8192,
            tag_max: 1024,
            symlink_max: 4095,
            nfs40: true,
            delegations: Delegations::default(),
            local_locks: true,
            numeric_owners: NumericOwners::default(),
            sys_groups: SysGroups::default(),
            limits: Limits::default(),
            tenants: Arc::default(),
        }
    }
}

/// The values that differ between starts. All of them are random or from the clock, so that no core
/// crate reads either.
#[derive(Clone, Debug)]
pub struct Start {
    /// Epoch, hash key and the clients of the last run.
    pub boot: Boot,
    /// The write verifier (RFC 8881 section 18.32.3), different for any two starts.
    pub write_verifier: Verifier4,
    /// Key of the checksum in filehandles: the same after a restart.
    pub filehandle_key: [u8; 16],
}
