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
//! A budget that is short stops connections before it costs any of them. An address that holds much
//! of the budget must not stop the others: those that hold little go on, into the rest of the
//! budget, and if they use it up, the address that holds most makes room.
//!
//! The sums are atomic numbers. Requests do not take the lock of the table; opening, trusting and
//! closing connections and making room do.

use crate::{Limits, Stats};
use rpc::ConnectionId;
use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};
use std::fmt::{Debug, Display};
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

/// The part of a budget above which one address crowds it. It is twice the part that 16 connections
/// of a client hold in unfinished requests, so a busy client does not, but a gateway in front of
/// many may.
const CROWDING_PART: (usize, usize) = (1, 8);
/// The part of a budget up to which an address may begin requests while others crowd it: some
/// requests of the largest size.
const LIGHT_PART: (usize, usize) = (1, 64);

/// The part of all places above which an address makes room for others with trusted connections,
/// too. A client uses a hundredth of it, and it leaves a site behind one gateway thousands.
const PLACES_PART: (usize, usize) = (1, 4);

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

impl Budget {
    /// Chooses the item of the budget.
    fn of<T>(self, [input, output]: &[T; 2]) -> &T {
        match self {
            Self::Input => input,
            Self::Output => output,
        }
    }
}

/// The two groups of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// The service has not vouched for any of its calls.
    Stranger,
    Trusted,
}

/// The part of a budget that one connection holds.
#[derive(Debug, Default)]
struct Holding {
    bytes: AtomicUsize,
    /// When it began to hold memory without progress, in milliseconds of the ledger's clock.
    since: AtomicU64,
}

/// Takes the connections that must make room: their shard, which alone can close them.
pub(crate) trait EvictionSink: Debug + Send + Sync {
    /// Requests the end of a connection.
    fn evict(&self, connection: ConnectionId);
}

/// The state of one connection that all threads share.
#[derive(Debug)]
pub(crate) struct ConnectionAccount {
    id: ConnectionId,
    /// Position in the order of arrival.
    order: u64,
    peer: SocketAddr,
    shard: Arc<dyn EvictionSink>,
    trusted: AtomicBool,
    /// Whether it was chosen to make room. Its shard closes it soon.
    condemned: AtomicBool,
    holdings: [Holding; 2],
    /// Bytes of both budgets that all connections of its address hold.
    address_bytes: Arc<[AtomicUsize; 2]>,
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

    fn standing(&self) -> Standing {
        if self.is_trusted() { Standing::Trusted } else { Standing::Stranger }
    }

    /// Returns whether the connection is about to be closed to make room.
    pub(crate) fn is_condemned(&self) -> bool {
        self.condemned.load(Relaxed)
    }

    fn holding(&self, budget: Budget) -> &Holding {
        budget.of(&self.holdings)
    }

    /// Returns when the last request was finished, in milliseconds of the ledger's clock.
    fn heard(&self) -> u64 {
        self.holding(Budget::Input).since.load(Relaxed)
    }
}

/// Sums of one budget.
#[derive(Debug, Default)]
struct Sums {
    /// Bytes of untrusted connections.
    untrusted: AtomicUsize,
    /// Bytes of condemned connections, which are free soon.
    yielded: AtomicUsize,
    /// Number of addresses that crowd the budget.
    crowding: AtomicUsize,
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
    untrusted: AddressPlaces,
    trusted: AddressPlaces,
    /// For each address, the number of connections, with condemned ones, and their bytes.
    addresses: HashMap<IpAddr, (usize, Arc<[AtomicUsize; 2]>)>,
}

/// The places of connections in the table, by address.
#[derive(Debug, Default)]
struct AddressPlaces {
    /// For each address, the numbers of its connections by their order of arrival.
    connections: HashMap<IpAddr, BTreeMap<u64, u64>>,
    /// Addresses by how many connections they have; among equals, that with the oldest is the last.
    ranks: BTreeSet<(usize, Reverse<u64>, IpAddr)>,
}

/// The reason why a connection has no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("all {places} of connections_max are in use; {address} has {count}")]
pub(crate) struct TableFull {
    places: usize,
    /// The address with most trusted connections, and their number.
    address: IpAddr,
    count: usize,
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

    /// Adds a connection. If the table is full, another one makes room.
    ///
    /// # Errors
    /// All connections are trusted, and those of no address have to make room.
    pub(crate) fn open(
        &self,
        id: ConnectionId,
        order: u64,
        peer: SocketAddr,
        shard: Arc<dyn EvictionSink>,
    ) -> Result<Arc<ConnectionAccount>, TableFull> {
        let mut table = self.lock();
        let address = address(peer.ip());
        if table.accounts.len() >= self.connections_max() {
            self.make_place(&mut table, address)?;
        }
        let account = Arc::new(ConnectionAccount {
            id,
            order,
            peer,
            shard,
            trusted: AtomicBool::new(false),
            condemned: AtomicBool::new(false),
            holdings: Default::default(),
            address_bytes: table.enter(address),
            yielded: Default::default(),
        });
        table.accounts.insert(id.0, account.clone());
        table.untrusted.add(&account);
        Ok(account)
    }

    /// Closes the oldest untrusted connection of the address with most of them. If there is none,
    /// the address with most trusted connections loses the one that has been silent for longest, if
    /// it has more than [`PLACES_PART`] and at least twice as many as the address of the newcomer:
    /// that leads to equal parts, and addresses with equal parts take nothing from each other.
    fn make_place(&self, table: &mut AccountTable, newcomer: IpAddr) -> Result<(), TableFull> {
        if let Some(victim) = table.oldest_untrusted() {
            self.condemn(table, &victim, "a newer connection takes its place");
            return Ok(());
        }
        let places = self.connections_max();
        let most = table.trusted.most();
        let (address, count) = most.map_or((newcomer, 0), |(address, of)| (address, of.len()));
        let full = TableFull { places, address, count };
        let own = table.trusted.connections.get(&newcomer).map_or(0, BTreeMap::len);
        if count <= part(places, PLACES_PART) || count < 2 * (own + 1) {
            return Err(full);
        }
        let of = most.into_iter().flat_map(|(_, of)| of.values());
        let silent = of.filter_map(|id| table.accounts.get(id)).min_by_key(|account| account.heard());
        let victim = silent.cloned().ok_or(full)?;
        self.condemn(table, &victim, format_args!("{full}, and a newer connection takes its place"));
        Ok(())
    }

    /// Removes a closed connection, and releases its memory.
    pub(crate) fn close(&self, account: &ConnectionAccount) {
        self.note(account, Budget::Input, 0, false);
        self.note(account, Budget::Output, 0, false);
        let mut table = self.lock();
        table.leave(address(account.peer.ip()));
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
        table.untrusted.remove(account);
        table.trusted.add(account);
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
        self.note_address(account, budget, bytes.wrapping_sub(before));
        if bytes > before {
            self.make_room(budget);
        }
    }

    /// Adds a difference to the bytes of an address, and counts the address while it crowds the
    /// budget.
    fn note_address(&self, account: &ConnectionAccount, budget: Budget, difference: usize) {
        let before = budget.of(&account.address_bytes).fetch_add(difference, Relaxed);
        let crowds = |bytes: usize| bytes > part(self.max(budget), CROWDING_PART);
        let crowding = &self.sums(budget).crowding;
        match (crowds(before), crowds(before.wrapping_add(difference))) {
            (false, true) => _ = crowding.fetch_add(1, Relaxed),
            (true, false) => _ = crowding.fetch_sub(1, Relaxed),
            _ => {}
        }
    }

    /// Returns whether a budget is short.
    pub(crate) fn is_short(&self, budget: Budget) -> bool {
        self.held(budget) > part(self.max(budget), SHORT_PART)
    }

    /// Returns whether a connection must not begin a further request, since a budget is short.
    pub(crate) fn is_short_for(&self, account: &ConnectionAccount, budget: Budget) -> bool {
        self.is_short(budget) && !(self.is_crowded(budget) && self.is_light(account, budget))
    }

    /// Returns whether an address crowds a budget.
    fn is_crowded(&self, budget: Budget) -> bool {
        self.sums(budget).crowding.load(Relaxed) > 0
    }

    fn is_light(&self, account: &ConnectionAccount, budget: Budget) -> bool {
        budget.of(&account.address_bytes).load(Relaxed) <= part(self.max(budget), LIGHT_PART)
    }

    /// Logs the memory of unfinished requests, and the address that holds most of it.
    pub(crate) fn log_short(&self) {
        self.stats.log_short(|| {
            let (held, max) = (self.held(Budget::Input), self.max(Budget::Input));
            let table = self.lock();
            let bytes = |of: &[AtomicUsize; 2]| Budget::Input.of(of).load(Relaxed);
            let held_by = table.addresses.iter().map(|(address, (_, of))| (bytes(of), *address));
            let most = held_by.max().map(|(bytes, address)| format!("; {address} holds {} MiB", bytes >> 20));
            let most = most.unwrap_or_default();
            format!("unfinished requests hold {} of {} MiB{most}", held >> 20, max >> 20)
        });
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
        budget.of(&self.sums)
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
        let is_overrun = || self.held_untrusted(budget) > part(max, UNTRUSTED_PART);
        let is_full = || self.held(budget) > max;
        if !is_overrun() && !is_full() {
            return;
        }
        let why = match budget {
            Budget::Input => "unfinished requests hold too much memory",
            Budget::Output => "unread replies hold too much memory",
        };
        let mut table = self.lock();
        // Another thread may have made room meanwhile.
        if is_overrun() {
            let target = part(max, UNTRUSTED_ROOM_PART);
            self.close_largest(&mut table, budget, Standing::Stranger, why, || {
                self.held_untrusted(budget) > target
            });
        }
        if is_full() {
            self.close_largest(&mut table, budget, Standing::Stranger, why, || {
                self.held(budget) > part(max, ROOM_PART)
            });
            self.close_largest(&mut table, budget, Standing::Trusted, why, is_full);
        }
    }

    /// Closes connections until the others hold at most `handover_bytes_max` of each budget.
    pub(crate) fn make_room_for_handover(&self) {
        let why = "all clients would wait while another process takes over its requests and replies";
        for budget in [Budget::Input, Budget::Output] {
            let exceeds = || self.held(budget) > self.limits.handover_bytes_max;
            let mut table = self.lock();
            for standing in [Standing::Stranger, Standing::Trusted] {
                self.close_largest(&mut table, budget, standing, why, exceeds);
            }
        }
    }

    /// Condemns connections while `exceeds` returns true, the largest holder of the largest address
    /// first.
    fn close_largest(
        &self,
        table: &mut AccountTable,
        budget: Budget,
        standing: Standing,
        why: &str,
        exceeds: impl Fn() -> bool,
    ) {
        if !exceeds() {
            return;
        }
        let now = self.milliseconds();
        let mut heap: BinaryHeap<Holders> = table.holders(budget, standing, now).into();
        while exceeds() {
            let Some(mut holders) = heap.pop() else { return };
            let Some((_, bytes, id)) = holders.connections.pop() else { continue };
            if let Some(account) = table.accounts.get(&id).cloned() {
                self.condemn(table, &account, why);
            }
            holders.bytes = holders.bytes.saturating_sub(bytes);
            heap.push(holders);
        }
    }

    /// Condemns a connection, and requests its shard to close it.
    fn condemn(&self, table: &mut AccountTable, account: &Arc<ConnectionAccount>, why: impl Display) {
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
        account.shard.evict(account.id);
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
        let (_, connections) = self.untrusted.most()?;
        let (_, id) = connections.first_key_value()?;
        self.accounts.get(id).cloned()
    }

    fn remove(&mut self, account: &ConnectionAccount) {
        if self.accounts.remove(&account.id.0).is_some() {
            let places = if account.is_trusted() { &mut self.trusted } else { &mut self.untrusted };
            places.remove(account);
        }
    }

    /// Counts a connection of an address, and returns the bytes of all of them.
    fn enter(&mut self, address: IpAddr) -> Arc<[AtomicUsize; 2]> {
        let (count, bytes) = self.addresses.entry(address).or_default();
        *count += 1;
        bytes.clone()
    }

    /// Counts a connection of an address that has closed.
    fn leave(&mut self, address: IpAddr) {
        if let Entry::Occupied(mut entry) = self.addresses.entry(address) {
            entry.get_mut().0 -= 1;
            if entry.get().0 == 0 {
                entry.remove();
            }
        }
    }

    /// Returns the connections that hold bytes of a budget, by address.
    fn holders(&self, budget: Budget, standing: Standing, now: u64) -> Vec<Holders> {
        let mut by_address: HashMap<IpAddr, Holders> = HashMap::new();
        for (id, account) in self.accounts.iter().filter(|(_, account)| account.standing() == standing) {
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

impl AddressPlaces {
    /// Returns the address with most connections, and these, the oldest first.
    fn most(&self) -> Option<(IpAddr, &BTreeMap<u64, u64>)> {
        let (_, _, address) = self.ranks.last()?;
        self.connections.get(address).map(|connections| (*address, connections))
    }

    fn add(&mut self, account: &ConnectionAccount) {
        self.change(account, |connections| _ = connections.insert(account.order, account.id.0));
    }

    fn remove(&mut self, account: &ConnectionAccount) {
        self.change(account, |connections| _ = connections.remove(&account.order));
    }

    /// Changes the connections of an address, and with them its rank.
    fn change(&mut self, account: &ConnectionAccount, change: impl FnOnce(&mut BTreeMap<u64, u64>)) {
        let address = address(account.peer.ip());
        let connections = self.connections.entry(address).or_default();
        let rank = |of: &BTreeMap<u64, u64>| {
            of.first_key_value().map(|(order, _)| (of.len(), Reverse(*order), address))
        };
        if let Some(rank) = rank(connections) {
            self.ranks.remove(&rank);
        }
        change(connections);
        match rank(connections) {
            Some(rank) => _ = self.ranks.insert(rank),
            None => _ = self.connections.remove(&address),
        }
    }
}

/// Returns a part of a whole.
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
