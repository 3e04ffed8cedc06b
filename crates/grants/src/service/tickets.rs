//! The tickets of grants: those that users forward, and those that nodes get.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

use gss::ForwardedTicket;

use super::refusals::{Answer, RefusedRequest};
use super::{GrantServiceInner, locked};
use crate::cache::TicketCache;
use crate::clock::unix_now;
use crate::mint::MintError;
use crate::names::node_of;
use crate::table::{Grant, GrantRecord, TicketSource};
use crate::wire::{GrantReply, to_hex};

/// Tickets that several nodes of a job can share.
pub(super) struct SharedTickets {
    pub(super) cache: TicketCache,
    made: u64,
}

impl SharedTickets {
    /// Returns whether other nodes get them at `now`: in the first quarter of their life, or of
    /// `life` in seconds if that is shorter. A forwarded ticket can end long before `life`.
    fn is_fresh(&self, now: u64, life: u64) -> bool {
        let life = life.min(self.cache.ends().saturating_sub(self.made));
        now.saturating_sub(self.made) * 4 < life
    }
}

/// Returns the ticket cache of a submission and the time until which it can be renewed.
pub(super) fn forwarded_ticket(
    forwarded: Option<ForwardedTicket>,
    peer: &str,
    now: u64,
    folder: &Path,
) -> Result<(Vec<u8>, u64), RefusedRequest> {
    let written = || {
        let folder = private::temporary_in("forwarded-", folder).ok()?;
        let file = folder.path().join("ticket");
        forwarded?.store(&format!("FILE:{}", file.display())).ok()?;
        fs::read(file).ok()
    };
    let cache = written().and_then(|bytes| TicketCache::parse(&bytes));
    let cache = cache.filter(|cache| cache.principal() == peer);
    let ticket = cache.as_ref().and_then(TicketCache::granting).filter(|ticket| ticket.ends > now);
    match (&cache, ticket) {
        (Some(cache), Some(ticket)) => {
            let only = TicketCache { tickets: vec![ticket.clone()], ..cache.clone() };
            Ok((only.encode(), ticket.renewable.max(ticket.ends)))
        }
        _ => Err(RefusedRequest::permanent(
            "the submission has no live ticket-granting ticket of its user: run `kinit -f -r 7d`",
        )),
    }
}

/// Returns whether less than half of the ticket's life is left, and it can be renewed further.
fn renewal_is_due(file: &Path, now: u64) -> bool {
    let cache = fs::read(file).ok().and_then(|bytes| TicketCache::parse(&bytes));
    cache.as_ref().and_then(TicketCache::granting).is_some_and(|ticket| {
        let (left, life) = (ticket.ends.saturating_sub(now), ticket.ends.saturating_sub(ticket.starts));
        left * 2 < life && ticket.renewable > ticket.ends
    })
}

impl GrantServiceInner {
    /// Returns the tickets of a job to one of its nodes.
    pub(super) fn tickets(&self, peer: &str, principal: &str, job: &str) -> Answer {
        let node = node_of(peer, &self.realm)
            .ok_or_else(|| RefusedRequest::permanent(format!("{peer} is no host of {}", self.realm)))?;
        let now = unix_now();
        let grant = locked(&self.durable).table.release(now, principal, job, node)?.clone();
        let key = (grant.principal.clone(), grant.job.clone());
        let fresh = |shared: &&SharedTickets| shared.is_fresh(now, self.settings.ticket_life);
        let shared = locked(&self.shared).get(&key).filter(fresh).map(|shared| shared.cache.clone());
        let cache = match shared {
            Some(cache) => cache,
            None => {
                let cache = self.mint(&grant, now)?;
                locked(&self.shared).insert(key.clone(), SharedTickets { cache: cache.clone(), made: now });
                cache
            }
        };
        // The grant may have ended while the KDC was asked.
        if let Err(refusal) = locked(&self.durable).table.release(now, principal, job, node) {
            locked(&self.shared).remove(&key);
            return Err(refusal.into());
        }
        tracing::info!("{node} gets tickets of {principal} for job {job} until {}", cache.ends());
        Ok(GrantReply::Tickets(to_hex(&cache.encode())))
    }

    /// Renews the ticket-granting tickets of grants with jobs that may not run yet.
    pub(super) fn renew(&self, now: u64) {
        let grants = locked(&self.durable).table.renewals();
        for grant in grants {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let file = locked(&self.durable).store.ticket(&GrantRecord::Grant(grant.clone()).key());
            if renewal_is_due(&file, now)
                && let Err(error) = self.mint(&grant, now)
            {
                tracing::warn!(
                    "the ticket of {} for job {} is not renewed: {error}",
                    grant.principal,
                    grant.job
                );
            }
        }
    }

    pub(super) fn mint(&self, grant: &Grant, now: u64) -> Result<TicketCache, MintError> {
        if grant.source != TicketSource::Delegation {
            let file = locked(&self.durable).store.ticket(&GrantRecord::Grant(grant.clone()).key());
            let renew = renewal_is_due(&file, now);
            return self.mint.with_ticket(&grant.principal, &self.realm, &grant.services, &file, renew);
        }
        let life = self.settings.ticket_life.min(grant.deadline.saturating_sub(now).max(1));
        self.mint.delegate(&grant.principal, &self.realm, &grant.services, life)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::tests::cache_of;

    #[test]
    fn tickets_that_end_soon_are_shared_for_a_quarter_of_their_own_life() {
        let shared = SharedTickets { cache: cache_of("alice", 1400), made: 1000 };
        let fresh = |now, life| shared.is_fresh(now, life);
        assert!(fresh(1000, 3600) && fresh(1099, 3600) && !fresh(1100, 3600), "they end in 400 s");
        assert!(fresh(1024, 100) && !fresh(1025, 100), "the service gives tickets of 100 s");
        assert!(!SharedTickets { cache: cache_of("alice", 900), made: 1000 }.is_fresh(1000, 3600));
    }
}
