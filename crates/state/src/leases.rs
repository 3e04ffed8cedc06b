//! Leases (RFC 8881 section 8.3): who has not been heard of goes.

use crate::registry::Registry;
use crate::{ClientKey, Effects, State};
use std::hash::Hash;
use std::time::Duration;

impl<F: Clone + Eq + Hash, O> State<F, O> {
    /// Removes every client whose lease has run out, ends a grace period that is over, and revokes delegations that were not
    /// given back in time. Returns how many clients went.
    pub fn expire(&self, now: Duration, effects: &mut Effects<O>) -> usize {
        let mut registry = self.registry();
        let expired = self.expire_clients(&mut registry, now, effects);
        self.end_grace_if_over(Some(&mut registry), now, effects);
        drop(registry);
        self.revoke_overdue(now, effects);
        self.shed_delegations(now, effects);
        expired
    }

    pub(crate) fn expire_clients(
        &self,
        registry: &mut Registry,
        now: Duration,
        effects: &mut Effects<O>,
    ) -> usize {
        let clients = registry.clients.iter();
        let expired: Vec<ClientKey> =
            clients.filter(|(_, client)| self.expired(client, now)).map(|(key, _)| *key).collect();
        for key in &expired {
            self.remove_client(registry, *key, true, effects);
        }
        expired.len()
    }

    /// Returns when [`State::expire`] has something to do next, at the earliest.
    pub fn next_deadline(&self) -> Option<Duration> {
        let registry = self.registry();
        let idle = registry
            .clients
            .values()
            .filter(|client| self.sessions_of(client).iter().all(|session| session.pulse.running() == 0));
        let leases = idle.map(|client| self.renewed(client).saturating_add(self.limits.lease));
        let recalls = self.recalls().first().map(|(until, _)| *until);
        leases.chain(self.grace_deadline()).chain(recalls).min()
    }
}
