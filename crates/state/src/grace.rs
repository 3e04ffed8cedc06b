//! The grace period and RECLAIM_COMPLETE (RFC 8881 sections 8.4.2 and 18.51).
//!
//! Only clients that were on stable storage at the start may reclaim, so a reclaim is never taken on trust. The record
//! of a client is made when it has said RECLAIM_COMPLETE, which it must before its first new open, and goes when the
//! client does: a client whose lease ran out, and whose locks others may have had since, finds itself refused after
//! the next restart (the edge conditions of section 8.4.3).

use crate::{ClientKey, Effect, Nfsstat4, Result, State};
use std::collections::BTreeSet;
use std::hash::Hash;
use std::time::Duration;

/// Who may still reclaim, and until when.
#[derive(Debug)]
pub(crate) struct Grace {
    until: Option<Duration>,
    waiting: BTreeSet<Box<[u8]>>,
}

impl Grace {
    pub(crate) fn new(prior_clients: Vec<Vec<u8>>, until: Duration) -> Self {
        let waiting: BTreeSet<Box<[u8]>> = prior_clients.into_iter().map(Vec::into_boxed_slice).collect();
        Self { until: (!waiting.is_empty()).then_some(until), waiting }
    }

    /// Tells whether the owner was recorded before the restart and has not finished reclaiming.
    pub(crate) fn waits_for(&self, owner: &[u8]) -> bool {
        self.waiting.contains(owner)
    }

    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.until
    }
}

impl<F: Clone + Eq + Hash, O: Clone> State<F, O> {
    /// Tells whether the grace period runs: what may conflict with state yet to be reclaimed answers NFS4ERR_GRACE.
    pub fn in_grace(&self, now: Duration) -> bool {
        self.grace.until.is_some_and(|until| now < until)
    }

    /// Handles RECLAIM_COMPLETE. For one file system it changes nothing, since none ever moves here.
    ///
    /// # Errors
    /// NFS4ERR_COMPLETE_ALREADY, NFS4ERR_DEADSESSION.
    pub fn reclaim_complete(&mut self, now: Duration, client: ClientKey, one_fs: bool) -> Result<()> {
        let record = self.client_mut(client)?;
        if one_fs {
            return Ok(());
        }
        if record.reclaim_complete {
            return Err(Nfsstat4::NFS4ERR_COMPLETE_ALREADY);
        }
        record.reclaim_complete = true;
        record.recorded = true;
        let owner = record.owner.clone();
        // Before the end of the grace period, which would otherwise forget the client.
        self.effects.push(Effect::RecordClient { owner: owner.to_vec() });
        self.reclaimed(&owner);
        self.end_grace_if_over(now);
        Ok(())
    }

    /// Checks an operation that obtains state: a new one waits for the grace period to end and for the client's own
    /// RECLAIM_COMPLETE, a reclaiming one is for recorded clients in the grace period.
    pub(crate) fn check_grace(&self, now: Duration, client: ClientKey, reclaim: bool) -> Result<()> {
        let record = self.client(client)?;
        match reclaim {
            false if self.in_grace(now) || !record.reclaim_complete => Err(Nfsstat4::NFS4ERR_GRACE),
            false => Ok(()),
            true if record.reclaim_complete || !self.in_grace(now) => Err(Nfsstat4::NFS4ERR_NO_GRACE),
            true if self.grace.waits_for(&record.owner) => Ok(()),
            true => Err(Nfsstat4::NFS4ERR_RECLAIM_BAD),
        }
    }

    /// Notes that an owner has nothing more to reclaim; with the last one the grace period ends.
    pub(crate) fn reclaimed(&mut self, owner: &[u8]) {
        if self.grace.waiting.remove(owner)
            && self.grace.waiting.is_empty()
            && self.grace.until.take().is_some()
        {
            self.effects.push(Effect::GraceEnded);
        }
    }

    /// Ends the grace period when its time is over. Who has not come back by then has lost the right to reclaim.
    pub(crate) fn end_grace_if_over(&mut self, now: Duration) {
        if self.grace.until.is_none_or(|until| now < until) {
            return;
        }
        self.grace.until = None;
        for owner in std::mem::take(&mut self.grace.waiting) {
            // A client that has reclaimed something holds state and stays recorded.
            let key = self.confirmed.get(&*owner).copied();
            let holds =
                key.and_then(|key| self.clients.get(key.0)).is_some_and(|client| client.holds_state());
            if !holds {
                if let Some(client) = key.and_then(|key| self.clients.get_mut(key.0)) {
                    client.recorded = false;
                }
                self.effects.push(Effect::ForgetClient { owner: owner.into_vec() });
            }
        }
        self.effects.push(Effect::GraceEnded);
    }
}
