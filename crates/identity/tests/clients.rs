//! Clients by name: names that lead back, directories that fail, and strangers in numbers.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use orthrus_identity::{ClientDirectory, ClientName, ClientTimes, HostSource, NamedGroup, SourceError, Wait};
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

const S: Duration = Duration::from_secs(1);
const TIMES: ClientTimes = ClientTimes {
    expiry: Duration::from_secs(100),
    absence_expiry: Duration::from_secs(10),
    stale_expiry: Duration::from_secs(1000),
};

/// A directory that a test changes, breaks and holds.
#[derive(Clone, Default)]
struct TestHosts(Arc<(Mutex<TestHostState>, Condvar)>);

#[derive(Default)]
struct TestHostState {
    names: HashMap<IpAddr, String>,
    addresses: HashMap<String, Vec<IpAddr>>,
    netgroups: HashSet<(String, String)>,
    down: bool,
    /// Lookups of these networks wait until they are released.
    held: Option<[u8; 3]>,
    lookups: usize,
}

impl TestHosts {
    fn change(&self, change: impl FnOnce(&mut TestHostState)) {
        change(&mut self.0.0.lock().unwrap());
        self.0.1.notify_all();
    }

    /// Adds a host whose name leads to its address and back.
    fn host(&self, name: &str, address: &str) {
        self.change(|state| {
            state.names.insert(ip(address), name.to_owned());
            state.addresses.entry(name.to_owned()).or_default().push(ip(address));
        });
    }

    fn answer<T>(
        &self,
        of: Option<IpAddr>,
        found: impl FnOnce(&TestHostState) -> T,
    ) -> Result<T, SourceError> {
        let mut state = self.0.0.lock().unwrap();
        state.lookups += 1;
        let held = |state: &mut TestHostState| match (of, state.held) {
            (Some(IpAddr::V4(address)), Some(network)) => address.octets()[..3] == network,
            _ => false,
        };
        state = self.0.1.wait_while(state, held).unwrap();
        match state.down {
            true => Err(SourceError { what: "it".to_owned(), why: "it is down".to_owned() }),
            false => Ok(found(&state)),
        }
    }
}

impl HostSource for TestHosts {
    fn name(&self, address: IpAddr) -> Result<Option<String>, SourceError> {
        self.answer(Some(address), |state| state.names.get(&address).cloned())
    }

    fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, SourceError> {
        self.answer(None, |state| state.addresses.get(host).cloned().unwrap_or_default())
    }

    fn in_netgroup(&self, netgroup: &str, host: &str) -> Result<bool, SourceError> {
        self.answer(None, |state| state.netgroups.contains(&(netgroup.to_owned(), host.to_owned())))
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn names(directory: &TestHosts) -> Arc<ClientDirectory> {
    ClientDirectory::new(directory.clone(), TIMES, Duration::from_secs(30))
}

fn clients(names: &Arc<ClientDirectory>, name: &str) -> NamedGroup {
    names.clients(&name.parse::<ClientName>().unwrap(), Duration::ZERO)
}

/// Resolves at a time, and returns what is known.
fn known(group: &NamedGroup, client: &str, now: Duration) -> Option<bool> {
    let resolved = group.resolve(ip(client), now, Wait::Within(&Cell::new(Duration::from_secs(20))));
    assert_eq!(resolved, group.contains(ip(client), now).is_some());
    group.contains(ip(client), now)
}

/// Waits until a refresh in the background has its effect.
fn until(mut holds: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("it does not come");
}

#[test]
fn a_name_counts_only_if_it_leads_back_to_the_address() {
    let directory = TestHosts::default();
    directory.host("n1.hpc.example.org", "192.0.2.1");
    // The owner of an address chooses its name.
    directory.change(|state| _ = state.names.insert(ip("203.0.113.9"), "n1.hpc.example.org".into()));
    directory.change(|state| _ = state.names.insert(ip("203.0.113.8"), "n8.hpc.example.org".into()));
    directory.host("n1.other.org", "198.51.100.1");
    let names = names(&directory);
    let nodes = clients(&names, "*.HPC.example.org");
    assert_eq!(nodes.contains(ip("192.0.2.1"), S), None, "nothing is known before a lookup");
    assert_eq!(known(&nodes, "192.0.2.1", S), Some(true));
    assert_eq!(known(&nodes, "::ffff:192.0.2.1", S), Some(true));
    for stranger in ["203.0.113.9", "203.0.113.8", "198.51.100.1", "198.51.100.2"] {
        assert_eq!(known(&nodes, stranger, S), Some(false), "{stranger}");
    }
    let said = |address| nodes.known_as(ip(address), S).unwrap();
    assert!(said("203.0.113.9").contains("n1.hpc.example.org does not lead back"), "{}", said("203.0.113.9"));
    assert_eq!(said("198.51.100.2"), "it has no name");
    assert_eq!(said("192.0.2.1"), "its name is n1.hpc.example.org");
}

#[test]
fn a_netgroup_has_hosts_by_name_by_address_and_by_a_first_name_that_leads_back() // netgroup(5)
{
    let directory = TestHosts::default();
    directory.host("a.example.org", "192.0.2.1");
    directory.host("b.example.org", "192.0.2.2");
    directory.change(|state| _ = state.addresses.insert("b".into(), vec![ip("192.0.2.2")]));
    // The same first name in the domain of a stranger.
    directory.host("b.evil.net", "203.0.113.9");
    directory.change(|state| {
        for host in ["a.example.org", "b", "192.0.2.3"] {
            state.netgroups.insert(("trusted".into(), host.into()));
        }
    });
    let names = names(&directory);
    let trusted = clients(&names, "@trusted");
    for (address, member) in [
        ("192.0.2.1", true),
        ("192.0.2.2", true),
        ("192.0.2.3", true),
        ("192.0.2.4", false),
        ("203.0.113.9", false),
    ] {
        assert_eq!(known(&trusted, address, S), Some(member), "{address}");
    }
}

#[test]
fn a_directory_that_is_down_admits_no_stranger_and_keeps_known_clients_for_a_time() {
    let directory = TestHosts::default();
    directory.host("n1.example.org", "192.0.2.1");
    let names = names(&directory);
    let (nodes, host) = (clients(&names, "*.example.org"), clients(&names, "n1.example.org"));
    for group in [&nodes, &host] {
        assert_eq!(known(group, "192.0.2.1", S), Some(true));
        assert_eq!(known(group, "192.0.2.7", S), Some(false));
    }
    directory.change(|state| state.down = true);
    for now in [50 * S, 150 * S, 500 * S, 999 * S] {
        assert_eq!(nodes.contains(ip("192.0.2.1"), now), Some(true), "{now:?}");
        assert_eq!(nodes.contains(ip("192.0.2.7"), now), Some(false), "{now:?}");
        assert_eq!(host.contains(ip("192.0.2.1"), now), Some(true), "{now:?}");
        assert_eq!(known(&nodes, "192.0.2.9", now), None, "a stranger is unknown");
        assert_eq!(host.contains(ip("192.0.2.9"), now), Some(false), "the host has not this address");
    }
    for group in [&nodes, &host] {
        assert_eq!(known(group, "192.0.2.1", 1100 * S), None, "the answer is too old");
    }
    directory.change(|state| state.down = false);
    for group in [&nodes, &host] {
        assert_eq!(known(group, "192.0.2.1", 1200 * S), Some(true));
    }
}

#[test]
fn a_lookup_that_failed_is_not_repeated_at_once() {
    let directory = TestHosts::default();
    directory.change(|state| state.down = true);
    let names = names(&directory);
    let nodes = clients(&names, "*.example.org");
    let count = || directory.0.0.lock().unwrap().lookups;
    assert_eq!(known(&nodes, "192.0.2.1", S), None);
    let before = count();
    assert_eq!(known(&nodes, "192.0.2.1", 2 * S), None);
    assert_eq!(count(), before);
    assert_eq!(known(&nodes, "192.0.2.1", 10 * S), None);
    assert!(count() > before);
}

#[test]
fn answers_that_have_expired_serve_until_the_new_ones_arrive() {
    let directory = TestHosts::default();
    directory.host("n1.example.org", "192.0.2.1");
    let names = names(&directory);
    let (nodes, host) = (clients(&names, "*.example.org"), clients(&names, "n1.example.org"));
    for group in [&nodes, &host] {
        assert_eq!(known(group, "192.0.2.1", S), Some(true));
    }
    // The host moves to another address.
    directory.change(|state| {
        state.names.clear();
        state.addresses.clear();
    });
    directory.host("n1.example.org", "192.0.2.2");
    for group in [&nodes, &host] {
        assert_eq!(group.contains(ip("192.0.2.1"), 50 * S), Some(true), "it is fresh");
        assert_eq!(group.contains(ip("192.0.2.1"), 150 * S), Some(true), "the lookup has only begun");
        until(|| group.contains(ip("192.0.2.1"), 151 * S) == Some(false));
        assert_eq!(known(group, "192.0.2.2", 151 * S), Some(true));
    }
    // As a reload does.
    directory.change(|state| state.addresses.clear());
    names.refresh(TIMES);
    for group in [&nodes, &host] {
        until(|| group.contains(ip("192.0.2.2"), 152 * S) == Some(false));
    }
}

#[test]
fn strangers_in_numbers_displace_no_client() {
    let directory = TestHosts::default();
    directory.host("n1.example.org", "192.0.2.1");
    let names = names(&directory);
    let nodes = clients(&names, "*.example.org");
    assert_eq!(known(&nodes, "192.0.2.1", S), Some(true));
    for stranger in 0..40_000_u32 {
        let address = IpAddr::V4((0x0a00_0000 + stranger).into());
        nodes.resolve(address, S, Wait::Within(&Cell::new(Duration::from_secs(20))));
    }
    directory.change(|state| state.down = true);
    assert_eq!(nodes.contains(ip("192.0.2.1"), S), Some(true));
}

#[test]
fn a_network_whose_names_hang_delays_no_other() {
    let directory = TestHosts::default();
    directory.host("n1.example.org", "192.0.2.1");
    directory.change(|state| state.held = Some([203, 0, 113]));
    let names = names(&directory);
    let nodes = clients(&names, "*.example.org");
    for last in 0..100 {
        // They are late, and nobody waits for them.
        assert!(!nodes.resolve([203, 0, 113, last].into(), S, Wait::Never));
    }
    assert_eq!(known(&nodes, "192.0.2.1", S), Some(true));
    directory.change(|state| state.held = None);
    until(|| nodes.contains([203, 0, 113, 99].into(), S) == Some(false));
}

#[test]
fn a_name_that_is_of_no_use_is_reported_with_the_reason() {
    let directory = TestHosts::default();
    directory.host("n1.example.org", "192.0.2.1");
    let names = names(&directory);
    let examine = |name: &str| names.examine(&name.parse().unwrap());
    assert_eq!((examine("n1.example.org"), examine("*.example.org")), (Ok(()), Ok(())));
    assert_eq!(examine("n2.example.org"), Err("the host n2.example.org has no address".to_owned()));
    directory.change(|state| state.down = true);
    assert!(examine("@trusted").unwrap_err().contains("it is down"));
    assert!(examine("n1.example.org").unwrap_err().contains("it is down"));
}
