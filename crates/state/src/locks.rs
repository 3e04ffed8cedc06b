//! LOCK, LOCKT and LOCKU (RFC 8881 sections 18.10 to 18.12).

use crate::lock_ranges::{Held, RangeTable};
use crate::opens::{Owner, next_seqid};
use crate::shares::{READ, WRITE};
use crate::slab::Key;
use crate::stateids::StateRef;
use crate::{ClientKey, Clientid4, LockRange, Nfsstat4, Result, State, Stateid4};
use std::hash::Hash;
use std::sync::Arc;
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

/// No key of any lock owner: the generation is never zero.
const NOBODY: Key = Key { index: u32::MAX, generation: 0 };

/// A lock stateid: of one lock owner under one open.
#[derive(Debug)]
pub(crate) struct LockState {
    pub(crate) client: ClientKey,
    pub(crate) owner: Key,
    pub(crate) open: Key,
    pub(crate) file: Key,
    pub(crate) seqid: u32,
}

/// A LOCK may cut one range into three parts and make a lock stateid.
const LOCKS_PER_LOCK_MAX: usize = 3;

impl<F: Clone + Eq + Hash, O: Clone> State<F, O> {
    /// Handles LOCK and returns the lock stateid. Blocking types are treated as their others: the client asks again.
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
        let range = LockRange::new(request.offset, request.length).map_err(|_| Nfsstat4::NFS4ERR_INVAL)?;
        let (open, existing, owner) = self.resolve_locker(client, request)?;
        self.check_grace(now, client, request.reclaim)?;
        self.check_lock_mode(open, request.write)?;
        if let Some(held) = self.lock_conflict(open, owner, range, request.write) {
            return Err(match request.reclaim {
                true => LockError::Status(Nfsstat4::NFS4ERR_RECLAIM_CONFLICT),
                false => LockError::Denied(self.denied(held)),
            });
        }
        self.check_lock_limits(client)?;
        let key = match (existing, request.locker) {
            (Some(key), _) => key,
            (None, Locker::New { owner, .. }) => self.new_lock_state(client, open, owner)?,
            (None, Locker::Existing(_)) => return Err(Nfsstat4::NFS4ERR_BAD_STATEID.into()),
        };
        Ok(self.change_ranges(key, |ranges, owner| ranges.lock(owner, range, request.write))?)
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
        let range = LockRange::new(offset, length).map_err(|_| Nfsstat4::NFS4ERR_INVAL)?;
        let client = self.client(client)?;
        if self.in_grace(now) {
            return Err(Nfsstat4::NFS4ERR_GRACE.into());
        }
        let owner = client.lock_owners.get(owner).copied().unwrap_or(NOBODY);
        let file = self.files_by_name.get(file).and_then(|key| self.files.get(*key));
        match file.and_then(|file| file.ranges.conflict(owner, range, write)) {
            Some(held) => Err(LockError::Denied(self.denied(held))),
            None => Ok(()),
        }
    }

    /// Handles LOCKU: what is not locked in the range is left as it is.
    ///
    /// # Errors
    /// NFS4ERR_INVAL, NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID, NFS4ERR_LOCK_RANGE (a split would exceed the limit).
    pub fn locku(
        &mut self,
        client: ClientKey,
        stateid: &Stateid4,
        file: &F,
        offset: u64,
        length: u64,
    ) -> Result<Stateid4> {
        let range = LockRange::new(offset, length).map_err(|_| Nfsstat4::NFS4ERR_INVAL)?;
        let key = self.find_lock(client, stateid, file)?;
        // Only what covers the rest of the file for sure can split nothing.
        if (offset, length) != (0, u64::MAX) && self.check_lock_limits(client).is_err() {
            return Err(Nfsstat4::NFS4ERR_LOCK_RANGE);
        }
        self.change_ranges(key, |ranges, owner| ranges.unlock(owner, range))
    }

    /// Finds the open, the lock stateid if there is one, and the lock owner's key ([`NOBODY`] if it is new).
    fn resolve_locker(&self, client: ClientKey, request: &Lock<'_, F>) -> Result<(Key, Option<Key>, Key)> {
        match request.locker {
            Locker::New { open_stateid, owner } => {
                let open = self.find_open(client, &open_stateid, request.file)?;
                if owner.len() > self.limits.owner_size_max {
                    return Err(Nfsstat4::NFS4ERR_INVAL);
                }
                let owner = self.client(client)?.lock_owners.get(owner).copied().unwrap_or(NOBODY);
                Ok((open, self.locks_by_owner.get(&(owner.index, open.index)).copied(), owner))
            }
            Locker::Existing(stateid) => {
                let key = self.find_lock(client, &stateid, request.file)?;
                let lock = self.locks.get(key).ok_or(Nfsstat4::NFS4ERR_BAD_STATEID)?;
                Ok((lock.open, Some(key), lock.owner))
            }
        }
    }

    /// Finds the lock stateid, which has to be one of `file`.
    fn find_lock(&self, client: ClientKey, stateid: &Stateid4, file: &F) -> Result<Key> {
        let StateRef::Lock(key) = self.find_stateid(client, stateid)? else {
            return Err(Nfsstat4::NFS4ERR_BAD_STATEID);
        };
        let lock = self.locks.get(key).ok_or(Nfsstat4::NFS4ERR_BAD_STATEID)?;
        match self.files.get(lock.file) {
            Some(state) if state.name == *file => Ok(key),
            _ => Err(Nfsstat4::NFS4ERR_BAD_STATEID),
        }
    }

    /// A write lock needs an open for writing, a read lock one for reading (RFC 8881 section 18.10.3).
    fn check_lock_mode(&self, open: Key, write: bool) -> Result<()> {
        let open = self.opens.get(open).ok_or(Nfsstat4::NFS4ERR_BAD_STATEID)?;
        let needed = if write { WRITE } else { READ };
        if open.share.access & needed == 0 {
            return Err(Nfsstat4::NFS4ERR_OPENMODE);
        }
        Ok(())
    }

    fn lock_conflict(&self, open: Key, owner: Key, range: LockRange, write: bool) -> Option<Held<Key>> {
        let file = self.opens.get(open).and_then(|open| self.files.get(open.file))?;
        file.ranges.conflict(owner, range, write)
    }

    fn denied(&self, held: Held<Key>) -> LockDenied {
        let owner = self.owners.get(held.holder);
        let client = owner.and_then(|owner| self.clients.get(owner.client.0));
        LockDenied {
            offset: held.range.offset(),
            length: held.range.length(),
            write: held.write,
            clientid: client.map_or(0, |client| client.id),
            owner: owner.map_or_else(Vec::new, |owner| owner.name.to_vec()),
        }
    }

    fn check_lock_limits(&self, client: ClientKey) -> Result<()> {
        let all = self.ranges + self.locks.len() + LOCKS_PER_LOCK_MAX;
        let own = self.client(client)?.locks + LOCKS_PER_LOCK_MAX;
        if own > self.limits.locks_per_client_max || all > self.limits.locks_max {
            return Err(Nfsstat4::NFS4ERR_DELAY);
        }
        Ok(())
    }

    fn new_lock_state(&mut self, client: ClientKey, open: Key, owner: &[u8]) -> Result<Key> {
        let file = self.opens.get(open).ok_or(Nfsstat4::NFS4ERR_BAD_STATEID)?.file;
        let record = self.client_mut(client)?;
        record.locks += 1;
        let known = record.lock_owners.get(owner).copied();
        let owner = known.unwrap_or_else(|| {
            let name: Arc<[u8]> = owner.into();
            let key = self.owners.insert(Owner { client, name: name.clone(), uses: 0 });
            if let Some(record) = self.clients.get_mut(client.0) {
                record.lock_owners.insert(name, key);
            }
            key
        });
        if let Some(owner) = self.owners.get_mut(owner) {
            owner.uses += 1;
        }
        // The change of ranges that follows makes the first sequence number 1.
        let key = self.locks.insert(LockState { client, owner, open, file, seqid: 0 });
        self.locks_by_owner.insert((owner.index, open.index), key);
        if let Some(open) = self.opens.get_mut(open) {
            open.locks.push(key);
        }
        Ok(key)
    }

    /// Changes the ranges of a lock stateid's owner, counts them, and returns the stateid with its next sequence number.
    fn change_ranges(
        &mut self,
        key: Key,
        change: impl FnOnce(&mut RangeTable<Key>, Key),
    ) -> Result<Stateid4> {
        let lock = self.locks.get_mut(key).ok_or(Nfsstat4::NFS4ERR_BAD_STATEID)?;
        lock.seqid = next_seqid(lock.seqid);
        let (seqid, client, owner, file) = (lock.seqid, lock.client, lock.owner, lock.file);
        let file = self.files.get_mut(file).ok_or(Nfsstat4::NFS4ERR_BAD_STATEID)?;
        let before = file.ranges.len();
        change(&mut file.ranges, owner);
        let after = file.ranges.len();
        self.ranges = self.ranges + after - before;
        if let Some(client) = self.clients.get_mut(client.0) {
            client.locks = client.locks + after - before;
        }
        Ok(self.stateid(StateRef::Lock(key), seqid))
    }

    /// Removes a lock stateid. The owner's ranges of the file go with its last lock stateid there.
    pub(crate) fn remove_lock_state(&mut self, key: Key) {
        let Some(lock) = self.locks.remove(key) else { return };
        self.locks_by_owner.remove(&(lock.owner.index, lock.open.index));
        if let Some(open) = self.opens.get_mut(lock.open) {
            open.locks.retain(|other| *other != key);
        }
        let mut gone = 1;
        if !self.has_lock_state(lock.owner, lock.file)
            && let Some(file) = self.files.get_mut(lock.file)
        {
            let ranges = file.ranges.unlock_all(lock.owner);
            self.ranges = self.ranges.saturating_sub(ranges);
            gone += ranges;
        }
        if let Some(client) = self.clients.get_mut(lock.client.0) {
            client.locks = client.locks.saturating_sub(gone);
        }
        self.release_owner(lock.owner);
    }

    /// Tells whether the lock owner has a lock stateid on the file.
    fn has_lock_state(&self, owner: Key, file: Key) -> bool {
        let of_owner = self.locks_by_owner.range((owner.index, 0)..=(owner.index, u32::MAX));
        of_owner.filter_map(|(_, key)| self.locks.get(*key)).any(|lock| lock.file == file)
    }

    /// Tells whether FREE_STATEID of this lock stateid would give up ranges.
    pub(crate) fn lock_state_holds_ranges(&self, key: Key) -> bool {
        let Some(lock) = self.locks.get(key) else { return false };
        self.files.get(lock.file).is_some_and(|file| file.ranges.holds(lock.owner))
    }
}
