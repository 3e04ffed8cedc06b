//! LOCK, LOCKT and LOCKU (RFC 8881 sections 18.10 to 18.12).

pub(crate) mod image;
pub(crate) mod kernel_locks;
pub(crate) mod ranges;
pub(crate) mod requests;
pub(crate) mod waits;

use crate::Locks;
use crate::clients::users::User;
use crate::clients::{Client, ClientState, LockedClient};
use crate::files::FileState;
use crate::locks::ranges::{HeldRange, RangeTable};
use crate::locks::waits::LockWait;
use crate::locks::waits::Notices;
use crate::opens::shares::{READ, WRITE};
use crate::opens::{Open, next_seqid};
use crate::order::{Held, Leaf};
use crate::slab::SlabKey;
use crate::stateids::StateRef;
use crate::sync::Mutex;
use crate::sync::atomic::AtomicUsize;
use crate::sync::atomic::Ordering::Relaxed;
use crate::table::Table;
use crate::{
    ClientKey, Effects, Lock, LockDenied, LockError, LockMode, LockRange, Locker, Nfsstat4, Result, Stateid4,
};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

/// No key of any lock owner: the generation is never zero.
const NOBODY: SlabKey = SlabKey { index: u32::MAX, generation: 0 };

/// A lock stateid: of one lock owner under one open.
#[derive(Debug)]
pub(crate) struct LockState {
    pub(crate) client: ClientKey,
    pub(crate) owner: SlabKey,
    pub(crate) open: SlabKey,
    /// The user that it counts for: the open's.
    pub(crate) user: Arc<User>,
    pub(crate) seqid: u32,
}

/// The lock stateids, and the lock owners to notify of unlocked ranges.
#[derive(Debug)]
pub(crate) struct LockTable<F> {
    table: Table<LockState>,
    /// Lock stateids and locked ranges together, for the limit.
    count: AtomicUsize,
    notices: Leaf<Mutex<Notices<F>>>,
    /// Ranges that were unlocked, for [`crate::Locks::take_unlocked`].
    unlocked: Leaf<Mutex<Vec<(F, LockRange)>>>,
}

impl<F> LockTable<F> {
    pub(crate) fn new() -> Self {
        Self {
            table: Table::new(),
            count: AtomicUsize::new(0),
            notices: Leaf::default(),
            unlocked: Leaf::default(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns the number of lock stateids and locked ranges, including reservations of LOCKs in
    /// progress.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    pub(crate) fn read<R>(&self, key: SlabKey, run: impl FnOnce(&LockState) -> R) -> Option<R> {
        self.table.read(key, run)
    }

    #[cfg(test)]
    pub(crate) fn each(&self, run: impl FnMut(SlabKey, &LockState)) {
        self.table.each(run);
    }
}

/// The file, open and owner that LOCK, LOCKU and FREE_STATEID work on.
pub(crate) struct LockTarget<F> {
    pub(crate) open: SlabKey,
    pub(crate) file: F,
    /// share_access of the open.
    access: u32,
    /// The user that the open counts for.
    user: Arc<User>,
    /// The lock owner; [`NOBODY`] if it is new.
    pub(crate) owner: SlabKey,
    /// The lock stateid, if there is one already.
    state: Option<SlabKey>,
}

/// A LOCK may cut one range into three parts and make a lock stateid.
const LOCKS_PER_LOCK_MAX: usize = 3;

impl<F: Clone + Eq + Hash, O> Locks<'_, F, O> {
    /// Handles LOCK and returns the lock stateid. A refused client that waits is notified when the
    /// range may be free, and asks again.
    ///
    /// # Errors
    /// NFS4ERR_DENIED, NFS4ERR_INVAL, NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID, NFS4ERR_OPENMODE,
    /// NFS4ERR_GRACE, NFS4ERR_NO_GRACE, NFS4ERR_RECLAIM_BAD, NFS4ERR_RECLAIM_CONFLICT,
    /// NFS4ERR_DELAY (too many locks), NFS4ERR_DEADSESSION.
    pub fn lock(
        &self,
        now: Duration,
        client: ClientKey,
        request: &Lock<'_, F>,
        effects: &mut Effects<O>,
    ) -> core::result::Result<Stateid4, LockError> {
        loop {
            match self.lock_once(now, client, request, effects) {
                Err(LockError::Status(Nfsstat4::NFS4ERR_DELAY))
                    if self.expired_make_room(now, client, request, effects) => {}
                locked => return locked,
            }
        }
    }

    /// Removes the state of clients with expired leases when the limit of all locks refused the
    /// request.
    fn expired_make_room(
        &self,
        now: Duration,
        client: ClientKey,
        request: &Lock<'_, F>,
        effects: &mut Effects<O>,
    ) -> bool {
        let Ok(record) = self.state.client(client) else { return false };
        let held = &mut Held::nothing();
        let Ok(place) = self.resolve_locker(&record.lock_any(held), client, request) else { return false };
        self.state.clients().make_room_for_locks(held, now, &place.user.tenant, LOCKS_PER_LOCK_MAX, effects)
    }

    fn lock_once(
        &self,
        now: Duration,
        client: ClientKey,
        request: &Lock<'_, F>,
        effects: &mut Effects<O>,
    ) -> core::result::Result<Stateid4, LockError> {
        let range = LockRange::new(request.offset, request.length).map_err(|_| Nfsstat4::NFS4ERR_INVAL)?;
        self.state.with_client(client, request.reclaim, |client, held| {
            let place = self.lock_place(now, client, request)?;
            let mut files = self.state.files.lock(held, request.file);
            let file = files.get_mut(request.file).ok_or(Nfsstat4::NFS4ERR_BAD_STATEID)?;
            self.check_free(client, &place, file, range, request)?;
            self.reserve_locks(client.record, client.state, &place, request.reclaim)?;
            if !file.waits.is_empty() {
                let name = self.name_of(request, place.owner);
                file.waits.retain(|wait| wait.client != client.key || wait.name != name);
            }
            let key = match (place.state, request.locker) {
                (Some(key), _) => key,
                (None, Locker::New { owner, .. }) => self.new_lock_state(client, &place, file, owner),
                (None, Locker::Existing(_)) => NOBODY,
            };
            let lock = |ranges: &mut RangeTable<SlabKey>, owner| ranges.lock(owner, range, request.mode);
            let locked = self.change_ranges(client.state, &place, file, key, lock);
            self.state.locks.count.fetch_sub(LOCKS_PER_LOCK_MAX, Relaxed);
            // A range that was locked for writing may be free for reading now.
            self.notify_lock_waits(file, effects);
            Ok(locked?)
        })
    }

    /// Finds the target of a LOCK, and does the checks that do not depend on other owners.
    pub(crate) fn lock_place(
        &self,
        now: Duration,
        client: &mut LockedClient<'_>,
        request: &Lock<'_, F>,
    ) -> Result<LockTarget<F>> {
        let place = self.resolve_locker(client.state, client.key, request)?;
        self.state.leases().check_grace(now, client, (self.state.is_shared)(request.file))?;
        // A write lock needs an open for writing, a read lock one for reading (RFC 8881 section
        // 18.10.3).
        let needed = match request.mode {
            LockMode::Read => READ,
            LockMode::Write => WRITE,
        };
        if place.access & needed == 0 { Err(Nfsstat4::NFS4ERR_OPENMODE) } else { Ok(place) }
    }

    /// Checks that no other owner has locked a range; remembers a client that waits for it.
    pub(crate) fn check_free(
        &self,
        client: &LockedClient<'_>,
        place: &LockTarget<F>,
        file: &mut FileState<F>,
        range: LockRange,
        request: &Lock<'_, F>,
    ) -> core::result::Result<(), LockError> {
        let Some(held) = file.ranges.conflict(place.owner, range, request.mode) else { return Ok(()) };
        if request.reclaim {
            return Err(Nfsstat4::NFS4ERR_RECLAIM_CONFLICT.into());
        }
        self.note_wait(client, place, file, range, request);
        Err(LockError::Denied(self.denied(held)))
    }

    /// Remembers a refused request if it waits (READW_LT, WRITEW_LT) and its client can be called
    /// back, and returns whether it did.
    pub(crate) fn note_wait(
        &self,
        client: &LockedClient<'_>,
        place: &LockTarget<F>,
        file: &mut FileState<F>,
        range: LockRange,
        request: &Lock<'_, F>,
    ) -> bool {
        let waits = request.waits && client.record.paths.load(Relaxed) > 0;
        if waits {
            let (name, owner) = (self.name_of(request, place.owner), place.owner);
            file.wait_for_lock(LockWait {
                file: request.file.clone(),
                client: client.key,
                clientid: client.record.id,
                name,
                owner,
                range,
                mode: request.mode,
            });
        }
        waits
    }

    /// Handles LOCKT: whether `owner` could lock the range.
    ///
    /// # Errors
    /// NFS4ERR_DENIED, NFS4ERR_INVAL, NFS4ERR_GRACE, NFS4ERR_DEADSESSION.
    pub fn lockt(
        &self,
        client: ClientKey,
        file: &F,
        owner: &[u8],
        mode: LockMode,
        offset: u64,
        length: u64,
    ) -> core::result::Result<(), LockError> {
        let range = LockRange::new(offset, length).map_err(|_| Nfsstat4::NFS4ERR_INVAL)?;
        let record = self.state.client(client)?;
        let held = &mut Held::nothing();
        let owner = record.lock(held)?.lock_owners.get(owner).copied().unwrap_or(NOBODY);
        if self.state.leases().refuses_new((self.state.is_shared)(file)) {
            return Err(Nfsstat4::NFS4ERR_GRACE.into());
        }
        let files = self.state.files.read(held, file);
        match files.get(file).and_then(|file| file.ranges.conflict(owner, range, mode)) {
            Some(held) => Err(LockError::Denied(self.denied(held))),
            None => Ok(()),
        }
    }

    /// Handles LOCKU; unlocked parts of the range stay so.
    ///
    /// # Errors
    /// NFS4ERR_INVAL, NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID, NFS4ERR_LOCK_RANGE (a split would
    /// exceed the limit).
    pub fn locku(
        &self,
        client: ClientKey,
        stateid: &Stateid4,
        file: &F,
        offset: u64,
        length: u64,
        effects: &mut Effects<O>,
    ) -> Result<Stateid4> {
        let range = LockRange::new(offset, length).map_err(|_| Nfsstat4::NFS4ERR_INVAL)?;
        let record = self.state.client(client).map_err(|_| Nfsstat4::NFS4ERR_BAD_STATEID)?;
        let held = &mut Held::nothing();
        let mut client_state = record.lock_any(held);
        let (client_state, held) = client_state.split();
        let key = self.find_lock(client, stateid, file)?;
        let place = self.lock_of(key)?;
        let mut files = self.state.files.lock(held, file);
        let splits = files.get_mut(file).is_some_and(|state| state.ranges.splits(place.owner, range));
        // Only the limits refuse a split: a user above its share must be able to unlock.
        if splits && self.reserve_locks(&record, client_state, &place, true).is_err() {
            return Err(Nfsstat4::NFS4ERR_LOCK_RANGE);
        }
        let unlock = |ranges: &mut RangeTable<SlabKey>, owner| ranges.unlock(owner, range);
        let unlocked = match files.get_mut(file) {
            Some(state) => {
                let unlocked = self.change_ranges(client_state, &place, state, key, unlock);
                self.notify_lock_waits(state, effects);
                self.note_unlocked(state, file, range, effects);
                unlocked
            }
            None => Err(Nfsstat4::NFS4ERR_BAD_STATEID),
        };
        if splits {
            self.state.locks.count.fetch_sub(LOCKS_PER_LOCK_MAX, Relaxed);
        }
        unlocked
    }

    /// Finds the open, the lock stateid if there is one, and the lock owner.
    pub(crate) fn resolve_locker(
        &self,
        client_state: &ClientState,
        client: ClientKey,
        request: &Lock<'_, F>,
    ) -> Result<LockTarget<F>> {
        match request.locker {
            Locker::New { open_stateid, owner } => {
                let open = self.state.opens().find_open(client, &open_stateid, request.file)?;
                if owner.len() > self.state.limits.owner_size_max {
                    return Err(Nfsstat4::NFS4ERR_INVAL);
                }
                let owner = client_state.lock_owners.get(owner).copied().unwrap_or(NOBODY);
                let state = client_state.lock_states.get(&(owner, open)).copied();
                self.place(open, owner, state)
            }
            Locker::Existing(stateid) => self.lock_of(self.find_lock(client, &stateid, request.file)?),
        }
    }

    fn place(&self, open: SlabKey, owner: SlabKey, state: Option<SlabKey>) -> Result<LockTarget<F>> {
        let look = |open: &Open<F, O>| (open.file.clone(), open.share.access, Arc::clone(&open.user));
        let (file, access, user) = self.state.opens.read(open, look).ok_or(Nfsstat4::NFS4ERR_BAD_STATEID)?;
        Ok(LockTarget { open, file, access, user, owner, state })
    }

    /// Returns the target of a lock stateid.
    pub(crate) fn lock_of(&self, key: SlabKey) -> Result<LockTarget<F>> {
        let found = self.state.locks.table.read(key, |lock| (lock.open, lock.owner));
        let (open, owner) = found.ok_or(Nfsstat4::NFS4ERR_BAD_STATEID)?;
        self.place(open, owner, Some(key))
    }

    /// Finds the lock stateid, which has to be one of `file`.
    fn find_lock(&self, client: ClientKey, stateid: &Stateid4, file: &F) -> Result<SlabKey> {
        let StateRef::Lock(key) = self.state.state_ref(stateid)? else {
            return Err(Nfsstat4::NFS4ERR_BAD_STATEID);
        };
        let open = self.read_lock(client, key, stateid.seqid, |lock| lock.open)?;
        match self.state.opens.read(open, |open| self.state.is_named(&open.file, file)) {
            Some(true) => Ok(key),
            _ => Err(Nfsstat4::NFS4ERR_BAD_STATEID),
        }
    }

    fn denied(&self, held: HeldRange<SlabKey>) -> LockDenied {
        // The holder of a range has a lock stateid, and its owner exists as long as the file's
        // stripe is locked.
        let owner = self.state.opens.owner(held.holder, |owner| (owner.clientid, owner.name.to_vec()));
        let (clientid, owner) = owner.unwrap_or_default();
        LockDenied {
            offset: held.range.offset(),
            length: held.range.length(),
            mode: held.mode,
            clientid,
            owner,
        }
    }

    /// The lock owner's name, whether or not it has locked anything yet.
    fn name_of(&self, request: &Lock<'_, F>, owner: SlabKey) -> Arc<[u8]> {
        match request.locker {
            Locker::New { owner, .. } => owner.into(),
            Locker::Existing(_) => {
                self.state.opens.owner(owner, |owner| owner.name.clone()).unwrap_or_default()
            }
        }
    }

    /// Counts the most that one operation may create, or refuses it; the caller subtracts this
    /// again after the created state was counted by itself.
    fn reserve_locks(
        &self,
        record: &Client,
        client_state: &ClientState,
        place: &LockTarget<F>,
        reclaims: bool,
    ) -> Result<()> {
        const MORE: usize = LOCKS_PER_LOCK_MAX;
        self.state.locks.count.fetch_add(MORE, Relaxed);
        let group = self.state.group_of(&place.file);
        let quota = self.state.quotas.of_group(group);
        let held = || self.state.groups.locks(group);
        let fits = reclaims || quota.locks_max.is_none() || quota.admits_locks(held(), MORE);
        let clients = self.state.clients();
        let checked = match fits {
            true => clients.check_lock_limits(record, client_state, &place.user, MORE, reclaims),
            false => Err(Nfsstat4::NFS4ERR_DELAY),
        };
        if checked.is_err() {
            self.state.locks.count.fetch_sub(MORE, Relaxed);
        }
        checked
    }

    fn new_lock_state(
        &self,
        client: &mut LockedClient<'_>,
        place: &LockTarget<F>,
        file: &FileState<F>,
        owner: &[u8],
    ) -> SlabKey {
        let open = place.open;
        let payer = self.payer(client.state, place.owner, &place.file, None);
        let turn = client.state.next_stripe();
        let owner = match client.state.lock_owners.get(owner) {
            Some(key) => *key,
            None => {
                let name: Arc<[u8]> = owner.into();
                let key = self.state.opens.insert_owner(turn, client.record.id, name.clone());
                client.state.lock_owners.insert(name, key);
                key
            }
        };
        self.state.opens.use_owner(owner);
        // The change of ranges that follows makes the first sequence number 1.
        let key = self.state.locks.table.insert(
            turn,
            LockState { client: client.key, owner, open, user: Arc::clone(&place.user), seqid: 0 },
        );
        client.state.lock_states.insert((owner, open), key);
        self.count_locks(client.state, &place.user, &place.file, (0, 1));
        self.state.opens.add_lock(open, key);
        self.charge_anew(client.state, payer, owner, &place.file, file);
        key
    }

    /// Changes the ranges of a lock stateid's owner, counts them, and returns the stateid with its
    /// next sequence number.
    fn change_ranges(
        &self,
        client_state: &mut ClientState,
        place: &LockTarget<F>,
        file: &mut FileState<F>,
        key: SlabKey,
        change: impl FnOnce(&mut RangeTable<SlabKey>, SlabKey),
    ) -> Result<Stateid4> {
        let changed = self.state.locks.table.write(key, |lock| {
            lock.seqid = next_seqid(lock.seqid);
            (lock.seqid, lock.owner)
        });
        let (seqid, owner) = changed.ok_or(Nfsstat4::NFS4ERR_BAD_STATEID)?;
        let payer = self.payer(client_state, owner, &place.file, None);
        let before = file.ranges.len();
        change(&mut file.ranges, owner);
        let user = payer.as_ref().unwrap_or(&place.user);
        self.count_locks(client_state, user, &place.file, (before, file.ranges.len()));
        Ok(self.state.stateid(StateRef::Lock(key), seqid))
    }

    /// Counts lock stateids and ranges of a file that were made or went.
    fn count_locks(
        &self,
        client_state: &mut ClientState,
        user: &User,
        file: &F,
        (before, after): (usize, usize),
    ) {
        self.state.groups.change_locks(self.state.group_of(file), before, after);
        client_state.locks = (client_state.locks + after).saturating_sub(before);
        for count in [&self.state.locks.count, &user.locks, &user.tenant.locks] {
            if after >= before {
                count.fetch_add(after - before, Relaxed);
            } else {
                count.fetch_sub(before - after, Relaxed);
            }
        }
    }

    /// Removes a lock stateid on a file. The owner's ranges of the file go with its last lock
    /// stateid there.
    pub(crate) fn remove_lock_state(
        &self,
        client_state: &mut ClientState,
        name: &F,
        file: &mut FileState<F>,
        key: SlabKey,
        effects: &mut Effects<O>,
    ) {
        let Some(lock) = self.state.locks.table.remove(key) else { return };
        let payer = self.payer(client_state, lock.owner, name, Some(&lock));
        client_state.lock_states.remove(&(lock.owner, lock.open));
        self.state.opens.remove_lock(lock.open, key);
        let mut gone = 1;
        if self.has_lock_state(client_state, lock.owner, name) {
            self.charge_anew(client_state, payer, lock.owner, name, file);
        } else {
            if let Some(hull) = file.ranges.hull(lock.owner) {
                self.note_unlocked(file, name, hull, effects);
            }
            gone += file.ranges.unlock_all(lock.owner);
            self.notify_lock_waits(file, effects);
        }
        self.count_locks(client_state, &lock.user, name, (gone, 0));
        self.state.opens().release_owner(client_state, lock.owner);
    }

    /// Returns whether the lock owner has a lock stateid on the file.
    fn has_lock_state(&self, client_state: &ClientState, owner: SlabKey, file: &F) -> bool {
        let of_owner = client_state.lock_states.range((owner, SlabKey::MIN)..=(owner, SlabKey::MAX));
        of_owner
            .into_iter()
            .any(|((_, open), _)| self.state.opens.read(*open, |open| open.file == *file).unwrap_or(false))
    }

    /// Returns the user for whom the ranges of a lock owner in a file count, where the client has
    /// several users: that of the owner's first lock stateid there. An owner can lock under opens
    /// of all of them. The open of the lock stateid `ending`, which is one of the file, may be
    /// gone.
    fn payer(
        &self,
        client_state: &ClientState,
        owner: SlabKey,
        file: &F,
        ending: Option<&LockState>,
    ) -> Option<Arc<User>> {
        if client_state.users.len() <= 1 {
            return None;
        }
        let of_owner = client_state.lock_states.range((owner, SlabKey::MIN)..=(owner, SlabKey::MAX));
        let user = |open: &Open<F, O>| (open.file == *file).then(|| Arc::clone(&open.user));
        of_owner.into_iter().find_map(|((_, open), _)| match ending {
            Some(lock) if lock.open == *open => Some(Arc::clone(&lock.user)),
            _ => self.state.opens.read(*open, user).flatten(),
        })
    }

    /// Moves the ranges of a lock owner in a file from their former payer to the present one.
    fn charge_anew(
        &self,
        client_state: &ClientState,
        former: Option<Arc<User>>,
        owner: SlabKey,
        name: &F,
        file: &FileState<F>,
    ) {
        let (Some(former), Some(present)) = (former, self.payer(client_state, owner, name, None)) else {
            return;
        };
        if Arc::ptr_eq(&former, &present) {
            return;
        }
        let ranges = file.ranges.of(owner).count();
        for (from, to) in [(&former.locks, &present.locks), (&former.tenant.locks, &present.tenant.locks)] {
            from.fetch_sub(ranges, Relaxed);
            to.fetch_add(ranges, Relaxed);
        }
    }
}
