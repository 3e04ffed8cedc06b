//! LOCK, LOCKT and LOCKU (RFC 8881 sections 18.10 to 18.12).

use crate::{ClientKey, Clientid4, Nfsstat4, Result, State, Stateid4};
use std::hash::Hash;
use std::time::Duration;

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

impl<F: Clone + Eq + Hash, O: Clone> State<F, O> {
    /// Handles LOCK and returns the lock stateid.
    ///
    /// # Errors
    /// NFS4ERR_DENIED, NFS4ERR_INVAL, NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID, NFS4ERR_OPENMODE, NFS4ERR_GRACE, NFS4ERR_NO_GRACE,
    /// NFS4ERR_RECLAIM_BAD, NFS4ERR_RECLAIM_CONFLICT, NFS4ERR_DELAY (too many locks), NFS4ERR_DEADSESSION.
    pub fn lock(
        &mut self,
        now: Duration,
        client: ClientKey,
        request: &Lock<'_, F>,
    ) -> core::result::Result<Stateid4, LockError> {
        let _ = (now, client, request);
        Err(LockError::Status(Nfsstat4::NFS4ERR_SERVERFAULT))
    }

    /// Handles LOCKT: whether `owner` could lock the range.
    ///
    /// # Errors
    /// NFS4ERR_DENIED, NFS4ERR_INVAL, NFS4ERR_GRACE, NFS4ERR_DEADSESSION.
    #[allow(clippy::too_many_arguments)]
    pub fn lockt(
        &self,
        now: Duration,
        client: ClientKey,
        file: &F,
        owner: &[u8],
        write: bool,
        offset: u64,
        length: u64,
    ) -> core::result::Result<(), LockError> {
        let _ = (now, client, file, owner, write, offset, length);
        Err(LockError::Status(Nfsstat4::NFS4ERR_SERVERFAULT))
    }

    /// Handles LOCKU: what is not locked in the range is left as it is.
    ///
    /// # Errors
    /// NFS4ERR_INVAL, NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID, NFS4ERR_DELAY (a split would exceed the limit).
    pub fn locku(
        &mut self,
        client: ClientKey,
        stateid: &Stateid4,
        file: &F,
        offset: u64,
        length: u64,
    ) -> Result<Stateid4> {
        let _ = (client, stateid, file, offset, length);
        Err(Nfsstat4::NFS4ERR_SERVERFAULT)
    }
}
