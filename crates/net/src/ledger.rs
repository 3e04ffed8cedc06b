//! Which connections make room when memory or the connection table is short.
//!
//! A connection is trusted once the service has vouched for one of its calls ([`Action::Trust`](crate::Action)).
//! Victims are chosen in this order: untrusted connections of the address that holds most, then trusted connections of
//! the address that holds most. Within an address goes first what holds most for longest, so that a record in transit
//! outlives one that was left unfinished on purpose, although both come from the same address.

use crate::mailbox::Mailbox;
use crate::{Limits, Stats};
use rpc::ConnectionId;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The part of a budget above which it is short: no connection begins a request then that could wait.
const SHORT_PART: (usize, usize) = (3, 4);
/// The part of a budget down to which room is made, so that the next search has to wait for as many bytes again.
const ROOM_PART: (usize, usize) = (5, 8);
/// The part of a budget that untrusted connections may hold together: they alone never make it short.
const UNTRUSTED_PART: (usize, usize) = (1, 4);
/// The part down to which they make room.
const UNTRUSTED_ROOM_PART: (usize, usize) = (3, 16);

/// How long the server counts as busy after a trusted connection has moved anything.
pub(crate) const BUSY_TIME: Duration = Duration::from_millis(100);

/// A kind of memory with a budget of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Budget {
    /// Requests that are unfinished or wait.
    Input,
    /// Replies that wait for their readers.
    Output,
}

/// What one connection holds of a budget.
#[derive(Debug, Default)]
struct Holding {
    bytes: AtomicUsize,
    /// Milliseconds of the ledger's clock since when it has held anything without progress.
    since: AtomicU64,
}

/// What the server knows of one connection on all threads.
#[derive(Debug)]
pub(crate) struct Account {
    id: ConnectionId,
    /// Tells older connections from younger ones.
    order: u64,
    peer: SocketAddr,
    mailbox: Arc<Mailbox>,
    trusted: AtomicBool,
    /// Chosen to make room; its shard closes it soon.
    condemned: AtomicBool,
    input: Holding,
    output: Holding,
    /// Bytes of both budgets when it was condemned.
    yielded: [AtomicUsize; 2],
}

impl Account {
    /// The peer's address.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Says whether the service has vouched for a call of the connection.
    pub(crate) fn is_trusted(&self) -> bool {
        self.trusted.load(Relaxed)
    }

    /// Says whether the connection is to be closed to make room.
    pub(crate) fn is_condemned(&self) -> bool {
        self.condemned.load(Relaxed)
    }

    fn holding(&self, budget: Budget) -> &Holding {
        match budget {
            Budget::Input => &self.input,
            Budget::Output => &self.output,
        }
    }
}

/// Sums of one budget over all connections.
#[derive(Debug, Default)]
struct Sums {
    /// Bytes of untrusted connections.
    untrusted: AtomicUsize,
    /// Bytes of condemned connections, which are as good as free.
    yielded: AtomicUsize,
}

/// All connections of a server.
#[derive(Debug)]
pub(crate) struct Ledger {
    limits: Arc<Limits>,
    stats: Arc<Stats>,
    start: Instant,
    sums: [Sums; 2],
    /// Milliseconds of the ledger's clock until which the server counts as busy.
    busy_until: AtomicU64,
    table: Mutex<Table>,
}

/// Connections that are not condemned.
#[derive(Debug, Default)]
struct Table {
    accounts: HashMap<u64, Arc<Account>>,
    /// The untrusted ones by address, the oldest first.
    untrusted: HashMap<IpAddr, BTreeMap<u64, u64>>,
    /// Addresses by how many untrusted connections they have.
    ranks: BTreeSet<(usize, IpAddr)>,
}

impl Ledger {
    pub(crate) fn new(limits: Arc<Limits>, stats: Arc<Stats>) -> Self {
        let (start, sums, table) = (Instant::now(), Default::default(), Mutex::default());
        Self { limits, stats, start, sums, busy_until: AtomicU64::new(0), table }
    }

    /// Notes that a trusted connection of any shard is active.
    pub(crate) fn note_activity(&self) {
        let until = self.milliseconds() + BUSY_TIME.as_millis() as u64;
        // Written once a millisecond: all shards read it.
        if self.busy_until.load(Relaxed) < until {
            self.busy_until.store(until, Relaxed);
        }
    }

    /// Says whether a trusted connection has been active lately, so that strangers must leave time to it.
    pub(crate) fn is_busy(&self) -> bool {
        self.milliseconds() < self.busy_until.load(Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the server busy for good, or idle.
    #[cfg(test)]
    pub(crate) fn set_busy(&self, is_busy: bool) {
        self.busy_until.store(if is_busy { u64::MAX } else { 0 }, Relaxed);
    }

    /// Enters a connection; the oldest untrusted connection of the address with most of them makes room in a full table.
    /// `None` when all connections are trusted.
    pub(crate) fn open(
        &self,
        id: ConnectionId,
        order: u64,
        peer: SocketAddr,
        mailbox: Arc<Mailbox>,
    ) -> Option<Arc<Account>> {
        let mut table = self.lock();
        if table.accounts.len() >= self.limits.connections_max {
            let victim = table.oldest_untrusted()?;
            self.condemn(&mut table, &victim, "a newer connection takes its place");
        }
        let account = Arc::new(Account {
            id,
            order,
            peer,
            mailbox,
            trusted: AtomicBool::new(false),
            condemned: AtomicBool::new(false),
            input: Holding::default(),
            output: Holding::default(),
            yielded: Default::default(),
        });
        table.accounts.insert(id.0, account.clone());
        table.change_untrusted(&account, true);
        Some(account)
    }

    /// Strikes out a connection that has closed, with all that it held.
    pub(crate) fn close(&self, account: &Account) {
        self.note(account, Budget::Input, 0, false);
        self.note(account, Budget::Output, 0, false);
        let mut table = self.lock();
        if account.condemned.load(Relaxed) {
            for (sums, yielded) in self.sums.iter().zip(&account.yielded) {
                sums.yielded.fetch_sub(yielded.load(Relaxed), Relaxed);
            }
        } else {
            table.remove(account);
        }
    }

    /// Notes that the service vouches for a connection.
    pub(crate) fn trust(&self, account: &Account) {
        let mut table = self.lock();
        if account.condemned.load(Relaxed) || account.trusted.swap(true, Relaxed) {
            return;
        }
        table.change_untrusted(account, false);
        for budget in [Budget::Input, Budget::Output] {
            let bytes = account.holding(budget).bytes.load(Relaxed);
            self.sums(budget).untrusted.fetch_sub(bytes, Relaxed);
        }
    }

    /// Notes what a connection holds of a budget now; `progress` says that its peer has done something about it.
    pub(crate) fn note(&self, account: &Account, budget: Budget, bytes: usize, progress: bool) {
        let holding = account.holding(budget);
        let before = holding.bytes.swap(bytes, Relaxed);
        if before == 0 || progress {
            holding.since.store(self.milliseconds(), Relaxed);
        }
        if before == bytes {
            return;
        }
        let total = self.total(budget);
        let untrusted = (!account.is_trusted()).then(|| &self.sums(budget).untrusted);
        for sum in [Some(total), untrusted].into_iter().flatten() {
            // Wraps around below zero for a moment at most: each connection gives back what it has added.
            sum.fetch_add(bytes.wrapping_sub(before), Relaxed);
        }
        if bytes > before {
            self.make_room(budget);
        }
    }

    /// Says whether a budget is short, so that connections that hold nothing of it should not begin to.
    pub(crate) fn is_short(&self, budget: Budget) -> bool {
        self.held(budget) > part(self.max(budget), SHORT_PART)
    }

    /// Says which peer a connection has.
    pub(crate) fn peer(&self, id: u64) -> Option<SocketAddr> {
        self.lock().accounts.get(&id).map(|account| account.peer)
    }

    fn total(&self, budget: Budget) -> &AtomicUsize {
        match budget {
            Budget::Input => &self.stats.input_bytes,
            Budget::Output => &self.stats.output_bytes,
        }
    }

    fn sums(&self, budget: Budget) -> &Sums {
        let [input, output] = &self.sums;
        match budget {
            Budget::Input => input,
            Budget::Output => output,
        }
    }

    fn max(&self, budget: Budget) -> usize {
        match budget {
            Budget::Input => self.limits.input_bytes_max,
            Budget::Output => self.limits.output_bytes_total_max,
        }
    }

    /// Bytes that are held, without those that are about to be free.
    fn held(&self, budget: Budget) -> usize {
        self.total(budget).load(Relaxed).saturating_sub(self.sums(budget).yielded.load(Relaxed))
    }

    /// Bytes that untrusted connections hold, without those that are about to be free.
    fn held_untrusted(&self, budget: Budget) -> usize {
        let sums = self.sums(budget);
        sums.untrusted.load(Relaxed).saturating_sub(sums.yielded.load(Relaxed))
    }

    fn milliseconds(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Has untrusted connections closed that hold more than their part of a budget together. When a
    /// budget is used up, untrusted connections are closed before trusted ones.
    fn make_room(&self, budget: Budget) {
        let max = self.max(budget);
        let is_crowded = || self.held_untrusted(budget) > part(max, UNTRUSTED_PART);
        let is_full = || self.held(budget) > max;
        if !is_crowded() && !is_full() {
            return;
        }
        let mut table = self.lock();
        // Another thread may have made room meanwhile.
        if is_crowded() {
            let target = part(max, UNTRUSTED_ROOM_PART);
            self.close_largest(&mut table, budget, false, || self.held_untrusted(budget) > target);
        }
        if is_full() {
            self.close_largest(&mut table, budget, false, || self.held(budget) > part(max, ROOM_PART));
            self.close_largest(&mut table, budget, true, is_full);
        }
    }

    /// Condemns connections for as long as `exceeds`, the largest holder of the largest address first.
    fn close_largest(&self, table: &mut Table, budget: Budget, trusted: bool, exceeds: impl Fn() -> bool) {
        if !exceeds() {
            return;
        }
        let now = self.milliseconds();
        let mut heap: BinaryHeap<Holders> = table.holders(budget, trusted, now).into();
        while exceeds() {
            let Some(mut holders) = heap.pop() else { return };
            let Some((_, bytes, id)) = holders.connections.pop() else { continue };
            if let Some(account) = table.accounts.get(&id).cloned() {
                self.condemn(
                    table,
                    &account,
                    match budget {
                        Budget::Input => "requests under way hold too much memory",
                        Budget::Output => "replies that wait hold too much memory",
                    },
                );
            }
            holders.bytes = holders.bytes.saturating_sub(bytes);
            heap.push(holders);
        }
    }

    /// Has the shard of a connection close it.
    fn condemn(&self, table: &mut Table, account: &Arc<Account>, why: &'static str) {
        table.remove(account);
        account.condemned.store(true, Relaxed);
        for (budget, yielded) in [Budget::Input, Budget::Output].into_iter().zip(&account.yielded) {
            let bytes = account.holding(budget).bytes.load(Relaxed);
            // A record may grow until its shard has closed the connection; that is too little to count.
            yielded.store(bytes, Relaxed);
            self.sums(budget).yielded.fetch_add(bytes, Relaxed);
        }
        Stats::add(&self.stats.evicted, 1);
        self.stats.log_closed(account.peer, why);
        account.mailbox.evict(account.id);
    }
}

/// The connections of one address that hold something, compared by how much they hold together.
struct Holders {
    bytes: usize,
    /// Bytes times milliseconds, bytes, connection; the first to go at the end.
    connections: Vec<(u128, usize, u64)>,
}

impl PartialEq for Holders {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Holders {}

impl PartialOrd for Holders {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Holders {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.bytes.cmp(&other.bytes)
    }
}

impl Table {
    fn oldest_untrusted(&self) -> Option<Arc<Account>> {
        let (_, address) = self.ranks.last()?;
        let (_, id) = self.untrusted.get(address)?.first_key_value()?;
        self.accounts.get(id).cloned()
    }

    fn remove(&mut self, account: &Account) {
        if self.accounts.remove(&account.id.0).is_some() && !account.is_trusted() {
            self.change_untrusted(account, false);
        }
    }

    /// Adds a connection to the untrusted ones, or takes it out.
    fn change_untrusted(&mut self, account: &Account, untrusted: bool) {
        let address = address(account.peer.ip());
        let connections = self.untrusted.entry(address).or_default();
        self.ranks.remove(&(connections.len(), address));
        match untrusted {
            true => connections.insert(account.order, account.id.0),
            false => connections.remove(&account.order),
        };
        match connections.len() {
            0 => drop(self.untrusted.remove(&address)),
            count => drop(self.ranks.insert((count, address))),
        }
    }

    /// Who holds something of a budget, by address.
    fn holders(&self, budget: Budget, trusted: bool, now: u64) -> Vec<Holders> {
        let mut by_address: HashMap<IpAddr, Holders> = HashMap::new();
        for (id, account) in self.accounts.iter().filter(|(_, account)| account.is_trusted() == trusted) {
            let holding = account.holding(budget);
            let bytes = holding.bytes.load(Relaxed);
            if bytes == 0 {
                continue;
            }
            let age = now.saturating_sub(holding.since.load(Relaxed)) + 1;
            let none = || Holders { bytes: 0, connections: Vec::new() };
            let holders = by_address.entry(address(account.peer.ip())).or_insert_with(none);
            holders.bytes += bytes;
            holders.connections.push((bytes as u128 * u128::from(age), bytes, *id));
        }
        by_address.values_mut().for_each(|holders| holders.connections.sort_unstable());
        by_address.into_values().collect()
    }
}

/// A part of a budget.
fn part(max: usize, (part, of): (usize, usize)) -> usize {
    max / of * part
}

/// Addresses that one peer has at its choice count as one: those of an IPv6 network of 64 bits.
pub fn address(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.into(),
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)).into(),
    }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
