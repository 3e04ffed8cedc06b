//! The changes of client records on their way to stable storage (RFC 8881 section 8.4.3).
//!
//! Each change has a number, in the order of the queue. A reply that depends on changes knows their
//! numbers, so it waits for these and not for later ones, and all replies with numbers up to that
//! of a sync are free at once. Records that are put and records that are removed count apart: a
//! removal takes no space, so it can be stable while a full disk keeps earlier puts waiting.

use crate::clients::registry::Registry;
use crate::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Release},
};
use crate::{ClientKey, Effect, Effects, State};
use std::hash::Hash;

/// Numbers of changes of client records: the newest one of each kind that something depends on. 0
/// stands for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordTickets {
    /// The number of the last [`Effect::RecordClient`].
    pub puts: u64,
    /// The number of the last [`Effect::ForgetClient`] or [`Effect::GraceEnded`].
    pub removals: u64,
}

impl RecordTickets {
    /// Returns the tickets of everything that depends on one or the other.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { puts: self.puts.max(other.puts), removals: self.removals.max(other.removals) }
    }

    /// Returns whether nothing is waited for.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// The changes that are queued, and those that are on stable storage. Both only grow.
#[derive(Debug, Default)]
pub(crate) struct RecordLog {
    /// Changes under the registry only.
    queued: RecordCounts,
    stable: RecordCounts,
    /// The number of the last removal that a grant depends on.
    loss: AtomicU64,
}

#[derive(Debug, Default)]
struct RecordCounts {
    puts: AtomicU64,
    removals: AtomicU64,
}

impl RecordCounts {
    fn tickets(&self) -> RecordTickets {
        RecordTickets { puts: self.puts.load(Acquire), removals: self.removals.load(Acquire) }
    }
}

impl RecordLog {
    /// Makes grants from now on depend on a removal: its client may believe that it has state.
    fn note_loss(&self, ticket: RecordTickets) {
        self.loss.fetch_max(ticket.removals, Release);
    }

    /// Returns the tickets without those of changes that are on stable storage.
    pub(crate) fn unstable(&self, tickets: RecordTickets) -> RecordTickets {
        let stable = self.stable.tickets();
        let open = |ticket, stable| if ticket > stable { ticket } else { 0 };
        RecordTickets {
            puts: open(tickets.puts, stable.puts),
            removals: open(tickets.removals, stable.removals),
        }
    }

    /// Returns whether all changes are on stable storage.
    pub(crate) fn is_stable(&self) -> bool {
        self.unstable(self.queued.tickets()).is_empty()
    }
}

impl<F: Clone + Eq + Hash, O> State<F, O> {
    /// Queues something for the server to do, and returns its ticket. State may be free for others
    /// only after their removals are queued: others see by the ticket that they have to wait.
    pub(crate) fn queue(
        &self,
        registry: &mut Registry,
        effect: Effect,
        effects: &mut Effects<O>,
    ) -> RecordTickets {
        let queued = &self.clients.records.queued;
        let ticket = match effect {
            Effect::RecordClient { .. } => {
                RecordTickets { puts: queued.puts.fetch_add(1, Release) + 1, removals: 0 }
            }
            Effect::ForgetClient { .. } | Effect::GraceEnded => {
                RecordTickets { puts: 0, removals: queued.removals.fetch_add(1, Release) + 1 }
            }
        };
        if effect == Effect::GraceEnded {
            self.clients.records.note_loss(ticket);
        }
        registry.effects.push_back(effect);
        effects.queued = effects.queued.and(ticket);
        ticket
    }

    /// Removes a client that keeps no state from stable storage, so that no grant depends on it.
    pub(crate) fn forget_client(
        &self,
        registry: &mut Registry,
        owner: &[u8],
        effects: &mut Effects<O>,
    ) -> RecordTickets {
        self.queue(registry, Effect::ForgetClient { owner: owner.to_vec() }, effects)
    }

    /// As [`State::forget_client`], of a client that loses state. This may be free for others only
    /// after the call: see [`State::queue`].
    pub(crate) fn forget_holder(&self, registry: &mut Registry, owner: &[u8], effects: &mut Effects<O>) {
        let ticket = self.forget_client(registry, owner, effects);
        self.clients.records.note_loss(ticket);
    }

    /// Takes the things to do off the queue, in the order in which state has changed, with the
    /// newest tickets. One thread at a time must do this.
    pub fn take_effects(&self) -> (Vec<Effect>, RecordTickets) {
        let held = &mut crate::order::Held::nothing();
        let mut registry = self.registry(held);
        let effects = std::mem::take(&mut registry.effects).into();
        (effects, self.newest_records())
    }

    /// Returns the newest tickets.
    pub fn newest_records(&self) -> RecordTickets {
        self.clients.records.queued.tickets()
    }

    /// Notes that the changes with tickets up to these are on stable storage.
    pub fn note_stable(&self, tickets: RecordTickets) {
        let stable = &self.clients.records.stable;
        stable.puts.fetch_max(tickets.puts, Release);
        stable.removals.fetch_max(tickets.removals, Release);
    }

    /// Returns the tickets without those of changes that are on stable storage.
    pub fn unstable_records(&self, tickets: RecordTickets) -> RecordTickets {
        self.clients.records.unstable(tickets)
    }

    /// Returns the tickets that a grant to a client depends on. A client that has lost its state
    /// might reclaim it after a power failure while it is on stable storage, although it was
    /// granted to others since (RFC 8881 section 8.4.3). The client itself could not reclaim
    /// before it is on stable storage.
    pub fn records_of_grant(&self, client: Option<ClientKey>) -> RecordTickets {
        let removals = self.clients.records.loss.load(Acquire);
        let newest = self.unstable_records(self.newest_records());
        let put = || client.and_then(|key| Some(self.client(key).ok()?.put.load(Acquire)));
        let puts = if newest.puts > 0 { put().unwrap_or(0) } else { 0 };
        self.unstable_records(RecordTickets { puts, removals })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_stable_with_its_sync_whatever_is_queued_since() {
        let log = RecordLog::default();
        let tickets = |puts, removals| RecordTickets { puts, removals };
        assert!(log.is_stable());
        log.queued.puts.store(4, Release);
        log.queued.removals.store(7, Release);
        log.stable.removals.store(6, Release);
        assert_eq!(log.unstable(tickets(0, 6)), tickets(0, 0));
        assert_eq!(log.unstable(tickets(4, 7)), tickets(4, 7));
        assert_eq!(log.unstable(tickets(4, 5)), tickets(4, 0), "removals pass puts");
        log.stable.puts.store(4, Release);
        assert!(!log.is_stable() && log.unstable(tickets(3, 6)).is_empty());
        log.stable.removals.store(7, Release);
        assert!(log.is_stable());
        assert_eq!(tickets(1, 9).and(tickets(3, 2)), tickets(3, 9));
    }
}
