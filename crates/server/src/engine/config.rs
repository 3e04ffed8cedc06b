//! What a server is started with.

use super::{Delegations, NumericOwners};
use nfs4::Verifier4;
use state::{Boot, Limits, PrincipalHash};
use vfs::SecFlavor;

/// Where the names of clients that may reclaim after a restart are kept (RFC 8881 section 8.4.2.1).
///
/// What is recorded or forgotten counts once it is synced. A forgotten client must not come back by
/// a crash either: others may have had its locks since (section 8.4.3).
pub trait ClientRecords: Send + Sync {
    /// Puts a client owner down with the principal that created its client; doing so twice is
    /// harmless, and the last principal counts.
    fn record(&self, owner: &[u8], principal: PrincipalHash);

    /// Strikes a client owner out.
    fn forget(&self, owner: &[u8]);

    /// Puts what has changed on stable storage.
    fn sync(&self) {}

    /// Whether any of them can wait for a disk.
    fn may_wait(&self) -> bool {
        false
    }
}

/// Keeps nothing: after a restart no client can reclaim.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRecords;

impl ClientRecords for NoRecords {
    fn record(&self, _: &[u8], _: PrincipalHash) {}

    fn forget(&self, _: &[u8]) {}
}

/// The names and limits of one server. All sizes are in bytes.
#[derive(Clone, Debug)]
pub struct NfsConfig {
    /// so_major_id and the server scope (RFC 8881 section 2.10.4): the same after a restart.
    pub server_owner: Vec<u8>,
    /// Flavors that the RPC layer accepts: SECINFO tells no others.
    pub flavors: Vec<SecFlavor>,
    /// Most bytes of one READ (attribute maxread).
    pub read_max: u32,
    /// What attribute maxread says to callers with krb5i and krb5p: shorter replies fill the lanes
    /// of the cipher sooner, and cost half as much at the same bytes in flight (`cargo xtask bench
    /// rsize`). READs up to `read_max` are served all the same.
    pub read_protected_max: u32,
    /// Most bytes of one WRITE (attribute maxwrite).
    pub write_max: u32,
    /// What attribute maxwrite says to callers with krb5i and krb5p, for the same reason. WRITEs up
    /// to `write_max` are served all the same.
    pub write_protected_max: u32,
    /// Most bytes that one COPY moves before it is answered; clients ask for the rest again.
    pub copy_max: u64,
    /// Most bytes that a copy in the background moves at a time. What is no longer is done when it
    /// is answered, even if the client would wait for CB_OFFLOAD.
    pub copy_piece_max: u64,
    /// Most bytes of a COMPOUND reply without a session: EXCHANGE_ID and its siblings.
    pub sessionless_reply_max: usize,
    /// Longest tag of a COMPOUND.
    pub tag_max: usize,
    /// Longest target of a symbolic link.
    pub symlink_max: usize,
    /// Whether NFSv4.0 is spoken besides NFSv4.1 and 4.2.
    pub nfs40: bool,
    /// Which delegations are granted.
    pub delegations: Delegations,
    /// Whether locks are held in the file system as well, where programs of this machine use it.
    pub local_locks: bool,
    /// When a number is an owner.
    pub numeric_owners: NumericOwners,
    /// Limits of clients, sessions and locks.
    pub limits: Limits,
}

impl Default for NfsConfig {
    fn default() -> Self {
        Self {
            server_owner: b"orthrus".to_vec(),
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
            limits: Limits::default(),
        }
    }
}

/// What differs from start to start: all of it random or from the clock, so that no core reads
/// either.
#[derive(Clone, Debug)]
pub struct Start {
    /// Epoch, hash key and the clients of the last run.
    pub boot: Boot,
    /// The write verifier (RFC 8881 section 18.32.3): differs between any two starts.
    pub write_verifier: Verifier4,
    /// Key of the checksum in filehandles: the same after a restart.
    pub filehandle_key: [u8; 16],
}
