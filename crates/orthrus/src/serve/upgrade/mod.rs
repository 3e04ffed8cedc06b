//! Upgrades: the server starts its next program, and hands its clients over to it.

pub(super) mod binary;
mod freeze;
mod predecessor;
mod starter;
mod successor;

pub(super) use predecessor::{UpgradeParts, Upgrades};
pub(super) use starter::Starter;
pub(crate) use starter::{STARTER, obey};
pub(crate) use successor::tell_predecessor;
pub(super) use successor::{Estate, Inherited, Predecessor};

use std::time::Duration;

/// The variable that tells a process that its standard input is a handover.
const VARIABLE: &str = "ORTHRUS_HANDOVER";

/// How often a wait sees whether the server is to end.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// How long the next process may take to read its configuration and to open everything.
const PREPARE_TIME_MAX: Duration = Duration::from_secs(15);
/// How long background copies may take for the pieces that they are copying. Clients are served
/// meanwhile.
const COPIES_TIME_MAX: Duration = Duration::from_secs(5);
/// How long the standstill may take by default: the calls that clients have sent end, or get
/// NFS4ERR_DELAY.
pub(crate) const STANDSTILL_TIME: Duration = Duration::from_millis(600);
/// How long an administrator may let it take.
pub(crate) const STANDSTILL_TIME_MAX: Duration = Duration::from_secs(5);
/// How long the next process may take to restore the image, while clients wait; it gets more for
/// much state.
const RESTORE_TIME_MAX: Duration = Duration::from_secs(5);
/// The further time for each open, lock, delegation, session, context and connection, some ten
/// times as much as a quiet machine needs. An upgrade without enough time makes clients wait for
/// nothing.
const RESTORE_TIME_EACH: Duration = Duration::from_micros(50);
/// The part of the lease that this time may take: after the pause, clients renew their leases.
const RESTORE_LEASE_PART: u32 = 4;
/// How long it may take to answer that it serves.
const GO_TIME_MAX: Duration = Duration::from_secs(3);

/// Returns how long the next process may take to restore so much state.
fn restore_time(state: usize, lease: Duration) -> Duration {
    let each = RESTORE_TIME_EACH.saturating_mul(u32::try_from(state).unwrap_or(u32::MAX));
    (RESTORE_TIME_MAX + each).min(lease / RESTORE_LEASE_PART).max(RESTORE_TIME_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_to_restore_grows_with_the_state_and_stays_far_below_the_lease() {
        let seconds = |state, lease| restore_time(state, Duration::from_secs(lease)).as_secs();
        assert_eq!([0, 200_000, 1_000_000].map(|state| seconds(state, 90)), [5, 15, 22]);
        assert_eq!(seconds(usize::MAX, 10), 5);
    }
}
