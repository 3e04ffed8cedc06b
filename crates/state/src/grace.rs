//! The grace period and RECLAIM_COMPLETE (RFC 8881 sections 8.4.2 and 18.51).
//!
//! Only clients that were on stable storage at the start may reclaim, so a reclaim is never taken on trust. The record
//! of a client is made when it has said RECLAIM_COMPLETE, which it must before its first new open, and goes when the
//! client does: a client whose lease ran out, and whose locks others may have had since, finds itself refused after
//! the next restart (the edge conditions of section 8.4.3).
//!
//! Whether the period runs is one number that requests only read. Reclaims hold the registry, so that the period does
//! not end between the check and what is reclaimed.

use crate::clients::{Books, Client};
use crate::registry::Registry;
use crate::sessions::nanoseconds;
use crate::{ClientKey, Effect, Effects, Limits, Nfsstat4, Result, State};
use std::collections::BTreeSet;
use std::hash::Hash;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::time::Duration;

/// The owners that may reclaim.
pub(crate) fn waiting(prior_clients: Vec<Vec<u8>>) -> BTreeSet<Box<[u8]>> {
    prior_clients.into_iter().map(Vec::into_boxed_slice).collect()
}

/// When a grace period that begins now ends, in nanoseconds.
pub(crate) fn deadline(now: Duration, limits: &Limits) -> u64 {
    // Zero means that there is none.
    nanoseconds(now.saturating_add(limits.grace)).max(1)
}

impl<F: Clone + Eq + Hash, O> State<F, O> {
    /// Tells whether the grace period runs: what may conflict with state yet to be reclaimed answers NFS4ERR_GRACE.
    pub fn in_grace(&self, now: Duration) -> bool {
        nanoseconds(now) < self.grace_until.load(Acquire)
    }

    pub(crate) fn grace_deadline(&self) -> Option<Duration> {
        match self.grace_until.load(Acquire) {
            0 => None,
            until => Some(Duration::from_nanos(until)),
        }
    }

    /// Handles RECLAIM_COMPLETE. For one file system it changes nothing, since none ever moves here.
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
        let mut registry = self.registry();
        let enrolled = registry.client_mut(client)?;
        if one_fs {
            return Ok(());
        }
        let complete = std::mem::replace(&mut enrolled.record.books()?.reclaim_complete, true);
        if complete {
            return Err(Nfsstat4::NFS4ERR_COMPLETE_ALREADY);
        }
        enrolled.recorded = true;
        let owner = enrolled.record.owner.clone();
        // Before the end of the grace period, which would otherwise forget the client.
        registry.push(Effect::RecordClient { owner: owner.to_vec() }, effects);
        self.reclaimed(&mut registry, &owner, effects);
        self.end_grace_if_over(Some(&mut registry), now, effects);
        Ok(())
    }

    /// Checks an operation that obtains state: a new one waits for the grace period to end and for the client's own
    /// RECLAIM_COMPLETE, a reclaiming one is for recorded clients in the grace period, under the registry.
    pub(crate) fn check_grace(
        &self,
        now: Duration,
        client: &Client,
        books: &Books,
        reclaim: Option<&Registry>,
    ) -> Result<()> {
        match reclaim {
            None if self.in_grace(now) || !books.reclaim_complete => Err(Nfsstat4::NFS4ERR_GRACE),
            None => Ok(()),
            Some(_) if books.reclaim_complete || !self.in_grace(now) => Err(Nfsstat4::NFS4ERR_NO_GRACE),
            Some(registry) if registry.waiting.contains(&*client.owner) => Ok(()),
            Some(_) => Err(Nfsstat4::NFS4ERR_RECLAIM_BAD),
        }
    }

    /// Notes that an owner has nothing more to reclaim; with the last one the grace period ends.
    pub(crate) fn reclaimed(&self, registry: &mut Registry, owner: &[u8], effects: &mut Effects<O>) {
        if registry.waiting.remove(owner)
            && registry.waiting.is_empty()
            && self.grace_until.swap(0, AcqRel) != 0
        {
            registry.push(Effect::GraceEnded, effects);
        }
    }

    /// Ends the grace period when its time is over. Who has not come back by then has lost the right to reclaim.
    pub(crate) fn end_grace_if_over(
        &self,
        registry: Option<&mut Registry>,
        now: Duration,
        effects: &mut Effects<O>,
    ) {
        if self.grace_deadline().is_none_or(|until| now < until) {
            return;
        }
        match registry {
            Some(registry) => self.end_grace(registry, effects),
            None => self.end_grace(&mut self.registry(), effects),
        }
    }

    fn end_grace(&self, registry: &mut Registry, effects: &mut Effects<O>) {
        if self.grace_until.swap(0, AcqRel) == 0 {
            return; // Another thread was faster.
        }
        for owner in std::mem::take(&mut registry.waiting) {
            // A client that has reclaimed something holds state and stays recorded.
            let key = registry.confirmed.get(&*owner).copied();
            let client = key.and_then(|key| registry.clients.get_mut(&key));
            if client.as_ref().is_some_and(|client| client.record.holds_state()) {
                continue;
            }
            if let Some(client) = client {
                client.recorded = false;
            }
            registry.push(Effect::ForgetClient { owner: owner.into_vec() }, effects);
        }
        registry.push(Effect::GraceEnded, effects);
    }
}
