//! The order in which connections are closed, tested without sockets.

use super::*;

/// The connections that a ledger has evicted.
#[derive(Debug, Default)]
struct EvictedConnections(Mutex<BTreeSet<u64>>);

impl EvictionSink for EvictedConnections {
    fn evict(&self, connection: ConnectionId) {
        assert!(self.0.lock().unwrap().insert(connection.0), "evicted once");
    }
}

struct LedgerWorld {
    ledger: Ledger,
    accounts: Vec<Arc<ConnectionAccount>>,
    evicted: Arc<EvictedConnections>,
}

impl LedgerWorld {
    fn new(limits: Limits) -> Self {
        let ledger = Ledger::new(Arc::new(limits), Arc::new(Stats::default()));
        Self { ledger, accounts: Vec::new(), evicted: Arc::default() }
    }

    /// Opens a connection from an address, and returns whether the table had room.
    fn open(&mut self, ip: &str) -> bool {
        let peer = SocketAddr::new(ip.parse().expect("an address"), 700);
        let order = self.accounts.len() as u64;
        let account = self.ledger.open(ConnectionId(order), order, peer, self.evicted.clone());
        let is_open = account.is_ok();
        self.accounts.extend(account);
        is_open
    }

    fn trust(&self, index: usize) {
        self.ledger.trust(&self.accounts[index]);
    }

    fn holds(&self, index: usize, bytes: usize) {
        self.ledger.note(&self.accounts[index], Budget::Input, bytes, false);
    }

    /// Waits until the ledger's clock shows more milliseconds.
    fn wait_for_clock(&self, milliseconds: u64) {
        let end = self.ledger.milliseconds() + milliseconds;
        while self.ledger.milliseconds() < end {
            std::thread::yield_now();
        }
    }

    /// Returns the condemned connections.
    fn gone(&self) -> Vec<usize> {
        let evicted = self.evicted.0.lock().unwrap();
        let gone = |account: &ConnectionAccount| {
            assert_eq!(account.is_condemned(), evicted.contains(&account.id.0));
            account.is_condemned()
        };
        (0..self.accounts.len()).filter(|index| gone(&self.accounts[*index])).collect()
    }

    fn input_bytes(&self) -> usize {
        self.ledger.stats.input_bytes.load(Relaxed)
    }
}

fn with_places(connections_max: usize) -> LedgerWorld {
    LedgerWorld::new(Limits { connections_max, ..Limits::default() })
}

fn with_input(input_bytes_max: usize) -> LedgerWorld {
    LedgerWorld::new(Limits { input_bytes_max, ..Limits::default() })
}

#[test]
fn a_full_table_makes_room_by_the_oldest_untrusted_connection_of_the_address_with_most() {
    let mut world = with_places(6);
    for ip in ["192.0.2.9", "192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.9"] {
        assert!(world.open(ip));
    }
    world.trust(1);
    assert!(world.open("198.51.100.7"));
    assert_eq!(world.gone(), [2], "1 is trusted, 0 is older but its address has fewer");
}

#[test]
fn among_addresses_with_equally_many_connections_the_oldest_one_makes_room() {
    let mut world = with_places(4);
    for ip in ["198.51.100.9", "192.0.2.7", "192.0.2.200", "192.0.2.1"] {
        assert!(world.open(ip));
    }
    for (newcomer, gone) in [("2001:db8::1", 0), ("192.0.2.3", 1), ("2001:db8:1::1", 2), ("10.0.0.1", 3)] {
        assert!(world.open(newcomer));
        assert!(world.accounts[gone].is_condemned(), "the oldest is {gone}");
    }
    assert!((4..8).all(|index| !world.accounts[index].is_condemned()), "the newcomers");
}

#[test]
fn newcomers_never_take_the_place_of_a_trusted_connection_of_an_address_with_its_part() {
    let mut world = with_places(8);
    for ip in ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"].repeat(2) {
        assert!(world.open(ip));
    }
    (0..8).for_each(|index| world.trust(index));
    assert!(!world.open("192.0.2.5"));
    world.ledger.close(&world.accounts[0]);
    assert!(world.open("192.0.2.5"));
    assert!(world.open("192.0.2.6"));
    assert_eq!(world.gone(), [8]);
}

#[test]
fn an_address_with_most_places_makes_room_until_others_have_as_many() {
    let mut world = with_places(16);
    (0..16).for_each(|_| assert!(world.open("192.0.2.1")));
    (0..16).for_each(|index| world.trust(index));
    // The first of them is in use again.
    world.wait_for_clock(1);
    world.ledger.note(&world.accounts[0], Budget::Input, 0, true);
    for index in 16..21 {
        assert!(world.open("192.0.2.2"));
        world.trust(index);
    }
    assert!(!world.open("192.0.2.2"), "11 are fewer than twice as many as 6");
    assert!(!world.open("192.0.2.1"), "nothing is gained by exchanging its own");
    assert_eq!(world.gone(), [1, 2, 3, 4, 5]);
    let full = TableFull { places: 16, address: address("192.0.2.1".parse().expect("v4")), count: 11 };
    assert_eq!(full.to_string(), "all 16 of connections_max are in use; 192.0.2.1 has 11");
}

#[test]
fn an_address_that_crowds_a_budget_stops_itself_and_no_address_that_holds_little() {
    let mut world = with_input(64_000);
    for ip in ["192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.3"] {
        assert!(world.open(ip));
    }
    (0..4).for_each(|index| world.trust(index));
    let waits = |world: &LedgerWorld| {
        let waits = |index: &usize| world.ledger.is_short_for(&world.accounts[*index], Budget::Input);
        (0..4).filter(waits).collect::<Vec<usize>>()
    };
    world.holds(0, 46_000);
    assert!(waits(&world).is_empty());
    world.holds(2, 2_500);
    assert_eq!(waits(&world), [0, 1, 2], "192.0.2.3 holds nothing");
    // All that remains is for the others; if they use it up, the address that crowds makes room.
    world.holds(3, 15_500);
    assert!(world.gone().is_empty());
    world.holds(3, 15_501);
    assert_eq!(world.gone(), [0]);
}

#[test]
fn a_budget_that_many_addresses_use_in_equal_parts_is_short_for_all_of_them() {
    let mut world = with_input(64_000);
    for index in 0..10 {
        assert!(world.open(&format!("192.0.2.{index}")));
        world.trust(index);
        world.holds(index, 5_000);
    }
    assert!(world.open("192.0.2.99"));
    assert!(world.accounts.iter().all(|account| world.ledger.is_short_for(account, Budget::Input)));
}

#[test]
fn a_lack_of_descriptors_costs_strangers_alone() {
    let mut world = with_places(10);
    assert!(world.open("192.0.2.1") && world.open("192.0.2.1") && world.open("192.0.2.2"));
    world.trust(0);
    world.ledger.evict_stranger("for the test");
    world.ledger.evict_stranger("for the test");
    world.ledger.evict_stranger("for the test");
    assert_eq!(world.accounts.iter().filter(|account| !account.is_condemned()).count(), 1);
    assert!(!world.accounts[0].is_condemned());
}

#[test]
fn the_addresses_of_one_ipv6_network_share_one_part() {
    let mut world = with_places(4);
    for ip in ["2001:db8:0:1::1", "2001:db8:0:2::1", "2001:db8:0:2::2", "2001:db8:0:2:ffff::3"] {
        assert!(world.open(ip));
    }
    assert!(world.open("192.0.2.1"));
    assert_eq!(world.gone(), [1]);
    assert_eq!(
        address("::ffff:192.0.2.1".parse().expect("mapped")),
        address("192.0.2.1".parse().expect("v4"))
    );
}

#[test]
fn the_largest_untrusted_holder_of_the_heaviest_address_goes_first() {
    let mut world = with_input(1000);
    // The attacker has two addresses; a newcomer holds more than either of its single connections.
    for ip in ["192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.9", "198.51.100.7"] {
        assert!(world.open(ip));
    }
    world.trust(4);
    world.holds(4, 300);
    world.holds(3, 80);
    world.holds(0, 50);
    world.holds(1, 70);
    assert!(world.gone().is_empty(), "strangers may hold 250 of 1000");
    world.holds(2, 51);
    assert_eq!(world.gone(), [1], "the largest of the address with most, which is room enough");
}

#[test]
fn strangers_alone_never_make_memory_short_for_trusted_connections() {
    let mut world = with_input(1600);
    assert!(world.open("192.0.2.1"));
    world.trust(0);
    world.holds(0, 700);
    for index in 1..100 {
        assert!(world.open("198.51.100.7"));
        world.holds(index, 90);
        assert!(!world.ledger.is_short(Budget::Input), "after {index} strangers");
    }
    assert!(!world.gone().contains(&0));
    assert!(world.ledger.held_untrusted(Budget::Input) <= 400);
}

#[test]
fn a_budget_that_is_used_up_costs_strangers_before_trusted_connections() {
    let mut world = with_input(1000);
    for ip in ["192.0.2.1", "192.0.2.2", "192.0.2.3"] {
        assert!(world.open(ip));
    }
    world.trust(0);
    world.holds(1, 100);
    world.holds(2, 140);
    world.holds(0, 760);
    assert!(world.gone().is_empty(), "all of 1000 are used, and none more");
    world.holds(0, 800);
    assert_eq!(world.gone(), [1, 2]);
}

#[test]
fn a_record_that_was_left_unfinished_goes_before_one_in_transit_of_the_same_address() {
    let mut world = with_input(1000);
    (0..3).for_each(|_| assert!(world.open("127.0.0.1")));
    world.holds(0, 100);
    world.wait_for_clock(30);
    world.holds(1, 110);
    world.holds(2, 60);
    assert_eq!(world.gone(), [0]);
}

#[test]
fn trusted_connections_go_only_when_all_of_the_budget_is_used() {
    let mut world = with_input(1000);
    for ip in ["192.0.2.1", "192.0.2.1", "192.0.2.2"] {
        assert!(world.open(ip));
    }
    (0..3).for_each(|index| world.trust(index));
    world.holds(2, 400);
    world.holds(0, 300);
    world.holds(1, 300);
    assert!(world.gone().is_empty(), "all of 1000 are used, and none more");
    assert!(world.ledger.is_short(Budget::Input));
    world.holds(0, 301);
    let gone = world.gone();
    assert!(gone == [0] || gone == [1], "{gone:?}: the address that holds most");
}

#[test]
fn all_that_was_counted_is_given_back_in_every_order() {
    let mut world = with_input(1000);
    (0..4).for_each(|_| assert!(world.open("192.0.2.1")));
    world.holds(0, 200);
    world.trust(0);
    world.holds(1, 130);
    world.holds(2, 130);
    let gone = world.gone();
    assert_eq!(gone.len(), 1);
    // A record may still grow before its shard closes it.
    world.holds(gone[0], 500);
    world.trust(gone[0]);
    world.ledger.note(&world.accounts[3], Budget::Output, 70, true);
    world.accounts.iter().for_each(|account| world.ledger.close(account));
    assert_eq!((world.input_bytes(), world.ledger.stats.output_bytes.load(Relaxed)), (0, 0));
    let sums = &world.ledger.sums;
    assert!(sums.iter().all(|sums| sums.untrusted.load(Relaxed) == 0 && sums.yielded.load(Relaxed) == 0));
    let table = world.ledger.lock();
    assert!(sums.iter().all(|sums| sums.crowding.load(Relaxed) == 0));
    assert!(table.accounts.is_empty() && table.addresses.is_empty());
    for places in [&table.untrusted, &table.trusted] {
        assert!(places.connections.is_empty() && places.ranks.is_empty());
    }
}

#[test]
fn a_handover_leaves_little_memory_and_the_address_that_holds_most_makes_room() {
    let mut world = LedgerWorld::new(Limits { handover_bytes_max: 10_000, ..Limits::default() });
    for ip in ["192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.3"] {
        assert!(world.open(ip));
    }
    (0..4).for_each(|index| world.trust(index));
    let replies =
        |index: usize, bytes| world.ledger.note(&world.accounts[index], Budget::Output, bytes, false);
    (0..3).for_each(|index| replies(index, 5_000));
    replies(3, 4_000);
    world.holds(3, 9_000);
    world.ledger.make_room_for_handover();
    let gone = world.gone();
    assert!(gone.len() == 2 && gone.iter().all(|index| *index < 3), "{gone:?} of 192.0.2.1");
    // A stranger goes first.
    world.holds(4, 2_000);
    world.ledger.make_room_for_handover();
    assert!(world.accounts[4].is_condemned() && !world.accounts[3].is_condemned());
}
