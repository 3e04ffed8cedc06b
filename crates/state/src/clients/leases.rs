//! Leases (RFC 8881 section 8.3): a silent client is removed, or stays as a courtesy (see
//! `courtesy`).

use crate::Leases;
use crate::clients::registry::{ClientEnd, Enrolled, RegistryGuard};
use crate::order::Held;
use crate::{ClientKey, Clientid4, Effects};
use std::hash::Hash;
use std::time::Duration;

impl<F: Clone + Eq + Hash, O> Leases<'_, F, O> {
    /// Removes every client with an expired lease, unless courtesy spares it, ends a grace period
    /// that is over, and revokes delegations that were not returned in time. Returns how many
    /// clients it removed.
    pub fn expire(&self, now: Duration, effects: &mut Effects<O>) -> usize {
        let held = &mut Held::nothing();
        let mut registry = self.state.registry(held);
        let expired = self.expire_clients(&mut registry, now, effects);
        self.end_grace_if_over(&mut registry, now, effects);
        self.state.sessions().trim_sessions(&mut registry, now);
        drop(registry);
        self.state.delegations().revoke_overdue(held, now, effects);
        self.state.v40().sweep_owners(held, now, effects);
        self.state.delegations().shed_delegations(held, now, effects);
        expired
    }

    /// Removes a client with all of its state, as an administrator asks for it. Returns false if
    /// there is no such client.
    pub fn evict(&self, client: Clientid4, effects: &mut Effects<O>) -> bool {
        let held = &mut Held::nothing();
        let mut registry = self.state.registry(held);
        let Some(key) = registry.by_id.get(&client).copied() else { return false };
        self.state.clients().remove_client(&mut registry, key, ClientEnd::Lost, effects);
        true
    }

    /// Removes the clients with expired leases; with `spare` it keeps clients with state that cause
    /// no conflict.
    pub(crate) fn expire_clients(
        &self,
        registry: &mut RegistryGuard<'_>,
        now: Duration,
        effects: &mut Effects<O>,
    ) -> usize {
        // A client that does not return a recalled delegation causes a conflict.
        let recalled = self.recalled_from();
        let (all, held) = registry.split();
        let all = &*all;
        let mut spared = |key: &ClientKey, client: &Enrolled| {
            !recalled.contains(key) && self.is_spared(all, held, client, now)
        };
        let clients = all.clients.iter();
        let expired: Vec<ClientKey> = clients
            .filter(|(key, client)| !spared(key, client) && self.state.clients().expired(client, now))
            .map(|(key, _)| *key)
            .collect();
        for key in &expired {
            self.state.clients().remove_client(registry, *key, ClientEnd::Lost, effects);
        }
        expired.len()
    }
}
