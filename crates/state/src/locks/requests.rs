//! What LOCK and LOCKT are asked and answer (RFC 8881 sections 18.10 and 18.11).

use crate::{Clientid4, Nfsstat4, Stateid4};

/// locker4: in whose name a LOCK comes.
#[derive(Clone, Copy, Debug)]
pub enum Locker<'a> {
    /// open_to_lock_owner4: the first lock of this owner under this open.
    New {
        /// open_stateid.
        open_stateid: Stateid4,
        /// lock_owner.owner; its clientid is ignored in NFSv4.1.
        owner: &'a [u8],
    },
    /// exist_lock_owner4: the lock stateid.
    Existing(Stateid4),
}

/// What LOCK asks.
#[derive(Clone, Copy, Debug)]
pub struct Lock<'a, F> {
    /// The current filehandle's file.
    pub file: &'a F,
    /// Whether the lock is WRITE_LT or WRITEW_LT.
    pub write: bool,
    /// Whether it is READW_LT or WRITEW_LT: the client waits when it is refused.
    pub waits: bool,
    /// reclaim.
    pub reclaim: bool,
    /// offset.
    pub offset: u64,
    /// length, all ones for the rest of the file.
    pub length: u64,
    /// locker.
    pub locker: Locker<'a>,
}

/// LOCK4denied: a lock that stands in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockDenied {
    /// offset.
    pub offset: u64,
    /// length.
    pub length: u64,
    /// Whether locktype is WRITE_LT.
    pub write: bool,
    /// owner.clientid.
    pub clientid: Clientid4,
    /// owner.owner.
    pub owner: Vec<u8>,
}

/// Why LOCK or LOCKT failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockError {
    /// NFS4ERR_DENIED with the conflicting lock.
    Denied(LockDenied),
    /// Any other status.
    Status(Nfsstat4),
}

impl From<Nfsstat4> for LockError {
    fn from(status: Nfsstat4) -> Self {
        Self::Status(status)
    }
}
