//! The share of refusals in the audit log. Any client that reaches the server can cause them
//! without limit, and a log that rotates forgets its oldest lines.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Number of refusals that wait for the audit log's file; further ones are suppressed and counted.
const AUDIT_REFUSALS_MAX: usize = 2048;
/// Client addresses with a share of the audit log's refusals; a further one replaces the one that
/// has used the least. Each of so many has room for a few lines, whatever the others do.
const AUDIT_REFUSED_ADDRESSES_MAX: usize = 1024;

/// Refusals get this part of the size of the audit log's file.
const PART_OF_SIZE: u64 = 4;
/// One address gets this part of it.
const PART_OF_ADDRESS: u64 = 16;
/// Addresses with many refusals leave this part of it to those with few.
const PART_OF_FEW: u64 = 2;
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
    /// Forgets the part of a share that was renewed until now, and returns the rest.
    fn now(&mut self, share: f64, now: Duration) -> f64 {
        let renewed = share * now.saturating_sub(self.since).as_secs_f64() / RENEWAL.as_secs_f64();
        (self.bytes, self.since) = ((self.bytes - renewed).max(0.0), now);
        self.bytes
    }
}

/// Bytes of lines about an address, by the parts of the share that it may use.
#[derive(Default)]
struct UsedByAddress {
    many: Used,
    few: Used,
}

/// The shares of refusals in the size of the audit log: that of all, and of each address a part of
/// it. Several addresses that use theirs up leave room to all others, so that no client hides
/// another.
pub(super) struct RefusalShares {
    share: f64,
    used: Used,
    addresses: HashMap<IpAddr, UsedByAddress>,
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
        let (share, of_few) = (self.share, self.share / PART_OF_FEW as f64);
        let (of_many, few_each) = (share - of_few, self.few_each());
        let many_each = share / PART_OF_ADDRESS as f64;
        let all = self.used.now(share, now);
        let own = self.of(peer);
        let has_room_of_many = own.many.now(many_each, now) < many_each && all < of_many;
        let has_room_of_few = own.few.now(few_each, now) < few_each && all < share;
        if !has_room_of_many && !has_room_of_few {
            SUPPRESSED.fetch_add(1, Relaxed);
            return None;
        }
        let suppressed = suppressed();
        Some(suppressed - std::mem::replace(&mut self.reported, suppressed))
    }

    /// Charges the bytes of a line.
    pub(super) fn charge(&mut self, peer: IpAddr, bytes: usize) {
        let (bytes, few_each) = (bytes as f64, self.few_each());
        self.used.bytes += bytes;
        let UsedByAddress { many, few } = self.of(peer);
        many.bytes += bytes;
        // An address with many lines soon has its room among those with few again.
        few.bytes = few.bytes.min(few_each) + bytes;
    }

    /// Returns the part of each address in the room that is left to those with few lines.
    fn few_each(&self) -> f64 {
        self.share / (PART_OF_FEW * AUDIT_REFUSED_ADDRESSES_MAX as u64) as f64
    }

    fn of(&mut self, peer: IpAddr) -> &mut UsedByAddress {
        let address = net::address(peer);
        if self.addresses.len() >= AUDIT_REFUSED_ADDRESSES_MAX && !self.addresses.contains_key(&address) {
            let bytes = |used: &UsedByAddress| used.many.bytes;
            let least =
                self.addresses.iter().min_by(|(_, one), (_, other)| bytes(one).total_cmp(&bytes(other)));
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

    /// Of which a quarter is for refusals, and room for two lines is left to each address.
    const SIZE: u64 = (AUDIT_REFUSED_ADDRESSES_MAX * LINE * 2) as u64 * PART_OF_FEW * PART_OF_SIZE;
    const LINE: usize = 100;
    /// Lines of one address.
    const OF_ADDRESS: usize = (SIZE / PART_OF_SIZE / PART_OF_ADDRESS) as usize / LINE;

    /// Returns how many of a thousand lines from an address are permitted.
    fn permitted(shares: &mut RefusalShares, address: usize, now: Duration) -> usize {
        let peer = IpAddr::V4((address as u32).into());
        let mut ask = || shares.admit(peer, now).map(|_| shares.charge(peer, LINE));
        (0..1000).filter(|_| ask().is_some()).count()
    }

    #[test]
    fn an_address_gets_a_sixteenth_of_the_refusals_and_all_together_a_quarter_of_the_size_a_day() {
        let mut shares = RefusalShares::new(SIZE);
        let now = Duration::from_secs(5);
        assert_eq!(permitted(&mut shares, 1, now), OF_ADDRESS);
        assert_eq!(permitted(&mut shares, 2, now), OF_ADDRESS, "another has a share of its own");
        let all: usize = (3..4000).map(|address| permitted(&mut shares, address, now)).sum();
        assert_eq!(all, 14 * OF_ADDRESS);
        let later = now + RENEWAL * 3 / 4;
        assert_eq!(permitted(&mut shares, 1, later), OF_ADDRESS * 3 / 4);
        let suppressed = shares.admit([10, 0, 0, 9].into(), later).expect("it has a share");
        assert!(suppressed >= 800, "{suppressed}");
    }

    #[test]
    fn addresses_that_use_up_their_shares_leave_lines_to_all_others() {
        let mut shares = RefusalShares::new(SIZE);
        let now = Duration::from_secs(5);
        let many = 8;
        let used: usize = (0..2 * many).map(|address| permitted(&mut shares, address, now)).sum();
        assert_eq!(used, many * OF_ADDRESS + many * 2);
        for address in 2 * many..AUDIT_REFUSED_ADDRESSES_MAX {
            assert_eq!(permitted(&mut shares, address, now), 2, "{address}");
        }
        // Nor do they use up more when they come back again and again.
        let mut shares = RefusalShares::new(SIZE);
        for hour in 0..50 {
            let now = now + RENEWAL * hour / 24;
            for address in 0..30 {
                permitted(&mut shares, address, now);
            }
            assert_eq!(permitted(&mut shares, 1000 + hour as usize, now), 2, "{hour}");
        }
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
