//! The parameters that a seed decides before a run: numbers of clients and connections, limits, and
//! the rate of faults.

use crate::mutation::Mutation;
use crate::rng::Rng;
use std::time::Duration;
use vfs::SecFlavor;

/// The length of the server's leases.
pub(crate) const LEASE: Duration = Duration::from_secs(20);
/// The length of the grace period.
pub(crate) const GRACE: Duration = Duration::from_secs(20);

/// The parameters of one simulation.
#[derive(Clone, Debug)]
pub(crate) struct SimPlan {
    /// The deliberate fault, if any.
    pub mutation: Mutation,
    /// Number of client machines.
    pub clients: usize,
    /// Connections of each client.
    pub connections: usize,
    /// Slots that a client asks for.
    pub slots: u32,
    /// The security flavor of each client.
    pub flavors: Vec<SecFlavor>,
    /// Size of the sequence window of contexts, in numbers.
    pub window: u32,
    /// Lifetime of a context.
    pub ticket_lifetime: Duration,
    /// Rounds of each worker.
    pub rounds: usize,
    /// Whether calls that use the disk are deferred, and run step by step in any order.
    pub slow_disk: bool,
    /// Time for which an expired client keeps state without conflicts.
    pub courtesy: Duration,
    /// The end of the faults.
    pub faults_until: Duration,
    /// Mean time between faults.
    pub fault_every: Duration,
    /// Mean time between upgrades.
    pub upgrade_every: Duration,
    /// The longest delay of a record without loss.
    pub delay_max: Duration,
}

impl SimPlan {
    /// Draws the parameters of a seed.
    pub(crate) fn of(seed: u64, mutation: Mutation) -> (Self, Rng) {
        let mut rng = Rng::new(seed);
        let courtesy = [Duration::ZERO, Duration::from_secs(30), Duration::from_secs(24 * 3600)];
        let lifetimes = [Duration::from_secs(30), Duration::from_secs(120), Duration::from_secs(36_000)];
        let clients = rng.between(2, 4);
        let plan = Self {
            mutation,
            clients,
            connections: rng.between(1, 3),
            slots: [1, 2, 8][rng.below(3)],
            flavors: (0..clients).map(|_| SecFlavor::ALL[rng.below(SecFlavor::ALL.len())]).collect(),
            window: [64, 128, 8192][rng.below(3)],
            ticket_lifetime: lifetimes[rng.below(3)],
            rounds: rng.between(6, 14),
            slow_disk: rng.one_in(2),
            courtesy: courtesy[rng.below(3)],
            faults_until: Duration::from_secs(rng.between(20, 150) as u64),
            fault_every: rng.millis(500, 20_000),
            delay_max: rng.millis(1, 300),
            upgrade_every: rng.millis(1500, 20_000),
        };
        (plan, rng)
    }
}
