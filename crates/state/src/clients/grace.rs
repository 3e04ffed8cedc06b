//! The grace period and RECLAIM_COMPLETE (RFC 8881 sections 8.4.2 and 18.51).
//!
//! Only clients with a record on stable storage at the start may reclaim, so a reclaim is never
//! taken on trust. The record of a client is made at its RECLAIM_COMPLETE, which must precede its
//! first new open, and it is removed with the client. After the next restart the server therefore
//! refuses a client with an expired lease, because others may have had its locks since (the edge
//! conditions of section 8.4.3). It also refuses a client with revoked stateids that it has not
//! freed.
//!
//! The record names the creator of the client, and only the same creator may reclaim (see
//! `creator`). Names are free, so a stranger may use the owner's name, but does not count as the
//! client. Its RECLAIM_COMPLETE neither ends the grace period nor replaces the record, and the
//! client gets its name back when it comes.
//!
//! The end of the period is one number that requests only read. Reclaims hold the registry, so that
//! the period does not end between the check and the reclaim.
//!
//! Several servers over one file system share a grace period: while clients of one reclaim, the
//! others grant no new state for its files either. Their caller says when
//! ([`Leases::enforce_grace`]).

pub(crate) mod image;

use crate::Leases;
use crate::clients::LockedClient;
use crate::clients::registry::{Registry, RegistryGuard, Waiting};
use crate::order::{Held, NothingHeld};
use crate::sessions::nanoseconds;
use crate::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{AcqRel, Acquire, Release, SeqCst},
};
use crate::{ClientKey, Effect, Effects, Limits, Nfsstat4, PriorClient, Result};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

/// The longest pause between two reclaims for which the grace period goes on beyond its time, up to
/// twice its length.
const RECLAIM_PAUSE_MAX: Duration = Duration::from_secs(5);

/// The owners that may reclaim.
pub(crate) fn waiting(prior_clients: Vec<PriorClient>) -> Waiting {
    prior_clients.into_iter().map(|client| (client.owner.into_boxed_slice(), client.principal)).collect()
}

/// When the grace period ends; requests only read it.
#[derive(Debug)]
pub(crate) struct Grace {
    /// Nanoseconds; zero when there is no grace period. It changes under the registry only.
    until: AtomicU64,
    /// Nanoseconds beyond which reclaims do not extend it.
    latest: u64,
    /// Whether no new state is granted for shared files, since clients of another server reclaim.
    enforced: AtomicBool,
}

impl Grace {
    /// Begins the grace period if there are clients that may reclaim.
    pub(crate) fn new(begins: bool, now: Duration, limits: &Limits) -> Self {
        let enforced = AtomicBool::new(false);
        if !begins {
            return Self { until: AtomicU64::new(0), latest: 0, enforced };
        }
        let after = |grace| nanoseconds(now.saturating_add(grace));
        // Zero means that there is none.
        let until = AtomicU64::new(after(limits.grace).max(1));
        Self { until, latest: after(limits.grace.saturating_mul(2)), enforced }
    }
}

impl<F: Clone + Eq + Hash, O> Leases<'_, F, O> {
    /// Returns whether clients of this server may reclaim: operations that may conflict with
    /// unreclaimed state then answer NFS4ERR_GRACE. The period lasts until a SEQUENCE or
    /// housekeeping ends it, since the right to reclaim has to end first.
    pub fn in_grace(&self) -> bool {
        self.grace_deadline().is_some()
    }

    /// Returns whether new state is refused because clients of another server reclaim.
    pub fn is_enforced(&self) -> bool {
        self.state.grace.enforced.load(Acquire)
    }

    /// Refuses new state for shared files until [`Leases::relax_grace`], since clients of another
    /// server reclaim. When this returns, no request grants any more.
    pub fn enforce_grace(&self) {
        self.state.grace.enforced.store(true, SeqCst);
        // Requests check and grant under the lock of their client.
        let held = &mut Held::nothing();
        let mut registry = self.state.registry(held);
        let (registry, held) = registry.split();
        registry.clients.values().for_each(|client| drop(client.record.lock_any(held)));
    }

    /// Grants new state for shared files again.
    pub fn relax_grace(&self) {
        self.state.grace.enforced.store(false, Release);
    }

    /// Ends the grace period of this server's clients before its time: those that have not
    /// reclaimed lose the right to.
    pub fn give_up_grace(&self, effects: &mut Effects<O>) {
        self.end_grace(&mut self.state.registry(&mut Held::nothing()), effects);
    }

    /// Returns whether new state is refused, for a file that is shared or not.
    pub fn refuses_new(&self, shared: bool) -> bool {
        self.in_grace() || shared && self.state.grace.enforced.load(SeqCst)
    }

    pub(crate) fn grace_deadline(&self) -> Option<Duration> {
        match self.state.grace.until.load(Acquire) {
            0 => None,
            until => Some(Duration::from_nanos(until)),
        }
    }

    /// Handles RECLAIM_COMPLETE. For one file system it changes nothing, since none ever moves
    /// here.
    ///
    /// # Errors
    /// NFS4ERR_COMPLETE_ALREADY, NFS4ERR_DEADSESSION.
    pub fn reclaim_complete(
        &self,
        now: Duration,
        client: ClientKey,
        one_fs: bool,
        effects: &mut Effects<O>,
    ) -> Result<()> {
        let held = &mut Held::nothing();
        let mut guard = self.state.registry(held);
        let (registry, held) = guard.split();
        let enrolled = registry.client_mut(client)?;
        if one_fs {
            return Ok(());
        }
        let record = Arc::clone(&enrolled.record);
        let mut client_state = record.lock(held)?;
        if std::mem::replace(&mut client_state.reclaim_complete, true) {
            return Err(Nfsstat4::NFS4ERR_COMPLETE_ALREADY);
        }
        if client_state.reclaim_refused {
            client_state.reopens_until = now.saturating_add(self.state.limits.lease);
        }
        // An impostor is recorded when the grace period ends and its owner's client has not come.
        let is_impostor = registry.is_impostor(&record);
        if !is_impostor {
            // Before the end of the grace period, which would otherwise forget the client. Grants
            // on other slots wait for the ticket, so it exists before they are possible.
            self.record_client(registry, client, effects);
        }
        drop(client_state);
        if !is_impostor {
            self.reclaimed(registry, &record.owner, effects);
        }
        self.end_grace_if_over(&mut guard, now, effects);
        Ok(())
    }

    /// Puts a client on stable storage, unless it might reclaim revoked state.
    pub(crate) fn record_client(&self, registry: &mut Registry, client: ClientKey, effects: &mut Effects<O>) {
        let Ok(enrolled) = registry.client_mut(client) else { return };
        if !enrolled.recorded && enrolled.record.has_revoked() {
            return; // Its last FREE_STATEID does this.
        }
        enrolled.recorded = true;
        let record = Arc::clone(&enrolled.record);
        let (owner, principal) = (record.owner.to_vec(), record.creator.hash);
        let ticket = self.state.queue(registry, Effect::RecordClient { owner, principal }, effects);
        record.put.store(ticket.puts, Release);
        if let Some(v40) = &record.v40 {
            v40.recorded.store(true, Release);
        }
    }

    /// Puts a client on stable storage again that has freed its last revoked stateid.
    pub(crate) fn record_again(
        &self,
        held: &mut Held<NothingHeld>,
        client: ClientKey,
        effects: &mut Effects<O>,
    ) {
        let mut guard = self.state.registry(held);
        let (registry, held) = guard.split();
        let Ok(enrolled) = registry.client(client) else { return };
        if !enrolled.recorded && enrolled.record.lock_any(held).reclaim_complete {
            self.record_client(registry, client, effects);
        }
    }

    /// Takes a client off stable storage that is about to lose a part of its state by revocation,
    /// and ends its right to reclaim. The part may be free for others only after the call.
    pub(crate) fn forget_until_freed(
        &self,
        registry: &mut Registry,
        client: ClientKey,
        effects: &mut Effects<O>,
    ) {
        let Ok(enrolled) = registry.client_mut(client) else { return };
        let was_recorded = std::mem::take(&mut enrolled.recorded);
        let record = Arc::clone(&enrolled.record);
        if let Some(v40) = &record.v40 {
            v40.recorded.store(false, Release);
        }
        if was_recorded || registry.may_reclaim(&record) {
            self.state.forget_holder(registry, &record.owner, effects);
            self.reclaimed(registry, &record.owner, effects);
        }
    }

    /// Checks an operation that obtains state: a new one waits for the grace period to end and for
    /// the client's own RECLAIM_COMPLETE, a reclaiming one is for recorded clients in the grace
    /// period, under the registry. Another's client of the same owner has nothing to reclaim:
    /// NFS4ERR_NO_GRACE.
    pub(crate) fn check_grace(
        &self,
        now: Duration,
        client: &mut LockedClient<'_>,
        shared: bool,
    ) -> Result<()> {
        if let Some(registry) = client.registry {
            let checked = self.check_reclaim(now, client, registry);
            client.state.reclaim_refused |= checked.is_err();
            return checked;
        }
        // NFSv4.0 has no RECLAIM_COMPLETE.
        let reclaims = !client.state.reclaim_complete && client.record.v40.is_none();
        if reclaims || self.refuses_new(shared) { Err(Nfsstat4::NFS4ERR_GRACE) } else { Ok(()) }
    }

    fn check_reclaim(&self, now: Duration, client: &LockedClient<'_>, registry: &Registry) -> Result<()> {
        if client.state.reclaim_complete || !self.in_grace() || registry.is_impostor(client.record) {
            return Err(Nfsstat4::NFS4ERR_NO_GRACE);
        }
        if !registry.may_reclaim(client.record) {
            return Err(Nfsstat4::NFS4ERR_RECLAIM_BAD);
        }
        self.extend_grace(registry, now);
        Ok(())
    }

    /// Extends the grace period for clients that are still reclaiming: with many clients some come
    /// late.
    fn extend_grace(&self, _registry: &Registry, now: Duration) {
        let until = nanoseconds(now.saturating_add(RECLAIM_PAUSE_MAX)).min(self.state.grace.latest);
        if until > self.state.grace.until.load(Acquire) {
            self.state.grace.until.store(until, Release);
        }
    }

    /// Notes that an owner has nothing more to reclaim; with the last one the grace period ends.
    pub(crate) fn reclaimed(&self, registry: &mut Registry, owner: &[u8], effects: &mut Effects<O>) {
        if registry.waiting.remove(owner).is_some()
            && registry.waiting.is_empty()
            && self.state.grace.until.swap(0, AcqRel) != 0
        {
            self.state.queue(registry, Effect::GraceEnded, effects);
        }
    }

    /// Ends the grace period when its time is over. Clients that have not come back by then lose
    /// the right to reclaim.
    pub(crate) fn end_grace_if_over(
        &self,
        registry: &mut RegistryGuard<'_>,
        now: Duration,
        effects: &mut Effects<O>,
    ) {
        if self.grace_is_over(now) {
            self.end_grace(registry, effects);
        }
    }

    /// As [`Leases::end_grace_if_over`], and locks the registry only if it is over.
    pub(crate) fn end_grace_in_time(
        &self,
        held: &mut Held<NothingHeld>,
        now: Duration,
        effects: &mut Effects<O>,
    ) {
        if self.grace_is_over(now) {
            self.end_grace(&mut self.state.registry(held), effects);
        }
    }

    /// Ends the grace period when its time is over. NFSv4.0 calls this before each COMPOUND, as
    /// SEQUENCE does.
    pub fn end_grace_if_due(&self, now: Duration, effects: &mut Effects<O>) {
        self.end_grace_in_time(&mut Held::nothing(), now, effects);
    }

    fn grace_is_over(&self, now: Duration) -> bool {
        self.grace_deadline().is_some_and(|until| now >= until)
    }

    fn end_grace(&self, registry: &mut RegistryGuard<'_>, effects: &mut Effects<O>) {
        if self.state.grace.until.load(Acquire) == 0 {
            return; // Another thread was faster.
        }
        let (registry, held) = registry.split();
        for (owner, creator) in std::mem::take(&mut registry.waiting) {
            let key = registry.confirmed.get(&*owner).copied();
            let client = key.and_then(|key| Some((key, registry.clients.get_mut(&key)?)));
            if let Some((key, client)) = client {
                let record = Arc::clone(&client.record);
                let own = creator.is_none_or(|creator| creator == record.creator.hash);
                // A client that has reclaimed a part may not have the rest after the next restart:
                // others can get it from now on. With RECLAIM_COMPLETE, which NFSv4.0 does not
                // have, the client is recorded again.
                if own && record.v40.is_some() && record.holds_state(held) {
                    continue;
                }
                client.recorded = false;
                if let Some(v40) = &record.v40 {
                    v40.recorded.store(false, Release);
                }
                // An impostor that has completed its reclaims is the owner's client from now on.
                if !own && record.lock_any(held).reclaim_complete {
                    self.record_client(registry, key, effects);
                    continue;
                }
            }
            self.state.forget_holder(registry, &owner, effects);
        }
        // The state of the clients above is free from now on.
        self.state.grace.until.store(0, Release);
        self.state.queue(registry, Effect::GraceEnded, effects);
    }
}
