//! Stateids (RFC 8881 section 8.2): special ones, and the check of a sequence number.

use crate::{ClientKey, Nfsstat4, Result, State, Stateid4};
use std::hash::Hash;

/// All zeros: the anonymous stateid.
pub const ANONYMOUS_STATEID: Stateid4 = Stateid4 { seqid: 0, other: [0; 12] };
/// All ones: READ bypasses locks.
pub const BYPASS_STATEID: Stateid4 = Stateid4 { seqid: u32::MAX, other: [0xff; 12] };
/// `other` zero and seqid one: the current stateid of the COMPOUND.
pub const CURRENT_STATEID: Stateid4 = Stateid4 { seqid: 1, other: [0; 12] };
/// `other` zero and seqid all ones: never valid; what CLOSE returns.
pub const INVALID_STATEID: Stateid4 = Stateid4 { seqid: u32::MAX, other: [0; 12] };

/// Sorts stateids as RFC 8881 section 8.2.3 does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateidKind {
    /// The anonymous stateid.
    Anonymous,
    /// The READ bypass stateid.
    Bypass,
    /// The current stateid: the server puts the COMPOUND's in its place.
    Current,
    /// Reserved and not valid: NFS4ERR_BAD_STATEID.
    Invalid,
    /// One that the server gave out, or claims to be.
    Ordinary,
}

impl StateidKind {
    /// Sorts a stateid.
    pub fn of(stateid: &Stateid4) -> Self {
        match (stateid.other, stateid.seqid) {
            ([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 0) => Self::Anonymous,
            ([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 1) => Self::Current,
            ([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], _) => Self::Invalid,
            (other, u32::MAX) if other == BYPASS_STATEID.other => Self::Bypass,
            (other, _) if other == BYPASS_STATEID.other => Self::Invalid,
            _ => Self::Ordinary,
        }
    }
}

impl<F: Clone + Eq + Hash, O: Clone> State<F, O> {
    /// Handles one stateid of TEST_STATEID: NFS4_OK, NFS4ERR_BAD_STATEID or NFS4ERR_OLD_STATEID.
    pub fn test_stateid(&self, client: ClientKey, stateid: &Stateid4) -> Nfsstat4 {
        let _ = (client, stateid);
        Nfsstat4::NFS4ERR_BAD_STATEID
    }

    /// Handles FREE_STATEID.
    ///
    /// # Errors
    /// NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID, NFS4ERR_LOCKS_HELD (an open, or a lock stateid with ranges).
    pub fn free_stateid(&mut self, client: ClientKey, stateid: &Stateid4) -> Result<()> {
        let _ = (client, stateid);
        Err(Nfsstat4::NFS4ERR_SERVERFAULT)
    }
}
