//! Fair shares of a shard's time for tenants.
//!
//! A shard charges the time of its work to the tenants that it is for, divided by their weights:
//! their *virtual time*, as in start-time fair queueing. A loop of the shard is a round. While
//! several tenants have work, a round puts off the connections of tenants that are more than
//! [`AHEAD_MAX`] ahead of the one with the least virtual time, which bounds the length of the
//! round. A tenant that returns after a pause continues at the present virtual time less
//! [`CREDIT_MAX`]: it saves no more up, and is served at once while it uses less than its share. A
//! tenant alone is never put off.
//!
//! The overhead of a round, such as the search for connections with work, is divided among these
//! connections: a flood over many connections pays for them. Each of them is charged the same
//! virtual time, so that the overhead does not move the shares of tenants with as many connections.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The weight of a tenant that no rule names.
pub const WEIGHT_DEFAULT: u32 = 100;
/// Virtual time by which a tenant may be ahead of others with work, so that tenants with short
/// calls share batches.
const AHEAD_MAX: Duration = Duration::from_micros(50);
/// Virtual time by which a tenant that returns is behind the others.
const CREDIT_MAX: Duration = Duration::from_millis(1);
/// The longest time for which a tenant is put off, whatever its weight: far less than a lease.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// The overhead that is charged for each part that is measured. The rest is in the work of tenants
/// that find the caches cold: a stream beside many small requests takes a tenth longer.
const OVERHEAD_FACTOR: u32 = 3;
/// Time after the work of another tenant in which a tenant does not count as alone.
const CONTENTION_TIME: Duration = Duration::from_millis(10);
/// Time for which a tenant without a connection is remembered, so that it gains nothing by
/// connecting anew.
const MEMORY: Duration = Duration::from_secs(1);

/// The party that the work for a connection counts for: a principal, or a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightedTenant {
    /// Identifies it on all shards.
    pub id: u64,
    /// Its share relative to the shares of others; see [`WEIGHT_DEFAULT`].
    pub weight: u32,
}

/// The place of a tenant in the table of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TenantIndex(usize);

#[derive(Debug)]
struct TenantTime {
    tenant: WeightedTenant,
    connections: usize,
    /// When it lost its last connection.
    left: Instant,
    /// The time of its work, by its weight.
    used: Duration,
    /// When it last had work and was not put off.
    served: Instant,
}

/// The tenants of one shard.
#[derive(Debug)]
pub(crate) struct TenantShares {
    by_id: HashMap<u64, TenantIndex>,
    shares: Vec<Option<TenantTime>>,
    free: Vec<TenantIndex>,
    /// The start of the round.
    now: Instant,
    /// The start of its overhead, and the time that it has charged since.
    since: Instant,
    charged: Duration,
    /// The tenants with work in this round, once for each connection.
    present: Vec<TenantIndex>,
    /// The tenant that had work last, and when it was another one before.
    last: Option<TenantIndex>,
    switched: Option<Instant>,
    /// The tenant that is served, and since when.
    running: Option<(TenantIndex, Instant)>,
    /// The present virtual time: the largest of the least ones of the rounds.
    clock: Duration,
    /// The least virtual time of the tenants with work in this round.
    least: Duration,
}

impl TenantShares {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            by_id: HashMap::new(),
            shares: Vec::new(),
            free: Vec::new(),
            now,
            since: now,
            charged: Duration::ZERO,
            present: Vec::new(),
            last: None,
            switched: None,
            running: None,
            clock: Duration::ZERO,
            least: Duration::MAX,
        }
    }

    fn share(&mut self, index: TenantIndex) -> Option<&mut TenantTime> {
        self.shares.get_mut(index.0)?.as_mut()
    }

    /// Adds a connection of a tenant.
    pub(crate) fn join(&mut self, tenant: WeightedTenant) -> TenantIndex {
        let index = self.by_id.get(&tenant.id).copied().unwrap_or_else(|| self.add(tenant));
        if let Some(share) = self.share(index) {
            share.connections += 1;
        }
        index
    }

    fn add(&mut self, tenant: WeightedTenant) -> TenantIndex {
        let (used, now) = (self.clock, self.now);
        let share = TenantTime { tenant, connections: 0, left: now, used, served: now };
        let index = self.free.pop().unwrap_or(TenantIndex(self.shares.len()));
        match self.shares.get_mut(index.0) {
            Some(place) => *place = Some(share),
            None => self.shares.push(Some(share)),
        }
        self.by_id.insert(tenant.id, index);
        index
    }

    /// Removes a connection of a tenant.
    pub(crate) fn leave(&mut self, index: TenantIndex) {
        let now = self.now;
        if let Some(share) = self.share(index) {
            share.connections -= 1;
            share.left = now;
        }
    }

    /// Applies the present weight of the tenant at this place, if it is this one.
    pub(crate) fn weigh(&mut self, index: TenantIndex, tenant: WeightedTenant) {
        if let Some(share) = self.share(index).filter(|share| share.tenant.id == tenant.id) {
            share.tenant = tenant;
        }
    }

    /// Forgets tenants that have had no connection for a while.
    pub(crate) fn sweep(&mut self, now: Instant) {
        let Self { by_id, shares, free, .. } = self;
        for (index, place) in shares.iter_mut().enumerate() {
            let is_over = |share: &TenantTime| {
                share.connections == 0 && now.saturating_duration_since(share.left) >= MEMORY
            };
            if let Some(share) = place.take_if(|share| is_over(share)) {
                by_id.remove(&share.tenant.id);
                free.push(TenantIndex(index));
            }
        }
    }

    /// Begins a round at `now`, without any work yet.
    pub(crate) fn begin_round(&mut self, now: Instant) {
        self.now = now;
        if self.least < Duration::MAX {
            self.clock = self.clock.max(self.least);
        }
        self.least = Duration::MAX;
        self.running = None;
        (self.since, self.charged) = (now, Duration::ZERO);
        self.present.clear();
    }

    /// Counts the time since `start`, which is before the round, as its overhead.
    pub(crate) fn extend_round(&mut self, start: Instant) {
        self.since = start;
    }

    /// Ends the round at `now`: charges its overhead to the tenants with work.
    pub(crate) fn end_round(&mut self, now: Instant) {
        let present = std::mem::take(&mut self.present);
        if self.is_contended() {
            let overhead = now.saturating_duration_since(self.since).saturating_sub(self.charged);
            let weights = present.iter().fold(0_u32, |sum, index| sum.saturating_add(self.weight(*index)));
            let part = overhead.saturating_mul(OVERHEAD_FACTOR * WEIGHT_DEFAULT) / weights.max(1);
            present.iter().for_each(|index| self.add_used(*index, part));
        }
        self.present = present;
    }

    /// Records that a connection of a tenant has work in this round.
    pub(crate) fn present(&mut self, index: TenantIndex) {
        let (oldest, now) = (self.clock.saturating_sub(CREDIT_MAX), self.now);
        let Some(share) = self.share(index) else { return };
        share.used = share.used.max(oldest);
        let used = share.used;
        self.least = self.least.min(used);
        self.present.push(index);
        if self.last.replace(index).is_some_and(|last| last != index) {
            self.switched = Some(now);
        }
    }

    /// Returns whether several tenants have had work lately, so that work is charged.
    pub(crate) fn is_contended(&self) -> bool {
        self.switched.is_some_and(|at| self.now.saturating_duration_since(at) < CONTENTION_TIME)
    }

    /// Returns whether this round serves a tenant that has work in it.
    pub(crate) fn admits(&mut self, index: TenantIndex) -> bool {
        let (is_contended, now) = (self.is_contended(), self.now);
        let most = self.least.saturating_add(AHEAD_MAX);
        let Some(share) = self.share(index) else { return true };
        let waited = now.saturating_duration_since(share.served);
        let admits = !is_contended || share.used <= most || waited >= WAIT_MAX;
        if admits {
            share.served = now;
        }
        admits
    }

    /// Records that work for a tenant begins.
    pub(crate) fn begin_work(&mut self, tenant: Option<TenantIndex>, now: Instant) {
        self.running = tenant.map(|tenant| (tenant, now));
    }

    /// Returns whether requests of a tenant may pass the work that is running: it is for another
    /// tenant, which is ahead by now.
    pub(crate) fn may_pass(&self, index: TenantIndex, now: Instant) -> bool {
        let Some((running, since)) = self.running.filter(|_| self.is_contended()) else { return true };
        let uncharged = self.weighted(running, now.saturating_duration_since(since));
        running != index && self.used(index) < self.used(running).saturating_add(uncharged)
    }

    /// Returns the virtual time of an amount of time for a tenant.
    fn weighted(&self, index: TenantIndex, time: Duration) -> Duration {
        time.saturating_mul(WEIGHT_DEFAULT) / self.weight(index)
    }

    fn weight(&self, index: TenantIndex) -> u32 {
        let share = self.shares.get(index.0).and_then(Option::as_ref);
        share.map_or(WEIGHT_DEFAULT, |share| share.tenant.weight.max(1))
    }

    /// Returns the virtual time of a tenant.
    pub(crate) fn used(&self, index: TenantIndex) -> Duration {
        self.shares.get(index.0).and_then(Option::as_ref).map_or(Duration::ZERO, |share| share.used)
    }

    /// Returns the place of a tenant's work in a queue, the least first: its virtual time, or zero
    /// if the last time that its work was admitted is [`WAIT_MAX`] ago.
    pub(crate) fn turn(&self, index: TenantIndex) -> Duration {
        let share = self.shares.get(index.0).and_then(Option::as_ref);
        let waits = |share: &&TenantTime| self.now.saturating_duration_since(share.served) < WAIT_MAX;
        share.filter(waits).map_or(Duration::ZERO, |share| share.used)
    }

    /// Charges the time of work for a tenant.
    pub(crate) fn charge(&mut self, index: TenantIndex, time: Duration) {
        self.charged = self.charged.saturating_add(time);
        self.add_used(index, self.weighted(index, time));
    }

    /// Adds virtual time to that of a tenant.
    fn add_used(&mut self, index: TenantIndex, time: Duration) {
        if let Some(share) = self.share(index) {
            share.used = share.used.saturating_add(time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_micros(500);

    /// Plays rounds in which some tenants always have work, of [`STEP`] each. Returns how many
    /// steps each has run.
    fn play(shares: &mut TenantShares, tenants: &[TenantIndex], steps: u32) -> Vec<u32> {
        play_with(shares, tenants, steps, Duration::ZERO)
    }

    /// As `play`, with an overhead of each round.
    fn play_with(
        shares: &mut TenantShares,
        tenants: &[TenantIndex],
        steps: u32,
        overhead: Duration,
    ) -> Vec<u32> {
        let mut ran = vec![0; tenants.len()];
        let mut now = shares.now;
        while ran.iter().sum::<u32>() < steps {
            shares.begin_round(now);
            tenants.iter().for_each(|tenant| shares.present(*tenant));
            for (tenant, ran) in tenants.iter().zip(&mut ran) {
                if shares.admits(*tenant) {
                    shares.charge(*tenant, STEP);
                    (now, *ran) = (now + STEP, *ran + 1);
                }
            }
            now += overhead;
            shares.end_round(now);
        }
        ran
    }

    fn tenant(id: u64, weight: u32) -> WeightedTenant {
        WeightedTenant { id, weight }
    }

    #[test]
    fn tenants_that_always_have_work_share_the_time_by_their_weights() {
        let mut shares = TenantShares::new(Instant::now());
        let tenants = [(1, 100), (2, 300), (3, 50)].map(|(id, weight)| shares.join(tenant(id, weight)));
        let ran = play(&mut shares, &tenants, 4500);
        for (ran, expected) in ran.iter().zip([1000_u32, 3000, 500]) {
            assert!(ran.abs_diff(expected) <= 10, "{ran} of {expected}");
        }
    }

    #[test]
    fn connections_gain_a_tenant_nothing() {
        let mut shares = TenantShares::new(Instant::now());
        let [one, other] = [1, 2].map(|id| shares.join(tenant(id, 100)));
        (0..100).for_each(|_| assert_eq!(shares.join(tenant(1, 100)), one));
        let ran = play(&mut shares, &[one, other], 1000);
        assert!(ran[0].abs_diff(ran[1]) <= 2, "{ran:?}");
        // A tenant that is ahead connects anew, and is still ahead.
        shares.charge(one, STEP * 1000);
        (0..=100).for_each(|_| shares.leave(one));
        shares.sweep(shares.now + MEMORY / 2);
        assert_eq!(shares.join(tenant(1, 100)), one);
        let ran = play(&mut shares, &[one, other], 500);
        assert!(ran[0] <= 1, "{ran:?}");
    }

    #[test]
    fn waiting_work_of_a_tenant_that_is_ahead_comes_first_after_the_longest_wait() {
        let mut shares = TenantShares::new(Instant::now());
        let [ahead, other] = [(1, 1), (2, 10_000)].map(|(id, weight)| shares.join(tenant(id, weight)));
        let start = shares.now;
        [ahead, other].into_iter().for_each(|tenant| shares.present(tenant));
        assert!(shares.admits(ahead) && shares.admits(other));
        [ahead, other].into_iter().for_each(|tenant| shares.charge(tenant, STEP));
        shares.begin_round(start + WAIT_MAX / 2);
        assert!(shares.turn(other) < shares.turn(ahead));
        shares.present(other);
        assert!(shares.admits(other), "it has work all the time");
        shares.begin_round(start + WAIT_MAX);
        assert!(shares.turn(ahead) < shares.turn(other));
    }

    #[test]
    fn the_connections_with_work_pay_for_the_overhead_of_a_round() {
        let start = Instant::now();
        let mut shares = TenantShares::new(start);
        let [flood, other] = [1, 2].map(|id| shares.join(tenant(id, 100)));
        let both = |shares: &TenantShares| [flood, other].map(|tenant| shares.used(tenant));
        let round = |shares: &mut TenantShares, before: Duration| {
            shares.begin_round(start + before);
            (0..3).for_each(|_| shares.present(flood));
            shares.present(other);
            shares.charge(other, STEP);
            shares.end_round(start + before + STEP * 5);
        };
        round(&mut shares, Duration::ZERO);
        let part = STEP * OVERHEAD_FACTOR;
        assert_eq!(both(&shares), [part * 3, STEP + part]);
        // The wait before a round counts if it was no pause.
        shares.begin_round(start + STEP * 20);
        shares.extend_round(start + STEP * 18);
        (0..2).for_each(|_| shares.present(flood));
        shares.end_round(start + STEP * 20);
        assert_eq!(both(&shares), [part * 5, STEP + part]);
        // A tenant alone pays nothing.
        shares.begin_round(start + CONTENTION_TIME * 2);
        shares.present(flood);
        shares.end_round(start + CONTENTION_TIME * 3);
        assert_eq!(both(&shares), [part * 5, STEP + part]);
    }

    #[test]
    fn the_overhead_of_rounds_leaves_the_shares_of_weights_as_they_are() {
        let mut shares = TenantShares::new(Instant::now());
        let tenants = [(1, 100), (2, 1000)].map(|(id, weight)| shares.join(tenant(id, weight)));
        let ran = play_with(&mut shares, &tenants, 11_000, STEP / 10);
        assert!(ran[0].abs_diff(1000) <= 10, "{ran:?}");
    }

    #[test]
    fn a_tenant_that_pauses_saves_nothing_up() {
        let mut shares = TenantShares::new(Instant::now());
        let [one, other] = [1, 2].map(|id| shares.join(tenant(id, 100)));
        play(&mut shares, &[one, other], 10);
        play(&mut shares, &[one], 10_000);
        let ran = play(&mut shares, &[one, other], 100);
        assert!(ran[0].abs_diff(ran[1]) <= 4, "{ran:?}");
    }

    #[test]
    fn a_tenant_that_uses_less_than_its_share_is_served_at_once_and_rounds_are_short() {
        let mut shares = TenantShares::new(Instant::now());
        let [flood, other] = [1, 2].map(|id| shares.join(tenant(id, 100)));
        play(&mut shares, &[flood, other], 10);
        for _ in 0..100 {
            // The flood fills the rounds in which the other one has nothing to do.
            let mut now = shares.now;
            for _ in 0..5 {
                shares.begin_round(now);
                shares.present(flood);
                let mut ran = 0;
                while shares.admits(flood) {
                    shares.charge(flood, STEP / 10);
                    (now, ran) = (now + STEP / 10, ran + 1);
                }
                assert!(ran <= AHEAD_MAX.div_duration_f64(STEP / 10) as u32 + 1, "{ran}");
            }
            shares.begin_round(now);
            shares.present(flood);
            shares.begin_work(Some(flood), now);
            assert!(shares.may_pass(other, now) && !shares.may_pass(flood, now + STEP));
            shares.present(other);
            assert!(shares.admits(other) && !shares.admits(flood));
            shares.begin_work(Some(other), now);
            assert!(!shares.may_pass(flood, now), "it is ahead");
            shares.charge(other, STEP / 10);
        }
    }

    #[test]
    fn a_tenant_alone_is_never_put_off_and_no_weight_puts_one_off_for_longer_than_a_second() {
        let start = Instant::now();
        let mut shares = TenantShares::new(start);
        let [light, heavy] = [(1, 1), (2, 10_000)].map(|(id, weight)| shares.join(tenant(id, weight)));
        assert_eq!(play(&mut shares, &[light], 1000), [1000]);
        shares.charge(light, Duration::from_secs(3600));
        let before = shares.now;
        let ran = play(&mut shares, &[light, heavy], 20_000);
        let seconds = (shares.now - before).as_secs_f64();
        assert!(f64::from(ran[0]) >= seconds - 1.0, "{} in {seconds} s", ran[0]);
    }

    #[test]
    fn long_work_is_passed_by_a_tenant_that_was_ahead_when_it_began() {
        let mut shares = TenantShares::new(Instant::now());
        let [bulk, other] = [1, 2].map(|id| shares.join(tenant(id, 100)));
        play(&mut shares, &[bulk, other], 10);
        shares.charge(other, STEP);
        let start = shares.now;
        shares.begin_work(Some(bulk), start);
        assert!(!shares.may_pass(other, start));
        assert!(shares.may_pass(other, start + STEP * 3));
        assert!(!shares.may_pass(bulk, start + STEP * 3), "its own work");
    }

    #[test]
    fn a_tenant_without_connections_is_forgotten_after_a_while() {
        let start = Instant::now();
        let mut shares = TenantShares::new(start);
        let index = shares.join(tenant(1, 100));
        shares.sweep(start + MEMORY * 2);
        assert_eq!(shares.by_id.len(), 1);
        shares.leave(index);
        shares.sweep(start + MEMORY);
        assert!(shares.by_id.is_empty());
        assert_eq!(shares.join(tenant(2, 100)), index, "its place is used again");
        shares.weigh(index, tenant(1, 7));
        assert_eq!(shares.share(index).unwrap().tenant, tenant(2, 100));
    }
}
