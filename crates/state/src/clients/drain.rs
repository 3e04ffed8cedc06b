//! Drains: the server keeps its clients and takes no new ones.

use crate::Clients;
use crate::clients::registry::Enrolled;
use crate::order::Held;
use std::hash::Hash;
use std::time::Duration;

impl<F: Clone + Eq + Hash, O> Clients<'_, F, O> {
    /// Refuses new clients from now on, or admits them again. A client that is known may go on,
    /// make sessions and reclaim.
    pub fn set_draining(&self, draining: bool) {
        self.state.registry(&mut Held::nothing()).draining = draining;
    }

    /// Returns whether new clients are refused.
    pub fn is_draining(&self) -> bool {
        self.state.registry(&mut Held::nothing()).draining
    }

    /// Returns the number of clients for which a drain waits: those with a lease. Others are gone,
    /// or have not shown yet that they exist.
    pub fn with_lease(&self, now: Duration) -> usize {
        let held = &mut Held::nothing();
        let registry = self.state.registry(held);
        let lease = self.state.limits.lease;
        let holds = |client: &&Enrolled| now.saturating_sub(self.renewed(client)) < lease;
        registry.clients.values().filter(|client| client.confirmed).filter(holds).count()
    }
}
