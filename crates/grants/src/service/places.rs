//! The places of connections: no address and no principal holds all of them.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::locked;

/// Most connections at a time; further ones wait in the backlog.
const GRANT_CONNECTIONS_MAX: usize = 64;
/// Most connections without a proof of identity from one IPv4 address; further ones are closed.
const GRANT_STRANGERS_MAX: usize = 8;
/// Most connections without a proof of identity from one IPv6 network of 64 bits, in which one host
/// can have every address; further ones are closed.
const GRANT_NETWORK_STRANGERS_MAX: usize = 16;
/// Most exchanges of one principal at a time; further ones are refused. Schedulers have no such
/// limit: one principal announces the runs of all users.
const GRANT_EXCHANGES_MAX: usize = 8;
/// Most exchanges of one node at a time; further ones are refused. An agent that starts again makes
/// new ones before the earlier ones end.
const GRANT_NODE_EXCHANGES_MAX: usize = 16;

/// Counts the places that each peer holds.
pub(super) struct PlaceCounts<K> {
    counts: Mutex<HashMap<K, usize>>,
    /// Rung when a place is free again.
    freed: Condvar,
}

/// A place of a peer, until it is dropped.
pub(super) struct CountedPlace<K: Eq + Hash> {
    counts: Arc<PlaceCounts<K>>,
    peer: K,
}

impl<K> Default for PlaceCounts<K> {
    fn default() -> Self {
        Self { counts: Mutex::default(), freed: Condvar::new() }
    }
}

impl<K: Clone + Eq + Hash> PlaceCounts<K> {
    /// Takes a place, unless the peer has `most` already.
    fn take(self: &Arc<Self>, peer: K, most: usize) -> Option<CountedPlace<K>> {
        let counts = locked(&self.counts);
        if counts.get(&peer).is_some_and(|count| *count >= most) {
            return None;
        }
        Some(self.count(counts, peer))
    }

    fn count(self: &Arc<Self>, mut counts: MutexGuard<'_, HashMap<K, usize>>, peer: K) -> CountedPlace<K> {
        *counts.entry(peer.clone()).or_default() += 1;
        CountedPlace { counts: self.clone(), peer }
    }
}

impl PlaceCounts<()> {
    /// Waits for one of the places that all connections share.
    pub(super) fn connection(self: &Arc<Self>) -> CountedPlace<()> {
        let is_full = |counts: &mut HashMap<(), usize>| {
            counts.get(&()).is_some_and(|count| *count >= GRANT_CONNECTIONS_MAX)
        };
        let counts = self.freed.wait_while(locked(&self.counts), is_full);
        self.count(counts.unwrap_or_else(PoisonError::into_inner), ())
    }
}

impl PlaceCounts<IpAddr> {
    /// Takes a place for a connection that has not proved its identity.
    pub(super) fn admit(self: &Arc<Self>, address: IpAddr) -> Option<CountedPlace<IpAddr>> {
        let (network, most) = network_of(address);
        self.take(network, most)
    }
}

impl PlaceCounts<String> {
    /// Takes a place for an exchange of a principal.
    ///
    /// # Errors
    /// The most that the principal may have.
    pub(super) fn exchange(
        self: &Arc<Self>,
        principal: &str,
        is_node: bool,
    ) -> Result<CountedPlace<String>, usize> {
        let most = if is_node { GRANT_NODE_EXCHANGES_MAX } else { GRANT_EXCHANGES_MAX };
        self.take(principal.to_owned(), most).ok_or(most)
    }
}

impl<K: Eq + Hash> Drop for CountedPlace<K> {
    fn drop(&mut self) {
        let mut counts = locked(&self.counts.counts);
        if let Some(count) = counts.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.peer);
            }
        }
        drop(counts);
        self.counts.freed.notify_all();
    }
}

/// Returns the network whose addresses count together, and the most strangers from it. An IPv4
/// address that is written as an IPv6 address counts as the former.
fn network_of(address: IpAddr) -> (IpAddr, usize) {
    match address.to_canonical() {
        IpAddr::V4(address) => (address.into(), GRANT_STRANGERS_MAX),
        IpAddr::V6(address) => {
            let network = Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX));
            (network.into(), GRANT_NETWORK_STRANGERS_MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn a_connection_beyond_the_most_waits_until_another_ends() {
        let counts: Arc<PlaceCounts<()>> = Arc::default();
        let mut held: Vec<_> = (0..GRANT_CONNECTIONS_MAX).map(|_| counts.connection()).collect();
        assert!(counts.take((), GRANT_CONNECTIONS_MAX).is_none(), "all places are taken");
        let (sender, receiver) = channel();
        let waiting = counts.clone();
        std::thread::spawn(move || sender.send(waiting.connection()));
        drop(held.pop());
        held.push(receiver.recv_timeout(Duration::from_secs(20)).expect("there is a place"));
        assert_eq!(locked(&counts.counts).get(&()), Some(&GRANT_CONNECTIONS_MAX));
    }

    fn admitted(counts: &Arc<PlaceCounts<IpAddr>>, addresses: &[String]) -> Vec<CountedPlace<IpAddr>> {
        addresses.iter().filter_map(|address| counts.admit(address.parse().unwrap())).collect()
    }

    #[test]
    fn a_host_with_all_addresses_of_a_network_has_the_places_of_one() {
        let counts = Arc::default();
        let network: Vec<_> = (0..64).map(|host| format!("2001:db8::{host}:1")).collect();
        let held = admitted(&counts, &network);
        assert_eq!(held.len(), GRANT_NETWORK_STRANGERS_MAX);
        assert_eq!(admitted(&counts, &["2001:db8:0:1::1".to_owned()]).len(), 1, "another network");
        drop(held);
        assert_eq!(admitted(&counts, &network).len(), GRANT_NETWORK_STRANGERS_MAX);
        assert!(locked(&counts.counts).is_empty(), "memory is bounded by the connections");
    }

    #[test]
    fn an_ipv4_address_counts_alone_however_it_is_written() {
        let counts = Arc::default();
        let written: Vec<_> =
            ["192.0.2.1", "::ffff:192.0.2.1"].repeat(8).into_iter().map(str::to_owned).collect();
        let held = admitted(&counts, &written);
        assert_eq!(held.len(), GRANT_STRANGERS_MAX);
        assert_eq!(admitted(&counts, &["::ffff:192.0.2.2".to_owned(), "192.0.2.3".to_owned()]).len(), 2);
    }
}
