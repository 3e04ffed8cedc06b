//! The share of refusals in the audit log. Any client that reaches the server can cause them
//! without limit, and a log that rotates forgets its oldest lines.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Number of refusals that wait for the audit log's file; further ones are suppressed and counted.
const AUDIT_REFUSALS_MAX: usize = 2048;
/// Client addresses with a share of the audit log's refusals; a further one replaces the one that
/// has used the least.
const AUDIT_REFUSED_ADDRESSES_MAX: usize = 1024;

/// Refusals get this part of the size of the audit log's file.
const PART_OF_SIZE: u64 = 4;
/// One address gets this part of it.
const PART_OF_ADDRESS: u64 = 8;
/// The time in which a used share is whole again.
const RENEWAL: Duration = Duration::from_secs(24 * 3600);

/// Refusals that are in no line.
static SUPPRESSED: AtomicU64 = AtomicU64::new(0);

/// Returns the number of refusals that are in no line of the audit log, beyond their share.
pub(in crate::serve) fn suppressed() -> u64 {
    SUPPRESSED.load(Relaxed)
}

/// The refusals in the queue of the audit log.
#[derive(Default)]
pub(super) struct QueuedRefusals(AtomicUsize);

impl QueuedRefusals {
    /// Takes a place for a refusal. Returns whether there is one.
    pub(super) fn enter(&self) -> bool {
        if self.0.fetch_add(1, Relaxed) < AUDIT_REFUSALS_MAX {
            return true;
        }
        self.leave();
        SUPPRESSED.fetch_add(1, Relaxed);
        false
    }

    /// Gives a place back.
    pub(super) fn leave(&self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Bytes that were written, as far as they still count.
#[derive(Default)]
struct Used {
    bytes: f64,
    since: Duration,
}

impl Used {
    /// Forgets what was renewed until now. Returns whether some of the share is left.
    fn has_room(&mut self, share: f64, now: Duration) -> bool {
        let renewed = share * now.saturating_sub(self.since).as_secs_f64() / RENEWAL.as_secs_f64();
        (self.bytes, self.since) = ((self.bytes - renewed).max(0.0), now);
        self.bytes < share
    }
}

/// The shares of refusals in the size of the audit log: that of all, and of each address a part of
/// it, so that one client does not hide another.
pub(super) struct RefusalShares {
    share: f64,
    used: Used,
    addresses: HashMap<IpAddr, Used>,
    /// The suppressed refusals that lines have reported.
    reported: u64,
}

impl RefusalShares {
    /// Makes the shares of a file with this size.
    pub(super) fn new(size_max: u64) -> Self {
        let share = (size_max / PART_OF_SIZE) as f64;
        Self { share, used: Used::default(), addresses: HashMap::new(), reported: suppressed() }
    }

    /// Asks for a line about a refusal. `Some` permits it, with the number of refusals that were
    /// suppressed since the last line.
    pub(super) fn admit(&mut self, peer: IpAddr, now: Duration) -> Option<u64> {
        let share = self.share / PART_OF_ADDRESS as f64;
        if !self.used.has_room(self.share, now) || !self.of(peer).has_room(share, now) {
            SUPPRESSED.fetch_add(1, Relaxed);
            return None;
        }
        let suppressed = suppressed();
        Some(suppressed - std::mem::replace(&mut self.reported, suppressed))
    }

    /// Charges the bytes of a line.
    pub(super) fn charge(&mut self, peer: IpAddr, bytes: usize) {
        self.used.bytes += bytes as f64;
        self.of(peer).bytes += bytes as f64;
    }

    fn of(&mut self, peer: IpAddr) -> &mut Used {
        let address = net::address(peer);
        if self.addresses.len() >= AUDIT_REFUSED_ADDRESSES_MAX && !self.addresses.contains_key(&address) {
            let least =
                self.addresses.iter().min_by(|(_, one), (_, other)| one.bytes.total_cmp(&other.bytes));
            if let Some(least) = least.map(|(address, _)| *address) {
                self.addresses.remove(&least);
            }
        }
        self.addresses.entry(address).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 32_000;
    const LINE: usize = 100;

    /// Returns how many of a thousand lines from an address are permitted.
    fn permitted(shares: &mut RefusalShares, peer: [u8; 4], now: Duration) -> usize {
        let mut ask = || shares.admit(peer.into(), now).map(|_| shares.charge(peer.into(), LINE));
        (0..1000).filter(|_| ask().is_some()).count()
    }

    #[test]
    fn an_address_gets_an_eighth_of_the_refusals_and_all_together_a_quarter_of_the_size_a_day() {
        let mut shares = RefusalShares::new(SIZE);
        let now = Duration::from_secs(5);
        assert_eq!(permitted(&mut shares, [10, 0, 0, 1], now), 10);
        assert_eq!(permitted(&mut shares, [10, 0, 0, 2], now), 10, "another has a share of its own");
        let all: usize = (3..=255).map(|last| permitted(&mut shares, [10, 0, 0, last], now)).sum();
        assert_eq!(all, 60);
        let half = now + RENEWAL / 2;
        assert_eq!(permitted(&mut shares, [10, 0, 0, 1], half), 5);
        let suppressed = shares.admit([10, 0, 0, 9].into(), half).expect("it has a share");
        assert!(suppressed >= 995, "{suppressed}");
    }

    #[test]
    fn shares_of_addresses_have_a_bound() {
        let mut shares = RefusalShares::new(u64::MAX);
        for number in 0..2 * AUDIT_REFUSED_ADDRESSES_MAX as u32 {
            shares.charge(IpAddr::V4(number.into()), LINE);
        }
        assert_eq!(shares.addresses.len(), AUDIT_REFUSED_ADDRESSES_MAX);
    }

    #[test]
    fn refusals_leave_most_of_the_queue_to_others() {
        let queued = QueuedRefusals::default();
        assert_eq!((0..2 * AUDIT_REFUSALS_MAX).filter(|_| queued.enter()).count(), AUDIT_REFUSALS_MAX);
        queued.leave();
        assert!(queued.enter() && !queued.enter());
    }
}
