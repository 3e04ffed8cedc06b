//! Accounts of all connections: their memory, their trust, and the choice of victims under
//! shortage.
//!
//! A connection is trusted once the service has vouched for one of its calls
//! ([`Action::Trust`](crate::Action)). Untrusted connections, the strangers, together hold at most
//! a quarter of each budget, so that they never make memory short for others. Victims are chosen in
//! this order: strangers of the address that holds most, then trusted connections of the address
//! that holds most. Within an address the first victim has the largest product of bytes and time,
//! so that a record in transit outlives one that was left unfinished on purpose.
//!
//! The sums are atomic numbers. Requests do not take the lock of the table; opening, trusting and
//! closing connections and making room do.

use crate::mailbox::Mailbox;
use crate::{Limits, Stats};
use rpc::ConnectionId;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The part of a budget above which it is short: connections then begin no further request.
const SHORT_PART: (usize, usize) = (3, 4);
/// The part of a budget down to which room is made, so that the next search is not due at once.
const ROOM_PART: (usize, usize) = (5, 8);
/// The part of a budget that untrusted connections may hold together, which is too little to make
/// it short.
const UNTRUSTED_PART: (usize, usize) = (1, 4);
/// The part of a budget down to which untrusted connections make room.
const UNTRUSTED_ROOM_PART: (usize, usize) = (3, 16);

/// Time for which the server counts as busy after traffic on a trusted connection.
pub(crate) const BUSY_TIME: Duration = Duration::from_millis(100);

/// A kind of memory with its own budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Budget {
    /// Memory of requests that are unfinished or wait.
    Input,
    /// Memory of replies that wait to be sent.
    Output,
}

/// The part of a budget that one connection holds.
#[derive(Debug, Default)]
struct Holding {
    bytes: AtomicUsize,
    /// When it began to hold memory without progress, in milliseconds of the ledger's clock.
    since: AtomicU64,
}

/// The state of one connection that all threads share.
#[derive(Debug)]
pub(crate) struct ConnectionAccount {
    id: ConnectionId,
    /// Position in the order of arrival.
    order: u64,
    peer: SocketAddr,
    mailbox: Arc<Mailbox>,
    trusted: AtomicBool,
    /// Whether it was chosen to make room. Its shard closes it soon.
    condemned: AtomicBool,
    input: Holding,
    output: Holding,
    /// Bytes of both budgets when it was condemned.
    yielded: [AtomicUsize; 2],
}

impl ConnectionAccount {
    /// Returns the peer's address.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Returns the position in the order of arrival.
    pub(crate) fn order(&self) -> u64 {
        self.order
    }

    /// Returns whether the service vouches for the connection.
    pub(crate) fn is_trusted(&self) -> bool {
        self.trusted.load(Relaxed)
    }

    /// Returns whether the connection is about to be closed to make room.
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

/// Sums of one budget.
#[derive(Debug, Default)]
struct Sums {
    /// Bytes of untrusted connections.
    untrusted: AtomicUsize,
    /// Bytes of condemned connections, which are free soon.
    yielded: AtomicUsize,
}

/// All connections of a server.
#[derive(Debug)]
pub(crate) struct Ledger {
    limits: Arc<Limits>,
    /// The most connections, which can change.
    connections_max: AtomicUsize,
    stats: Arc<Stats>,
    start: Instant,
    sums: [Sums; 2],
    /// Milliseconds of the ledger's clock until which the server counts as busy.
    busy_until: AtomicU64,
    table: Mutex<AccountTable>,
}

/// The connections that are not condemned.
#[derive(Debug, Default)]
struct AccountTable {
    accounts: HashMap<u64, Arc<ConnectionAccount>>,
    /// The untrusted ones by address, the oldest first.
    untrusted: HashMap<IpAddr, BTreeMap<u64, u64>>,
    /// Addresses by how many untrusted connections they have.
    ranks: BTreeSet<(usize, IpAddr)>,
}

impl Ledger {
    pub(crate) fn new(limits: Arc<Limits>, stats: Arc<Stats>) -> Self {
        let (start, sums, table) = (Instant::now(), Default::default(), Mutex::default());
        let connections_max = AtomicUsize::new(limits.connections_max);
        Self { limits, connections_max, stats, start, sums, busy_until: AtomicU64::new(0), table }
    }

    /// Records activity on a trusted connection of any shard.
    pub(crate) fn note_activity(&self) {
        let until = self.milliseconds() + BUSY_TIME.as_millis() as u64;
        // Stored at most once per millisecond, because all shards read it.
        if self.busy_until.load(Relaxed) < until {
            self.busy_until.store(until, Relaxed);
        }
    }

    /// Returns whether a trusted connection has been active recently, so that strangers must leave
    /// time to it.
    pub(crate) fn is_busy(&self) -> bool {
        self.milliseconds() < self.busy_until.load(Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, AccountTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the server busy permanently, or idle.
    #[cfg(test)]
    pub(crate) fn set_busy(&self, is_busy: bool) {
        self.busy_until.store(if is_busy { u64::MAX } else { 0 }, Relaxed);
    }

    /// Replaces the most connections. Open ones stay open.
    pub(crate) fn set_connections_max(&self, connections_max: usize) {
        self.connections_max.store(connections_max, Relaxed);
    }

    /// Returns the most connections.
    pub(crate) fn connections_max(&self) -> usize {
        self.connections_max.load(Relaxed)
    }

    /// Closes the oldest untrusted connection of the address with most of them, if there is one.
    pub(crate) fn evict_stranger(&self, why: &'static str) {
        let mut table = self.lock();
        if let Some(victim) = table.oldest_untrusted() {
            self.condemn(&mut table, &victim, why);
        }
    }

    /// Adds a connection. If the table is full, the oldest untrusted connection of the address with
    /// most of them makes room. Returns `None` if all connections are trusted.
    pub(crate) fn open(
        &self,
        id: ConnectionId,
        order: u64,
        peer: SocketAddr,
        mailbox: Arc<Mailbox>,
    ) -> Option<Arc<ConnectionAccount>> {
        let mut table = self.lock();
        if table.accounts.len() >= self.connections_max() {
            let victim = table.oldest_untrusted()?;
            self.condemn(&mut table, &victim, "a newer connection takes its place");
        }
        let account = Arc::new(ConnectionAccount {
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

    /// Removes a closed connection, and releases its memory.
    pub(crate) fn close(&self, account: &ConnectionAccount) {
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

    /// Marks a connection as trusted by the service.
    pub(crate) fn trust(&self, account: &ConnectionAccount) {
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

    /// Records how many bytes of a budget a connection holds. `progress` means that its peer has
    /// finished a request or read a part of a reply.
    pub(crate) fn note(&self, account: &ConnectionAccount, budget: Budget, bytes: usize, progress: bool) {
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
            // The sum wraps below zero for a moment at most: each connection subtracts exactly the
            // bytes that it added.
            sum.fetch_add(bytes.wrapping_sub(before), Relaxed);
        }
        if bytes > before {
            self.make_room(budget);
        }
    }

    /// Returns whether a budget is short, so that connections must not begin further requests.
    pub(crate) fn is_short(&self, budget: Budget) -> bool {
        self.held(budget) > part(self.max(budget), SHORT_PART)
    }

    /// Returns the peer of a connection.
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

    /// Returns the bytes that all connections hold, without condemned ones.
    fn held(&self, budget: Budget) -> usize {
        self.total(budget).load(Relaxed).saturating_sub(self.sums(budget).yielded.load(Relaxed))
    }

    /// Returns the bytes that untrusted connections hold, without condemned ones.
    fn held_untrusted(&self, budget: Budget) -> usize {
        let sums = self.sums(budget);
        sums.untrusted.load(Relaxed).saturating_sub(sums.yielded.load(Relaxed))
    }

    fn milliseconds(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Closes untrusted connections that together exceed their part of a budget. If a budget is
    /// exhausted, closes untrusted connections before trusted ones.
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

    /// Condemns connections while `exceeds` returns true, the largest holder of the largest address
    /// first.
    fn close_largest(
        &self,
        table: &mut AccountTable,
        budget: Budget,
        trusted: bool,
        exceeds: impl Fn() -> bool,
    ) {
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
                        Budget::Input => "unfinished requests hold too much memory",
                        Budget::Output => "unread replies hold too much memory",
                    },
                );
            }
            holders.bytes = holders.bytes.saturating_sub(bytes);
            heap.push(holders);
        }
    }

    /// Condemns a connection, and requests its shard to close it.
    fn condemn(&self, table: &mut AccountTable, account: &Arc<ConnectionAccount>, why: &'static str) {
        table.remove(account);
        account.condemned.store(true, Relaxed);
        for (budget, yielded) in [Budget::Input, Budget::Output].into_iter().zip(&account.yielded) {
            let bytes = account.holding(budget).bytes.load(Relaxed);
            // A record can grow until its shard closes the connection, but only slightly.
            yielded.store(bytes, Relaxed);
            self.sums(budget).yielded.fetch_add(bytes, Relaxed);
        }
        Stats::add(&self.stats.evicted, 1);
        self.stats.log_closed(account.peer, why);
        account.mailbox.evict(account.id);
    }
}

/// The connections of one address that hold memory, ordered by their sum.
struct Holders {
    bytes: usize,
    /// Bytes times milliseconds, bytes, and connection; the first victim is the last element.
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

impl AccountTable {
    fn oldest_untrusted(&self) -> Option<Arc<ConnectionAccount>> {
        let (_, address) = self.ranks.last()?;
        let (_, id) = self.untrusted.get(address)?.first_key_value()?;
        self.accounts.get(id).cloned()
    }

    fn remove(&mut self, account: &ConnectionAccount) {
        if self.accounts.remove(&account.id.0).is_some() && !account.is_trusted() {
            self.change_untrusted(account, false);
        }
    }

    /// Adds a connection to the untrusted ones, or removes it.
    fn change_untrusted(&mut self, account: &ConnectionAccount, untrusted: bool) {
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

    /// Returns the connections that hold bytes of a budget, by address.
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

/// Returns a part of a budget.
fn part(max: usize, (part, of): (usize, usize)) -> usize {
    max / of * part
}

/// Returns the address that identifies a peer: for IPv6 the /64 network, since one peer can use all
/// of its addresses.
pub fn address(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.into(),
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)).into(),
    }
}

#[cfg(test)]
mod tests;
