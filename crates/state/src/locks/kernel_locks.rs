//! Locks that the server's kernel holds as well, visible to local programs: the checks before, and
//! the release after.

use crate::Locks;
use crate::files::FileState;
use crate::order::Held;
use crate::{ClientKey, Effects, Lock, LockError, LockMode, LockRange, Nfsstat4, Result};
use std::hash::Hash;
use std::time::Duration;

impl<F: Clone + Eq + Hash, O> Locks<'_, F, O> {
    /// Does the checks of [`crate::Locks::lock`], passes the payload of the open to `take` and
    /// returns the result, so that the range can be locked in the kernel first. A client that waits
    /// is remembered as by [`crate::Locks::lock`].
    ///
    /// # Errors
    /// The errors of [`crate::Locks::lock`].
    pub fn lock_allowed<R>(
        &self,
        now: Duration,
        client: ClientKey,
        request: &Lock<'_, F>,
        take: impl FnOnce(&O) -> R,
    ) -> core::result::Result<R, LockError> {
        let range = LockRange::new(request.offset, request.length).map_err(|_| Nfsstat4::NFS4ERR_INVAL)?;
        self.state.with_client(client, request.reclaim, |client, held| {
            let place = self.lock_place(now, client, request)?;
            let mut files = self.state.files.lock(held, request.file);
            let file = files.get_mut(request.file).ok_or(Nfsstat4::NFS4ERR_BAD_STATEID)?;
            self.check_free(client, &place, file, range, request)?;
            let taken = self.state.opens.read(place.open, |open| take(&open.payload));
            taken.ok_or(Nfsstat4::NFS4ERR_BAD_STATEID.into())
        })
    }

    /// Remembers a client with a request that a local program's lock refuses, so that
    /// [`Locks::notify_waits`] reaches it. Returns whether the request waits and its client can be
    /// called back (RFC 8881 section 18.10.4).
    pub fn wait_for_program(&self, client: ClientKey, request: &Lock<'_, F>) -> bool {
        let Ok(range) = LockRange::new(request.offset, request.length) else { return false };
        let waits: Result<bool> = self.state.with_client(client, false, |client, held| {
            let place = self.resolve_locker(client.state, client.key, request)?;
            let mut files = self.state.files.lock(held, request.file);
            let file = files.get_mut(request.file).ok_or(Nfsstat4::NFS4ERR_BAD_STATEID)?;
            Ok(self.note_wait(client, &place, file, range, request))
        });
        waits.unwrap_or(false)
    }

    /// Queues CB_NOTIFY_LOCK for the clients that wait for a lock on a file and that no other
    /// client's lock holds up (RFC 8881 section 20.11).
    pub fn notify_waits(&self, file: &F, effects: &mut Effects<O>) {
        let held = &mut Held::nothing();
        if let Some(state) = self.state.files.lock(held, file).get_mut(file) {
            self.notify_lock_waits(state, effects);
        }
    }

    /// Returns the strongest lock of all clients on the bytes of a range of a file, in pieces that
    /// follow each other and cover it.
    pub fn locked_within(&self, file: &F, range: LockRange) -> Vec<(LockRange, Option<LockMode>)> {
        let held = &mut Held::nothing();
        let files = self.state.files.read(held, file);
        match files.get(file) {
            Some(file) => file.ranges.coverage(range),
            None => vec![(range, None)],
        }
    }

    /// Returns the first of these pieces, up to the end of the range or to where an owner has more
    /// than `max` locked ranges.
    pub fn locked_first(&self, file: &F, range: LockRange, max: usize) -> Vec<(LockRange, Option<LockMode>)> {
        let held = &mut Held::nothing();
        let files = self.state.files.read(held, file);
        match files.get(file) {
            Some(file) => file.ranges.coverage(file.ranges.part_with(range, max)),
            None => vec![(range, None)],
        }
    }

    /// Returns whether anybody has locked anything of a file.
    pub fn has_locks(&self, file: &F) -> bool {
        self.ranges_of(file) > 0
    }

    /// Returns the number of locked ranges of a file, of all owners.
    pub fn ranges_of(&self, file: &F) -> usize {
        let held = &mut Held::nothing();
        self.state.files.read(held, file).get(file).map_or(0, |file| file.ranges.len())
    }

    /// Returns the ranges that were unlocked or lost since the last call: if no client has locked
    /// them again, the server must unlock them in the kernel as well.
    pub fn take_unlocked(&self) -> Vec<(F, LockRange)> {
        std::mem::take(&mut *self.state.locks.unlocked.lock())
    }

    /// Notes that a range of a file was unlocked.
    pub(crate) fn note_unlocked(
        &self,
        _file: &FileState<F>,
        name: &F,
        range: LockRange,
        effects: &mut Effects<O>,
    ) {
        effects.unlocked = true;
        self.state.locks.unlocked.lock().push((name.clone(), range));
    }
}
