//! What a seed decides before anything happens: how many there are of everything, and how bad the
//! weather is.

use crate::mutation::Mutation;
use crate::rng::Rng;
use std::time::Duration;
use vfs::SecFlavor;

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
    /// The security flavor of each client.
    pub flavors: Vec<SecFlavor>,
    /// Size of the sequence window of contexts, in numbers.
    pub window: u32,
    /// Lifetime of a context.
    pub ticket_lifetime: Duration,
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
        };
        (plan, rng)
    }
}
