//! Arguments and results of LOCK and LOCKT (RFC 8881 sections 18.10 and 18.11).

use crate::{Clientid4, LockMode, Nfsstat4, Stateid4};

/// locker4: the lock owner of a LOCK.
#[derive(Clone, Copy, Debug)]
pub enum Locker<'a> {
    /// open_to_lock_owner4: the first lock of this owner under this open.
    New {
        /// open_stateid of a new lock owner.
        open_stateid: Stateid4,
        /// lock_owner.owner; its clientid is ignored in NFSv4.1.
        owner: &'a [u8],
    },
    /// exist_lock_owner4: the lock stateid.
    Existing(Stateid4),
}

/// The arguments of LOCK.
#[derive(Clone, Copy, Debug)]
pub struct Lock<'a, F> {
    /// The current filehandle's file.
    pub file: &'a F,
    /// locktype: READW_LT locks as READ_LT does, and WRITEW_LT as WRITE_LT.
    pub mode: LockMode,
    /// Whether it is READW_LT or WRITEW_LT: the client waits when it is refused.
    pub waits: bool,
    /// reclaim: whether the lock is from before a restart.
    pub reclaim: bool,
    /// offset: the first byte.
    pub offset: u64,
    /// length, all ones for the rest of the file.
    pub length: u64,
    /// locker: the lock owner.
    pub locker: Locker<'a>,
}

/// LOCK4denied: a lock that stands in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockDenied {
    /// offset: the first byte of the conflicting lock.
    pub offset: u64,
    /// length of the conflicting lock in bytes.
    pub length: u64,
    /// locktype of the conflicting lock.
    pub mode: LockMode,
    /// owner.clientid of the conflicting lock.
    pub clientid: Clientid4,
    /// owner.owner of the conflicting lock.
    pub owner: Vec<u8>,
}

/// Why LOCK or LOCKT failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockError {
    /// NFS4ERR_DENIED with the conflicting lock.
    Denied(LockDenied),
    /// The status for any other reason.
    Status(Nfsstat4),
}

impl From<Nfsstat4> for LockError {
    fn from(status: Nfsstat4) -> Self {
        Self::Status(status)
    }
}
