//! Leases (RFC 8881 section 8.3): who has not been heard of goes.

use crate::{ClientKey, State};
use std::hash::Hash;
use std::time::Duration;

impl<F: Clone + Eq + Hash, O: Clone> State<F, O> {
    /// Removes every client whose lease has run out and ends a grace period that is over; payloads of opens and
    /// records to change come as effects. Returns how many clients went.
    pub fn expire(&mut self, now: Duration) -> usize {
        let lease = self.limits.lease;
        let expired: Vec<ClientKey> = self
            .clients
            .iter()
            .filter(|(_, client)| client.expired(now, lease))
            .map(|(key, _)| ClientKey(key))
            .collect();
        for key in &expired {
            self.remove_client(*key, true);
        }
        self.end_grace_if_over(now);
        expired.len()
    }

    /// Returns when [`State::expire`] has something to do next, at the earliest.
    pub fn next_deadline(&self) -> Option<Duration> {
        let leases = self.clients.iter().filter(|(_, client)| client.running == 0);
        let leases = leases.map(|(_, client)| client.renewed.saturating_add(self.limits.lease));
        leases.chain(self.grace.deadline()).min()
    }
}
