//! What a seed decides before anything happens: how many there are of everything, and how bad the
//! weather is.

use crate::chance::Chance;
use crate::mutation::Mutation;
use std::time::Duration;

/// The lease that the server grants.
pub(crate) const LEASE: Duration = Duration::from_secs(20);
/// How long the server lets clients reclaim.
pub(crate) const GRACE: Duration = Duration::from_secs(20);

/// The shape of one simulation.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// A deliberate fault.
    pub mutation: Mutation,
    /// Clients.
    pub clients: usize,
    /// Connections of each.
    pub connections: usize,
    /// Slots that a client asks for.
    pub slots: u32,
    /// Rounds of each worker.
    pub rounds: usize,
    /// Whether operations wait for the disk and run one by one in any order.
    pub slow_disk: bool,
    /// How long a client keeps what nobody wants.
    pub courtesy: Duration,
    /// Until when things go wrong.
    pub faults_until: Duration,
    /// Mean time between faults.
    pub fault_every: Duration,
    /// The longest delay of a record on a quiet network.
    pub delay_max: Duration,
}

impl Plan {
    /// Draws the shape of a seed's simulation.
    pub(crate) fn of(seed: u64, mutation: Mutation) -> (Self, Chance) {
        let mut chance = Chance::new(seed);
        let courtesy = [Duration::ZERO, Duration::from_secs(30), Duration::from_secs(24 * 3600)];
        let plan = Self {
            mutation,
            clients: chance.between(2, 4),
            connections: chance.between(1, 3),
            slots: [1, 2, 8][chance.below(3)],
            rounds: chance.between(6, 14),
            slow_disk: chance.one_in(2),
            courtesy: courtesy[chance.below(3)],
            faults_until: Duration::from_secs(chance.between(20, 150) as u64),
            fault_every: chance.millis(500, 20_000),
            delay_max: chance.millis(1, 300),
        };
        (plan, chance)
    }
}
