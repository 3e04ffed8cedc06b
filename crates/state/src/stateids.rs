//! Stateids (RFC 8881 section 8.2): special ones, and the check of a sequence number.

use crate::slab::Key;
use crate::{ClientKey, Nfsstat4, Result, State, Stateid4};
use std::hash::Hash;

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
        match *stateid {
            Stateid4::ANONYMOUS => Self::Anonymous,
            Stateid4::READ_BYPASS => Self::Bypass,
            Stateid4::CURRENT => Self::Current,
            _ if stateid.is_reserved() => Self::Invalid,
            _ => Self::Ordinary,
        }
    }
}

/// What a stateid names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateRef {
    Open(Key),
    Lock(Key),
}

/// The bit that makes a generation that of a lock stateid; generations have 31 bits.
const LOCK_BIT: u32 = 1 << 31;

impl<F: Clone + Eq + Hash, O: Clone> State<F, O> {
    /// Makes the stateid of an open or a lock: epoch, index, and kind with generation.
    pub(crate) fn stateid(&self, state: StateRef, seqid: u32) -> Stateid4 {
        let (key, kind) = match state {
            StateRef::Open(key) => (key, 0),
            StateRef::Lock(key) => (key, LOCK_BIT),
        };
        let [a, b, c, d] = self.epoch.to_be_bytes();
        let [e, f, g, h] = key.index.to_be_bytes();
        let [i, j, k, l] = (key.generation | kind).to_be_bytes();
        Stateid4 { seqid, other: [a, b, c, d, e, f, g, h, i, j, k, l] }
    }

    /// Finds what a stateid of this client names and checks its sequence number; zero stands for the current one.
    pub(crate) fn find_stateid(&self, client: ClientKey, stateid: &Stateid4) -> Result<StateRef> {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = stateid.other;
        if u32::from_be_bytes([a, b, c, d]) != self.epoch || StateidKind::of(stateid) != StateidKind::Ordinary
        {
            return Err(Nfsstat4::NFS4ERR_BAD_STATEID);
        }
        let (index, generation) = (u32::from_be_bytes([e, f, g, h]), u32::from_be_bytes([i, j, k, l]));
        let key = Key { index, generation: generation & !LOCK_BIT };
        let (state, owner, seqid) = match generation & LOCK_BIT {
            0 => self.opens.get(key).map(|open| (StateRef::Open(key), open.client, open.seqid)),
            _ => self.locks.get(key).map(|lock| (StateRef::Lock(key), lock.client, lock.seqid)),
        }
        .ok_or(Nfsstat4::NFS4ERR_BAD_STATEID)?;
        if owner != client {
            return Err(Nfsstat4::NFS4ERR_BAD_STATEID);
        }
        check_seqid(stateid.seqid, seqid)?;
        Ok(state)
    }

    /// Handles one stateid of TEST_STATEID: NFS4_OK, NFS4ERR_BAD_STATEID or NFS4ERR_OLD_STATEID.
    pub fn test_stateid(&self, client: ClientKey, stateid: &Stateid4) -> Nfsstat4 {
        self.find_stateid(client, stateid).err().unwrap_or(Nfsstat4::NFS4_OK)
    }

    /// Handles FREE_STATEID.
    ///
    /// # Errors
    /// NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID, NFS4ERR_LOCKS_HELD (an open, or a lock stateid with ranges).
    pub fn free_stateid(&mut self, client: ClientKey, stateid: &Stateid4) -> Result<()> {
        match self.find_stateid(client, stateid)? {
            StateRef::Lock(key) if !self.lock_state_holds_ranges(key) => {
                self.remove_lock_state(key);
                Ok(())
            }
            StateRef::Open(_) | StateRef::Lock(_) => Err(Nfsstat4::NFS4ERR_LOCKS_HELD),
        }
    }
}

/// Compares sequence numbers that may have wrapped (RFC 8881 section 8.2.2).
fn check_seqid(given: u32, current: u32) -> Result<()> {
    if given == 0 || given == current {
        return Ok(());
    }
    // Half of all numbers lie ahead, half behind.
    if given.wrapping_sub(current) < 1 << 31 {
        return Err(Nfsstat4::NFS4ERR_BAD_STATEID);
    }
    Err(Nfsstat4::NFS4ERR_OLD_STATEID)
}
