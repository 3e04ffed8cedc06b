//! Conflicts with delegations: recall, and revocation of delegations that are not returned (RFC
//! 8881 sections 10.4.5 and 10.4.6).

use crate::Delegations;
use crate::clients::{Client, ClientState};
use crate::delegations::{
    Delegation, DelegationKey, DelegationMode, DelegationPhase, ReferringCall, recall_any,
};
use crate::files::FileState;
use crate::order::{Held, NothingHeld};
use crate::sessions::nanoseconds;
use crate::slab::SlabKey;
use crate::stateids::StateRef;
use crate::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Relaxed},
};
use crate::{CallbackTask, ClientKey, Effects, Nfsstat4, Result, Stateid4};
use nfs4::SEQ4_STATUS_RECALLABLE_STATE_REVOKED;
use std::hash::Hash;
use std::time::Duration;

/// How long a file counts as contended after a delegation of it had to be recalled: none is granted
/// meanwhile.
const CONTENTION_TIME: Duration = Duration::from_secs(30);
/// Places of the table of contended files.
const CONTENTION_PLACES: usize = if cfg!(feature = "shuttle") { 16 } else { 4096 };

/// When delegations of files had to be recalled last. Files may share a place: then one of them
/// gets no delegation for a while.
#[derive(Debug)]
pub(crate) struct Contention(Box<[AtomicU64]>);

impl Contention {
    pub(crate) fn new() -> Self {
        Self((0..CONTENTION_PLACES).map(|_| AtomicU64::new(0)).collect())
    }

    /// Returns the places of recently contended files.
    pub(super) fn image(&self) -> Vec<(u32, u64)> {
        let Self(places) = self;
        let places = (0..).zip(places.iter().map(|place| place.load(Relaxed)));
        places.filter(|(_, last)| *last != 0).collect()
    }

    /// Restores the places that there are in this version: it is a hint.
    pub(super) fn restore(image: &[(u32, u64)]) -> Self {
        let contention = Self::new();
        for (number, last) in image {
            if let Some(place) = contention.0.get(*number as usize) {
                place.store(*last, Relaxed);
            }
        }
        contention
    }

    fn place(&self, hash: u64) -> Option<&AtomicU64> {
        self.0.get((hash >> 16) as usize % CONTENTION_PLACES)
    }

    fn note(&self, hash: u64, now: Duration) {
        if let Some(place) = self.place(hash) {
            // Zero means never.
            place.store(nanoseconds(now).max(1), Relaxed);
        }
    }

    pub(crate) fn is_recent(&self, hash: u64, now: Duration) -> bool {
        let last = self.place(hash).map_or(0, |place| place.load(Relaxed));
        last != 0 && now < Duration::from_nanos(last).saturating_add(CONTENTION_TIME)
    }
}

/// The arguments of CB_RECALL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recall<F> {
    /// The stateid of the delegation.
    pub stateid: Stateid4,
    /// The file of the delegation.
    pub file: F,
    /// The request that it was granted to.
    pub granted: Option<ReferringCall>,
}

/// The use of a file by an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileUse {
    /// A change of data or attributes, which conflicts with all delegations of others.
    Change,
    /// A query, which conflicts with the write delegations of others.
    Query,
}

impl<F: Clone + Eq + Hash, O> Delegations<'_, F, O> {
    /// Returns whether there are any delegations, so that an operation may need to find out which
    /// file it is about.
    pub fn has_delegations(&self) -> bool {
        self.state.delegations.count.load(Relaxed) > 0
    }

    /// Recalls the delegations that conflict with the use of a file by a client.
    ///
    /// # Errors
    /// NFS4ERR_DELAY until they are returned.
    pub(crate) fn check_delegations(
        &self,
        now: Duration,
        client: ClientKey,
        name: &F,
        file: &FileState<F>,
        file_use: FileUse,
        effects: &mut Effects<O>,
    ) -> Result<()> {
        let own = (client, (self.state.view)(name));
        let others = file.delegations.iter().filter(|(holder, _)| **holder != own);
        let mut against = others
            .filter(|(_, held)| file_use == FileUse::Change || held.mode == DelegationMode::Write)
            .peekable();
        if against.peek().is_none() {
            return Ok(());
        }
        self.state.delegations.contention.note(self.state.files.hash(name), now);
        let until = now.saturating_add(self.state.limits.recall_time);
        for ((holder, _), held) in against {
            self.begin_recall(file, *holder, held.key, until, effects);
        }
        Err(Nfsstat4::NFS4ERR_DELAY)
    }

    /// Recalls a delegation of a file. It is revoked at the deadline, if not earlier.
    fn begin_recall(
        &self,
        _file: &FileState<F>,
        client: ClientKey,
        key: SlabKey,
        until: Duration,
        effects: &mut Effects<O>,
    ) {
        let before = self.state.delegations.table.write(key, |delegation| {
            let before = delegation.phase;
            match &mut delegation.phase {
                DelegationPhase::Held => {
                    delegation.phase = DelegationPhase::Recalled { until, answered: false }
                }
                DelegationPhase::Recalled { until: earlier, .. } => *earlier = until.min(*earlier),
                DelegationPhase::Revoked => {}
            }
            before
        });
        match before {
            Some(DelegationPhase::Held) => {
                self.state.delegations.totals.recalled.fetch_add(1, Relaxed);
                self.state.delegations.recalls().insert((until, key));
                let delegation = DelegationKey(key);
                effects.callbacks.push(CallbackTask::Recall { client, delegation });
            }
            Some(DelegationPhase::Recalled { until: before, .. }) if until < before => {
                let mut recalls = self.state.delegations.recalls();
                recalls.remove(&(before, key));
                recalls.insert((until, key));
            }
            _ => {}
        }
    }

    /// Recalls all delegations of a file on behalf of a local program; those that are not returned
    /// within that time are revoked. The file gets no new delegation for a while.
    pub fn recall_all(&self, now: Duration, file: &F, within: Duration, effects: &mut Effects<O>) {
        let held = &mut Held::nothing();
        let files = self.state.files.lock(held, file);
        let Some(state) = files.get(file).filter(|state| !state.delegations.is_empty()) else { return };
        self.state.delegations.contention.note(self.state.files.hash(file), now);
        let until = now.saturating_add(self.state.limits.recall_time.min(within));
        for ((holder, _), held) in &state.delegations {
            self.begin_recall(state, *holder, held.key, until, effects);
        }
    }

    /// Passes the payload of the client's own write delegation on a file to `take` and returns the
    /// result, if it has one. While there are none this costs one load.
    pub fn own_writer<R>(&self, client: ClientKey, file: &F, take: impl FnOnce(&O) -> R) -> Option<R> {
        if self.state.delegations.writers.load(Relaxed) == 0 {
            return None;
        }
        self.own(client, file, DelegationMode::Write, take)
    }

    /// Passes the payload of the client's own delegation on a file to `take` and returns the
    /// result, if it has one that allows at least as much as `least`.
    pub(crate) fn own<R>(
        &self,
        client: ClientKey,
        file: &F,
        least: DelegationMode,
        take: impl FnOnce(&O) -> R,
    ) -> Option<R> {
        let own = (client, (self.state.view)(file));
        let lock = &mut Held::nothing();
        let held = self.state.files.read(lock, file).get(file)?.delegations.get(&own).copied()?;
        let payload = |delegation: &Delegation<F, O>| delegation.payload.as_ref().map(take);
        (held.mode >= least).then(|| self.state.delegations.table.read(held.key, payload).flatten())?
    }

    /// Begins a change of a file other than by an open for writing: of its attributes, names, or
    /// data with a special stateid. Until [`crate::Delegations::end_change`] the file gets no
    /// delegation.
    ///
    /// # Errors
    /// NFS4ERR_DELAY while others have delegations: they are recalled.
    pub fn begin_change(
        &self,
        now: Duration,
        client: ClientKey,
        file: &F,
        effects: &mut Effects<O>,
    ) -> Result<()> {
        let held = &mut Held::nothing();
        let mut files = self.state.files.lock(held, file);
        if let Some(state) = files.get(file) {
            self.check_delegations(now, client, file, state, FileUse::Change, effects)?;
        }
        files.entry(file.clone()).or_default().changing += 1;
        Ok(())
    }

    /// Begins a change again that had begun before the state was restored from an image.
    pub fn resume_change(&self, file: &F) {
        let held = &mut Held::nothing();
        self.state.files.lock(held, file).entry(file.clone()).or_default().changing += 1;
    }

    /// Ends a change that [`crate::Delegations::begin_change`] has begun.
    pub fn end_change(&self, file: &F) {
        let held = &mut Held::nothing();
        let mut files = self.state.files.lock(held, file);
        if let Some(state) = files.get_mut(file) {
            state.changing = state.changing.saturating_sub(1);
            if state.is_idle() {
                files.remove(file);
            }
        }
    }

    /// Checks an operation that looks at a file's data or attributes without an open: a holder of a
    /// delegation for writing may have changed them. Costs the look at one number while there is
    /// none.
    ///
    /// # Errors
    /// NFS4ERR_DELAY while others have such a delegation: it is recalled.
    pub fn check_unopened_read(
        &self,
        now: Duration,
        client: ClientKey,
        file: &F,
        effects: &mut Effects<O>,
    ) -> Result<()> {
        if self.state.delegations.writers.load(Relaxed) == 0 {
            return Ok(());
        }
        let held = &mut Held::nothing();
        match self.state.files.read(held, file).get(file) {
            Some(state) => self.check_delegations(now, client, file, state, FileUse::Query, effects),
            None => Ok(()),
        }
    }

    /// Returns the arguments of CB_RECALL; `None` when it is no longer needed.
    pub fn recall(&self, delegation: DelegationKey) -> Option<Recall<F>> {
        let stateid = self.state.stateid(StateRef::Delegation(delegation.0), 1);
        let say = |delegation: &Delegation<F, O>| match delegation.phase {
            DelegationPhase::Recalled { answered: false, .. } => {
                Some(Recall { stateid, file: delegation.file.clone(), granted: delegation.granted })
            }
            _ => None,
        };
        self.state.delegations.table.read(delegation.0, say).flatten()
    }

    /// Notes that the client has taken a recall: it is not said again.
    pub fn recall_answered(&self, delegation: DelegationKey) {
        self.state.delegations.table.write(delegation.0, |delegation| {
            if let DelegationPhase::Recalled { answered, .. } = &mut delegation.phase {
                *answered = true;
            }
        });
    }

    /// Returns the recalls that no client has taken yet.
    pub fn unanswered_recalls(&self) -> Vec<CallbackTask> {
        let keys: Vec<SlabKey> = self.state.delegations.recalls().iter().map(|(_, key)| *key).collect();
        let task = |key: SlabKey| {
            self.state.delegations.table.read(key, |found| match found.phase {
                DelegationPhase::Recalled { answered: false, .. } => {
                    Some(CallbackTask::Recall { client: found.client, delegation: DelegationKey(key) })
                }
                _ => None,
            })
        };
        keys.into_iter().filter_map(|key| task(key).flatten()).collect()
    }

    /// Revokes the delegations that were not given back in time, and returns how many.
    pub(crate) fn revoke_overdue(
        &self,
        held: &mut Held<NothingHeld>,
        now: Duration,
        effects: &mut Effects<O>,
    ) -> usize {
        let overdue = self.take_overdue(now);
        let revoked = overdue.into_iter().filter(|key| self.revoke(held, *key, effects)).count();
        self.state.delegations.totals.revoked.fetch_add(revoked as u64, Relaxed);
        revoked
    }

    /// Takes the entries that are overdue. One may be stale: threads that recall a delegation at
    /// once enter it in any order, and only the earlier entry goes with the delegation.
    fn take_overdue(&self, now: Duration) -> Vec<SlabKey> {
        let mut recalls = self.state.delegations.recalls();
        let later = recalls.split_off(&(now.saturating_add(Duration::from_nanos(1)), SlabKey::MIN));
        std::mem::replace(&mut *recalls, later).into_iter().map(|(_, key)| key).collect()
    }

    fn revoke(&self, held: &mut Held<NothingHeld>, key: SlabKey, effects: &mut Effects<O>) -> bool {
        let holder = self.state.delegations.table.read(key, |delegation| delegation.client);
        let found = holder.and_then(|holder| Some((holder, self.state.client(holder).ok()?)));
        let Some((holder, record)) = found else { return false };
        let mut registry = self.state.registry(held);
        let (registry, held) = registry.split();
        let mut client_state = record.lock_any(held);
        let is_recalled =
            |delegation: &Delegation<F, O>| matches!(delegation.phase, DelegationPhase::Recalled { .. });
        if self.state.delegations.table.read(key, is_recalled) != Some(true) {
            return false; // It came back at the last moment, or the entry is stale.
        }
        // Before the conflict ends, so that its outcome and the count agree for every observer.
        self.state.leases().forget_until_freed(registry, holder, effects);
        self.note_revoked(&record, &mut client_state);
        self.take_delegation(client_state.below(), key);
        let payload = self.state.delegations.table.write(key, |delegation| delegation.payload.take());
        effects.closed.extend(payload.flatten());
        true
    }

    /// Counts a revoked delegation of a client, and says in SEQUENCE that there is one.
    fn note_revoked(&self, record: &Client, client_state: &mut ClientState) {
        client_state.revoked += 1;
        record.status.fetch_or(SEQ4_STATUS_RECALLABLE_STATE_REVOKED, AcqRel);
    }

    /// Counts a revoked delegation less, and says nothing in SEQUENCE after the last one.
    pub(crate) fn note_freed(&self, record: &Client, client_state: &mut ClientState) {
        client_state.revoked = client_state.revoked.saturating_sub(1);
        if client_state.revoked == 0 {
            record.status.fetch_and(!SEQ4_STATUS_RECALLABLE_STATE_REVOKED, AcqRel);
        }
    }

    /// Asks the clients with the most delegations for some back while nearly all are out.
    pub(crate) fn shed_delegations(
        &self,
        held: &mut Held<NothingHeld>,
        now: Duration,
        effects: &mut Effects<O>,
    ) {
        let max = self.state.limits.delegations_max;
        if self.state.delegations.count.load(Relaxed) < max - max / 8 {
            return;
        }
        let mut registry = self.state.registry(held);
        let (registry, held) = registry.split();
        let fair = max / registry.clients.len().max(1) / 2;
        for (key, client) in &registry.clients {
            let mut client_state = client.record.lock_any(held);
            if client_state.delegations.len() > fair {
                recall_any(&mut client_state, *key, fair, now, effects);
            }
        }
    }
}
