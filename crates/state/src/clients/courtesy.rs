//! Courtesy: a client with an expired lease keeps its state until a conflict (RFC 8881 section
//! 8.4.3).
//!
//! A machine that slept or a network that was cut then does no harm. At the first conflict the
//! client loses all state and its right to reclaim; also when memory runs short, and after
//! `courtesy_max`.

use crate::Leases;
use crate::clients::registry::{ClientEnd, Enrolled, Registry, RegistryGuard};
use crate::order::{Before, FileLevel, Held, RegistryLevel};
use crate::slab::SlabKey;
use crate::sync::atomic::Ordering::Relaxed;
use crate::{ClientKey, Effects};
use std::collections::BTreeSet;
use std::hash::Hash;
use std::time::Duration;

impl<F: Clone + Eq + Hash, O> Leases<'_, F, O> {
    /// Returns whether a client with an expired lease has the file open or delegated, so that it
    /// may cause a conflict.
    pub fn is_held_by_expired(&self, now: Duration, file: &F) -> bool {
        let held = &mut Held::nothing();
        let holders = self.holders(held, file);
        let registry = self.state.registry(held);
        holders.iter().filter_map(|key| registry.client(*key).ok()).any(|client| self.is_over(client, now))
    }

    /// Removes the clients with expired leases that have the file open or delegated. Returns
    /// whether there were any: the conflicting operation may then be tried again.
    pub fn free_expired(&self, now: Duration, file: &F, effects: &mut Effects<O>) -> bool {
        let held = &mut Held::nothing();
        let holders = self.holders(held, file);
        let mut registry = self.state.registry(held);
        let mut freed = false;
        for key in holders {
            if registry.client(key).is_ok_and(|client| self.state.clients().expired(client, now)) {
                self.state.clients().remove_client(&mut registry, key, ClientEnd::Lost, effects);
                freed = true;
            }
        }
        freed
    }

    /// Removes up to so many matching clients with expired leases, the first expired first. Returns
    /// how many it removed.
    pub(crate) fn release_expired_clients(
        &self,
        registry: &mut RegistryGuard<'_>,
        now: Duration,
        meant: impl Fn(&Enrolled, &mut Held<RegistryLevel>) -> bool,
        count: usize,
        effects: &mut Effects<O>,
    ) -> usize {
        let (all, held) = registry.split();
        let over = all.clients.iter().filter(|(_, client)| self.is_over(client, now) && meant(client, held));
        let mut over: Vec<_> =
            over.map(|(key, client)| (self.state.clients().renewed(client), *key)).collect();
        over.sort_unstable();
        let mut released = 0;
        for (_, key) in over {
            if released < count
                && registry.client(key).is_ok_and(|client| self.state.clients().expired(client, now))
            {
                self.state.clients().remove_client(registry, key, ClientEnd::Lost, effects);
                released += 1;
            }
        }
        released
    }

    /// Returns whether a client with an expired lease has a matching file open or delegated.
    pub fn has_expired(&self, now: Duration, meant: impl Fn(&F) -> bool) -> bool {
        let held = &mut Held::nothing();
        let mut registry = self.state.registry(held);
        let (registry, held) = registry.split();
        registry.clients.values().any(|client| self.is_over(client, now) && self.holds(client, held, &meant))
    }

    /// Removes up to so many clients with expired leases and matching open or delegated files, the
    /// first expired first. Returns how many it removed.
    pub fn release_expired(
        &self,
        now: Duration,
        count: usize,
        meant: impl Fn(&F) -> bool,
        effects: &mut Effects<O>,
    ) -> usize {
        let held = &mut Held::nothing();
        let meant = |client: &Enrolled, held: &mut Held<RegistryLevel>| self.holds(client, held, &meant);
        self.release_expired_clients(&mut self.state.registry(held), now, meant, count, effects)
    }

    fn holds(&self, client: &Enrolled, held: &mut Held<RegistryLevel>, meant: impl Fn(&F) -> bool) -> bool {
        let client_state = client.record.lock_any(held);
        let is_open = |key: &SlabKey| self.state.opens.read(*key, |open| meant(&open.file)) == Some(true);
        let is_delegated =
            |key: &SlabKey| self.state.delegations.read(*key, |held| meant(&held.file)) == Some(true);
        client_state.opens.iter().any(is_open) || client_state.delegations.iter().any(is_delegated)
    }

    fn holders(&self, held: &mut Held<impl Before<FileLevel>>, file: &F) -> BTreeSet<ClientKey> {
        let files = self.state.files.read(held, file);
        let Some(file) = files.get(file) else { return BTreeSet::new() };
        let opens = file.opens.values().filter_map(|key| self.state.opens.read(*key, |open| open.client));
        opens.chain(file.delegations.keys().map(|(client, _)| *client)).collect()
    }

    /// The clients from which delegations are recalled.
    pub(crate) fn recalled_from(&self) -> BTreeSet<ClientKey> {
        let keys: Vec<_> = self.state.delegations.recalls().iter().map(|(_, key)| *key).collect();
        keys.into_iter().filter_map(|key| self.state.delegations.read(key, |held| held.client)).collect()
    }

    /// Returns whether a client may stay although its lease has expired. A client without state may
    /// not.
    pub(crate) fn is_spared(
        &self,
        registry: &Registry,
        held: &mut Held<RegistryLevel>,
        client: &Enrolled,
        now: Duration,
    ) -> bool {
        now < self.stays_until(client) && !self.is_crowded(registry) && client.record.holds_state(held)
    }

    /// Returns when a client with state is removed even without a conflict.
    pub(crate) fn stays_until(&self, client: &Enrolled) -> Duration {
        self.state
            .clients()
            .renewed(client)
            .saturating_add(self.state.limits.lease)
            .saturating_add(self.state.limits.courtesy_max)
    }

    fn is_over(&self, client: &Enrolled, now: Duration) -> bool {
        now >= self.state.clients().renewed(client).saturating_add(self.state.limits.lease)
    }

    /// Returns whether more than three quarters of a common resource are in use: the rest is for
    /// clients with little, so that a few greedy ones do not end the courtesy of others.
    fn is_crowded(&self, registry: &Registry) -> bool {
        let limits = &self.state.limits;
        [
            (registry.clients.len(), self.state.clients_max.load(Relaxed)),
            (self.state.opens.count(), limits.opens_max),
            (self.state.locks.count(), limits.locks_max),
            (self.state.delegations.count(), limits.delegations_max),
            (self.state.sessions.memory(), limits.reply_cache_max),
        ]
        .iter()
        .any(|(used, max)| *used > 0 && *used >= max - max / 4)
    }
}
