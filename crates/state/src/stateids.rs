//! Stateids (RFC 8881 section 8.2): special ones, and the check of a sequence number.

use crate::Locks;
use crate::Opens;
use crate::locks::LockState;
use crate::opens::Open;
use crate::order::Held;
use crate::scramble::Domain;
use crate::slab::SlabKey;
use crate::{ClientKey, Effects, Nfsstat4, Result, State, Stateid4};
use std::hash::Hash;

/// Sorts stateids as RFC 8881 section 8.2.3 does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateidKind {
    /// The anonymous stateid: all zeros.
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
    /// Classifies a stateid by its special values.
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

/// The kind of state that a stateid names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StateRef {
    Open(SlabKey),
    Lock(SlabKey),
    Delegation(SlabKey),
    Copy(SlabKey),
}

/// The bit that makes a generation that of a lock stateid; generations have 31 bits.
const LOCK_BIT: u32 = 1 << 31;
/// The bit that makes an index that of a delegation; tables are far smaller. With both bits it is a
/// copy.
const DELEGATION_BIT: u32 = 1 << 31;

impl<F: Clone + Eq + Hash, O> State<F, O> {
    /// Makes the stateid of an open or a lock: the epoch, and permuted, so that no other can be
    /// guessed from it, index and kind with generation. The epoch is in clear: it tells stateids of
    /// an earlier start from made-up ones.
    pub(crate) fn stateid(&self, state: StateRef, seqid: u32) -> Stateid4 {
        let (key, table, kind) = match state {
            StateRef::Open(key) => (key, 0, 0),
            StateRef::Lock(key) => (key, 0, LOCK_BIT),
            StateRef::Delegation(key) => (key, DELEGATION_BIT, 0),
            StateRef::Copy(key) => (key, DELEGATION_BIT, LOCK_BIT),
        };
        let [a, b, c, d] = self.epoch.to_be_bytes();
        let place = u64::from(key.index | table) << 32 | u64::from(key.generation | kind);
        let [e, f, g, h, i, j, k, l] = self.scramble.scramble(Domain::Stateid, place).to_be_bytes();
        Stateid4 { seqid, other: [a, b, c, d, e, f, g, h, i, j, k, l] }
    }

    /// Decodes the state that a stateid names, without checking that it exists.
    pub(crate) fn state_ref(&self, stateid: &Stateid4) -> Result<StateRef> {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = stateid.other;
        if u32::from_be_bytes([a, b, c, d]) != self.epoch || StateidKind::of(stateid) != StateidKind::Ordinary
        {
            return Err(Nfsstat4::NFS4ERR_BAD_STATEID);
        }
        let place = self.scramble.unscramble(Domain::Stateid, u64::from_be_bytes([e, f, g, h, i, j, k, l]));
        let (index, generation) = ((place >> 32) as u32, place as u32);
        let key = SlabKey { index: index & !DELEGATION_BIT, generation: generation & !LOCK_BIT };
        Ok(match (index & DELEGATION_BIT, generation & LOCK_BIT) {
            (0, 0) => StateRef::Open(key),
            (0, _) => StateRef::Lock(key),
            (_, 0) => StateRef::Delegation(key),
            _ => StateRef::Copy(key),
        })
    }

    fn find_stateid(&self, client: ClientKey, stateid: &Stateid4) -> Result<StateRef> {
        let found = self.state_ref(stateid)?;
        match found {
            StateRef::Open(key) => self.opens().read_open(client, key, stateid.seqid, |_| Ok(()))?,
            StateRef::Lock(key) => self.locks().read_lock(client, key, stateid.seqid, |_| ())?,
            StateRef::Delegation(key) => {
                self.delegations().read_delegation(client, key, stateid.seqid, |_| Ok(()))?
            }
            // For OFFLOAD_STATUS and OFFLOAD_CANCEL alone.
            StateRef::Copy(_) => return Err(Nfsstat4::NFS4ERR_BAD_STATEID),
        }
        Ok(found)
    }

    /// Returns whether a stateid names an open, a lock or a delegation of another client.
    pub fn is_of_another_client(&self, client: ClientKey, stateid: &Stateid4) -> bool {
        let owner = match self.state_ref(stateid) {
            Ok(StateRef::Open(key)) => self.opens.read(key, |open| open.client),
            Ok(StateRef::Lock(key)) => self.locks.read(key, |lock| lock.client),
            Ok(StateRef::Delegation(key)) => self.delegations.read(key, |delegation| delegation.client),
            Ok(StateRef::Copy(_)) | Err(_) => None,
        };
        owner.is_some_and(|owner| owner != client)
    }

    /// Handles one stateid of TEST_STATEID: NFS4_OK, NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID,
    /// NFS4ERR_ADMIN_REVOKED or NFS4ERR_DELEG_REVOKED.
    pub fn test_stateid(&self, client: ClientKey, stateid: &Stateid4) -> Nfsstat4 {
        self.find_stateid(client, stateid).err().unwrap_or(Nfsstat4::NFS4_OK)
    }

    /// Handles FREE_STATEID.
    ///
    /// # Errors
    /// NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID, NFS4ERR_LOCKS_HELD (an open, a lock stateid with
    /// ranges, a delegation; unless it is revoked).
    pub fn free_stateid(
        &self,
        client: ClientKey,
        stateid: &Stateid4,
        effects: &mut Effects<O>,
    ) -> Result<()> {
        let record = self.client(client).map_err(|_| Nfsstat4::NFS4ERR_BAD_STATEID)?;
        let held = &mut Held::nothing();
        let mut client_state = record.lock_any(held);
        let lock = match (self.find_stateid(client, stateid), self.state_ref(stateid)?) {
            (Err(Nfsstat4::NFS4ERR_DELEG_REVOKED), StateRef::Delegation(key)) => {
                self.delegations().remove_delegation(&record, &mut client_state, key, effects);
                None
            }
            (Err(Nfsstat4::NFS4ERR_ADMIN_REVOKED), state) => {
                self.free_revoked(&record, client, state);
                None
            }
            (found, _) => match found? {
                StateRef::Lock(key) => Some(key),
                StateRef::Open(_) | StateRef::Delegation(_) | StateRef::Copy(_) => {
                    return Err(Nfsstat4::NFS4ERR_LOCKS_HELD);
                }
            },
        };
        let Some(key) = lock else {
            drop(client_state);
            self.leases().record_again(held, client, effects);
            return Ok(());
        };
        let lock = self.locks().lock_of(key)?;
        let (client_state, held) = client_state.split();
        let mut files = self.files.lock(held, &lock.file);
        let file = files.get_mut(&lock.file).ok_or(Nfsstat4::NFS4ERR_BAD_STATEID)?;
        if file.ranges.holds(lock.owner) {
            return Err(Nfsstat4::NFS4ERR_LOCKS_HELD);
        }
        self.locks().remove_lock_state(client_state, &lock.file, file, key, effects);
        Ok(())
    }
}

impl<F: Clone + Eq + Hash, O> Opens<'_, F, O> {
    /// Finds the open that a stateid names and runs something short on it, if it is this client's
    /// and the sequence number is good; zero stands for the current one.
    pub(crate) fn read_open<R>(
        &self,
        client: ClientKey,
        key: SlabKey,
        seqid: u32,
        run: impl FnOnce(&Open<F, O>) -> Result<R>,
    ) -> Result<R> {
        let found = self.state.opens.read(key, |open| match open.client == client {
            true => check_seqid(seqid, open.seqid).and_then(|()| run(open)),
            false => Err(Nfsstat4::NFS4ERR_BAD_STATEID),
        });
        found.unwrap_or_else(|| Err(self.state.revoked.missing(client, StateRef::Open(key))))
    }
}

impl<F: Clone + Eq + Hash, O> Locks<'_, F, O> {
    /// As [`crate::Opens::read_open`], for lock stateids.
    pub(crate) fn read_lock<R>(
        &self,
        client: ClientKey,
        key: SlabKey,
        seqid: u32,
        run: impl FnOnce(&LockState) -> R,
    ) -> Result<R> {
        let found = self.state.locks.read(key, |lock| match lock.client == client {
            true => check_seqid(seqid, lock.seqid).map(|()| run(lock)),
            false => Err(Nfsstat4::NFS4ERR_BAD_STATEID),
        });
        found.unwrap_or_else(|| Err(self.state.revoked.missing(client, StateRef::Lock(key))))
    }
}

/// Compares sequence numbers that may have wrapped (RFC 8881 section 8.2.2).
pub(crate) fn check_seqid(given: u32, current: u32) -> Result<()> {
    if given == 0 || given == current {
        return Ok(());
    }
    // Half of all numbers lie ahead, half behind.
    if given.wrapping_sub(current) < 1 << 31 {
        return Err(Nfsstat4::NFS4ERR_BAD_STATEID);
    }
    Err(Nfsstat4::NFS4ERR_OLD_STATEID)
}
